"""Quotients and powers of complex numbers, by the formulas of NumPy's C code.

The formulas decide the results for infinities, NaN and zeros, where XLA's formulas give others.
Divisions follow R. L. Smith, *Algorithm 116: Complex division*, CACM 5 (1962), as in NumPy's
``loops.c.src``, except that divisors are never inverted, because the inverse of a large divisor
underflows. Powers follow ``npy_cpow`` in ``npy_math_complex.c.src``, and the C library's
``cexp(y * clog(x))``.
"""

from __future__ import annotations

import functools
import math
import operator

import numpy as np

from jaxprgen.emit import elementwise as ew
from jaxprgen.emit.custom_derivatives import with_derivatives
from jaxprgen.emit.values import INT32, Value, common_shape, full, where


def _parts(x: Value) -> tuple[Value, Value]:
    """Return the real and the imaginary part; those of a known number are known."""
    number = x.fill_value
    if number is None:
        return ew.real(x), ew.imag(x)
    return Value(np.asarray(number.real), x.shape), Value(np.asarray(number.imag), x.shape)


def _uniform(x: Value) -> Value:
    """Return a known array of one element as that number, repeated."""
    source = x.source
    if not isinstance(source, np.ndarray) or source.size != 1:
        return x
    return Value(source.reshape(()), x.shape)


def _is_infinite(x: Value) -> Value:
    return ew.equal(abs(x), math.inf)


# --- Division -----------------------------------------------------------------------------


def divide(x: Value, y: Value) -> Value:
    """Return ``x / y`` of complex numbers; over zero, divide each part by 0."""
    return _quotient(x, _uniform(y))


def _quotient_by_cases(x: Value, y: Value) -> Value:
    (real, imag), (c, d) = _parts(x), _parts(y)
    zero, by_real = ew.equal(y, 0), abs(c) >= abs(d)
    large, small = where(by_real, c, d), where(by_real, d, c)
    ratio = small / large
    denominator = where(zero, 0, large + small * ratio)
    first, second = where(by_real, real, imag), where(by_real, imag, real)
    product = first * ratio
    # Both differences are +0 where the terms are equal, so neither is the other's negative.
    difference = where(by_real, second - product, product - second)
    real, imag = where(zero, real, first + second * ratio), where(zero, imag, difference)
    return ew.complex_(real / denominator, imag / denominator)


def _reciprocal(x: Value) -> Value:
    real, imag = _parts(x)
    by_real = abs(imag) <= abs(real)
    large, small = where(by_real, real, imag), where(by_real, imag, real)
    ratio = small / large
    divisor = large + small * ratio
    up, down = 1 / divisor, ratio / divisor
    return ew.complex_(where(by_real, up, down), -where(by_real, down, up))


reciprocal = with_derivatives(_reciprocal, lambda x: -ew.square(reciprocal(x)))
reciprocal.__doc__ = "Return ``1 / x`` of complex numbers; NaN at zero."
_quotient = with_derivatives(
    _quotient_by_cases, lambda x, y: reciprocal(y), lambda x, y: -divide(divide(x, y), y)
)


# --- Powers -------------------------------------------------------------------------------

_NAN = np.asarray(complex(math.nan, math.nan))
_DIGITS = 7
"""Integral exponents below 100, which have at most this many binary digits, become products."""


def power(x: Value, y: Value) -> Value:
    """Return ``x ** y`` of complex numbers; 1 where ``y`` is 0, else 0 or NaN where ``x`` is 0.

    A known integral exponent between -100 and 100 emits only the products that it stands for.
    """
    y = _uniform(y)
    if y.fill_value == 0:
        return full(common_shape(x, y), 1, x.dtype)
    return _power(x, y)


def _power_by_cases(x: Value, y: Value) -> Value:
    exponent = y.fill_value
    if exponent is None:
        return _power_by_variable(x, y)
    if _is_whole(exponent):
        raised = _known_product(x, int(exponent.real))
        raised = raised if exponent.real > 0 else divide(raised.like(1), raised)
    else:
        raised = _by_logarithm(x, *_parts(y))
    return where(ew.equal(x, 0), 0 if exponent.real > 0 else _NAN, raised)


def _power_by_variable(x: Value, y: Value) -> Value:
    """Return the power for an exponent that only the running program knows."""
    c, d = _parts(y)
    whole = ew.equal(d, 0) & (abs(c) < 100) & ew.equal(ew.floor(c), c)
    product = _product(x, where(whole, c, 0))
    product = where(c < 0, divide(product.like(1), product), product)
    raised = where(whole, product, _by_logarithm(x, c, d))
    # For a base of zero, an exponent with a real part <= 0 gives NaN.
    raised = where(ew.equal(x, 0), where(c > 0, raised.like(0), raised.like(_NAN)), raised)
    return where(ew.equal(y, 0), 1, raised)


