"""Primitives that move elements: broadcasting, slices, joins, ranges, gather and scatter."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from jax.lax import GatherDimensionNumbers, GatherScatterMode, ScatterDimensionNumbers

from jaxprgen import _jax
from jaxprgen._jax import Jaxpr, Var
from jaxprgen.errors import EquationError
from jaxprgen.ir.builder import Atom, Builder
from jaxprgen.ir.primitives.elementwise import add
from jaxprgen.ir.primitives.typing_rules import NUMBER, Dtype, Shape, are_axes, named

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
    sizes = x.aval.shape
    if (
        len(dimensions) != len(sizes)
        or not are_axes(dimensions, len(shape))
        or any(n not in (1, shape[d]) for n, d in zip(sizes, dimensions, strict=True))
        or any(d > e for d, e in itertools.pairwise(dimensions))
    ):
        raise EquationError(f"Cannot broadcast {sizes} to {shape} along {tuple(dimensions)}.")
    params = {"shape": shape, "broadcast_dimensions": tuple(dimensions), "sharding": None}
    aval = _jax.array_type(shape, x.aval.dtype)
    return b.bind(_jax.primitive("broadcast_in_dim"), (x,), params, aval)


def broadcast_to(b: Builder, x: Atom, shape: Shape) -> Atom:
    """Repeat an array along new leading axes and along axes of size one, as NumPy does.

    An array that has this shape already is returned as it is.
    """
    if x.aval.shape == shape:
        return x
    return broadcast_in_dim(b, x, shape, range(len(shape) - len(x.aval.shape), len(shape)))


def reshape(b: Builder, x: Atom, shape: Shape) -> Var:
    """Return the same elements, in row-major order, in another shape."""
    if math.prod(shape) != math.prod(x.aval.shape):
        raise EquationError(f"Cannot reshape {x.aval.shape} to {shape}.")
    params = {"new_sizes": shape, "dimensions": None, "sharding": None}
    aval = _jax.array_type(shape, x.aval.dtype)
    return b.bind(_jax.primitive("reshape"), (x,), params, aval)


def optimization_barrier(b: Builder, x: Atom) -> Var:
    """Return ``x``, such that XLA does not optimize across this equation."""
    return b.bind_multiple(_jax.primitive("optimization_barrier"), (x,), {})[0]


def sharding_constraint(b: Builder, x: Atom, sharding: Any) -> Var:
    """Return ``x``, split over a mesh by a `NamedSharding` whose axes are automatic."""
    params = _jax.sharding_constraint_params(sharding)
    return b.bind(_jax.sharding_constraint_p, (x,), params)


def squeeze(b: Builder, x: Atom, dimensions: Sequence[int]) -> Var:
    """Drop axes of size one."""
    sizes = x.aval.shape
    if not are_axes(dimensions, len(sizes)) or any(sizes[d] != 1 for d in dimensions):
        raise EquationError(f"Cannot drop axes {tuple(dimensions)} of {sizes}.")
    shape = tuple(n for d, n in enumerate(sizes) if d not in dimensions)
    aval = _jax.array_type(shape, x.aval.dtype)
    return b.bind(_jax.primitive("squeeze"), (x,), {"dimensions": tuple(sorted(dimensions))}, aval)


def transpose(b: Builder, x: Atom, permutation: Sequence[int]) -> Var:
    """Return an array whose axis ``i`` is axis ``permutation[i]`` of ``x``."""
    sizes = x.aval.shape
    if sorted(permutation) != list(range(len(sizes))):
        raise EquationError(f"{tuple(permutation)} does not permute the axes of {sizes}.")
    aval = _jax.array_type(tuple(sizes[d] for d in permutation), x.aval.dtype)
    return b.bind(_jax.primitive("transpose"), (x,), {"permutation": tuple(permutation)}, aval)


def rev(b: Builder, x: Atom, dimensions: Sequence[int]) -> Var:
    """Reverse the order of elements along some axes."""
    return b.bind(_jax.primitive("rev"), (x,), {"dimensions": tuple(dimensions)})


# --- Parts and joins --------------------------------------------------------------------


def slice(
    b: Builder, x: Atom, start: Sequence[int], limit: Sequence[int], strides: Sequence[int]
) -> Var:
    """Return ``x[start:limit:strides]``.

    Parameters
    ----------
    b : Builder
    x : atom
    start, limit : sequence of int
        The bounds on each axis, ``0 <= start <= limit <= size``.
    strides : sequence of int
        The step on each axis, at least 1.
    """
    sizes = x.aval.shape
    if any(
        not 0 <= i <= j <= n or k < 1
        for i, j, k, n in zip(start, limit, strides, sizes, strict=True)
    ):
        raise EquationError(f"Cannot slice {sizes} by {start}:{limit}:{strides}.")
    shape = tuple(-(-(j - i) // k) for i, j, k in zip(start, limit, strides, strict=True))
    unit = all(k == 1 for k in strides)
    params = {
        "start_indices": tuple(start),
        "limit_indices": tuple(limit),
        "strides": None if unit else tuple(strides),
    }
    aval = _jax.array_type(shape, x.aval.dtype)
    return b.bind(_jax.primitive("slice"), (x,), params, aval)


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
    return b.bind(_jax.primitive("dynamic_slice"), (x, *start), {"slice_sizes": sizes})


def dynamic_update_slice(b: Builder, x: Atom, update: Atom, start: Sequence[Atom]) -> Var:
    """Return ``x`` with a block replaced by ``update``; ``start`` is as in `dynamic_slice`."""
    return b.bind(_jax.primitive("dynamic_update_slice"), (x, update, *start), {})


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
    return b.bind(_jax.primitive("pad"), (x, value), {"padding_config": tuple(config)})


def concatenate(b: Builder, operands: Sequence[Atom], dimension: int) -> Var:
    """Join arrays of one dtype, whose other sizes are equal, along an axis."""
    first = operands[0].aval
    before, after = first.shape[:dimension], first.shape[dimension + 1 :]
    if not 0 <= dimension < len(first.shape) or any(
        x.aval.shape != (*before, *x.aval.shape[dimension : dimension + 1], *after)
        or len(x.aval.shape) != len(first.shape)
        or x.aval.dtype != first.dtype
        for x in operands
    ):
        types = ", ".join(str(x.aval) for x in operands)
        raise EquationError(f"Cannot concatenate {types} along axis {dimension}.")
    shape = (*before, sum(x.aval.shape[dimension] for x in operands), *after)
    aval = _jax.array_type(shape, first.dtype)
    return b.bind(_jax.primitive("concatenate"), operands, {"dimension": dimension}, aval)


def iota(b: Builder, dtype: Dtype, shape: Shape, dimension: int) -> Var:
    """Return an array that counts 0, 1, 2, … along one axis and is constant along the others."""
    if dtype.kind not in NUMBER or not 0 <= dimension < len(shape):
        raise EquationError(
            f"iota cannot make {dtype} of shape {shape} that counts along axis {dimension}."
        )
    params = {"dtype": dtype, "shape": shape, "dimension": dimension, "sharding": None}
    return b.bind(_jax.primitive("iota"), (), params, _jax.array_type(shape, dtype))


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
    shape = _indexed_shape(x, indices, axes, places, paired)
    params = {
        "dimension_numbers": GatherDimensionNumbers(
            _window_axes(len(shape), places), tuple(sorted(axes)), tuple(axes), *_pairs(paired)
        ),
        "slice_sizes": tuple(
            1 if d in axes or d in paired else n for d, n in enumerate(x.aval.shape)
        ),
        "unique_indices": unique,
        "indices_are_sorted": ordered,
        "mode": _mode(in_bounds, drop),
        "fill_value": 0 if drop else None,
    }
    aval = _jax.array_type(shape, x.aval.dtype)
    return b.bind(_jax.primitive("gather"), (x, indices), params, aval)


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
        shape = _indexed_shape(x, indices, axes, places, paired)
        if updates.aval.shape != shape or updates.aval.dtype != x.aval.dtype:
            raise EquationError(
                f"{name} cannot write {updates.aval} to {x.aval}: these indices select {shape}."
            )
        params: dict[str, Any] = {
            "update_jaxpr": update_jaxpr(x.aval.dtype),
            "update_consts": (),
            "dimension_numbers": ScatterDimensionNumbers(
                _window_axes(len(shape), places), tuple(sorted(axes)), tuple(axes), *_pairs(paired)
            ),
            "indices_are_sorted": ordered,
            "unique_indices": unique,
            "mode": _mode(in_bounds, drop),
        }
        aval = _jax.array_type(x.aval.shape, x.aval.dtype)
        return b.bind(_jax.primitive(name), (x, indices, updates), params, aval)

    doc = f"""Return ``x`` with {effect}.

    ``updates`` has the dtype of ``x`` and the shape that `gather` reads at these indices; all other
    parameters are those of `gather`.
    """
    return named(construct, name, doc)


def _sum_of_two(dtype: Dtype) -> Jaxpr:
    """Return ``lambda x, y: x + y`` of scalars, which is a parameter of ``scatter_add``."""
    b = Builder([_jax.array_type((), dtype)] * 2)
    return _jax.open_jaxpr(b.build([add(b, *b.inputs)]))


scatter = _scatter(
    "scatter",
    "the elements at the indices replaced; of several updates of one element, any may win",
    lambda dtype: None,
)
scatter_add = _scatter(
    "scatter_add", "all updates added to the elements at the indices", _sum_of_two
)


def _indexed_shape(
    x: Atom,
    indices: Atom,
    axes: Sequence[int],
    places: Sequence[int],
    paired: Mapping[int, int],
) -> Shape:
    """Return the shape of what is read or written at indices."""
    *points, count = indices.aval.shape
    sizes, taken = x.aval.shape, (*axes, *paired)
    rank = len(sizes) - len(taken) + len(points)
    are_indices = (
        indices.aval.dtype.kind in "iu" and count == len(axes) and len(points) == len(places)
    )
    if not (
        are_indices
        and are_axes(taken, len(sizes))
        and are_axes(places, rank)
        and are_axes([*paired.values()], len(points))
        and all(sizes[d] == points[i] for d, i in paired.items())
    ):
        along = f" along {dict(paired)}" if paired else ""
        raise EquationError(
            f"{indices.aval} cannot index axes {tuple(axes)} of {x.aval}{along} such that its own "
            f"axes become {tuple(places)}."
        )
    rest, found = (n for d, n in enumerate(sizes) if d not in taken), iter(points)
    return tuple(next(found if d in places else rest) for d in range(rank))


def _pairs(paired: Mapping[int, int]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    axes = sorted(paired)
    return tuple(axes), tuple(paired[d] for d in axes)


def _window_axes(rank: int, places: Sequence[int]) -> tuple[int, ...]:
    return tuple(d for d in range(rank) if d not in places)


def _mode(in_bounds: bool, drop: bool) -> GatherScatterMode:
    modes = GatherScatterMode
    if drop:
        return modes.FILL_OR_DROP
    return modes.PROMISE_IN_BOUNDS if in_bounds else modes.CLIP
