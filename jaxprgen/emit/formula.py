"""Formulas written with operators, where nested calls would be hard to read."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np

from jaxprgen import _jax
from jaxprgen.emit import elementwise as ew
from jaxprgen.emit.control import while_loop
from jaxprgen.emit.values import BOOL, Dtype, Value, dtype_of, elementwise, like
from jaxprgen.errors import UnsupportedOpError
from jaxprgen.ir import Builder
from jaxprgen.ir import primitives as lax

Operand: TypeAlias = "Term | float"


class Term:
    """A value and the builder into which operators on it emit.

    Python's numbers take the dtype of the terms that they meet.
    """

    __slots__ = ("builder", "value")

    def __init__(self, builder: Builder, value: Value) -> None:
        self.builder = builder
        self.value = value

    @property
    def dtype(self) -> Dtype:
        """The dtype of the value."""
        return dtype_of(self.value)

    def __add__(self, other: Operand) -> Term:
        return _apply(ew.add, self, other)

    def __radd__(self, other: float) -> Term:
        return _apply(ew.add, other, self)

    def __sub__(self, other: Operand) -> Term:
        return _apply(ew.subtract, self, other)

    def __rsub__(self, other: float) -> Term:
        return _apply(ew.subtract, other, self)

    def __mul__(self, other: Operand) -> Term:
        return _apply(ew.multiply, self, other)

    def __rmul__(self, other: float) -> Term:
        return _apply(ew.multiply, other, self)

    def __truediv__(self, other: Operand) -> Term:
        return _apply(ew.divide, self, other)

    def __rtruediv__(self, other: float) -> Term:
        return _apply(ew.divide, other, self)

    def __neg__(self) -> Term:
        return _apply(ew.negative, self)

    def __lt__(self, other: Operand) -> Term:
        return _apply(ew.less, self, other)

    def __le__(self, other: Operand) -> Term:
        return _apply(ew.less_equal, self, other)

    def __gt__(self, other: Operand) -> Term:
        return _apply(ew.greater, self, other)

    def __ge__(self, other: Operand) -> Term:
        return _apply(ew.greater_equal, self, other)

    def __and__(self, other: Term) -> Term:
        return _apply(ew.bitwise_and, self, other)

    def __or__(self, other: Term) -> Term:
        return _apply(ew.bitwise_or, self, other)

    def __xor__(self, other: Term) -> Term:
        return _apply(ew.bitwise_xor, self, other)

    def __invert__(self) -> Term:
        return _apply(ew.invert, self)


def _apply(emit: ew.Emit, *operands: Operand) -> Term:
    terms = [x for x in operands if isinstance(x, Term)]
    model = next((x for x in terms if dtype_of(x.value) != BOOL), terms[0])
    values = [x.value if isinstance(x, Term) else like(model.value, x) for x in operands]
    return Term(model.builder, emit(model.builder, *values))


def _function(emit: ew.Emit) -> Callable[..., Term]:
    return functools.partial(_apply, emit)


def _primitive(construct: Any) -> Callable[..., Term]:
    return _function(lambda b, *xs: elementwise(b, construct, *xs))


exp = _function(ew.exp)
expm1 = _function(ew.expm1)
log = _function(ew.log)
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
gammaln = _primitive(lax.lgamma)
floor = _function(ew.floor)
round_ = _function(ew.round_half_to_even)
minimum = _function(ew.minimum)
maximum = _function(ew.maximum)
equal = _function(ew.equal)
where = _function(ew.where)


def call(emit: ew.Emit, *xs: Term) -> Term:
    """What a function of values emits."""
    b = xs[0].builder
    return Term(b, emit(b, *[x.value for x in xs]))


def magnitude(x: Term) -> Term:
    """``|x|``."""
    return _apply(ew.absolute, x)


def polynomial(coefficients: Sequence[float], x: Term) -> Term:
    """The polynomial with these coefficients, that of the lowest power first, by Horner's rule."""
    *lower, last = coefficients
    value: Operand = last
    for coefficient in reversed(lower):
        value = value * x + coefficient
    assert isinstance(value, Term)
    return value


def totals(number: int, count: int, part: Callable[..., Sequence[Term]], *xs: Term) -> list[Term]:
    """The sums over ``k`` from 0 to ``count - 1`` of the terms that ``part(k, *xs)`` returns.

    By a loop, so that nothing is ``count`` times as large as the operands.
    """
    b = xs[0].builder
    # Of the operands' common shape; under `shard_map` it varies over the same axes.
    zero = sum((0 * x for x in xs[1:]), 0 * xs[0])

    def body(inner: Builder, *carries: Value) -> list[Value]:
        k, *terms = (Term(inner, x) for x in carries)
        given, sums = terms[: len(xs)], terms[len(xs) :]
        parts = part(k, *given)
        following = [k + 1, *given, *(s + p for s, p in zip(sums, parts, strict=True))]
        return [term.value for term in following]

    def goes_on(inner: Builder, k: Value, *_: Value) -> Value:
        return ew.less(inner, k, like(k, count))

    carries = [like(zero.value, 0), *(x.value for x in xs), *[zero.value] * number]
    return [Term(b, x) for x in while_loop(b, goes_on, body, carries)[1 + len(xs) :]]


# --- Formulas as functions of values ------------------------------------------------------


def formula(f: Callable[..., Term]) -> ew.Emit:
    """A function of a builder and values that is written as one of terms."""

    def emit(b: Builder, *xs: Value) -> Value:
        return f(*[Term(b, x) for x in xs]).value

    emit.__name__ = emit.__qualname__ = f.__name__.removeprefix("_")
    emit.__doc__ = f.__doc__
    return emit


def single(dtype: Dtype) -> Dtype:
    """Single precision at least: half precision has not the range of coefficients."""
    return np.result_type(dtype, np.float32)


def widest(dtype: Dtype) -> Dtype:
    """The most precise dtype there is while x64 is as it is; SciPy's is float64 always."""
    return _jax.canonicalize_dtype(np.dtype(np.float64))


def computed_in(precision: Callable[[Dtype], Dtype], function: ew.Emit) -> ew.Emit:
    """The function of real numbers computed in another dtype, and rounded to their own."""

    @functools.wraps(function)
    def emit(b: Builder, *xs: Value) -> Value:
        dtype = dtype_of(xs[0])
        if dtype.kind == "c":
            raise UnsupportedOpError(f"JAX has no {function.__name__} of complex numbers.")
        wide = precision(dtype)
        return ew.convert(b, function(b, *[ew.convert(b, x, wide) for x in xs]), dtype)

    return emit
