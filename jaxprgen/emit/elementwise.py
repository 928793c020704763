"""Elementwise functions with NumPy's names and meaning, beside the operators of `Value`.

They take values, and numbers, which take the dtype of the values that they meet. A function of
several operands takes operands of one dtype. Where a primitive means exactly what NumPy's function
means, the function is that primitive.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from jaxprgen import _jax
from jaxprgen.emit import primitives as lax
from jaxprgen.emit.primitives import cos, exp, expm1, log, log1p, sin, sqrt, tan, tanh
from jaxprgen.emit.values import (
    BOOL,
    Dtype,
    Emit,
    Value,
    ValueLike,
    equal,
    full,
    full_rank,
    imag,
    lift,
    operator,
    real,
    truth,
    where,
)
from jaxprgen.ir import primitives as ir

__all__ = ["equal", "imag", "real", "truth", "where"]
__all__ += ["cos", "exp", "expm1", "log", "log1p", "sin", "sqrt", "tan", "tanh"]

arcsin: Emit = lax.asin
arccos: Emit = lax.acos
arctan: Emit = lax.atan
arcsinh: Emit = lax.asinh
arccosh: Emit = lax.acosh
arctanh: Emit = lax.atanh
arctan2: Emit = lax.atan2
not_equal: Emit = lax.ne


def exp2(x: Value) -> Value:
    """Return ``2 ** x`` for floats or complex numbers, exact for integral floats, as in NumPy.

    XLA's ``exp2`` rounds ``x log 2`` first, which costs up to 4e-6 in float32, so this is a power.
    """
    return lax.exp2(x) if x.dtype.kind == "c" else lax.pow(2, x)


def cosh(x: Value) -> Value:
    """Return the hyperbolic cosine of floats or complex numbers.

    XLA's ``cosh`` adds ``log(1/2)`` to a float first, which costs up to 4e-6 in float32.
    """
    if x.dtype.kind == "c":
        return lax.cosh(x)
    up, down = _half_exponentials(x)
    return up + down


def sinh(x: Value) -> Value:
    """Return the hyperbolic sine, by XLA's ``sinh`` up to 1 and as `cosh` beyond."""
    if x.dtype.kind == "c":
        return lax.sinh(x)
    small = lax.sinh(clip(x, -1, 1))
    up, down = _half_exponentials(x)
    return where(abs(x) < 1, small, up - down)


def _half_exponentials(x: Value) -> tuple[Value, Value]:
    """Return ``exp(x) / 2`` and ``exp(-x) / 2``, as products that overflow where these do."""
    roots = (exp(x * factor) for factor in (0.5, -0.5))
    up, down = (root * 0.5 * root for root in roots)
    return up, down


def square(x: Value) -> Value:
    """Return ``x * x``."""
    return x if x.dtype == BOOL else lax.square(x)


def sign(x: Value) -> Value:
    """Return -1, 0 or 1, and NaN for NaN. The sign of -0 is 0, as in NumPy; XLA's is -0."""
    y = lax.sign(x)
    return where(equal(x, 0), 0, y) if x.dtype.kind == "f" else y


def maximum(x: ValueLike, y: ValueLike) -> Value:
    """Return the larger operand, or NaN where either is NaN; complex as in comparisons."""
    x, y = lift(x, y)
    return lax.max(x, y) if x.dtype.kind != "c" else where((x >= y) | isnan(x), x, y)


def minimum(x: ValueLike, y: ValueLike) -> Value:
    """Return the smaller operand, or NaN where either is NaN; complex as in comparisons."""
    x, y = lift(x, y)
    return lax.min(x, y) if x.dtype.kind != "c" else where((x <= y) | isnan(x), x, y)


def isnan(x: Value) -> Value:
    """Return where a value is NaN; False for integers."""
    return lax.ne(x, x) if x.dtype.kind in "fc" else full(x.shape, False, BOOL)


def isinf(x: Value) -> Value:
    """Return where a value, or a part of a complex one, is infinite; False for integers."""
    kind = x.dtype.kind
    if kind == "c":
        return isinf(real(x)) | isinf(imag(x))
    if kind != "f":
        return full(x.shape, False, BOOL)
    return equal(lax.abs(x), np.inf)


