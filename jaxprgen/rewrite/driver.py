"""Applying rules to a program until none is left that fires.

Equations are taken in order. Each is looked up among those before, then tried against the rules
of its primitive; what replaces it goes the same way. As patterns look only at what operands are,
which is settled by then, one way through a program is enough, and the cost linear in equations.
Only a condition on readers may come true later: then the program is gone through again.
"""

from __future__ import annotations

import functools
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from jaxprgen import _jax
from jaxprgen._jax import ClosedJaxpr, JaxprEqn, Var
from jaxprgen.emit.values import Value, atom, broadcast_shapes, broadcast_to, shape_of
from jaxprgen.errors import RewriteCycleError, ShapeMismatchError
from jaxprgen.ir import Builder, sharing
from jaxprgen.ir.programs import each_program, with_equations
from jaxprgen.rewrite.matching import Graph
from jaxprgen.rewrite.rules import Rule
from jaxprgen.rewrite.statistics import Statistics
from jaxprgen.rewrite.terms import (
    NOTHING,
    Call,
    Number,
    Once,
    Product,
    Term,
)

_LONGEST = 32
"""The most rules that fire one upon the other. Those of no set that ends come near."""


def apply(
    closed: ClosedJaxpr, rules: Sequence[Rule], statistics: Statistics | None = None
) -> ClosedJaxpr:
    """The program, and those inside of it, with rules applied until none fires.

    What an equation computes that another one did is that, too. What nobody reads is left out;
    equations with effects stay as they are, in their order. Every equation that a rule makes has
    the line of the one it replaces, and the rule's name in its own. The program itself if no rule
    fires.

    Raises
    ------
    RewriteCycleError
        Rules undo each other, or one undoes itself.
    """
    index = index_of(tuple(rules))
    return each_program(closed, lambda program: _settled(program, index, statistics))


def _settled(
    program: ClosedJaxpr, index: Mapping[str, Sequence[_Entry]], statistics: Statistics | None
) -> ClosedJaxpr:
    conditions = any(entry.is_on_condition for entries in index.values() for entry in entries)
    run = Rewriting(program, index, statistics)
    rounds = 1
    while run.fired:
        program = run.program()
        if not conditions:
            break
        if rounds == _LONGEST:
            raise _cycle(*run.fired[-1])
        run = Rewriting(program, index, statistics)
        rounds += 1
    return program


class _Entry:
    """A rule, with what must be there for it to fire.

    Of operands, or factors, these are the names of the primitives that give them, numbers that
    they are known to be, and `_TWICE` where two are the same, or a factor is a divisor.
    """

    def __init__(self, rule: Rule) -> None:
        self.rule = rule
        self.of_factors = isinstance(rule.pattern, Product)
        self.needed = frozenset(_needed(rule.pattern)) - {""}
        self.is_on_condition = _has_condition(rule.pattern)


_TWICE = "twice"


def _needed(pattern: Call | Product) -> Iterator[str | float]:
    if isinstance(pattern, Product):
        yield from map(_name, (*pattern.factors, *pattern.divisors))
        if set(pattern.factors) & set(pattern.divisors):
            yield _TWICE
    else:
        yield from map(_name, pattern.operands)
        if len(pattern.operands) == 2 and len(set(pattern.operands)) == 1:
            yield _TWICE


def _name(term: Term) -> str | float:
    term = term.call if isinstance(term, Once) else term
    if isinstance(term, Number):
        return term.value
    return term.function.name if isinstance(term, Call) else ""


def _has_condition(term: Any) -> bool:
    if type(term) is Once:
        return True
    if type(term) is Product:
        return any(map(_has_condition, (*term.factors, *term.divisors)))
    return type(term) is Call and any(map(_has_condition, term.operands))


@functools.lru_cache(maxsize=256)
def index_of(rules: tuple[Rule, ...]) -> dict[str, list[_Entry]]:
    """The rules by the primitives whose equations they may replace, the first one first."""
    found: dict[str, list[_Entry]] = {}
    for rule in rules:
        for root in rule.roots:
            found.setdefault(root, []).append(_Entry(rule))
    return found


