"""Rules: a pattern, what replaces it, and a check that says why it may not."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from jaxprgen.emit.values import Value, value_of
from jaxprgen.rewrite.graph import Graph, Operand
from jaxprgen.rewrite.terms import (
    Call,
    Factors,
    Match,
    Number,
    Product,
    Term,
    div,
    mul,
    neg,
)
from jaxprgen.rewrite.traced import Traced, traced_pattern

Check: TypeAlias = Callable[..., "str | None"]


@dataclass(frozen=True, eq=False)
class Rule:
    """Where a pattern is found and a check has nothing against it, something else computes it.

    Attributes
    ----------
    pattern
        The term.
    replacement
        The term that has the same value, of the pattern's variables.
    check
        A function of some of the pattern's names, or none: of variables it gets an `Operand`, of
        parameters and constants the values. It returns why not, or None.
    name
        What the rule is called in reports and in the names of the equations it makes.
    place
        Where it was written, as ``file:line``.
    """

    pattern: Call | Product
    replacement: Term
    check: Check | None = None
    name: str = ""
    place: str = ""

    @property
    def roots(self) -> tuple[str, ...]:
        """The primitives that may give what the pattern is."""
        pattern = self.pattern
        return ("mul", "div") if isinstance(pattern, Product) else (pattern.function.name,)

    def refusal(self, graph: Graph, match: Match) -> str | None:
        """Why the check is against a match."""
        if self.check is None:
            return None
        given = {
            name: [Operand(graph, y) for y in x] if isinstance(x, tuple) else Operand(graph, x)
            for name, x in match.atoms.items()
        }
        given = {**given, **match.params}
        return self.check(**{name: given[name] for name in self._asked if name in given})

    @functools.cached_property
    def _asked(self) -> Sequence[str]:
        """The names that the check is a function of."""
        return tuple(inspect.signature(self.check).parameters) if self.check else ()

    def emit(self, match: Match) -> Value:
        """What stands for a match."""
        if not isinstance(self.pattern, Product):
            return self.replacement.emit(match)
        return _Placing(match.others, self.replacement).term().emit(match)

    def __str__(self) -> str:
        return f"{self.name} ({self.place})" if self.place else self.name


class _Placing:
    """A product with a replacement in the place of a factor found, and without the others found.

    Parts are terms, each with whether it is a divisor; nothing stands for 1.
    """

    def __init__(self, others: Factors, replacement: Term) -> None:
        self._others = others
        self._left = list(others.factors), list(others.divisors)
        self._new = None if _is_one(replacement) else replacement

    def term(self) -> Term:
        term, is_under = self._part(self._others.tree, 0) or (Number(1), False)
        term = div(1, term) if is_under else term
        return neg(term) if self._others.is_negative else term

    def _part(self, tree: Any, place: int) -> tuple[Term, bool] | None:
        if type(tree) is not tuple:
            return None if tree is None else self._factor(tree, place)
        name, *trees = tree
        is_div = name == "div"
        first, other = self._part(trees[0], place), self._part(trees[1], place ^ is_div)
        if other is None:
            return first
        term, is_under = other[0], other[1] ^ is_div
        if first is None:
            return term, is_under
        if first[1] == is_under:
            return mul(first[0], term), is_under
        return (div(first[0], term) if is_under else div(term, first[0])), False

    def _factor(self, x: Any, place: int) -> tuple[Term, bool] | None:
        left = self._left[place]
        for i, y in enumerate(left):
            if x is y:
                del left[i]
                return _Atom(x), False
        if place or self._new is None:
            return None
        new, self._new = self._new, None
        return new, False


@dataclass(frozen=True)
class _Atom(Term):
    atom: Any

    def emit(self, match: Match) -> Value:
        return value_of(self.atom)


def rule(
    pattern: Call | Product | Callable[..., Any],
    replacement: Term | float | Callable[..., Any],
    check: Check | None = None,
    *,
    name: str = "",
    examples: Sequence[Any] | None = None,
    place: str = "",
) -> Rule:
    """A rule of terms, or of functions of arrays.

    Functions are any that JAX can trace. That of the pattern is traced now, on examples: the
    primitives found are the pattern, and numbers in it numbers; sizes and dtypes do not matter
    unless they are parameters. Arguments by name are parameters: their defaults are examples, and
    each parameter that is equal to one may be anything. An argument ``*xs`` is all operands that
    are left. That of the replacement is traced where it is used.

    Parameters
    ----------
    pattern
        A term, or a function of arrays.
    replacement
        A term or a number of the same variables, or a function of the same arguments.
    check
        See `Rule`.
    name
        See `Rule`; the pattern's text, or the name of the function it is, unless given.
    examples
        What the function of the pattern is traced on: vectors of three float32, unless given.
    place
        See `Rule`; the caller's line, unless given.

    Raises
    ------
    InvalidRuleError
        The pattern is not the one result of an equation.
    """
    if not isinstance(pattern, (Call, Product)):
        name = name or getattr(pattern, "__name__", "")
        pattern = traced_pattern(pattern, examples)
    if callable(replacement):
        replacement = Traced(replacement)
    if not isinstance(replacement, Term):
        replacement = Number(replacement)
    return Rule(pattern, replacement, check, name or str(pattern), place or _place())


def table(*lines: tuple[Any, ...], check: Check | None = None) -> tuple[Rule, ...]:
    """Rules of which each is a line: a pattern, a replacement, and a check if it has its own."""
    place = _place()
    return tuple(rule(*line[:2], *(line[2:] or (check,)), place=place) for line in lines)


def _place() -> str:
    """The line that calls the caller."""
    frame: Any = inspect.currentframe()
    caller = frame.f_back.f_back
    return f"{caller.f_code.co_filename}:{caller.f_lineno}"


def _is_one(term: Term) -> bool:
    return type(term) is Number and term.value == 1
