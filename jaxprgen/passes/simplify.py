"""Algebraic simplification: rules that preserve every bit, and rules for finite numbers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from jaxprgen import rewrite
from jaxprgen._jax import ClosedJaxpr
from jaxprgen.emit import primitives as lax
from jaxprgen.emit.values import Value
from jaxprgen.passes.meaning import Meaning, if_reassociated
from jaxprgen.rewrite import Operand, table, terms
from jaxprgen.rewrite.terms import Param, emitted, primitive, primitives, variables

neg, abs_, square, exp, integer_pow, conj = primitives("neg abs square exp integer_pow conj")
logistic, tanh, max_, min_ = primitives("logistic tanh max min")
and_, or_, not_, eq, le, ge, select_n = primitives("and or not eq le ge select_n")
reshape, squeeze, transpose, rev = primitives("reshape squeeze transpose rev")
broadcast_in_dim = primitive("broadcast_in_dim")
x, y, p, q = variables("x y p q")
first, then, shape = Param("first"), Param("then"), Param("shape")


def _only(kinds: str, reason: str) -> Callable[[Operand], str | None]:
    """Return the check that dtypes are of these kinds, as NumPy writes them."""
    return lambda x: None if x.dtype.kind in kinds else reason


_integers = _only("biu", "it holds only for integers")
_floats = _only("f", "it holds only for floating-point numbers")
_reals = _only("biuf", "it holds only for real numbers")
_complex = _only("c", "it makes a complex number of a real one")


def _boolean_choice(p: Operand) -> str | None:
    return None if p.dtype.kind == "b" else "it holds only for booleans"


def _not_complex(x: Operand) -> str | None:
    """Refuse complex numbers, whose parts meet the zero of the other: infinity times 0 is NaN."""
    return "it does not hold for complex numbers" if x.dtype.kind == "c" else None


def _transpose(x: Value, first: Sequence[int], then: Sequence[int]) -> Value:
    return lax.transpose(x, [first[d] for d in then])


def _is_ordered(first: Sequence[int]) -> str | None:
    return None if list(first) == sorted(first) else "the axes change places"


def _permuted(x: terms.Call | terms.Variable, axes: Param) -> terms.Call:
    return transpose(x, permutation=axes)


def _reshaped(x: terms.Call | terms.Variable, sizes: Param) -> terms.Call:
    return reshape(x, new_sizes=sizes, dimensions=None)


def _broadcast(x: terms.Variable, axes: Param) -> terms.Call:
    return broadcast_in_dim(x, shape=shape, broadcast_dimensions=axes)


def _is_undone(
    x: Operand, shape: Sequence[Any], first: Sequence[int], then: Sequence[int]
) -> str | None:
    """Require that the axes which are removed are those that were added, of size 1."""
    rest = [d for d in range(len(shape)) if d not in then]
    is_same = list(first) == rest and [shape[d] for d in rest] == list(x.shape)
    return None if is_same else "the axes differ"


EXACT = table(
    # Operations that undo each other.
    (neg(neg(x)), x),
    (not_(not_(x)), x),
    (conj(conj(x)), x, _complex),
    (_permuted(_permuted(x, first), then), emitted(_transpose)(x, first=first, then=then)),
    (_permuted(x, first), x, _is_ordered),
    (rev(rev(x, dimensions=first), dimensions=first), x),
    (_reshaped(_reshaped(x, first), then), _reshaped(x, then)),
    (squeeze(_broadcast(x, first), dimensions=then), x, _is_undone),
    # Neutral elements. For sums that is -0, because -0 + 0 is 0.
    (x * 1, x, _not_complex),
    (x / 1, x, _not_complex),
    (x - 0.0, x, _not_complex),
    (x + -0.0, x, _not_complex),
    (x + 0, x, _integers),
    (x * 0, 0, _integers),
    (integer_pow(x, y=1), x),
    (integer_pow(x, y=2), square(x)),
    # Equal operands.
    (and_(x, x), x),
    (or_(x, x), x),
    (max_(x, x), x),
    (min_(x, x), x),
    (select_n(p, x, x), x),
    (select_n(not_(p), x, y), select_n(p, y, x), _boolean_choice),
    # Signs.
    (x * -1, neg(x), _reals),
    (x / -1, neg(x), _reals),
    (-0.0 - x, neg(x), _reals),
    (neg(x) * neg(y), x * y, _reals),
    (neg(x) / neg(y), x / y, _floats),
    (neg(neg(x) * y), x * y, _reals),
    (neg(neg(x) / y), x / y, _floats),
    (neg(x / neg(y)), x / y, _floats),
    (x + -1, x - 1),
    (x - neg(y), x + y),
    (x + neg(y), x - y),
    (abs_(neg(x)), abs_(x)),
    (abs_(abs_(x)), abs_(x)),
    (abs_(square(x)), square(x), _floats),
    (abs_(exp(x)), exp(x), _floats),
    (square(neg(x)), square(x)),
    (square(abs_(x)), square(x), _reals),
    # Bounds that every number is within, and NaN is not.
    *((ge(f(x), 0), eq(x, x), _floats) for f in (exp, logistic, square, abs_)),
    *((le(f(x), 1), eq(x, x), _floats) for f in (logistic, tanh)),
)
"""Rules that hold for every value, NaN, infinities and both zeros included.

