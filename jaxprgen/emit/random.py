"""Standard draws from keys, bit for bit those of `jax.random`.

Every function takes a key, an atom, and appends what the function of its name in `jax.random`
traces to. ``shape`` is that of the result and ``dtype``, a float's, that of its numbers.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, NamedTuple, final

import numpy as np

from jaxprgen import _jax
from jaxprgen.emit import elementwise as ew
from jaxprgen.emit import gather
from jaxprgen.emit import primitives as lax
from jaxprgen.emit import shape as sh
from jaxprgen.emit.values import Array, Dtype, Shape, Value, broadcast_to, full


@final
class Stream(NamedTuple):
    """The state of a random number generator: a key, and how many keys were taken from it.

    These are ``taken``, and those that were taken ``before``, by a loop, in whose body the number
    is a variable: so a loop draws what its steps would draw one after the other.
    """

    key: Value
    taken: int = 0
    before: Value | None = None


def fold_in(key: Value, number: int | Value) -> Value:
    """The key that a key and a number below 2**32 make."""
    return lax.random_fold_in(key, _uint32(number) if isinstance(number, int) else number)


def _uint32(number: int) -> Value:
    return full((), number, np.dtype(np.uint32))


def taken(stream: Stream) -> Value:
    """How many keys were taken from a stream."""
    if stream.before is None:
        return _uint32(stream.taken)
    return stream.before + stream.taken if stream.taken else stream.before


def take_key(stream: Stream) -> tuple[Stream, Value]:
    """The stream after a draw, and the key to draw with.

    The ``n``-th key of a stream is ``jax.random.fold_in(key, n)``, counted from zero.
    """
    after = stream._replace(taken=stream.taken + 1)
    return after, fold_in(stream.key, taken(stream))


def end_of(x: Value | Stream) -> Value:
    """A result as a value; of a stream, the key of one that goes on where it ends."""
    if not isinstance(x, Stream):
        return x
    is_new = not x.taken and x.before is None
    return x.key if is_new else fold_in(x.key, taken(x))


def leaves(x: Value | Stream) -> list[Value]:
    """The arrays that a value consists of: of a stream, its key and how many were taken from it."""
    return [x.key, taken(x)] if isinstance(x, Stream) else [x]


def rebuilt(x: Value | Stream, arrays: Iterator[Value]) -> Any:
    """A value like ``x`` of the next arrays of those that it consists of."""
    first: Any = next(arrays)
    return Stream(first, 0, next(arrays)) if isinstance(x, Stream) else first


def typed_key(key: Value) -> Value:
    """A key as JAX types it, of one or of the unsigned integers of a legacy key."""
    if _jax.is_key(key):
        return key
    return lax.random_wrap(key, _jax.default_prng_impl())


def key_of_seed(seed: Value) -> Value:
    """``jax.random.key(seed)``."""
    return lax.random_seed(seed, _jax.default_prng_impl())


def split(key: Value) -> tuple[Value, Value]:
    """Two keys made of one."""
    keys = lax.random_split(key, (2,))
    first, second = (sh.squeeze(lax.slice(keys, (i,), (i + 1,), (1,)), (0,)) for i in (0, 1))
    return first, second


def bits(key: Value, shape: Shape, width: int) -> Value:
    """Unsigned integers of that many bits, all of them random."""
    return lax.random_bits(key, width, shape)


def uniform(
    key: Value, shape: Shape, dtype: Dtype, low: Value | Array | None = None, high: Any = 1.0
) -> Value:
    """Uniform draws, at least ``low``, 0 if that is left out, and below ``high``.

    Random bits are the mantissas of numbers from 1 to 2.
    """
    info, one = np.finfo(dtype), np.ones((), dtype)
    drawn = bits(key, shape, info.bits)
    drawn = lax.shift_right_logical(drawn, info.bits - info.nmant)
    unit = lax.bitcast_convert_type(drawn | one.view(drawn.dtype), dtype) - 1
    if low is None:
        return unit
    high = np.asarray(high, dtype) if isinstance(high, float) else high
    return ew.maximum(low, unit * (high - low) + low)  # A difference of known bounds is known.


def normal(key: Value, shape: Shape, dtype: Dtype) -> Value:
    """Standard normal draws, by inversion."""
    low = np.nextafter(np.asarray(-1, dtype), np.asarray(0, dtype), dtype=dtype)
    u = uniform(key, shape, dtype, low)
    return np.sqrt(2) * lax.erf_inv(u)


def exponential(key: Value, shape: Shape, dtype: Dtype) -> Value:
    """Standard exponential draws, by inversion."""
    return -_log1m(uniform(key, shape, dtype))


def cauchy(key: Value, shape: Shape, dtype: Dtype) -> Value:
    """Standard Cauchy draws, by inversion."""
    u = uniform(key, shape, dtype, _limit(dtype, "eps"))
    return ew.tan(np.pi * (u - 0.5))


def laplace(key: Value, shape: Shape, dtype: Dtype) -> Value:
    """Standard Laplace draws, by inversion."""
    u = uniform(key, shape, dtype, np.asarray(-1 + np.finfo(dtype).epsneg, dtype))
    return ew.sign(u) * _log1m(abs(u))


def logistic(key: Value, shape: Shape, dtype: Dtype) -> Value:
    """Standard logistic draws, by inversion."""
    u = uniform(key, shape, dtype, _limit(dtype, "tiny"))
    return ew.log(u) - _log1m(u)


def gumbel(key: Value, shape: Shape, dtype: Dtype) -> Value:
    """Standard Gumbel draws, by inversion (JAX's ``mode="low"``)."""
    u = uniform(key, shape, dtype, _limit(dtype, "tiny"))
    return -ew.log(-ew.log(u))


def gamma(key: Value, alpha: Value, shape: Shape, *, log: bool = False) -> Value:
    """Gamma draws of scale 1, or their logarithms, which do not underflow.

    By Marsaglia and Tsang's rejection method (ACM TOMS 26, 2000), which is a primitive.
    """
    return lax.random_gamma(key, broadcast_to(alpha, shape), log)


def randint(key: Value, low: Value, high: Value, shape: Shape) -> Value:
    """Integers from ``low`` up to ``high``, which is left out; ``low`` if there are none.

    In the operands' dtype. A 64-bit (or whatever) number is put together of two, so that the
    remainder is uniform to within 2**-64.
    """
    dtype = low.dtype
    width = dtype.itemsize * 8
    upper, lower = (bits(k, shape, width) for k in split(key))
    unsigned = upper.dtype
    span = (high - low).astype(unsigned)
    span = ew.where(high <= low, 1, span)

    def modulo(x: Value) -> Value:
        return lax.rem(x, span)

    half = modulo(upper.like(2 ** (width // 2)))
    factor = modulo(half * half)
    offset = modulo(modulo(upper) * factor + modulo(lower))
    return low + offset.astype(dtype)


def permutation(key: Value, x: Value) -> Value:
    """``x`` with its rows in random order: sorted by random bits, often enough for few ties."""
    if x.ndim > 1:
        rows = x.shape[0]
        order = permutation(key, Value(np.arange(rows)))
        return gather.take(x, [order])
    rounds = math.ceil(3 * math.log(max(1, x.size)) / math.log(2**32 - 1))
    for _ in range(rounds):
        key, subkey = split(key)
        drawn = bits(subkey, x.shape, 32)
        x = lax.sort([drawn, x], 0, 1)[1]
    return x


def _log1m(x: Value) -> Value:
    return ew.log1p(-x)


def _limit(dtype: Dtype, name: str) -> Any:
    return np.asarray(getattr(np.finfo(dtype), name), dtype)
