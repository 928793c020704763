"""One run of the debugger: every value as it is computed, and the faults that originate there."""

from __future__ import annotations

import difflib
import itertools
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple, TypeAlias

import jax
import numpy as np

from jaxprgen import _jax
from jaxprgen._jax import ClosedJaxpr, Frame, JaxprEqn, Var
from jaxprgen.emit.values import Value
from jaxprgen.errors import UnknownNameError
from jaxprgen.ir.describe import equation_text, innermost_frame, iterations, variable_names
from jaxprgen.ir.evaluate import Evaluated, Evaluator, Site, is_batched
from jaxprgen.runtime.observe import Node, operand_of
from jaxprgen.tools.debugging.faults import NUMERIC, contains, loses_a_mask, out_of_bounds
from jaxprgen.tools.debugging.findings import (
    Finding,
    Location,
    check_that_fails,
    index_out_of_bounds,
    non_finite_number,
)


class ComputedValue(NamedTuple):
    """A value that has just been computed.

    Attributes
    ----------
    name, value
        The variable's name, and its array.
    values
        All values so far, by name; those of a loop are from its last iteration.
    op, frame, equation, iterations
        Where it comes from, as in `jaxprgen.tools.debugging.findings.Location`.
    """

    name: str
    value: Any
    values: Mapping[str, Any]
    op: str
    frame: Frame | None
    equation: str
    iterations: tuple[tuple[str, int], ...]


class Debuggee(NamedTuple):
    """The program to debug, its arguments, and its graph as in an `Observation`, if it has one.

    ``restore`` turns the program's outputs into the function's result.
    """

    closed: ClosedJaxpr
    operands: Sequence[Any]
    restore: Callable[[list[Any]], Any]
    names: Mapping[Var, str] = MappingProxyType({})
    nodes: Sequence[Node] = ()
    labels: Sequence[str] = ()
    frames: Sequence[Frame | None] = ()
    values: Sequence[Any] = ()
    inputs: Sequence[int] = ()


Events: TypeAlias = Iterator[ComputedValue | Finding]


class _DebugEvaluator(Evaluator):
    """Evaluates on arrays; a ``check`` never raises, because its failure is a finding."""

    def apply(self, site: Site, operands: list[Any]) -> list[Any]:
        return [] if _jax.is_check(site.eqn) else super().apply(site, operands)

    def enters(self, eqn: JaxprEqn) -> bool:
        # A loop with a condition per lane would be entered by equations that the program lacks.
        is_per_lane = eqn.primitive.name == "while" and is_batched(eqn)
        return super().enters(eqn) and not is_per_lane


