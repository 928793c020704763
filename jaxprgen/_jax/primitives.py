"""Primitives, and the parameters that differ between versions of JAX."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np
from jax._src import callback as _callback
from jax._src import checkify as _checkify
from jax._src import debugging as _debugging
from jax._src import random as _random
from jax._src.lax import lax as _lax
from jax._src.lax import linalg as _linalg
from jax._src.lax.control_flow import loops as _loops
from jax.extend.core import JaxprEqn, Primitive
from jax.extend.core import primitives as _primitives

from jaxprgen._jax.types import VERSION, ShapedArray, prng

if VERSION >= (0, 12):
    from jax._src import flattree as _flattree  # type: ignore[attr-defined]
else:
    _flattree: Any = None

_NOT_EXPORTED = {
    "geqrf": _linalg.geqrf_p,
    "optimization_barrier": _lax.optimization_barrier_p,
    "random_wrap": prng.random_wrap_p,
}


def primitive(name: str) -> Primitive:
    """The JAX primitive ``name_p`` of `jax.extend.core.primitives`."""
    found = getattr(_primitives, f"{name}_p", None)
    return _NOT_EXPORTED[name] if found is None else found


_ACCURACY = {"exp", "exp2", "log", "expm1", "log1p", "tanh", "sin", "cos", "tan"} | {
    *("sqrt", "rsqrt", "cbrt", "logistic"),
    *(("erfc",) if VERSION >= (0, 12) else ()),
}
_SHARDING = frozenset({"broadcast_in_dim", "convert_element_type", "iota", "reshape"})
_OUT_SHARDING = (
    frozenset({"reduce_sum", "reduce_max", "reduce_min"})
    if VERSION >= (0, 12)
    else frozenset({"reduce_sum"})
    if VERSION >= (0, 8)
    else frozenset()
)
if "out_sharding" in inspect.signature(jax.lax.conv_general_dilated).parameters:
    _OUT_SHARDING |= {"conv_general_dilated"}


def default_prng_impl() -> Any:
    """The generator that legacy keys, which do not say theirs, are meant for."""
    return _random.default_prng_impl()


def default_params(name: str) -> dict[str, Any]:
    """The parameters that primitive ``name`` takes for options this package leaves alone."""
    params: dict[str, Any] = {}
    if name in _ACCURACY:
        params["accuracy"] = None
    if name == "mul" and VERSION >= (0, 8):
        params["out_dtype"] = None
    if name in _OUT_SHARDING:
        params["out_sharding"] = None
    if name in _SHARDING:
        params["sharding"] = None
    return params


def matmul_precision() -> Any:
    """The ``precision`` of products that the user's ``jax_default_matmul_precision`` asks for."""
    return _lax.canonicalize_precision(None)


# --- Callbacks ---------------------------------------------------------------------------

pure_callback_p = _callback.pure_callback_p


def callback_params(function: Any, count: int, avals: Sequence[ShapedArray]) -> dict[str, Any]:
    """Parameters of a ``pure_callback`` equation that calls ``function`` with ``count`` arrays."""
    arguments = jax.tree.structure(((0,) * count, {}))
    return {
        "callback": _callback._FlatCallback(function, arguments),  # type: ignore[attr-defined]
        "result_avals": tuple(avals),
        "sharding": None,
        "vmap_method": "sequential",
    }


# Between JAX 0.7 and 0.10 both learnt of implementations to choose from, and one of derivatives.
_EIG, _EIGH = (inspect.signature(f).parameters for f in (_linalg.eig, _linalg.eigh))


def eig_params() -> dict[str, Any]:
    """The parameters of ``eig`` for right eigenvectors alone."""
    params: dict[str, Any] = {
        "compute_left_eigenvectors": False,
        "compute_right_eigenvectors": True,
    }
    if "enable_eigvec_derivs" in _EIG:
        params["enable_eigvec_derivs"] = False
    return {**params, "implementation" if "implementation" in _EIG else "use_magma": None}


def eigh_params(lower: bool) -> dict[str, Any]:
    """The parameters of ``eigh`` for all eigenvalues, in ascending order."""
    params: dict[str, Any] = {"lower": lower, "sort_eigenvalues": True, "subset_by_index": None}
    return {**params, "algorithm": None} if "implementation" in _EIGH else params


