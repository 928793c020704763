"""Elementwise functions. NumPy says in which dtype each of them computes."""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from jaxprgen.emit import division, transcendental
from jaxprgen.emit import elementwise as ew
from jaxprgen.emit import primitives as lax
from jaxprgen.emit.values import Emit, Value, ValueLike, alike
from jaxprgen.special import stable

__all__ = [
    "abs",
    "absolute",
    "add",
    "angle",
    "arccos",
    "arccosh",
    "arcsin",
    "arcsinh",
    "arctan",
    "arctan2",
    "arctanh",
    "bitwise_and",
    "bitwise_not",
    "bitwise_or",
    "bitwise_xor",
    "cbrt",
    "ceil",
    "clip",
    "conj",
    "conjugate",
    "cos",
    "cosh",
    "deg2rad",
    "divide",
    "equal",
    "exp",
    "exp2",
    "expm1",
    "floor",
    "floor_divide",
    "fmax",
    "fmin",
    "greater",
    "greater_equal",
    "imag",
    "invert",
    "isfinite",
    "isinf",
    "isnan",
    "left_shift",
    "less",
    "less_equal",
    "log",
    "log1p",
    "log2",
    "log10",
    "logaddexp",
    "logical_and",
    "logical_not",
    "logical_or",
    "logical_xor",
    "maximum",
    "minimum",
    "mod",
    "multiply",
    "nan_to_num",
    "negative",
    "not_equal",
    "positive",
    "power",
    "rad2deg",
    "real",
    "reciprocal",
    "remainder",
    "right_shift",
    "rint",
    "round",
    "sign",
    "signbit",
    "sin",
    "sinh",
    "sqrt",
    "square",
    "subtract",
    "tan",
    "tanh",
    "true_divide",
    "trunc",
    "where",
]


def value_of(x: ValueLike) -> Value:
    """Return an operand as a value."""
    return x if type(x) is Value else Value(np.asarray(x))


def operands_of(*xs: ValueLike) -> Sequence[ValueLike]:
    """Return operands as values, except Python numbers, which take the dtype of what they meet."""
    return [x if isinstance(x, (bool, int, float, complex)) else value_of(x) for x in xs]


def promoted(*xs: ValueLike) -> Sequence[Value]:
    """Return operands as values of the dtype to which NumPy promotes them."""
    return alike(*operands_of(*xs))


@functools.lru_cache(maxsize=1024)
def _dtypes(name: str, *dtypes: Any) -> tuple[Any, ...]:
    """Return the dtypes in which NumPy computes a function of operands of these dtypes."""
    ufunc = getattr(np, name)
    return ufunc.resolve_dtypes((*dtypes, *[None] * ufunc.nout))


def _ufunc(name: str, emit: Emit) -> Emit:
    def function(*operands: ValueLike) -> Value:
        given = operands_of(*operands)
        values = [x for x in given if type(x) is Value]
        values = values if len(values) == len(given) else alike(*given)
        *wanted, result = _dtypes(name, *(x.dtype for x in values))
        found = emit(*(x.astype(ew.canonical(d)) for x, d in zip(values, wanted, strict=True)))
        return found.astype(ew.canonical(result))

    return _named(function, name)


def _named(function: Emit, name: str) -> Emit:
    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"Return `numpy.{name}`."
    return function


def _comparison(name: str, relation: Any) -> Emit:
    def function(x: ValueLike, y: ValueLike) -> Value:
        x, y = operands_of(x, y)
        if type(x) is Value and type(y) is Value:
            return ew.compare(relation, x, y)
        return relation(*alike(x, y))

    return _named(function, name)


def _rint(x: Value) -> Value:
    if x.dtype.kind != "c":
        return ew.round_half_to_even(x)
    return ew.complex_(*(ew.round_half_to_even(part(x)) for part in (ew.real, ew.imag)))


def _signbit(x: Value) -> Value:
    bits = np.dtype(f"int{8 * x.dtype.itemsize}")
    return lax.bitcast_convert_type(x, bits) < 0


