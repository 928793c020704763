"""Rules for scalar Ops, as `Elemwise` applies them, in tables by family.

A scalar rule is called as ``rule(dtype, op, *operands)`` with the declared output dtype. Operands
have the dtypes of the inputs. Most families convert them to the output dtype before they compute,
as NumPy does.
"""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from aesara.scalar import basic as aes
from aesara.scalar import math as aem
from aesara.tensor.math import MulWithoutZeros
from aesara.tensor.xlogx import XlogX, XlogY0

from jaxprgen.emit import division, transcendental
from jaxprgen.emit import elementwise as ew
from jaxprgen.emit.values import BOOL, Dtype, Value, broadcast_to, common_shape
from jaxprgen.special import (
    bessel,
    error_functions,
    gamma_functions,
    incomplete_beta,
    incomplete_gamma,
)
from jaxprgen.special import hypergeometric as hyper

ScalarRule = Callable[..., Value]
"""A function of the declared dtype, the scalar Op and its operands."""

# --- Working dtypes -----------------------------------------------------------------------

_KINDS = "buifc"


def _working_dtype(declared: Dtype, xs: Sequence[Value]) -> Dtype:
    """Return the dtype to compute in: the declared one, unless an operand has a wider one.

    An Op declares a narrower dtype than its operands have if it works in place, as in ``x += y`` of
    integers and floats. NumPy then rounds the result, not the operands.
    """
    for x in xs:
        kinds = _KINDS.index(x.dtype.kind) - _KINDS.index(declared.kind)
        if kinds > 0 or (kinds == 0 and x.dtype.itemsize > declared.itemsize):
            return ew.canonical(np.result_type(declared, *(x.dtype for x in xs)))
    return declared


def in_output_dtype(emit: Callable[..., Any], booleans_as: Dtype = BOOL) -> ScalarRule:
    """Return a rule that converts its operands to the output dtype, and computes in it."""

    def rule(dtype: Dtype, op: Any, *xs: Value) -> Value:
        working = _working_dtype(booleans_as if dtype == BOOL else dtype, xs)
        return emit(*[x.astype(working) for x in xs]).astype(dtype)

    return rule


def _from_left(emit: Callable[[Value, Value], Value]) -> ScalarRule:
    """Return a rule that combines any number of operands from the left, in the output dtype."""
    return in_output_dtype(lambda *xs: functools.reduce(emit, xs))


def _in_own_dtype(emit: Callable[..., Any]) -> ScalarRule:
    """Return a rule that computes in the dtype of its operand, and converts the result."""
    return lambda dtype, op, *xs: emit(*xs).astype(dtype)


def _comparison(relation: Callable[..., Value]) -> ScalarRule:
    """Return a rule that compares values of any dtypes."""
    return lambda dtype, op, x, y: ew.compare(relation, x, y)


# --- Rules of single Ops ------------------------------------------------------------------


_multiply = _from_left(operator.mul)


def _mul(dtype: Dtype, op: Any, *xs: Value) -> Value:
    """Return the product; of three or more integers as a float, zero is never negative.

    Aesara multiplies the integers first, and converts the product.
    """
    y = _multiply(dtype, op, *xs)
    if len(xs) < 3 or dtype.kind != "f" or any(x.dtype.kind in "fc" for x in xs):
        return y
    return ew.where(ew.equal(y, 0), 0, y)


def _second(dtype: Dtype, op: Any, x: Value, y: Value) -> Value:
    return broadcast_to(y, common_shape(x, y))


def _switch(dtype: Dtype, op: Any, condition: Value, x: Value, y: Value) -> Value:
    return ew.where(ew.truth(condition), x.astype(dtype), y.astype(dtype))


def _in_range(dtype: Dtype, op: Any, x: Value, low: Value, high: Value) -> Value:
    # Aesara tests for values outside the range, so NaN is inside.
    below = ew.compare(operator.le if op.openlow else operator.lt, x, low)
    above = ew.compare(operator.ge if op.openhi else operator.gt, x, high)
    return (~(below | above)).astype(dtype)


def _mean(dtype: Dtype, op: Any, *xs: Value) -> Value:
    return _from_left(operator.add)(dtype, op, *xs) / len(xs)


def _mul_without_zeros(x: Value, y: Value) -> Value:
    return ew.where(ew.equal(x, 0), y, ew.where(ew.equal(y, 0), x, x * y))


def _angle(dtype: Dtype, op: Any, x: Value) -> Value:
    wide = np.result_type(dtype, np.complex64) if x.dtype.kind == "c" else dtype
    return transcendental.angle(x.astype(wide))


def _xlogy0(dtype: Dtype, op: Any, x: Value, y: Value) -> Value:
    """Return ``x * log(y)``; the logarithm of a negative real is NaN, even if ``x`` is complex."""
    real = dtype.kind == "c" and y.dtype.kind != "c"
    return transcendental.xlogy(x.astype(dtype), y.astype(_part_dtype(dtype) if real else dtype))


def _part_dtype(dtype: Dtype) -> Dtype:
    """Return the dtype of the real and the imaginary part of complex numbers."""
    return np.dtype(np.float32 if dtype.itemsize == 8 else np.float64)


def _complex(dtype: Dtype, op: Any, x: Value, y: Value) -> Value:
    part = _part_dtype(dtype)
    return ew.complex_(x.astype(part), y.astype(part))


def _complex_from_polar(dtype: Dtype, op: Any, r: Value, theta: Value) -> Value:
    part = _part_dtype(dtype)
    r, theta = r.astype(part), theta.astype(part)
    return ew.complex_(r * ew.cos(theta), r * ew.sin(theta))


