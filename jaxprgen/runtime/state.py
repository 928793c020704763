"""Functions that keep values from call to call, in storage that the library's functions share."""

from __future__ import annotations

import inspect
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from jax.sharding import NamedSharding

from jaxprgen import _jax
from jaxprgen.arguments.accept import in_order, wrong_count
from jaxprgen.arguments.inputs import KEY, signature
from jaxprgen.arguments.sparse import scipy_matrix
from jaxprgen.errors import StateError
from jaxprgen.graphs.cells import Cell, Locks, cell_of, write_all
from jaxprgen.graphs.generators import drawn_key
from jaxprgen.graphs.library import is_sparse
from jaxprgen.graphs.plan import plan_of
from jaxprgen.graphs.state import StatefulGraph
from jaxprgen.lowering.names import Variable
from jaxprgen.lowering.portable import stamped
from jaxprgen.runtime.announcements import FixedValues
from jaxprgen.runtime.compiled import CompiledFunction
from jaxprgen.runtime.program import Options, as_listed
from jaxprgen.runtime.shardings import require_arguments
from jaxprgen.texts import visible


class StatefulFunction:
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
        self,
        graph: StatefulGraph,
        rebuild: Callable[[list[Any]], Any],
        options: Options,
        callbacks: bool,
    ) -> None:
        self.__name__ = self.__qualname__ = options.name
        self._rebuild = rebuild
        self._made_of = graph, rebuild, options, callbacks
        kept = {n: (v, cell_of(v.container)) for n, v in graph.shared.items() if not is_sparse(v)}
        updates = {n: graph.updates[v] for n, v in graph.shared.items() if v in graph.updates}
        matrices = {n: (graph.shared[n], updates.pop(n)) for n in [*updates] if n not in kept}
        self._program = StatefulProgram(
            graph.inputs,
            graph.outputs,
            kept,
            updates,
            options,
            callbacks,
            shardings={v: sharding.restored() for v, sharding in graph.shardings.items()},
            matrices={n: (v.container, new) for n, (v, new) in matrices.items()},
        )
        self.__signature__ = _signature(graph.names, graph.defaults)
        self._names = list(self.__signature__.parameters)
        self._defaults = {self._names[i]: value for i, value in graph.defaults.items()}

    def __reduce__(self) -> Any:
        return stamped(StatefulFunction, *self._made_of)

    def __repr__(self) -> str:
        kept = ", ".join(self._program.kept) or "nothing"
        return visible(
            f"<jaxprgen function {self.__name__}{self.__signature__} that keeps {kept}>", None
        )

    def __call__(self, *args: Any, **named: Any) -> Any:
        """Run on arguments, and update the shared variables."""
        return self._rebuild(self._program(self._arguments(args, named)))

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
        outputs, new = self._program.pure(state, self._arguments(args, named))
        return self._rebuild(outputs), new

    def state(self) -> dict[str, Any]:
        """Return the current values of the shared variables by name; keys for generators."""
        return self._program.state()

    @property
    def compiled(self) -> CompiledFunction:
        """The JAX function behind this one, of the state in order and then of the arguments."""
        return self._program.compiled

    def _arguments(self, args: Sequence[Any], named: dict[str, Any]) -> Sequence[Any]:
        operands = in_order(self, self._names, args, named, self._defaults)
        if len(operands) != len(self._names):
            raise wrong_count(repr(self), len(self._names), len(operands))
        return operands


def _signature(names: Sequence[str], defaults: Mapping[int, Any]) -> inspect.Signature:
    """Return the signature, where Python allows it: all arguments after a default have one."""
    first = min(defaults, default=len(names))
    parameters = signature(names).parameters.values()
    return inspect.Signature(
        [p.replace(default=defaults.get(i)) if i >= first else p for i, p in enumerate(parameters)]
    )


