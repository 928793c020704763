"""Graphs as the driver takes them, and what it asks of a graph library."""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

import numpy as np
from jax.sharding import NamedSharding

from jaxprgen._jax import NARROW, SourceInfo
from jaxprgen.arguments.inputs import Input
from jaxprgen.lowering.registry import Registration


class OutputType(NamedTuple):
    """What a node declares of one output. Declared sizes are left out: they are not always true."""

    dtype: np.dtype[Any]
    rank: int


class Step(NamedTuple):
    """One node to lower.

    Attributes
    ----------
    node
        The graph library's node.
    registration
        The rule that lowers it, and what that rule declares.
    inputs, outputs
        The places of its inputs and outputs in the list of values.
    types
        The declared types of its outputs; None for outputs that are not arrays.
    source_info
        The name and the line that its equations get.
    may_fail
        Whether only branches need the node: an error is raised where one of them is emitted.
    """

    node: Any
    registration: Registration
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    types: tuple[OutputType | None, ...]
    source_info: SourceInfo
    may_fail: bool = False


class Shared(NamedTuple):
    """A variable with a value of its own, which every call reads."""

    name: str
    dtype: np.dtype[Any]
    place: int
    read: Callable[[], Any]


class Library(Protocol):
    """A graph library, as the driver sees it. All methods are pure."""

    def evaluate(
        self, node: Any, inputs: Sequence[Any], wanted: Sequence[int] | None = None
    ) -> Sequence[Any]:
        """Return the node's outputs by the library's own reference implementation.

        Outputs that are not ``wanted`` may be anything.
        """
        ...

    def describe(self, node: Any, inputs: Sequence[Any]) -> str:
        """Return lines that name the node, its inputs' types and shapes, and the user's line."""
        ...

    def rank(self, variable: Any) -> int | None:
        """Return the rank that a variable is declared with; None if it is not an array."""
        ...

    def label(self, variable: Any) -> str:
        """Return a name for a variable in any case: its own, what computes it, or its value."""
        ...


@dataclass(frozen=True)
class Plan:
    """A graph ready to be lowered any number of times: all that does not depend on arguments.

    Attributes
    ----------
    library
        The graph library.
    variables, source_infos
        The library's variables, and their names and lines, by place.
    inputs, input_places
        The inputs of programs, and their places.
    output_places
        The places of the outputs.
    shared
        The shared variables.
    values
        Constants by place; None for all other variables. JAX arrays, which several devices hold,
        are operands of programs: nothing reads their values.
    steps
        The steps to lower, in the order of computing.
    sizes
        The user's sizes of results whose sizes depend on values, by place.
    shardings
        How arrays live on a mesh of devices, by the places of leaves and outputs.
    carried
        The outputs that are the next values of inputs, and these inputs, by position. They live as
        the inputs do.
    data
        The positions of inputs that seldom change from call to call.
    arguments, results
        The formats of arguments and results that are sparse matrices, by position. Each of them is
        four inputs or outputs; see `jaxprgen.arguments.sparse`.
    keys
        How many of the last inputs are keys that NumPy's global generator draws.
    inner
        Returns the plan of a graph inside of an Op, made once.
    generators
        The places of random number generators that no node computes. If there are any, the first
        input is a key, from which theirs are made.
    reduced
        What pickles in place of a plan of a whole graph: a function, and arguments with which it
        returns this plan.
    """

    library: Library
    variables: tuple[Any, ...]
    source_infos: Sequence[SourceInfo]
    inputs: tuple[Input, ...]
    input_places: tuple[int, ...]
    output_places: tuple[int, ...]
    shared: tuple[Shared, ...]
    values: list[Any]
    steps: tuple[Step, ...]
    sizes: Mapping[int, int] = field(default_factory=dict[int, int])
    shardings: Mapping[int, NamedSharding] = field(default_factory=dict[int, Any])
    carried: Mapping[int, int] = field(default_factory=dict[int, int])
    data: Collection[int] = ()
    arguments: Mapping[int, str] = field(default_factory=dict[int, str])
    results: Mapping[int, str] = field(default_factory=dict[int, str])
    keys: int = 0
    inner: Callable[[Any], Plan] | None = None
    generators: tuple[int, ...] = ()
    reduced: Callable[[], tuple[Any, ...]] | None = None

    def __reduce__(self) -> Any:
        return self.reduced() if self.reduced else super().__reduce__()

    @functools.cached_property
    def producers(self) -> Mapping[int, tuple[Step, int]]:
        """The step that computes each variable, and which of its outputs that is, by place."""
        return {place: (step, i) for step in self.steps for i, place in enumerate(step.outputs)}

    @functools.cached_property
    def leaves(self) -> frozenset[int]:
        """The places of inputs, shared variables and generators."""
        return frozenset((*self.input_places, *(s.place for s in self.shared), *self.generators))

    @functools.cached_property
    def narrow_steps(self) -> tuple[Step, ...]:
        """The steps with the dtypes in which JAX computes while x64 is off."""
        return tuple(
            step._replace(types=tuple(t and t._replace(dtype=_narrow(t.dtype)) for t in step.types))
            for step in self.steps
        )


def _narrow(dtype: np.dtype[Any]) -> np.dtype[Any]:
    return NARROW.get(dtype, dtype)
