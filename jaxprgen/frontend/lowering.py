"""The driver: lowers the steps of a plan one after the other.

Everything that rules share happens here, once: evaluating what is known, checking what a rule
returns, putting the place in the graph on an error.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from jaxprgen import _jax
from jaxprgen._jax import Var
from jaxprgen.emit import elementwise as ew
from jaxprgen.emit.check import check
from jaxprgen.emit.values import Array, Broadcast, Value, dtype_of, known, shape_of
from jaxprgen.errors import JaxprGenError, LoweringError
from jaxprgen.frontend.context import FOLD_LIMIT, RuleContext
from jaxprgen.frontend.graph import OutputType, Plan, Step
from jaxprgen.ir import Builder


class ValueNeededError(Exception):
    """Lowering cannot go on without the values of some inputs; caught by the specializer."""

    def __init__(self, inputs: Sequence[int], where: str) -> None:
        super().__init__(where)
        self.inputs = tuple(inputs)
        self.where = where


class Event(NamedTuple):
    """What happened to one node: evaluated or lowered, equations appended, seconds taken."""

    node: Any
    folded: bool
    equations: int
    seconds: float


class Lowering:
    """One run of a plan into a builder.

    Parameters
    ----------
    plan
        What to lower.
    builder
        Where to; its inputs are the program's arguments, one per input of the plan.
    shared
        The current value of every shared variable of the plan.
    values
        Inputs, by position, whose values are known because a shape depends on them.
    checks
        Whether run-time checks become equations (for `jax.experimental.checkify`).
    announce
        Called with a node and a message for every run-time check that is left out.
    events
        A list that is told what happened to every node, or None.
    wide
        Whether outputs have the dtypes the graph declares, or 32 bits; by default as x64 says.
    """

    def __init__(
        self,
        plan: Plan,
        builder: Builder,
        shared: Sequence[Array],
        values: Mapping[int, Array],
        checks: bool,
        announce: Callable[[Any, str], None],
        events: list[Event] | None = None,
        wide: bool | None = None,
    ) -> None:
        self.plan = plan
        self.builder = builder
        self._checks = checks
        self._announce = announce
        self._events = events
        wide = _jax.x64_enabled() if wide is None else wide
        self._steps = plan.steps if wide else plan.narrow_steps
        self._producers: dict[int, Step] | None = None
        self._values: list[Any] = plan.values.copy()
        for position, (declared, place) in enumerate(
            zip(plan.inputs, plan.input_places, strict=True)
        ):
            self._values[place] = (
                values[position]
                if position in values
                else self._admit(builder.inputs[position], ew.canonical(declared.dtype))
            )
        for variable, value in zip(plan.shared, shared, strict=True):
            self._values[variable.place] = builder.constant(value)

    def _admit(self, x: Var, dtype: np.dtype[Any]) -> Value:
        """An argument as its input declares it: in that dtype, and strongly typed."""
        if x.aval.weak_type and x.aval.dtype == dtype:
            return ew.strengthen(self.builder, x)
        return ew.convert(self.builder, x, dtype)

    def run(self) -> list[Value]:
        """Lower every step; the values of the plan's outputs."""
        values, builder, library = self._values, self.builder, self.plan.library
        events = self._events
        for step in self._steps:
            node, rule, folds, inputs, outputs, types = step
            xs = [values[place] for place in inputs]
            start, before = (time.perf_counter(), len(builder)) if events is not None else (0.0, 0)
            try:
                if folds and (arrays := _known_and_small(xs)) is not None:
                    results: Any = library.evaluate(node, arrays)
                else:
                    results = rule(RuleContext(builder, step, self), *xs)
                if type(results) is not list:
                    results = [results]
                if len(results) != len(outputs):
                    raise LoweringError(
                        f"The rule returned {len(results)} values for {len(outputs)} outputs."
                    )
                for place, value, declared in zip(outputs, results, types):  # noqa: B905
                    values[place] = value if declared is None else _checked(value, declared)
                if events is not None:
                    seconds = time.perf_counter() - start
                    folded = len(builder) == before and all(map(_is_known, results))
                    events.append(Event(node, folded, len(builder) - before, seconds))
            except ValueNeededError:
                raise
            except JaxprGenError as error:
                if error.located:
                    raise
                raise error.at(library.describe(node, xs)) from error.__cause__
            except Exception as error:
                where = library.describe(node, xs)
                text = f"Lowering failed: {type(error).__name__}: {error}"
                raise LoweringError(text).at(where) from error
        return [values[place] for place in self.plan.output_places]

    # --- What rules ask for ---------------------------------------------------------------

    def static(self, step: Step, position: int) -> Array:
        """The value of a step's input; see `RuleContext.static`."""
        place = step.inputs[position]
        value = known(self._values[place])
        return self._derive(step, place) if value is None else value

    def _derive(self, asking: Step, target: int) -> Array:
        """Evaluate a variable that was emitted, not folded, from what is known before it."""
        if self._producers is None:
            self._producers = {place: step for step in self.plan.steps for place in step.outputs}
        order: list[Step] = []
        missing: set[int] = set()
        seen: set[int] = set()
        pending = [target]
        while pending:
            place = pending.pop()
            if place in seen or known(self._values[place]) is not None:
                continue
            seen.add(place)
            step = self._producers.get(place)
            if step is None:
                missing.add(place)
            else:
                order.append(step)
                pending.extend(step.inputs)
        if missing:
            places = self.plan.input_places
            where = self.plan.library.describe(
                asking.node, [self._values[place] for place in asking.inputs]
            )
            raise ValueNeededError([places.index(place) for place in sorted(missing)], where)
        found: dict[int, Any] = {}
        needed = set(map(id, order))
        for step in self.plan.steps:
            if id(step) in needed:
                inputs = [
                    found[p] if p in found else _as_known(self._values[p]) for p in step.inputs
                ]
                found.update(
                    zip(step.outputs, self.plan.library.evaluate(step.node, inputs), strict=True)
                )
        return found[target]

    def require(
        self, ctx: RuleContext, condition: Callable[[Builder], Value], message: str
    ) -> None:
        """A run-time check; see `RuleContext.require`."""
        if self._checks:
            check(ctx.builder, condition(ctx.builder), message)
        else:
            self._announce(ctx.node, message)


