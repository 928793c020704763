"""Static values: what is known of a graph's variables while it is lowered.

A value is *static* if it follows from constants, from shapes, or from arguments on whose values the
program is specialized. Rules ask for static values because shapes depend on them. Where only a
consequence of a value matters, such as the number of elements that a mask selects, a node *decides*
it, and one program serves all arguments for which the node decides the same.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, NamedTuple, TypeAlias, TypeVar

import numpy as np

from jaxprgen._jax import Var
from jaxprgen.emit.lazy import Lazy
from jaxprgen.emit.random import Stream
from jaxprgen.emit.sizes import is_known
from jaxprgen.emit.sparse import Sparse
from jaxprgen.emit.values import Array, Value, full
from jaxprgen.errors import JaxprGenError, LoweringError, StaticShapeError
from jaxprgen.lowering.graph import Plan, Step
from jaxprgen.lowering.registry import needed_inputs
from jaxprgen.lowering.rows import EachStep, Row, by_step, changes, compute

D = TypeVar("D", bound=Hashable)

FOLD_LIMIT = 1024
"""Elements up to which a static result is computed while emitting rather than emitted."""

_NONE: Mapping[int, Any] = MappingProxyType({})


# --- Values as NumPy has them -------------------------------------------------------------


def static_value(x: Any) -> Any:
    """Return a static value as NumPy has it, or None; slices and the like are as they are."""
    if isinstance(x, (Lazy, Sparse, Stream)):
        return None
    if isinstance(x, list):
        items = [static_value(each) for each in x]  # pyright: ignore[reportUnknownVariableType]
        return None if any(each is None for each in items) else items
    return x.static if isinstance(x, Value) else x


def as_value(x: Any) -> Any:
    """Return a NumPy array, or a variable, as a value; whatever else as it is."""
    if type(x) is Value:
        return x
    if isinstance(x, list):
        return [as_value(each) for each in x]  # pyright: ignore[reportUnknownVariableType]
    if isinstance(x, np.generic):
        x = np.asarray(x)
    return Value(x) if isinstance(x, (Var, np.ndarray)) else x


def small_static_values(xs: Sequence[Any]) -> list[Any] | None:
    """Return the inputs of a node as NumPy arrays, if all are static and small together."""
    size = 0
    arrays: list[Any] = []
    for x in xs:
        array = static_value(x)
        if array is None and x is not None:
            return None
        size += getattr(array, "size", 0)
        arrays.append(array)
    return arrays if size <= FOLD_LIMIT else None


def static_or_ones(x: Any) -> Any:
    """Return a static value, or ones of its type if only its shape matters.

    A value of symbolic shape is returned as it is.
    """
    if isinstance(x, Lazy):
        x = full(x.static_shape(), 1, x.dtype)
    if isinstance(x, Value) and not is_known(x.shape):
        return x
    if isinstance(x, Value) and x.static is None:
        return np.broadcast_to(np.ones((), x.dtype), x.shape)
    return static_value(x)


# --- What lowering cannot go on without ---------------------------------------------------


class Asking(NamedTuple):
    """A step that asks for the values of inputs, by position, and the `Statics` of its plan."""

    statics: Statics
    step: Step
    positions: tuple[int, ...]


Path: TypeAlias = tuple[Asking, ...]
"""The steps that ask for a value, from the inside out."""


def where(path: Path) -> str:
    """Return lines that name the nodes of a path, their inputs and the user's lines."""
    return "\n".join(asking.statics.describe(asking.step) for asking in path)


class ValueNeededError(Exception):
    """Raised when lowering cannot go on without the values of inputs; caught by the specializer.

    Attributes
    ----------
    inputs
        The positions of the inputs, and after them of shared variables.
    path
        The steps that ask for them.
    node
        The node that decides something by their values; None if the values are to be static.
    """

    def __init__(self, inputs: Sequence[int], path: Path, node: Any = None) -> None:
        super().__init__("The values of inputs are needed.")
        self.inputs = tuple(inputs)
        self.path = path
        self.node = node


@dataclass
class CallMode:
    """How a program is called.

    Attributes
    ----------
    in_trace
        Whether the call is under a JAX transformation.
    asked
        Whether a step asked for that.
    """

    in_trace: bool = False
    asked: bool = False


