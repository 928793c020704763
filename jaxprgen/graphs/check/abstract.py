"""Lower a plan whose arguments are unknown, by the driver and the rules that `compile` uses."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeAlias

import jax
import numpy as np

from jaxprgen import _jax
from jaxprgen.arguments.inputs import KEY
from jaxprgen.emit.random import Stream
from jaxprgen.emit.values import Array, Shape, Value
from jaxprgen.errors import (
    CallbackError,
    EquationError,
    JaxprGenError,
    LoweringError,
    StaticShapeError,
    UnsupportedOpError,
)
from jaxprgen.graphs.library import is_array
from jaxprgen.ir import Builder
from jaxprgen.lowering.driver import Lowering
from jaxprgen.lowering.graph import Plan, Step
from jaxprgen.lowering.names import Apply, Variable
from jaxprgen.lowering.static import Guards, ValueNeededError

SIZE = 6
"""The size that stands for undeclared ones, and the number that stands for those that are asked."""
Sizes: TypeAlias = Mapping[tuple[int, int], Any]
"""The sizes that stand for undeclared ones, by the input's position and the axis."""
_DEFINITE = StaticShapeError, UnsupportedOpError, EquationError, CallbackError
"""Errors that no other sizes or values would avoid."""
_UNKNOWN = object()
"""Stands for a result of a failed node that is neither an array nor a generator."""


class Need(NamedTuple):
    """Inputs of a node whose values decide its shape, and the plan's inputs that decide them."""

    inputs: set[Variable]
    leaves: set[Variable]


@dataclass
class Lowered:
    """The findings of lowering a plan, by node.

    Attributes
    ----------
    needs
        The values that decide shapes.
    refused
        The errors of nodes that cannot be lowered.
    unclear
        The errors of nodes that cannot be lowered with the sizes that stand for undeclared ones.
    lowered
        Nodes that were lowered, be it before it was known which values others need.
    """

    needs: dict[Apply, Need] = field(default_factory=dict)
    refused: dict[Apply, JaxprGenError] = field(default_factory=dict)
    unclear: dict[Apply, JaxprGenError] = field(default_factory=dict)
    lowered: set[Apply] = field(default_factory=set)


def lower_abstractly(plan: Plan, nodes: Collection[Apply]) -> Lowered:
    """Lower a plan for arguments of which only the declared types are known.

    One size stands for all undeclared ones. If a node refuses it, symbols stand for them instead:
    such a program takes for granted that sizes are equal that have to be.

    Parameters
    ----------
    plan
        The plan, all of whose nodes have rules.
    nodes
        The nodes of the graph. Findings inside of a node are attributed to it.
    """
    axes = [(i, d) for i, x in enumerate(plan.inputs) for d, n in enumerate(x.shape) if n is None]
    first = _Attempt(plan, nodes, dict.fromkeys(axes, SIZE)).run()
    if not first.unclear or not axes:
        return first
    scope = jax.export.SymbolicScope()
    symbols = (jax.export.symbolic_shape(f"n{i}", scope=scope)[0] for i in range(len(axes)))
    second = _Attempt(plan, nodes, dict(zip(axes, symbols, strict=True))).run()
    for errors in (first.unclear, first.refused):
        for node in errors.keys() & second.lowered:
            del errors[node]
    return first


