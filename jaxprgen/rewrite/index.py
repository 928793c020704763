"""Which rules may fire at an equation, by what gives its operands: most may not, at no cost."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from typing import Any

from jaxprgen.rewrite.graph import NO_TRAITS, TWICE, Trait
from jaxprgen.rewrite.rules import Rule
from jaxprgen.rewrite.terms import Call, Number, Once, Product, Term


class Entry:
    """A rule, with the traits that must be there for it to fire: of operands, or of factors."""

    def __init__(self, rule: Rule) -> None:
        self.rule = rule
        self.of_factors = isinstance(rule.pattern, Product)
        self.needed = frozenset(_needed(rule.pattern)) - {""}
        self.is_on_condition = _has_condition(rule.pattern)


class Entries:
    """The rules for the equations of one primitive, the first one first."""

    def __init__(self) -> None:
        self.all: list[Entry] = []
        self._found: dict[Any, list[Entry]] = {}

    def fitting(self, of_operands: frozenset[Trait], of_factors: frozenset[Trait]) -> list[Entry]:
        """Those whose traits are there."""
        key = of_operands, of_factors
        found = self._found.get(key)
        if found is None:
            found = self._found[key] = [e for e in self.all if e.needed <= key[e.of_factors]]
        return found


class Index:
    """Rules by the primitives whose equations they may replace.

    Attributes
    ----------
    entries
        The rules for each primitive.
    traits
        All that some rule needs; others need not be looked for.
    is_on_condition
        Whether a condition on readers decides about any of them.
    """

    def __init__(self, rules: Sequence[Rule]) -> None:
        self.entries: dict[str, Entries] = {}
        found: list[Entry] = []
        for rule in rules:
            entry = Entry(rule)
            found.append(entry)
            for root in rule.roots:
                self.entries.setdefault(root, Entries()).all.append(entry)
        self.traits = NO_TRAITS.union(*(entry.needed for entry in found))
        self.is_on_condition = any(entry.is_on_condition for entry in found)


@functools.lru_cache(maxsize=256)
def index_of(rules: tuple[Rule, ...]) -> Index:
    """The index of some rules; made once."""
    return Index(rules)


def _needed(pattern: Call | Product) -> Iterator[Trait]:
    if isinstance(pattern, Product):
        yield from map(_trait, (*pattern.factors, *pattern.divisors))
        if set(pattern.factors) & set(pattern.divisors):
            yield TWICE
    else:
        yield from map(_trait, pattern.operands)
        if len(pattern.operands) == 2 and len(set(pattern.operands)) == 1:
            yield TWICE


def _trait(term: Term) -> Trait:
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
