"""Reading and writing at arrays of indices.

The last axis of ``indices`` goes over the operand's ``axes``: each vector along it is a place in
these. Every other axis of the indices is one of ``places``, ascending, among the axes of what is
read or written there; its remaining axes are the operand's others.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from jax.lax import GatherDimensionNumbers, GatherScatterMode, ScatterDimensionNumbers

from jaxprgen import _jax
from jaxprgen._jax import Jaxpr, Var
from jaxprgen.errors import EquationError
from jaxprgen.ir.builder import Atom, Builder
from jaxprgen.ir.primitives.kinds import Dtype, are_axes


def gather(
    b: Builder,
    x: Atom,
    indices: Atom,
    axes: Sequence[int],
    places: Sequence[int],
    *,
    in_bounds: bool,
    unique: bool = False,
) -> Var:
    """The elements of ``x`` at the indices.

    Indices are said to be ``in_bounds``, or else are moved to the nearest element.
    """
    shape = _shape_there(x, indices, axes, places)
    kept = _kept(len(shape), places)
    params = {
        "dimension_numbers": GatherDimensionNumbers(kept, tuple(sorted(axes)), tuple(axes)),
        "slice_sizes": tuple(1 if d in axes else n for d, n in enumerate(x.aval.shape)),
        "unique_indices": unique,
        "indices_are_sorted": False,
        "mode": _mode(in_bounds),
        "fill_value": None,
    }
    aval = _jax.array_type(shape, x.aval.dtype)
    return b.bind(_jax.primitive("gather"), (x, indices), params, aval)


def scatter(
    b: Builder,
    x: Atom,
    indices: Atom,
    updates: Atom,
    axes: Sequence[int],
    places: Sequence[int],
    *,
    in_bounds: bool,
    unique: bool = False,
) -> Var:
    """``x`` with its elements at the indices replaced; of several updates of one, one wins."""
    params = _scatter_params(x, indices, updates, axes, places, in_bounds, unique)
    return b.bind(
        _jax.primitive("scatter"),
        (x, indices, updates),
        {"update_jaxpr": None, "update_consts": (), **params},
        _jax.array_type(x.aval.shape, x.aval.dtype),
    )


def scatter_add(
    b: Builder,
    x: Atom,
    indices: Atom,
    updates: Atom,
    axes: Sequence[int],
    places: Sequence[int],
    *,
    in_bounds: bool,
    unique: bool = False,
) -> Var:
    """``x`` with its elements at the indices increased, by every update of them."""
    params = _scatter_params(x, indices, updates, axes, places, in_bounds, unique)
    sum_of_two = _sum_of_two(x.aval.dtype)
    return b.bind(
        _jax.primitive("scatter_add"),
        (x, indices, updates),
        {"update_jaxpr": sum_of_two, "update_consts": (), **params},
        _jax.array_type(x.aval.shape, x.aval.dtype),
    )


def _scatter_params(
    x: Atom,
    indices: Atom,
    updates: Atom,
    axes: Sequence[int],
    places: Sequence[int],
    in_bounds: bool,
    unique: bool,
) -> dict[str, Any]:
    there = _shape_there(x, indices, axes, places)
    if updates.aval.shape != there or updates.aval.dtype != x.aval.dtype:
        raise EquationError(f"Cannot write {updates.aval} to {x.aval}, of which {there} is there.")
    kept = _kept(len(updates.aval.shape), places)
    return {
        "dimension_numbers": ScatterDimensionNumbers(kept, tuple(sorted(axes)), tuple(axes)),
        "indices_are_sorted": False,
        "unique_indices": unique,
        "mode": _mode(in_bounds),
    }


def _shape_there(
    x: Atom, indices: Atom, axes: Sequence[int], places: Sequence[int]
) -> tuple[int, ...]:
    """The shape of what is read or written at indices."""
    *points, count = indices.aval.shape
    rank = len(x.aval.shape) - len(axes) + len(points)
    are_indices = (
        indices.aval.dtype.kind in "iu" and count == len(axes) and len(points) == len(places)
    )
    if not (are_indices and are_axes(axes, len(x.aval.shape)) and are_axes(places, rank)):
        raise EquationError(
            f"Cannot take {indices.aval} for places along {axes} in {x.aval}, to stand at {places}."
        )
    rest, found = (n for d, n in enumerate(x.aval.shape) if d not in axes), iter(points)
    return tuple(next(found if d in places else rest) for d in range(rank))


def _kept(rank: int, places: Sequence[int]) -> tuple[int, ...]:
    return tuple(d for d in range(rank) if d not in places)


def _mode(in_bounds: bool) -> GatherScatterMode:
    return GatherScatterMode.PROMISE_IN_BOUNDS if in_bounds else GatherScatterMode.CLIP


def _sum_of_two(dtype: Dtype) -> Jaxpr:
    """``lambda x, y: x + y``, which is part of a ``scatter_add``."""
    from jaxprgen.ir.primitives.elementwise import add

    b = Builder([_jax.array_type((), dtype)] * 2)
    return _jax.open_jaxpr(b.build([add(b, *b.inputs)]))
