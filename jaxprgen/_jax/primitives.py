"""Primitives, and those of their parameters that depend on the version of JAX."""

from __future__ import annotations

import functools
import importlib
import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import numpy as np
from jax._src import callback as _callback, debugging as _debugging
from jax._src.lax import lax as _lax, linalg as _linalg
from jax._src.lax.control_flow import loops as _loops

from jaxprgen._jax.core import JaxprEqn, Primitive
from jaxprgen._jax.types import ShapedArray, prng, trace_context

_NOT_EXPORTED = {
    "geqrf": _linalg.geqrf_p,
    "lu_pivots_to_permutation": _linalg.lu_pivots_to_permutation_p,
    "optimization_barrier": _lax.optimization_barrier_p,
    "random_wrap": prng.random_wrap_p,
}


def primitive(name: str) -> Primitive:
    """Return the primitive that `jax.extend.core.primitives` calls ``name_p``."""
    found = getattr(_primitives(), f"{name}_p", None)
    return _NOT_EXPORTED[name] if found is None else found


def has_primitive(name: str) -> bool:
    """Return whether `primitive` finds a primitive of this name."""
    return hasattr(_primitives(), f"{name}_p") or name in _NOT_EXPORTED


def _primitives() -> Any:
    """Return the module that lists primitives. Loaded programs do without it."""
    return importlib.import_module("jax.extend.core.primitives")


def _options(name: str) -> Mapping[str, inspect.Parameter]:
    """Return the parameters of a function of `jax.lax`, by name."""
    return inspect.signature(getattr(jax.lax, name)).parameters


_ADDED = ("accuracy", "out_dtype", "out_sharding")
"""Options that JAX releases have added to functions one by one. A function passes the option on to
the primitive of the same name, so its signature shows what the installed primitive takes."""
_SHARDED = ("broadcast_in_dim", "convert_element_type", "iota", "reshape")
"""Primitives with a parameter for the sharding of the result, of another name than the option."""


def default_params(name: str) -> dict[str, Any]:
    """Return the parameters of a primitive for the options that this package never sets."""
    if name in _SHARDED:
        return {"sharding": None}
    return {k: x for k, x in _options_with_default(name).items() if k in _ADDED}


_NAMED_OTHERWISE = {("argmax", "axis"): "axes", ("argmin", "axis"): "axes"}
"""The parameters of equations whose name is not that of the parameter of the function."""


_UNANNOTATED = ("x", "a", "b", "key")
"""The operands of functions whose parameters have no annotations."""


@functools.cache
def _lax_function(name: str) -> Any:
    """Return the function of `jax.lax` that makes equations of a primitive from arrays, or None."""
    name = "broadcasted_iota" if name == "iota" else name.replace("-", "_")  # As in scatter-add.
    found = getattr(jax.lax, name, None) or getattr(jax.lax.linalg, name, None)
    if not callable(found) or str(found.__module__).endswith("parallel"):
        return None
    kinds = inspect.signature(found).parameters.values()
    return None if any("Callable" in str(x.annotation) for x in kinds) else found


@functools.cache
def required_params(name: str) -> tuple[str, ...]:
    """Return the parameters of a primitive for which the function of `jax.lax` has no default.

    Control flow, collectives and other primitives without such a function have none.
    """
    function = _lax_function(name)
    given = inspect.signature(function).parameters.values() if function else ()
    several = inspect.Parameter.VAR_POSITIONAL
    return tuple(
        _NAMED_OTHERWISE.get((name, x.name), x.name)
        for x in given
        if x.default is x.empty and x.kind is not several and not _is_operand(x)
    )


def _is_operand(x: inspect.Parameter) -> bool:
    return "Array" in str(x.annotation) or x.name in _UNANNOTATED


@functools.cache
def _options_with_default(name: str) -> dict[str, Any]:
    function = _lax_function(name)
    given = inspect.signature(function).parameters.values() if function else ()
    found = {x.name: x.default for x in given if x.default is not x.empty}
    found.pop("allow_negative_indices", None)  # No parameter of an equation.
    return found


