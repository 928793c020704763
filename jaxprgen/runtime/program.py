"""A graph as a program that keeps values from call to call."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping, Sequence
from typing import Any

import jax
from aesara.graph.basic import Variable
from jax.experimental import checkify

from jaxprgen import _jax
from jaxprgen._jax import ClosedJaxpr
from jaxprgen.aesara.plan import plan_of
from jaxprgen.errors import StateError, of_check
from jaxprgen.runtime.cells import Cell
from jaxprgen.runtime.compiled import CompiledFunction, jaxpr_as_fun
from jaxprgen.runtime.options import Options


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
        donated = [i for i, n in enumerate(read) if n in updates]
        self.compiled = CompiledFunction(plan, options, seconds)
        self._checked: dict[int, tuple[ClosedJaxpr, Any]] | None = {} if options.checks else None
        self._donating = (
            CompiledFunction(plan, options, seconds, donated)
            if donated and not options.checks
            else self.compiled
        )
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
        """What the program gives; what its checks find is raised."""
        if self._checked is None:
            return self._donating.results(*operands)
        closed = self.compiled.jaxpr(*operands)
        if id(closed) not in self._checked:
            self._checked[id(closed)] = closed, _checking(closed, self._options)
        _, run = self._checked[id(closed)]
        error, results = run(*self.compiled.accepted(operands))
        found = error.get()
        if found is not None:
            raise of_check(found)
        return results

    def pure(
        self, state: Mapping[str, Any], operands: Sequence[Any]
    ) -> tuple[list[Any], dict[str, Any]]:
        """The outputs for arguments and a state, and the new state; nothing is written."""
        if set(state) != set(self._read):
            own, given = (", ".join(map(str, names)) or "nothing" for names in (self._read, state))
            raise StateError(f"The state of {self._name} is of {own}, not of {given}.")
        results = self.compiled.results(*(state[n] for n in self._read), *operands)
        new = dict(zip(self._updated, results[self._count :], strict=True))
        return results[: self._count], {**state, **new}

    def state(self) -> dict[str, Any]:
        """The values of the cells now, by name."""
        with self._lock:
            return {n: jax.numpy.copy(cell.read()) for n, cell in self._cells.items()}


def _checking(closed: ClosedJaxpr, options: Options) -> Any:
    """A program as a function that returns what its checks find beside its results."""
    return options.jit(checkify.checkify(jaxpr_as_fun(closed), errors=checkify.user_checks))
