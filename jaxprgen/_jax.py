"""The only door to JAX's internals, and the only place with JAX-version branches.

Versions understood: 0.7.1 and newer. What is public in `jax` is imported from there by
the modules that need it; what is re-exported here has no public name in at least one of them.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, final

import jax
import numpy as np
from jax._src import checkify as _checkify
from jax._src import config as _config
from jax._src import core as _core
from jax._src import effects as _effects
from jax._src import mesh as _mesh
from jax._src import pjit as _pjit
from jax._src import source_info_util as _source_info_util
from jax._src.lax import lax as _lax
from jax._src.lax import special as _special
from jax._src.named_sharding import UNSPECIFIED as _UNSPECIFIED
from jax.extend.core import ClosedJaxpr, Jaxpr, JaxprEqn, Primitive
from jax.extend.core import primitives as _primitives
from jax.sharding import NamedSharding, PartitionSpec

__all__ = [
    "ClosedJaxpr",
    "Jaxpr",
    "JaxprEqn",
    "Literal",
    "Primitive",
    "ShapedArray",
    "Tracer",
    "Var",
]

VERSION: tuple[int, ...] = jax.__version_info__

ShapedArray = _core.ShapedArray
if TYPE_CHECKING:
    # JAX says of an atom's type only that it is abstract; all of ours are arrays.
    @final
    class Var(_core.Var):
        aval: ShapedArray  # type: ignore[assignment]

    @final
    class Literal:
        val: Any
        aval: ShapedArray

        def __init__(self, val: Any, aval: ShapedArray) -> None: ...
else:
    from jax.extend.core import Literal, Var
Tracer = _core.Tracer
check_jaxpr = _core.check_jaxpr
check_eqn = _core.check_eqn
type_of = _core.shaped_abstractify
source_info = _source_info_util.new_source_info
no_effects: frozenset[Any] = _effects.no_effects  # type: ignore[assignment]
eqn_context = (
    _core.JaxprEqnContext
    if VERSION >= (0, 8)
    else lambda: _core.JaxprEqnContext(None, _config.threefry_partitionable.value)  # type: ignore[call-arg]
)
trace_context = _config.trace_context
eval_context = _core.eval_context
trace_state_clean = _core.trace_state_clean
checks_enabled = _config.enable_checks


NARROW = {
    np.dtype(wide): np.dtype(narrow)
    for wide, narrow in {
        "int64": "int32",
        "uint64": "uint32",
        "float64": "float32",
        "complex128": "complex64",
    }.items()
}


def x64_enabled() -> bool:
    """Whether JAX computes with 64-bit numbers now."""
    return bool(_config.enable_x64.value)


def canonicalize_dtype(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """The dtype JAX computes in for a NumPy dtype: itself, or 32 bits wide where x64 is off."""
    return dtype if _config.enable_x64.value else NARROW.get(dtype, dtype)


@functools.lru_cache(maxsize=8192)
def array_type(shape: tuple[int, ...], dtype: np.dtype[Any]) -> ShapedArray:
    """The aval of an unsharded, strongly typed array; equal arguments give the same object."""
    return ShapedArray(shape, dtype)


def is_plain(aval: ShapedArray) -> bool:
    """Whether a type is all said by shape and dtype: no mesh, no varying axes, not weak."""
    return aval.sharding.mesh.empty and not aval.weak_type


def ambient_mesh_is_empty() -> bool:
    """Whether no mesh is set around the caller, so that new arrays are unsharded."""
    return _mesh.get_abstract_mesh().empty


def replicated(ndim: int) -> Any:
    """The sharding of an array that is the same on every device of the ambient mesh."""
    return NamedSharding(_mesh.get_abstract_mesh(), PartitionSpec(*[None] * ndim))


def abstract_eval(
    primitive: Primitive, avals: Sequence[Any], params: dict[str, Any]
) -> tuple[list[Any], frozenset[Any]]:
    """JAX's own typing rule of a primitive: the output types and the effects."""
    out, effects = primitive.abstract_eval(*avals, **params)
    return (list(out) if primitive.multiple_results else [out]), effects


# --- Axes of shard_map over which a value varies -----------------------------------------

if VERSION >= (0, 8):

    def varying_axes(aval: ShapedArray) -> frozenset[Any]:
        """The manual mesh axes over which a value of this type differs between devices."""
        axes = getattr(aval, "manual_axis_type", None)
        return axes.varying if axes is not None else aval.vma  # type: ignore[attr-defined]

    _PVARY_PARAMS: dict[str, Any] = {}
else:

    def varying_axes(aval: ShapedArray) -> frozenset[Any]:
        """The manual mesh axes over which a value of this type differs between devices."""
        return aval.vma  # type: ignore[attr-defined]

    _PVARY_PARAMS = {"axis_index_groups": None}

