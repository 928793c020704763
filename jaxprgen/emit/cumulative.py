"""Running sums and products."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from jaxprgen.emit import primitives as lax
from jaxprgen.emit.values import BOOL, Value

INT8 = np.dtype(np.int8)


def _cumulative(number: Any, boolean: Any) -> Callable[[Value, int], Value]:
    def emit(x: Value, axis: int) -> Value:
        if x.dtype != BOOL:
            return number(x.atom(), axis)
        return boolean(x.astype(INT8).atom(), axis).astype(BOOL)

    emit.__name__ = emit.__qualname__ = number.__name__
    emit.__doc__ = f"`numpy.{number.__name__}` in the operand's own dtype, which may wrap."
    return emit


cumsum = _cumulative(lax.cumsum, lax.cummax)
cumprod = _cumulative(lax.cumprod, lax.cummin)
