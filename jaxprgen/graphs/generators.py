"""NumPy's generators that stand for PRNG keys."""

from __future__ import annotations

import copy
import hashlib
import json
from typing import Any

import jax
import numpy as np

from jaxprgen import _jax


class Keyed:
    """A NumPy generator that stands for a PRNG key in JAX programs.

    NumPy's own draws go on from where the generator stood when it got its key: each library
    advances its own state. A deep copy keeps the key, so that draws can be repeated from there. A
    shallow copy, by which Aesara's Ops make the next state, has none.
    """

    key: Any

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        return with_key(copy.copy(self), self.key)

    def __copy__(self) -> Any:
        kind: Any = type(self).__base__
        return _like(self, kind, copy.deepcopy(_bits_of(self)))

    def __reduce__(self) -> Any:
        data = np.asarray(jax.random.key_data(self.key))
        return _restored, (copy.copy(self), data, jax.random.key_impl(self.key))


class KeyedGenerator(Keyed, np.random.Generator):
    """A `numpy.random.Generator` that stands for a PRNG key in JAX programs."""


class KeyedRandomState(Keyed, np.random.RandomState):
    """A `numpy.random.RandomState` that stands for a PRNG key in JAX programs."""


def is_generator(value: Any) -> bool:
    """Return whether a value is a generator or random state of NumPy."""
    return isinstance(value, (np.random.Generator, np.random.RandomState))


def key_of(generator: Any) -> Any:
    """Return the key that a generator stands for, or else one that its state determines."""
    if isinstance(generator, Keyed):
        return generator.key
    with _jax.eval_context():  # A key that a trace makes would not outlive it.
        return jax.random.key(seed_of(generator))


def keyed(generator: Any) -> Any:
    """Return a generator that stands for a key: this one, or one like it."""
    return generator if isinstance(generator, Keyed) else with_key(generator, key_of(generator))


def drawn_key() -> Any:
    """Return a key that NumPy's global generator draws; `numpy.random.seed` decides it."""
    seed = np.random.randint(0, np.iinfo(np.int64).max, dtype=np.int64)
    return jax.random.key(int(seed))


def with_key(generator: Any, key: Any) -> Any:
    """Return a generator or random state with the bits of this one that stands for a key."""
    old = isinstance(generator, np.random.RandomState)
    kind = KeyedRandomState if old else KeyedGenerator
    keyed = _like(generator, kind, _bits_of(generator))
    keyed.key = key
    return keyed


def _restored(generator: Any, data: Any, implementation: Any) -> Any:
    return with_key(generator, jax.random.wrap_key_data(data, impl=implementation))


def _like(generator: Any, kind: Any, bits: Any) -> Any:
    """Return a generator of that kind with these bits."""
    made = kind(bits)
    if isinstance(generator, np.random.RandomState):  # It may hold a second normal variate.
        made.set_state(generator.get_state(legacy=False))
    return made


def _bits_of(generator: Any) -> Any:
    return generator._bit_generator  # Both kinds have this name.


def seed_of(generator: Any) -> int:
    """Return a number below 2**63 that the state of a NumPy generator determines."""
    old = isinstance(generator, np.random.RandomState)
    state = generator.get_state(legacy=False) if old else generator.bit_generator.state
    text = json.dumps(state, default=lambda x: np.asarray(x).tolist(), sort_keys=True)
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big") >> 1
