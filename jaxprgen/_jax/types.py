"""Types of values, variables, and the settings under which JAX traces."""

from __future__ import annotations

import functools
import inspect
import math
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, final

import jax
import numpy as np
from jax._src import (
    array as _array,
    config as _config,
    core as _core,
    effects as _effects,
    mesh as _mesh,
    random as _random,
)
from jax._src.interpreters import batching as _batching, partial_eval as _pe
from jax._src.random import prng
from jax.sharding import NamedSharding, PartitionSpec, SingleDeviceSharding

from jaxprgen._jax.core import Primitive
from jaxprgen._jax.sizes import bound

PRNGKeyArray: Any = prng.PRNGKeyArray

ShapedArray = _core.ShapedArray
if TYPE_CHECKING:
    # JAX declares only an abstract type for atoms. All atoms of this package are arrays.
    @final
    class Var(_core.Var):
        aval: ShapedArray  # type: ignore[assignment]

    @final
    class Literal:
        val: Any
        aval: ShapedArray

        def __init__(self, val: Any, aval: ShapedArray) -> None: ...
else:
    Literal = _core.Literal
    Var = _core.Var
Tracer = _core.Tracer
BatchTracer = _batching.BatchTracer
ArrayImpl = _array.ArrayImpl
check_jaxpr = _core.check_jaxpr
no_effects: frozenset[Any] = _effects.no_effects  # type: ignore[assignment]
eqn_context: Callable[[], Any] = (
    (lambda: _core.JaxprEqnContext(None, _config.threefry_partitionable.value))  # type: ignore[call-arg]
    if inspect.signature(_core.JaxprEqnContext).parameters  # JAX < 0.10.1.
    else _core.JaxprEqnContext
)
trace_context = _config.trace_context
eval_context = _core.eval_context
trace_state_clean = _core.trace_state_clean
checks_enabled = _config.enable_checks


identity = object.__hash__
"""Tell live objects apart, as `id` does. Python audits `id`, and the audit hook of filelock, which
JAX 0.12 imports, makes it ten times as slow (0.5 µs)."""


def slice_type(aval: ShapedArray) -> ShapedArray:
    """Return the type of one slice along the first axis."""
    return _core.mapped_aval(aval.shape[0], 0, aval)  # type: ignore[return-value]


def nbytes(aval: Any) -> float:
    """Return the size of a value of this type, in bytes: at most, so infinity for symbolic sizes.

    A type without a dtype has 0 bytes.
    """
    dtype = getattr(aval, "dtype", None)
    return math.prod(map(bound, aval.shape)) * dtype.itemsize if dtype is not None else 0


NARROW = {np.dtype(f"{kind}8"): np.dtype(f"{kind}4") for kind in "iuf"}
NARROW[np.dtype("c16")] = np.dtype("c8")


def x64_enabled() -> bool:
    """Return whether JAX currently computes with 64-bit numbers."""
    return bool(_config.enable_x64.value)


