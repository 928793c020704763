"""What rules emitted before, to be repeated where the same is asked for again.

Gradients, unrolled loops and sums of many alike terms ask for the same over and over: one Op, of
inputs of the same types or the same known values. What a rule that looks at nothing else emits
then differs by its variables alone, and to repeat it takes a fraction of what the rule does.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any, NamedTuple

import numpy as np

from jaxprgen._jax import SourceInfo, Var, has_no_lines, identity, sub_jaxprs
from jaxprgen.emit.values import Array, Broadcast, Shape, fill_key
from jaxprgen.ir import Builder
from jaxprgen.ir.builder import Made, Mark, Template

_MOST = 4096
"""Fragments up to which they are kept: beyond, memory would grow with the graph."""


class _Repeated(NamedTuple):
    """A result that is the broadcast of a variable, which has a number."""

    number: int
    shape: tuple[int, ...]


class Fragment(NamedTuple):
    """What a rule emitted, and gave, with numbers for variables: inputs, then what is made.

    Attributes
    ----------
    constants
        Arrays that stand for the last inputs, in the order in which they are asked for, and
        whether for all that are equal.
    template
        The equations, as `Builder.repeat` takes them.
    results
        Variables by their numbers, and what is known as it is.
    fills
        What equations made of broadcasts, for all who read these: what they repeat, a variable by
        its number, their shape, and the number of the result.
    announced
        What was announced of each node.
    values
        What the key tells by identity, and must live as long.
    """

    constants: Sequence[tuple[Array, bool]]
    template: Template
    results: Sequence[Any]
    fills: Sequence[tuple[Any, Shape, int]]
    announced: Sequence[str]
    values: Sequence[Any]

    def repeat(self, b: Builder, variables: list[Var]) -> list[Any] | None:
        """Append the equations for other inputs; the results.

        None if one of the broadcasts was made by others before.
        """
        constants, template, results, fills, _, _ = self
        for x, shape, _ in fills:
            known = type(x) is not int or x < len(variables)
            if known and b.was_made(fill_key(_numbered(x, variables), shape)):
                return None
        for x, equal in constants:
            variables.append(b.constant(x, equal=equal))
        if template:
            b.repeat(template, variables)
        for x, shape, number in fills:
            made = variables[number], _numbered(x, variables)
            b.once(fill_key(made[1], shape), lambda made=made: made)
        return [
            variables[x]
            if type(x) is int
            else Broadcast(variables[x.number], x.shape)
            if type(x) is _Repeated
            else x
            for x in results
        ]


class _Record(NamedTuple):
    """What a rule emitted, and gave. Most is asked for once, and so is not made a `Fragment`."""

    values: Sequence[Any]
    variables: Sequence[Var]
    made: Made
    source_info: SourceInfo
    results: Sequence[Any]
    announced: Sequence[str]

    def fragment(self) -> Fragment | None:
        """The fragment, if to repeat it is to emit it again.

        It is not if it reads other variables, if equations have lines of their own, as those in
        programs inside of them have, or if something else than broadcasts is made once for all.
        """
        asked = {v: (x, equal) for v, x, equal in self.made.constants if v not in self.variables}
        numbers = {v: i for i, v in enumerate((*self.variables, *asked))}
        template: Template = []
        for eqn in self.made.equations:
            operands = [numbers.get(x) if type(x) is Var else x for x in eqn.invars]
            if any(x is None for x in operands) or eqn.source_info is not self.source_info:
                return None
            if eqn.params and not all(has_no_lines(jaxpr) for _, jaxpr in sub_jaxprs(eqn)):
                return None
            for v in eqn.outvars:
                numbers[v] = len(numbers)  # type: ignore[index]
            types = [v.aval for v in eqn.outvars]
            template.append((eqn.primitive, eqn.params, eqn.effects, operands, types))
        results: list[Any] = []
        for x in self.results:
            source = _source(x)
            if isinstance(source, np.ndarray):
                results.append(x)
            elif source in numbers:
                number = numbers[source]
                results.append(number if source is x else _Repeated(number, x.shape))
            else:
                return None
        fills: list[tuple[Any, Shape, int]] = []
        for key, value in self.made.once:
            if key[0] != "broadcast":
                return None
            filled, x = value
            fills.append((numbers[x] if type(x) is Var else x, key[2], numbers[filled]))
        constants = list(asked.values())
        return Fragment(constants, template, results, fills, self.announced, self.values)


class Fragments:
    """The fragments of one plan, under certain settings."""

    def __init__(self) -> None:
        self._found: dict[Hashable, _Record | Fragment | None] = {}

    def find(self, key: Hashable) -> Fragment | None:
        """The fragment for a key, if there is one."""
        found = self._found.get(key)
        if type(found) is _Record:
            found = self._found[key] = found.fragment()
        return found  # type: ignore[return-value]

    def keep(
        self,
        key: Hashable,
        b: Builder,
        since: Mark,
        values: Sequence[Any],
        results: Sequence[Any],
        announced: Sequence[str],
    ) -> None:
        """Keep what a rule emitted since a mark, gave and announced, for these values."""
        if key in self._found or len(self._found) >= _MOST:
            return
        variables = key_of(0, values)[1]
        made = b.since(since)
        self._found[key] = _Record(values, variables, made, b.source_info, results, announced)


def key_of(kind: int, values: Sequence[Any]) -> tuple[Hashable, list[Var]]:
    """What a fragment is found by, and the variables that it is of, each once.

    Types of variables are told by identity, as equal ones are the same, and so is what is known:
    to compare it would take as long as to emit.
    """
    key: list[Any] = [kind]
    variables: list[Var] = []
    for x in values:
        if type(x) is Broadcast:
            key.append(x.shape)
            x = x.operand
        if type(x) is not Var:
            key.append(identity(x))
        elif variables and x in variables:
            key.append(variables.index(x))  # No address is as small.
        else:
            variables.append(x)
            key.append(identity(x.aval))
    return tuple(key), variables


def _numbered(x: Any, variables: Sequence[Var]) -> Any:
    return variables[x] if type(x) is int else x


def _source(x: Any) -> Any:
    return x.operand if type(x) is Broadcast else x