def _is_whole(exponent: np.generic) -> bool:
    real = exponent.real
    return bool(exponent.imag == 0 and abs(real) < 100 and real == math.floor(real))


def _known_product(x: Value, n: int) -> Value:
    """Return ``x ** abs(n)`` by squaring; unless ``n`` is 1, 2 or 3, one factor is 1."""
    factors = []
    for digit in range(n.bit_length()):
        x = ew.square(x) if digit else x
        factors += [x] if abs(n) >> digit & 1 else []
    first, *others = factors
    return functools.reduce(operator.mul, others, first if 0 < n <= 3 else _times_one(first))


def _product(x: Value, n: Value) -> Value:
    """Return ``x ** abs(n)``; unless ``n`` is 1, 2 or 3, one factor is 1."""
    number = abs(n).astype(INT32)
    absent = [ew.equal(number & 1 << digit, 0) for digit in range(_DIGITS)]
    factor = where((n > 0) & (n <= 3), x, _times_one(x))
    result = where(absent[0], 1, factor)
    for digit in range(1, _DIGITS):
        x = ew.square(x)
        longer = where(ew.equal(n, 2), x, result * x) if digit == 1 else result * x
        result = where(absent[digit], result, longer)
    return result


def _times_one(x: Value) -> Value:
    """Return ``(1 + 0i) x``, which turns infinities into NaN in the other part."""
    real, imag = _parts(x)
    return ew.complex_(real - 0 * imag, imag + 0 * real)


def _by_logarithm(x: Value, c: Value, d: Value) -> Value:
    """Return ``exp((c + di) log(x))`` where ``x`` is not zero."""
    logarithm = ew.log(x)
    infinite = ew.isinf(x)
    size, angle = _parts(logarithm)
    size = where(infinite, math.inf, size)  # Even if the other part is NaN.
    real, imag = c * size - d * angle, c * angle + d * size
    is_infinite, *parts = _infinite_product(c, d, size, angle, infinite)
    lost = is_infinite & ew.isnan(real) & ew.isnan(imag)
    return _exponential(*(where(lost, y, x) for x, y in zip((real, imag), parts, strict=True)))


def _infinite_product(
    c: Value, d: Value, size: Value, angle: Value, infinite: Value
) -> tuple[Value, Value, Value]:
    """Return where a factor of ``(c + di) log(x)`` is infinite, and the infinite product.

    It is the product of C99, annex G.5.1, which applies where both parts would be NaN: the signs of
    infinities decide alone, and NaN counts as zero. ``infinite`` says where the real part ``size``
    of the logarithm is infinite.
    """
    numbers = [part.fill_value for part in (c, d)]
    if None not in numbers and np.isfinite(numbers).all():
        return infinite, *(size.like(math.inf * float(part)) for part in numbers)  # type: ignore[return-value]
    unbounded = _is_infinite(c) | _is_infinite(d)
    c, d = _sign(c, unbounded), _sign(d, unbounded)
    size = where(infinite, 1, where(ew.isnan(size), 0, size))
    angle = where(infinite | ew.isnan(angle), 0, angle)
    real, imag = c * size - d * angle, c * angle + d * size
    return infinite | unbounded, math.inf * real, math.inf * imag


def _sign(x: Value, unbounded: Value) -> Value:
    """Return the sign of a part; 0 for NaN, and for a finite part of an ``unbounded`` number."""
    counts = ew.equal(where(unbounded, abs(x), math.inf), math.inf) & ~ew.isnan(x)
    return where(counts, ew.sign(x), 0)


def _exponential(real: Value, imag: Value) -> Value:
    """Return ``exp(real + i imag)``, infinite or zero where C99, annex G.6.3.1, says so."""
    root = ew.exp(0.5 * real)  # Applied twice: a product may be finite where exp(real) is not.
    endless = ~(abs(imag) < math.inf)
    cosine = where(endless & _is_infinite(real), 1, ew.cos(imag))
    signed_zero = where(imag < 0, imag.like(-0.0), imag.like(0.0))
    sine = where(endless & ew.equal(real, -math.inf), signed_zero, ew.sin(imag))
    sine = where(ew.equal(imag, 0), imag, root * sine * root)
    return ew.complex_(root * cosine * root, sine)


def _by_base(x: Value, y: Value) -> Value:
    exponent = y.fill_value
    if exponent is not None:  # It is not 0.
        return y * power(x, y.like(exponent - 1))
    return where(ew.equal(y, 0), 0, y * power(x, y - 1))


def _by_exponent(x: Value, y: Value) -> Value:
    return power(x, y) * ew.log(where(ew.equal(x, 0), 1, x))


_power = with_derivatives(_power_by_cases, _by_base, _by_exponent)
