"""Running sums and products."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from jaxprgen.emit import elementwise as ew
from jaxprgen.emit.values import BOOL, Value, atom, dtype_of
from jaxprgen.ir import Builder
from jaxprgen.ir import primitives as lax

INT8 = np.dtype(np.int8)


def _cumulative(number: Any, boolean: Any) -> Callable[[Builder, Value, int], Value]:
    def emit(b: Builder, x: Value, axis: int) -> Value:
        if dtype_of(x) != BOOL:
            return number(b, atom(b, x), axis)
        return ew.convert(b, boolean(b, atom(b, ew.convert(b, x, INT8)), axis), BOOL)

    emit.__name__ = emit.__qualname__ = number.__name__
    emit.__doc__ = f"`numpy.{number.__name__}` in the operand's own dtype, which may wrap."
    return emit


cumsum = _cumulative(lax.cumsum, lax.cummax)
cumprod = _cumulative(lax.cumprod, lax.cummin)
