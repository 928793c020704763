"""Formulas over real values written as formulas: ``x * exp(-x)`` appends two equations."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np

from jaxprgen.emit import elementwise as ew
from jaxprgen.emit import reduce
from jaxprgen.emit.cumulative import cumprod
from jaxprgen.emit.shape import expand_dims
from jaxprgen.emit.values import Array, Value, atom, dtype_of, full_rank, shape_of
from jaxprgen.errors import UnsupportedOpError
from jaxprgen.ir import Builder
from jaxprgen.ir import primitives as lax

_HALF, _SINGLE = np.dtype(np.float16), np.dtype(np.float32)


class Expression:
    """A value and the builder that operators append to. Numbers take the other side's dtype."""

    __slots__ = ("builder", "value")

    def __init__(self, builder: Builder, value: Value) -> None:
        self.builder = builder
        self.value = value

    def __add__(self, other: Operand) -> Expression:
        return self._apply(ew.add, other)

    def __sub__(self, other: Operand) -> Expression:
        return self._apply(ew.subtract, other)

    def __mul__(self, other: Operand) -> Expression:
        return self._apply(ew.multiply, other)

    def __truediv__(self, other: Operand) -> Expression:
        return self._apply(ew.divide, other)

    def __lt__(self, other: Operand) -> Expression:
        return self._apply(ew.less, other)

    def __le__(self, other: Operand) -> Expression:
        return self._apply(ew.less_equal, other)

    def __gt__(self, other: Operand) -> Expression:
        return self._apply(ew.greater, other)

    def __ge__(self, other: Operand) -> Expression:
        return self._apply(ew.greater_equal, other)

    def __and__(self, other: Operand) -> Expression:
        return self._apply(ew.bitwise_and, other)

    def __or__(self, other: Operand) -> Expression:
        return self._apply(ew.bitwise_or, other)

    def __radd__(self, other: float) -> Expression:
        return self + other

    def __rmul__(self, other: float) -> Expression:
        return self * other

    def __rsub__(self, other: float) -> Expression:
        return self.like(other) - self

    def __rtruediv__(self, other: float) -> Expression:
        return self.like(other) / self

    def __neg__(self) -> Expression:
        return Expression(self.builder, ew.negative(self.builder, self.value))

    def __invert__(self) -> Expression:
        return Expression(self.builder, ew.invert(self.builder, self.value))

    def __abs__(self) -> Expression:
        return Expression(self.builder, ew.absolute(self.builder, self.value))

    def equals(self, other: Operand) -> Expression:
        """Where both are equal."""
        return self._apply(ew.equal, other)

    def like(self, number: Any) -> Expression:
        """A known number, or array of numbers, in this expression's dtype."""
        return Expression(self.builder, np.asarray(number, dtype_of(self.value)))

    def along_new_axis(self) -> Expression:
        """With a last axis of size one."""
        rank = len(shape_of(self.value))
        return Expression(self.builder, expand_dims(self.builder, self.value, [rank]))

    def total(self) -> Expression:
        """The sum along the last axis."""
        axis = len(shape_of(self.value)) - 1
        return Expression(self.builder, reduce.sum(self.builder, self.value, (axis,)))

    def running_product(self) -> Expression:
        """The products of the first 1, 2, 3, … elements along the last axis."""
        axis = len(shape_of(self.value)) - 1
        return Expression(self.builder, cumprod(self.builder, self.value, axis))

    def _apply(self, emit: Callable[..., Value], other: Operand) -> Expression:
        right = other if isinstance(other, Expression) else self.like(other)
        return Expression(self.builder, emit(self.builder, self.value, right.value))


Operand: TypeAlias = Expression | float | Array
Emit: TypeAlias = Callable[..., Value]


def formula(function: Callable[..., Expression]) -> Emit:
    """A function of real expressions as one of a builder and values, which broadcast.

    Half precision is computed in single. Complex numbers are refused.
    """
    name = function.__name__.strip("_")

    def emit(b: Builder, *operands: Value) -> Value:
        dtype = dtype_of(operands[0])
        if dtype.kind == "c":
            raise UnsupportedOpError(f"JAX has no {name} of complex numbers.")
        wide = _SINGLE if dtype == _HALF else dtype

        def construct(b: Builder, *xs: Value) -> Value:
            value = function(*[Expression(b, ew.convert(b, x, wide)) for x in xs]).value
            return atom(b, ew.convert(b, value, dtype))  # type: ignore[return-value]

        return full_rank(b, construct, *operands)

    emit.__name__, emit.__doc__ = name, function.__doc__
    return emit


def _function(emit: Callable[..., Value]) -> Callable[[Expression], Expression]:
    return lambda x: Expression(x.builder, emit(x.builder, x.value))


def _by_primitive(construct: Any) -> Callable[..., Expression]:
    return lambda x, *others: Expression(
        x.builder, full_rank(x.builder, construct, x.value, *[y.value for y in others])
    )


exp = _function(ew.exp)
expm1 = _function(ew.expm1)
log = _function(ew.log)
log1p = _function(ew.log1p)
sqrt = _function(ew.sqrt)
floor = _function(ew.floor)
rint = _function(ew.round_half_to_even)
sin = _function(ew.sin)
isnan = _function(ew.isnan)
lgamma = _by_primitive(lax.lgamma)
digamma = _by_primitive(lax.digamma)


def maximum(x: Expression, y: Operand) -> Expression:
    """The larger of both."""
    return x._apply(ew.maximum, y)  # pyright: ignore[reportPrivateUsage]


def minimum(x: Expression, y: Operand) -> Expression:
    """The smaller of both."""
    return x._apply(ew.minimum, y)  # pyright: ignore[reportPrivateUsage]


def where(condition: Expression, x: Operand, y: Operand) -> Expression:
    """``x`` where the condition holds, else ``y``; one of them is an expression."""
    likeness = x if isinstance(x, Expression) else y
    assert isinstance(likeness, Expression)
    left = x if isinstance(x, Expression) else likeness.like(x)
    right = y if isinstance(y, Expression) else likeness.like(y)
    b = condition.builder
    return Expression(b, ew.where(b, condition.value, left.value, right.value))


def polynomial(x: Expression, coefficients: Sequence[float]) -> Expression:
    """The sum of ``coefficients[n] * x**n`` by Horner's rule."""
    value = x * 0 + coefficients[-1]
    for coefficient in reversed(coefficients[:-1]):
        value = value * x + coefficient
    return value
