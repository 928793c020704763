"""Formulas over real values written as formulas: ``x * exp(-x)`` appends three equations."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np

from jaxprgen import _jax
from jaxprgen.emit import elementwise as ew
from jaxprgen.emit import reduce
from jaxprgen.emit.control import while_loop
from jaxprgen.emit.cumulative import cumprod
from jaxprgen.emit.derivatives import with_derivatives
from jaxprgen.emit.shape import expand_dims
from jaxprgen.emit.values import (
    BOOL,
    Array,
    Dtype,
    Value,
    broadcast_shapes,
    broadcast_to,
    dtype_of,
    elementwise,
    like,
    shape_of,
    splat_value,
)
from jaxprgen.errors import UnsupportedOpError
from jaxprgen.ir import Builder
from jaxprgen.ir import primitives as lax


class Expression:
    """A value and the builder that operators append to.

    Numbers take the dtype of the expressions that they meet.
    """

    __slots__ = ("builder", "value")
    __array_ufunc__ = None  # NumPy's numbers leave their operators to those below.

    def __init__(self, builder: Builder, value: Value) -> None:
        self.builder = builder
        self.value = value

    @property
    def dtype(self) -> Dtype:
        """The dtype of the value."""
        return dtype_of(self.value)

    def __add__(self, other: Operand) -> Expression:
        return call(ew.add, self, other)

    def __radd__(self, other: float) -> Expression:
        return call(ew.add, other, self)

    def __sub__(self, other: Operand) -> Expression:
        return call(ew.subtract, self, other)

    def __rsub__(self, other: float) -> Expression:
        return call(ew.subtract, other, self)

    def __mul__(self, other: Operand) -> Expression:
        return call(ew.multiply, self, other)

    def __rmul__(self, other: float) -> Expression:
        return call(ew.multiply, other, self)

    def __truediv__(self, other: Operand) -> Expression:
        return call(ew.divide, self, other)

    def __rtruediv__(self, other: float) -> Expression:
        return call(ew.divide, other, self)

    def __neg__(self) -> Expression:
        return call(ew.negative, self)

    def __abs__(self) -> Expression:
        return call(ew.absolute, self)

    def __lt__(self, other: Operand) -> Expression:
        return call(ew.less, self, other)

    def __le__(self, other: Operand) -> Expression:
        return call(ew.less_equal, self, other)

    def __gt__(self, other: Operand) -> Expression:
        return call(ew.greater, self, other)

    def __ge__(self, other: Operand) -> Expression:
        return call(ew.greater_equal, self, other)

    def __and__(self, other: Expression) -> Expression:
        return call(ew.bitwise_and, self, other)

    def __or__(self, other: Expression) -> Expression:
        return call(ew.bitwise_or, self, other)

    def __xor__(self, other: Expression) -> Expression:
        return call(ew.bitwise_xor, self, other)

    def __invert__(self) -> Expression:
        return call(ew.invert, self)

    def equals(self, other: Operand) -> Expression:
        """Where both are equal."""
        return call(ew.equal, self, other)

    def like(self, number: float | Array) -> Expression:
        """A known number, or array of numbers, in this expression's dtype."""
        return Expression(self.builder, like(self.value, number))

    def along_new_axis(self) -> Expression:
        """With a last axis of size one."""
        return call(lambda b, x: expand_dims(b, x, [len(shape_of(x))]), self)

    def total(self) -> Expression:
        """The sum along the last axis."""
        return call(lambda b, x: reduce.sum(b, x, (len(shape_of(x)) - 1,)), self)

    def running_product(self) -> Expression:
        """The products of the first 1, 2, 3, … elements along the last axis."""
        return call(lambda b, x: cumprod(b, x, len(shape_of(x)) - 1), self)


Operand: TypeAlias = Expression | float | Array


def call(emit: ew.Emit, *operands: Operand) -> Expression:
    """What a function of values emits, of expressions and numbers."""
    expressions = [x for x in operands if isinstance(x, Expression)]
    model = next((x for x in expressions if x.dtype != BOOL), expressions[0])
    values = [x.value if isinstance(x, Expression) else like(model.value, x) for x in operands]
    return Expression(model.builder, emit(model.builder, *values))


def _function(emit: ew.Emit) -> Callable[..., Expression]:
    return functools.partial(call, emit)


def _primitive(construct: Any) -> Callable[..., Expression]:
    return _function(lambda b, *xs: elementwise(b, construct, *xs))


exp = _function(ew.exp)
expm1 = _function(ew.expm1)
log = _function(ew.log)
log1p = _function(ew.log1p)
sqrt = _function(ew.sqrt)
cbrt = _primitive(lax.cbrt)
sin = _function(ew.sin)
cos = _function(ew.cos)
sinh = _function(ew.sinh)
cosh = _function(ew.cosh)
arcsin = _function(ew.arcsin)
arcsinh = _function(ew.arcsinh)
erf = _primitive(lax.erf)
erfc = _primitive(lax.erfc)
lgamma = _primitive(lax.lgamma)
digamma = _primitive(lax.digamma)
floor = _function(ew.floor)
rint = _function(ew.round_half_to_even)
isnan = _function(ew.isnan)
minimum = _function(ew.minimum)
maximum = _function(ew.maximum)
where = _function(ew.where)


