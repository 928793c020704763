"""Fourier transforms. Aesara's spectra of real arrays have an axis of real and imaginary parts."""

from __future__ import annotations

import math

import numpy as np
from aesara.tensor.fft import IRFFTOp, RFFTOp
from aesara.tensor.fourier import Fourier

from jaxprgen.emit import elementwise as ew
from jaxprgen.emit import fft
from jaxprgen.emit import shape as sh
from jaxprgen.emit.values import Dtype, Value
from jaxprgen.lowering.context import RuleContext
from jaxprgen.lowering.registry import lowers

FLOAT32 = np.dtype(np.float32)


def _precision(x: Value) -> Dtype:
    """The floats to compute with: those of the operand, where XLA can, else double ones."""
    return FLOAT32 if x.dtype.name in ("float16", "float32") else ew.canonical(np.float64)


@lowers(RFFTOp, static=(1,))
def lower_rfft(ctx: RuleContext, x: Value, _: Value) -> Value:
    """The half of the spectrum that says all."""
    real = x.astype(_precision(x))
    spectrum = fft.rfftn(real, ctx.static(1).tolist())
    behind = [spectrum.ndim]
    parts = [sh.expand_dims(part(spectrum), behind) for part in (ew.real, ew.imag)]
    return sh.concatenate(parts, behind[0]).astype(ctx.dtype)


@lowers(IRFFTOp, static=(1,))
def lower_irfft(ctx: RuleContext, x: Value, _: Value) -> Value:
    """The inverse without its division by the number of elements."""
    lengths = ctx.static(1).tolist()
    last = x.ndim - 1
    parts_are_complex = x.dtype.kind == "c"
    pair = x if parts_are_complex else x.astype(_precision(x))
    real, imaginary = (sh.squeeze(sh.slice_axis(pair, last, i, i + 1), [last]) for i in (0, 1))
    # NumPy adds complex parts up as they are.
    spectrum = real + 1j * imaginary if parts_are_complex else ew.complex_(real, imaginary)
    return (fft.irfftn(spectrum, lengths) * math.prod(lengths)).astype(ctx.dtype)


@lowers(Fourier, static=(1, 2))
def lower_fourier(ctx: RuleContext, x: Value, *_: Value) -> Value:
    """The transform along one axis, cut off or filled up to a length."""
    axis = sh.axis_of(ctx.static_int(2), x.ndim)
    return fft.fft(x.astype(ctx.dtype), ctx.static_int(1), axis)
