"""`function`: a graph as a function that keeps the values of its shared variables up to date."""

from __future__ import annotations

import inspect
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal
from weakref import WeakKeyDictionary

import jax
import numpy as np
from aesara.compile.sharedvalue import SharedVariable

from jaxprgen import _jax
from jaxprgen.errors import ArgumentCountError, StateError
from jaxprgen.frontend.aesara.plan import plan_of
from jaxprgen.frontend.aesara.state import Pairs, StatefulGraph, seed_of, stateful_graph
from jaxprgen.function import CompiledFunction, calls_back
from jaxprgen.specialize import signature, to_device

_keys: WeakKeyDictionary[SharedVariable, tuple[Any, Any]] = WeakKeyDictionary()
"""Of shared generators: the NumPy generator that was seen, and the key that stands for it now."""
_arrays: WeakKeyDictionary[SharedVariable, tuple[Any, Any]] = WeakKeyDictionary()
"""Of other shared variables: the NumPy array that was seen, and its copy on the device."""


class StatefulFunction:
    """A graph as a function of its inputs that reads and updates shared variables.

    Arguments are given by position or by name. Values that are updated stay on the device: what
    ``shared.get_value()`` returns after a call is a JAX array. ``set_value`` is seen by the next
    call. A generator that the graph draws from stands for a key, which is made of its state and
    advances from call to call; the generator itself does not.

    Raises
    ------
    StateError
        It is called inside of a function that JAX transforms, which cannot update anything.
    """

    def __init__(
        self,
        graph: StatefulGraph,
        rebuild: Callable[[list[Any]], Any],
        name: str,
        checks: bool,
        callbacks: bool,
    ) -> None:
        start = time.perf_counter()
        self.__name__ = self.__qualname__ = name
        self._names, self._defaults, self._shared = graph.names, graph.defaults, graph.shared
        self._updated = [n for n, v in graph.shared.items() if v in graph.updates]
        self._count = len(graph.outputs)
        self._rebuild = rebuild
        updates = [graph.updates[graph.shared[n]] for n in self._updated]
        plan = plan_of(
            [*graph.shared.values(), *graph.inputs],
            [*graph.outputs, *updates],
            callbacks=callbacks,
            states=True,
        )
        seconds = time.perf_counter() - start
        donated = tuple(i for i, n in enumerate(graph.shared) if n in self._updated)
        self._pure = CompiledFunction(plan, name, checks, seconds)
        self._donating = CompiledFunction(plan, name, checks, seconds, donated)
        self.__signature__ = _signature(graph.names, self._defaults)
        self._lock = threading.Lock()

    def __repr__(self) -> str:
        kept = ", ".join(self._shared) or "nothing"
        return f"<jaxprgen function {self.__name__}{self.__signature__} that keeps {kept}>"

    def __call__(self, *args: Any, **named: Any) -> Any:
        """Run on arguments, and update the shared variables."""
        operands = self._arguments(args, named)
        traced = any(isinstance(x, _jax.Tracer) for x in operands)
        if self._updated and (traced or not _jax.trace_state_clean()):
            raise StateError(
                f"{self.__name__} updates {', '.join(self._updated)}, which it cannot do inside of "
                "a function that JAX transforms.\n"
                f"Call outputs, state = {self.__name__}.pure(state, ...) there; the state to begin "
                f"with is {self.__name__}.state()."
            )
        with self._lock:
            state = [_read(v) for v in self._shared.values()]
            results = _sequence(self._donating(*state, *operands), self._count + len(self._updated))
            for n, value in zip(self._updated, results[self._count :], strict=True):
                _write(self._shared[n], value)
        return self._rebuild(results[: self._count])

    def pure(
        self, state: Mapping[str, Any], *args: Any, **named: Any
    ) -> tuple[Any, dict[str, Any]]:
        """The outputs, and the state after a call that begins with this one.

        It reads and changes nothing else, so JAX may transform it. States are as `state` has
        them.
        """
        if set(state) != set(self._shared):
            own, given = (
                ", ".join(map(str, names)) or "nothing" for names in (self._shared, state)
            )
            raise StateError(f"The state of {self.__name__} is of {own}, not of {given}.")
        operands = self._arguments(args, named)
        found = self._pure(*(state[n] for n in self._shared), *operands)
        results = _sequence(found, self._count + len(self._updated))
        new = dict(zip(self._updated, results[self._count :], strict=True))
        return self._rebuild(results[: self._count]), {**state, **new}

    def state(self) -> dict[str, Any]:
        """The values of the shared variables now, by name; of a generator, its key."""
        with self._lock:
            return {n: jax.numpy.copy(_read(v)) for n, v in self._shared.items()}

    @property
    def compiled(self) -> CompiledFunction:
        """The function of the state, in order, then of the arguments, that is behind this one."""
        return self._pure

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


