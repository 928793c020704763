"""The listings of a page: a row for each equation of a program and for each node of a graph.

The page's script links rows by these attributes: ``#v7`` is a variable of the program, ``#g7`` a
variable of the graph, ``#e7`` an equation and ``#n7`` a node. ``data-v`` is the program variable
that holds a graph variable, ``data-n`` the node that emitted an equation, and ``data-s`` a source
line.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from html import escape
from pathlib import PurePath
from typing import Any

from jaxprgen import _jax
from jaxprgen._jax import Frame, Jaxpr, JaxprEqn, Var
from jaxprgen.emit.values import Value
from jaxprgen.ir.describe import atom_text, parameters_text, type_text
from jaxprgen.passes.repeat_notes import Repeat
from jaxprgen.runtime.observe import Node, Observation, alike, operand_of
from jaxprgen.texts import visible
from jaxprgen.tools.page.cost import flops, result_bytes
from jaxprgen.tools.page.elements import SourceLines, metric, tag, user_text


class ProgramListing:
    """The rows of a program and of the programs inside it."""

    def __init__(
        self,
        names: Mapping[Var, str],
        ids: Mapping[Var, int],
        node_of: Mapping[int, int],
        sources: SourceLines,
        repeated: Mapping[Var, Repeat],
    ) -> None:
        self._names, self._ids, self._node_of, self._sources = names, ids, node_of, sources
        self._repeated = repeated
        self._number = 0
        self._bound: set[Var] = set()
        self._maxima = (1, 1)

    def rows(self, jaxpr: Jaxpr) -> Iterator[str]:
        """Yield the rows of a whole program."""
        eqns = list(_jax.every_equation(jaxpr))
        self._maxima = (
            max([1, *(flops(eqn) or 0 for eqn in eqns)]),
            max([1, *map(result_bytes, eqns)]),
        )
        heads = (tag("small", escape(head)) for head in ("FLOP", "bytes"))
        yield tag("p", tag("span"), tag("span"), *heads, class_="head")
        yield from self._program(jaxpr, None, None)

    def _program(self, jaxpr: Jaxpr, node: int | None, around: Frame | None) -> Iterator[str]:
        for title, variables in (("constants", jaxpr.constvars), ("inputs", jaxpr.invars)):
            if variables:
                yield self._row(title, tag("b", *map(self._binder, variables)))
        for eqn in jaxpr.eqns:
            own_node = self._node_of.get(id(eqn), node)
            frame = _jax.frame_of(eqn.source_info) or around
            yield self._equation(eqn, own_node, frame)
            for name, inner in _jax.sub_jaxprs(eqn):
                yield f"<details open>{tag('summary', user_text(name))}"
                yield from self._program(inner, own_node, frame)
                yield "</details>"
        yield self._row("outputs", " ".join(map(self._operand, jaxpr.outvars)))

    def _row(self, title: str, content: str) -> str:
        return tag("p", tag("em", escape(title)), tag("span", content))

    def _equation(self, eqn: JaxprEqn, node: int | None, frame: Frame | None) -> str:
        key = f"e{self._number}"
        number = tag("a", str(self._number), href=f"#{key}")
        self._number += 1
        operation = tag("strong", user_text(eqn.primitive.name))
        if parameters := parameters_text(eqn):
            operation += tag("i", escape(f"[{parameters}]"))
        parts = [tag("b", *map(self._binder, eqn.outvars)), "=" if eqn.outvars else "", operation]
        line = " ".join([*filter(None, parts), *map(self._operand, eqn.invars)])
        line += times_text(repetitions(eqn, self._repeated))
        parts = [number, tag("span", line), *self._costs(flops(eqn), result_bytes(eqn))]
        return tag("p", *parts, id=key, data_n=node, data_s=self._sources.index(frame))

    def _costs(self, operations: int | None, size: float) -> list[str]:
        """Both costs, and for each a bar relative to the most expensive equation."""
        shares = zip((operations or 0, size), self._maxima, strict=True)
        bars = [tag("rect", width=f"{0 if n == math.inf else n / most:.0%}") for n, most in shares]
        number = tag("small", metric(operations) if operations != 0 else "")
        return [number, tag("small", metric(size)), tag("svg", *bars)]

    def _binder(self, v: Any) -> str:
        kind = tag("i", escape(f":{type_text(v.aval)}"))
        if type(v) is not Var:
            return f"_{kind} "
        first = v not in self._bound  # JAX may bind one variable in two programs.
        self._bound.add(v)
        key = f"v{self._ids[v]}"
        link = tag("a", escape(self._names[v]), id=key if first else None, href=f"#{key}")
        return f"{link}{kind} "

    def _operand(self, x: Any) -> str:
        shown = escape(atom_text(x, self._names))
        return tag("a", shown, href=f"#v{self._ids[x]}") if type(x) is Var else shown


def repetitions(eqn: JaxprEqn, repeated: Mapping[Any, Repeat]) -> int:
    """Return how many repetitions an equation computes together."""
    return max((repeated[v].times for v in eqn.outvars if v in repeated), default=1)


def times_text(count: int) -> str:
    """Return HTML that says how often something repeats, if it does."""
    return tag("em", f" × {count}") if count > 1 else ""


_MANY = 8
"""The number of alike nodes from which on one row stands for all of them."""


class GraphListing:
    """The rows of a graph: its inputs, the constants that the program reads, and its nodes.

    The first of many alike nodes that have no equations of their own stands for all of them, and
    the others are folded below it.
    """

    def __init__(
        self,
        observation: Observation,
        names: Mapping[Var, str],
        ids: Mapping[Var, int],
        sources: SourceLines,
    ) -> None:
        self._observation, self._names = observation, names
        self._ids, self._sources = ids, sources
        closed = observation.closed_jaxpr
        constvars = {id(c): v for v, c in zip(closed.jaxpr.constvars, closed.consts, strict=True)}
        operands = map(operand_of, observation.values)
        self._var_of = [x if type(x) is Var else constvars.get(id(x)) for x in operands]
        self._op_of = {place: node.op for node in observation.nodes for place in node.outputs}

    def rows(self) -> Iterator[str]:
        """Yield the rows of the whole graph."""
        inputs = self._observation.inputs
        for place in inputs:
            yield self._leaf("input", place)
        for place, v in enumerate(self._var_of):
            if v in self._ids and place not in self._op_of and place not in inputs:
                yield self._leaf("constant", place)
        places = {id(node): i for i, node in enumerate(self._observation.nodes)}
        rows: dict[int, list[Node]] = {}
        for nodes in alike(self._observation.nodes):
            is_one = len(nodes) >= _MANY and not all(node.equations for node in nodes)
            for group in [nodes] if is_one else [[node] for node in nodes]:
                rows[places[id(group[0])]] = group
        for i in sorted(rows):
            first, *others = rows[i]
            yield self._node(i, first, rows[i])
            if others:
                kind = first.how.replace(" ", "-")
                yield f'<details class="copies {kind}">{tag("summary", f"{len(others)} more")}'
                yield from (self._node(places[id(node)], node, [node]) for node in others)
                yield "</details>"

    def _leaf(self, kind: str, place: int) -> str:
        names = tag("b", self._binder(place))
        frame = self._observation.frames[place]
        parts = tag("mark", kind), tag("span", names), tag("code", escape(_source_text(frame)))
        source = self._sources.index(frame)
        return tag("p", *parts, id=f"g{place}-row", class_="leaf", data_s=source)

    def _node(self, i: int, node: Node, nodes: Sequence[Node]) -> str:
        """Return the row of a node, with the costs of all nodes that it stands for."""
        op = tag("a", user_text(node.op), href=f"#n{i}")
        line = [tag("b", *map(self._binder, node.outputs)), "=", op, *map(self._use, node.inputs)]
        n, nbytes = sum(len(x.equations) for x in nodes), sum(x.nbytes for x in nodes)
        costs = f"{n} equation{'' if n == 1 else 's'}, {metric(nbytes, 'B')}" if n else ""
        return tag(
            "p",
            tag("mark", escape(node.how)),
            tag("span", " ".join(line) + times_text(len(nodes))),
            tag("small", costs),
            tag("code", escape(_source_text(node.frame))),
            id=f"n{i}",
            class_=node.how.replace(" ", "-"),
            data_s=self._sources.index(node.frame),
        )

    def _binder(self, place: int) -> str:
        kind = f":{self._observation.types[place]}" if self._observation.types[place] else ""
        output = " output" if place in self._observation.outputs else ""
        return self._link(place, f"g{place}") + tag("i", escape(kind + output)) + " "

    def _use(self, place: int) -> str:
        if place in self._op_of or place in self._observation.inputs or self._id(place) is not None:
            return self._link(place, None)
        return user_text(self._observation.labels[place])

    def _link(self, place: int, key: str | None) -> str:
        shown = user_text(self._name(place))
        return tag("a", shown, id=key, href=f"#g{place}", data_v=self._id(place))

    def _id(self, place: int) -> int | None:
        """The number of the program variable that holds a graph variable, if there is one."""
        v = self._var_of[place]
        return None if v is None else self._ids.get(v)

    def _name(self, place: int) -> str:
        """The user's name, or else the name or number that the variable has in the program."""
        label, v = self._observation.labels[place], self._var_of[place]
        if label != f"result of {self._op_of.get(place)}":
            return label
        if v is not None:
            return self._names.get(v, label)
        value = self._observation.values[place]
        number = value.fill_value if isinstance(value, Value) else None
        return label if number is None else str(number)


def _source_text(frame: Frame | None) -> str:
    return f"{PurePath(frame.file).name}:{frame.line} {visible(frame.text)}" if frame else ""
