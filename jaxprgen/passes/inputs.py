"""Inputs on which a program shows what a pass did to it: random, awkward and nearly equal ones."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np

from jaxprgen import _jax
from jaxprgen._jax import ShapedArray

Array: TypeAlias = np.ndarray[Any, Any]


class Inputs(NamedTuple):
    """A value for each input of a program.

    Attributes
    ----------
    values : list
        The values.
    is_benign : bool
        Whether the numbers are of moderate size and differ from each other.
    """

    values: list[Any]
    is_benign: bool = False


_MODERATE = [0.0, -0.0, 1.0, -1.0, 0.5, 2.0, -3.0, 1e-3, 0.1, 30.0, -40.0]
_SPECIAL = [np.inf, -np.inf, np.nan]
_TIES = [0.0, -0.0, 1.0, -1.0, 1e-5, 800.0, -800.0, np.nan, np.inf]
_LARGE = {"float64": 1.7e9, "float32": 1e4, "float16": 300.0, "bfloat16": 100.0}
"""Numbers in which a difference of neighbours has few digits, as in seconds since 1970."""


def inputs_of(avals: Sequence[ShapedArray]) -> Iterator[Inputs]:
    """Yield inputs of these types, always the same ones.

    Parameters
    ----------
    avals : sequence of ShapedArray
        The types of a program's inputs. Sizes are numbers.

    Yields
    ------
    Inputs
        Normal and positive numbers; equal numbers, large ones among them; mixtures with infinities,
        NaN and the ends of the range; some rows huge or large and nearly equal, the others
        moderate. Integers are small, or at their bounds. Keys differ.
    """
    rng = np.random.default_rng(0)

    def drawn(make: Any, *, is_benign: bool = False) -> Inputs:
        return Inputs([_value(aval, make, rng) for aval in avals], is_benign)

    def near(center: Any, are_far: Sequence[bool | None]) -> Inputs:
        makes = [_Near(center, i, is_far) for i, is_far in enumerate(are_far)]
        return Inputs([_value(x, make, rng) for x, make in zip(avals, makes, strict=True)])

    yield drawn(_normal, is_benign=True)
    yield drawn(_positive, is_benign=True)
    yield drawn(_normal, is_benign=True)
    if not avals:
        return
    for tie in _TIES:
        yield drawn(_Filled(tie))
    for _ in range(2):
        yield drawn(_mixed(_MODERATE))
        yield drawn(_mixed([*_MODERATE, *_SPECIAL]))
        yield drawn(_extreme)
    n = len(avals)
    for center in (_large, _huge):
        for are_far in ([True] * n, *_subsets(n, rng), [None] * n, [None] * n):
            yield near(center, are_far)
    yield drawn(_ends)


def _subsets(n: int, rng: np.random.Generator) -> Iterator[list[bool]]:
    """Yield choices of two or more of several inputs: all pairs of few, random ones of many."""
    if n > 4:
        for _ in range(6):
            yield list(rng.random(n) < 0.5)
    elif n > 2:
        for i in range(n):
            for j in range(i):
                yield [k in (i, j) for k in range(n)]


def _value(aval: ShapedArray, make: Any, rng: np.random.Generator) -> Any:
    """Return a value of a type: ``make`` returns floating-point numbers for a shape and dtype."""
    shape, dtype = aval.shape, aval.dtype
    if jnp.issubdtype(dtype, jax.dtypes.prng_key):
        return _keys(aval, int(rng.integers(1000)))
    if dtype == np.bool_:
        return rng.random(shape) < 0.5
    if jnp.issubdtype(dtype, jnp.integer):
        return _integers(shape, dtype, make, rng)
    if jnp.issubdtype(dtype, jnp.complexfloating):
        real = np.float32 if dtype == np.complex64 else np.float64
        parts = [make(shape, np.dtype(real), rng) for _ in range(2)]
        found = np.empty(shape, dtype)
        found.real, found.imag = parts
        return found
    with np.errstate(all="ignore"):
        return np.asarray(make(shape, dtype, rng)).astype(dtype)


def _keys(aval: ShapedArray, seed: int) -> Any:
    with _jax.eval_context():
        key = jax.random.key(seed, impl=_jax.key_implementation(aval.dtype))
        return jax.random.split(key, aval.shape) if aval.shape else key


def _integers(shape: Any, dtype: Any, make: Any, rng: np.random.Generator) -> Array:
    info = jnp.iinfo(dtype)
    low, high = int(info.min), int(info.max)
    small = rng.integers(0, 4, shape)
    if isinstance(make, _Filled) and np.isfinite(make.number):
        small = np.full(shape, int(np.clip(make.number, low, min(high, 100))))
    found = np.asarray(small).astype(dtype)
    if make is _extreme:
        bounds = np.asarray([low, high, -1 if low else 1, 0], dtype)
        found = np.where(rng.random(shape) < 0.5, rng.choice(bounds, shape), found)
    return found


# --- Floating-point numbers -----------------------------------------------------------------


def _normal(shape: Any, dtype: Any, rng: np.random.Generator) -> Array:
    return rng.normal(size=shape)


def _positive(shape: Any, dtype: Any, rng: np.random.Generator) -> Array:
    return rng.uniform(0.1, 0.9, shape)


def _extreme(shape: Any, dtype: Any, rng: np.random.Generator) -> Array:
    """Mix numbers at the ends of the range with moderate ones."""
    info = jnp.finfo(dtype)
    numbers = [float(x) for x in (info.max, info.min, info.tiny, 1.0, 0.3, -2.0)]
    return rng.choice([*numbers, *(800.0, -700.0)], shape)


def _large(dtype: Any) -> float:
    return _LARGE.get(str(dtype), 100.0)


def _huge(dtype: Any) -> float:
    """Return a number of which four, but not three, overflow if they are added."""
    return float(jnp.finfo(dtype).max) / 3.5


class _Filled(NamedTuple):
    """Arrays of one number."""

    number: float

    def __call__(self, shape: Any, dtype: Any, rng: np.random.Generator) -> Array:
        return np.full(shape, self.number)


def _mixed(numbers: Sequence[float]) -> Any:
    """Return a function that makes arrays of some numbers in random order."""
    return lambda shape, dtype, rng: rng.choice(numbers, shape)


class _Near(NamedTuple):
    """Numbers above a center, nearly equal at the same place of all inputs; others moderate.

    Attributes
    ----------
    center
        Returns the center for a dtype.
    position
        The position of the input.
    is_far
        Whether the input, as a whole, is near the center; None chooses among its rows.
    """

    center: Any
    position: int
    is_far: bool | None

    def __call__(self, shape: Any, dtype: Any, rng: np.random.Generator) -> Array:
        moderate = rng.uniform(0.1, 0.9, shape)
        center, eps = self.center(dtype), float(jnp.finfo(dtype).eps)
        same = np.modf(np.arange(shape[-1] if shape else 1) * 0.618)[0]  # In [0, 1), like noise.
        step = 16 * eps * center * (1 + self.position + rng.integers(0, 4, shape))
        far = center + (same if shape else same[0]) * min(1.0, center) + step
        if self.is_far is None:
            rows = (rng.random(shape[:1]) < 0.5).reshape(shape[:1] + (1,) * (len(shape) - 1))
            return np.where(rows, far, moderate)
        return np.asarray(far if self.is_far else moderate)


def _ends(shape: Any, dtype: Any, rng: np.random.Generator) -> Array:
    """Put a large number first, its opposite last, and moderate ones between, on the first axis."""
    found = rng.uniform(0.1, 0.9, shape)
    if shape and shape[0] > 3:
        found[0], found[-1] = _large(dtype), -_large(dtype)
    return found
