"""Rules for `aesara.tensor.fft` and `aesara.tensor.fourier`: Fourier transforms.

The spectrum of a real array has a last axis of size two for real and imaginary parts.
"""

from __future__ import annotations

import math

import numpy as np

from jaxprgen.emit import elementwise as ew, fft, shape as sh
from jaxprgen.emit.values import Dtype, Value
from jaxprgen.lowering.context import RuleContext
from jaxprgen.lowering.registry import lowers

FLOAT32 = np.dtype(np.float32)


def _precision(x: Value) -> Dtype:
    """Return the dtype to compute in: float32 for operands of at most single precision."""
    return FLOAT32 if x.dtype.name in ("float16", "float32") else ew.canonical(np.float64)


@lowers("tensor.RFFTOp")
def lower_rfft(ctx: RuleContext, x: Value, _: Value) -> Value:
    """Return the half of the spectrum that determines the other half."""
    lengths = ctx.static(1).tolist()
    spectrum = fft.rfftn(x.astype(_precision(x)), lengths, fft.last_axes(x, lengths))
    last = spectrum.ndim
    parts = [sh.expand_dims(part, [last]) for part in (ew.real(spectrum), ew.imag(spectrum))]
    return sh.concatenate(parts, last).astype(ctx.dtype)


@lowers("tensor.IRFFTOp")
def lower_irfft(ctx: RuleContext, x: Value, _: Value) -> Value:
    """Return the inverse transform, not divided by the number of elements."""
    lengths = ctx.static(1).tolist()
    last = x.ndim - 1
    parts_are_complex = x.dtype.kind == "c"
    pair = x if parts_are_complex else x.astype(_precision(x))
    real, imaginary = (sh.squeeze(sh.slice_axis(pair, last, i, i + 1), [last]) for i in (0, 1))
    # NumPy computes this sum even if the parts are complex themselves.
    spectrum = real + 1j * imaginary if parts_are_complex else ew.complex_(real, imaginary)
    signal = fft.irfftn(spectrum, lengths, fft.last_axes(spectrum, lengths))
    return (signal * math.prod(lengths)).astype(ctx.dtype)


@lowers("tensor.Fourier")
def lower_fourier(ctx: RuleContext, x: Value, *_: Value) -> Value:
    """Return the transform along an axis that is cut or padded to a length."""
    axis = sh.axis_of(ctx.static_int(2), x.ndim)
    return fft.fftn(x.astype(ctx.dtype), [ctx.static_int(1)], [axis])
