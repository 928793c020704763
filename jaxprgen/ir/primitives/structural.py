"""Primitives that move elements: broadcasting, slices, joins, ranges, gather and scatter."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np
from jax.lax import GatherDimensionNumbers, GatherScatterMode, ScatterDimensionNumbers

from jaxprgen import _jax
from jaxprgen._jax import Jaxpr, Var
from jaxprgen.errors import EquationError
from jaxprgen.ir.builder import Atom, Builder
from jaxprgen.ir.primitives.appending import Dtype, Shape, append, named

# --- Shapes -----------------------------------------------------------------------------


def broadcast_in_dim(b: Builder, x: Atom, shape: Shape, dimensions: Sequence[int]) -> Var:
    """Repeat an array along new axes, and along axes of size one.

    Parameters
    ----------
    b : Builder
    x : atom
    shape : tuple of int
        The shape of the result.
    dimensions : sequence of int
        For each axis of ``x``, in ascending order, the axis of the result that it becomes.
    """
    along = tuple(dimensions)
    return append(b, "broadcast_in_dim", (x,), shape=shape, broadcast_dimensions=along)


def broadcast_to(b: Builder, x: Atom, shape: Shape) -> Atom:
    """Repeat an array along new leading axes and along axes of size one, as NumPy does.

    An array that has this shape already is returned as it is.
    """
    if x.aval.shape == shape:
        return x
    return broadcast_in_dim(b, x, shape, range(len(shape) - len(x.aval.shape), len(shape)))


def full(b: Builder, value: Any, shape: Shape, dtype: Dtype) -> Atom:
    """Return an array of one number; a literal if it has no axes."""
    return broadcast_to(b, b.literal(np.asarray(value, dtype)), shape)


def reshape(b: Builder, x: Atom, shape: Shape) -> Var:
    """Return the same elements, in row-major order, in another shape."""
    aval = None
    if b.plain and any(map(_jax.is_symbolic, shape)):  # JAX asks whether each size is negative.
        if math.prod(shape) != math.prod(x.aval.shape):
            raise EquationError(f"Cannot reshape {x.aval.shape} to {shape}.")
        aval = _jax.array_type(shape, x.aval.dtype)
    return append(b, "reshape", (x,), aval, new_sizes=shape, dimensions=None)


def optimization_barrier(b: Builder, x: Atom) -> Var:
    """Return ``x``, such that XLA does not optimize across this equation."""
    return b.bind_multiple(_jax.primitive("optimization_barrier"), (x,), {})[0]


def sharding_constraint(b: Builder, x: Atom, sharding: Any) -> Var:
    """Return ``x``, split over a mesh by a `NamedSharding` whose axes are automatic."""
    params = _jax.sharding_constraint_params(sharding)
    return b.bind(_jax.sharding_constraint_p, (x,), params)


def squeeze(b: Builder, x: Atom, dimensions: Sequence[int]) -> Var:
    """Drop axes of size one."""
    return append(b, "squeeze", (x,), dimensions=tuple(sorted(dimensions)))


def transpose(b: Builder, x: Atom, permutation: Sequence[int]) -> Var:
    """Return an array whose axis ``i`` is axis ``permutation[i]`` of ``x``."""
    return append(b, "transpose", (x,), permutation=tuple(permutation))


def rev(b: Builder, x: Atom, dimensions: Sequence[int]) -> Var:
    """Reverse the order of elements along some axes."""
    return append(b, "rev", (x,), dimensions=tuple(dimensions))


# --- Parts and joins --------------------------------------------------------------------


def slice(
    b: Builder, x: Atom, start: Sequence[int], limit: Sequence[int], strides: Sequence[int] = ()
) -> Var:
    """Return ``x[start:limit:strides]``.

    Parameters
    ----------
    b : Builder
    x : atom
    start, limit : sequence of int
        The bounds on each axis, ``0 <= start <= limit <= size``.
    strides : sequence of int, optional
        The step on each axis, at least 1.
    """
    params = {"start_indices": tuple(start), "limit_indices": tuple(limit)}
    steps = None if all(k == 1 for k in strides) else tuple(strides)
    return append(b, "slice", (x,), **params, strides=steps)


def dynamic_slice(b: Builder, x: Atom, start: Sequence[Atom], sizes: Shape) -> Var:
    """Return a block of ``x``.

    Parameters
    ----------
    b : Builder
    x : atom
    start : sequence of integer scalars
        The block's first element on each axis. A block that would exceed the array is moved inside.
    sizes : tuple of int
        The block's shape.
    """
    return append(b, "dynamic_slice", (x, *start), slice_sizes=sizes)


def dynamic_update_slice(b: Builder, x: Atom, update: Atom, start: Sequence[Atom]) -> Var:
    """Return ``x`` with a block replaced by ``update``; ``start`` is as in `dynamic_slice`."""
    return append(b, "dynamic_update_slice", (x, update, *start))


def pad(b: Builder, x: Atom, value: Atom, config: Sequence[tuple[int, int, int]]) -> Var:
    """Pad an array with a scalar.

    Parameters
    ----------
    b : Builder
    x : atom
    value : atom, scalar of the same dtype
    config : sequence of (int, int, int)
        For each axis, how many elements to add before the first, after the last, and between each
        two. A negative number before or after removes elements.
    """
    return append(b, "pad", (x, value), padding_config=tuple(config))


def concatenate(b: Builder, operands: Sequence[Atom], dimension: int) -> Var:
    """Join arrays of one dtype, whose other sizes are equal, along an axis."""
    return append(b, "concatenate", operands, dimension=dimension)


def iota(b: Builder, dtype: Dtype, shape: Shape, dimension: int) -> Var:
    """Return an array that counts 0, 1, 2, … along one axis and is constant along the others."""
    return append(b, "iota", (), dtype=dtype, shape=shape, dimension=dimension)


# --- Symbolic sizes ---------------------------------------------------------------------


def dim_as_value(b: Builder, size: _jax.Size) -> Var:
    """Return a symbolic size as an integer."""
    return b.bind(_jax.dim_as_value_p, (), {"dim": size})


def shape_assertion(b: Builder, holds: Atom, shown: Sequence[Atom], message: str) -> None:
    """Let a call of the exported program fail unless a condition on its sizes holds.

    Parameters
    ----------
    b : Builder
    holds : boolean atom
        The condition. It follows from sizes alone.
    shown : sequence of integer atoms
        The numbers that replace ``{0}``, ``{1}``, … in the message.
    message : str
        What the call fails with.
    """
    b.bind_multiple(_jax.shape_assertion_p, (holds, *shown), {"error_message": message})


# --- Gather and scatter -----------------------------------------------------------------

_UNPAIRED: Mapping[int, int] = MappingProxyType({})


def gather(
    b: Builder,
    x: Atom,
    indices: Atom,
    axes: Sequence[int],
    places: Sequence[int],
    *,
    in_bounds: bool,
    drop: bool = False,
    ordered: bool = False,
    unique: bool = False,
    paired: Mapping[int, int] = _UNPAIRED,
) -> Var:
    """Read elements at an array of indices.

    Parameters
    ----------
    b : Builder
    x : atom
    indices : (..., len(axes)) atom, integer
        Each vector along the last axis is an index into ``axes`` of ``x``.
    axes : sequence of int
        The indexed axes of ``x``.
    places : sequence of int
        The axes of the result, ascending, that the other axes of ``indices`` become. The axes of
        ``x`` that are not indexed become the remaining axes of the result, in order.
    in_bounds : bool
        Whether all indices are promised to be in bounds. Otherwise they are clipped.
    drop : bool
        Whether an index out of bounds reads zeros, and writes nothing, instead of being clipped.
    ordered : bool
        Whether all indices are promised to ascend.
    unique : bool
        Whether all indices are promised to differ.
    paired : mapping from int to int
        Other axes of ``x``, with the axes of ``indices`` that they go along with: the indices at
        position ``i`` of the latter read at position ``i`` of the former. A program whose data is
        split along such axes exchanges none of it.
    """
    numbers = _numbers(GatherDimensionNumbers, x, indices, axes, places, paired)
    sizes = (1 if d in axes or d in paired else n for d, n in enumerate(x.aval.shape))
    return append(
        b,
        "gather",
        (x, indices),
        dimension_numbers=numbers,
        slice_sizes=tuple(sizes),
        unique_indices=unique,
        indices_are_sorted=ordered,
        mode=_mode(in_bounds, drop),
        fill_value=0 if drop else None,
    )


def _scatter(
    name: str, effect: str, update_jaxpr: Callable[[Dtype], Jaxpr | None]
) -> Callable[..., Var]:
    """Return the constructor of a primitive that writes at an array of indices."""

    def construct(
        b: Builder,
        x: Atom,
        indices: Atom,
        updates: Atom,
        axes: Sequence[int],
        places: Sequence[int],
        *,
        in_bounds: bool,
        drop: bool = False,
        ordered: bool = False,
        unique: bool = False,
        paired: Mapping[int, int] = _UNPAIRED,
    ) -> Var:
        numbers = _numbers(ScatterDimensionNumbers, x, indices, axes, places, paired)
        return append(
            b,
            name,
            (x, indices, updates),
            update_jaxpr=update_jaxpr(x.aval.dtype),
            update_consts=(),
            dimension_numbers=numbers,
            indices_are_sorted=ordered,
            unique_indices=unique,
            mode=_mode(in_bounds, drop),
        )

    doc = f"""Return ``x`` with {effect}.

    ``updates`` has the dtype of ``x`` and the shape that `gather` reads at these indices; all other
    parameters are those of `gather`.
    """
    return named(construct, name, doc)


def _sum_of_two(dtype: Dtype) -> Jaxpr:
    """Return ``lambda x, y: x + y`` of scalars, which is a parameter of ``scatter_add``."""
    b = Builder([_jax.array_type((), dtype)] * 2)
    return _jax.open_jaxpr(b.build([append(b, "add", b.inputs)]))


scatter = _scatter(
    "scatter",
    "the elements at the indices replaced; of several updates of one element, any may win",
    lambda dtype: None,
)
scatter_add = _scatter(
    "scatter_add", "all updates added to the elements at the indices", _sum_of_two
)


def _numbers(
    sort: Callable[..., Any],
    x: Atom,
    indices: Atom,
    axes: Sequence[int],
    places: Sequence[int],
    paired: Mapping[int, int],
) -> Any:
    """Return the dimension numbers of JAX for the arguments of `gather`."""
    rank = len(x.aval.shape) - len(axes) - len(paired) + len(indices.aval.shape) - 1
    window = tuple(d for d in range(rank) if d not in places)
    pairs = sorted(paired), [paired[d] for d in sorted(paired)]
    return sort(window, tuple(sorted(axes)), tuple(axes), *map(tuple, pairs))


def _mode(in_bounds: bool, drop: bool) -> GatherScatterMode:
    modes = GatherScatterMode
    if drop:
        return modes.FILL_OR_DROP
    return modes.PROMISE_IN_BOUNDS if in_bounds else modes.CLIP
