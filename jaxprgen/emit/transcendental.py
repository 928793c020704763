"""Special functions that are a few primitives, named as in `scipy.special`."""

from __future__ import annotations

import math
from typing import Any

from jaxprgen.emit import elementwise as ew
from jaxprgen.emit import primitives as lax
from jaxprgen.emit.values import Value
from jaxprgen.errors import UnsupportedOpError


def _unary(construct: Any) -> ew.Emit:
    def emit(x: Value) -> Value:
        if x.dtype.kind == "c":
            raise UnsupportedOpError(f"JAX has no {construct.__name__} of complex numbers.")
        return construct(x)

    return emit


erf = _unary(lax.erf)
erfc = _unary(lax.erfc)
gammaln = _unary(lax.lgamma)
expit = _unary(lax.logistic)


def _log_to_base(base: int) -> ew.Emit:
    scale = math.log(base)

    def emit(x: Value) -> Value:
        y = ew.log(x)
        if y.dtype.kind != "c":
            return y / scale
        # Part by part: a complex quotient makes NaN of infinities.
        parts = [part / scale for part in (ew.real(y), ew.imag(y))]
        return ew.complex_(*parts)

    emit.__doc__ = f"The logarithm to base {base}."
    return emit


log2 = _log_to_base(2)
log10 = _log_to_base(10)


def i0(x: Value) -> Value:
    """The modified Bessel function of the first kind of order 0."""
    return _unscaled(x, lax.bessel_i0e)


def i1(x: Value) -> Value:
    """The modified Bessel function of the first kind of order 1."""
    return _unscaled(x, lax.bessel_i1e)


def _unscaled(x: Value, construct: Any) -> Value:
    """``exp(|x|)`` times the primitive, which is finite where the exponential is not."""
    root = ew.exp(_magnitude(x) * 0.5)
    return root * construct(x) * root


def _magnitude(x: Value) -> Value:
    """``|x|`` whose derivative at 0 is 0; that of JAX's ``abs`` is 1."""
    return ew.maximum(x, -x)


def softplus(x: Value) -> Value:
    """``log(1 + exp(x))`` without overflow: ``max(x, 0) + log1p(exp(-|x|))``.

    By choices whose branches are smooth, so that all derivatives are right, at 0 as well.
    """
    positive = x > 0
    tail = ew.log1p(ew.exp(ew.where(positive, -x, x)))
    return ew.where(positive, x, 0) + tail


def log1mexp(x: Value) -> Value:
    """``log(1 - exp(x))`` for negative ``x``, accurate at both ends.

    M. Mächler, *Accurately computing log(1 − exp(−|a|))*, 2012: switch at log(1/2).
    """
    # Each is held where it is chosen, lest its infinite derivative elsewhere spoil the other.
    distant = ew.minimum(x, -0.5) if x.dtype.kind == "f" else x
    far = ew.log1p(-ew.exp(distant))
    close = ew.maximum(x, -1) if x.dtype.kind == "f" else x
    near = ew.log(-ew.expm1(close))
    return ew.where(x < math.log(0.5), far, near)


def angle(x: Value) -> Value:
    """The argument of a complex number, of a real one 0 or pi."""
    return ew.arctan2(ew.imag(x), ew.real(x))


def xlogy(x: Value, y: Value) -> Value:
    """``x log y``, 0 where ``x`` is 0, also in derivatives; ``y`` may be real, ``x`` complex."""
    empty = ew.equal(x, 0)
    logarithm = ew.log(ew.where(empty, 1, y))
    product = x * logarithm.astype(x.dtype)
    return ew.where(empty, 0, product)


def softsign(x: Value) -> Value:
    """``x / (1 + |x|)``."""
    magnitude = abs(x).astype(x.dtype)
    return x / (1 + magnitude)
