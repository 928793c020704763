"""Types of values, variables, and the settings under which JAX traces."""

from __future__ import annotations

import functools
import importlib
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, final

import jax
import numpy as np
from jax._src import array as _array
from jax._src import config as _config
from jax._src import core as _core
from jax._src import effects as _effects
from jax._src import mesh as _mesh
from jax.extend.core import Primitive
from jax.sharding import NamedSharding, PartitionSpec, SingleDeviceSharding

VERSION: tuple[int, ...] = jax.__version_info__

# A module beside `jax._src.random` before JAX 0.10, then one in it.
prng: Any = importlib.import_module(
    "jax._src.prng" if VERSION < (0, 10) else "jax._src.random.prng"
)
PRNGKeyArray: Any = prng.PRNGKeyArray

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
    from jax.extend.core import Literal as Literal
    from jax.extend.core import Var as Var
Tracer = _core.Tracer
ArrayImpl = _array.ArrayImpl
check_jaxpr = _core.check_jaxpr
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


identity = object.__hash__
"""What tells live objects apart, as `id` does; that is audited, and a hook that JAX 0.12 brings
(filelock's) makes it take 0.5 µs, ten times as long."""


def slice_type(aval: ShapedArray) -> ShapedArray:
    """The type of one slice along the first axis."""
    return _core.mapped_aval(aval.shape[0], 0, aval)  # type: ignore[return-value]


def nbytes(aval: Any) -> int:
    """The size of a value of this type, in bytes; types without a size have none."""
    dtype = getattr(aval, "dtype", None)
    return math.prod(aval.shape) * dtype.itemsize if dtype is not None else 0


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
    """Return the aval of an unsharded, strongly typed array."""
    return ShapedArray(shape, dtype)


def type_of(x: Any) -> ShapedArray:
    """Return the aval of an argument, as `jax.typeof` does, and of a `jax.ShapeDtypeStruct`.

    JAX takes 2 to 12 µs for each. Calls look for their program by these types, so the common
    cases are answered here: arrays of one device, typed keys, NumPy arrays.
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


_key_types: dict[Any, ShapedArray] = {}
"""The avals of single keys, by their implementation and by the type of their bits."""


@functools.lru_cache(maxsize=1024)
def _sharded_type(aval: ShapedArray, sharding: Any) -> ShapedArray:
    return _core.update_aval_with_sharding(aval, sharding)  # type: ignore[return-value]


def is_readable(x: Any) -> bool:
    """Whether something is an array of numbers whose values are at hand, here and now."""
    if isinstance(x, ArrayImpl):
        return x.is_fully_addressable and not x.is_deleted()
    return isinstance(x, (np.ndarray, np.generic, bool, int, float, complex))


def is_key(x: Any) -> bool:
    """Whether something is a typed PRNG key, or an array of them."""
    return jax.numpy.issubdtype(getattr(x, "dtype", np.bool_), jax.dtypes.prng_key)


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
