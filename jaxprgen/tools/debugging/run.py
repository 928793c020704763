"""One run of a program on values: every value when it is there, and what is wrong with it."""

from __future__ import annotations

import difflib
import itertools
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

import jax
import numpy as np

from jaxprgen import _jax
from jaxprgen._jax import ClosedJaxpr, Frame, JaxprEqn, Var
from jaxprgen.emit.values import Broadcast, known, shape_of
from jaxprgen.errors import UnknownNameError
from jaxprgen.runtime.data import to_device
from jaxprgen.runtime.observe import Node
from jaxprgen.tools.debugging.evaluate import NUMERIC, Evaluated, evaluate, holds, out_of_bounds
from jaxprgen.tools.debugging.finding import (
    Finding,
    Where,
    bad_index,
    failed_check,
    not_finite,
    where_is,
)
from jaxprgen.tools.names import binder_names


class Moment(NamedTuple):
    """A value that has just been computed.

    Attributes
    ----------
    name, value
        What it is called, and the array.
    values
        All values so far by their names; in a loop, those of the last iteration.
    op, frame, equation, iterations
        Where it comes from, see `jaxprgen.tools.debugging.finding.Where`.
    """

    name: str
    value: Any
    values: Mapping[str, Any]
    op: str
    frame: Frame | None
    equation: str
    iterations: tuple[tuple[str, int], ...]


class Subject(NamedTuple):
    """A program, its arguments, and the graph beside it as in an `Observation`.

    ``restore`` makes the function's result of the program's outputs.
    """

    closed: ClosedJaxpr
    operands: Sequence[Any]
    restore: Callable[[list[Any]], Any]
    names: Mapping[Var, str] = {}  # Never written to.
    nodes: Sequence[Node] = ()
    labels: Sequence[str] = ()
    frames: Sequence[Frame | None] = ()
    values: Sequence[Any] = ()
    inputs: Sequence[int] = ()


