"""Evaluate programs equation by equation, on values of any kind.

`Evaluator` computes with arrays, and evaluates each equation by its primitive. A subclass overrides
a few methods to compute with other values, to give primitives other meanings, or to observe every
equation:

>>> class Counting(Evaluator):
...     count = 0
...
...     def apply(self, site, operands):
...         self.count += 1
...         return super().apply(site, operands)

Programs inside equations (calls, branches, loops, functions with custom derivatives) are entered as
`jaxprgen.ir.inner` describes. So the equations inside are evaluated one by one, too.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Collection, Generator, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, NamedTuple, TypeAlias, TypeVar

import jax
import numpy as np

from jaxprgen import _jax
from jaxprgen._jax import ClosedJaxpr, Jaxpr, JaxprEqn, Var
from jaxprgen.errors import InterpretationError
from jaxprgen.ir import primitives as lax
from jaxprgen.ir.builder import Builder
from jaxprgen.ir.inner import Kind, holder_of, inner_programs
from jaxprgen.ir.programs import parts

T = TypeVar("T")
ENTERED: Collection[Kind] = ("call", "cond", "scan", "while")
"""The kinds of equations that are entered by default."""

UNDECIDED = 1000
"""How many steps a loop may take while its condition is undecided."""


class Inside(NamedTuple):
    """An equation whose inner program is running; loops count their iterations from 0."""

    eqn: JaxprEqn
    iteration: int | None


class Site(NamedTuple):
    """An equation that is being evaluated, and the equations around it, the outermost first."""

    eqn: JaxprEqn
    within: tuple[Inside, ...]

    def inside(self, iteration: int | None = None) -> tuple[Inside, ...]:
        """Return the equations around those of a program inside this one, outermost first."""
        return (*self.within, Inside(self.eqn, iteration))


class Evaluated(NamedTuple):
    """An equation that has been evaluated.

    Attributes
    ----------
    eqn : JaxprEqn
        The equation.
    operands, results : list
        A value for each of its operands and results.
    within : tuple of Inside
        The equations around it, the outermost first.
    entered : bool
        Whether the equations of a program inside it were evaluated one by one, before it.
    """

    eqn: JaxprEqn
    operands: list[Any]
    results: list[Any]
    within: tuple[Inside, ...]
    entered: bool


Evaluation: TypeAlias = Generator[Evaluated, None, list[Any]]
"""Yields every equation once it is evaluated, and returns the outputs of the program."""


def outcome(steps: Generator[object, None, T]) -> T:
    """Run a generator to its end, and return what it returns."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            return end.value


