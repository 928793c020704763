"""`function`: a graph as a function that keeps the values of its shared variables up to date."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

from jaxprgen.aesara.state import Pairs, StatefulGraph, stateful_graph
from jaxprgen.errors import ArgumentCountError
from jaxprgen.passes import DEFAULT, Pass
from jaxprgen.runtime.cells import Cell
from jaxprgen.runtime.compiled import CompiledFunction, calls_back
from jaxprgen.runtime.options import CompilerOption, Options, options_of
from jaxprgen.runtime.program import StatefulProgram
from jaxprgen.runtime.specialize import signature


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
    passes: Sequence[Pass] = DEFAULT,
    compiler_options: Mapping[str, CompilerOption] | None = None,
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
    checks
        Make Aesara's run-time checks: what fails one raises, and updates nothing. For `pure`, as
        for `jaxprgen.compile`.
    fallback, passes, compiler_options
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
    options = options_of(name, checks, passes, compiler_options)
    return StatefulFunction(graph, rebuild, options, calls_back(fallback))


def _flattened(outputs: Any) -> tuple[list[Any], Callable[[list[Any]], Any]]:
    """The outputs in order, and what makes of their values what was asked for."""
    if outputs is None:
        return [], lambda values: None
    if isinstance(outputs, Mapping):
        return list(outputs.values()), lambda values: dict(zip(outputs, values, strict=True))
    if isinstance(outputs, (list, tuple)):
        return list(outputs), lambda values: values
    return [outputs], lambda values: values[0]


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
