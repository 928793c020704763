"""Programs that a graph library's functions run: they read and write the library's storage."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal

import jax
import numpy as np

from jaxprgen import _jax
from jaxprgen.graphs.containers import keep_on_device
from jaxprgen.graphs.library import is_array, is_none_or_slice, may_be_none_or_slice
from jaxprgen.graphs.state import names_of
from jaxprgen.lowering.names import Variable, is_a
from jaxprgen.runtime import state
from jaxprgen.runtime.cache import MOST_PROGRAMS, Cache
from jaxprgen.runtime.generators import key_of, with_key
from jaxprgen.runtime.program import Options


def given_back(
    variable: Variable, results: Literal["numpy", "jax"], *, copies: bool
) -> Callable[[Any], Any]:
    """Return the function that converts the JAX array of an output."""
    if is_a(variable.type, "tensor.RandomType"):
        is_old = is_a(variable.type, "tensor.RandomStateType")
        make: Any = np.random.RandomState if is_old else np.random.default_rng
        return lambda key: with_key(make(np.asarray(jax.random.key_data(key))), key)
    if results == "jax":
        return lambda x: x
    if is_a(variable.type, "scalar.ScalarType"):
        return _scalar
    return np.array if copies else np.asarray  # The caller's memory.


def _scalar(x: Any) -> Any:
    return np.asarray(x)[()]


class LinkedProgram:
    """The program that a function of a graph library runs, which reads and writes its storage.

    Attributes
    ----------
    program
        The program; falsy without outputs and updates.
    by_objects
        Other programs, by the arguments that are not arrays.
    storage_map
        The storage of all variables, where the library's functions look for it.
    """

    allow_gc = False
    need_update_inputs = False
    """The program itself updates them."""

    def __init__(
        self,
        graph: Any,
        containers: Sequence[Any],
        storage_map: Any,
        options: Options,
        callbacks: bool,
        given_back: Callable[[Variable], Callable[[Any], Any]],
    ) -> None:
        self.storage_map = storage_map
        container_of = dict(zip(graph.inputs, containers, strict=True))
        new = {graph.inputs[i]: graph.outputs[o] for o, i in graph.update_mapping.items()}
        kept = [v for v in graph.inputs if v in new or is_a(v, "compile.SharedVariable")]
        names = dict(zip(kept, names_of(kept), strict=True))
        self._arguments = {v: c for v, c in container_of.items() if v not in names}
        self.generators = [
            i for i, v in enumerate(self._arguments) if is_a(v.type, "tensor.RandomType")
        ]
        outputs = [v for o, v in enumerate(graph.outputs) if o not in graph.update_mapping]
        self._given_back = [given_back(v) for v in outputs]
        self._written = [None] * len(new)
        shared = {n: (v, state.state_in(_known(v, container_of[v]))) for v, n in names.items()}
        updates = {names[v]: value for v, value in new.items()}
        bare, called = options._replace(checks=False), options if options.checks else None

        def program(fixed: dict[Variable, Any]) -> state.StatefulProgram:
            inputs = [v for v in self._arguments if v not in fixed]
            return state.StatefulProgram(
                inputs, outputs, shared, updates, bare, callbacks, fixed, called
            )

        self._program = program
        self.by_objects: Cache[Any, state.StatefulProgram] = Cache(MOST_PROGRAMS)
        self._optional = {v: c for v, c in container_of.items() if may_be_none_or_slice(graph, v)}
        self.program: Any = graph.outputs and all(map(is_array, self._optional)) and program({})

    def __call__(self, output_subset: Any = None) -> list[Any]:
        """Run on the values in storage; return the outputs, and None for each update."""
        return [*self.run([c.storage[0] for c in self._arguments.values()]), *self._written]

    def run(self, operands: Sequence[Any]) -> list[Any]:
        """Return the outputs for these arguments, and write the updates."""
        optional = {v: c.storage[0] for v, c in self._optional.items()}
        fixed = {v: x for v, x in optional.items() if is_none_or_slice(x)}
        program = self._program_with(fixed) if fixed else self.program
        if not program:
            return []
        if self.generators:
            operands = [key_of(x) if i in self.generators else x for i, x in enumerate(operands)]
        outputs = program([x for x in operands if not is_none_or_slice(x)] if fixed else operands)
        return [
            give(x) if _jax.is_complete(x) else x
            for give, x in zip(self._given_back, outputs, strict=True)
        ]

    def _program_with(self, fixed: dict[Variable, Any]) -> state.StatefulProgram:
        """Return the program for these values of arguments that are not arrays."""
        key = tuple((v, repr(x)) for v, x in fixed.items())
        found = self.by_objects.get(key)
        if found is None:
            found = self._program(fixed)
            self.by_objects.put(key, found)
        return found


def _known(variable: Variable, container: Any) -> Any:
    """Return the container that other functions share, if its storage is the one used here."""
    own = variable.container if is_a(variable, "compile.SharedVariable") else container
    if own.storage is not container.storage:
        return container
    keep_on_device(own, as_numpy=True)
    return own
