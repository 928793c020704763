"""Special functions that are a few primitives, named as in `scipy.special`."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from jaxprgen.emit import elementwise as ew
from jaxprgen.emit.values import Value, dtype_of, elementwise, full_rank, like
from jaxprgen.errors import UnsupportedOpError
from jaxprgen.ir import Builder
from jaxprgen.ir import primitives as lax


def _unary(construct: Any) -> ew.Emit:
    def emit(b: Builder, x: Value) -> Value:
        if dtype_of(x).kind == "c":
            raise UnsupportedOpError(f"JAX has no {construct.__name__} of complex numbers.")
        return elementwise(b, construct, x)

    return emit


def _same_shape(construct: Any) -> ew.Emit:
    return lambda b, *xs: full_rank(b, construct, *xs)


erf = _unary(lax.erf)
erfc = _unary(lax.erfc)
gammaln = _unary(lax.lgamma)
_digamma = _unary(lax.digamma)
expit = _unary(lax.logistic)
gammainc_der = _same_shape(lax.igamma_grad_a)
betainc = _same_shape(lax.regularized_incomplete_beta)


def scaled(b: Builder, x: Value, factor: float) -> Value:
    """``x`` times a known factor."""
    return ew.multiply(b, x, like(x, factor))


def _log_to_base(base: int) -> ew.Emit:
    scale = math.log(base)

    def emit(b: Builder, x: Value) -> Value:
        y = ew.log(b, x)
        if dtype_of(y).kind != "c":
            return ew.divide(b, y, like(y, scale))
        # Part by part: a complex quotient makes NaN of infinities.
        parts = [ew.divide(b, part, like(part, scale)) for part in (ew.real(b, y), ew.imag(b, y))]
        return ew.complex_(b, *parts)

    emit.__doc__ = f"The logarithm to base {base}."
    return emit


log2 = _log_to_base(2)
log10 = _log_to_base(10)


def digamma(b: Builder, x: Value) -> Value:
    """The derivative of `gammaln`; infinite at zeros of either sign, where XLA's is NaN."""
    at_zero = ew.divide(b, like(x, -1), x)
    return ew.where(b, ew.equal(b, x, like(x, 0)), at_zero, _digamma(b, x))


def trigamma(b: Builder, x: Value) -> Value:
    """The derivative of `digamma`; 0 at infinity, where XLA's ``polygamma`` is NaN."""
    value = elementwise(b, lax.polygamma, like(x, 1), x)
    return ew.where(b, ew.equal(b, x, like(x, np.inf)), like(x, 0), value)


def gamma(b: Builder, x: Value) -> Value:
    """The gamma function; NaN at negative integers, signed infinity at signed zeros."""
    magnitude = ew.exp(b, gammaln(b, x))
    low = ew.floor(b, x)
    negative = ew.less(b, x, like(x, 0))
    # Between -2k - 1 and -2k the function is negative: the floor is odd there.
    half = scaled(b, low, 0.5)
    odd = ew.not_equal(b, ew.floor(b, half), half)
    signed = ew.where(b, ew.bitwise_and(b, negative, odd), ew.negative(b, magnitude), magnitude)
    pole = ew.bitwise_and(b, negative, ew.equal(b, low, x))
    at_zero = ew.where(b, ew.equal(b, x, like(x, 0)), ew.reciprocal(b, x), signed)
    return ew.where(b, pole, like(x, np.nan), at_zero)


def _incomplete_gamma(construct: Any, at_zero: float, at_infinity: float) -> ew.Emit:
    def emit(b: Builder, k: Value, x: Value) -> Value:
        zero, infinity = like(x, 0), like(x, np.inf)
        first = ew.bitwise_and(b, ew.equal(b, k, zero), ew.greater(b, x, zero))
        finite = ew.bitwise_and(b, ew.greater_equal(b, x, zero), ew.less(b, x, infinity))
        last = ew.bitwise_and(b, ew.equal(b, k, infinity), finite)
        value = full_rank(b, construct, k, x)
        value = ew.where(b, first, like(x, at_zero), value)
        return ew.where(b, last, like(x, at_infinity), value)

    emit.__doc__ = f"``{construct.__name__}``, with its limits at orders 0 and inf (NaN in XLA)."
    return emit