class Evaluator:
    """Runs programs equation by equation.

    Parameters
    ----------
    entered : collection of str
        The kinds of equations (`jaxprgen.ir.inner.Kind`) whose programs are evaluated by equation,
        too. Any other equation is evaluated by `apply`. ``()`` enters none.
    """

    def __init__(self, entered: Collection[Kind] = ENTERED) -> None:
        self.entered = entered

    # --- Running -------------------------------------------------------------------------

    def run(
        self,
        program: ClosedJaxpr | Jaxpr,
        operands: Sequence[Any],
        within: tuple[Inside, ...] = (),
    ) -> list[Any]:
        """Return the outputs of a program, one value for each.

        Parameters
        ----------
        program : ClosedJaxpr or Jaxpr
            The program.
        operands : sequence
            A value for each input.
        within : tuple of Inside
            The equations whose inner program this is, the outermost first.
        """
        return outcome(self.steps(program, operands, within))

    def steps(
        self,
        program: ClosedJaxpr | Jaxpr,
        operands: Sequence[Any],
        within: tuple[Inside, ...] = (),
    ) -> Evaluation:
        """Run a program, and yield each equation once it is evaluated; takes what `run` takes."""
        closed = _jax.close(program)
        jaxpr = closed.jaxpr
        values = dict[Any, Any](zip(jaxpr.invars, operands, strict=True))
        for v, x in zip(jaxpr.constvars, closed.consts, strict=True):
            values[v] = self.lift(x, v.aval)

        def read(x: Any) -> Any:
            return values[x] if type(x) is Var else self.lift(x.val, x.aval)

        for eqn in jaxpr.eqns:
            site, inputs = Site(eqn, within), [read(x) for x in eqn.invars]
            entered = self.enters(eqn)
            with self.guard(site):
                if entered:
                    results = yield from self.enter(site, inputs)
                else:
                    results = self.apply(site, inputs)
            values.update(zip(eqn.outvars, results, strict=True))
            yield Evaluated(eqn, inputs, results, within, entered)
        return [read(x) for x in jaxpr.outvars]

    # --- What subclasses override --------------------------------------------------------

    def lift(self, x: Any, aval: Any) -> Any:
        """Return the value of a constant or a literal of this type: here, an array.

        ``x`` may be a Python scalar.
        """
        return x if hasattr(x, "dtype") else np.asarray(x, aval.dtype)

    def apply(self, site: Site, operands: list[Any]) -> list[Any]:
        """Return the results of an equation that is not entered: here, those of its primitive.

        The equation is evaluated outside any current trace, and NaN is allowed even under
        ``jax_debug_nans``.
        """
        return _jax.eval_eqn(site.eqn, operands)

    def enters(self, eqn: JaxprEqn) -> bool:
        """Return whether the program inside an equation is evaluated by equation."""
        holder = holder_of(eqn)
        return holder is not None and holder.kind in self.entered

    def guard(self, site: Site) -> AbstractContextManager[Any]:
        """Return a context manager for the evaluation of an equation, such as one that adds the
        equation's location to errors."""
        return nullcontext()

    def choices(self, x: Any) -> Sequence[int]:
        """Return the possible values of a scalar that selects a branch or is a loop's condition.

        False and true are 0 and 1. If there are several, each one is followed, and `join` combines
        the results.
        """
        return (int(x),)

    def join(self, first: Any, second: Any) -> Any:
        """Return a value that covers two possible results, if `choices` returned several."""
        raise InterpretationError(
            "A branch or a loop depends on an undecided value.\n"
            "Define join(first, second), which returns a value that covers both possible results."
        )

    def slice(self, site: Site, x: Any, aval: Any, index: int, iteration: int) -> Any:
        """Return one slice along the first axis of an operand of a ``scan``, of type ``aval``."""
        with _jax.eval_context():
            return x[index]

    def stack(self, site: Site, slices: Sequence[Any], aval: Any) -> Any:
        """Return the result of a ``scan``, of type ``aval``, from its slices."""
        with _jax.eval_context():
            return jax.numpy.stack(slices)

    # --- Programs inside equations ---------------------------------------------------------

    def enter(self, site: Site, operands: list[Any]) -> Evaluation:
        """Evaluate an equation by the equations of its programs."""
        holder = holder_of(site.eqn)
        assert holder is not None
        if holder.kind == "call":
            (called,) = holder.find(site.eqn)
            given = [operands[i] for i in called.operands]
            return (yield from self.steps(called.program, given, site.inside()))
        enter = {"cond": self._cond, "while": self._while, "scan": self._scan}[holder.kind]
        return (yield from enter(site, operands))

    def _cond(self, site: Site, operands: list[Any]) -> Evaluation:
        which, *rest = operands
        branches = [inner.program for inner in inner_programs(site.eqn)]
        taken = sorted({min(max(i, 0), len(branches) - 1) for i in self.choices(which)})
        found = yield from self.steps(branches[taken[0]], rest, site.inside())
        for i in taken[1:]:
            other = yield from self.steps(branches[i], rest, site.inside())
            found = self._joined([found, other])
        return found

    def _while(self, site: Site, operands: list[Any]) -> Evaluation:
        loop = while_parts(site.eqn, operands)
        carry, ends, undecided = loop.carry, list[list[Any]](), 0
        for i in itertools.count():
            within = site.inside(i)
            given = [*loop.condition_constants, *carry]
            (goes_on,) = yield from self.steps(loop.condition, given, within)
            choices = self.choices(goes_on)
            if 0 in choices:
                ends = [self._joined([*ends, carry])]
            if not any(choices):
                break
            undecided += len(choices) > 1
            if undecided > UNDECIDED:
                raise InterpretationError(
                    f"The condition of this loop is still undecided after {UNDECIDED} iterations."
                    "\nLimit the number of iterations, for example with lax.fori_loop."
                )
            carry = yield from self.steps(loop.body, [*loop.body_constants, *carry], within)
        return ends[0]

    def _scan(self, site: Site, operands: list[Any]) -> Evaluation:
        eqn = site.eqn
        constants, carry, arrays = parts(operands, *_jax.scan_counts(eqn))
        carry_count, length = len(carry), eqn.params["length"]
        types: list[Any] = [v.aval for v in eqn.outvars[carry_count:]]
        if not length:
            return [*carry, *(self.lift(np.empty(t.shape, t.dtype), t) for t in types)]
        of_arrays = [x.aval for x in eqn.invars[len(operands) - len(arrays) :]]
        slices: list[list[Any]] = [[]] * length
        for i in range(length):
            index = length - 1 - i if eqn.params["reverse"] else i
            given = [
                self.slice(site, x, aval, index, i)
                for x, aval in zip(arrays, of_arrays, strict=True)
            ]
            outputs = yield from self.steps(
                eqn.params["jaxpr"], [*constants, *carry, *given], site.inside(i)
            )
            carry, slices[index] = outputs[:carry_count], outputs[carry_count:]
        columns = zip(*slices, strict=True)
        return [*carry, *(self.stack(site, x, t) for x, t in zip(columns, types, strict=True))]

    def _joined(self, results: Sequence[list[Any]]) -> list[Any]:
        return [functools.reduce(self.join, column) for column in zip(*results, strict=True)]