class Run:
    """One run of a program.

    Parameters
    ----------
    debuggee
        The program.
    find
        The kinds of findings to look for.
    allowed
        Names of variables that may contain NaN and infinities.
    wanted
        Names of variables that are reported under this name even if the program's text uses
        another.

    Raises
    ------
    UnknownNameError
        An allowed or a wanted variable does not exist.
    """

    def __init__(
        self, debuggee: Debuggee, find: Collection[str], allowed: set[str], wanted: set[str]
    ) -> None:
        self._debuggee, self._find, self._allowed = debuggee, find, allowed
        self._wanted = wanted | allowed
        self._names: Mapping[Any, str] = variable_names(debuggee.closed.jaxpr, debuggee.names)
        self._node_of = {id(eqn): node for node in debuggee.nodes for eqn in node.equations}
        self._other_names = _other_names(debuggee, self._names, self._wanted)
        # Of mutable arrays, what they held when they were made.
        self._values: dict[Any, Any] = {}
        self._named: dict[str, Any] = {}
        # The first finding of each kind in the node whose equations are being evaluated.
        self._suspects: dict[str, Finding] = {}
        # The products that lost a mask, by `id`; they count if a result is NaN in the end.
        self._lost_masks: dict[int, Finding] = {}
        # Arrays with NaN that follow from a finding, by their `id`.
        self._explained: dict[int, Any] = {}
        # Results of equations that only read literals: a node's own constants.
        self._own_constants = set[Any]()
        # What has been reported of which node or equation: a loop evaluates one many times.
        self._reported = set[tuple[int, str]]()
        self.result: Any = None

    def events(self) -> Events:
        """Yield every value once it is computed, then its findings; `result` is set at the end."""
        debuggee = self._debuggee
        yield from self._arguments()
        yield from self._constants()
        yield from self._folded()
        arguments = zip(debuggee.closed.jaxpr.invars, debuggee.operands, strict=True)
        operands = [x if _jax.is_mutable(x) else self._values[v] for v, x in arguments]
        for done in _DebugEvaluator().steps(debuggee.closed, operands):
            operands, results = map(_jax.read, done.operands), map(_jax.read, done.results)
            yield from self._equation(done._replace(operands=[*operands], results=[*results]))
        outvars: Sequence[Any] = debuggee.closed.jaxpr.outvars
        outputs = [
            self._values[x] if type(x) is Var else _on_device(x.val, x.aval.dtype) for x in outvars
        ]
        if any(contains("nan", x) for x in outputs):
            yield from self._lost_masks.values()
        self.result = debuggee.restore(outputs)

    # --- Values known before the program runs ------------------------------------------------

    def _arguments(self) -> Events:
        debuggee = self._debuggee
        frames = [debuggee.frames[place] for place in debuggee.inputs] or itertools.repeat(None)
        for v, x, frame in zip(debuggee.closed.jaxpr.invars, debuggee.operands, frames):  # noqa: B905
            location = Location("argument", frame)
            value = _on_device(x, v.aval.dtype)
            yield from self._computed(v, value, location)
            yield from self._given_nan(self._names[v], value, location)

    def _constants(self) -> Events:
        """The program's constants, such as shared variables, and those of the graph."""
        debuggee, location = self._debuggee, Location("constant")
        closed = debuggee.closed
        made = {place for node in debuggee.nodes for place in node.outputs}
        folded = {id(operand_of(debuggee.values[place])) for place in made}
        for v, x in zip(closed.jaxpr.constvars, closed.consts, strict=True):
            value = self._values[v] = _on_device(x, v.aval.dtype)
            if id(x) not in folded:
                yield from self._computed(v, value, location)
                yield from self._given_nan(self._names[v], value, location)
        seen = {*made, *debuggee.inputs}
        constants = {id(x) for x in closed.consts}
        for place, value in enumerate(debuggee.values):
            array = None if place in seen or id(operand_of(value)) in constants else _known(value)
            if array is None:
                continue
            label, built = debuggee.labels[place], location._replace(frame=debuggee.frames[place])
            if label in self._wanted:
                yield self._named_value(label, array, built)
            yield from self._given_nan(label, array, built)

    def _folded(self) -> Events:
        """The results of nodes that were evaluated while the program was emitted."""
        debuggee = self._debuggee
        for node in debuggee.nodes:
            if node.how != "folded":
                continue
            location = Location(node.op, node.frame)
            for place in node.outputs:
                value, label = _known(debuggee.values[place]), debuggee.labels[place]
                if value is None:  # Not an array.
                    continue
                yield self._named_value(label, value, location)
                for kind in self._numeric_faults(value) if label not in self._allowed else ():
                    if self._originates(kind, node):
                        inputs = [(debuggee.labels[p], self._value_at(p)) for p in node.inputs]
                        operands = [pair for pair in inputs if pair[1] is not None]
                        yield non_finite_number(kind, label, value, location, operands)

    def _given_nan(self, name: str, value: Any, location: Location) -> Iterator[Finding]:
        if "nan" in self._numeric_faults(value) and name not in self._allowed:
            yield non_finite_number("nan", name, value, location, [(name, value)])

    # --- Equations ---------------------------------------------------------------------------

    def _equation(self, done: Evaluated) -> Events:
        outermost = done.within[0].eqn if done.within else done.eqn
        node = self._node_of.get(id(outermost))
        location = self._location(done, node)
        for v, value in zip(done.eqn.outvars, done.results, strict=True):
            yield from self._computed(v, value, location)
        if not done.entered:
            for suspect in self._faults(done, node, location):
                self._suspects.setdefault(suspect.kind, suspect)
        if node is None or done.eqn is node.equations[-1]:
            yield from self._settle(node, done.eqn)

    def _location(self, done: Evaluated, node: Node | None) -> Location:
        eqn, op = done.eqn, done.eqn.primitive.name
        around = (eqn, *(outer.eqn for outer in done.within))
        if any(_jax.is_transposed(each.source_info) for each in around):
            op += " of the gradient"
        frame = innermost_frame(eqn, done.within) or (node.frame if node else None)
        text = equation_text(eqn, self._names)
        return Location(node.op if node else op, frame, text, iterations(done.within))

    def _computed(self, v: Any, value: Any, location: Location) -> Iterator[ComputedValue]:
        if type(v) is not Var:  # JAX has a type of its own for unread ones.
            return
        self._values[v] = value
        names = {self._names[v]: np.shape(value), **self._other_names.get(v, {})}
        for name, shape in names.items():
            whole = value if shape == np.shape(value) else np.broadcast_to(value, shape)
            yield self._named_value(name, whole, location)

    def _named_value(self, name: str, value: Any, location: Location) -> ComputedValue:
        value = _on_device(value, value.dtype)
        self._named[name] = value
        return ComputedValue(name, value, MappingProxyType(self._named), *location)

    def _faults(self, done: Evaluated, node: Node | None, location: Location) -> Iterator[Finding]:
        """Yield the faults of an equation's results that its operands do not have."""
        eqn = done.eqn
        every = zip(eqn.invars, done.operands, strict=True)
        own = self._own_constants
        pairs = [(x, value) for x, value in every if type(x) is Var and x not in own]
        if node and not pairs:
            self._own_constants.update(eqn.outvars)
            return
        operands = [(self._names[v], value) for v, value in pairs]
        name = self._name_of(eqn, node)
        # A rule's own infinity may be at fault; without a graph, a literal may be the user's.
        before = done.operands if node is None else [value for _, value in pairs]
        explained = any(id(x) in self._explained for x in done.operands)
        for value in () if self._is_allowed(eqn, name) else done.results:
            for kind in self._numeric_faults(value):
                finding = non_finite_number(kind, name, value, location, operands)
                if not any(contains(kind, x) for x in before):
                    yield finding
                elif kind == "nan" and not explained and loses_a_mask(eqn, done.operands, value):
                    self._lost_masks.setdefault(id(eqn), finding)
                elif not explained:
                    continue
                self._explained[id(value)] = value
        index = out_of_bounds(eqn, done.operands, emitted=node is not None)
        if "index" in self._find and index:
            yield index_out_of_bounds(index, name, location, operands)
        if "check" in self._find and _jax.is_check(eqn):
            failed = _jax.failed_check(eqn, done.operands)
            if failed:
                yield check_that_fails(failed, name, location)

    def _is_allowed(self, eqn: JaxprEqn, name: str) -> bool:
        """Whether an equation's results, which belong to the variable ``name``, may be NaN."""
        names, outvars = {name}, list[Any](eqn.outvars)
        for v in outvars:
            if v in self._names:
                names |= {self._names[v], *self._other_names.get(v, ())}
        return not names.isdisjoint(self._allowed)

    def _name_of(self, eqn: JaxprEqn, node: Node | None) -> str:
        """The user's name of the node's result, or else the name of the equation's."""
        if node and len(node.outputs) == 1 and self._debuggee.labels[node.outputs[0]] == node.name:
            return node.name
        return next((self._names[v] for v in eqn.outvars if v in self._names), "")

    def _settle(self, node: Node | None, eqn: JaxprEqn) -> Iterator[Finding]:
        """Yield the suspects that are new and originate in this node, or equation."""
        suspects, self._suspects = self._suspects, {}
        if "index" in suspects:  # It says more than a check of the same index.
            suspects.pop("check", None)
        for kind, suspect in suspects.items():
            key = id(node or eqn), kind
            is_new = key not in self._reported
            self._reported.add(key)
            masked = node and kind in NUMERIC and not self._originates(kind, node)
            if is_new and not masked:
                yield suspect

    def _originates(self, kind: str, node: Node) -> bool:
        """Whether a node computes a NaN, or an infinity, from inputs without any."""
        inputs, outputs = (map(self._value_at, places) for places in (node.inputs, node.outputs))
        found = [contains(kind, x) for x in outputs if x is not None]
        is_unread = not found
        return (is_unread or any(found)) and not any(
            contains(kind, x) for x in inputs if x is not None
        )

    def _value_at(self, place: int) -> Any:
        """The value of a variable of the graph; None if it has none yet."""
        value = self._debuggee.values[place]
        source = operand_of(value)
        return self._values.get(source) if type(source) is Var else _known(value)

    def _numeric_faults(self, x: Any) -> list[str]:
        """The kinds of numbers in an array that are looked for."""
        return [kind for kind in NUMERIC if kind in self._find and contains(kind, x)]


