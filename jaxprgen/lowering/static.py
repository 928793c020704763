"""Static values: what is known of a graph's variables while it is lowered.

A value is *static* if it follows from constants, from shapes, or from arguments on whose values the
program is specialized. Rules ask for static values because shapes depend on them. Where only a
consequence of a value matters, such as the number of elements that a mask selects, a node *decides*
it, and one program serves all arguments for which the node decides the same.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from jaxprgen._jax import Var
from jaxprgen.emit.lazy import Lazy
from jaxprgen.emit.random import Stream
from jaxprgen.emit.sizes import is_known
from jaxprgen.emit.sparse import Sparse
from jaxprgen.emit.values import Value, full
from jaxprgen.errors import StaticShapeError
from jaxprgen.lowering.graph import Plan, Step
from jaxprgen.lowering.registry import needed_inputs

FOLD_LIMIT = 1024
"""Elements up to which a static result is computed while emitting rather than emitted."""

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


# --- Values that change from one step of a loop to the next, where its sequences are known -----


class Row(NamedTuple):
    """An input of a step's graph that is a row of an input of the loop, by its position."""

    position: int


class EachStep(NamedTuple):
    """The values that one variable has in the steps of a loop, one after the other."""

    loop: Any
    values: Sequence[Any]


def by_step(values: Sequence[Any]) -> list[list[Any]]:
    """Return the values of variables in each step; one list if none of them changes."""
    lengths = [len(x.values) for x in values if type(x) is EachStep]
    return [
        [x.values[i] if type(x) is EachStep else x for x in values]
        for i in range(lengths[0] if lengths else 1)
    ]


def changes() -> StaticShapeError:
    """Return the error of a value that changes, and is not known."""
    return StaticShapeError(
        "A shape depends on a value that changes from one step of a loop to the next, and is not "
        "known while the program is emitted.\nMake all that the loop gives of one shape: compute "
        "with as much as there can be, and mask the rest."
    )


def compute(
    function: Callable[[dict[int, Any]], dict[int, Any]],
    given: Mapping[int, Any],
    targets: Sequence[int],
) -> dict[int, Any]:
    """Return what a function makes of values, in each step if some of them change.

    Raises
    ------
    StaticShapeError
        Values change from step to step of several loops.
    """
    changing = {place: x for place, x in given.items() if type(x) is EachStep}
    if not changing:
        return function(dict(given))
    loop, *others = {x.loop for x in changing.values()}
    if others:
        raise changes()
    known: dict[Any, dict[int, Any]] = {}  # Many steps may have the same values.
    found: list[dict[int, Any]] = []
    for row in by_step([*changing.values()]):
        key = tuple(np.asarray(x).tobytes() for x in row)
        if key not in known:
            own = dict(zip(changing, map(np.asarray, row), strict=True))
            known[key] = function({**given, **own})
        found.append(known[key])
    return {place: EachStep(loop, [x[place] for x in found]) for place in targets}


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


class Request(NamedTuple):
    """A request for the values of a step's inputs.

    Attributes
    ----------
    path
        The steps inside of that step that ask for them.
    given
        Values of arguments by which the node only decides something, by position.
    over_steps
        Whether values that change from step to step of the loop around may be those in `EachStep`.
    """

    path: Path = ()
    given: Mapping[int, Any] = MappingProxyType({})
    over_steps: bool = False


STATIC = Request()
"""A request for static values."""

Ask: TypeAlias = Callable[[int, Request], Any]
"""Gives the value of an input of a plan inside of another one, from what is around it."""


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
    decisions, ask
        The parameters.
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
        self.ask = ask
        self.decisions = decisions or Decisions(frozenset(), {}, [], CallMode())
        self.asked = False

    def asking(self, step: Step, positions: Sequence[int | Row | None] | None) -> Ask:
        """Return what a plan inside of a step asks for the values of its inputs.

        ``positions`` says which input of the step is which of the inner plan's; by default they
        are the same.
        """

        def ask(position: int, request: Request) -> Any:
            outer = position if positions is None else positions[position]
            if isinstance(outer, int):
                return self.values_of(step, [outer], request)[0]
            if isinstance(outer, Row) and request.over_steps:
                (rows,) = self.values_of(step, [outer.position], request)
                if type(rows) is not EachStep:
                    return EachStep(step.node, list(rows))
            raise changes().at(where(request.path))

        return ask

    def describe(self, step: Step) -> str:
        """Return lines that name a step's node, its inputs and the user's line."""
        inputs = [self._values[place] for place in step.inputs]
        return self._plan.library.describe(step.node, inputs)

    def values_of(
        self, step: Step, positions: Sequence[int], request: Request = STATIC
    ) -> list[Any]:
        """Return the values of a step's inputs, or raise what asks for those of arguments."""
        places = [step.inputs[i] for i in positions]
        found: dict[int, Any] = {place: static_value(self._values[place]) for place in places}
        targets = [place for place, value in found.items() if value is None]
        if targets:
            path = (*request.path, Asking(self, step, tuple(positions)))
            found |= self._evaluated(targets, request._replace(path=path))
        return [found[place] for place in places]

    def _evaluated(self, targets: Sequence[int], request: Request) -> dict[int, Any]:
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
        found = self._arguments(sorted(missing), request) if missing else {}
        try:
            return compute(functools.partial(self._computed, steps, seen), found, targets)
        except StaticShapeError as error:
            raise error if error.located else error.at(where(request.path)) from None

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

    def _arguments(self, places: Sequence[int], request: Request) -> dict[int, Any]:
        """Return the values of the plan's inputs, or raise what asks for them."""
        leaves = [*self._plan.input_places, *(s.place for s in self._plan.shared)]
        if not set(places) <= set(leaves):
            raise StaticShapeError(
                "A shape depends on a random draw, which has no value while the program is "
                "emitted.\nDraw in a function of its own, and pass what it returns."
            ).at(where(request.path))
        positions = {place: leaves.index(place) for place in places}
        if self.ask is not None:
            self.asked = True
            return {p: self.ask(i, request) for p, i in positions.items()}
        given = request.given
        decides = given is self.decisions.values
        for text in filter(None, (self._hindrance(i, decides) for i in positions.values())):
            raise StaticShapeError(text).at(where(request.path))
        if not given.keys() >= set(positions.values()):
            raise ValueNeededError(tuple(positions.values()), request.path)
        return {place: given[i] for place, i in positions.items()}