class Decisions(NamedTuple):
    """What nodes decide by values that the program itself takes as arguments.

    Attributes
    ----------
    nodes
        The nodes that are to decide: loops (how many steps they take), branches (which is taken),
        and nodes whose results have as many elements as values say.
    values
        The values of arguments that they decide by, by position.
    found
        What they decided, in the order of lowering; None where arguments do not tell.
    call
        How the program is called.
    """

    nodes: frozenset[Any]
    values: Mapping[int, Any]
    found: list[Any]
    call: CallMode


Ask: TypeAlias = Callable[[int, Path, Mapping[int, Any], bool], Any]
"""Gives the value of an input of a plan inside of another one, from what is around it.

If the last argument is true, it may be the values in `EachStep` of a loop."""


class Statics:
    """Answers what rules ask of the values of a plan's variables.

    Parameters
    ----------
    plan
        The plan.
    values
        The values of its variables so far, by place; the driver adds to them.
    decisions
        The nodes that are to decide, and by which values.
    hindrance
        Says why a program cannot depend on the value of an argument, by position and by whether a
        node only decides something by it; an empty string if it can.
    ask
        For a plan inside of another one: gives the values of its inputs.

    Attributes
    ----------
    asked
        Whether the value of an input was asked for.
    """

    def __init__(
        self,
        plan: Plan,
        values: Sequence[Any],
        decisions: Decisions | None = None,
        hindrance: Callable[[int, bool], str] = lambda *_: "",
        ask: Ask | None = None,
    ) -> None:
        self._plan = plan
        self._values = values
        self._hindrance = hindrance
        self._ask = ask
        self.decisions = decisions or Decisions(frozenset(), {}, [], CallMode())
        self.asked = False

    def static(self, step: Step, position: int) -> Array:
        """Return the value of a step's input; see `RuleContext.static`."""
        return self._of(step, [position])[0]

    def static_or_none(self, step: Step, position: int) -> Array | None:
        """Return the value of a step's input or None; see `RuleContext.static_or_none`."""
        try:
            return self._of(step, [position])[0]
        except (ValueNeededError, StaticShapeError):
            return None

    def static_in_trace(self, step: Step, position: int) -> Array | None:
        """Return the value of a step's input or None; see `RuleContext.static_in_trace`."""
        call = self.decisions.call
        call.asked = True
        if not call.in_trace:
            return self.static_or_none(step, position)
        try:
            return self._of(step, [position])[0]
        except StaticShapeError:
            return None

    def decided(
        self,
        step: Step,
        positions: Sequence[int],
        decide: Callable[[list[Any]], D],
        over_steps: bool = False,
    ) -> D | None:
        """Return what a step decides; see `RuleContext.decided`."""
        if step.node not in self.decisions.nodes:
            return None
        try:
            values = self._of(step, positions, (), self.decisions.values, over_steps)
            found = decide(by_step(values) if over_steps else values)
        except StaticShapeError:
            found = None
        except ValueNeededError as needed:
            if needed.node is not None:  # Another node is to decide first.
                raise
            found = None
        self.decisions.found.append(found)
        return found

    def undecided(
        self, step: Step, positions: Sequence[int], text: str, over_steps: bool = False
    ) -> JaxprGenError:
        """Return the error of what is not decided, or ask; see `RuleContext.undecided`."""
        needed: Sequence[int] = ()
        path: Path = (Asking(self, step, tuple(positions)),)
        try:
            # Outside of loops and other nodes, what is not static is not decided over steps either.
            given = _NONE if over_steps and self._ask is None else self.decisions.values
            self._of(step, positions, (), given, over_steps)
        except ValueNeededError as error:
            if error.node is not None:  # Another node is to decide first.
                raise
            needed, path = error.inputs, error.path
        except StaticShapeError as error:
            found = type(error)(f"{text}\n{error}" if text else str(error))
            found.located = True
            return found
        if not needed and step.node in self.decisions.nodes:
            raise LoweringError("The rule asks for a decision, and does not take it.")
        raise ValueNeededError(needed, path, step.node)

    def asking(self, step: Step, positions: Sequence[int | Row | None] | None) -> Ask:
        """Return what a plan inside of a step asks for the values of its inputs.

        ``positions`` says which input of the step is which of the inner plan's; by default they
        are the same.
        """

        def ask(position: int, path: Path, given: Mapping[int, Any], over_steps: bool) -> Any:
            outer = position if positions is None else positions[position]
            if isinstance(outer, int):
                return self._of(step, [outer], path, given, over_steps)[0]
            if isinstance(outer, Row) and over_steps:
                (rows,) = self._of(step, [outer.position], path, given, over_steps)
                if type(rows) is not EachStep:
                    return EachStep(step.node, list(rows))
            raise changes().at(where(path))

        return ask

    def describe(self, step: Step) -> str:
        """Return lines that name a step's node, its inputs and the user's line."""
        inputs = [self._values[place] for place in step.inputs]
        return self._plan.library.describe(step.node, inputs)

    def _of(
        self,
        step: Step,
        positions: Sequence[int],
        path: Path = (),
        given: Mapping[int, Any] = _NONE,
        over_steps: bool = False,
    ) -> list[Any]:
        """Return the values of a step's inputs; those of arguments may be ``given``.

        ``path`` are the steps inside of this one that ask for them. With ``over_steps``, values
        that change from step to step of the loop around may be those in `EachStep`.
        """
        places = [step.inputs[i] for i in positions]
        found: dict[int, Any] = {place: static_value(self._values[place]) for place in places}
        targets = [place for place, value in found.items() if value is None]
        if targets:
            path = (*path, Asking(self, step, tuple(positions)))
            found |= self._evaluated(targets, path, given, over_steps)
        return [found[place] for place in places]

    def _evaluated(
        self, targets: Sequence[int], path: Path, given: Mapping[int, Any], over_steps: bool
    ) -> dict[int, Any]:
        """Return the values of variables that are emitted, evaluated from static ones.

        The graph library evaluates the steps that the targets need, from the values of the
        arguments that they need.
        """
        plan, values = self._plan, self._values
        steps: set[int] = set()
        missing: list[int] = []
        seen: set[int] = set()
        pending = list(targets)
        while pending:
            place = pending.pop()
            if place in seen or static_value(values[place]) is not None:
                continue
            seen.add(place)
            if place in plan.producers:
                step, output = plan.producers[place]
                steps.add(id(step))
                needed = needed_inputs(type(step.node.op), step.node, output)
                pending.extend(step.inputs[i] for i in needed)
            elif place in plan.leaves:  # Else it is a constant that is no array, such as a slice.
                missing.append(place)
        found = self._arguments(sorted(missing), path, given, over_steps) if missing else {}
        try:
            return compute(functools.partial(self._computed, steps, seen), found, targets)
        except StaticShapeError as error:
            raise error if error.located else error.at(where(path)) from None

    def _computed(self, steps: set[int], seen: set[int], found: dict[int, Any]) -> dict[int, Any]:
        """Add the results of these steps that were ``seen`` to values of arguments."""
        plan, values = self._plan, self._values
        for step in plan.steps:
            if id(step) in steps:
                inputs = [
                    found[p] if p in found else static_or_ones(values[p]) for p in step.inputs
                ]
                wanted = [i for i, place in enumerate(step.outputs) if place in seen]
                results = plan.library.evaluate(step.node, inputs, wanted)
                found.update({step.outputs[i]: results[i] for i in wanted})
        return found

    def _arguments(
        self, places: Sequence[int], path: Path, given: Mapping[int, Any], over_steps: bool
    ) -> dict[int, Any]:
        """Return the values of the plan's inputs, or raise what asks for them."""
        leaves = [*self._plan.input_places, *(s.place for s in self._plan.shared)]
        if not set(places) <= set(leaves):
            raise StaticShapeError(
                "A shape depends on a random draw, which has no value while the program is "
                "emitted.\nDraw in a function of its own, and pass what it returns."
            ).at(where(path))
        positions = {place: leaves.index(place) for place in places}
        if self._ask is not None:
            self.asked = True
            return {p: self._ask(i, path, given, over_steps) for p, i in positions.items()}
        decides = given is self.decisions.values
        for text in filter(None, (self._hindrance(i, decides) for i in positions.values())):
            raise StaticShapeError(text).at(where(path))
        if not given.keys() >= set(positions.values()):
            raise ValueNeededError(tuple(positions.values()), path)
        return {place: given[i] for place, i in positions.items()}
