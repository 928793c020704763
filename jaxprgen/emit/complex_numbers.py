"""Quotients and powers of complex numbers, by the formulas of NumPy's C code.

What becomes of infinities, NaN and zeros follows from the formulas: XLA's, which are others, differ
there. Divisions are those of R. L. Smith, *Algorithm 116: Complex division*, CACM 5 (1962), as in
``loops.c.src``, but for factors that are not made of divisors, which would be too small for large
ones; powers those of ``npy_cpow`` in ``npy_math_complex.c.src``, with the C library's
``cexp(y * clog(x))`` at last.
"""

from __future__ import annotations

import functools
import math
import operator

import numpy as np

from jaxprgen.emit import elementwise as ew
from jaxprgen.emit import expression as fx
from jaxprgen.emit.derivatives import with_derivatives
from jaxprgen.emit.expression import Expression, call, where
from jaxprgen.emit.values import (
    Value,
    broadcast_shapes,
    broadcast_to,
    dtype_of,
    known,
    like,
    shape_of,
    splat,
    splat_value,
)
from jaxprgen.ir import Builder


def _parts(x: Expression) -> tuple[Expression, Expression]:
    """The real and the imaginary part; those of a known number are known."""
    number = splat_value(x.value)
    if number is None:
        return call(ew.real, x), call(ew.imag, x)
    return tuple(Expression(x.builder, np.asarray(part)) for part in (number.real, number.imag))  # type: ignore[return-value]


def _splat(x: Value) -> Value:
    """A known array of one number as that number, repeated."""
    array = known(x)
    if array is None or array.size != 1:
        return x
    return splat(array.reshape(()), array.dtype, array.shape)


def _is_infinite(x: Expression) -> Expression:
    return abs(x).equals(math.inf)


# --- Division -----------------------------------------------------------------------------


def divide(b: Builder, x: Value, y: Value) -> Value:
    """``x / y`` of complex numbers; over zero the quotients of the parts and 0."""
    divisor = splat_value(_splat(y))
    if divisor is None:
        return _quotient(b, x, y)
    shape = broadcast_shapes(shape_of(x), shape_of(y))
    return broadcast_to(b, _divide_by_known(Expression(b, x), divisor), shape)


def _divide(b: Builder, x: Value, y: Value) -> Value:
    divisor, (real, imag) = Expression(b, y), _parts(Expression(b, x))
    c, d = _parts(divisor)
    zero, by_real = divisor.equals(0), abs(c) >= abs(d)
    large, small = where(by_real, c, d), where(by_real, d, c)
    ratio = small / large
    denominator = where(zero, 0, large + small * ratio)
    first, second = where(by_real, real, imag), where(by_real, imag, real)
    product = first * ratio
    # Not one the other's negative: both are +0 where the terms are equal.
    difference = where(by_real, second - product, product - second)
    real, imag = where(zero, real, first + second * ratio), where(zero, imag, difference)
    return call(ew.complex_, real / denominator, imag / denominator).value


def _divide_by_known(x: Expression, y: np.generic) -> Value:
    real, imag = _parts(x)
    c, d = y.real, y.imag
    with np.errstate(all="ignore"):
        if y == 0:
            return call(ew.complex_, real / abs(c), imag / abs(c)).value
        by_real = abs(c) >= abs(d)
        ratio = d / c if by_real else c / d
        denominator = c + d * ratio if by_real else d + c * ratio
    if by_real:
        real, imag = real + imag * ratio, imag - real * ratio
    else:
        real, imag = real * ratio + imag, imag * ratio - real
    return call(ew.complex_, real / denominator, imag / denominator).value


def _divide_one(b: Builder, x: Value) -> Value:
    real, imag = _parts(Expression(b, x))
    by_real = abs(imag) <= abs(real)
    large, small = where(by_real, real, imag), where(by_real, imag, real)
    ratio = small / large
    divisor = large + small * ratio
    up, down = 1 / divisor, ratio / divisor
    return call(ew.complex_, where(by_real, up, down), -where(by_real, down, up)).value


def _reciprocal_slope(b: Builder, x: Value) -> Value:
    return ew.negative(b, ew.square(b, reciprocal(b, x)))


def _quotient_slope(b: Builder, x: Value, y: Value) -> Value:
    return ew.negative(b, divide(b, divide(b, x, y), y))


reciprocal = with_derivatives(_divide_one, _reciprocal_slope)
reciprocal.__doc__ = "``1 / x`` of complex numbers; NaN at zero."
_quotient = with_derivatives(_divide, lambda b, x, y: reciprocal(b, y), _quotient_slope)


# --- Powers -------------------------------------------------------------------------------

_NAN = np.asarray(complex(math.nan, math.nan))
_DIGITS = 7
"""Integral exponents that have no more binary digits, and are below 100, mean products."""


def power(b: Builder, x: Value, y: Value) -> Value:
    """``x ** y`` of complex numbers; 1 where ``y`` is 0, else 0 or NaN where ``x`` is 0.

    A known integral exponent between -100 and 100 takes only the products that it stands for.
    """
    y = _splat(y)
    if splat_value(y) == 0:
        return splat(1, dtype_of(x), broadcast_shapes(shape_of(x), shape_of(y)))
    return _power(b, x, y)


def _raise(b: Builder, x: Value, y: Value) -> Value:
    base, exponent = Expression(b, x), splat_value(y)
    if exponent is None:
        return _chosen(base, Expression(b, y)).value
    if _is_whole(exponent):
        raised = _known_product(base, int(exponent.real))
        raised = raised if exponent.real > 0 else call(divide, 1, raised)
    else:
        raised = _by_logarithm(base, *_parts(Expression(b, y)))
    return where(base.equals(0), 0 if exponent.real > 0 else _NAN, raised).value