class Rewriting:
    """One way through a program.

    ``fired`` are the equations that were replaced, each with the rules that led there.
    """

    def __init__(
        self,
        closed: ClosedJaxpr,
        index: Mapping[str, Sequence[_Entry]],
        statistics: Statistics | None = None,
        *,
        explaining: bool = False,
    ) -> None:
        self.closed = closed
        self.index = index
        self.statistics = statistics
        self.fired: list[tuple[JaxprEqn, tuple[Rule, ...]]] = []
        constants = dict(zip(closed.jaxpr.constvars, closed.consts, strict=True))
        self.graph = Graph(constants, _readers(closed), explaining)
        self._more: dict[Any, Any] = {}
        self._equations: list[JaxprEqn] = []
        self._same: dict[Any, Any] = {}
        self._seen: dict[Any, JaxprEqn] = {}
        self._identities = sharing.Identities()
        self._pending: set[Any] = set()
        for eqn in closed.jaxpr.eqns:
            self._add(eqn, ())

    def program(self) -> ClosedJaxpr:
        """The program as it is afterwards."""
        outputs = [self._settled(x) for x in self.closed.jaxpr.outvars]
        return with_equations(self.closed, self._equations, outputs, self._more)

    def _settled(self, x: Any) -> Any:
        return self._same.get(x, x) if type(x) is Var else x

    def _add(self, eqn: JaxprEqn, chain: tuple[Rule, ...]) -> None:
        """An equation, or what replaces it; the rules in ``chain`` led to it."""
        if not self._same.keys().isdisjoint(x for x in eqn.invars if type(x) is Var):
            eqn = eqn.replace(invars=[self._settled(x) for x in eqn.invars])
        if not eqn.effects:
            if self._is_repeated(eqn, chain):
                return
            entries = self.index.get(eqn.primitive.name)
            if entries and self._is_replaced(eqn, entries, chain):
                return
        self._equations.append(eqn)
        self.graph.define(eqn)

    def _is_repeated(self, eqn: JaxprEqn, chain: tuple[Rule, ...]) -> bool:
        """Whether an equation computes what another one does."""
        if any(type(v) is not Var for v in eqn.outvars):
            return False
        first = self._seen.setdefault(self._identities.equation(eqn, sharing.atom), eqn)
        if first is eqn or not sharing.may_move(eqn) or not sharing.alike(first, eqn):
            return False
        if not self._pending.isdisjoint(first.outvars):
            raise _cycle(eqn, chain)
        self._replace(eqn, first.outvars)
        return True

    def _replace(self, eqn: JaxprEqn, new: Sequence[Any]) -> None:
        """Read other atoms in the place of an equation's results."""
        readers = self.graph.readers
        for v, x in zip(eqn.outvars, new, strict=True):
            self._same[v] = x = self._settled(x)
            if type(x) is Var:
                readers[x] += readers[v]
        readers.subtract(x for x in eqn.invars if type(x) is Var)

    # --- Rules ----------------------------------------------------------------------------

    def _is_replaced(
        self, eqn: JaxprEqn, entries: Sequence[_Entry], chain: tuple[Rule, ...]
    ) -> bool:
        graph, statistics = self.graph, self.statistics
        graph.define(eqn)
        operands = self._names(eqn.invars[:1], eqn.invars[1:])
        factors = None
        for entry in entries:
            if entry.of_factors and factors is None:
                up, down = graph.factors(eqn.outvars[0])[:2]
                factors = self._names(up, down) if len(up) + len(down) > 1 else set()
            there = factors if entry.of_factors else operands
            if not (entry.needed <= there or graph.explaining):  # type: ignore[operator]
                if statistics is not None:
                    statistics.missed(entry.rule, 0.0)
                continue
            start = time.perf_counter() if statistics is not None else 0.0
            fired = self._fires(entry.rule, eqn, chain)
            if statistics is not None:
                seconds = time.perf_counter() - start
                (statistics.hit if fired else statistics.missed)(entry.rule, seconds)
            if fired:
                return True
        return False

    def _names(self, some: Sequence[Any], others: Sequence[Any]) -> set[Any]:
        """What a rule may need of operands, or of factors and divisors."""
        graph = self.graph
        found: set[Any] = set()
        for x in (*some, *others):
            found.add(graph.name(x))
            number = graph.number(x)
            if number is not None:
                found.add(number.item())
        if not {id(x) for x in some}.isdisjoint(map(id, others)):
            found.add(_TWICE)
        return found

    def _fires(self, rule: Rule, eqn: JaxprEqn, chain: tuple[Rule, ...]) -> bool:
        (root,) = eqn.outvars
        for match in self.graph.matches(rule.pattern, root, NOTHING):
            reason = rule.refusal(self.graph, match)
            if reason is None:
                operands: list[Any] = [root, *eqn.invars]
                b = Builder([x.aval for x in operands])
                b.source_info = _jax.marked(eqn.source_info, rule.name)
                found = fitted(b, rule.emit(b, match), root.aval)
                if found is not None:
                    self._take(rule, eqn, b, found, chain)
                    return True
                reason = f"the replacement is no {root.aval}"
            self.graph.refuse(match, reason)
        return False

    def _take(
        self, rule: Rule, eqn: JaxprEqn, b: Builder, found: Any, chain: tuple[Rule, ...]
    ) -> None:
        """Go on with what replaces an equation."""
        chain = (*chain, rule)
        (root,) = eqn.outvars
        if found is root or len(chain) > _LONGEST:
            raise _cycle(eqn, chain)
        self.fired.append((eqn, chain))
        self._more.update(b.constants)
        self._pending.add(root)
        for new in b.equations_from(0):
            self.graph.readers.update(x for x in new.invars if type(x) is Var)
            self._add(new, chain)
        self._pending.discard(root)
        del self.graph.definitions[root]
        self._replace(eqn, [found])


def _cycle(eqn: JaxprEqn, chain: Sequence[Rule]) -> RewriteCycleError:
    names = "\n".join(f"    {rule}" for rule in dict.fromkeys(chain[-4:]))
    frame = _jax.frame_of(eqn.source_info)
    return RewriteCycleError(
        f"Rules keep rewriting what they made of {eqn.primitive}"
        f"{f' ({frame.built})' if frame else ''}:\n{names}\n"
        "Let what replaces a pattern be in a form that none of them matches."
    )


def fitted(b: Builder, x: Value, aval: Any) -> Any:
    """A value as an atom of a type; None if it is of another dtype, or larger."""
    if isinstance(x, np.ndarray) and not x.ndim:
        x = x.astype(aval.dtype)
    try:
        if broadcast_shapes(shape_of(x), aval.shape) != aval.shape:
            return None
    except ShapeMismatchError:
        return None
    found = atom(b, broadcast_to(b, x, aval.shape))
    own: Any = found.aval
    if own.dtype != aval.dtype:
        return None
    if own.weak_type != aval.weak_type:
        params = {"new_dtype": aval.dtype, "weak_type": aval.weak_type, "sharding": None}
        found = b.bind_multiple(_jax.primitive("convert_element_type"), [found], params)[0]
    return found if found.aval == aval else None


def _readers(closed: ClosedJaxpr) -> Counter[Any]:
    counts: Counter[Any] = Counter()
    for xs in (*(eqn.invars for eqn in closed.jaxpr.eqns), closed.jaxpr.outvars):
        counts.update(x for x in xs if type(x) is Var)
    return counts