def function(
    inputs: Any,
    outputs: Any = None,
    updates: Pairs | None = None,
    givens: Pairs | None = None,
    *,
    name: str = "main",
    no_default_updates: bool | Sequence[Any] = False,
    checks: bool = False,
    fallback: Literal["error", "callback"] = "error",
) -> StatefulFunction:
    """Make a function of an Aesara graph that keeps state, as `aesara.function` does.

    Parameters
    ----------
    inputs
        The variables of the arguments, or `aesara.In` of them with names and defaults.
    outputs
        A variable, whose value is returned; or a sequence, a list of whose values is returned; or
        a dictionary likewise; or None.
    updates
        Shared variables and their new values, as a mapping or pairs. Those that have a default
        update, as the generators of a `RandomStream`, get it if nothing else is said.
    givens
        What to compute with in place of some variables, as a mapping or pairs.
    name
        The function's name, in JAX's messages, profiles and StableHLO.
    no_default_updates
        Whether default updates are left out, or for which variables.
    checks, fallback
        As for `jaxprgen.compile`.

    Raises
    ------
    InvalidGraphError
        An update is not of a shared variable, or of another type; and as `jaxprgen.compile`.
    UnsupportedOpError
        Ops without a rule; the message lists all of them, with the lines that made them.
    """
    inputs = list(inputs) if isinstance(inputs, Sequence) else [inputs]
    flat, rebuild = _flattened(outputs)
    graph = stateful_graph(inputs, flat, updates, givens, no_default_updates)
    return StatefulFunction(graph, rebuild, name, checks, calls_back(fallback))


def _flattened(outputs: Any) -> tuple[list[Any], Callable[[list[Any]], Any]]:
    """The outputs in order, and what makes of their values what was asked for."""
    if outputs is None:
        return [], lambda values: None
    if isinstance(outputs, Mapping):
        return list(outputs.values()), lambda values: dict(zip(outputs, values, strict=True))
    if isinstance(outputs, (list, tuple)):
        return list(outputs), lambda values: values
    return [outputs], lambda values: values[0]


def _sequence(results: Any, count: int) -> list[Any]:
    return list(results) if count > 1 else [results]


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


def _read(variable: SharedVariable) -> Any:
    """The value of a shared variable for a program: an array, or a key."""
    value = variable.container.storage[0]
    if not isinstance(value, (np.random.Generator, np.random.RandomState)):
        return _on_device(variable, value)
    seen, key = _keys.get(variable, (None, None))
    if seen is not value:
        with _jax.eval_context():  # A key that a trace makes would not outlive it.
            key = jax.random.key(seed_of(value))
        _keys[variable] = value, key
    return key


def _on_device(variable: SharedVariable, value: Any) -> Any:
    """The array on the device; put there once, and again when it is another one."""
    if isinstance(value, jax.Array):
        return value
    seen, array = _arrays.get(variable, (None, None))
    if seen is not value or array.is_deleted():
        # A copy: JAX may share an aligned array's memory, and Aesara may write into it.
        (array,) = to_device([np.array(value)])
        _arrays[variable] = value, array
    return array


def _write(variable: SharedVariable, value: Any) -> None:
    """What is new in a shared variable. Functions of Aesara's that read it see it as well."""
    storage = variable.container.storage
    if isinstance(storage[0], (np.random.Generator, np.random.RandomState)):
        _keys[variable] = storage[0], value
    else:
        storage[0] = value
        _arrays.pop(variable, None)