def _chosen(x: Expression, y: Expression) -> Expression:
    """Where only the program that runs knows the exponent."""
    c, d = _parts(y)
    whole = d.equals(0) & (abs(c) < 100) & fx.floor(c).equals(c)
    product = _product(x, where(whole, c, 0))
    product = where(c < 0, call(divide, 1, product), product)
    raised = where(whole, product, _by_logarithm(x, c, d))
    # At a base of zero an exponent without a real part asks for NaN, as a negative one does.
    raised = where(x.equals(0), where(c > 0, raised.like(0), raised.like(_NAN)), raised)
    return where(y.equals(0), 1, raised)


def _is_whole(exponent: np.generic) -> bool:
    real = exponent.real
    return bool(exponent.imag == 0 and abs(real) < 100 and real == math.floor(real))


def _known_product(x: Expression, n: int) -> Expression:
    """``x ** abs(n)`` by squaring; unless ``n`` is 1, 2 or 3, one of the factors is 1."""
    factors = []
    for digit in range(n.bit_length()):
        x = call(ew.square, x) if digit else x
        factors += [x] if abs(n) >> digit & 1 else []
    first, *others = factors
    return functools.reduce(operator.mul, others, first if 0 < n <= 3 else _times_one(first))


def _product(x: Expression, n: Expression) -> Expression:
    """``x ** abs(n)``; unless ``n`` is 1, 2 or 3, one of the factors is 1."""
    number = call(lambda b, n: ew.convert(b, n, np.dtype(np.int32)), abs(n))
    absent = [call(ew.bitwise_and, number, 1 << digit).equals(0) for digit in range(_DIGITS)]
    factor = where((n > 0) & (n <= 3), x, _times_one(x))
    result = where(absent[0], 1, factor)
    for digit in range(1, _DIGITS):
        x = call(ew.square, x)
        longer = where(n.equals(2), x, result * x) if digit == 1 else result * x
        result = where(absent[digit], result, longer)
    return result


def _times_one(x: Expression) -> Expression:
    """``(1 + 0i) x``: beside infinities there is NaN then."""
    real, imag = _parts(x)
    return call(ew.complex_, real - 0 * imag, imag + 0 * real)


def _by_logarithm(x: Expression, c: Expression, d: Expression) -> Expression:
    """``exp((c + di) log(x))`` where ``x`` is not zero."""
    logarithm = call(ew.log, x)
    infinite = call(ew.isinf, x)
    size, angle = _parts(logarithm)
    size = where(infinite, math.inf, size)  # Also if the other part is NaN.
    real, imag = c * size - d * angle, c * angle + d * size
    endless, *parts = _endless(c, d, size, angle, infinite)
    lost = endless & fx.isnan(real) & fx.isnan(imag)
    return _exponential(*(where(lost, y, x) for x, y in zip((real, imag), parts, strict=True)))


def _endless(
    c: Expression, d: Expression, size: Expression, angle: Expression, infinite: Expression
) -> tuple[Expression, Expression, Expression]:
    """Where a factor of ``(c + di) log(x)`` is infinite, and their product as it has signs.

    That of C99, annex G.5.1, which counts where both parts would be NaN: by the signs of infinities
    alone, with zeros for NaN. ``infinite`` says where the logarithm is, in its real part ``size``.
    """
    numbers = [splat_value(part.value) for part in (c, d)]
    if None not in numbers and np.isfinite(numbers).all():
        return infinite, *(size.like(math.inf * float(part)) for part in numbers)  # type: ignore[return-value]
    unbounded = _is_infinite(c) | _is_infinite(d)
    c, d = _sign(c, unbounded), _sign(d, unbounded)
    size = where(infinite, 1, where(fx.isnan(size), 0, size))
    angle = where(infinite | fx.isnan(angle), 0, angle)
    real, imag = c * size - d * angle, c * angle + d * size
    return infinite | unbounded, math.inf * real, math.inf * imag


def _sign(x: Expression, unbounded: Expression) -> Expression:
    """The sign of a part; of a finite one beside one that is ``unbounded``, and of NaN, 0."""
    counts = where(unbounded, abs(x), math.inf).equals(math.inf) & ~fx.isnan(x)
    return where(counts, call(ew.sign, x), 0)


def _exponential(real: Expression, imag: Expression) -> Expression:
    """``exp(real + i imag)``, infinite or zero wherever the real part is, as in C99, G.6.3.1."""
    root = fx.exp(0.5 * real)  # Twice, for products that are finite where their factor is not.
    endless = ~(abs(imag) < math.inf)
    cosine = where(endless & _is_infinite(real), 1, fx.cos(imag))
    nothing = where(imag < 0, imag.like(-0.0), imag.like(0.0))
    sine = where(endless & real.equals(-math.inf), nothing, fx.sin(imag))
    sine = where(imag.equals(0), imag, root * sine * root)
    return call(ew.complex_, root * cosine * root, sine)


def _by_base(b: Builder, x: Value, y: Value) -> Value:
    exponent = splat_value(y)
    if exponent is not None:  # It is not 0.
        return ew.multiply(b, y, power(b, x, like(y, exponent - 1)))
    slope = ew.multiply(b, y, power(b, x, ew.subtract(b, y, like(y, 1))))
    return ew.where(b, ew.equal(b, y, like(y, 0)), like(y, 0), slope)


def _by_exponent(b: Builder, x: Value, y: Value) -> Value:
    base = ew.where(b, ew.equal(b, x, like(x, 0)), like(x, 1), x)
    return ew.multiply(b, power(b, x, y), ew.log(b, base))


_power = with_derivatives(_raise, _by_base, _by_exponent)
