"""Debugging by value: the function that a user calls, and what it does with what is found."""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator, Mapping, Sequence
from typing import Any, TypeAlias

import jax

from jaxprgen import _jax
from jaxprgen._jax import ClosedJaxpr, Frame
from jaxprgen.errors import ArgumentCountError, ArgumentTypeError, UnknownNameError
from jaxprgen.runtime.compiled import CompiledFunction
from jaxprgen.tools.debugging.finding import KINDS, Finding, error_of
from jaxprgen.tools.debugging.run import Moment, Run, Subject

Watch: TypeAlias = Mapping[str, Callable[[Moment], object]]


def debug(
    f: CompiledFunction | ClosedJaxpr | Callable[..., Any],
    *,
    stop: bool = True,
    find: str | Collection[str] = KINDS,
    watch: Watch | None = None,
    breakpoints: str | Collection[str] = (),
) -> Debugger:
    """A function that computes what ``f`` does, one equation after the other, and looks at values.

    What it looks for is where trouble is born: a node of the graph whose inputs are free of NaN
    and whose result is not, and inside it the first such equation. So what follows from a NaN is
    not found again, nor is one that a node's own implementation masks. For infinities likewise;
    one that is passed as an argument, or is a constant, is meant. An argument, a shared variable
    or a constant that holds a NaN is found first. Where there is no graph, each equation is a
    node; of a loop's iterations, the first that has it counts.

    Parameters
    ----------
    f
        A compiled function, a program, or any function that JAX can trace: ``debug(jax.grad(f))``
        finds what goes wrong in a gradient.
    stop
        Whether to raise an error at the first finding. Else all are in `Debugger.findings`.
    find
        What to look for: "nan"; "inf"; "index", an index outside of its axis; "check", an
        assertion or another check of a function compiled with ``checks=True`` that fails.
    watch
        Functions that are called with a `Moment` when the variable of that name is computed:
        a user's name, or one that `jaxprgen.pretty` shows.
    breakpoints
        Names of variables at which Python's `breakpoint` is called, with ``name``, ``value``,
        ``values`` and ``frame`` of the moment at hand.

    Raises
    ------
    UnknownNameError
        What to look for is none of these kinds.
    """
    find, breakpoints = _several(find), _several(breakpoints)
    unknown = [kind for kind in find if kind not in KINDS]
    if unknown:
        raise UnknownNameError(
            f"find takes {', '.join(map(repr, KINDS))}, not {', '.join(map(repr, unknown))}."
        )
    given: Any = watch
    if given is not None and not isinstance(given, Mapping):
        raise ArgumentTypeError(
            f"watch maps names of variables to functions, and is {type(watch).__name__}."
        )
    return Debugger(f, stop, find, watch or {}, breakpoints)


def _several(names: str | Collection[str]) -> Collection[str]:
    return (names,) if isinstance(names, str) else names


class Debugger:
    """What `debug` makes.

    Attributes
    ----------
    findings
        What the last call found, in the order of computing.
    """

    def __init__(
        self, f: Any, stop: bool, find: Collection[str], watch: Watch, breakpoints: Collection[str]
    ) -> None:
        self._f, self._stop, self._find = f, stop, find
        self._watch, self._breakpoints = watch, breakpoints
        self.findings: tuple[Finding, ...] = ()

    def __call__(self, *args: Any) -> Any:
        """What the function returns for these arguments, which must be concrete.

        Raises
        ------
        NonFiniteValueError, IndexOutOfBoundsError, FailedAssertionError
            The first finding, unless ``stop`` is off.
        UnknownNameError
            A variable to watch or to stop at is not there.
        ArgumentTypeError
            An argument has no value.
        """
        steps = self.steps(*args)
        while True:
            try:
                next(steps)
            except StopIteration as end:
                return end.value

    def steps(self, *args: Any) -> Generator[Moment, None, Any]:
        """The same, one value at a time."""
        self.findings = ()
        run = Run(_subject(self._f, args), self._find, {*self._watch, *self._breakpoints})
        for event in run.events():
            if isinstance(event, Finding):
                self.findings += (event,)
                if self._stop:
                    raise error_of(event)
                continue
            if event.name in self._watch:
                self._watch[event.name](event)
            if event.name in self._breakpoints:
                _break(event.name, event.value, event.values, event.frame)
            yield event
        return run.outputs()


def _break(name: str, value: Any, values: Mapping[str, Any], frame: Frame | None) -> None:
    """Hand over to the user's debugger, which shows this function's arguments."""
    breakpoint()


def _subject(f: Any, args: Sequence[Any]) -> Subject:
    flat = jax.tree.leaves(args)
    for x in flat:
        if isinstance(x, (_jax.Tracer, jax.ShapeDtypeStruct)):
            raise ArgumentTypeError(
                f"A debugger looks at values, but was given a {type(x).__name__}, which has none.\n"
                "Call it with arrays, outside of JAX's transformations; to debug what one of these "
                "makes of f, debug that: jaxprgen.debug(jax.grad(f))(x)."
            )
    if isinstance(f, CompiledFunction):
        seen = f.observe(*args)
        graph = (seen.names, seen.nodes, seen.labels, seen.frames, seen.values, seen.inputs)
        return Subject(seen.closed_jaxpr, args, _one_or_tuple, *graph)
    if isinstance(f, ClosedJaxpr):
        if len(args) != len(f.in_avals):
            counts = f"{len(f.in_avals)} arguments, not {len(args)}"
            raise ArgumentCountError(f"The jaxpr takes {counts}.")
        return Subject(f, args, list)
    closed, shapes = jax.make_jaxpr(f, return_shape=True)(*args)
    structure = jax.tree.structure(shapes)
    return Subject(closed, flat, structure.unflatten)


def _one_or_tuple(outputs: list[Any]) -> Any:
    return outputs[0] if len(outputs) == 1 else tuple(outputs)
