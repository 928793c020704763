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
from jaxprgen._jax import Var
from jaxprgen.emit import elementwise as ew
from jaxprgen.emit import gather
from jaxprgen.emit import shape as sh
from jaxprgen.emit.values import (
    Dtype,
    Shape,
    Value,
    atom,
    atoms,
    broadcast_to,
    dtype_of,
    elementwise,
    like,
    shape_of,
    size_of,
)
from jaxprgen.ir import Atom, Builder
from jaxprgen.ir import primitives as lax


@final
class Stream(NamedTuple):
    """The state of a random number generator: a key, and how many keys were taken from it.

    These are ``taken``, and those that were taken ``before``, by a loop, in whose body the number
    is a variable: so a loop draws what its steps would draw one after the other.
    """

    key: Var
    taken: int = 0
    before: Value | None = None


def fold_in(b: Builder, key: Var, number: int | Value) -> Var:
    """The key that a key and a number below 2**32 make."""
    value = np.asarray(number, np.uint32) if isinstance(number, int) else number
    return lax.random_fold_in(b, key, atom(b, value))


def taken(b: Builder, stream: Stream) -> Value:
    """How many keys were taken from a stream."""
    number = np.asarray(stream.taken, np.uint32)
    if stream.before is None:
        return number
    return ew.add(b, stream.before, number) if stream.taken else stream.before


def take_key(b: Builder, stream: Stream) -> tuple[Stream, Var]:
    """The stream after a draw, and the key to draw with.

    The ``n``-th key of a stream is ``jax.random.fold_in(key, n)``, counted from zero.
    """
    after = stream._replace(taken=stream.taken + 1)
    return after, fold_in(b, stream.key, taken(b, stream))


def end_of(b: Builder, x: Value | Stream) -> Atom:
    """A result as an operand; of a stream, the key of one that goes on where it ends."""
    if not isinstance(x, Stream):
        return atom(b, x)
    is_new = not x.taken and x.before is None
    return x.key if is_new else fold_in(b, x.key, taken(b, x))


def leaves(b: Builder, x: Value | Stream) -> list[Value]:
    """The arrays that a value consists of: of a stream, its key and how many were taken from it."""
    return [x.key, taken(b, x)] if isinstance(x, Stream) else [x]


def rebuilt(x: Value | Stream, arrays: Iterator[Value]) -> Any:
    """A value like ``x`` of the next arrays of those that it consists of."""
    first: Any = next(arrays)
    return Stream(first, 0, next(arrays)) if isinstance(x, Stream) else first


def typed_key(b: Builder, key: Var) -> Var:
    """A key as JAX types it, of one or of the unsigned integers of a legacy key."""
    if _jax.is_key(key.aval):
        return key
    return lax.random_wrap(b, key, _jax.default_prng_impl())


def key_of_seed(b: Builder, seed: Value) -> Var:
    """``jax.random.key(seed)``."""
    return lax.random_seed(b, atom(b, seed), _jax.default_prng_impl())


def split(b: Builder, key: Var) -> tuple[Any, Any]:
    """Two keys made of one."""
    keys = lax.random_split(b, key, (2,))
    first, second = (sh.squeeze(b, lax.slice(b, keys, (i,), (i + 1,), (1,)), (0,)) for i in (0, 1))
    return first, second


def bits(b: Builder, key: Var, shape: Shape, width: int) -> Value:
    """Unsigned integers of that many bits, all of them random."""
    return lax.random_bits(b, key, width, shape)


def uniform(
    b: Builder, key: Var, shape: Shape, dtype: Dtype, low: Value | None = None, high: Any = 1.0
) -> Value:
    """Uniform draws, at least ``low``, 0 if that is left out, and below ``high``.

    Random bits are the mantissas of numbers from 1 to 2.
    """
    info, one = np.finfo(dtype), np.ones((), dtype)
    drawn = bits(b, key, shape, info.bits)
    unsigned = dtype_of(drawn)
    drawn = elementwise(b, lax.shift_right_logical, drawn, like(drawn, info.bits - info.nmant))
    drawn = ew.bitwise_or(b, drawn, one.view(unsigned))
    number = lax.bitcast_convert_type(b, atom(b, drawn), dtype)
    unit = ew.subtract(b, number, one)
    if low is None:
        return unit
    high = np.asarray(high, dtype) if isinstance(high, float) else high
    is_known = isinstance(low, np.ndarray) and isinstance(high, np.ndarray)
    width = high - low if is_known else ew.subtract(b, high, low)
    return ew.maximum(b, low, ew.add(b, ew.multiply(b, unit, width), low))


