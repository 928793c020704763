"""Arithmetic, comparison, logic, rounding and conversion, with NumPy's meaning.

Binary functions take operands of one dtype. Where a primitive means exactly what NumPy's
function means, the function is the primitive behind broadcasting (the tables below).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from jaxprgen import _jax
from jaxprgen._jax import Var
from jaxprgen.emit.values import (
    BOOL,
    Broadcast,
    Dtype,
    Value,
    broadcast_shapes,
    broadcast_to,
    dtype_of,
    elementwise,
    full_rank,
    like,
    shape_of,
    splat,
    splat_value,
)
from jaxprgen.ir import Builder
from jaxprgen.ir import primitives as lax

Emit = Callable[..., Value]


def _direct(construct: Any) -> Emit:
    """A function that is one primitive, behind NumPy's broadcasting."""

    def emit(b: Builder, *operands: Value) -> Value:
        if len(operands) == 1 and type(operands[0]) is Var:  # Nothing to broadcast: 0.3 µs less.
            return construct(b, operands[0])
        return elementwise(b, construct, *operands)

    emit.__name__ = emit.__qualname__ = construct.__name__
    emit.__doc__ = construct.__doc__
    return emit


negative = _direct(lax.neg)
exp = _direct(lax.exp)
expm1 = _direct(lax.expm1)
log = _direct(lax.log)
log1p = _direct(lax.log1p)
sqrt = _direct(lax.sqrt)
sin = _direct(lax.sin)
cos = _direct(lax.cos)
tan = _direct(lax.tan)
arcsin = _direct(lax.asin)
arccos = _direct(lax.acos)
arctan = _direct(lax.atan)
tanh = _direct(lax.tanh)
arcsinh = _direct(lax.asinh)
arccosh = _direct(lax.acosh)
arctanh = _direct(lax.atanh)
arctan2 = _direct(lax.atan2)
invert = _direct(lax.bitwise_not)
bitwise_and = _direct(lax.bitwise_and)
bitwise_or = _direct(lax.bitwise_or)
bitwise_xor = _direct(lax.bitwise_xor)
equal = _direct(lax.eq)
not_equal = _direct(lax.ne)


# --- Arithmetic: addition and multiplication of booleans are "or" and "and" ---------------


def _arithmetic(number: Any, boolean: Any) -> Emit:
    def emit(b: Builder, x: Value, y: Value) -> Value:
        return elementwise(b, boolean if dtype_of(x) == BOOL else number, x, y)

    emit.__name__ = emit.__qualname__ = number.__name__
    emit.__doc__ = f"``{number.__name__}``; on booleans ``{boolean.__name__}``, as in NumPy."
    return emit


add = _arithmetic(lax.add, lax.bitwise_or)
subtract = _direct(lax.sub)
divide = _direct(lax.div)
_multiply = _arithmetic(lax.mul, lax.bitwise_and)


def multiply(b: Builder, x: Value, y: Value) -> Value:
    """``x * y``; on booleans "and". A known factor of one costs nothing: that is exact.

    (A known zero does: its product with NaN is NaN, and with -1 it is -0.)
    """
    if type(x) is Var and type(y) is Var:
        return _multiply(b, x, y)
    for factor, other in ((x, y), (y, x)):
        if type(factor) is not Var and splat_value(factor) == 1:
            return broadcast_to(b, other, broadcast_shapes(shape_of(x), shape_of(y)))
    return _multiply(b, x, y)


def exp2(b: Builder, x: Value) -> Value:
    """``2 ** x`` of floats or complex numbers, exact where a float is integral, as in NumPy.

    By a power: XLA's exponential rounds ``x log 2`` first, which in float32 costs up to 4e-6.
    """
    if dtype_of(x).kind == "c":
        return elementwise(b, lax.exp2, x)
    return elementwise(b, lax.pow, like(x, 2), x)


def cosh(b: Builder, x: Value) -> Value:
    """The hyperbolic cosine of floats or complex numbers.

    XLA's adds the logarithm of 1/2 to a float first, which in float32 costs up to 4e-6.
    """
    if dtype_of(x).kind == "c":
        return elementwise(b, lax.cosh, x)
    return add(b, *_half_exponentials(b, x))


