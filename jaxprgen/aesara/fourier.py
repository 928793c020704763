"""The rule for `aesara.sandbox.fourier`, imported with the first graph that holds its Op.

Importing that module of Aesara warns of its deprecation.
"""

from __future__ import annotations

from typing import Any

from aesara.sandbox.fourier import FFT

from jaxprgen.emit import fft
from jaxprgen.emit.shape import axis_of, slice_axis
from jaxprgen.emit.values import Value
from jaxprgen.errors import ShapeMismatchError
from jaxprgen.lowering.context import RuleContext
from jaxprgen.lowering.registry import lowers


@lowers(FFT, folds=False)
def lower_fft(ctx: RuleContext, x: Value, *_: Value) -> list[Any]:
    """Return the transform of rows or columns, or its half of lower frequencies, and None.

    Aesara's Python mode fails for the half, because it slices with a float.
    """
    length, axis = ctx.static_int(1), axis_of(ctx.static_int(2), 2)
    transform = fft.ifftn if ctx.op.inverse else fft.fftn
    spectrum = transform(x.astype(ctx.dtype), [length], [axis])
    if not ctx.op.half:
        return [spectrum, None]
    if length % 2:
        raise ShapeMismatchError(
            f"Half a spectrum needs an even number of frequencies, got {length}."
        )
    return [slice_axis(spectrum, axis, 0, length // 2), None]
