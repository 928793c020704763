"""Rules for scalar Ops, as `Elemwise` applies them: tables of families.

A scalar rule is called as ``rule(builder, dtype, op, *operands)`` with the declared output
dtype. Operands have the input's dtypes; most families convert them to the output's first,
which is where NumPy computes as well.
"""

from __future__ import annotations

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


_KINDS = "buifc"


def _working(declared: Dtype, *operands: Dtype) -> Dtype:
    """The dtype to compute in: what is declared, unless an operand is of a wider one.

    That an Op declares less than its operands ask for is how those that work in place have it,
    as ``x += y`` of integers and floats; NumPy rounds the result then, not the operands.
    """
    for dtype in operands:
        kinds = _KINDS.index(dtype.kind) - _KINDS.index(declared.kind)
        if kinds > 0 or (kinds == 0 and dtype.itemsize > declared.itemsize):
            return ew.canonical(np.result_type(declared, *operands))
    return declared


def _operands(dtype: Dtype, xs: Sequence[Value]) -> tuple[Dtype, Sequence[Value]]:
    """The dtype to compute in, and the operands in it."""
    found = [x.dtype for x in xs]
    for own in found:
        if own is not dtype and own != dtype:
            working = _working(dtype, *found)
            return working, [x.astype(working) for x in xs]
    return dtype, xs


def in_output_dtype(emit: Callable[..., Any]) -> ScalarRule:
    """Convert the operands to the declared dtype, then compute."""

    def rule(dtype: Dtype, op: Any, *xs: Value) -> Value:
        working, operands = _operands(dtype, xs)
        y = emit(*operands)
        return y if working == dtype else y.astype(dtype)

    return rule


def _folded(emit: Callable[..., Value]) -> ScalarRule:
    """Any number of operands, combined from the left in the declared dtype."""

    def rule(dtype: Dtype, op: Any, *xs: Value) -> Value:
        working, (first, *others) = _operands(dtype, xs)
        for x in others:
            first = emit(first, x)
        return first if working == dtype else first.astype(dtype)

    return rule


_multiplied = _folded(operator.mul)


def _product(dtype: Dtype, op: Any, *xs: Value) -> Value:
    """Of three integers or more Aesara makes the float only in the end, and so no negative zero."""
    y = _multiplied(dtype, op, *xs)
    if len(xs) < 3 or dtype.kind != "f" or any(x.dtype.kind in "fc" for x in xs):
        return y
    return ew.where(ew.equal(y, 0), 0, y)


def _whole(emit: Callable[..., Value]) -> ScalarRule:
    """In the declared dtype, but booleans as small integers."""

    def rule(dtype: Dtype, op: Any, *xs: Value) -> Value:
        working = _working(np.dtype(np.int8) if dtype == BOOL else dtype, *(x.dtype for x in xs))
        return emit(*[x.astype(working) for x in xs]).astype(dtype)

    return rule


def _comparison(emit: Callable[..., Value]) -> ScalarRule:
    """In the operands' common dtype; where integers of either sign have none, still exactly."""

    def rule(dtype: Dtype, op: Any, x: Value, y: Value) -> Value:
        left, right = x.dtype, y.dtype
        if left == right:
            return emit(x, y)
        wide = np.result_type(left, right)
        common = ew.canonical(wide)
        if left.kind + right.kind in ("iu", "ui") and (wide.kind == "f" or common != wide):
            return _compare_signs(emit, x, y)
        return emit(x.astype(common), y.astype(common))

    return rule


def _compare_signs(emit: Callable[..., Value], x: Value, y: Value) -> Value:
    """By sign where the signed operand is negative, else both as unsigned numbers."""
    minus, zero = np.asarray(-1, np.int8), np.asarray(0, np.int8)
    x_is_signed = x.dtype.kind == "i"
    signed, unsigned = (x, y) if x_is_signed else (y, x)
    by_sign = emit(minus, zero) if x_is_signed else emit(zero, minus)
    wide = unsigned.dtype
    by_size = emit(x.astype(wide), y.astype(wide))
    return ew.where(signed < 0, by_sign, by_size)


def _as_is(emit: Callable[..., Any]) -> ScalarRule:
    """In the operand's own dtype; the result converted to the declared one."""

    def rule(dtype: Dtype, op: Any, *xs: Value) -> Value:
        return emit(*xs).astype(dtype)

    return rule


def _second(dtype: Dtype, op: Any, x: Value, y: Value) -> Value:
    return broadcast_to(y, common_shape(x, y))


def _switch(dtype: Dtype, op: Any, condition: Value, x: Value, y: Value) -> Value:
    x, y = x.astype(dtype), y.astype(dtype)
    return ew.where(ew.truth(condition), x, y)


def _in_range(dtype: Dtype, op: Any, x: Value, low: Value, high: Value) -> Value:
    # Aesara asks what is outside, so that NaN is inside.
    below = _comparison(operator.le if op.openlow else operator.lt)(BOOL, op, x, low)
    above = _comparison(operator.ge if op.openhi else operator.gt)(BOOL, op, x, high)
    return (~(below | above)).astype(dtype)


def _mean(dtype: Dtype, op: Any, *xs: Value) -> Value:
    total = _folded(operator.add)(dtype, op, *xs)
    return total / len(xs)


def _mul_without_zeros(x: Value, y: Value) -> Value:
    zero = x.like(0)
    product = ew.where(ew.equal(y, zero), x, x * y)
    return ew.where(ew.equal(x, zero), y, product)


def _angle(dtype: Dtype, op: Any, x: Value) -> Value:
    wide = np.result_type(dtype, np.complex64) if x.dtype.kind == "c" else dtype
    return transcendental.angle(x.astype(wide))


def _xlogy0(dtype: Dtype, op: Any, x: Value, y: Value) -> Value:
    """The logarithm of a real number is real, NaN if need be, also as a factor of a complex one."""
    real = dtype.kind == "c" and y.dtype.kind != "c"
    return transcendental.xlogy(x.astype(dtype), y.astype(_part(dtype) if real else dtype))


def _part(dtype: Dtype) -> Dtype:
    return np.dtype(np.float32 if dtype.itemsize == 8 else np.float64)


def _complex(dtype: Dtype, op: Any, x: Value, y: Value) -> Value:
    part = _part(dtype)
    return ew.complex_(x.astype(part), y.astype(part))


def _complex_from_polar(dtype: Dtype, op: Any, r: Value, theta: Value) -> Value:
    part = _part(dtype)
    r, theta = r.astype(part), theta.astype(part)
    x, y = r * ew.cos(theta), r * ew.sin(theta)
    return ew.complex_(x, y)


def _times(factor: float) -> Callable[..., Value]:
    return lambda x: x * factor


def _cast(dtype: Dtype, op: Any, x: Value) -> Value:
    return x.astype(dtype)


def _identity(dtype: Dtype, op: Any, x: Value) -> Value:
    return x


PASSING = frozenset((_identity, _second, _cast))
"""The rules that give what they get, converted at most, which NumPy does for any known number.

(Aesara's scalar functions refuse what is out of range, and a number may be repeated no times.)
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
        op_type: _folded(emit)
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
        op_type: _as_is(emit)
        for op_type, emit in {
            aes.Abs: abs,
            aes.IsNan: ew.isnan,
            aes.IsInf: ew.isinf,
            aes.Real: ew.real,
            aes.Imag: ew.imag,
        }.items()
    },
    aes.FloorDivide: _whole(division.floor_divide),
    aes.Mod: _whole(division.remainder),
    aes.Mul: _product,
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
