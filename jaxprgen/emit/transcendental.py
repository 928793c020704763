"""Special functions that are a few primitives, named as in `scipy.special`."""

from __future__ import annotations

import math
from typing import Any

from jaxprgen.emit import elementwise as ew
from jaxprgen.emit.values import Value, dtype_of, elementwise, like
from jaxprgen.errors import UnsupportedOpError
from jaxprgen.ir import Builder
from jaxprgen.ir import primitives as lax


def _unary(construct: Any) -> ew.Emit:
    def emit(b: Builder, x: Value) -> Value:
        if dtype_of(x).kind == "c":
            raise UnsupportedOpError(f"JAX has no {construct.__name__} of complex numbers.")
        return elementwise(b, construct, x)

    return emit


erf = _unary(lax.erf)
erfc = _unary(lax.erfc)
gammaln = _unary(lax.lgamma)
expit = _unary(lax.logistic)


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
    # Each is held where it is chosen, lest its infinite derivative elsewhere spoil the other.
    distant = ew.minimum(b, x, like(x, -0.5)) if dtype_of(x).kind == "f" else x
    far = ew.log1p(b, ew.negative(b, ew.exp(b, distant)))
    close = ew.maximum(b, x, like(x, -1)) if dtype_of(x).kind == "f" else x
    near = ew.log(b, ew.negative(b, ew.expm1(b, close)))
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
