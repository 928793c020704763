"""Products, and triangular systems, of arrays that are transposed first, as those of other axes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from jaxprgen.emit.values import Value
from jaxprgen.rewrite import table
from jaxprgen.rewrite.terms import Call, Function, Param, Term, emitted, primitive, variables

_dot_general, _transpose = primitive("dot_general"), primitive("transpose")
_triangular_solve = primitive("triangular_solve")

x, y = variables("x y")
order, numbers = Param("order"), Param("numbers")
others = {name: Param(name) for name in ("precision", "preferred_element_type", "out_sharding")}


def _dot(x: Term, y: Term) -> Call:
    return _dot_general(x, y, dimension_numbers=numbers, **others)


def _transposed(x: Term) -> Call:
    return _transpose(x, permutation=order)


def _without(side: int) -> Function:
    """The product, of what the operand on this side was before it was transposed."""

    def dot(x: Value, y: Value, order: Sequence[int], numbers: Any, **others: Any) -> Value:
        pairs = [list(pair) for pair in numbers]
        for pair in pairs:
            pair[side] = tuple(order[d] for d in pair[side])
        assert _dot_general.emit is not None
        return _dot_general.emit(x, y, dimension_numbers=tuple(map(tuple, pairs)), **others)

    return emitted(dot)


def _is_ordered(order: Sequence[int], used: set[int]) -> str | None:
    """That the axes which are not summed over stay in order."""
    left = [before for d, before in enumerate(order) if d not in used]
    return None if left == sorted(left) else "axes that are left would change places"


def _is_ordered_left(order: Sequence[int], numbers: Any) -> str | None:
    return _is_ordered(order, {d for axes, _ in numbers for d in axes})


def _is_ordered_right(order: Sequence[int], numbers: Any) -> str | None:
    return _is_ordered(order, {d for _, axes in numbers for d in axes})


sides = {"lower": Param("lower"), "transpose_a": Param("transpose_a")}
alike = {name: Param(name) for name in ("left_side", "conjugate_a", "unit_diagonal")}


@emitted
def _by_other_triangle(x: Value, y: Value, lower: bool, transpose_a: bool, **alike: Any) -> Value:
    """The solution by the matrix before it was transposed."""
    assert _triangular_solve.emit is not None
    return _triangular_solve.emit(x, y, lower=not lower, transpose_a=not transpose_a, **alike)


def _swaps(order: Sequence[int]) -> str | None:
    """That the two axes of matrices change places, and no others."""
    *batch, row, column = range(len(order))
    return None if list(order) == [*batch, column, row] else "other axes change places"


UNTRANSPOSED = table(
    (
        _dot(_transposed(x), y),
        _without(0)(x, y, order=order, numbers=numbers, **others),
        _is_ordered_left,
    ),
    (
        _dot(x, _transposed(y)),
        _without(1)(x, y, order=order, numbers=numbers, **others),
        _is_ordered_right,
    ),
    (
        _triangular_solve(_transposed(x), y, **sides, **alike),
        _by_other_triangle(x, y, **sides, **alike),
        _swaps,
    ),
)
"""Hold up to the order in which products are summed, which is the compiler's choice."""
