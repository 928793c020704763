"""Functions that keep values from call to call, in storage that the library's functions share."""

from __future__ import annotations

import operator
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from jax.sharding import NamedSharding

from jaxprgen import _jax
from jaxprgen.arguments.accept import are_concrete, in_order
from jaxprgen.arguments.inputs import KEY, signature
from jaxprgen.errors import StateError
from jaxprgen.graphs.cells import Cell, cell_of, write_all
from jaxprgen.graphs.generators import drawn_key
from jaxprgen.graphs.library import is_sparse
from jaxprgen.graphs.plan import plan_of
from jaxprgen.graphs.state import StatefulGraph
from jaxprgen.lowering.names import Variable
from jaxprgen.lowering.portable import stamped
from jaxprgen.runtime.compiled import CompiledFunction
from jaxprgen.runtime.program import Options, as_listed
from jaxprgen.runtime.shared_values import SharedValues
from jaxprgen.texts import visible


class StatefulProgram:
    """A graph as a function that reads the values of shared variables and writes some of them.

    Sparse matrices among them are not part of its state: the number of their entries changes from
    call to call.

    Parameters
    ----------
    inputs, outputs
        The variables of arguments and results.
    kept
        The shared variables and the cells of their values, by name.
    updates
        The new values of some of them, by name.
    options, callbacks
        The options of the program, and whether Ops without a rule are called back.
    fixed
        Variables that have one value for all calls; shared variables among them are not read.
    called
        Options for calls outside of JAX's transformations, if they differ from ``options``.
    shardings
        Where the data of variables live.

    Raises
    ------
    StateError
        A call updates something inside a function that JAX transforms.
    JaxprGenError
        A call fails a check; the class is that of the check. Nothing is updated.

    Attributes
    ----------
    kept : list of str
        The names of the shared variables that it keeps.
    compiled : CompiledFunction
        The JAX function behind this one, of the state in order and then of the arguments.
    """

    def __init__(
        self,
        inputs: Sequence[Variable],
        outputs: Sequence[Variable],
        kept: Mapping[str, tuple[Variable, Cell]],
        updates: Mapping[str, Variable],
        options: Options,
        callbacks: bool,
        fixed: Mapping[Variable, Any] | None = None,
        called: Options | None = None,
        shardings: Mapping[Any, NamedSharding] | None = None,
    ) -> None:
        start = time.perf_counter()
        self._name = options.name
        self._count = len(outputs)
        self._updates = updates
        self._written = [kept[n][1] for n in updates]
        self._matrices = [n for n, (v, _) in kept.items() if n in updates and is_sparse(v)]
        self.kept = [n for n, (v, _) in kept.items() if n in updates or not is_sparse(v)]
        read = {n: v for n, (v, _) in kept.items() if not (is_sparse(v) or v in (fixed or {}))}
        places = {n: i for i, n in enumerate(read)}
        moves = {self._count + i: places[n] for i, n in enumerate(updates) if n in places}
        ends = [*read.values(), *inputs], [*outputs, *updates.values()]
        plan = plan_of(
            *ends, callbacks=callbacks, states=True, fixed=fixed, shardings=shardings, carried=moves
        )
        is_data = [n not in updates and plan.inputs[i].dtype is not KEY for n, i in places.items()]
        plan = replace(plan, data=[i for i, found in enumerate(is_data) if found])
        seconds = time.perf_counter() - start
        if options.parts_from is None:
            options = options._replace(parts_from=self._count)
        self.compiled = CompiledFunction(plan, options, seconds)
        self._called = self.compiled if called is None else CompiledFunction(plan, called, seconds)
        self._keys = plan.keys
        self._shared = SharedValues(
            options.name,
            [*read],
            [kept[n][1] for n in read],
            f"To pass them as arguments, call {options.name}.pure(state, ...).",
            {i: found for i, v in enumerate(read.values()) if (found := (shardings or {}).get(v))},
            [places[n] for n in updates if n in places],
            [cell for _, cell in kept.values()],
        )

    def run(self, operands: Sequence[Any]) -> list[Any]:
        """Return the outputs for arguments, and write the updates."""
        compiled, runs_once = self._called, _jax.runs_once()
        if not ((runs_once or _jax.trace_state_clean()) and are_concrete(operands)):
            self._require_transformable()
            if self._updates:
                raise StateError(
                    f"{self._name} updates {', '.join(self._updates)}, which is not possible "
                    "inside a function that JAX transforms.\n"
                    f"Call outputs, state = {self._name}.pure(state, ...) there, and start with "
                    f"the state that {self._name}.state() returns."
                )
            compiled = self.compiled
        if self._keys:
            operands = [*operands, *(drawn_key() for _ in range(self._keys))]
        return self._shared.at_once(self._run, compiled, operands, runs_once)

    def _run(self, compiled: CompiledFunction, operands: Any, runs_once: bool) -> list[Any]:
        cells = self._written
        # Values that are copied to the host can be lost on the way.
        reuses = bool(cells) and runs_once and not any(map(_is_in_use, cells))
        arguments = [*self._shared.read(reuses), *operands]
        old = [cell.storage[0] for cell in cells]
        found: list[Any] = []
        try:
            results = as_listed(compiled.run(arguments, found if reuses else None))
            write_all(cells, old, results[self._count :])
        except BaseException:
            if found:  # The program has run, and the old values are gone.
                write_all(cells, old, as_listed(found[0])[self._count :])
            raise
        return results[: self._count]

    def _require_transformable(self) -> None:
        if self._keys:
            raise StateError(
                f"{self._name} draws from NumPy's global generator, which JAX cannot transform.\n"
                "Draw from a generator of aesara.tensor.random, or compile the graph by "
                "jaxprgen.compile, which takes a key."
            )
        if self._matrices:
            raise StateError(
                f"{self._name} updates {', '.join(self._matrices)}: how many entries a sparse "
                "matrix stores follows from values, so JAX cannot transform this function.\n"
                "Update a shared vector of the entries instead, and make the matrix of it by CSM."
            )

    def after(
        self, state: Mapping[str, Any], operands: Sequence[Any]
    ) -> tuple[list[Any], dict[str, Any]]:
        """Return the outputs for arguments and a state, and the new state; write nothing."""
        self._require_transformable()
        names = self._shared.names
        if set(state) != set(names):
            own, given = (", ".join(map(str, each)) or "nothing" for each in (names, state))
            raise StateError(
                f"The state of {self._name} must have the entries {own}, but has {given}."
            )
        results = as_listed(self.compiled.run([*(state[n] for n in names), *operands]))
        new = dict(zip(self._updates, results[self._count :], strict=True))
        return results[: self._count], {**state, **new}

    def state(self) -> dict[str, Any]:
        """Return the current values of the shared variables by name; keys for generators."""
        return self._shared.leased()


