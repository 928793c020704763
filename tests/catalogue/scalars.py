"""Scalar Ops, applied to arrays: arithmetic, comparisons, rounding, elementary functions."""

import aesara.scalar as aes
import aesara.tensor as at
import numpy as np
from aesara.scalar.basic import Composite, Mean
from aesara.tensor.elemwise import Elemwise
from aesara.tensor.math import MulWithoutZeros
from aesara.tensor.xlogx import XlogX, XlogY0

from catalogue.example import among, example, positives, scalar, symmetric, vector

others = among(3, 1, 5)


def apply(op):
    """A scalar Op on arrays."""
    return Elemwise(op)


def composite(x, y):
    """A scalar graph of several nodes, as an Op of its own."""
    a, b = (aes.get_scalar_type(v.dtype)() for v in (x, y))
    return Elemwise(Composite([a, b], [a * b + a]))(x, y)


def mean_of_scalars(x, y):
    """Of arrays it is a mean along an axis."""
    return at.tensor_from_scalar(aes.mean(*map(at.scalar_from_tensor, (x, y))))


UNARY = {
    aes.Abs: at.abs,
    aes.Angle: at.angle,
    aes.ArcSinh: at.arcsinh,
    aes.ArcTan: at.arctan,
    aes.Ceil: at.ceil,
    aes.Conj: apply(aes.conj),
    aes.Cos: at.cos,
    aes.Cosh: at.cosh,
    aes.Deg2Rad: at.deg2rad,
    aes.Exp: at.exp,
    aes.Exp2: at.exp2,
    aes.Expm1: at.expm1,
    aes.Floor: at.floor,
    aes.Identity: apply(aes.identity),
    aes.Imag: at.imag,
    aes.Invert: at.invert,
    aes.IsInf: apply(aes.isinf),
    aes.IsNan: apply(aes.isnan),
    aes.Neg: at.neg,
    aes.Rad2Deg: at.rad2deg,
    aes.Real: at.real,
    aes.Reciprocal: at.reciprocal,
    aes.RoundHalfAwayFromZero: at.round_half_away_from_zero,
    aes.RoundHalfToEven: at.round_half_to_even,
    aes.Sgn: at.sgn,
    aes.Sin: at.sin,
    aes.Sinh: at.sinh,
    aes.Sqr: at.sqr,
    aes.Tan: at.tan,
    aes.Tanh: at.tanh,
    aes.Trunc: at.trunc,
}
OF_POSITIVES = {
    aes.Log: at.log,
    aes.Log10: at.log10,
    aes.Log1p: at.log1p,
    aes.Log2: at.log2,
    aes.Sqrt: at.sqrt,
    XlogX: at.xlogx.xlogx,
}
BINARY = {
    aes.ArcTan2: at.arctan2,
    aes.Add: at.add,
    aes.AND: at.bitwise_and,
    aes.Complex: at.complex,
    aes.EQ: at.eq,
    aes.FloorDivide: at.int_div,
    aes.GE: at.ge,
    aes.GT: at.gt,
    aes.LE: at.le,
    aes.LT: at.lt,
    aes.Mod: at.mod,
    aes.Mul: at.mul,
    aes.NEQ: at.neq,
    aes.OR: at.bitwise_or,
    aes.Pow: at.power,
    aes.ScalarMaximum: at.maximum,
    aes.ScalarMinimum: at.minimum,
    aes.Second: at.second,
    aes.Sub: at.sub,
    aes.TrueDivide: at.true_div,
    aes.XOR: at.bitwise_xor,
    Elemwise: at.add,
    MulWithoutZeros: apply(MulWithoutZeros(aes.upcast_out)),
    XlogY0: at.xlogx.xlogy0,
    Composite: composite,
}
EXAMPLES = [
    *(example(op, build, vector) for op, build in UNARY.items()),
    *(example(op, build, positives) for op, build in OF_POSITIVES.items()),
    *(example(op, build, vector, others) for op, build in BINARY.items()),
    example(aes.ComplexFromPolar, apply(aes.complex_from_polar), positives, positives),
    example(aes.ArcCos, at.arccos, symmetric),
    example(aes.ArcCosh, at.arccosh, among(1, 1.5, 4)),
    example(aes.ArcSin, at.arcsin, symmetric),
    example(aes.ArcTanh, at.arctanh, among(-0.6, 0, 0.5)),
    example(aes.Cast, lambda x: at.cast(x, "complex128"), vector),
    example(aes.Cast, lambda x: at.cast(x, "complex64"), vector),
    example(aes.Clip, at.clip, vector, among(-1, -1, -1), others),
    example(aes.InRange, apply(aes.InRange(False, True)), vector, among(0, 0, 0), others),
    example(Mean, mean_of_scalars, scalar, scalar),
    example(aes.Switch, at.switch, np.array([True, False, True]), vector, others),
]
