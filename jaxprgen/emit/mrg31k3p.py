"""The generator MRG31k3p, in integers of 32 bits that wrap.

Source: P. L'Ecuyer and R. Touzin, *Fast combined multiple recursive generators with multipliers of
the form a = ±2^d ± 2^e*, Winter Simulation Conference (2000). Every stream has a state of six
integers: two recurrences of order three, modulo ``M1`` and ``M2``.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from jaxprgen.emit import elementwise as ew, primitives as lax, reduce
from jaxprgen.emit.control import scan
from jaxprgen.emit.shape import concatenate, expand_dims, reshape, slice_axis, split
from jaxprgen.emit.sizes import at_least_one, is_known
from jaxprgen.emit.values import INT32, INT64, Dtype, Shape, Value, broadcast_to, full, where

M1 = 2**31 - 1
M2 = 2**31 - 21069
WORDS = 6
"""The number of integers in a state."""
FLOATS = ("float16", "float32", "float64")
"""The dtypes of draws."""
_UINT32 = np.dtype(np.uint32)
_FLOAT32 = np.dtype(np.float32)


def uniform(state: Value, shape: Shape, dtype: Dtype) -> tuple[Value, Value]:
    """Draw uniformly between 0 and 1; element ``i`` comes from stream ``i % streams``.

    Parameters
    ----------
    state : (streams, 6) int32
        The states, of at least one stream.
    shape
        The shape of the draws.
    dtype
        The dtype of the draws, one of `FLOATS`.

    Returns
    -------
    state : (streams, 6) int32
        The states after the draws.
    draws : shape float
    """
    streams, count = state.shape[0], math.prod(shape)
    if count == 0:
        return state, full(shape, 0, dtype)
    # Streams that draw nothing take part only where the sizes do not tell which ones these are.
    active = min(streams, count) if is_known((streams, count)) else streams
    columns = [slice_axis(state, 1, i, i + 1) for i in range(WORDS)]
    words = [reshape(slice_axis(x, 0, 0, active), (active,)) for x in columns]

    def step(left: Value, *words: Value) -> tuple[Sequence[Value], Sequence[Value], None]:
        after, drawn = _next(words)
        if count % active != 0:  # The last step advances the first streams alone.
            draws = lax.iota(INT32, (active,), 0) < left
            after = [where(draws, x, y) for x, y in zip(after, words, strict=True)]
        return [left - left.like(active), *after], drawn, None

    steps = at_least_one(-(-count // active))
    loop = scan(step, [], [full((), count, INT32), *words], [], steps)
    drawn = reshape(loop.stacked[0], (steps * active,))
    idle = slice_axis(state, 0, active, streams)
    advanced = concatenate([expand_dims(x, [1]) for x in loop.carries[1:]], 1)
    numbers = slice_axis(drawn, 0, 0, count)
    return concatenate([advanced, idle], 0), reshape(_as_float(numbers, dtype), shape)


def _next(words: Sequence[Value]) -> tuple[list[Value], list[Value]]:
    """Return the next states of streams, and what they draw: integers from 1 to ``M1``, uint32."""
    x1, x2, x3, y1, y2, y3 = words
    x = ((x2 & 511) << 22) + (x2 >> 9) + ((x3 & 0xFFFFFF) << 7) + (x3 >> 24)
    x = _reduced(_reduced(x, M1) + x3, M1)
    a, b = (_reduced(((y & 0xFFFF) << 15) + (y >> 16) * 21069, M2) for y in (y1, y3))
    y = _reduced(_reduced(b + y3, M2) + a, M2)
    drawn = where(x <= y, x - y + M1, x - y)
    return [x, x1, x2, y, y1, y2], [lax.bitcast_convert_type(drawn, dtype=_UINT32)]


def _reduced(x: Value, modulus: int) -> Value:
    """Return the remainder of a sum of two numbers below the modulus; it may have wrapped."""
    return where((x < 0) | (x >= modulus), x - modulus, x)


def _as_float(x: Value, dtype: Dtype) -> Value:
    """Return integers times 2**-31, rounded as Aesara's Python mode does: to less than one."""
    if dtype.name == "float64":
        return x.astype(dtype) * 2.0**-31
    if dtype.name == "float16":
        return (((x & 0x7FFF) + 1).astype(_FLOAT32) * (511 * 2.0**-24)).astype(dtype)
    # A product of 55 bits, by its upper and lower half. All bits of the lower half but the first
    # 16 only matter to rounding: one bit stands for them. Aesara rounds to double precision first;
    # where the product has more than 53 bits, adding half of what that drops does the same.
    factor = (2**24 - 1) * 2.0**-55
    shifted = x << 24
    lower, upper = shifted - x, (x >> 8) - (shifted < x).astype(_UINT32)
    last = (lower & 0xFFFF) + (upper >> 21)
    lower = ((lower >> 16) + (last >> 16)) | ew.not_equal(last & 0xFFFF, 0).astype(_UINT32)
    product = upper.astype(_FLOAT32) * 2.0**-23 + lower.astype(_FLOAT32) * 2.0**-39
    return where(x < 2**24, x.astype(_FLOAT32) * factor, product)


def dot_modulo(matrix: Value, vector: Value, modulus: Value) -> Value:
    """Return ``matrix @ vector % modulus`` without overflow, for operands of up to 32 bits.

    Parameters
    ----------
    matrix : (n, m) int
    vector : (m,) int
    modulus : () int
        Not zero, and above -2**31.
    """
    wide = ew.canonical(INT64)
    if wide == INT64:
        matrix, vector, modulus = (x.astype(wide) for x in (matrix, vector, modulus))
        return reduce.sum(matrix * vector % modulus, [1]) % modulus
    # Without 64 bits: numbers below 2**31 add up in 32 bits without a sign.
    size = abs(modulus)
    bound = lax.bitcast_convert_type(size, dtype=_UINT32)
    x, y = (lax.bitcast_convert_type(each % size, dtype=_UINT32) for each in (matrix, vector))
    products = _product_modulo(x, broadcast_to(y, x.shape), bound)
    total = full(matrix.shape[:1], 0, _UINT32)
    for column in split(products, [1] * int(matrix.shape[1]), 1):
        total = _sum_modulo(total, reshape(column, total.shape), bound)
    rest = lax.bitcast_convert_type(total, dtype=INT32)
    return where((modulus < 0) & (rest > 0), rest - size, rest)


def _product_modulo(x: Value, y: Value, modulus: Value) -> Value:
    """Multiply by one doubling for each bit of ``y``, for numbers below 2**31."""

    def step(modulus: Value, x: Value, y: Value, total: Value) -> tuple[Any, Sequence[Value], None]:
        total = where(ew.equal(y & 1, 1), _sum_modulo(total, x, modulus), total)
        return [_sum_modulo(x, x, modulus), y >> 1, total], [], None

    return scan(step, [modulus], [x, y, full(x.shape, 0, _UINT32)], [], 31).carries[2]


def _sum_modulo(x: Value, y: Value, modulus: Value) -> Value:
    total = x + y
    return where(total >= modulus, total - modulus, total)