class Run:
    """One run.

    Parameters
    ----------
    subject
        What is run.
    find
        The kinds of findings that are looked for.
    wanted
        Names of variables that moments are wanted for, whatever else these are called.

    Raises
    ------
    UnknownNameError
        A wanted name is not there.
    """

    def __init__(self, subject: Subject, find: Collection[str], wanted: Collection[str]) -> None:
        self._subject, self._find, self._wanted = subject, find, wanted
        self._names: Mapping[Any, str] = binder_names(subject.closed.jaxpr, subject.names)
        self._node_of = {id(eqn): node for node in subject.nodes for eqn in node.equations}
        self._other_names = _other_names(subject, self._names, wanted)
        self._values: dict[Any, Any] = {}
        self._named: dict[str, Any] = {}
        # Of the node whose equations are being evaluated: the first of each kind.
        self._suspects: dict[str, Finding] = {}
        # Arrays of one literal, as good as it.
        self._spelled_out = set[Any]()
        # What was found of which node or equation, for a loop evaluates one many times.
        self._found = set[tuple[int, str]]()

    def outputs(self) -> Any:
        """What the function returns."""
        outvars: Sequence[Any] = self._subject.closed.jaxpr.outvars
        return self._subject.restore(
            [
                self._values[x] if type(x) is Var else _on_device(x.val, x.aval.dtype)
                for x in outvars
            ]
        )

    def events(self) -> Iterator[Moment | Finding]:
        """Every value when it is there, and behind it what is wrong with it."""
        yield from self._arguments()
        yield from self._constants()
        yield from self._folded()
        closed = self._subject.closed
        operands = [self._values[v] for v in closed.jaxpr.invars]
        for done in evaluate(closed, operands):
            node = self._node_of.get(id(done.within[0].eqn if done.within else done.eqn))
            where = where_is(done, node, self._names)
            for v, value in zip(done.eqn.outvars, done.results, strict=True):
                yield from self._moments(v, value, where)
            if not done.entered:
                for suspect in self._suspicious(done, node, where):
                    self._suspects.setdefault(suspect.what, suspect)
            if node is None or done.eqn is node.equations[-1]:
                yield from self._settle(node, done.eqn)

    # --- What is there before the program runs ---------------------------------------------

    def _arguments(self) -> Iterator[Moment | Finding]:
        subject = self._subject
        frames = [subject.frames[place] for place in subject.inputs] or itertools.repeat(None)
        for v, x, frame in zip(subject.closed.jaxpr.invars, subject.operands, frames):  # noqa: B905
            where = Where("argument", frame)
            value = _on_device(x, v.aval.dtype)
            yield from self._moments(v, value, where)
            yield from self._held(self._names[v], value, where)

    def _constants(self) -> Iterator[Moment | Finding]:
        """Data beside the program, as shared variables, and what the graph knows.

        What nodes made of it is for `_folded`.
        """
        subject, where = self._subject, Where("constant")
        closed = subject.closed
        made = {place for node in subject.nodes for place in node.outputs}
        of_nodes = {id(subject.values[place]) for place in made}
        for v, x in zip(closed.jaxpr.constvars, closed.consts, strict=True):
            value = self._values[v] = _on_device(x, v.aval.dtype)
            if id(x) not in of_nodes:
                yield from self._moments(v, value, where)
                yield from self._held(self._names[v], value, where)
        seen = {*made, *subject.inputs}
        data = {id(x) for x in closed.consts}
        for place, value in enumerate(subject.values):
            if place in seen or (array := known(value)) is None or id(array) in data:
                continue
            label, known_where = subject.labels[place], where._replace(frame=subject.frames[place])
            if label in self._wanted:
                yield self._moment(label, array, known_where)
            yield from self._held(label, array, known_where)

    def _folded(self) -> Iterator[Moment | Finding]:
        """What nodes gave while the program was emitted."""
        subject = self._subject
        for node in subject.nodes:
            if node.how != "folded":
                continue
            where = Where(node.op, node.frame)
            for place in node.outputs:
                value, label = known(subject.values[place]), subject.labels[place]
                if value is None:  # No array.
                    continue
                yield self._moment(label, value, where)
                for what in self._numeric(value):
                    if self._is_born(what, node):
                        inputs = [(subject.labels[p], self._at(p)) for p in node.inputs]
                        operands = [pair for pair in inputs if pair[1] is not None]
                        yield not_finite(what, label, value, where, operands)

    def _held(self, name: str, value: Any, where: Where) -> Iterator[Finding]:
        if "nan" in self._numeric(value):
            yield not_finite("nan", name, value, where, [(name, value)])

    # --- What an equation gives --------------------------------------------------------------

    def _moments(self, v: Any, value: Any, where: Where) -> Iterator[Moment]:
        if type(v) is not Var:  # JAX has a type of its own for unread ones.
            return
        self._values[v] = value
        names = {self._names[v]: np.shape(value), **self._other_names.get(v, {})}
        for name, shape in names.items():
            whole = value if shape == np.shape(value) else np.broadcast_to(value, shape)
            yield self._moment(name, whole, where)

    def _moment(self, name: str, value: Any, where: Where) -> Moment:
        value = _on_device(value, value.dtype)
        self._named[name] = value
        return Moment(name, value, MappingProxyType(self._named), *where)

    def _suspicious(self, done: Evaluated, node: Node | None, where: Where) -> Iterator[Finding]:
        """What is wrong with an equation's results and is not with its operands."""
        eqn = done.eqn
        pairs = [
            (x, value)
            for x, value in zip(eqn.invars, done.operands, strict=True)
            if type(x) is Var and x not in self._spelled_out
        ]
        if node and not pairs:
            self._spelled_out.update(eqn.outvars)
            return
        operands = [(self._names[v], value) for v, value in pairs]
        name = self._name_of(eqn, node)
        # In a graph, what is a node's input is the user's. Elsewhere a literal may be, too.
        before = done.operands if node is None else [value for _, value in pairs]
        for value in done.results:
            for what in self._numeric(value):
                if not any(holds(what, x) for x in before):
                    yield not_finite(what, name, value, where, operands)
        index = out_of_bounds(eqn, done.operands, emitted=node is not None)
        if "index" in self._find and index:
            yield bad_index(index, name, where, operands)
        if "check" in self._find and eqn.primitive is _jax.check_p:
            message = _jax.failed_check(eqn, done.operands)
            if message:
                yield failed_check(message, name, where)

    def _name_of(self, eqn: JaxprEqn, node: Node | None) -> str:
        """The user's name of what a node computes if it has one, else that of an equation."""
        if node and len(node.outputs) == 1 and self._subject.labels[node.outputs[0]] == node.name:
            return node.name
        return next((self._names[v] for v in eqn.outvars if v in self._names), "")

    def _settle(self, node: Node | None, eqn: JaxprEqn) -> Iterator[Finding]:
        """Of the suspects so far, those that are the fault of a node, or equation, and are new."""
        suspects, self._suspects = self._suspects, {}
        if "index" in suspects:  # Which tells more than the check of the same index.
            suspects.pop("check", None)
        for what, suspect in suspects.items():
            known_already = (id(node or eqn), what) in self._found
            self._found.add((id(node or eqn), what))
            masked = node and what in NUMERIC and not self._is_born(what, node)
            if not known_already and not masked:
                yield suspect

    def _is_born(self, what: str, node: Node) -> bool:
        """Whether a node makes a NaN, or an infinity, of inputs that have none."""
        inputs, outputs = (
            [x for place in places if (x := self._at(place)) is not None]
            for places in (node.inputs, node.outputs)
        )
        unread = not outputs
        return (unread or any(holds(what, x) for x in outputs)) and not any(
            holds(what, x) for x in inputs
        )

    def _at(self, place: int) -> Any:
        """The elements of a variable of the graph; None if it has none by now."""
        value = self._subject.values[place]
        value = value.operand if type(value) is Broadcast else value
        return self._values.get(value) if type(value) is Var else known(value)

    def _numeric(self, x: Any) -> list[str]:
        """What is looked for among an array's elements and is there."""
        return [what for what in NUMERIC if what in self._find and holds(what, x)]