class _Attempt:
    """Lower a plan for one choice of sizes, again and again until no more values are needed."""

    def __init__(self, plan: Plan, nodes: Collection[Apply], sizes: Sizes) -> None:
        self._plan, self._nodes, self._sizes = plan, nodes, sizes
        values = [s.read() for s in plan.shared]
        self._shared = [x if _jax.is_on_several_devices(x) else np.asarray(x) for x in values]
        self._shapes = [
            tuple(sizes[i, d] if n is None else n for d, n in enumerate(declared.shape))
            for i, declared in enumerate(plan.inputs)
        ]
        # The positions of values that are needed, and of those by which nodes decide.
        self._known: set[int] = set()
        self._asked: set[int] = set()
        self._deciding: set[Any] = set()
        self._found = Lowered()

    def run(self) -> Lowered:
        """Return the findings."""
        needed, before = (self._known, self._asked, self._deciding), -1
        while before != sum(map(len, needed)):
            before = sum(map(len, needed))
            found = self._found = Lowered(self._found.needs, lowered=self._found.lowered)
            with Builder(map(self._type, range(len(self._shapes)))) as builder:
                self._lower(builder)
            found.lowered |= {*self._nodes} - {*found.needs, *found.refused, *found.unclear}
        return self._found

    def _lower(self, builder: Builder) -> None:
        """Lower every step, and the outputs. Stand-ins take the place of results that fail."""
        plan = self._plan
        known, asked = ({i: self._value(i) for i in each} for each in (self._known, self._asked))
        guards = Guards(frozenset(self._deciding), asked)
        lowering = Lowering(
            plan, builder, self._shared, known, checks=False, announce=_ignore, guards=guards
        )
        values = lowering.values
        for step in lowering.steps:
            xs = [values[place] for place in step.inputs]
            if any(x is _UNKNOWN for x in xs) or not self._try(step, lowering.lower_steps, [step]):
                for place in step.outputs:
                    values[place] = _stand_in(plan.variables[place], xs)
        for place in plan.output_places:
            if place in plan.producers:
                self._try(plan.producers[place][0], lowering.output, place)

    def _try(self, step: Step, lower: Callable[..., object], *args: object) -> bool:
        """Return whether a step, or its output, can be lowered; note why not."""
        found, node = self._found, _node_of(step)
        try:
            lower(*args)
        except ValueNeededError as needed:
            self._note(needed, node)
        except JaxprGenError as error:
            is_chosen = self._sizes or self._known or self._asked or found.refused
            is_definite = isinstance(error, _DEFINITE)
            if isinstance(error, LoweringError):  # The values that it needs may be of wrong sizes.
                is_definite = node not in found.needs or not self._sizes
            if is_definite or not is_chosen:
                found.refused[node] = error
            elif node not in found.needs:  # Otherwise its values may be wrong, too.
                found.unclear[node] = error
        else:
            return True
        return False

    def _note(self, needed: ValueNeededError, node: Apply) -> None:
        """Note which values are needed, by the innermost node of the graph that asks for them."""
        if needed.node is None:
            self._known.update(needed.inputs)
        else:
            self._asked.update(needed.inputs)
            self._deciding.add(needed.node)
        inputs: list[Variable] = []
        for _, step, positions in needed.request.readers:
            if _node_of(step) in self._nodes:
                node, inputs = _node_of(step), [step.node.inputs[i] for i in positions]
                break
        plan, need = self._plan, self._found.needs.setdefault(node, Need(set(), set()))
        places = [*plan.input_places, *(s.place for s in plan.shared)]
        need.inputs.update(inputs)
        need.leaves.update(plan.variables[places[i]] for i in needed.inputs)

    def _type(self, i: int) -> Any:
        if self._plan.inputs[i].dtype is KEY:
            return _type(_jax.default_prng_impl().key_shape, np.uint32)
        return _type(self._shapes[i], self._plan.inputs[i].dtype)

    def _value(self, i: int) -> Array:
        if i >= len(self._shapes):
            return np.asarray(self._shared[i - len(self._shapes)])
        shape = tuple(SIZE if _jax.is_symbolic(n) else n for n in self._shapes[i])
        return np.full(shape, SIZE).astype(self._plan.inputs[i].dtype)


def _ignore(*_: object) -> None:
    """Announce nothing."""


def _type(shape: Shape, dtype: Any) -> Any:
    return _jax.type_of(jax.ShapeDtypeStruct(shape, _jax.canonicalize_dtype(np.dtype(dtype))))


def _node_of(step: Step) -> Apply:
    """Return the node of the graph that a step lowers, even if it is gathered with others."""
    return step.node.outputs[0].owner


def _stand_in(variable: Variable, xs: Sequence[Any]) -> Any:
    """Return a value of the type of a node's result; for a generator, its state before the node."""
    if is_array(variable):
        shape = tuple(SIZE if n is None else n for n in getattr(variable.type, "shape", ()))
        return Value(_jax.Var(_type(shape, variable.type.dtype)))
    return next((x for x in xs if isinstance(x, Stream)), _UNKNOWN)