class StatefulProgram:
    """A graph as a function that reads the values of shared variables and writes some of them.

    Parameters
    ----------
    inputs, outputs
        The variables of arguments and results.
    kept
        The shared variables and their values, by name.
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
    matrices
        The containers of sparse matrices that are updated, and their new values, by name. Their
        containers hold SciPy's matrices: the number of entries changes from call to call.

    Raises
    ------
    StateError
        A call updates something inside a function that JAX transforms.
    JaxprGenError
        A call fails a check; the class is that of the check. Nothing is updated.
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
        matrices: Mapping[str, tuple[Any, Variable]] | None = None,
    ) -> None:
        start = time.perf_counter()
        self._name = options.name
        self._shared = {n: shared for n, (_, shared) in kept.items()}
        read = {n: v for n, (v, _) in kept.items() if v not in (fixed or {})}
        self._read = {n: self._shared[n] for n in read}
        self._updated = [n for n in kept if n in updates]
        self._count = len(outputs)
        self._matrices = {n: container for n, (container, _) in (matrices or {}).items()}
        outputs = [*outputs, *(new for _, new in (matrices or {}).values())]
        self._where = {n: found for n, v in read.items() if (found := (shardings or {}).get(v))}
        carried = {
            len(outputs) + i: list(read).index(n) for i, n in enumerate(self._updated) if n in read
        }
        plan = plan_of(
            [*read.values(), *inputs],
            [*outputs, *(updates[n] for n in self._updated)],
            callbacks=callbacks,
            states=True,
            fixed=fixed,
            shardings=shardings,
            carried=carried,
        )
        is_data = [n not in updates and plan.inputs[i].dtype is not KEY for i, n in enumerate(read)]
        plan = replace(plan, data=[i for i, found in enumerate(is_data) if found])
        seconds = time.perf_counter() - start
        if self._matrices and options.parts_from is None:
            options = options._replace(parts_from=self._count)
        self.compiled = CompiledFunction(plan, options, seconds)
        self._called = self.compiled if called is None else CompiledFunction(plan, called, seconds)
        self._keys = plan.keys
        of_matrices = map(cell_of, self._matrices.values())
        self._locks = Locks([*self._shared.values(), *of_matrices])
        remedy = f"To pass them as arguments, call {options.name}.pure(state, ...)."
        self._fixed = FixedValues(options.name, list(read), remedy)

    @property
    def kept(self) -> list[str]:
        """The names of the shared variables."""
        return [*self._shared, *self._matrices]

    def __call__(self, operands: Sequence[Any]) -> list[Any]:
        """Return the outputs for arguments, and write the updates."""
        clean = _jax.trace_state_clean() and not any(isinstance(x, _jax.Tracer) for x in operands)
        if (self._matrices or self._keys) and not clean:
            raise self._cannot_transform()
        if self._updated and not clean:
            raise StateError(
                f"{self._name} updates {', '.join(self._updated)}, which is not possible inside a "
                "function that JAX transforms.\n"
                f"Call outputs, state = {self._name}.pure(state, ...) there, and start with the "
                f"state that {self._name}.state() returns."
            )
        compiled = self._called if clean else self.compiled
        operands = [*operands, *(drawn_key() for _ in range(self._keys))]
        if not self._shared and not self._matrices:
            return as_listed(compiled.run(operands))
        with self._locks:  # From reading to writing: no other function updates in between.
            cells = [self._shared[n] for n in self._updated]
            # Values that are copied to the host can be lost on the way.
            reuses = _jax.runs_now() and not any(cell.is_in_use for cell in cells)
            arguments = [*self._state(reuses), *operands]
            old = [cell.value for cell in cells]
            found: list[Any] = []
            try:
                results = compiled.run(arguments, found if reuses else None)
                return self._with_updates(cells, old, results)
            except BaseException:
                if found:  # The program has run, and the old values are gone.
                    self._with_updates(cells, old, found[0])
                raise

    def _with_updates(self, cells: Sequence[Cell], old: Sequence[Any], results: Any) -> list[Any]:
        """Write the updates among the results of a program, and return its outputs."""
        results, end = as_listed(results), self._count + len(self._matrices)
        # All are copied before one is written: an error or an interrupt changes nothing.
        given = zip(cells, old, results[end:], strict=True)
        updates = [cell.update(before, new) for cell, before, new in given]
        written = zip(self._matrices.values(), results[self._count : end], strict=True)
        matrices = [(c.storage, scipy_matrix(parts, c.type)) for c, parts in written]
        write_all(updates)
        for storage, matrix in matrices:
            storage[0] = matrix
        return results[: self._count]

    def _cannot_transform(self) -> StateError:
        if self._keys:
            return StateError(
                f"{self._name} draws from NumPy's global generator, which JAX cannot transform.\n"
                "Draw from a generator of aesara.tensor.random, or compile the graph by "
                "jaxprgen.compile, which takes a key."
            )
        return StateError(
            f"{self._name} updates {', '.join(self._matrices)}: how many entries a sparse matrix "
            "stores follows from values, so JAX cannot transform this function.\n"
            "Update a shared vector of the entries instead, and make the matrix of it by CSM."
        )

    def _state(self, reuses: bool) -> list[Any]:
        """Return the values on the device; with ``reuses``, updated ones in memory of their own."""
        self._place()
        if not _jax.runs_now():
            data = ((n, cell.value, self._fixed.remedy) for n, cell in self._read.items())
            require_arguments(self._name, data)
            self._fixed.warn()
            return [cell.lease() for cell in self._read.values()]
        updated = self._updated if reuses else ()
        return [cell.give() if n in updated else cell.read() for n, cell in self._read.items()]

    def _place(self) -> None:
        """Put the values where the user wants them to live."""
        for n, sharding in self._where.items():
            self._shared[n].place(sharding, n)

    def pure(
        self, state: Mapping[str, Any], operands: Sequence[Any]
    ) -> tuple[list[Any], dict[str, Any]]:
        """Return the outputs for arguments and a state, and the new state; write nothing."""
        if self._matrices or self._keys:
            raise self._cannot_transform()
        if set(state) != set(self._read):
            own, given = (", ".join(map(str, names)) or "nothing" for names in (self._read, state))
            raise StateError(
                f"The state of {self._name} must have the entries {own}, but has {given}."
            )
        held = [state[n] for n in self._read]
        results = as_listed(self.compiled.run([*held, *operands]))
        new = dict(zip(self._updated, results[self._count :], strict=True))
        return results[: self._count], {**state, **new}

    def state(self) -> dict[str, Any]:
        """Return the current values, by name."""
        with self._locks:
            self._place()
            return {n: cell.lease() for n, cell in self._shared.items()}