def clip(x: Value, low: ValueLike, high: ValueLike) -> Value:
    """Return ``low`` where ``x < low``, else ``high`` where ``x > high``, else ``x``.

    NaN in ``x`` stays, and a bound that is NaN does not bound. Two known scalar bounds in ascending
    order become a maximum and a minimum, whose derivative at the bounds can be that of ``x``.
    """
    x, low, high = lift(x, low, high)
    lo, hi = low.fill_value, high.fill_value
    if lo is not None and hi is not None and lo <= hi and x.dtype.kind in "iuf":
        return minimum(maximum(x, low), high)
    return where(x < low, low, where(x > high, high, x))


# --- Rounding ----------------------------------------------------------------------------


def _rounding(construct: Emit, **params: bool) -> Emit:
    """Return a function that rounds floats; integers stay."""
    return lambda x: construct(x, **params) if x.dtype.kind == "f" else x


floor = _rounding(lax.floor)
ceil = _rounding(lax.ceil)
round_half_to_even = _rounding(lax.round, half_to_even=True)
round_half_away_from_zero = _rounding(lax.round, half_to_even=False)


def trunc(x: Value) -> Value:
    """Round floats towards zero, with the sign of ``x``; integers stay."""
    return where(x < 0, ceil(x), floor(x)) if x.dtype.kind == "f" else x


# --- Complex numbers and dtypes -----------------------------------------------------------


@operator
def modulus(x: Value) -> Value:
    """Return the absolute value; infinity where a part of a complex number is infinite."""
    kind = x.dtype.kind
    if kind in "bu":
        return x
    size = lax.abs(x)
    return where(isinf(x), np.inf, size) if kind == "c" else size


def conjugate(x: Value) -> Value:
    """Return the complex conjugate; a real value is returned as it is."""
    return lax.conj(x) if x.dtype.kind == "c" else x


def complex_(x: Value, y: Value) -> Value:
    """Return ``x + iy`` for floats ``x`` and ``y``."""
    return full_rank(ir.complex, x, y)


def compare(relation: Emit, x: Value, y: Value) -> Value:
    """Return ``relation(x, y)`` of values of any dtypes; signed and unsigned integers exactly.

    NumPy 2 compares them exactly too, even if their common dtype is a float. ``relation`` is an
    operator such as `operator.lt`, or `equal` or `not_equal`.
    """
    wide = np.result_type(x.dtype, y.dtype)
    common = canonical(wide)
    if {x.dtype.kind, y.dtype.kind} == {"i", "u"} and (wide.kind == "f" or common != wide):
        return _compare_signs(relation, x, y)
    return relation(x.astype(common), y.astype(common))


def _compare_signs(relation: Emit, x: Value, y: Value) -> Value:
    """Compare by sign where the signed integer is negative, and as unsigned integers elsewhere."""
    x_is_signed = x.dtype.kind == "i"
    signed, unsigned = (x, y) if x_is_signed else (y, x)
    minus, zero = np.asarray(-1, np.int8), np.asarray(0, np.int8)
    by_sign = relation(minus, zero) if x_is_signed else relation(zero, minus)
    by_size = relation(x.astype(unsigned.dtype), y.astype(unsigned.dtype))
    return where(signed < 0, by_sign, by_size)


def stop_gradient(x: Value) -> Value:
    """Return ``x`` as a constant for differentiation, as `jax.lax.stop_gradient`."""
    moves = x.static is None and x.dtype.kind in "fc"
    return lax.stop_gradient(x) if moves else x


def strengthen(x: Value) -> Value:
    """Make a weakly typed value strongly typed, which protects it from JAX's promotion."""
    return lax.convert_element_type(x, dtype=x.dtype)


def canonical(dtype: Any) -> Dtype:
    """Return the dtype in which JAX computes a declared dtype; narrower where x64 is off."""
    return _jax.canonicalize_dtype(np.dtype(dtype))
