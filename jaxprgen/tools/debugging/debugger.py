"""The function that a user calls, and what the debugger does with the values and findings."""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator, Mapping, Sequence
from typing import Any, TypeAlias

import jax

from jaxprgen import _jax
from jaxprgen._jax import ClosedJaxpr, Frame
from jaxprgen.arguments.accept import wrong_count
from jaxprgen.errors import ArgumentTypeError, UnknownNameError
from jaxprgen.ir.evaluate import outcome
from jaxprgen.runtime.compiled import CompiledFunction
from jaxprgen.runtime.observe import Observable
from jaxprgen.tools.debugging.findings import KINDS, Finding
from jaxprgen.tools.debugging.run import ComputedValue, Debuggee, Run

Watch: TypeAlias = Mapping[str, Callable[[ComputedValue], object]]


def debug(
    f: CompiledFunction | ClosedJaxpr | Callable[..., Any],
    *,
    stop: bool = True,
    find: str | Collection[str] = KINDS,
    allow: str | Collection[str] = (),
    watch: Watch | None = None,
    breakpoints: str | Collection[str] = (),
) -> Debugger:
    """Return a function that computes ``f`` equation by equation and checks every value.

    A finding is the *origin* of a wrong value: a graph node whose inputs contain no NaN and whose
    result does, and in that node the first such equation. Later nodes that only propagate the NaN
    are not reported, nor is a NaN that the node itself masks. The same holds for infinities,
    except that an infinite argument or constant is taken as intended. An argument, a shared
    variable or a constant that contains a NaN is reported first, unless ``allow`` has its name.
    Without a graph, each equation counts as a node. A node in a loop is reported for its first bad
    iteration.

    If a result is NaN in the end, products of a zero and a NaN that was given or allowed are
    reported, too. This is where the gradient of a model with masked data breaks: the gradient is
    zero where the data are masked, and is multiplied there by a derivative that is NaN.

    Parameters
    ----------
    f
        A compiled function, a program, or any function that JAX can trace:
        ``debug(jax.grad(f))`` finds what goes wrong in a gradient.
    stop
        Raise an error at the first finding. Otherwise collect all in `Debugger.findings`.
    find
        The kinds of findings to look for: "nan"; "inf"; "index", an index out of bounds; "check",
        a failed assertion or other check of a function compiled with ``checks=True``.
    allow
        Names of variables whose NaN and infinities are intended, such as data with missing values.
    watch
        Functions to call with a `ComputedValue` when the variable of that name is computed. Names
        are the user's, or those that `jaxprgen.pretty` shows.
    breakpoints
        Names of variables at which to call Python's `breakpoint`, which finds ``name``, ``value``,
        ``values`` and ``frame`` among its local variables, as `ComputedValue` describes them.

    Returns
    -------
    Debugger
        A function of the arguments of ``f``, which must be concrete.

    Raises
    ------
    UnknownNameError
        ``find`` contains another kind.
    ArgumentTypeError
        ``watch`` is not a mapping.
    """
    several = ((x,) if isinstance(x, str) else x for x in (find, allow, breakpoints))
    find, allow, breakpoints = several
    unknown = [kind for kind in find if kind not in KINDS]
    if unknown:
        raise UnknownNameError(
            f"find takes {', '.join(map(repr, KINDS))}, not {', '.join(map(repr, unknown))}."
        )
    given: Any = watch
    if given is not None and not isinstance(given, Mapping):
        raise ArgumentTypeError(
            f"watch must map names of variables to functions, got {type(watch).__name__}."
        )
    return Debugger(f, stop, find, allow, watch or {}, breakpoints)


class Debugger:
    """The function that `debug` returns.

    Attributes
    ----------
    findings
        The findings of the last call, in the order of computation.
    """

    def __init__(
        self,
        f: Any,
        stop: bool,
        find: Collection[str],
        allow: Collection[str],
        watch: Watch,
        breakpoints: Collection[str],
    ) -> None:
        self._f, self._stop, self._find, self._allow = f, stop, find, allow
        self._watch, self._breakpoints = watch, breakpoints
        self.findings: tuple[Finding, ...] = ()

    def __call__(self, *args: Any, **named: Any) -> Any:
        """Return what the function returns for these arguments.

        Raises
        ------
        NonFiniteValueError, IndexOutOfBoundsError, FailedAssertionError
            The first finding, unless ``stop`` is off.
        UnknownNameError
            An allowed or watched variable or a breakpoint does not exist.
        ArgumentTypeError
            An argument is abstract.
        """
        return outcome(self.steps(*args, **named))

    def steps(self, *args: Any, **named: Any) -> Generator[ComputedValue, None, Any]:
        """Do the same as a generator that yields every value once it is computed."""
        self.findings = ()
        wanted = {*self._watch, *self._breakpoints}
        run = Run(_debuggee(self._f, args, named), self._find, set(self._allow), wanted)
        for event in run.events():
            if isinstance(event, Finding):
                self.findings += (event,)
                if self._stop:
                    raise event.error()
                continue
            if event.name in self._watch:
                self._watch[event.name](event)
            if event.name in self._breakpoints:
                _break(event.name, event.value, event.values, event.frame)
            yield event
        return run.result


def _break(name: str, value: Any, values: Mapping[str, Any], frame: Frame | None) -> None:
    """Call the user's debugger, which shows this function's parameters."""
    breakpoint()


def _debuggee(f: Any, args: Sequence[Any], named: Mapping[str, Any]) -> Debuggee:
    flat = jax.tree.leaves((args, named))
    for x in flat:
        if isinstance(x, (_jax.Tracer, jax.ShapeDtypeStruct)):
            raise ArgumentTypeError(
                f"debug needs concrete arguments, got a {type(x).__name__}.\nCall the debugger "
                "outside of JAX's transformations. To debug a transformed function, transform it "
                "first: jaxprgen.debug(jax.grad(f))(x)."
            )
    if isinstance(f, Observable):
        seen = f.observe(*args, **named)
        graph = (seen.names, seen.nodes, seen.labels, seen.frames, seen.values, seen.inputs)
        return Debuggee(seen.closed_jaxpr, f.accepted(args, named), f.arranged, *graph)
    if isinstance(f, ClosedJaxpr):
        if named or len(args) != len(f.in_avals):
            raise wrong_count("The jaxpr", len(f.in_avals), len(args))
        return Debuggee(f, args, list)
    closed, shapes = jax.make_jaxpr(f, return_shape=True)(*args, **named)
    structure = jax.tree.structure(shapes)
    return Debuggee(closed, flat, structure.unflatten)
