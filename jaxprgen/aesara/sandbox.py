"""Rules for `aesara.sandbox.fourier`, loaded with the first graph that has one of its Ops."""

from __future__ import annotations

from typing import Any

from aesara.sandbox.fourier import FFT

from jaxprgen.emit import fft
from jaxprgen.emit.shape import axis_of, slice_axis
from jaxprgen.emit.values import Value
from jaxprgen.errors import ShapeMismatchError
from jaxprgen.lowering.context import RuleContext
from jaxprgen.lowering.registry import lowers


@lowers(FFT, folds=False, static=(1, 2))
def lower_fft(ctx: RuleContext, x: Value, *_: Value) -> list[Any]:
    """The transform of rows or columns, or the half of it with the lower frequencies.

    Python mode has an error for the half: it cuts at a float. The second output holds nothing.
    """
    length, axis = ctx.static_int(1), axis_of(ctx.static_int(2), 2)
    transform = fft.ifft if ctx.op.inverse else fft.fft
    spectrum = transform(x.astype(ctx.dtype), length, axis)
    if not ctx.op.half:
        return [spectrum, None]
    if length % 2:
        raise ShapeMismatchError(f"A spectrum of {length} frequencies has no half.")
    return [slice_axis(spectrum, axis, 0, length // 2), None]