gammainc = _incomplete_gamma(lax.igamma, 1, 0)
gammaincc = _incomplete_gamma(lax.igammac, 0, 1)


def lower_gamma(b: Builder, k: Value, x: Value) -> Value:
    """The lower incomplete gamma function, not regularized."""
    return ew.multiply(b, gammainc(b, k, x), gamma(b, k))


def upper_gamma(b: Builder, k: Value, x: Value) -> Value:
    """The upper incomplete gamma function, not regularized."""
    return ew.multiply(b, gammaincc(b, k, x), gamma(b, k))


def gammaincc_der(b: Builder, k: Value, x: Value) -> Value:
    """The derivative of `gammaincc` with respect to its first argument."""
    return ew.negative(b, gammainc_der(b, k, x))


def chi2sf(b: Builder, x: Value, k: Value) -> Value:
    """The survival function of the chi-squared distribution with ``k > 0`` degrees of freedom."""
    zero = like(x, 0)
    tail = gammaincc(b, scaled(b, k, 0.5), scaled(b, ew.maximum(b, x, zero), 0.5))
    return ew.where(b, ew.greater(b, k, zero), tail, like(x, np.nan))


def i0(b: Builder, x: Value) -> Value:
    """The modified Bessel function of the first kind of order 0."""
    return _unscaled(b, x, lax.bessel_i0e)


def i1(b: Builder, x: Value) -> Value:
    """The modified Bessel function of the first kind of order 1."""
    return _unscaled(b, x, lax.bessel_i1e)


def _unscaled(b: Builder, x: Value, construct: Any) -> Value:
    """``exp(|x|)`` times the primitive, which is finite where the exponential is not."""
    root = ew.exp(b, scaled(b, _magnitude(b, x), 0.5))
    return ew.multiply(b, ew.multiply(b, root, elementwise(b, construct, x)), root)


def _magnitude(b: Builder, x: Value) -> Value:
    """``|x|`` whose derivative at 0 is 0; that of JAX's ``abs`` is 1."""
    return ew.maximum(b, x, ew.negative(b, x))


def softplus(b: Builder, x: Value) -> Value:
    """``log(1 + exp(x))`` without overflow: ``max(x, 0) + log1p(exp(-|x|))``.

    By choices whose branches are smooth, so that all derivatives are right, at 0 as well.
    """
    positive = ew.greater(b, x, like(x, 0))
    tail = ew.log1p(b, ew.exp(b, ew.where(b, positive, ew.negative(b, x), x)))
    return ew.add(b, ew.where(b, positive, x, like(x, 0)), tail)


def log1mexp(b: Builder, x: Value) -> Value:
    """``log(1 - exp(x))`` for negative ``x``, accurate at both ends.

    M. Mächler, *Accurately computing log(1 − exp(−|a|))*, 2012: switch at log(1/2).
    """
    # Held away from 0, where it is not chosen, lest its infinite derivative there spoil the other.
    distant = ew.minimum(b, x, like(x, -0.5)) if dtype_of(x).kind == "f" else x
    far = ew.log1p(b, ew.negative(b, ew.exp(b, distant)))
    near = ew.log(b, ew.negative(b, ew.expm1(b, x)))
    return ew.where(b, ew.less(b, x, like(x, math.log(0.5))), far, near)


def angle(b: Builder, x: Value) -> Value:
    """The argument of a complex number, of a real one 0 or pi."""
    return ew.arctan2(b, ew.imag(b, x), ew.real(b, x))


def xlogy(b: Builder, x: Value, y: Value) -> Value:
    """``x log y``, 0 where ``x`` is 0, also in derivatives; ``y`` may be real, ``x`` complex."""
    empty = ew.equal(b, x, like(x, 0))
    logarithm = ew.log(b, ew.where(b, empty, like(y, 1), y))
    product = ew.multiply(b, x, ew.convert(b, logarithm, dtype_of(x)))
    return ew.where(b, empty, like(x, 0), product)


def softsign(b: Builder, x: Value) -> Value:
    """``x / (1 + |x|)``."""
    magnitude = ew.convert(b, ew.absolute(b, x), dtype_of(x))
    return ew.divide(b, x, ew.add(b, like(x, 1), magnitude))