def sinh(b: Builder, x: Value) -> Value:
    """The hyperbolic sine of floats or complex numbers; see `cosh`. XLA's is exact up to 1."""
    if dtype_of(x).kind == "c":
        return elementwise(b, lax.sinh, x)
    one = like(x, 1)
    small = elementwise(b, lax.sinh, clip(b, x, negative(b, one), one))
    large = subtract(b, *_half_exponentials(b, x))
    return where(b, less(b, absolute(b, x), one), small, large)


def _half_exponentials(b: Builder, x: Value) -> tuple[Value, Value]:
    """``exp(x) / 2`` and ``exp(-x) / 2``, as products that overflow where these do."""
    half = like(x, 0.5)
    roots = (exp(b, multiply(b, x, factor)) for factor in (half, -half))
    up, down = (multiply(b, multiply(b, root, half), root) for root in roots)
    return up, down


def square(b: Builder, x: Value) -> Value:
    """``x * x``."""
    return x if dtype_of(x) == BOOL else elementwise(b, lax.square, x)


def absolute(b: Builder, x: Value) -> Value:
    """The absolute value; of complex numbers the modulus, a float, infinite where a part is."""
    kind = dtype_of(x).kind
    if kind in "bu":
        return x
    size = elementwise(b, lax.abs, x)
    return where(b, isinf(b, x), like(size, np.inf), size) if kind == "c" else size


def sign(b: Builder, x: Value) -> Value:
    """-1, 0 or 1; NaN stays NaN. That of -0 is 0, as in NumPy, where XLA's is -0."""
    y = elementwise(b, lax.sign, x)
    return where(b, equal(b, x, like(x, 0)), like(x, 0), y) if dtype_of(x).kind == "f" else y


def reciprocal(b: Builder, x: Value) -> Value:
    """``1 / x``."""
    return divide(b, like(x, 1), x)


# --- Comparison: complex numbers are ordered by real, then imaginary part -----------------


def _comparison(construct: Any, strict: Any) -> Emit:
    def emit(b: Builder, x: Value, y: Value) -> Value:
        if dtype_of(x).kind != "c":
            return elementwise(b, construct, x, y)
        xr, yr, xi, yi = real(b, x), real(b, y), imag(b, x), imag(b, y)
        tie = bitwise_and(b, equal(b, xr, yr), elementwise(b, construct, xi, yi))
        numbers = bitwise_and(b, equal(b, xi, xi), equal(b, yi, yi))
        return bitwise_or(b, bitwise_and(b, elementwise(b, strict, xr, yr), numbers), tie)

    emit.__name__ = emit.__qualname__ = construct.__name__
    emit.__doc__ = f"``{construct.__name__}``; lexicographic on complex numbers, false at NaN."
    return emit


less = _comparison(lax.lt, lax.lt)
less_equal = _comparison(lax.le, lax.lt)
greater = _comparison(lax.gt, lax.gt)
greater_equal = _comparison(lax.ge, lax.gt)


def _extremum(construct: Any, wins: Emit) -> Emit:
    def emit(b: Builder, x: Value, y: Value) -> Value:
        if dtype_of(x).kind != "c":
            return elementwise(b, construct, x, y)
        return where(b, bitwise_or(b, wins(b, x, y), isnan(b, x)), x, y)

    emit.__name__ = emit.__qualname__ = construct.__name__ + "imum"
    emit.__doc__ = f"The {construct.__name__}imum; NaN where either operand is."
    return emit


maximum = _extremum(lax.max, greater_equal)
minimum = _extremum(lax.min, less_equal)


def isnan(b: Builder, x: Value) -> Value:
    """Whether a value is NaN; false for integers."""
    if dtype_of(x).kind not in "fc":
        return splat(False, BOOL, shape_of(x))
    return elementwise(b, lax.ne, x, x)


def isinf(b: Builder, x: Value) -> Value:
    """Whether a value, or a part of a complex one, is infinite; false for integers."""
    kind = dtype_of(x).kind
    if kind == "c":
        return bitwise_or(b, isinf(b, real(b, x)), isinf(b, imag(b, x)))
    if kind != "f":
        return splat(False, BOOL, shape_of(x))
    magnitude = elementwise(b, lax.abs, x)
    return elementwise(b, lax.eq, magnitude, like(x, np.inf))


def truth(b: Builder, x: Value) -> Value:
    """Whether a value differs from zero (NaN does). Of a known value it is known."""
    if dtype_of(x) == BOOL:
        return x
    if type(x) is Broadcast:
        return Broadcast(truth(b, x.operand), x.shape)  # type: ignore[arg-type]
    return elementwise(b, lax.ne, x, like(x, 0)) if type(x) is Var else np.asarray(x != 0)