_is_in_use = operator.attrgetter("is_in_use")


class StatefulFunction(StatefulProgram):
    """A graph as a function that reads and updates shared variables; `jaxprgen.function` makes it.

    Updated values stay on the device: ``shared.get_value()`` then returns a JAX array. A call sees
    what ``set_value`` has set. A generator that the graph draws from stands for a PRNG key, made of
    its state, that advances from call to call; ``get_value`` and ``set_value`` carry that key, so
    that draws can be repeated.

    Parameters
    ----------
    *args, **named : scalar, array or tracer
        The arguments of a call, by position or by name.

    Returns
    -------
    array, list, dict or None
        The values of the outputs, arranged as the outputs were given; a tuple becomes a list, as
        with `aesara.function`.

    Raises
    ------
    StateError
        The function updates something and is called inside a function that JAX transforms.
    """

    def __init__(
        self, graph: StatefulGraph, rebuild: Callable[..., Any], options: Options, callbacks: bool
    ) -> None:
        self.__name__ = self.__qualname__ = options.name
        self._rebuild = rebuild
        self._made_of = graph, rebuild, options, callbacks
        updates = {n: graph.updates[v] for n, v in graph.shared.items() if v in graph.updates}
        kept = {n: (v, cell_of(v.container)) for n, v in graph.shared.items()}
        where = {v: sharding.restored() for v, sharding in graph.shardings.items()}
        ends = graph.inputs, graph.outputs
        super().__init__(*ends, kept, updates, options, callbacks, shardings=where)
        self.__signature__ = signature(graph.names, graph.defaults)
        self._names = list(self.__signature__.parameters)
        self._defaults = {self._names[i]: value for i, value in graph.defaults.items()}

    def __reduce__(self) -> Any:
        return stamped(StatefulFunction, *self._made_of)

    def __repr__(self) -> str:
        kept = ", ".join(self.kept) or "nothing"
        name = f"{self.__name__}{self.__signature__}"
        return visible(f"<jaxprgen function {name} that keeps {kept}>", None)

    def __call__(self, *args: Any, **named: Any) -> Any:
        """Run on arguments, and update the shared variables."""
        return self._rebuild(self.run(self._arguments(args, named)))

    def pure(
        self, state: Mapping[str, Any], *args: Any, **named: Any
    ) -> tuple[Any, dict[str, Any]]:
        """Return the outputs, and the state after a call that begins with ``state``.

        Nothing else is read or changed, so JAX may transform this method.

        Parameters
        ----------
        state : dict from str to array
            The values of the shared variables, as `state` returns them.
        *args, **named
            The arguments of the call.

        Returns
        -------
        tuple
            What a call returns, and the new state.

        Raises
        ------
        StateError
            The state is not that of this function.
        """
        outputs, new = self.after(state, self._arguments(args, named))
        return self._rebuild(outputs), new

    def _arguments(self, args: Sequence[Any], named: dict[str, Any]) -> Sequence[Any]:
        return in_order(self, self._names, args, named, self._defaults)