def is_default(eqn: JaxprEqn, param: str) -> bool:
    """Return whether a parameter has the value that `jax.lax` gives it by default.

    Some defaults depend on the operands, such as the dtype of a product's result, or on JAX's
    settings, such as the precision of a product. So the function of `jax.lax` is traced on the
    equation's operands where the signature does not answer.
    """
    name, value = eqn.primitive.name, eqn.params[param]
    if param in required_params(name):
        return False
    options = _options_with_default(name)
    default = options.get("out_sharding" if param == "sharding" else param, options)
    if default is options or not are_same(default, value):
        given = {k: eqn.params[k] for k in required_params(name) if k in eqn.params}
        types = [x.aval for x in eqn.invars]
        default = _traced_params(name, types, given).get(param, options)
    return default is not options and are_same(default, value)


def are_same(x: Any, y: Any) -> bool:
    """Return whether two parameters are of one type and equal."""
    return x is y or (type(x) is type(y) and bool(np.all(x == y)))


def all_params(name: str, types: Sequence[Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """Return all parameters of an equation: those given, and those that `jax.lax` adds to them.

    Parameters
    ----------
    name
        The primitive.
    types
        The types of the operands.
    given
        Some of the parameters, at least those without a default.
    """
    params = {**default_params(name), **given}
    options = _options_with_default(name)
    named = {*params, *(["out_sharding"] if "sharding" in params else [])}
    if named.issuperset(options):
        return params
    passed = {k: x for k, x in given.items() if k in options or k in required_params(name)}
    return {**_traced_params(name, types, passed), **params}


def _traced_params(name: str, types: Sequence[Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the parameters of an equation that `jax.lax` makes; empty if it makes none of them."""
    key = name.replace("-", "_"), tuple(types), tuple(given.items()), trace_context()
    try:
        return _cached_params(*key)
    except TypeError:  # A parameter cannot be hashed.
        return _cached_params.__wrapped__(*key)


@functools.lru_cache(maxsize=1024)
def _cached_params(
    name: str, types: Sequence[Any], given: Sequence[tuple[str, Any]], _: Any
) -> dict[str, Any]:
    function = _lax_function(name)
    if function is None:
        return {}
    try:
        found = jax.make_jaxpr(lambda *xs: function(*xs, **dict(given)))(*types)
    except Exception:  # The function takes the operands or parameters in another form.
        return {}
    made = [e for e in found.jaxpr.eqns if e.primitive.name.replace("-", "_") == name]
    return made[-1].params if made and len(made[-1].invars) == len(types) else {}


def matmul_precision() -> Any:
    """Return the ``precision`` parameter for the user's ``jax_default_matmul_precision``."""
    return _lax.canonicalize_precision(None)


# --- Calls of Python functions on the host ------------------------------------------------

pure_callback_p = _callback.pure_callback_p


def callback_params(function: Any, count: int, avals: Sequence[ShapedArray]) -> dict[str, Any]:
    """Return the parameters of a ``pure_callback`` equation.

    Parameters
    ----------
    function
        The Python function, which gets one array per operand. ``vmap`` calls it once per element.
    count
        The number of operands.
    avals
        The types of the results.
    """
    arguments = jax.tree.structure(((0,) * count, {}))
    return {
        "callback": _callback._FlatCallback(function, arguments),  # type: ignore[attr-defined]
        "result_avals": tuple(avals),
        "sharding": None,
        "vmap_method": "sequential",
    }


debug_callback_p = _debugging.debug_callback_p


def debug_callback_params(function: Callable[..., Any]) -> dict[str, Any]:
    """Return the parameters of an equation that calls a Python function for its side effects.

    The calls happen in the order of the equations.
    """

    def callback(*operands: Any) -> tuple[()]:
        function(*operands)
        return ()

    effect = _debugging.ordered_debug_effect
    return {"callback": callback, "effect": effect, "partitioned": False}


# --- Decompositions and order -------------------------------------------------------------

_EIG, _EIGH = (inspect.signature(f).parameters for f in (_linalg.eig, _linalg.eigh))
_TOP_K = _options("top_k")


def eig_params() -> dict[str, Any]:
    """Return the parameters of ``eig`` for eigenvalues and right eigenvectors."""
    params: dict[str, Any] = {
        "compute_left_eigenvectors": False,
        "compute_right_eigenvectors": True,
    }
    if "enable_eigvec_derivs" in _EIG:  # JAX >= 0.10.1.
        params["enable_eigvec_derivs"] = False
    # JAX >= 0.8.0 names the implementation instead of one library.
    return {**params, "implementation" if "implementation" in _EIG else "use_magma": None}


def eigh_params(lower: bool) -> dict[str, Any]:
    """Return the parameters of ``eigh`` for all eigenvalues, in ascending order."""
    params: dict[str, Any] = {"lower": lower, "sort_eigenvalues": True, "subset_by_index": None}
    return {**params, "algorithm": None} if "implementation" in _EIGH else params  # JAX >= 0.8.1.


def top_k_params(k: int, axis: int) -> dict[str, Any]:
    """Return the parameters of ``top_k`` over the last axis, whose number is ``axis``.

    The parameter ``axis`` exists from JAX 0.8.1 on, and ``is_stable`` from JAX 0.11.0 on.
    """
    added = {"axis": axis, "is_stable": True}
    return {"k": k, **{name: x for name, x in added.items() if name in _TOP_K}}


# --- Scans --------------------------------------------------------------------------------

_SCAN = inspect.signature(_loops._scan_impl).parameters  # type: ignore[attr-defined]
# From JAX 0.11.0 on, `scan` groups its operands and results in flat trees instead of counting them.
_flattree: Any = importlib.import_module("jax._src.flattree") if "ft_in" in _SCAN else None


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
    """Return the parameters of a ``scan``.

    Parameters
    ----------
    jaxpr
        The body, from constants, carries and slices of arrays to carries and stacked results.
    length
        The number of steps.
    constants, carries, arrays
        The numbers of the body's operands of each sort.
    reverse
        Whether the last slice comes first.
    unroll
        The number of steps that are compiled as one.
    """
    params: dict[str, Any] = {"reverse": reverse, "length": length, "jaxpr": jaxpr}
    params |= _scan_layout(constants, carries, arrays, len(jaxpr.jaxpr.outvars) - carries)
    params["unroll"] = unroll
    return {**params, "_split_transpose": False} if "_split_transpose" in _SCAN else params


def restricted_scan_params(
    eqn: JaxprEqn, operands: Sequence[bool], results: Sequence[bool]
) -> dict[str, Any]:
    """Return the parameters that describe operands and results of a ``scan`` that keeps some.

    Parameters
    ----------
    eqn
        The equation with all of them.
    operands, results
        Which operands and results it keeps.

    Returns
    -------
    dict
        All parameters that change, except the body.
    """
    constants, carries = scan_counts(eqn)
    first = constants + carries
    arrays, stacked = sum(operands[first:]), sum(results[carries:])
    return _scan_layout(sum(operands[:constants]), sum(results[:carries]), arrays, stacked)


def _scan_layout(constants: int, carries: int, arrays: int, stacked: int) -> dict[str, Any]:
    """Return the parameters that say how many operands and results of each sort there are."""
    if "ft_in" in _SCAN:
        of = _flattree.nones
        results = of(carries), of(stacked).filter_with_mask([True] * stacked)
        inputs = of(constants), of(carries), of(arrays)
        return {"ft_in": _flattree.pack(inputs), "ft_out": _flattree.pack(results)}
    params: dict[str, Any] = {"num_consts": constants, "num_carry": carries}
    if "linear" in _SCAN:
        params["linear"] = (False,) * (constants + carries + arrays)
    return params


def scan_counts(eqn: JaxprEqn) -> tuple[int, int]:
    """Return the number of constants and of carries of a ``scan``, its leading operands."""
    if "ft_in" in _SCAN:
        constants, carry, _ = eqn.params["ft_in"].unpack()
        return len(list(constants)), len(list(carry))
    return eqn.params["num_consts"], eqn.params["num_carry"]
