"""Static values: what is known of a graph's variables while it is lowered.

A value is *static* if it follows from constants, from shapes, or from arguments on whose values the
program is specialized. Rules ask for static values because shapes depend on them. Where only a
consequence of a value matters, such as the number of elements that a mask selects, a node *decides*
it, and one program serves all arguments for which the node decides the same.

`Statics` answers the rules of one plan. It evaluates the steps in question from what is static. If
that needs inputs of the plan, it requires them from `Guards`, which has the arguments of a program,
or from `Around`, the step that holds an inner plan. Guards that lack a value raise
`ValueNeededError`. The specializer catches it, guards that value too, and lowers the plan again.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

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


class PerStep(NamedTuple):
    """The values that one variable has in the steps of a loop, one after the other."""

    loop: Any
    values: Sequence[Any]


def by_step(values: Sequence[Any]) -> list[list[Any]]:
    """Return the values of variables in each step; one list if none of them changes."""
    lengths = [len(x.values) for x in values if type(x) is PerStep]
    return [
        [x.values[i] if type(x) is PerStep else x for x in values]
        for i in range(lengths[0] if lengths else 1)
    ]


_CHANGES = (
    "A shape depends on a value that changes from one step of a loop to the next, and is not "
    "known while the program is emitted.\nMake all that the loop gives of one shape: compute with "
    "as much as there can be, and mask the rest."
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
    changing = {place: x for place, x in given.items() if type(x) is PerStep}
    if not changing:
        return function(dict(given))
    loop, *others = {x.loop for x in changing.values()}
    if others:
        raise StaticShapeError(_CHANGES)
    known: dict[Any, dict[int, Any]] = {}  # Many steps may have the same values.
    found: list[dict[int, Any]] = []
    for row in by_step([*changing.values()]):
        key = tuple(np.asarray(x).tobytes() for x in row)
        if key not in known:
            own = dict(zip(changing, map(np.asarray, row), strict=True))
            known[key] = function({**given, **own})
        found.append(known[key])
    return {place: PerStep(loop, [x[place] for x in found]) for place in targets}


# --- Where the values of inputs come from --------------------------------------------------


class Reader(NamedTuple):
    """A step that reads the values of inputs, by position, and the `Statics` of its plan."""

    statics: Statics
    step: Step
    positions: tuple[int, ...]


class Request(NamedTuple):
    """A request for values of a plan's inputs.

    Attributes
    ----------
    readers
        The steps that read them, from the inside out.
    decides
        Whether a node only decides something by them; else they become part of the program.
    over_steps
        Whether values that change from step to step of the loop around may be those in `PerStep`.
    """

    readers: tuple[Reader, ...] = ()
    decides: bool = False
    over_steps: bool = False

    @property
    def where(self) -> str:
        """Lines that name the nodes of the readers, their inputs and the user's lines."""
        return "\n".join(reader.statics.describe(reader.step) for reader in self.readers)


class ValueNeededError(Exception):
    """Raised when lowering cannot go on without the values of inputs; caught by the specializer.

    Attributes
    ----------
    inputs
        The positions of the inputs, and after them of shared variables.
    request
        The request for them.
    node
        The node that decides something by their values; None if the values are to be static.
    """

    def __init__(self, inputs: Sequence[int], request: Request, node: Any = None) -> None:
        super().__init__("The values of inputs are needed.")
        self.inputs = tuple(inputs)
        self.request = request
        self.node = node


@dataclass
class Guards:
    """What a program takes for granted of the values of its arguments, beside static ones.

    Attributes
    ----------
    nodes
        The nodes that are to decide: loops (how many steps they take), branches (which is taken),
        and nodes whose results have as many elements as values say.
    values
        The values of arguments that they decide by, by position.
    hindrance
        Says why a program cannot depend on the value of an argument, by position and by whether a
        node only decides something by it; an empty string if it can.
    in_trace
        Whether the program is called under a JAX transformation.
    decided
        What nodes decided, in the order of lowering; None where arguments do not tell.
    tells_traces
        Whether a step asked whether the call is under a transformation.
    """

    nodes: frozenset[Any] = frozenset()
    values: Mapping[int, Any] = field(default_factory=dict)
    hindrance: Callable[[int, bool], str] = lambda *_: ""
    in_trace: bool = False
    decided: list[Any] = field(default_factory=list)
    tells_traces: bool = False

    def require(self, positions: Sequence[int], request: Request) -> list[Any]:
        """Return the values of arguments by which nodes decide, or raise what asks for values."""
        for text in filter(None, (self.hindrance(i, request.decides) for i in positions)):
            raise StaticShapeError(text).at(request.where)
        if not request.decides or not self.values.keys() >= {*positions}:
            raise ValueNeededError(positions, request)
        return [self.values[i] for i in positions]


class Around(NamedTuple):
    """The step that holds an inner plan.

    Attributes
    ----------
    statics, step
        The step, and the `Statics` of its plan.
    positions
        The step's input that each input of the inner plan is, or is a row of, or None where it is
        none of them; if this itself is None, they are the same.
    """

    statics: Statics
    step: Step
    positions: Sequence[int | Row | None] | None

    def require(self, positions: Sequence[int], request: Request) -> list[Any]:
        """Return the values of inputs of the inner plan, or raise what asks for those around."""
        return [self._value(i, request) for i in positions]

    def _value(self, position: int, request: Request) -> Any:
        outer = position if self.positions is None else self.positions[position]
        if isinstance(outer, int):
            return self.statics.values_of(self.step, [outer], request)[0]
        if isinstance(outer, Row) and request.over_steps:
            (rows,) = self.statics.values_of(self.step, [outer.position], request)
            if type(rows) is not PerStep:
                return PerStep(self.step.node, list(rows))
        raise StaticShapeError(_CHANGES).at(request.where)


class Statics:
    """Answers what rules ask of the values of a plan's variables.

    Parameters
    ----------
    plan
        The plan.
    values
        The values of its variables so far, by place; the driver adds to them.
    guards
        What the program takes for granted of its arguments.
    around
        For a plan inside of a step: that step.

    Attributes
    ----------
    guards
        The parameter.
    asked
        Whether the value of an input was asked for.
    """

    def __init__(
        self, plan: Plan, values: Sequence[Any], guards: Guards, around: Around | None
    ) -> None:
        self._plan = plan
        self._values = values
        self._source = around or guards
        self.guards = guards
        self.asked = False

    @property
    def is_inner(self) -> bool:
        """Whether the plan is inside of a step."""
        return self._source is not self.guards

    def describe(self, step: Step) -> str:
        """Return lines that name a step's node, its inputs and the user's line."""
        inputs = [self._values[place] for place in step.inputs]
        return self._plan.library.describe(step.node, inputs)

    def values_of(self, step: Step, positions: Sequence[int], request: Request) -> list[Any]:
        """Return the values of a step's inputs, or raise what asks for those of arguments."""
        places = [step.inputs[i] for i in positions]
        found: dict[int, Any] = {place: static_value(self._values[place]) for place in places}
        targets = [place for place, value in found.items() if value is None]
        if targets:
            reader = Reader(self, step, tuple(positions))
            request = request._replace(readers=(*request.readers, reader))
            found |= self._evaluated(targets, request)
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
            raise error if error.located else error.at(request.where) from None

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
            ).at(request.where)
        self.asked = True
        values = self._source.require([leaves.index(place) for place in places], request)
        return dict(zip(places, values, strict=True))
