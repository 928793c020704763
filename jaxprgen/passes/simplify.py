"""Algebra that holds bit for bit, for NaN, infinities and both zeros as well."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from jaxprgen import rewrite
from jaxprgen._jax import ClosedJaxpr
from jaxprgen.emit import primitives as lax
from jaxprgen.emit.values import Value
from jaxprgen.passes.contractions import UNTRANSPOSED
from jaxprgen.rewrite import Operand, table
from jaxprgen.rewrite.terms import (
    Call,
    Param,
    Variable,
    abs_,
    and_,
    conj,
    emitted,
    integer_pow,
    max_,
    min_,
    neg,
    not_,
    or_,
    reshape,
    rev,
    select,
    square,
    transpose,
    variables,
)

x, y, p, q = variables("x y p q")
first, then = Param("first"), Param("then")


def _integers(x: Operand) -> str | None:
    return None if x.dtype.kind in "biu" else "it holds for integers alone"


def _floats(x: Operand) -> str | None:
    return None if x.dtype.kind == "f" else "it holds for floating-point numbers alone"


def _reals(x: Operand) -> str | None:
    return None if x.dtype.kind in "biuf" else "it holds for real numbers alone"


def _no_pair(x: Operand) -> str | None:
    """That it is not complex: there parts meet the other's zero, and infinity times 0 is NaN."""
    return "it holds for numbers of one part alone" if x.dtype.kind == "c" else None


def _transpose(x: Value, first: Sequence[int], then: Sequence[int]) -> Value:
    return lax.transpose(x, [first[d] for d in then])


def _is_ordered(first: Sequence[int]) -> str | None:
    return None if list(first) == sorted(first) else "the axes change places"


def _permuted(x: Call | Variable, axes: Param) -> Call:
    return transpose(x, permutation=axes)


def _reshaped(x: Call | Variable, sizes: Param) -> Call:
    return reshape(x, new_sizes=sizes, dimensions=None)


EXACT = table(
    # Operations that undo themselves.
    (neg(neg(x)), x),
    (not_(not_(x)), x),
    (conj(conj(x)), x),
    (_permuted(_permuted(x, first), then), emitted(_transpose)(x, first=first, then=then)),
    (_permuted(x, first), x, _is_ordered),
    (rev(rev(x, dimensions=first), dimensions=first), x),
    (_reshaped(_reshaped(x, first), then), _reshaped(x, then)),
    # Neutral elements. Of the two zeros only one is: -0 + 0 is 0.
    (x * 1, x, _no_pair),
    (x / 1, x, _no_pair),
    (x - 0.0, x, _no_pair),
    (x + -0.0, x, _no_pair),
    (x + 0, x, _integers),
    (x * 0, 0, _integers),
    (integer_pow(x, y=1), x),
    (integer_pow(x, y=2), square(x)),
    # The same twice.
    (and_(x, x), x),
    (or_(x, x), x),
    (max_(x, x), x),
    (min_(x, x), x),
    (select(p, x, x), x),
    (select(not_(p), x, y), select(p, y, x)),
    # Signs.
    (x * -1, neg(x), _reals),
    (x / -1, neg(x), _reals),
    (-0.0 - x, neg(x), _reals),
    (neg(x) * neg(y), x * y, _reals),
    (neg(x) / neg(y), x / y, _floats),
    (neg(neg(x) * y), x * y, _reals),
    (neg(neg(x) / y), x / y, _floats),
    (neg(x / neg(y)), x / y, _floats),
    (x - neg(y), x + y),
    (x + neg(y), x - y),
    (abs_(neg(x)), abs_(x)),
    (abs_(abs_(x)), abs_(x)),
    (square(neg(x)), square(x)),
    (square(abs_(x)), square(x), _reals),
)
"""Holds for every value; but a subnormal one is not flushed to zero by an operation left out."""

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
"""Holds for finite numbers other than zero, and up to signs of zero."""


@dataclass(frozen=True)
class Simplify:
    """Algebra on equations.

    Attributes
    ----------
    reassociate
        Whether NaN, infinities and signs of zero may be lost: then ``0 * x`` is 0. And whether
        sums of products may be rounded otherwise: then matrices are not transposed for them.
    """

    reassociate: bool = False

    def __call__(self, closed: ClosedJaxpr) -> ClosedJaxpr:
        """The program with simpler equations."""
        return rewrite.apply(closed, _ALL if self.reassociate else EXACT)


_ALL = EXACT + REASSOCIATED + UNTRANSPOSED