def polynomial(x: Expression, coefficients: Sequence[float]) -> Expression:
    """The sum of ``coefficients[n] * x**n`` by Horner's rule, of two coefficients or more."""
    *lower, value = coefficients
    for coefficient in reversed(lower):
        value = value * x + coefficient
    assert isinstance(value, Expression)
    return value


# --- Loops --------------------------------------------------------------------------------


def iterate(
    limit: int,
    step: Callable[..., Sequence[Expression]],
    changing: Sequence[Expression],
    fixed: Sequence[Expression],
    more: Callable[..., Expression] | None = None,
) -> list[Expression]:
    """``changing`` after ``step(k, *changing, *fixed)`` for ``k`` from 0 to ``limit - 1``.

    With ``more``, an element changes only where ``more(*changing, *fixed)`` holds, and the loop
    ends where it holds nowhere. What changes takes the common shape of all operands. A fixed number
    that is known is no operand of the loop.
    """
    b, count = changing[0].builder, len(changing)
    carried = [x.value for x in fixed if splat_value(x.value) is None]
    shape = broadcast_shapes(*(shape_of(x.value) for x in (*changing, *fixed)))
    start = [like(changing[0].value, 0), *(broadcast_to(b, x.value, shape) for x in changing)]

    def operands(inner: Builder, values: Sequence[Value]) -> list[Expression]:
        rest = iter(values[count:])
        others = (next(rest) if splat_value(x.value) is None else x.value for x in fixed)
        return [Expression(inner, x) for x in (*values[:count], *others)]

    def goes_on(inner: Builder, k: Value, *values: Value) -> Value:
        below = ew.less(inner, k, like(k, limit))
        if more is None:
            return below
        active = more(*operands(inner, values)).value
        some = reduce.sum(inner, active, tuple(range(len(shape))))
        return ew.bitwise_and(inner, some, below)

    def body(inner: Builder, k: Value, *values: Value) -> list[Value]:
        xs = operands(inner, values)
        found = step(Expression(inner, k), *xs)
        if more is not None:
            active = more(*xs)
            found = [where(active, y, x) for y, x in zip(found, xs, strict=False)]
        following = [broadcast_to(inner, x.value, shape) for x in found]
        return [ew.add(inner, k, like(k, 1)), *following, *values[count:]]

    found = while_loop(b, goes_on, body, [*start, *carried])
    return [Expression(b, x) for x in found[1 : count + 1]]


def totals(
    number: int, count: int, part: Callable[..., Sequence[Expression]], *xs: Expression
) -> list[Expression]:
    """The sums over ``k`` from 0 to ``count - 1`` of the terms that ``part(k, *xs)`` returns.

    By a loop, so that nothing is ``count`` times as large as the operands.
    """

    def step(k: Expression, *rest: Expression) -> list[Expression]:
        parts = part(k, *rest[number:])
        return [s + p for s, p in zip(rest[:number], parts, strict=True)]

    return iterate(count, step, [xs[0].like(0)] * number, xs)


# --- Formulas as functions of values ------------------------------------------------------

Formula: TypeAlias = Callable[..., Expression]
Precision: TypeAlias = Callable[[Dtype], Dtype]


def single(dtype: Dtype) -> Dtype:
    """Single precision at least: half precision has not the range of coefficients."""
    return np.result_type(dtype, np.float32)


def widest(dtype: Dtype) -> Dtype:
    """The most precise dtype there is while x64 is as it is; SciPy's is float64 always."""
    return _jax.canonicalize_dtype(np.dtype(np.float64))


def formula(function: Formula, *derivatives: Formula, precision: Precision = single) -> ew.Emit:
    """A function of real expressions as one of a builder and values, which broadcast.

    Partial derivatives, one per operand, may be given (see `with_derivatives`). All is computed in
    the dtype to which ``precision`` takes that of the operands, and the result rounded to theirs.
    Complex numbers are refused.
    """
    name = function.__name__.strip("_")
    inner = _of_values(function)
    if derivatives:
        inner = with_derivatives(inner, *map(_of_values, derivatives))

    def emit(b: Builder, *operands: Value) -> Value:
        dtype = dtype_of(operands[0])
        if dtype.kind == "c":
            raise UnsupportedOpError(f"JAX has no {name} of complex numbers.")
        wide = precision(dtype)
        return ew.convert(b, inner(b, *[ew.convert(b, x, wide) for x in operands]), dtype)

    emit.__name__ = emit.__qualname__ = name
    emit.__doc__ = function.__doc__
    return emit


def _of_values(function: Formula) -> ew.Emit:
    return lambda b, *xs: function(*[Expression(b, x) for x in xs]).value


def along(function: ew.Emit, *choice: float) -> Formula:
    """A derivative that a function gives, of the operands and of numbers that choose among some."""
    return lambda *xs: call(function, *xs, *choice)


def of_a_choice(*xs: Expression) -> Expression:
    """The derivative with respect to an operand that chooses among functions: zero."""
    return xs[0].like(0)
