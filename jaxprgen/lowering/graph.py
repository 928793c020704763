"""What the walk needs to know of a graph library, and the graph in the walk's own terms."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

import jax
import numpy as np

from jaxprgen._jax import NARROW, SourceInfo
from jaxprgen.lowering.registry import Rule


class OutputType(NamedTuple):
    """What a node declares of one output. Sizes it may declare too are not always true."""

    dtype: np.dtype[Any]
    rank: int


class Step(NamedTuple):
    """One node to lower, with the places of its inputs and outputs in the list of values.

    ``source_info`` is the name and the line that its equations get.
    """

    node: Any
    rule: Rule
    folds: bool
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    types: tuple[OutputType | None, ...]
    source_info: SourceInfo


KEY: Any = jax.dtypes.prng_key
"""The dtype of the input that a program draws random numbers from."""


class Input(NamedTuple):
    """One input of a program: its name and its declared type."""

    name: str
    dtype: np.dtype[Any]
    shape: tuple[int | None, ...]
    """Sizes are None where the type leaves them open."""


class Shared(NamedTuple):
    """A variable that holds a value of its own, read whenever the program is called."""

    name: str
    dtype: np.dtype[Any]
    place: int
    read: Callable[[], Any]


class Library(Protocol):
    """A graph library, as the walk sees it. All methods are pure."""

    def evaluate(
        self, node: Any, inputs: Sequence[Any], wanted: Sequence[int] | None = None
    ) -> Sequence[Any]:
        """The node's outputs by the library's own reference implementation.

        Those that are not ``wanted`` may be anything.
        """
        ...

    def describe(self, node: Any, inputs: Sequence[Any]) -> str:
        """Several lines that name the node, its inputs' types and shapes and the user's line."""
        ...

    def name(self, variable: Any) -> str:
        """What the user calls a variable; empty if nothing."""
        ...

    def label(self, variable: Any) -> str:
        """What to call a variable in any case: its name, what computes it, or its value."""
        ...


@dataclass(frozen=True)
class Plan:
    """A graph ready to be lowered any number of times: what does not depend on shapes.

    ``values`` has one place per variable; constants, and what follows from them, stand in
    theirs, all others hold None. ``folded`` are the steps whose results stand there.
    ``variables`` are the library's own, and ``source_infos`` their names and lines, by place.
    ``generators`` are the places of the random number generators that no node computes; if there
    are any, the first input is a key, from which theirs are made.
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
    folded: tuple[Step, ...] = ()
    sizes: Mapping[int, int] = field(default_factory=dict[int, int])
    """The sizes, by place, that the user gives to results whose sizes values decide."""
    inner: Callable[[Any], Plan] | None = None
    """Gives the plan of a graph inside of an Op, made once."""
    generators: tuple[int, ...] = ()

    @functools.cached_property
    def producers(self) -> Mapping[int, tuple[Step, int]]:
        """The step that computes a variable, and which of its outputs that is, by place."""
        return {place: (step, i) for step in self.steps for i, place in enumerate(step.outputs)}

    @functools.cached_property
    def leaves(self) -> frozenset[int]:
        """The places of what is given to a program: inputs, shared variables, generators."""
        return frozenset((*self.input_places, *(s.place for s in self.shared), *self.generators))

    @functools.cached_property
    def narrow_steps(self) -> tuple[Step, ...]:
        """The steps with the dtypes that JAX computes in where x64 is off."""
        return tuple(
            step._replace(types=tuple(t and t._replace(dtype=_narrow(t.dtype)) for t in step.types))
            for step in self.steps
        )


def _narrow(dtype: np.dtype[Any]) -> np.dtype[Any]:
    return NARROW.get(dtype, dtype)