def canonicalize_dtype(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Return the dtype in which JAX computes: this one, or its 32-bit form if x64 is off."""
    return dtype if _config.enable_x64.value else NARROW.get(dtype, dtype)


def wrapped(array: np.ndarray[Any, Any] | np.generic, dtype: np.dtype[Any]) -> int | None:
    """Return an integer of an array that an integer dtype does not hold, or None."""
    if dtype == array.dtype or dtype.kind not in "iu" or not array.size:
        return None
    info = np.iinfo(dtype)
    extremes = int(array.min()), int(array.max())
    return next((x for x in extremes if not info.min <= x <= info.max), None)


@functools.lru_cache(maxsize=8192)
def array_type(shape: tuple[int, ...], dtype: np.dtype[Any]) -> ShapedArray:
    """Return the aval of an unsharded, strongly typed array."""
    return ShapedArray(shape, dtype)


def type_of(x: Any) -> ShapedArray:
    """Return the aval of an argument or of a `jax.ShapeDtypeStruct`, as `jax.typeof` does.

    Every call of a compiled function looks up its program by these types, and JAX takes 2 to 12 µs
    for each. This function is faster for arrays on one device, typed keys and NumPy arrays.
    """
    kind = type(x)
    if kind is ArrayImpl:
        sharding = x.sharding
        if type(sharding) is SingleDeviceSharding:
            return x.aval
        return _sharded_type(x.aval, sharding)
    if kind is np.ndarray and ambient_mesh_is_empty():
        return array_type(x.shape, canonicalize_dtype(x.dtype))
    if kind is PRNGKeyArray and x._base_array.ndim == 1:
        made_of = x._impl, x._base_array.aval, x._base_array.sharding
        found = _key_types.get(made_of)
        if found is None:
            found = _key_types[made_of] = _core.shaped_abstractify(x)  # type: ignore[arg-type]
        return found  # type: ignore[return-value]
    return _core.shaped_abstractify(x)  # type: ignore[arg-type,return-value]


def is_traceable(x: Any) -> bool:
    """Return whether JAX takes something as an array: not a string, a function or the like."""
    try:
        type_of(x)
    except TypeError:
        return False
    return True


_key_types: dict[Any, ShapedArray] = {}
"""The avals of single keys, by the implementation, type and sharding of the key data."""


@functools.lru_cache(maxsize=1024)
def _sharded_type(aval: ShapedArray, sharding: Any) -> ShapedArray:
    return _core.update_aval_with_sharding(aval, sharding)  # type: ignore[return-value]


def is_readable(x: Any) -> bool:
    """Return whether something is an array or number whose values can be read, in one place."""
    if isinstance(x, ArrayImpl):
        return len(x.sharding.device_set) == 1 and x.is_fully_addressable and not x.is_deleted()
    return isinstance(x, (np.ndarray, np.generic, bool, int, float, complex))


def default_platform() -> str:
    """Return the platform of the device on which JAX puts arrays now."""
    device: Any = _config.default_device.value
    return getattr(device, "platform", device) or jax.default_backend()


def runs_now() -> bool:
    """Return whether a jitted function runs when it is called now, as one compiled program."""
    return trace_state_clean() and not _config.disable_jit.value


def runs_once() -> bool:
    """Return whether it also runs once, and its results are returned whatever they are.

    Under ``jax_debug_nans`` and ``jax_debug_infs``, JAX runs a program again to find the equation
    that made such a number, and then raises.
    """
    return runs_now() and not (_config.debug_nans.value or _config.debug_infs.value)


def _programs_being_made() -> Iterator[Any]:
    """Yield the traces of programs that JAX makes of what is called now, from the inside out."""
    trace: Any = _core.trace_ctx.trace
    while trace is not None:
        if isinstance(trace, _pe.DynamicJaxprTrace):
            yield trace
        trace = getattr(trace, "parent_trace", None)


def is_staged() -> bool:
    """Return whether JAX makes a program of what is called now, as under ``jit`` or in ``scan``."""
    return any(True for _ in _programs_being_made())


def embeds_constants() -> bool:
    """Return whether JAX makes a program that will hold all arrays that are no arguments of it.

    That is so under ``jit``, unless JAX makes arguments of such arrays. A loop or a branch alone
    makes operands of them.
    """
    infos = (trace.frame.debug_info for trace in _programs_being_made())
    is_jitted = any(info and info.traced_for == "jit" for info in infos)
    return is_jitted and not _config.use_simplified_jaxpr_constants.value


def is_key(x: Any) -> bool:
    """Return whether something is a typed PRNG key or an array of such keys."""
    return jax.numpy.issubdtype(getattr(x, "dtype", np.bool_), jax.dtypes.prng_key)


def default_prng_impl() -> Any:
    """Return the random generator that JAX uses for keys that do not name one."""
    return _random.default_prng_impl()


def is_plain(aval: ShapedArray) -> bool:
    """Return whether a type is only shape and dtype: no mesh, no varying axes, not weak."""
    return aval.sharding.mesh.empty and not aval.weak_type


def ambient_mesh_is_empty() -> bool:
    """Return whether no mesh is set in the current context, so that new arrays are unsharded."""
    return _mesh.get_abstract_mesh().empty


def replicated(ndim: int) -> Any:
    """Return the sharding that copies an array to every device of the current mesh."""
    return NamedSharding(_mesh.get_abstract_mesh(), PartitionSpec(*[None] * ndim))


def abstract_eval(
    primitive: Primitive, avals: Sequence[Any], params: dict[str, Any]
) -> tuple[list[Any], frozenset[Any]]:
    """Return the result types and the effects that JAX infers for a primitive."""
    out, effects = primitive.abstract_eval(*avals, **params)
    return (list(out) if primitive.multiple_results else [out]), effects


# --- Axes of shard_map over which a value varies -----------------------------------------


def varying_axes(aval: ShapedArray) -> frozenset[Any]:
    """Return the manual mesh axes along which devices hold different values of this type."""
    axes = getattr(aval, "manual_axis_type", None)  # JAX >= 0.10.0.
    return axes.varying if axes is not None else aval.vma  # type: ignore[attr-defined]


pvary_p = _core.pvary_p
_PVARY_PARAMS = {"axis_index_groups": None} if jax.__version_info__ < (0, 8, 1) else {}


def pvary_params(axes: tuple[Any, ...]) -> dict[str, Any]:
    """Return the parameters of the primitive that lets a value vary along ``axes``."""
    return {"axes": axes, **_PVARY_PARAMS}
