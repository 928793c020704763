"""Functions that keep values from call to call, in storage that Aesara's functions share."""

from __future__ import annotations

import copy
import hashlib
import inspect
import json
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any
from weakref import WeakKeyDictionary

import jax
import numpy as np
from aesara.graph.basic import Variable
from aesara.link.basic import Container

from jaxprgen import _jax
from jaxprgen.aesara.plan import plan_of
from jaxprgen.aesara.state import StatefulGraph
from jaxprgen.errors import ArgumentCountError, StateError, error_of_check
from jaxprgen.runtime.compiled import CompiledFunction
from jaxprgen.runtime.program import Options, as_listed, signature, to_device


class StatefulFunction:
    """A graph as a function of its inputs that reads and updates shared variables.

    Arguments are given by position or by name. Values that are updated stay on the device: what
    ``shared.get_value()`` returns after a call is a JAX array. ``set_value`` is seen by the next
    call. A generator that the graph draws from stands for a key, which is made of its state and
    advances from call to call; ``get_value()`` has it, so that ``set_value`` can go back to it.

    Raises
    ------
    StateError
        It is called inside of a function that JAX transforms, which cannot update anything.
    """

    def __init__(
        self,
        graph: StatefulGraph,
        rebuild: Callable[[list[Any]], Any],
        options: Options,
        callbacks: bool,
    ) -> None:
        self.__name__ = self.__qualname__ = options.name
        self._names, self._defaults = graph.names, graph.defaults
        self._rebuild = rebuild
        kept = {n: (v, Cell(v.container)) for n, v in graph.shared.items()}
        updates = {n: graph.updates[v] for n, v in graph.shared.items() if v in graph.updates}
        self._program = StatefulProgram(
            graph.inputs, graph.outputs, kept, updates, options, callbacks
        )
        self.__signature__ = _signature(graph.names, self._defaults)

    def __repr__(self) -> str:
        kept = ", ".join(self._program.kept) or "nothing"
        return f"<jaxprgen function {self.__name__}{self.__signature__} that keeps {kept}>"

    def __call__(self, *args: Any, **named: Any) -> Any:
        """Run on arguments, and update the shared variables."""
        return self._rebuild(self._program(self._arguments(args, named)))

    def pure(
        self, state: Mapping[str, Any], *args: Any, **named: Any
    ) -> tuple[Any, dict[str, Any]]:
        """The outputs, and the state after a call that begins with this one.

        It reads and changes nothing else, so JAX may transform it. States are as `state` has
        them.
        """
        outputs, new = self._program.pure(state, self._arguments(args, named))
        return self._rebuild(outputs), new

    def state(self) -> dict[str, Any]:
        """The values of the shared variables now, by name; of a generator, its key."""
        return self._program.state()

    @property
    def compiled(self) -> CompiledFunction:
        """The function of the state, in order, then of the arguments, that is behind this one."""
        return self._program.compiled

    def _arguments(self, args: Sequence[Any], named: dict[str, Any]) -> list[Any]:
        if not named and len(args) == len(self._names):
            return list(args)
        names = self._names
        by_place = dict(zip(names, args, strict=False))
        defaults = {names[i]: value for i, value in self._defaults.items()}
        given = {**defaults, **by_place, **named}
        wrong = {
            "missing": [n for n in names if n not in given],
            "unknown": [n for n in named if n not in names],
            "given twice": [n for n in named if n in by_place],
            "too many": [str(len(args))] if len(args) > len(names) else [],
        }
        for what, which in wrong.items():
            if which:
                raise ArgumentCountError(f"{self!r} was called: {what}: {', '.join(which)}.")
        return [given[n] for n in names]


def _signature(names: Sequence[str], defaults: Mapping[int, Any]) -> inspect.Signature:
    """As far as Python can say it: whatever follows a default has one there."""
    kind, first = inspect.Parameter.POSITIONAL_OR_KEYWORD, min(defaults, default=len(names))
    parameters = signature(names).parameters.values()
    return inspect.Signature(
        [
            p.replace(kind=kind, default=defaults.get(i) if i >= first else p.default)
            for i, p in enumerate(parameters)
        ]
    )