def fold_constants(plan: Plan) -> Plan:
    """The plan without the steps whose results follow from constants alone.

    What they give is the same for every kind of arguments; a step that makes equations, or
    fails, stays.
    """
    values = plan.values.copy()
    steps: list[Step] = []
    for step in plan.steps:
        inputs = [values[place] for place in step.inputs]
        results = None
        if all(map(_is_known, inputs)):
            results = _results_without_equations(plan, step, inputs)
        if results is None:
            steps.append(step)
        else:
            for place, value in zip(step.outputs, results, strict=True):
                values[place] = value
    return replace(plan, values=values, steps=tuple(steps))


def _results_without_equations(plan: Plan, step: Step, inputs: list[Any]) -> list[Any] | None:
    builder = Builder()
    count, size = len(inputs), len(inputs) + len(step.outputs)
    alone = step._replace(inputs=tuple(range(count)), outputs=tuple(range(count, size)))
    part = Plan(
        library=plan.library,
        inputs=(),
        input_places=(),
        output_places=alone.outputs,
        shared=(),
        values=inputs + [None] * len(step.outputs),
        steps=(alone,),
    )
    try:
        results = Lowering(part, builder, (), {}, False, lambda *_: None, wide=True).run()
    except (JaxprGenError, ValueNeededError):
        return None
    return results if not len(builder) and all(map(_is_known, results)) else None


def _known_and_small(xs: Sequence[Any]) -> list[Any] | None:
    """The inputs as NumPy arrays, or None: one is not known, or they are large together."""
    size = 0
    arrays: list[Any] = []
    for x in xs:
        if type(x) is Var:
            return None
        array = _as_known(x)
        if array is None and x is not None:
            return None
        size += getattr(array, "size", 0)
        arrays.append(array)
    return arrays if size <= FOLD_LIMIT else None


def _is_known(x: Any) -> bool:
    return _as_known(x) is not None


def _as_known(x: Any) -> Any:
    """A known value as NumPy has it; things that are no arrays (slices, None) as they are."""
    return known(x) if type(x) is Broadcast else x


def _checked(value: Value, declared: OutputType) -> Value:
    """The value, if it is what the node declares of its output."""
    if type(value) is Var:
        shape, dtype = value.aval.shape, value.aval.dtype
    else:
        shape, dtype = shape_of(value), dtype_of(value)
    if dtype != declared.dtype or len(shape) != declared.rank:
        raise LoweringError(
            f"The rule returned {dtype} of rank {len(shape)}, but the node declares "
            f"{declared.dtype} of rank {declared.rank}."
        )
    for axis, size in declared.fixed:
        if shape[axis] != size:
            raise LoweringError(
                f"The rule returned shape {shape}, but the node declares size {size} for axis "
                f"{axis}."
            )
    return value
