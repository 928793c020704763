"""An index of rules, which tells cheaply that most of them cannot fire at an equation."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any, NamedTuple

from jaxprgen.rewrite.graph import NO_TRAITS, TWICE, Trait
from jaxprgen.rewrite.rules import Rule, require_distinct
from jaxprgen.rewrite.terms import Call, Number, Once, Product, Term, parts, walk


class IndexedRule(NamedTuple):
    """A rule, and the traits without which it cannot fire.

    Attributes
    ----------
    rule : Rule
        The rule.
    of_factors : bool
        Whether the traits are those of a product's factors, rather than those of operands.
    needed : frozenset of Trait
        The traits.
    """

    rule: Rule
    of_factors: bool
    needed: frozenset[Trait]


class RuleIndex:
    """Rules by the primitives whose equations they may replace.

    Attributes
    ----------
    entries : dict of str to list of IndexedRule
        The rules for each primitive, in order.
    traits : frozenset of Trait
        All traits that some rule needs; no others are looked for.
    is_on_condition : bool
        Whether the pattern of some rule limits how often a result is read.
    """

    def __init__(self, rules: Sequence[Rule]) -> None:
        require_distinct(rules)
        self.entries: dict[str, list[IndexedRule]] = {}
        self.traits = NO_TRAITS
        for rule in rules:
            entry = IndexedRule(rule, isinstance(rule.pattern, Product), _needed(rule.pattern))
            self.traits |= entry.needed
            for root in rule.roots:
                self.entries.setdefault(root, []).append(entry)
        terms = (term for rule in rules for term in walk(rule.pattern))
        self.is_on_condition = any(isinstance(term, Once) for term in terms)
        self._fitting: dict[Any, list[IndexedRule]] = {}

    def fitting(self, primitive: str, present: frozenset[Trait]) -> list[IndexedRule]:
        """Return a primitive's rules of products, and those whose traits operands have."""
        found = self._fitting.get((primitive, present))
        if found is None:
            every = self.entries.get(primitive, ())
            found = [e for e in every if e.of_factors or e.needed <= present]
            self._fitting[primitive, present] = found
        return found


@functools.lru_cache(maxsize=256)
def indexed(rules: tuple[Rule, ...]) -> RuleIndex:
    """Return the index of some rules, which is cached."""
    return RuleIndex(rules)


def _needed(pattern: Call | Product) -> frozenset[Trait]:
    if isinstance(pattern, Product):
        is_twice = not set(pattern.factors).isdisjoint(pattern.divisors)
    else:
        is_twice = len(pattern.operands) == 2 and len(set(pattern.operands)) == 1
    found = frozenset(map(_trait, parts(pattern))) - {""}
    return found | {TWICE} if is_twice else found


def _trait(term: Term) -> Trait:
    term = term.call if isinstance(term, Once) else term
    if isinstance(term, Number):
        return term.value
    return term.function.name if isinstance(term, Call) else ""
