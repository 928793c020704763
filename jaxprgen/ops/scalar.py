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

from jaxprgen.emit import division, elementwise as ew, transcendental
from jaxprgen.emit.values import BOOL, Dtype, Value, broadcast_to, common_shape
from jaxprgen.lowering.names import Key
from jaxprgen.special import (
    bessel,
    bessel_k,
    error_functions,
    gamma_functions,
    hypergeometric as hyper,
    incomplete_beta,
    incomplete_gamma,
    inverses,
)

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


def choose(dtype: Dtype, op: Any, condition: Value, x: Value, y: Value) -> Value:
    """Return elements of ``x`` where the condition holds, and of ``y`` elsewhere."""
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

_OF_MODULES = {
    ew: """
        Exp Exp2 Expm1 Log Log1p Sqrt Sin Cos Tan ArcSin ArcCos ArcTan Sinh Cosh Tanh
        ArcSinh ArcCosh ArcTanh ArcTan2 Sign Ceil Floor Trunc Clip
    """,
    transcendental: "Log2 Log10 Erf Erfc I0 I1 Softplus Log1mexp",
    error_functions: "Erfinv Erfcx Erfcinv Owens_t",
    gamma_functions: "Gamma GammaLn TriGamma PolyGamma",
    incomplete_gamma: "Chi2SF GammaInc GammaIncC",
    incomplete_beta: "BetaInc",
    inverses: "GammaIncInv GammaIncCInv BetaIncInv",
    bessel: "J0 J1 Jv Iv Ive",
    bessel_k: "Kve",
    hyper: "Hyp2F1",
}
"""Scalar Ops by the modules with a function of their name, in lower case, for NumPy's dtypes."""

_FAMILIES: dict[Callable[..., ScalarRule], dict[Key, Callable[..., Any]]] = {
    in_output_dtype: {
        **{
            f"scalar.{name}": getattr(module, name.lower())
            for module, names in _OF_MODULES.items()
            for name in names.split()
        },
        "scalar.Sqr": ew.square,
        "scalar.Deg2Rad": _times(math.pi / 180),
        "scalar.Rad2Deg": _times(180 / math.pi),
        "scalar.Reciprocal": division.reciprocal,
        "scalar.Neg": operator.neg,
        "scalar.Sgn": ew.sign,
        "scalar.RoundHalfToEven": ew.round_half_to_even,
        "scalar.RoundHalfAwayFromZero": ew.round_half_away_from_zero,
        "scalar.Conj": ew.conjugate,
        "scalar.Sub": operator.sub,
        "scalar.TrueDivide": division.divide,
        "scalar.TrueDiv": division.divide,
        "scalar.Pow": division.power,
        "scalar.Invert": operator.invert,
        "scalar.NdtriExp": error_functions.ndtri_exp,
        "scalar.Psi": gamma_functions.digamma,
        "scalar.GammaIncDer": incomplete_gamma.gammainc_der,
        "scalar.GammaIncCDer": incomplete_gamma.gammaincc_der,
        "scalar.GammaU": incomplete_gamma.upper_gamma,
        "scalar.GammaL": incomplete_gamma.lower_gamma,
        "scalar.Sigmoid": transcendental.expit,
        "scalar.BetaIncDer": incomplete_beta.betainc_der,
        "scalar.Hyp2F1Der": hyper.hyp2f1_der,
        "tensor.XlogX": lambda x: transcendental.xlogy(x, x),
    },
    functools.partial(in_output_dtype, booleans_as=np.dtype(np.int8)): {
        "scalar.IntDiv": division.floor_divide,
        "scalar.FloorDivide": division.floor_divide,
        "scalar.Mod": division.remainder,
    },
    _from_left: {
        "scalar.Add": operator.add,
        "scalar.ScalarMaximum": ew.maximum,
        "scalar.Maximum": ew.maximum,
        "scalar.ScalarMinimum": ew.minimum,
        "scalar.Minimum": ew.minimum,
        "scalar.OR": operator.or_,
        "scalar.XOR": operator.xor,
        "scalar.AND": operator.and_,
        "tensor.MulWithoutZeros": _mul_without_zeros,
    },
    _comparison: {
        "scalar.LT": operator.lt,
        "scalar.GT": operator.gt,
        "scalar.LE": operator.le,
        "scalar.GE": operator.ge,
        "scalar.EQ": ew.equal,
        "scalar.NEQ": ew.not_equal,
    },
    _in_own_dtype: {
        "scalar.Abs": abs,
        "scalar.IsNan": ew.isnan,
        "scalar.IsInf": ew.isinf,
        "scalar.Real": ew.real,
        "scalar.Imag": ew.imag,
    },
}
RULES: dict[Key, ScalarRule] = {
    **{
        name: family(emit)
        for family, members in _FAMILIES.items()
        for name, emit in members.items()
    },
    "scalar.Mul": _mul,
    "scalar.Mean": _mean,
    "scalar.Second": _second,
    "scalar.Switch": choose,
    "scalar.InRange": _in_range,
    "scalar.Angle": _angle,
    "scalar.Complex": _complex,
    "scalar.ComplexFromPolar": _complex_from_polar,
    "tensor.XlogY0": _xlogy0,
    "tensor.XLogY": _xlogy0,
    "scalar.Cast": _cast,
    "scalar.Identity": _identity,
}
