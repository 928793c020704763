"""Rewrite rules: a pattern, its replacement, and a check that may refuse a match."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from jaxprgen.emit.values import Value, value_of
from jaxprgen.errors import InvalidRuleError
from jaxprgen.rewrite.graph import Graph, Operand
from jaxprgen.rewrite.terms import (
    Call,
    Factors,
    Match,
    Number,
    Once,
    Param,
    Product,
    Rest,
    Term,
    Variable,
    div,
    mul,
    neg,
    walk,
)
from jaxprgen.rewrite.traced import Traced, arguments_of, traced_pattern

Check: TypeAlias = Callable[..., "str | None"]


@dataclass(frozen=True, eq=False)
class Rule:
    """A rewrite rule; `rule` and `table` make them.

    Attributes
    ----------
    pattern : Call or Product
        The term to replace.
    replacement : Term
        A term of the same value that uses the names of the pattern.
    check : callable, optional
        A function whose arguments are named like some of the pattern's names. For a variable it
        gets an `Operand`, for ``*xs`` a list of them, and for a parameter or a constant its value.
        It returns None to accept the match, or the reason to refuse it.
    name : str
        The name in reports and in the name stacks of the equations that the rule makes.
    place : str
        Where the rule was written, as ``file:line``.

    Raises
    ------
    InvalidRuleError
        The replacement or the check uses a name that the pattern does not bind, or the replacement
        holds a term that only patterns can.
    """

    pattern: Call | Product
    replacement: Term
    check: Check | None = None
    name: str = ""
    place: str = ""

    def __post_init__(self) -> None:
        values, params = _bound_names(self.pattern)
        for term in walk(self.replacement):
            if _is_pattern_only(term):
                raise InvalidRuleError(
                    f"{self}: the replacement contains {term}, which only patterns can contain."
                )
            used, used_params = _used_names(term)
            if unbound := (used - values - params) | (used_params - params):
                raise self._unbound("replacement", unbound)
        if self.check is not None:
            required = {
                name
                for name, x in inspect.signature(self.check).parameters.items()
                if x.default is x.empty and x.kind not in (x.VAR_POSITIONAL, x.VAR_KEYWORD)
            }
            if unbound := required - values - params:
                raise self._unbound("check", unbound)

    def _unbound(self, user: str, unbound: set[str]) -> InvalidRuleError:
        values, params = _bound_names(self.pattern)
        kinds = (("the values", values), ("the parameters and constants", params))
        bound = [f"{kind} {', '.join(sorted(names))}" for kind, names in kinds if names]
        return InvalidRuleError(
            f"{self}: the {user} uses {', '.join(sorted(unbound))}, which the pattern does not "
            f"bind{'' if unbound - values else ' as a parameter'}.\n"
            f"The pattern {self.pattern} binds {' and '.join(bound) or 'nothing'}."
        )

    @property
    def roots(self) -> tuple[str, ...]:
        """The names of the primitives whose results the pattern may match."""
        pattern = self.pattern
        return ("mul", "div") if isinstance(pattern, Product) else (pattern.function.name,)

    def refusal(self, graph: Graph, match: Match) -> str | None:
        """Return the reason why the check refuses a match, or None if it accepts the match.

        Parameters
        ----------
        graph : Graph
            The program that is rewritten.
        match : Match
            What the pattern's names stand for.

        Returns
        -------
        str or None
            The reason, as the check gives it.
        """
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
        """The names of the check's arguments."""
        return tuple(inspect.signature(self.check).parameters) if self.check else ()

    def emit(self, match: Match) -> Value:
        """Append the replacement of a match to the builder at hand, and return its value.

        Parameters
        ----------
        match : Match
            What the pattern's names stand for.

        Returns
        -------
        Value
            The value that takes the place of the matched one.
        """
        if not isinstance(self.pattern, Product):
            return self.replacement.emit(match)
        return _Placing(match.others, self.replacement).term().emit(match)

    def __str__(self) -> str:
        return f"{self.name} ({self.place})" if self.place else self.name


class _Placing:
    """Puts a replacement in the place of a matched factor, and leaves out the other matched ones.

    Parts are pairs of a term and whether it is a divisor, or None for 1.
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
    """Return a rule, from terms or from functions of arrays.

    A pattern that is a function is traced at once, on examples. The primitives in the trace are the
    pattern; sizes and dtypes do not matter unless they are parameters. A replacement that is a
    function is traced for each match. The arguments of these functions are:

    - positional arguments, which match any value;
    - positional arguments annotated with `Constant`, which match known numbers;
    - ``*xs``, which matches all remaining operands of an equation;
    - keyword-only arguments, which are parameters of equations. Their defaults are examples: each
      parameter of that name and value in the trace matches any value.

    Parameters
    ----------
    pattern : term or callable
        The term to replace, or a function of arrays.
    replacement : term, number or callable
        A term of the pattern's names, or a function of arguments with these names.
    check : callable, optional
        See `Rule`.
    name : str, optional
        See `Rule`; by default the function's name, or the pattern's text.
    examples : sequence of arrays or ShapeDtypeStruct, optional
        The arguments on which to trace the pattern; by default vectors of three float32, and
        scalars for constants.
    place : str, optional
        See `Rule`; by default the caller's line.

    Returns
    -------
    Rule
        The rule, as `apply` takes it.

    Raises
    ------
    InvalidRuleError
        The pattern is not the only result of an equation, the replacement or the check uses a name
        that the pattern does not bind, or the replacement holds a term that only patterns can.
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
    """Return a rule for each line ``(pattern, replacement)`` or ``(pattern, replacement, check)``.

    ``check`` is the check of lines without one. Errors are those of `rule`.

    Parameters
    ----------
    *lines : tuple
        A pattern, its replacement, and optionally a check, as `rule` takes them.
    check : callable, optional
        The check of lines without one of their own.

    Returns
    -------
    tuple of Rule
        A rule for each line.
    """
    place = _place()
    return tuple(rule(*line[:2], *(line[2:] or (check,)), place=place) for line in lines)


def _place() -> str:
    """Return the file and line from which the calling function was called."""
    frame: Any = inspect.currentframe()
    caller = frame.f_back.f_back
    return f"{caller.f_code.co_filename}:{caller.f_lineno}"


def _bound_names(pattern: Term) -> tuple[set[str], set[str]]:
    """Return the names of a pattern's values, and those of its parameters and constants."""
    values: set[str] = set()
    params: set[str] = set()
    for term in walk(pattern):
        if isinstance(term, Variable):
            (params if term.constant else values).add(term.name)
        elif isinstance(term, Rest):
            values.add(term.name)
        elif isinstance(term, Call):
            params.update(x.name for x in term.params.values() if isinstance(x, Param))
    return values, params


def _is_pattern_only(term: Term) -> bool:
    """Return whether a term, apart from its operands, cannot be emitted."""
    if isinstance(term, Call):
        return term.function.emit is None
    return isinstance(term, (Once, Param, Product, Rest))


def _used_names(term: Term) -> tuple[set[str], set[str]]:
    """Return the names that a part of a replacement uses: any names, and those of parameters."""
    if isinstance(term, Variable):
        return {term.name}, set()
    if isinstance(term, Call):
        return set(), {x.name for x in term.params.values() if isinstance(x, Param)}
    if isinstance(term, Traced):
        positional, params = arguments_of(term.function)
        return {x.name for x in positional}, set(params)
    return set(), set()


def _is_one(term: Term) -> bool:
    return type(term) is Number and term.value == 1
