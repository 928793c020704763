"""Fourier transforms. Aesara's spectra of real arrays have an axis of real and imaginary parts."""

from __future__ import annotations

import math

import numpy as np
from aesara.tensor.fft import IRFFTOp, RFFTOp
from aesara.tensor.fourier import Fourier

from jaxprgen.emit import elementwise as ew
from jaxprgen.emit import fft
from jaxprgen.emit import shape as sh
from jaxprgen.emit.values import Dtype, Value, dtype_of, like, shape_of
from jaxprgen.lowering.context import RuleContext
from jaxprgen.lowering.registry import lowers

FLOAT32 = np.dtype(np.float32)


def _precision(x: Value) -> Dtype:
    """The floats to compute with: those of the operand, where XLA can, else double ones."""
    return FLOAT32 if dtype_of(x).name in ("float16", "float32") else ew.canonical(np.float64)


@lowers(RFFTOp, static=(1,))
def lower_rfft(ctx: RuleContext, x: Value, _: Value) -> Value:
    """The half of the spectrum that says all."""
    b = ctx.builder
    real = ew.convert(b, x, _precision(x))
    spectrum = fft.rfftn(b, real, ctx.static(1).tolist())
    behind = [len(shape_of(spectrum))]
    parts = [sh.expand_dims(b, part(b, spectrum), behind) for part in (ew.real, ew.imag)]
    return ew.convert(b, sh.concatenate(b, parts, behind[0]), ctx.dtype)


@lowers(IRFFTOp, static=(1,))
def lower_irfft(ctx: RuleContext, x: Value, _: Value) -> Value:
    """The inverse without its division by the number of elements."""
    b, lengths = ctx.builder, ctx.static(1).tolist()
    last = len(shape_of(x)) - 1
    parts_are_complex = dtype_of(x).kind == "c"
    pair = x if parts_are_complex else ew.convert(b, x, _precision(x))
    real, imaginary = (
        sh.squeeze(b, sh.slice_axis(b, pair, last, i, i + 1), [last]) for i in (0, 1)
    )
    if parts_are_complex:  # NumPy adds the parts up as they are.
        spectrum = ew.add(b, real, ew.multiply(b, like(imaginary, 1j), imaginary))
    else:
        spectrum = ew.complex_(b, real, imaginary)
    inverse = fft.irfftn(b, spectrum, lengths)
    scaled = ew.multiply(b, inverse, like(inverse, math.prod(lengths)))
    return ew.convert(b, scaled, ctx.dtype)


@lowers(Fourier, static=(1, 2))
def lower_fourier(ctx: RuleContext, x: Value, *_: Value) -> Value:
    """The transform along one axis, cut off or filled up to a length."""
    axis = sh.axis_of(ctx.static_int(2), len(shape_of(x)))
    return fft.fft(ctx.builder, ew.convert(ctx.builder, x, ctx.dtype), ctx.static_int(1), axis)