def _known(value: Any) -> Any:
    """The array that a variable of the graph is known to be, or None."""
    return value.static if isinstance(value, Value) else None


def _on_device(x: Any, dtype: Any) -> Any:
    x = _jax.read(x)
    if isinstance(x, jax.Array):  # Its dtype may be one that NumPy does not know.
        return x
    with _jax.eval_context():
        return jax.device_put(np.asarray(x, dtype))


def _other_names(
    debuggee: Debuggee, names: Mapping[Var, str], wanted: Collection[str]
) -> dict[Var, dict[str, tuple[int, ...]]]:
    """The wanted names of each variable that has another name in the program, with shapes.

    Several variables of the graph may share one of the program, and several may have one name. A
    variable that is broadcast in the graph may be stored unbroadcast in the program.
    """
    found: dict[Var, dict[str, tuple[int, ...]]] = {}
    every = {*names.values()}
    pairs: list[tuple[str, Any]] = [(name, Value(v)) for v, name in debuggee.names.items()]
    pairs += zip(debuggee.labels, debuggee.values, strict=True)
    for name, value in pairs:
        v = operand_of(value)
        if type(v) is Var and v not in names:  # It is never read.
            continue
        every.add(name)
        if type(v) is Var and (name in wanted or name == names[v]):
            found.setdefault(v, {})[name] = tuple(value.shape)
    for name in wanted:
        if name not in every:
            raise _unknown(name, sorted(every), debuggee.names.values() or names.values())
    return found


_LISTED = 20
"""The number of names that a message lists."""


def _unknown(name: str, every: Sequence[str], own: Iterable[str]) -> UnknownNameError:
    close = difflib.get_close_matches(name, every)
    listed = list(dict.fromkeys(own))[:_LISTED]
    more = ", …" * (len(listed) == _LISTED)
    rows = [
        f"No variable of this program is called {name!r}.",
        f"Did you mean {' or '.join(map(repr, close))}?" if close else "",
        f"Its variables are {', '.join(listed)}{more}; jaxprgen.pretty shows all.",
    ]
    return UnknownNameError("\n".join(filter(None, rows)))
