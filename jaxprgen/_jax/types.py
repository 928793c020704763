"""Types of values, variables, and the settings under which JAX traces."""

from __future__ import annotations

import functools
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
from jax.sharding import NamedSharding, PartitionSpec

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
    from jax.extend.core import Literal as Literal
    from jax.extend.core import Var as Var
Tracer = _core.Tracer
ArrayImpl = _array.ArrayImpl
check_jaxpr = _core.check_jaxpr
check_eqn = _core.check_eqn
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
    """The aval of an unsharded, strongly typed array; equal arguments give the same object."""
    return interned(ShapedArray(shape, dtype))


@functools.lru_cache(maxsize=8192)
def interned(aval: ShapedArray) -> ShapedArray:
    """An equal aval, the same for all that are equal."""
    return aval


def types_of(xs: Sequence[Any]) -> tuple[ShapedArray, ...]:
    """The avals of arguments; equal ones are the same object."""
    if not ambient_mesh_is_empty():
        return tuple(interned(_core.shaped_abstractify(x)) for x in xs)  # type: ignore[arg-type]
    return tuple(
        array_type(x.shape, canonicalize_dtype(x.dtype))  # Looked up: 2 µs less.
        if type(x) is np.ndarray
        else interned(_core.shaped_abstractify(x))  # type: ignore[arg-type]
        for x in xs
    )


def type_of(x: Any) -> ShapedArray:
    """The aval of one argument."""
    return types_of((x,))[0]


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