def normal(b: Builder, key: Var, shape: Shape, dtype: Dtype) -> Value:
    """Standard normal draws, by inversion."""
    low = np.nextafter(np.asarray(-1, dtype), np.asarray(0, dtype), dtype=dtype)
    u = uniform(b, key, shape, dtype, low)
    return ew.multiply(b, np.asarray(np.sqrt(2), dtype), elementwise(b, lax.erf_inv, u))


def exponential(b: Builder, key: Var, shape: Shape, dtype: Dtype) -> Value:
    """Standard exponential draws, by inversion."""
    return ew.negative(b, _log1m(b, uniform(b, key, shape, dtype)))


def cauchy(b: Builder, key: Var, shape: Shape, dtype: Dtype) -> Value:
    """Standard Cauchy draws, by inversion."""
    u = uniform(b, key, shape, dtype, _limit(dtype, "eps"))
    return ew.tan(b, ew.multiply(b, like(u, np.pi), ew.subtract(b, u, like(u, 0.5))))


def laplace(b: Builder, key: Var, shape: Shape, dtype: Dtype) -> Value:
    """Standard Laplace draws, by inversion."""
    u = uniform(b, key, shape, dtype, np.asarray(-1 + np.finfo(dtype).epsneg, dtype))
    return ew.multiply(b, ew.sign(b, u), _log1m(b, ew.absolute(b, u)))


def logistic(b: Builder, key: Var, shape: Shape, dtype: Dtype) -> Value:
    """Standard logistic draws, by inversion."""
    u = uniform(b, key, shape, dtype, _limit(dtype, "tiny"))
    return ew.subtract(b, ew.log(b, u), _log1m(b, u))


def gumbel(b: Builder, key: Var, shape: Shape, dtype: Dtype) -> Value:
    """Standard Gumbel draws, by inversion (JAX's ``mode="low"``)."""
    u = uniform(b, key, shape, dtype, _limit(dtype, "tiny"))
    return ew.negative(b, ew.log(b, ew.negative(b, ew.log(b, u))))


def gamma(b: Builder, key: Var, alpha: Value, shape: Shape, *, log: bool = False) -> Value:
    """Gamma draws of scale 1, or their logarithms, which do not underflow.

    By Marsaglia and Tsang's rejection method (ACM TOMS 26, 2000), which is a primitive.
    """
    return lax.random_gamma(b, key, atom(b, broadcast_to(b, alpha, shape)), log)


def randint(b: Builder, key: Var, low: Value, high: Value, shape: Shape) -> Value:
    """Integers from ``low`` up to ``high``, which is left out; ``low`` if there are none.

    In the operands' dtype. A 64-bit (or whatever) number is put together of two, so that the
    remainder is uniform to within 2**-64.
    """
    dtype = dtype_of(low)
    width = dtype.itemsize * 8
    upper, lower = (bits(b, k, shape, width) for k in split(b, key))
    unsigned = dtype_of(upper)
    span = ew.convert(b, ew.subtract(b, high, low), unsigned)
    span = ew.where(b, ew.less_equal(b, high, low), like(upper, 1), span)

    def modulo(x: Value) -> Value:
        return elementwise(b, lax.rem, x, span)

    half = modulo(like(upper, 2 ** (width // 2)))
    factor = modulo(ew.multiply(b, half, half))
    offset = modulo(ew.add(b, ew.multiply(b, modulo(upper), factor), modulo(lower)))
    return ew.add(b, low, ew.convert(b, offset, dtype))


def permutation(b: Builder, key: Var, x: Value) -> Value:
    """``x`` with its rows in random order: sorted by random bits, often enough for few ties."""
    if len(shape_of(x)) > 1:
        rows = shape_of(x)[0]
        order = permutation(b, key, np.arange(rows))
        return gather.take(b, x, [order])
    rounds = math.ceil(3 * math.log(max(1, size_of(x))) / math.log(2**32 - 1))
    for _ in range(rounds):
        key, subkey = split(b, key)
        drawn = bits(b, subkey, shape_of(x), 32)
        x = lax.sort(b, atoms(b, [drawn, x]), 0, 1)[1]
    return x


def _log1m(b: Builder, x: Value) -> Value:
    return ew.log1p(b, ew.negative(b, x))


def _limit(dtype: Dtype, name: str) -> Any:
    return np.asarray(getattr(np.finfo(dtype), name), dtype)