exp = _ufunc("exp", ew.exp)
exp2 = _ufunc("exp2", ew.exp2)
expm1 = _ufunc("expm1", ew.expm1)
log = _ufunc("log", ew.log)
log1p = _ufunc("log1p", ew.log1p)
sqrt = _ufunc("sqrt", ew.sqrt)
square = _ufunc("square", ew.square)
sign = _ufunc("sign", ew.sign)
sin = _ufunc("sin", ew.sin)
cos = _ufunc("cos", ew.cos)
tan = _ufunc("tan", ew.tan)
arcsin = _ufunc("arcsin", ew.arcsin)
arccos = _ufunc("arccos", ew.arccos)
arctan = _ufunc("arctan", ew.arctan)
sinh = _ufunc("sinh", ew.sinh)
cosh = _ufunc("cosh", ew.cosh)
tanh = _ufunc("tanh", ew.tanh)
arcsinh = _ufunc("arcsinh", ew.arcsinh)
arccosh = _ufunc("arccosh", ew.arccosh)
arctanh = _ufunc("arctanh", ew.arctanh)
floor = _ufunc("floor", ew.floor)
ceil = _ufunc("ceil", ew.ceil)
trunc = _ufunc("trunc", ew.trunc)
conjugate = _ufunc("conjugate", ew.conjugate)
isnan = _ufunc("isnan", ew.isnan)
isinf = _ufunc("isinf", ew.isinf)
absolute = _ufunc("absolute", ew.modulus)
cbrt = _ufunc("cbrt", lax.cbrt)
deg2rad = _ufunc("deg2rad", lambda x: x * (math.pi / 180))
invert = _ufunc("invert", lambda x: ~x)
isfinite = _ufunc("isfinite", lambda x: ~(ew.isnan(x) | ew.isinf(x)))
log2 = _ufunc("log2", transcendental.log2)
log10 = _ufunc("log10", transcendental.log10)
logical_not = _ufunc("logical_not", lambda x: ~ew.truth(x))
negative = _ufunc("negative", lambda x: -x)
positive = _ufunc("positive", lambda x: x)
rad2deg = _ufunc("rad2deg", lambda x: x * (180 / math.pi))
reciprocal = _ufunc("reciprocal", division.reciprocal)
rint = _ufunc("rint", _rint)
signbit = _ufunc("signbit", _signbit)

add = _ufunc("add", operator.add)
arctan2 = _ufunc("arctan2", ew.arctan2)
bitwise_and = _ufunc("bitwise_and", operator.and_)
bitwise_or = _ufunc("bitwise_or", operator.or_)
bitwise_xor = _ufunc("bitwise_xor", operator.xor)
divide = _ufunc("divide", division.divide)
floor_divide = _ufunc("floor_divide", division.floor_divide)
fmax = _ufunc("fmax", lambda x, y: ew.where(ew.isnan(y) | (x >= y), x, y))
fmin = _ufunc("fmin", lambda x, y: ew.where(ew.isnan(y) | (x <= y), x, y))
left_shift = _ufunc("left_shift", ew.left_shift)
logaddexp = _ufunc("logaddexp", stable.logaddexp)
logical_and = _ufunc("logical_and", lambda x, y: ew.truth(x) & ew.truth(y))
logical_or = _ufunc("logical_or", lambda x, y: ew.truth(x) | ew.truth(y))
logical_xor = _ufunc("logical_xor", lambda x, y: ew.truth(x) ^ ew.truth(y))
maximum = _ufunc("maximum", ew.maximum)
minimum = _ufunc("minimum", ew.minimum)
multiply = _ufunc("multiply", operator.mul)
power = _ufunc("power", division.power)
remainder = _ufunc("remainder", division.remainder)
right_shift = _ufunc("right_shift", ew.right_shift)
subtract = _ufunc("subtract", operator.sub)

equal = _comparison("equal", ew.equal)
greater = _comparison("greater", operator.gt)
greater_equal = _comparison("greater_equal", operator.ge)
less = _comparison("less", operator.lt)
less_equal = _comparison("less_equal", operator.le)
not_equal = _comparison("not_equal", ew.not_equal)

abs, bitwise_not, conj, mod, true_divide = absolute, invert, conjugate, remainder, divide


def real(x: ValueLike) -> Value:
    """Return the real part; a real value is returned as it is."""
    return ew.real(value_of(x))


def imag(x: ValueLike) -> Value:
    """Return the imaginary part; for a real value, zeros."""
    return ew.imag(value_of(x))


def angle(x: ValueLike) -> Value:
    """Return the argument of a complex number; for a real one, 0 or pi."""
    x = value_of(x)
    wanted = np.angle(np.empty(0, x.dtype)).dtype
    x = x if x.dtype.kind == "c" else x.astype(ew.canonical(wanted))
    return transcendental.angle(x)


def where(condition: ValueLike, x: ValueLike, y: ValueLike) -> Value:
    """Return ``x`` where a condition is not zero, and ``y`` elsewhere."""
    return ew.where(ew.truth(value_of(condition)), *promoted(x, y))


def clip(x: ValueLike, a_min: ValueLike | None, a_max: ValueLike | None) -> Value:
    """Return ``minimum(maximum(x, a_min), a_max)``; a bound that is None does not bound."""
    x = value_of(x)
    if a_min is not None:
        x = maximum(x, a_min)
    return x if a_max is None else minimum(x, a_max)


def round(x: ValueLike, decimals: int = 0) -> Value:
    """Return `numpy.round`: ties go to the even neighbour."""
    x = value_of(x)
    if not decimals or x.dtype.kind not in "f":
        return ew.round_half_to_even(x)
    scale = 10.0 ** operator.abs(decimals)
    if decimals > 0:
        return ew.round_half_to_even(x * scale) / scale
    return ew.round_half_to_even(x / scale) * scale


def nan_to_num(x: ValueLike, nan: float = 0.0) -> Value:
    """Return the value with ``nan`` for NaN, and the largest numbers for infinities."""
    x = value_of(x)
    if x.dtype.kind != "f":
        return x
    largest = np.finfo(x.dtype).max
    return ew.where(ew.isnan(x), nan, ew.minimum(ew.maximum(x, -largest), largest))