def where(b: Builder, condition: Value, x: Value, y: Value) -> Value:
    """``x`` where the boolean condition holds, else ``y``; the dtypes are equal."""
    decided = splat_value(condition)
    if decided is not None:
        shape = broadcast_shapes(shape_of(condition), shape_of(x), shape_of(y))
        return broadcast_to(b, x if decided else y, shape)
    return full_rank(b, lambda b, c, x, y: lax.select_n(b, c, y, x), condition, x, y)


def clip(b: Builder, x: Value, low: Value, high: Value) -> Value:
    """``low`` where ``x < low``, else ``high`` where ``x > high``, else ``x``.

    NaN in ``x`` stays, NaN bounds do not bound. Known scalar bounds that are in order make
    one ``clamp``.
    """
    lo, hi = splat_value(low), splat_value(high)
    if lo is not None and hi is not None and lo <= hi and dtype_of(x) != BOOL:
        clamped = elementwise(b, lambda b, a: lax.clamp(b, b.literal(lo), a, b.literal(hi)), x)
        shape = broadcast_shapes(shape_of(x), shape_of(low), shape_of(high))
        return broadcast_to(b, clamped, shape)
    return where(b, less(b, x, low), low, where(b, greater(b, x, high), high, x))


# --- Rounding ----------------------------------------------------------------------------


def _integral(construct: Any) -> Emit:
    def emit(b: Builder, x: Value) -> Value:
        return elementwise(b, construct, x) if dtype_of(x).kind == "f" else x

    return emit


floor = _integral(lax.floor)
ceil = _integral(lax.ceil)
round_half_to_even = _integral(lambda b, x: lax.round(b, x, half_to_even=True))
round_half_away_from_zero = _integral(lambda b, x: lax.round(b, x, half_to_even=False))


def trunc(b: Builder, x: Value) -> Value:
    """The integral float next to ``x`` towards zero, with its sign."""
    if dtype_of(x).kind != "f":
        return x
    negative_ = elementwise(b, lax.lt, x, like(x, 0))
    return where(b, negative_, ceil(b, x), floor(b, x))


# --- Complex numbers and conversion -------------------------------------------------------


def real(b: Builder, x: Value) -> Value:
    """The real part; a real value itself."""
    return elementwise(b, lax.real, x) if dtype_of(x).kind == "c" else x


def imag(b: Builder, x: Value) -> Value:
    """The imaginary part; of a real value zero."""
    if dtype_of(x).kind == "c":
        return elementwise(b, lax.imag, x)
    return splat(0, dtype_of(x), shape_of(x))


def conjugate(b: Builder, x: Value) -> Value:
    """The complex conjugate; a real value itself."""
    return elementwise(b, lax.conj, x) if dtype_of(x).kind == "c" else x


def complex_(b: Builder, x: Value, y: Value) -> Value:
    """``x + iy`` of floats."""
    return full_rank(b, lax.complex, x, y)


def convert(b: Builder, x: Value, dtype: Dtype) -> Value:
    """``x`` in another dtype, as `numpy.ndarray.astype`; of a complex number the real part."""
    if type(x) is Broadcast:
        operand = convert(b, x.operand, dtype)
        return x if operand is x.operand else Broadcast(operand, x.shape)  # type: ignore[arg-type]
    source = dtype_of(x)
    if source == dtype:
        return x
    if type(x) is not Var:
        if source.kind == "c" and dtype.kind not in "cb":
            x = x.real  # type: ignore[union-attr]
        if dtype.kind in "iu" and source.kind == "f":
            with np.errstate(invalid="ignore"):  # The graph asks for integers of NaN.
                return x.astype(dtype)  # type: ignore[union-attr]
        return x.astype(dtype)  # type: ignore[union-attr]
    if source.kind == "c" and dtype.kind == "b":
        return truth(b, x)
    if source.kind == "c" and dtype.kind != "c":
        return convert(b, lax.real(b, x), dtype)
    return lax.convert_element_type(b, x, dtype)


def strengthen(b: Builder, x: Var) -> Var:
    """The same values under a type that is not weak: JAX's promotion then leaves it alone."""
    return lax.convert_element_type(b, x, x.aval.dtype)


def canonical(dtype: Any) -> Dtype:
    """The dtype that JAX computes in for a declared one (narrower where x64 is off)."""
    return _jax.canonicalize_dtype(np.dtype(dtype))
