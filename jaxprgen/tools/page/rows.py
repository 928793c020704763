"""The rows of a page: one for each equation of a program, one for each node of a graph.

Links say what belongs together: ``#v7`` is a variable of the program, ``#g7`` one of the graph,
``#e7`` an equation and ``#n7`` a node. ``data-v`` is what stands for a graph's variable in the
program, ``data-n`` the node that an equation came from, ``data-s`` a source line.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from html import escape
from pathlib import PurePath
from typing import Any

from jaxprgen import _jax
from jaxprgen._jax import Frame, Jaxpr, JaxprEqn, Var
from jaxprgen.emit.values import Broadcast, splat_value
from jaxprgen.runtime.observe import Node, Observation
from jaxprgen.tools.equations import atom_text, line_text, parameters, shorten, type_text
from jaxprgen.tools.page.cost import flops, result_bytes


def tag(name: str, *children: str, **attributes: object) -> str:
    """An HTML element. Its children are HTML already, the values of attributes are not."""
    written = "".join(
        f' {key.strip("_").replace("_", "-")}="{escape(str(value))}"'
        for key, value in attributes.items()
        if value is not None
    )
    return f"<{name}{written}>{''.join(children)}</{name}>"


def text(content: str) -> str:
    """What a user wrote, as HTML: escaped, and the beginning if it is long."""
    return escape(shorten(content))


def count(n: int | None, unit: str = "") -> str:
    """A number with up to three digits: ``34.1k``, ``34.1 kB``; ``?`` for one not known."""
    if n is None:
        return "?"
    size, prefixes = float(n), iter("kMGTPE")
    prefix = ""
    while size >= 999.5:
        size, prefix = size / 1000, next(prefixes)
    digits = f"{size:.1f}" if prefix and size < 99.95 else f"{size:.0f}"
    return f"{digits} {prefix}{unit}" if unit else f"{digits}{prefix}"


class Sources:
    """The lines of the user's that a page shows, each once.

    Attributes
    ----------
    texts
        File, line number and, if it can be read now, text of each.
    """

    def __init__(self) -> None:
        self.texts: list[str] = []
        self._places: dict[Frame, int] = {}

    def place(self, frame: Frame | None) -> int | None:
        """The place of a line in `texts`."""
        if frame is not None and frame not in self._places:
            self._places[frame] = len(self.texts)
            self.texts.append(f"{line_text(frame)}  {shorten(frame.text)}")
        return None if frame is None else self._places[frame]


class ProgramRows:
    """Makes the rows of a program, and of the programs inside it."""

    def __init__(
        self,
        names: Mapping[Var, str],
        ids: Mapping[Var, int],
        node_of: Mapping[int, int],
        sources: Sources,
    ) -> None:
        self._names, self._ids, self._node_of, self._sources = names, ids, node_of, sources
        self._number = 0
        self._bound: set[Var] = set()
        self._most = (1, 1)

    def rows(self, jaxpr: Jaxpr) -> Iterator[str]:
        """The rows of a whole program."""
        every = list(_every_equation(jaxpr))
        self._most = (
            max([1, *(flops(eqn) or 0 for eqn in every)]),
            max([1, *map(result_bytes, every)]),
        )
        heads = (tag("small", escape(head)) for head in ("FLOP", "bytes"))
        yield tag("p", tag("span"), tag("span"), *heads, class_="head")
        yield from self._program(jaxpr, None)

    def _program(self, jaxpr: Jaxpr, node: int | None) -> Iterator[str]:
        for what, variables in (("constants", jaxpr.constvars), ("inputs", jaxpr.invars)):
            if variables:
                yield self._line(what, tag("b", *map(self._binder, variables)))
        for eqn in jaxpr.eqns:
            of = self._node_of.get(id(eqn), node)
            yield self._equation(eqn, of)
            for name, inner in _jax.sub_jaxprs(eqn):
                yield f"<details open>{tag('summary', text(name))}"
                yield from self._program(inner, of)
                yield "</details>"
        yield self._line("outputs", " ".join(map(self._operand, jaxpr.outvars)))

    def _line(self, what: str, content: str) -> str:
        return tag("p", tag("em", escape(what)), tag("span", content))

    def _equation(self, eqn: JaxprEqn, node: int | None) -> str:
        key = f"e{self._number}"
        number = tag("a", str(self._number), href=f"#{key}")
        self._number += 1
        operation = tag("strong", text(eqn.primitive.name))
        if options := parameters(eqn):
            operation += tag("i", escape(f"[{options}]"))
        parts = [tag("b", *map(self._binder, eqn.outvars)), "=" if eqn.outvars else "", operation]
        line = " ".join([*filter(None, parts), *map(self._operand, eqn.invars)])
        return tag(
            "p",
            number,
            tag("span", line),
            *self._costs(flops(eqn), result_bytes(eqn)),
            id=key,
            data_n=node,
            data_s=self._sources.place(_jax.frame_of(eqn.source_info)),
        )

    def _costs(self, operations: int | None, size: int) -> list[str]:
        """Numbers, and a bar for each: its share of the dearest equation's."""
        shares = zip((operations or 0, size), self._most, strict=True)
        bars = [tag("rect", width=f"{n / most:.0%}") for n, most in shares]
        return [
            tag("small", count(operations) if operations != 0 else ""),
            tag("small", count(size)),
            tag("svg", *bars),
        ]

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


