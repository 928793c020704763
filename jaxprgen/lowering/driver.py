"""The driver: lowers the steps of a plan one after the other.

Everything that rules share happens here, once: evaluating what is known, checking what a rule
returns, putting the place in the graph on an error.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from time import perf_counter
from types import MappingProxyType
from typing import Any, TypeAlias

import numpy as np

from jaxprgen import _jax
from jaxprgen._jax import JaxprEqn, Var
from jaxprgen.emit import elementwise as ew
from jaxprgen.emit import random
from jaxprgen.emit.check import check
from jaxprgen.emit.deferred import Deferred
from jaxprgen.emit.random import Stream
from jaxprgen.emit.selection import Selected
from jaxprgen.emit.values import Array, Value, known
from jaxprgen.errors import JaxprGenError, LoweringError, StaticShapeError
from jaxprgen.ir import Builder
from jaxprgen.lowering.context import D, RuleContext
from jaxprgen.lowering.decisions import Decisions, Path, ValueNeededError, where
from jaxprgen.lowering.declared import checked, require_declared
from jaxprgen.lowering.derived import derived
from jaxprgen.lowering.graph import KEY, Plan, Step
from jaxprgen.lowering.known import known_and_small
from jaxprgen.lowering.registry import (
    Rule,
    deciding_inputs,
    find_deferred_rule,
    find_selected_rule,
    static_inputs,
)

NONE: Mapping[int, Any] = MappingProxyType({})

Observer: TypeAlias = Callable[[Step, list[JaxprEqn], bool, float], None]
"""Called after each step of a plan with the step, the equations that its rule appended, whether
JAX traced some of them, and the seconds that the step took."""


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
        What stands for inputs, and behind them shared variables, by position, in place of an
        argument: values that are known because a shape depends on them.
    checks
        Whether run-time checks become equations (for `jax.experimental.checkify`).
    announce
        Called with a node and a message for every run-time check that is left out.
    wide
        Whether outputs have the dtypes the graph declares, or 32 bits; by default as x64 says.
    ask
        For a plan inside of another one: gives the value of an input of which a shape depends.
    hindrance
        For a plan that is not: says why a program cannot be of an input's value, or, if that is
        asked for, of what a node decides by it; nothing if it can.
    decisions
        What nodes are to decide, by which values.
    observer
        Called after each step of this plan; the steps of plans inside of it are not observed.

    Attributes
    ----------
    steps
        The steps of the plan, with the dtypes that are emitted.
    values
        What stands for each variable, by place.
    asked
        Whether a value was asked for.
    programs
        Programs of plans inside of this one, by what they are the program of.
    """

    def __init__(
        self,
        plan: Plan,
        builder: Builder,
        shared: Sequence[Array],
        values: Mapping[int, Any],
        checks: bool,
        announce: Callable[[Any, str], None],
        wide: bool | None = None,
        ask: Callable[[int, Path, Mapping[int, Any]], Array] | None = None,
        hindrance: Callable[[int, bool], str] = lambda *_: "",
        decisions: Decisions | None = None,
        observer: Observer | None = None,
    ) -> None:
        self.plan = plan
        self.builder = builder
        self._checks = checks
        self._announce = announce
        self._ask = ask
        self._hindrance = hindrance
        self._decisions = decisions or Decisions(frozenset(), {}, [])
        self._observer = observer
        self.asked = False
        self._special = any(isinstance(x, (Selected, Deferred)) for x in values.values())
        self.programs: dict[Any, Any] = {}
        self._wide = _jax.x64_enabled() if wide is None else wide
        self.steps = plan.steps if self._wide else plan.narrow_steps
        self.values: list[Any] = plan.values.copy()
        declared_inputs = zip(plan.inputs, plan.input_places, strict=True)
        for position, (declared, place) in enumerate(declared_inputs):
            builder.source_info = plan.source_infos[place]
            self.values[place] = (
                values[position]
                if position in values
                else self._admit(builder.inputs[position], declared.dtype)
            )
        for number, place in enumerate(plan.generators):
            builder.source_info = plan.source_infos[place]
            key = self.values[plan.input_places[0]].key
            self.values[place] = Stream(random.fold_in(builder, key, number))
        for position, (variable, value) in enumerate(
            zip(plan.shared, shared, strict=True), len(plan.inputs)
        ):
            known_value = values.get(position)
            self.values[variable.place] = (
                builder.constant(value) if known_value is None else known_value
            )

    def _admit(self, x: Var, dtype: np.dtype[Any]) -> Any:
        """An argument as its input declares it: in that dtype, and strongly typed."""
        if dtype is KEY:
            return Stream(random.typed_key(self.builder, x))
        dtype = ew.canonical(dtype)
        if x.aval.dtype != dtype:
            return ew.convert(self.builder, x, dtype)
        return ew.strengthen(self.builder, x) if x.aval.weak_type else x

    def run(self) -> list[Value]:
        """Lower every step; the values of the plan's outputs."""
        self.lower_steps(self.steps)
        return [self.output(place) for place in self.plan.output_places]

    def output(self, place: int) -> Value:
        """The value of an output of the plan, which is made now if it was deferred."""
        found = self._made(self.values[place])
        if type(found) is Selected:
            raise found.refuse()
        return found

    def lower_steps(self, steps: Iterable[Step]) -> None:
        """Lower these steps, which gives `values`."""
        builder, observer = self.builder, self._observer
        for step in steps:
            if observer is None:
                self._lower_step(step)
                continue
            start, count, staged = perf_counter(), len(builder), builder.inlined
            self._lower_step(step)
            seconds = perf_counter() - start
            observer(step, builder.equations_from(count), builder.inlined > staged, seconds)

    def _lower_step(self, step: Step) -> None:
        node, rule, folds, inputs, outputs, types, self.builder.source_info = step
        values = self.values
        xs = [values[place] for place in inputs]
        try:
            if self._special:
                rule, xs = self._rule_for(rule, node, xs)
            if folds and (arrays := known_and_small(xs)) is not None:
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
                values[place] = value if declared is None else checked(value, declared)
            first = results[0] if results else None
            if type(first) is not Var and isinstance(first, (Selected, Deferred)):
                self._special = True
        except ValueNeededError:
            raise
        except Exception as error:
            if isinstance(error, JaxprGenError) and error.located:
                raise
            cause = error.__cause__ if isinstance(error, JaxprGenError) else error
            raise self._located(error, node, xs) from cause

    def _made(self, x: Any) -> Any:
        """A value, which is made now if it was deferred."""
        return x.made(self.builder) if isinstance(x, Deferred) else x

    def _rule_for(self, rule: Rule, node: Any, inputs: list[Any]) -> tuple[Rule, list[Any]]:
        """The rule of a node and its inputs, where there is one for them as they are.

        There may be one for what is deferred, and for what a mask selects.
        """
        if any(isinstance(x, Deferred) for x in inputs):
            found = find_deferred_rule(type(node.op))
            if found is not None:
                return found, inputs
            inputs = list(map(self._made, inputs))
        selected = next((x for x in inputs if type(x) is Selected), None)
        if selected is None:
            return rule, inputs
        found = find_selected_rule(type(node.op))
        if found is None:
            raise selected.refuse()
        return found, inputs

    def _located(self, error: Exception, node: Any, inputs: Sequence[Any]) -> JaxprGenError:
        """The error with the node and the user's line, put there once."""
        if not isinstance(error, JaxprGenError):
            error = LoweringError(f"Lowering failed: {type(error).__name__}: {error}")
        return error.at(self.plan.library.describe(node, inputs))

    # --- What rules ask for ---------------------------------------------------------------

    def static(self, step: Step, position: int) -> Array:
        """The value of a step's input; see `RuleContext.static`."""
        require_declared(step, position, "static", static_inputs)
        return self._values(step, [position])[0]

    def known(self, step: Step, position: int) -> Array | None:
        """The value of a step's input, or None; see `RuleContext.known`."""
        if position not in static_inputs(type(step.node.op), step.node):
            require_declared(step, position, "decides", deciding_inputs)
        try:
            return self._values(step, [position])[0]
        except (ValueNeededError, StaticShapeError):
            return None

    def label(self, step: Step, position: int) -> str:
        """What to call a step's input; see `RuleContext.label`."""
        return self.plan.library.label(step.node.inputs[position])

    def producer(self, step: Step, position: int) -> tuple[Step, int] | None:
        """What computes a step's input; see `RuleContext.producer`."""
        return self.plan.producers.get(step.inputs[position])

    def decided(
        self, step: Step, positions: Sequence[int], decide: Callable[[list[Any]], D]
    ) -> D | None:
        """What a step decides by values of its inputs; see `RuleContext.decided`."""
        if step.node not in self._decisions.nodes:
            return None
        try:
            found = decide(self._values(step, positions, (), self._decisions.values))
        except StaticShapeError:
            found = None
        except ValueNeededError as needed:
            if needed.node is not None:  # Another node is to decide first.
                raise
            found = None
        self._decisions.found.append(found)
        return found

    def undecided(self, step: Step, positions: Sequence[int], text: str) -> JaxprGenError:
        """The error of what is not decided, or asks for it; see `RuleContext.undecided`."""
        needed: Sequence[int] = ()
        path: Path = ((self, step),)
        try:
            self._values(step, positions, (), self._decisions.values)
        except ValueNeededError as error:
            if error.node is not None:  # Another node is to decide first.
                raise
            needed, path = error.inputs, error.path
        except StaticShapeError as error:
            found = StaticShapeError(f"{text}\n{error}")
            found.located = True
            return found
        if not needed and step.node in self._decisions.nodes:
            raise LoweringError("The rule asks for a decision, and does not take it.")
        raise ValueNeededError(needed, path, step.node)

    def describe(self, step: Step) -> str:
        """Several lines that name a step's node, its inputs and the user's line."""
        return self.plan.library.describe(step.node, [self.values[place] for place in step.inputs])

    def _values(
        self,
        step: Step,
        positions: Sequence[int],
        path: Path = (),
        given: Mapping[int, Any] = NONE,
    ) -> list[Any]:
        """The values of a step's inputs, for which those of the arguments may be ``given``.

        ``path`` are the steps inside of this one that ask for them.
        """
        places = [step.inputs[i] for i in positions]
        found: dict[int, Any] = {place: known(self.values[place]) for place in places}
        targets = [place for place, value in found.items() if value is None]
        if targets:
            path = (*path, (self, step))
            found |= derived(
                self.plan,
                self.values,
                targets,
                lambda missing: self._arguments(missing, path, given),
            )
        return [found[place] for place in places]

    def _arguments(
        self, places: Sequence[int], path: Path, given: Mapping[int, Any]
    ) -> dict[int, Any]:
        """The values of inputs, from what is around this plan; else those of arguments."""
        leaves = [*self.plan.input_places, *(s.place for s in self.plan.shared)]
        if not set(places) <= set(leaves):
            raise StaticShapeError(
                "A shape depends on a random draw, which has no value while the program is "
                "emitted.\nDraw in a function of its own, and pass what it returns."
            ).at(where(path))
        positions = [leaves.index(place) for place in places]
        if self._ask is None:
            decides = given is self._decisions.values
            for text in filter(None, (self._hindrance(i, decides) for i in positions)):
                raise StaticShapeError(text).at(where(path))
            if not given.keys() >= set(positions):
                raise ValueNeededError(positions, path)
            return {place: given[i] for place, i in zip(places, positions, strict=True)}
        self.asked = True
        return {
            place: self._ask(i, path, given) for place, i in zip(places, positions, strict=True)
        }

    # --- Plans inside of this one ----------------------------------------------------------

    def inside(
        self,
        step: Step,
        plan: Plan,
        builder: Builder,
        inputs: Sequence[Any],
        positions: Sequence[int | None] | None = None,
    ) -> Lowering:
        """To lower the plan of what is inside a step, for values of the step's inputs.

        ``positions`` says which input of the step is which of the plan's, where it is one.
        """

        def ask(position: int, path: Path, values: Mapping[int, Any]) -> Array:
            outer = position if positions is None else positions[position]
            if outer is None:
                raise StaticShapeError(
                    "A shape depends on a value that changes from one step of a loop to the next, "
                    "and is not known while the program is emitted.\nMake all that the loop gives "
                    "of one shape: compute with as much as there can be, and mask the rest."
                ).at(where(path))
            return self._values(step, [outer], path, values)[0]

        given = dict(enumerate(inputs))
        inner = Lowering(
            plan,
            builder,
            (),
            given,
            self._checks,
            self._announce,
            self._wide,
            ask,
            decisions=self._decisions,
        )
        inner.programs = self.programs
        return inner

    def require(
        self,
        ctx: RuleContext,
        condition: Callable[[Builder], Value],
        error: type[JaxprGenError],
        message: str,
        announced: bool,
    ) -> None:
        """A run-time check; see `RuleContext.require`."""
        if self._checks:
            check(ctx.builder, condition(ctx.builder), f"{error.__name__}: {message}")
        elif announced:
            self._announce(ctx.node, message)