One exception: an operation that a rule removes does not flush subnormal numbers to zero.
"""

REASSOCIATED = table(
    (x + 0, x),
    (x - 0, x),
    (x * 1, x),
    (x / 1, x),
    (x * 0, 0),
    (x - x, 0),
    (x / x, 1),
    (neg(x - y), y - x),
    (-1 * (x - y), y - x),
)
"""Rules that hold for finite numbers other than zero, up to the sign of zeros."""

_dot_general, _triangular_solve = primitive("dot_general"), primitive("triangular_solve")
order, numbers = Param("order"), Param("numbers")
others = {name: Param(name) for name in ("precision", "preferred_element_type", "out_sharding")}
sides = {"lower": Param("lower"), "transpose_a": Param("transpose_a")}
alike = {name: Param(name) for name in ("left_side", "conjugate_a", "unit_diagonal")}


def _dot(x: terms.Term, y: terms.Term) -> terms.Call:
    return _dot_general(x, y, dimension_numbers=numbers, **others)


def _dot_without_transpose(side: int) -> terms.Function:
    """Return a function that multiplies the operands as they were before one was transposed."""

    def dot(x: Value, y: Value, order: Sequence[int], numbers: Any, **others: Any) -> Value:
        pairs = [list(pair) for pair in numbers]
        for pair in pairs:
            pair[side] = tuple(order[d] for d in pair[side])
        assert _dot_general.emit is not None
        return _dot_general.emit(x, y, dimension_numbers=tuple(map(tuple, pairs)), **others)

    return emitted(dot)


def _keeps_order(order: Sequence[int], used: set[int]) -> str | None:
    """Require that the axes which are not summed over stay in order."""
    left = [before for d, before in enumerate(order) if d not in used]
    return None if left == sorted(left) else "the remaining axes would change places"


def _keeps_left_order(order: Sequence[int], numbers: Any) -> str | None:
    return _keeps_order(order, {d for axes, _ in numbers for d in axes})


def _keeps_right_order(order: Sequence[int], numbers: Any) -> str | None:
    return _keeps_order(order, {d for _, axes in numbers for d in axes})


@emitted
def _solve_transposed(x: Value, y: Value, lower: bool, transpose_a: bool, **alike: Any) -> Value:
    """Solve with the matrix as it was before it was transposed, using its other triangle."""
    assert _triangular_solve.emit is not None
    return _triangular_solve.emit(x, y, lower=not lower, transpose_a=not transpose_a, **alike)


def _swaps_matrix_axes(order: Sequence[int]) -> str | None:
    """Require that the two axes of matrices change places, and no others."""
    *batch, row, column = range(len(order))
    return None if list(order) == [*batch, column, row] else "other axes change places"


UNTRANSPOSED = table(
    (
        _dot(_permuted(x, order), y),
        _dot_without_transpose(0)(x, y, order=order, numbers=numbers, **others),
        _keeps_left_order,
    ),
    (
        _dot(x, _permuted(y, order)),
        _dot_without_transpose(1)(x, y, order=order, numbers=numbers, **others),
        _keeps_right_order,
    ),
    (
        _triangular_solve(_permuted(x, order), y, **sides, **alike),
        _solve_transposed(x, y, **sides, **alike),
        _swaps_matrix_axes,
    ),
)
"""Rules for products and triangular systems whose matrix is transposed first.

They hold up to the order in which products are summed, which is the compiler's choice.
"""


@dataclass(frozen=True)
class Simplify:
    """Apply algebraic identities to equations.

    Attributes
    ----------
    reassociate : bool
        Whether to apply rules that hold only for finite numbers, up to the sign of zeros, such as
        ``0 * x = 0``, and rules that may round sums of products in another order, such as products
        of matrices that need not be transposed first.
    """

    reassociate: bool = False

    meaning = if_reassociated(Meaning.SAME_REALS)

    def __call__(self, closed: ClosedJaxpr) -> ClosedJaxpr:
        """Return the simplified program, or the given one if no rule matches.

        Parameters
        ----------
        closed : ClosedJaxpr
            The program. It is not changed.
        """
        return rewrite.apply(closed, _ALL if self.reassociate else EXACT)


_ALL = EXACT + REASSOCIATED + UNTRANSPOSED