class StatefulProgram:
    """A graph as a function of arguments that reads cells, and writes to some of them.

    Parameters
    ----------
    kept
        The variables that cells hold the values of, with these, by name.
    updates
        The new values of some, by name.
    held
        Variables that have one value for all calls, among them those kept that are not read.

    Raises
    ------
    StateError
        It is to update something inside of a function that JAX transforms.
    JaxprGenError
        With ``checks``: of the kind that the check is about. Nothing is updated then.
    """

    def __init__(
        self,
        inputs: Sequence[Variable],
        outputs: Sequence[Variable],
        kept: Mapping[str, tuple[Variable, Cell]],
        updates: Mapping[str, Variable],
        options: Options,
        callbacks: bool,
        held: Mapping[Variable, Any] | None = None,
    ) -> None:
        start = time.perf_counter()
        self._name, self._options = options.name, options
        self._cells = {n: cell for n, (_, cell) in kept.items()}
        read = {n: v for n, (v, _) in kept.items() if v not in (held or {})}
        self._read = {n: self._cells[n] for n in read}
        self._updated = [n for n in kept if n in updates]
        self._count = len(outputs)
        plan = plan_of(
            [*read.values(), *inputs],
            [*outputs, *(updates[n] for n in self._updated)],
            callbacks=callbacks,
            states=True,
            held=held,
        )
        seconds = time.perf_counter() - start
        self.compiled = CompiledFunction(plan, options, seconds)
        self._donated = tuple(i for i, n in enumerate(read) if n in updates)
        self._lock = threading.Lock()

    @property
    def kept(self) -> list[str]:
        """The names of what is kept."""
        return list(self._cells)

    def __call__(self, operands: Sequence[Any]) -> list[Any]:
        """The outputs for arguments; what is new is written."""
        if self._updated and (
            any(isinstance(x, _jax.Tracer) for x in operands) or not _jax.trace_state_clean()
        ):
            raise StateError(
                f"{self._name} updates {', '.join(self._updated)}, which it cannot do inside of "
                "a function that JAX transforms.\n"
                f"Call outputs, state = {self._name}.pure(state, ...) there; the state to begin "
                f"with is {self._name}.state()."
            )
        if not self._cells:
            return self._results(operands)
        with self._lock:
            state = [cell.read() for cell in self._read.values()]
            results = self._results([*state, *operands])
            for n, value in zip(self._updated, results[self._count :], strict=True):
                self._cells[n].write(value)
        return results[: self._count]

    def _results(self, operands: Sequence[Any]) -> list[Any]:
        """Run the program, which may reuse the state's memory, and raise what its checks find."""
        if not self._options.checks:
            return as_listed(self.compiled.run(operands, self._donated))
        program = self.compiled.program(operands)
        error, results = program.checked(*self.compiled.accepted(operands))
        found = error.get()
        if found is not None:
            raise error_of_check(found)
        return results

    def pure(
        self, state: Mapping[str, Any], operands: Sequence[Any]
    ) -> tuple[list[Any], dict[str, Any]]:
        """The outputs for arguments and a state, and the new state; nothing is written."""
        if set(state) != set(self._read):
            own, given = (", ".join(map(str, names)) or "nothing" for names in (self._read, state))
            raise StateError(f"The state of {self._name} is of {own}, not of {given}.")
        held = [state[n] for n in self._read]
        results = as_listed(self.compiled.run([*held, *operands]))
        new = dict(zip(self._updated, results[self._count :], strict=True))
        return results[: self._count], {**state, **new}

    def state(self) -> dict[str, Any]:
        """The values of the cells now, by name."""
        with self._lock:
            return {n: jax.numpy.copy(cell.read()) for n, cell in self._cells.items()}


# --- Storage ------------------------------------------------------------------------------

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


# --- Generators ---------------------------------------------------------------------------


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
