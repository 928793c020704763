"""Apply rules to a program until none fires.

Equations are visited in order. Each one is compared with the equations before it, then tried
against the rules of its primitive; the equations that replace it are visited likewise. Patterns
look only at operands, which are final by then. So one pass over the program is enough, and its cost
is linear in the number of equations. Only the condition that a result is read once may become true
later. If rules have such a condition, passes are repeated until no rule fires.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from jaxprgen import _jax
from jaxprgen._jax import ClosedJaxpr, JaxprEqn, Var
from jaxprgen.errors import InvalidRuleError, RewriteCycleError
from jaxprgen.ir import Builder, current_builder, redundancy
from jaxprgen.ir.liveness import uses_of
from jaxprgen.ir.rewriting import as_weak_as, each_program, with_equations
from jaxprgen.rewrite.graph import Graph
from jaxprgen.rewrite.index import IndexedRule, RuleIndex, indexed
from jaxprgen.rewrite.matching import Matcher
from jaxprgen.rewrite.rules import Rule
from jaxprgen.rewrite.terms import NOTHING, Match

_LONGEST = 32
"""How many rules may fire, each on the result of another. Rule sets that end use far fewer."""


@dataclass
class Count:
    """How often one rule fired (hits) or did not (misses) at equations of its primitives."""

    hits: int = 0
    misses: int = 0
    seconds: float = 0.0


@dataclass
class Statistics:
    """How often rules fire, and how long they take; `str` returns a table, the slowest rule first.

    Attributes
    ----------
    counts : dict of Rule to Count
        The count of each rule.
    """

    counts: dict[Rule, Count] = field(default_factory=dict)

    def add(self, rule: Rule, *, fired: bool, seconds: float = 0.0) -> None:
        """Record whether a rule fired.

        Parameters
        ----------
        rule : Rule
            The rule.
        fired : bool
            Whether it did.
        seconds : float
            The time that it took.
        """
        count = self.counts.setdefault(rule, Count())
        count.hits += fired
        count.misses += not fired
        count.seconds += seconds

    def __str__(self) -> str:
        rows = sorted(self.counts.items(), key=lambda row: -row[1].seconds)
        lines = [f"{'hits':>8}{'misses':>8}{'ms':>9}  rule"]
        lines += [f"{c.hits:8}{c.misses:8}{c.seconds * 1e3:9.3f}  {rule}" for rule, c in rows]
        return "\n".join(lines)


def apply(
    closed: ClosedJaxpr, rules: Sequence[Rule], statistics: Statistics | None = None
) -> ClosedJaxpr:
    """Apply rules to a program, and to those that its equations run, until none fires.

    Programs that only define derivatives, and unused equations, are not matched. If a rule fires,
    repeated and unused equations are removed. Equations with effects stay as they are, in order.
    The equations that a rule makes have the source line of the equation that they replace, and the
    rule's name in their name stack.

    Parameters
    ----------
    closed : ClosedJaxpr
        The program, which is not changed.
    rules : sequence of Rule
        The rules. The first one that matches an equation fires.
    statistics : Statistics, optional
        Counts how often rules fire, and measures their time.

    Returns
    -------
    ClosedJaxpr
        The new program; the one that was given if no rule fires.

    Raises
    ------
    RewriteCycleError
        Rules undo each other, or one undoes itself.
    InvalidRuleError
        A replacement fails, or has another shape or dtype than what it replaces.
    DuplicateRuleError
        A rule can never fire, because one before it fires in its place.
    """
    index = indexed(tuple(rules))
    return each_program(closed, lambda program: _settled(program, index, statistics))


def _settled(program: ClosedJaxpr, index: RuleIndex, statistics: Statistics | None) -> ClosedJaxpr:
    run = Rewriting(program, index, statistics)
    rounds = 1
    while run.fired:
        program = run.program()
        if not index.is_on_condition:
            break
        if rounds == _LONGEST:
            raise _cycle(*run.fired[-1])
        run = Rewriting(program, index, statistics)
        rounds += 1
    return program


class Rewriting:
    """One pass over a program.

    Attributes
    ----------
    fired : list of (JaxprEqn, tuple of Rule)
        The equations that were replaced. The rules are the one that fired and, before it, those
        that had made the equation.
    """

    def __init__(
        self,
        closed: ClosedJaxpr,
        index: RuleIndex,
        statistics: Statistics | None = None,
        *,
        explaining: bool = False,
    ) -> None:
        self.closed = closed
        self.index = index
        self.statistics = statistics
        self.fired: list[tuple[JaxprEqn, tuple[Rule, ...]]] = []
        constants = dict(zip(closed.jaxpr.constvars, closed.consts, strict=True))
        uses = uses_of(closed.jaxpr.eqns, closed.jaxpr.outvars)
        self.graph = Graph(constants, uses, index.traits)
        self.matcher = Matcher(self.graph, explaining)
        self._more: dict[Any, Any] = {}
        self._equations: list[JaxprEqn] = []
        self._same: dict[Any, Any] = {}
        self._seen: dict[Any, JaxprEqn] = {}
        self._identities = redundancy.Identities()
        self._pending: set[Any] = set()
        for eqn in closed.jaxpr.eqns:
            self._add(eqn, ())

    def program(self) -> ClosedJaxpr:
        """Return the rewritten program."""
        outputs = [self._settled(x) for x in self.closed.jaxpr.outvars]
        return with_equations(self.closed, self._equations, outputs, self._more)

    def _settled(self, x: Any) -> Any:
        return self._same.get(x, x) if type(x) is Var else x

    def _add(self, eqn: JaxprEqn, chain: tuple[Rule, ...]) -> None:
        """Add an equation that the rules of ``chain`` made, or its replacement."""
        same = self._same
        if same and any(type(x) is Var and x in same for x in eqn.invars):
            eqn = eqn.replace(invars=[self._settled(x) for x in eqn.invars])
        self.graph.define(eqn)
        if not eqn.effects:
            if self._is_repeated(eqn, chain):
                return
            if eqn.primitive.name in self.index.entries and self._is_replaced(eqn, chain):
                return
        self._equations.append(eqn)

    def _is_repeated(self, eqn: JaxprEqn, chain: tuple[Rule, ...]) -> bool:
        """Return whether an equation repeats another one, whose results then replace its own."""
        if any(type(v) is not Var for v in eqn.outvars):
            return False
        first = self._seen.setdefault(self._identities.equation(eqn, redundancy.atom_key), eqn)
        if (
            first is eqn
            or not redundancy.may_move(eqn)
            or not redundancy.have_same_types(first, eqn)
        ):
            return False
        if not self._pending.isdisjoint(first.outvars):
            raise _cycle(eqn, chain)
        self._replace(eqn, first.outvars)
        return True

    def _replace(self, eqn: JaxprEqn, new: Sequence[Any]) -> None:
        """Let other atoms be read in place of an equation's results."""
        readers = self.graph.readers
        for v, x in zip(eqn.outvars, new, strict=True):
            self._same[v] = x = self._settled(x)
            if type(x) is Var:
                readers[x] += readers[v]
        readers.subtract(x for x in eqn.invars if type(x) is Var)

    # --- Rules ----------------------------------------------------------------------------

    def _is_replaced(self, eqn: JaxprEqn, chain: tuple[Rule, ...]) -> bool:
        fitting, statistics = self._fitting(eqn), self.statistics
        if statistics is None:
            return any(self._fires(entry.rule, eqn, chain) for entry in fitting)
        for entry in self.index.entries[eqn.primitive.name]:
            start = time.perf_counter()
            fired = entry in fitting and self._fires(entry.rule, eqn, chain)
            statistics.add(entry.rule, fired=fired, seconds=time.perf_counter() - start)
            if fired:
                return True
        return False

    def _fitting(self, eqn: JaxprEqn) -> list[IndexedRule]:
        """Return the rules that may fire; all of them if misses are to be explained."""
        name = eqn.primitive.name
        if self.matcher.explaining:
            return self.index.entries[name]
        found = self.index.fitting(name, self.graph.traits_of(eqn.invars))
        if any(entry.of_factors for entry in found):
            there = self.graph.traits_of_factors(eqn.outvars[0])
            found = [e for e in found if not e.of_factors or e.needed <= there]
        return found

    def _fires(self, rule: Rule, eqn: JaxprEqn, chain: tuple[Rule, ...]) -> bool:
        (root,) = eqn.outvars
        for match in self.matcher.matches(rule.pattern, root, NOTHING):
            reason = rule.refusal(self.graph, match)
            if reason is None:
                operands: list[Any] = [root, *eqn.invars]
                b = Builder([x.aval for x in operands])
                b.source_info = _jax.marked(eqn.source_info, rule.name)
                with b:
                    found = _emitted(rule, match, eqn)
                if found is not None:
                    self._take(rule, eqn, b, found, chain)
                    return True
                reason = f"the replacement cannot have the type {root.aval}"
            self.matcher.refuse(match, reason)
        return False

    def _take(
        self, rule: Rule, eqn: JaxprEqn, b: Builder, found: Any, chain: tuple[Rule, ...]
    ) -> None:
        """Replace an equation by the equations of ``b``, whose result is ``found``."""
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
        f"Rules rewrite their own results without end, here {eqn.primitive}"
        f"{f' ({frame.built})' if frame else ''}:\n{names}\n"
        "Write replacements that no pattern of these rules matches."
    )


def _emitted(rule: Rule, match: Match, eqn: JaxprEqn) -> Any:
    """Return a replacement as an atom of the type of what it replaces.

    It is None if only the sharding, or the mesh axes over which a value varies, are others.
    """
    root: Any = eqn.outvars[0]
    try:
        found: Any = rule.emit(match, root.aval).atom()
    except InvalidRuleError as error:
        frame = _jax.frame_of(eqn.source_info)
        where = f", {frame.built}" if frame else ""
        raise error.at(f"  in {eqn.primitive}{where}") from error.__cause__
    found = as_weak_as(current_builder(), found, root)
    return found if found.aval == root.aval else None
