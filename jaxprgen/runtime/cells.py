"""Storage that outlives a call, as JAX takes its values: arrays on the device, and keys."""

from __future__ import annotations

import copy
import hashlib
import json
from typing import Any
from weakref import WeakKeyDictionary

import jax
import numpy as np
from aesara.link.basic import Container

from jaxprgen import _jax
from jaxprgen.runtime.data import to_device

_arrays: WeakKeyDictionary[Container, tuple[Any, Any]] = WeakKeyDictionary()
"""Of containers: the NumPy array that was seen in one, and its copy on the device."""


class Cell:
    """The container of a variable, which all functions of that variable share."""

    def __init__(self, container: Container) -> None:
        self._container = container
        self._seen: Any = None
        self._value: Any = None

    def read(self) -> Any:
        """The value for a program: an array, or the key of a generator."""
        value = self._container.storage[0]
        if value is None or isinstance(value, jax.Array):
            return value
        if isinstance(value, (np.random.Generator, np.random.RandomState)):
            key = key_of(value)
            if not isinstance(value, _Keyed):
                self._container.storage[0] = with_key(value, key)
            return key
        if self._seen is not value or self._value.is_deleted():
            self._seen, self._value = value, self._on_device(value)
        return self._value

    def _on_device(self, value: Any) -> Any:
        """The array on the device; put there once, and again when it is another one."""
        seen, array = _arrays.get(self._container, (None, None))
        if seen is not value or array.is_deleted():
            # A copy: JAX may share an aligned array's memory, and Aesara may write into it.
            (array,) = to_device([np.array(value)])
            _arrays[self._container] = value, array
        return array

    def write(self, value: Any) -> None:
        """A new value: an array, which stays on the device, or a key.

        Other functions, Aesara's own as well, see it.
        """
        storage = self._container.storage
        if isinstance(storage[0], (np.random.Generator, np.random.RandomState)):
            storage[0] = with_key(storage[0], value)
        else:
            storage[0] = value
            self._seen = self._value = None
            _arrays.pop(self._container, None)


class _Keyed:
    """A generator of NumPy's that, for JAX, stands for a key.

    What NumPy draws from it begins where the generator stood when it got its key: each library
    advances its own. A deep copy has the key too, so that draws can be repeated from there; a
    shallow one, which is how Aesara's Ops make the next state, is NumPy's alone.
    """

    key: Any

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        # The key is copied too, for a function that updates it takes its memory.
        return with_key(copy.copy(self), jax.numpy.copy(self.key))

    def __copy__(self) -> Any:
        kind: Any = type(self).__base__
        return _like(self, kind, copy.deepcopy(_bits_of(self)))

    def __reduce__(self) -> Any:
        data = np.asarray(jax.random.key_data(self.key))
        return _restored, (copy.copy(self), data, jax.random.key_impl(self.key))


class KeyedGenerator(_Keyed, np.random.Generator):
    """A `numpy.random.Generator` that, for JAX, stands for a key."""


class KeyedRandomState(_Keyed, np.random.RandomState):
    """A `numpy.random.RandomState` that, for JAX, stands for a key."""


def key_of(generator: Any) -> Any:
    """The key that a generator stands for; one that its state decides, if it has none."""
    if isinstance(generator, _Keyed):
        return generator.key
    with _jax.eval_context():  # A key that a trace makes would not outlive it.
        return jax.random.key(seed_of(generator))


def with_key(generator: Any, key: Any) -> Any:
    """A generator, or random state, with the bits of this one, that stands for a key."""
    old = isinstance(generator, np.random.RandomState)
    kind = KeyedRandomState if old else KeyedGenerator
    keyed = _like(generator, kind, _bits_of(generator))
    keyed.key = key
    return keyed


def _restored(generator: Any, data: Any, implementation: Any) -> Any:
    return with_key(generator, jax.random.wrap_key_data(data, impl=implementation))


def _like(generator: Any, kind: Any, bits: Any) -> Any:
    """A generator of that kind and of these bits."""
    made = kind(bits)
    if isinstance(generator, np.random.RandomState):  # Which may hold a number drawn before.
        made.set_state(generator.get_state(legacy=False))
    return made


def _bits_of(generator: Any) -> Any:
    return generator._bit_generator  # The name that both kinds have.


def seed_of(generator: Any) -> int:
    """A number that the state of a NumPy generator decides, below 2**63."""
    old = isinstance(generator, np.random.RandomState)
    state = generator.get_state(legacy=False) if old else generator.bit_generator.state
    text = json.dumps(state, default=lambda x: np.asarray(x).tolist(), sort_keys=True)
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big") >> 1
