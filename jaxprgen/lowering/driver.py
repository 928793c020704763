"""The driver: lowers the steps of a plan one after the other.

It does once what all rules need: it evaluates static nodes, checks what a rule returns, and adds
the node and the user's line to an error.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from time import perf_counter
from typing import Any, TypeAlias

import numpy as np

from jaxprgen import _jax
from jaxprgen._jax import ArrayImpl, JaxprEqn
from jaxprgen.arguments.inputs import KEY
from jaxprgen.emit import elementwise as ew, random
from jaxprgen.emit.deferred import Cut, Deferred
from jaxprgen.emit.lazy import Lazy, forced
from jaxprgen.emit.random import Stream
from jaxprgen.emit.selection import Selected
from jaxprgen.emit.values import Array, Value
from jaxprgen.errors import JaxprGenError, LoweringError, undecided_size
from jaxprgen.ir import Builder
from jaxprgen.lowering.context import RuleContext
from jaxprgen.lowering.graph import OutputType, Plan, Step
from jaxprgen.lowering.registry import Rule, find_rule
from jaxprgen.lowering.static import (
    Around,
    Guards,
    Row,
    Statics,
    ValueNeededError,
    as_value,
    small_static_values,
)

Observer: TypeAlias = Callable[[Step, list[JaxprEqn], bool, float], None]
"""Called after each step of a plan with the step, the equations that its rule appended, whether
JAX traced some of them, and the seconds that the step took."""


_VOCABULARY = (
    "\nRules compute with operators of values and functions of jaxprgen.emit. To compute an Op by "
    "a JAX function, register that with @jaxprgen.implements."
)


class Lowering:
    """One run of a plan into a builder.

    Parameters
    ----------
    plan
        The plan to lower.
    builder
        The builder of the program; its inputs are the arguments, one per input of the plan.
    shared
        The current values of the plan's shared variables.
    values
        Values that take the place of arguments, by the positions of inputs and, after them, of
        shared variables: static ones.
    checks
        Whether run-time checks become equations (for `jax.experimental.checkify`).
    announce
        Called with a node and a message for every run-time check that is left out, and with a
        category for every other warning.
    wide
        Whether results have the dtypes that the graph declares, or 32 bits; by default as x64 says.
    guards, around
        As for `jaxprgen.lowering.static.Statics`; by default, nothing is decided by values.
    observer
        Called after each step of this plan; the steps of plans inside of it are not observed.

    Attributes
    ----------
    steps
        The steps of the plan, with the dtypes that are emitted.
    values
        The values of the plan's variables, by place.
    statics
        What is static among them.
    programs
        Programs of plans inside of this one, by their graphs and the types of their inputs.
    """

    def __init__(
        self,
        plan: Plan,
        builder: Builder,
        shared: Sequence[Array],
        values: Mapping[int, Any],
        checks: bool,
        announce: Callable[..., None],
        wide: bool | None = None,
        guards: Guards | None = None,
        around: Around | None = None,
        observer: Observer | None = None,
    ) -> None:
        self.plan = plan
        self.builder = builder
        self.checks = checks
        self.announce = announce
        self.programs: dict[Any, Any] = {}
        self._observer = observer
        self._has_lazy = any(isinstance(x, Lazy) for x in values.values())
        self._wide = _jax.x64_enabled() if wide is None else wide
        self.steps = plan.steps if self._wide else plan.narrow_steps
        self.values: list[Any] = [
            Value(builder.constant(x)) if type(x) is ArrayImpl else as_value(x) for x in plan.values
        ]
        self.statics = Statics(plan, self.values, guards or Guards(), around)
        declared_inputs = zip(plan.inputs, plan.input_places, strict=True)
        for position, (declared, place) in enumerate(declared_inputs):
            builder.source_info = plan.source_infos[place]
            self.values[place] = (
                as_value(values[position])
                if position in values
                else self._admit(Value(builder.inputs[position]), declared.dtype)
            )
        for number, place in enumerate(plan.generators):
            builder.source_info = plan.source_infos[place]
            key = self.values[plan.input_places[0]].key
            self.values[place] = Stream(random.fold_in(key, number))
        for position, (variable, value) in enumerate(
            zip(plan.shared, shared, strict=True), len(plan.inputs)
        ):
            known_value = values.get(position)
            self.values[variable.place] = (
                Value(builder.constant(value)) if known_value is None else as_value(known_value)
            )

    def _admit(self, x: Value, dtype: np.dtype[Any]) -> Any:
        """Return an argument as its input declares it: in that dtype, and strongly typed."""
        if dtype is KEY:
            return Stream(random.typed_key(x))
        dtype = ew.canonical(dtype)
        if x.dtype != dtype:
            return x.astype(dtype)
        return ew.strengthen(x) if x.atom().aval.weak_type else x

    def run(self) -> list[Value]:
        """Lower every step and return the plan's outputs."""
        self.lower_steps(self.steps)
        return [self.output(place) for place in self.plan.output_places]

    def output(self, place: int) -> Value:
        """Return an output of the plan, computed now if it was deferred."""
        return forced(self.values[place])

    def lower_steps(self, steps: Iterable[Step]) -> None:
        """Lower these steps; their results are then among `values`."""
        builder, observer = self.builder, self._observer
        for step in steps:
            lower = self._try_step if step.may_fail else self._lower_step
            if observer is None:
                lower(step)
                continue
            start, count, staged = perf_counter(), len(builder), builder.inlined
            lower(step)
            seconds = perf_counter() - start
            observer(step, builder.equations_from(count), builder.inlined > staged, seconds)

    def _try_step(self, step: Step) -> None:
        """Lower a step, or let its error take the place of its results."""
        try:
            for place in step.inputs:
                if isinstance(self.values[place], JaxprGenError):
                    raise self.values[place]
            self._lower_step(step)
        except JaxprGenError as error:
            for place in step.outputs:
                self.values[place] = error

    def _lower_step(self, step: Step) -> None:
        node, (rule, folds, *_), inputs, outputs, types, self.builder.source_info, _ = step
        values = self.values
        xs = [values[place] for place in inputs]
        try:
            if self._has_lazy:
                rule, xs = self._rule_for(rule, node, xs)
            if folds and (arrays := small_static_values(xs)) is not None:
                results: Any = self.plan.library.evaluate(node, arrays)
            else:
                results = rule(RuleContext(self.builder, step, self), *xs)
            if type(results) is not list:
                results = list(results) if type(results) is tuple else [results]
            if len(results) != len(outputs):
                raise LoweringError(
                    f"The rule returned {len(results)} values for {len(outputs)} outputs."
                )
            for place, value, declared in zip(outputs, results, types):  # noqa: B905
                value = as_value(value)
                if declared is not None and not _is_as_declared(value, declared):
                    self._require_other_ranks(value, declared, step, xs)
                values[place] = value
                self._has_lazy |= isinstance(value, Lazy)
        except ValueNeededError:
            raise
        except Exception as error:
            if isinstance(error, JaxprGenError) and error.located:
                raise
            cause = error.__cause__ if isinstance(error, JaxprGenError) else error
            if _jax.is_about_sizes(error):
                error = undecided_size(error)
            if not isinstance(error, JaxprGenError):
                text = f"Lowering failed: {type(error).__name__}: {error}"
                takes_no_value = isinstance(error, TypeError) and Value.__name__ in text
                error = LoweringError(text + _VOCABULARY if takes_no_value else text)
            raise error.at(self.plan.library.describe(node, xs)) from cause

    def _require_other_ranks(
        self, value: Any, declared: OutputType, step: Step, xs: Sequence[Any]
    ) -> None:
        """Raise unless only the rank of a result is wrong, because a declared rank is wrong."""
        ranks = [self.plan.library.rank(self.plan.variables[place]) for place in step.inputs]
        is_meant = not step.registration.ranked or any(
            rank is not None and rank != len(x.shape) for rank, x in zip(ranks, xs, strict=True)
        )
        if value.dtype != declared.dtype or not is_meant:
            raise LoweringError(
                f"The rule returned {value.dtype} of rank {len(value.shape)}, but the node "
                f"declares {declared.dtype} of rank {declared.rank}."
            )

    def _rule_for(self, rule: Rule, node: Any, inputs: list[Any]) -> tuple[Rule, list[Any]]:
        """Return the rule of a node, and its inputs as that rule takes them."""
        # In this order: only joins take cuts, and a deferred array may select.
        for kind in (Cut, Deferred, Selected):
            if any(isinstance(x, kind) for x in inputs):
                found = find_rule(type(node.op), kind)
                if found is not None:
                    return found, inputs
                inputs = [x.force() if isinstance(x, kind) else x for x in inputs]
        return rule, inputs

    def inside(
        self,
        step: Step,
        plan: Plan,
        builder: Builder,
        inputs: Sequence[Any],
        positions: Sequence[int | Row | None] | None = None,
    ) -> Lowering:
        """Return the lowering of a plan inside of a step, for values of the step's inputs.

        ``positions`` says which input of the step is which of the plan's; by default they are the
        same.
        """
        inner = Lowering(
            plan,
            builder,
            (),
            dict(enumerate(inputs)),
            self.checks,
            self.announce,
            self._wide,
            self.statics.guards,
            Around(self.statics, step, positions),
        )
        inner.programs = self.programs
        return inner


def _is_as_declared(value: Any, declared: OutputType) -> bool:
    """Return whether a rule's result has the dtype and the rank that the node declares."""
    if not isinstance(value, (Value, Lazy)):
        raise LoweringError(f"The rule returned {value!r}, which is not a value of a program.")
    dtype = value.dtype
    is_dtype = dtype is declared.dtype or dtype == declared.dtype
    return is_dtype and len(value.shape) == declared.rank
