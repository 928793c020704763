"""Standard draws from keys, equal to those of `jax.random` bit for bit.

Every function takes a key, and emits the equations to which the function of its name in
`jax.random` traces. ``shape`` is the shape of the result and ``dtype`` its dtype, a float's.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, NamedTuple, final

import numpy as np

from jaxprgen import _jax
from jaxprgen._jax import is_symbolic
from jaxprgen.emit import elementwise as ew, gather, primitives as lax, reduce, shape as sh
from jaxprgen.emit.control import while_loop
from jaxprgen.emit.values import INT64, Array, Dtype, Shape, Value, broadcast_to, full


@final
class Stream(NamedTuple):
    """The state of a random number generator: a key and the number of keys taken from it.

    Attributes
    ----------
    key
        The key.
    taken
        The number of keys taken, apart from those in ``before``.
    before
        The number of keys that earlier steps of a loop took, a variable in the loop's body; None
        outside of loops. So a loop draws as its steps would one after the other.
    """

    key: Value
    taken: int = 0
    before: Value | None = None


def fold_in(key: Value, number: int | Value) -> Value:
    """Return the key that `jax.random.fold_in` makes of a key and a number below 2**32."""
    return lax.random_fold_in(key, _uint32(number) if isinstance(number, int) else number)


def _uint32(number: int) -> Value:
    return full((), number, np.dtype(np.uint32))


def taken(stream: Stream) -> Value:
    """Return the number of keys taken from a stream, as a uint32 scalar."""
    if stream.before is None:
        return _uint32(stream.taken)
    return stream.before + stream.taken if stream.taken else stream.before


def take_key(stream: Stream) -> tuple[Stream, Value]:
    """Return the stream after a draw, and the key to draw with.

    Key ``n`` of a stream, counted from zero, is ``jax.random.fold_in(key, n)``.
    """
    after = stream._replace(taken=stream.taken + 1)
    return after, fold_in(stream.key, taken(stream))


def end_of(x: Value | Stream) -> Value:
    """Return a stream as the key of one that continues where it ends; others unchanged."""
    if not isinstance(x, Stream):
        return x
    is_new = not x.taken and x.before is None
    return x.key if is_new else fold_in(x.key, taken(x))


def leaves(x: Value | Stream) -> list[Value]:
    """Return the arrays of a value; for a stream its key and the number of keys taken."""
    return [x.key, taken(x)] if isinstance(x, Stream) else [x]


def rebuilt(x: Value | Stream, arrays: Iterator[Value]) -> Any:
    """Return a value like ``x`` with the next arrays in place of its `leaves`."""
    first: Any = next(arrays)
    return Stream(first, 0, next(arrays)) if isinstance(x, Stream) else first


def typed_key(key: Value) -> Value:
    """Return a typed key, given one or the unsigned integers of a legacy key."""
    if _jax.is_key(key):
        return key
    return lax.random_wrap(key, _jax.default_prng_impl())


def key_of_seed(seed: Value) -> Value:
    """Return ``jax.random.key(seed)``."""
    return lax.random_seed(seed, _jax.default_prng_impl())


def split(key: Value) -> tuple[Value, Value]:
    """Return two keys, as ``jax.random.split(key)``."""
    keys = lax.random_split(key, (2,))
    first, second = (sh.squeeze(lax.slice(keys, (i,), (i + 1,), (1,)), (0,)) for i in (0, 1))
    return first, second


def bits(key: Value, shape: Shape, width: int) -> Value:
    """Draw unsigned integers of ``width`` random bits."""
    return lax.random_bits(key, width, shape)


def uniform(
    key: Value, shape: Shape, dtype: Dtype, low: Value | Array | None = None, high: Any = 1.0
) -> Value:
    """Draw uniformly, at least ``low`` (0 by default) and below ``high``.

    Random bits are the mantissas of floats from 1 to 2.
    """
    info, one = np.finfo(dtype), np.ones((), dtype)
    drawn = bits(key, shape, info.bits)
    drawn = lax.shift_right_logical(drawn, info.bits - info.nmant)
    unit = lax.bitcast_convert_type(drawn | one.view(drawn.dtype), dtype=dtype) - 1
    if low is None:
        return unit
    high = np.asarray(high, dtype) if isinstance(high, float) else high
    return ew.maximum(low, unit * (high - low) + low)  # Known bounds have a known difference.


def normal(key: Value, shape: Shape, dtype: Dtype) -> Value:
    """Draw from the standard normal distribution, by inversion."""
    low = np.nextafter(np.asarray(-1, dtype), np.asarray(0, dtype), dtype=dtype)
    u = uniform(key, shape, dtype, low)
    return np.sqrt(2) * lax.erf_inv(u)


def exponential(key: Value, shape: Shape, dtype: Dtype) -> Value:
    """Draw from the standard exponential distribution, by inversion."""
    return -_log1m(uniform(key, shape, dtype))


def cauchy(key: Value, shape: Shape, dtype: Dtype) -> Value:
    """Draw from the standard Cauchy distribution, by inversion."""
    u = uniform(key, shape, dtype, _limit(dtype, "eps"))
    return ew.tan(np.pi * (u - 0.5))


def laplace(key: Value, shape: Shape, dtype: Dtype) -> Value:
    """Draw from the standard Laplace distribution, by inversion."""
    u = uniform(key, shape, dtype, np.asarray(-1 + np.finfo(dtype).epsneg, dtype))
    return ew.sign(u) * _log1m(abs(u))


def logistic(key: Value, shape: Shape, dtype: Dtype) -> Value:
    """Draw from the standard logistic distribution, by inversion."""
    u = uniform(key, shape, dtype, _limit(dtype, "tiny"))
    return ew.log(u) - _log1m(u)


def gumbel(key: Value, shape: Shape, dtype: Dtype) -> Value:
    """Draw from the standard Gumbel distribution, by inversion (JAX's ``mode="low"``)."""
    u = uniform(key, shape, dtype, _limit(dtype, "tiny"))
    return -ew.log(-ew.log(u))


def gamma(key: Value, alpha: Value, shape: Shape, *, log: bool = False) -> Value:
    """Draw from gamma distributions of scale 1, or with ``log`` their logarithms.

    Logarithms do not underflow. The primitive uses the rejection method of Marsaglia and Tsang, ACM
    TOMS 26 (2000).
    """
    return lax.random_gamma(key, broadcast_to(alpha, shape), log)


def randint(key: Value, low: Value, high: Value, shape: Shape) -> Value:
    """Draw integers from ``low`` up to but not including ``high``, in the operands' dtype.

    Return ``low`` where there are no such integers. Two random numbers of ``w`` bits make one of
    ``2w`` bits, so that the remainder is uniform to within 2**-w.
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
    """Permute the rows: sort them by random bits, often enough to make ties unlikely."""
    size = x.shape[0]
    if is_symbolic(size):
        return gather.take(x, [permuted_positions(key, (size,))])
    if x.ndim > 1:
        return gather.take(x, [permutation(key, Value(np.arange(size)))])
    rounds = math.ceil(3 * math.log(max(1, size)) / math.log(2**32 - 1))
    for _ in range(rounds):
        key, subkey = split(key)
        drawn = bits(subkey, x.shape, 32)
        x = lax.sort([drawn, x], 0, 1)[1]
    return x


def permuted_positions(key: Value, shape: Shape) -> Value:
    """Permute the positions along the last axis, for every index of the others on its own.

    There are as many rounds as in `permutation`.
    """
    dtype, axis = ew.canonical(INT64), len(shape) - 1
    # The largest sizes for which 0, 1, 2 and 3 rounds are enough, if the dtype holds them.
    most = [n for n in (1, 1625, 2642245, 2**32 - 1) if n <= np.iinfo(dtype).max]
    rounds = reduce.sum((full((), shape[-1], dtype) > np.array(most, dtype)).astype(dtype), (0,))

    def step(left: Value, key: Value, x: Value) -> list[Value]:
        key, subkey = split(key)
        return [left - 1, key, lax.sort([bits(subkey, x.shape, 32), x], axis, 1)[1]]

    start = [rounds, key, lax.iota(dtype, shape, axis)]
    return while_loop(lambda left, *_: left > 0, step, start)[2]


def _log1m(x: Value) -> Value:
    return ew.log1p(-x)


def _limit(dtype: Dtype, name: str) -> Any:
    return np.asarray(getattr(np.finfo(dtype), name), dtype)