pvary_p = _core.pvary_p


def pvary_params(axes: tuple[Any, ...]) -> dict[str, Any]:
    """Parameters of the primitive that lets a value vary over ``axes``."""
    return {"axes": axes, **_PVARY_PARAMS}


# --- Primitives --------------------------------------------------------------------------

_NOT_EXPORTED = {"igamma_grad_a": _special.igamma_grad_a_p}


def primitive(name: str) -> Primitive:
    """The JAX primitive ``name_p`` of `jax.extend.core.primitives`."""
    found = getattr(_primitives, f"{name}_p", None)
    return _NOT_EXPORTED[name] if found is None else found


_ACCURACY = {"exp", "exp2", "log", "expm1", "log1p", "tanh", "sin", "cos", "tan"} | {
    *("sqrt", "rsqrt", "cbrt", "logistic"),
    *(("erfc",) if VERSION >= (0, 12) else ()),
}
_OUT_SHARDING = (
    frozenset({"reduce_sum", "reduce_max", "reduce_min"})
    if VERSION >= (0, 12)
    else frozenset({"reduce_sum"})
    if VERSION >= (0, 8)
    else frozenset()
)


def default_params(name: str) -> dict[str, Any]:
    """The parameters that primitive ``name`` takes for options this package leaves alone."""
    params: dict[str, Any] = {}
    if name in _ACCURACY:
        params["accuracy"] = None
    if name == "mul" and VERSION >= (0, 8):
        params["out_dtype"] = None
    if name in _OUT_SHARDING:
        params["out_sharding"] = None
    return params


def matmul_precision() -> Any:
    """The ``precision`` of products that the user's ``jax_default_matmul_precision`` asks for."""
    return _lax.canonicalize_precision(None)


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


# --- Programs ----------------------------------------------------------------------------


def closed_jaxpr(
    constvars: Sequence[Var],
    invars: Sequence[Var],
    outvars: Sequence[Any],
    eqns: Sequence[JaxprEqn],
    effects: frozenset[Any],
    consts: Sequence[Any],
    name: str,
    arg_names: Sequence[str],
    result_names: Sequence[str],
) -> ClosedJaxpr:
    """Close equations into a program; names serve JAX's messages and the StableHLO."""
    debug_info = _core.DebugInfo("jit", name, tuple(arg_names), tuple(result_names))
    jaxpr = Jaxpr(constvars, invars, outvars, eqns, effects, debug_info)  # type: ignore[arg-type]
    return ClosedJaxpr(jaxpr, list(consts))


def hoist_constants(closed: ClosedJaxpr) -> tuple[ClosedJaxpr, list[Any]]:
    """The program with its constants turned into leading inputs, and those constants."""
    jaxpr, consts = closed.jaxpr, list(closed.consts)
    if not consts:
        return closed, consts
    names = jaxpr.debug_info.arg_names or ("",) * len(jaxpr.invars)
    hoisted = closed_jaxpr(
        (),
        [*jaxpr.constvars, *jaxpr.invars],
        jaxpr.outvars,
        jaxpr.eqns,
        jaxpr.effects,  # type: ignore[arg-type]
        (),
        jaxpr.debug_info.func_src_info,
        [*(f"const_{i}" for i in range(len(consts))), *names[-len(jaxpr.invars) :]]
        if jaxpr.invars
        else [f"const_{i}" for i in range(len(consts))],
        jaxpr.debug_info.result_paths or ("",) * len(jaxpr.outvars),  # type: ignore[arg-type]
    )
    return hoisted, consts


def eval_jaxpr(closed: ClosedJaxpr, operands: Sequence[Any]) -> list[Any]:
    """The program's outputs, one equation after the other."""
    return _core.eval_jaxpr(closed.jaxpr, closed.consts, *operands)


jit_p = _pjit.jit_p
if VERSION >= (0, 12):
    from jax._src.api import Inline as _Inline  # type: ignore[attr-defined]

    _INLINE: dict[str, Any] = {"inline": _Inline.AUTO}
else:
    _INLINE = {"inline": False}


def jit_params(closed: ClosedJaxpr, name: str) -> dict[str, Any]:
    """Parameters of a ``jit`` equation that runs a program without constants of its own."""
    n_in, n_out = len(closed.jaxpr.invars), len(closed.jaxpr.outvars)
    return {
        "jaxpr": closed,
        "in_shardings": (_UNSPECIFIED,) * n_in,
        "out_shardings": (_UNSPECIFIED,) * n_out,
        "in_layouts": (None,) * n_in,
        "out_layouts": (None,) * n_out,
        "donated_invars": (False,) * n_in,
        "ctx_mesh": _mesh.get_concrete_mesh(),
        "name": name,
        "keep_unused": False,
        "compiler_options_kvs": (),
        **_INLINE,
    }
