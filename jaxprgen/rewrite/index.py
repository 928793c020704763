"""An index of rules, which tells cheaply that most of them cannot fire at an equation."""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

from jaxprgen._jax import JaxprEqn, Var
from jaxprgen.rewrite.graph import NO_TRAITS, TWICE, Trait
from jaxprgen.rewrite.rules import Rule, require_distinct
from jaxprgen.rewrite.terms import Call, Number, Once, Product, Term, walk


class IndexedRule:
    """A rule, and the traits without which it cannot fire.

    Attributes
    ----------
    of_factors : bool
        Whether the traits are those of a product's factors, rather than those of operands.
    needed : frozenset of Trait
        The traits.
    is_on_condition : bool
        Whether the pattern limits how often a result is read.
    """

    def __init__(self, rule: Rule) -> None:
        self.rule = rule
        self.of_factors = isinstance(rule.pattern, Product)
        self.needed = frozenset(_needed(rule.pattern)) - {""}
        self.is_on_condition = any(isinstance(term, Once) for term in walk(rule.pattern))


class PrimitiveRules:
    """The rules for the equations of one primitive, in order."""

    def __init__(self) -> None:
        self.all: list[IndexedRule] = []
        self._found: dict[Any, list[IndexedRule]] = {}

    def fitting(
        self, of_operands: frozenset[Trait], of_factors: frozenset[Trait]
    ) -> list[IndexedRule]:
        """Return the rules whose traits are present."""
        key = of_operands, of_factors
        found = self._found.get(key)
        if found is None:
            found = self._found[key] = [e for e in self.all if e.needed <= key[e.of_factors]]
        return found


class RuleIndex:
    """Rules by the primitives whose equations they may replace.

    Attributes
    ----------
    entries : dict of str to PrimitiveRules
        The rules for each primitive.
    traits : frozenset of Trait
        All traits that some rule needs; no others are looked for.
    is_on_condition : bool
        Whether the pattern of some rule limits how often a result is read.
    """

    def __init__(self, rules: Sequence[Rule]) -> None:
        require_distinct(rules)
        self.entries: dict[str, PrimitiveRules] = {}
        found: list[IndexedRule] = []
        for rule in rules:
            entry = IndexedRule(rule)
            found.append(entry)
            for root in rule.roots:
                self.entries.setdefault(root, PrimitiveRules()).all.append(entry)
        self.traits = NO_TRAITS.union(*(entry.needed for entry in found))
        self.is_on_condition = any(entry.is_on_condition for entry in found)
        self._calls = {
            root: [_calls(entry.rule.pattern) for entry in entries.all]
            for root, entries in self.entries.items()
        }

    def may_fire(self, eqns: Sequence[JaxprEqn]) -> bool:
        """Return whether some equation's operands are results of the primitives of a pattern."""
        made_by: dict[Any, str] = {}
        for eqn in eqns:
            name = eqn.primitive.name
            wanted = self._calls.get(name)
            if wanted is not None:
                found = [made_by.get(x) for x in eqn.invars if type(x) is Var]
                if any(all(found.count(n) >= k for n, k in calls) for calls in wanted):
                    return True
            made_by.update(dict.fromkeys(eqn.outvars, name))
        return False


@functools.lru_cache(maxsize=256)
def indexed(rules: tuple[Rule, ...]) -> RuleIndex:
    """Return the index of some rules, which is cached."""
    return RuleIndex(rules)


def _needed(pattern: Call | Product) -> Iterator[Trait]:
    if isinstance(pattern, Product):
        yield from map(_trait, (*pattern.factors, *pattern.divisors))
        if set(pattern.factors) & set(pattern.divisors):
            yield TWICE
    else:
        yield from map(_trait, pattern.operands)
        if len(pattern.operands) == 2 and len(set(pattern.operands)) == 1:
            yield TWICE


def _calls(pattern: Call | Product) -> list[tuple[str, int]]:
    """Return the primitives of the operands of a pattern, and how often; nothing of a product."""
    terms = pattern.operands if isinstance(pattern, Call) else ()
    parts = [term.call if isinstance(term, Once) else term for term in terms]
    return [*Counter(term.function.name for term in parts if isinstance(term, Call)).items()]


def _trait(term: Term) -> Trait:
    term = term.call if isinstance(term, Once) else term
    if isinstance(term, Number):
        return term.value
    return term.function.name if isinstance(term, Call) else ""