def top_k_params(k: int, axis: int) -> dict[str, Any]:
    """The parameters of ``top_k`` over the last axis, which JAX < 0.8 always takes."""
    params: dict[str, Any] = {"k": k}
    if VERSION >= (0, 8):
        params["axis"] = axis
    if VERSION >= (0, 12):
        params["is_stable"] = True
    return params


_SCAN = inspect.signature(_loops._scan_impl).parameters  # type: ignore[attr-defined]


def scan_params(
    jaxpr: Any,
    length: int,
    constants: int,
    carries: int,
    arrays: int,
    *,
    reverse: bool,
    unroll: int,
) -> dict[str, Any]:
    """The parameters of a ``scan`` with this body over so many steps, or from the last one on."""
    params: dict[str, Any] = {"reverse": reverse, "length": length, "jaxpr": jaxpr}
    if "ft_in" in _SCAN:
        of = _flattree.nones
        results = len(jaxpr.jaxpr.outvars) - carries
        stacked = of(results).filter_with_mask([True] * results)
        params["ft_in"] = _flattree.pack((of(constants), of(carries), of(arrays)))
        params["ft_out"] = _flattree.pack((of(carries), stacked))
    else:
        params |= {"num_consts": constants, "num_carry": carries}
    if "linear" in _SCAN:
        params["linear"] = (False,) * (constants + carries + arrays)
    params["unroll"] = unroll
    return {**params, "_split_transpose": False} if "_split_transpose" in _SCAN else params


def restricted_scan_params(
    eqn: JaxprEqn, operands: Sequence[bool], results: Sequence[bool]
) -> dict[str, Any]:
    """Return the parameters of a ``scan`` that count and mark operands, if it keeps only some.

    The program is not among them.
    """
    params = eqn.params
    if "ft_in" in params:
        found: dict[str, Any] = {
            "ft_in": params["ft_in"].filter_with_mask(list(operands)),
            "ft_out": params["ft_out"].filter_with_mask(list(results)),
        }
    else:
        first = params["num_consts"]
        found = {
            "num_carry": sum(operands[first : first + params["num_carry"]]),
            "num_consts": sum(operands[:first]),
        }
    if "linear" in params:
        pairs = zip(params["linear"], operands, strict=True)
        found["linear"] = tuple(x for x, keep in pairs if keep)
    return found


def scan_params_of_constants(eqn: JaxprEqn, jaxpr: Any, constants: int) -> dict[str, Any]:
    """The parameters of a ``scan`` that keeps this body, of so many constants."""
    params = {**eqn.params, "jaxpr": jaxpr}
    if "ft_in" in params:
        _, carries, arrays = params["ft_in"].unpack()
        params["ft_in"] = _flattree.pack((_flattree.nones(constants), carries, arrays))
        return params
    before = params["num_consts"]
    params["num_consts"] = constants
    if "linear" in params:
        linear = params["linear"]
        more = (False,) * (constants - before)
        params["linear"] = (*linear[:before], *more, *linear[before:])
    return params


# --- Callbacks ---------------------------------------------------------------------------

debug_callback_p = _debugging.debug_callback_p


def debug_callback_params(function: Callable[..., Any]) -> dict[str, Any]:
    """The parameters that run a Python function on the host, after those called before."""

    def callback(*operands: Any) -> tuple[()]:
        function(*operands)
        return ()

    effect = _debugging.ordered_debug_effect
    return {"callback": callback, "effect": effect, "partitioned": False}


# --- Checks ------------------------------------------------------------------------------

check_p = _checkify.check_p


def check_params(message: str) -> tuple[np.ndarray[Any, Any], dict[str, Any]]:
    """Second operand and parameters of a ``check`` equation whose first operand says "failed".

    What `jax.experimental.checkify.check` makes: a pytree of one error, whose leaves (does it
    hold? which one is it?) are the operands. JAX < 0.12 numbers errors globally.
    """
    numbered = VERSION < (0, 12)
    code = np.asarray(_checkify.next_code(), np.int64) if numbered else np.asarray(0, np.int32)
    text = message.replace("{", "{{").replace("}", "}}")
    error = _checkify.FailedCheckError(_checkify.get_traceback(), text)
    payload, metadata = jax.tree.flatten(error)
    effect = error.get_effect_type()
    tree = _checkify.Error({effect: True}, {effect: code}, {int(code): metadata}, {effect: payload})  # type: ignore[arg-type]
    return code, {"err_tree": jax.tree.structure(tree), "debug": False}