def _every_equation(jaxpr: Jaxpr) -> Iterator[JaxprEqn]:
    for eqn in jaxpr.eqns:
        yield eqn
        for _, inner in _jax.sub_jaxprs(eqn):
            yield from _every_equation(inner)


class GraphRows:
    """Makes the rows of a graph: its inputs and the constants that a program needs, its nodes."""

    def __init__(
        self,
        observation: Observation,
        names: Mapping[Var, str],
        ids: Mapping[Var, int],
        sources: Sources,
    ) -> None:
        self._observation, self._names = observation, names
        self._ids, self._sources = ids, sources
        closed = observation.closed_jaxpr
        constvars = {id(c): v for v, c in zip(closed.jaxpr.constvars, closed.consts, strict=True)}
        self._standing = [_standing(value, constvars) for value in observation.values]
        self._op_of = {place: node.op for node in observation.nodes for place in node.outputs}

    def rows(self) -> Iterator[str]:
        """The rows of the whole graph."""
        inputs = self._observation.inputs
        for place in inputs:
            yield self._leaf("input", place)
        for place, v in enumerate(self._standing):
            if v in self._ids and place not in self._op_of and place not in inputs:
                yield self._leaf("constant", place)
        for i, node in enumerate(self._observation.nodes):
            yield self._node(i, node)

    def _leaf(self, what: str, place: int) -> str:
        names = tag("b", self._binder(place))
        frame = self._observation.frames[place]
        return tag(
            "p",
            tag("mark", what),
            tag("span", names),
            tag("code", escape(_source(frame))),
            id=f"g{place}-row",
            class_="leaf",
            data_s=self._sources.place(frame),
        )

    def _node(self, i: int, node: Node) -> str:
        op = tag("a", text(node.op), href=f"#n{i}")
        line = [tag("b", *map(self._binder, node.outputs)), "=", op, *map(self._use, node.inputs)]
        n = len(node.equations)
        costs = f"{n} equation{'' if n == 1 else 's'}, {count(node.nbytes, 'B')}" if n else ""
        frame = node.frame
        where = _source(frame)
        return tag(
            "p",
            tag("mark", escape(node.how)),
            tag("span", " ".join(line)),
            tag("small", costs),
            tag("code", escape(where)),
            id=f"n{i}",
            class_=node.how.replace(" ", "-"),
            data_s=self._sources.place(frame),
        )

    def _binder(self, place: int) -> str:
        kind = f":{self._observation.types[place]}" if self._observation.types[place] else ""
        output = " output" if place in self._observation.outputs else ""
        return self._link(place, f"g{place}") + tag("i", escape(kind + output)) + " "

    def _use(self, place: int) -> str:
        if place in self._op_of or place in self._observation.inputs or self._id(place) is not None:
            return self._link(place, None)
        return text(self._observation.labels[place])

    def _link(self, place: int, key: str | None) -> str:
        shown = text(self._name(place))
        return tag("a", shown, id=key, href=f"#g{place}", data_v=self._id(place))

    def _id(self, place: int) -> int | None:
        """The number of the program's variable that stands for one of the graph."""
        v = self._standing[place]
        return None if v is None else self._ids.get(v)

    def _name(self, place: int) -> str:
        """The user's name; or that of what stands for it in the program, a number or a variable."""
        label, v = self._observation.labels[place], self._standing[place]
        if label != f"result of {self._op_of.get(place)}":
            return label
        if v is not None:
            return self._names.get(v, label)
        number = splat_value(self._observation.values[place])
        return label if number is None else str(number)


def _source(frame: Frame | None) -> str:
    """A line, for reading beside a node."""
    return f"{PurePath(frame.file).name}:{frame.line} {shorten(frame.text)}" if frame else ""


def _standing(value: Any, constvars: Mapping[int, Var]) -> Var | None:
    """The variable that a value is, or repeats."""
    x = value.operand if type(value) is Broadcast else value
    return x if type(x) is Var else constvars.get(id(x))