def is_batched(eqn: JaxprEqn) -> bool:
    """Return whether a ``while`` has one condition per lane, as under `jax.vmap`."""
    return bool(_jax.close(eqn.params["cond_jaxpr"]).out_avals[0].shape)


class WhileParts(NamedTuple):
    """The programs of a ``while``, and its operands by role.

    ``condition`` takes ``condition_constants`` and the carry, and returns a scalar. ``body`` takes
    ``body_constants`` and the carry, and returns the next carry.
    """

    condition: ClosedJaxpr
    body: ClosedJaxpr
    condition_constants: list[Any]
    body_constants: list[Any]
    carry: list[Any]


def while_parts(eqn: JaxprEqn, operands: Sequence[Any]) -> WhileParts:
    """Return the parts of a ``while``.

    A loop with one condition per lane is replaced by an equivalent loop with a single condition.
    """
    test, step = inner_programs(eqn)
    condition, body = _jax.close(test.program), _jax.close(step.program)
    of_test = len(test.operands) - len(step.results)
    first = len(operands) - len(step.results)
    of_body = of_test
    if is_batched(eqn):
        condition, body = _for_all_lanes(condition, body, of_test)
        of_body = 0
    xs = list(operands)
    return WhileParts(condition, body, xs[:of_test], xs[of_body:first], xs[first:])


def _for_all_lanes(
    test: ClosedJaxpr, body: ClosedJaxpr, of_test: int
) -> tuple[ClosedJaxpr, ClosedJaxpr]:
    """Return the condition and the body of an equivalent loop with one condition for all lanes.

    The loop continues while any lane does. The body also takes the constants of the condition, and
    does not change lanes that are done.
    """
    b = Builder(test.in_avals)
    (goes_on,) = b.inline(test, b.inputs)
    any_goes_on = b.build([lax.reduce_or(b, goes_on, range(len(goes_on.aval.shape)))])

    b = Builder([*test.in_avals[:of_test], *body.in_avals])
    carries = len(body.out_avals)
    carry = list(b.inputs[len(b.inputs) - carries :])
    (goes_on,) = b.inline(test, [*b.inputs[:of_test], *carry])
    pairs = zip(carry, b.inline(body, list(b.inputs[of_test:])), strict=True)
    lanes = range(len(goes_on.aval.shape))
    chosen = [
        lax.select_n(b, lax.broadcast_in_dim(b, goes_on, old.aval.shape, lanes), old, new)
        for old, new in pairs
    ]
    return any_goes_on, b.build(chosen)