def _on_device(x: Any, dtype: Any) -> Any:
    # What is an array already may be of a kind that NumPy does not know.
    return x if isinstance(x, jax.Array) else to_device([np.asarray(x, dtype)])[0]


def _other_names(
    subject: Subject, names: Mapping[Var, str], wanted: Collection[str]
) -> dict[Var, dict[str, tuple[int, ...]]]:
    """Wanted names of variables that the program's text calls otherwise, and shapes.

    Variables of the graph may share one of the program, and names may be alike. A variable that
    the graph has repeated to a shape need not be so in the program.
    """
    found: dict[Var, dict[str, tuple[int, ...]]] = {}
    every = {*names.values()}
    pairs: list[tuple[str, Any]] = [(name, v) for v, name in subject.names.items()]
    pairs += zip(subject.labels, subject.values, strict=True)
    for name, value in pairs:
        v = value.operand if type(value) is Broadcast else value
        if type(v) is Var and v not in names:  # Nobody reads it.
            continue
        every.add(name)
        if type(v) is Var and (name in wanted or name == names[v]):
            found.setdefault(v, {})[name] = tuple(shape_of(value))
    for name in wanted:
        if name not in every:
            raise _unknown(name, sorted(every), subject.names.values() or names.values())
    return found


_SHOWN = 20
"""Names that a message lists."""


def _unknown(name: str, every: Sequence[str], own: Iterable[str]) -> UnknownNameError:
    close = difflib.get_close_matches(name, every)
    shown = list(dict.fromkeys(own))[:_SHOWN]
    rows = [
        f"No variable of this program is called {name!r}.",
        f"Close to it are {', '.join(map(repr, close))}." if close else "",
        f"There are {', '.join(shown)}{', …' * (len(shown) == _SHOWN)}; jaxprgen.pretty shows all.",
    ]
    return UnknownNameError("\n".join(filter(None, rows)))