def _times(factor: float) -> Callable[..., Value]:
    return lambda x: x * factor


def _cast(dtype: Dtype, op: Any, x: Value) -> Value:
    return x.astype(dtype)


def _identity(dtype: Dtype, op: Any, x: Value) -> Value:
    return x


CONVERTING = frozenset((_identity, _second, _cast))
"""Rules that return an operand, converted or repeated.

They are lowered even if their operands are known: NumPy converts numbers out of range, which
Aesara's scalar functions reject, and repeats a number to an empty shape.
"""

RULES: dict[type, ScalarRule] = {
    **{
        op_type: in_output_dtype(emit)
        for op_type, emit in {
            aes.Exp: ew.exp,
            aes.Exp2: ew.exp2,
            aes.Expm1: ew.expm1,
            aes.Log: ew.log,
            aes.Log2: transcendental.log2,
            aes.Log10: transcendental.log10,
            aes.Log1p: ew.log1p,
            aes.Sqrt: ew.sqrt,
            aes.Sqr: ew.square,
            aes.Sin: ew.sin,
            aes.Cos: ew.cos,
            aes.Tan: ew.tan,
            aes.ArcSin: ew.arcsin,
            aes.ArcCos: ew.arccos,
            aes.ArcTan: ew.arctan,
            aes.Sinh: ew.sinh,
            aes.Cosh: ew.cosh,
            aes.Tanh: ew.tanh,
            aes.ArcSinh: ew.arcsinh,
            aes.ArcCosh: ew.arccosh,
            aes.ArcTanh: ew.arctanh,
            aes.ArcTan2: ew.arctan2,
            aes.Deg2Rad: _times(math.pi / 180),
            aes.Rad2Deg: _times(180 / math.pi),
            aes.Reciprocal: division.reciprocal,
            aes.Neg: operator.neg,
            aes.Sgn: ew.sign,
            aes.Ceil: ew.ceil,
            aes.Floor: ew.floor,
            aes.Trunc: ew.trunc,
            aes.RoundHalfToEven: ew.round_half_to_even,
            aes.RoundHalfAwayFromZero: ew.round_half_away_from_zero,
            aes.Conj: ew.conjugate,
            aes.Sub: operator.sub,
            aes.TrueDivide: division.divide,
            aes.Pow: division.power,
            aes.Clip: ew.clip,
            aes.Invert: operator.invert,
            aem.Erf: transcendental.erf,
            aem.Erfc: transcendental.erfc,
            aem.Erfinv: error_functions.erfinv,
            aem.Erfcx: error_functions.erfcx,
            aem.Erfcinv: error_functions.erfcinv,
            aem.Gamma: gamma_functions.gamma,
            aem.GammaLn: gamma_functions.gammaln,
            aem.Psi: gamma_functions.digamma,
            aem.TriGamma: gamma_functions.trigamma,
            aem.Chi2SF: incomplete_gamma.chi2sf,
            aem.GammaInc: incomplete_gamma.gammainc,
            aem.GammaIncC: incomplete_gamma.gammaincc,
            aem.GammaIncDer: incomplete_gamma.gammainc_der,
            aem.GammaIncCDer: incomplete_gamma.gammaincc_der,
            aem.GammaU: incomplete_gamma.upper_gamma,
            aem.GammaL: incomplete_gamma.lower_gamma,
            aem.I0: transcendental.i0,
            aem.I1: transcendental.i1,
            aem.J0: bessel.j0,
            aem.J1: bessel.j1,
            aem.Jv: bessel.jv,
            aem.Iv: bessel.iv,
            aem.Owens_t: error_functions.owens_t,
            aem.Sigmoid: transcendental.expit,
            aem.Softplus: transcendental.softplus,
            aem.Log1mexp: transcendental.log1mexp,
            aem.BetaInc: incomplete_beta.betainc,
            aem.BetaIncDer: incomplete_beta.betainc_der,
            aem.Hyp2F1: hyper.hyp2f1,
            aem.Hyp2F1Der: hyper.hyp2f1_der,
            XlogX: lambda x: transcendental.xlogy(x, x),
        }.items()
    },
    **{
        op_type: _from_left(emit)
        for op_type, emit in {
            aes.Add: operator.add,
            aes.ScalarMaximum: ew.maximum,
            aes.ScalarMinimum: ew.minimum,
            aes.OR: operator.or_,
            aes.XOR: operator.xor,
            aes.AND: operator.and_,
            MulWithoutZeros: _mul_without_zeros,
        }.items()
    },
    **{
        op_type: _comparison(emit)
        for op_type, emit in {
            aes.LT: operator.lt,
            aes.GT: operator.gt,
            aes.LE: operator.le,
            aes.GE: operator.ge,
            aes.EQ: ew.equal,
            aes.NEQ: ew.not_equal,
        }.items()
    },
    **{
        op_type: _in_own_dtype(emit)
        for op_type, emit in {
            aes.Abs: abs,
            aes.IsNan: ew.isnan,
            aes.IsInf: ew.isinf,
            aes.Real: ew.real,
            aes.Imag: ew.imag,
        }.items()
    },
    aes.FloorDivide: in_output_dtype(division.floor_divide, booleans_as=np.dtype(np.int8)),
    aes.Mod: in_output_dtype(division.remainder, booleans_as=np.dtype(np.int8)),
    aes.Mul: _mul,
    aes.Mean: _mean,
    aes.Second: _second,
    aes.Switch: _switch,
    aes.InRange: _in_range,
    aes.Angle: _angle,
    aes.Complex: _complex,
    aes.ComplexFromPolar: _complex_from_polar,
    XlogY0: _xlogy0,
    aes.Cast: _cast,
    aes.Identity: _identity,
}
