"""Rewrite rules: a pattern, its replacement, and a check that may refuse a match."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from jaxprgen import _jax
from jaxprgen.emit.values import Shape, Value, broadcast_shapes, broadcast_to, value_of
from jaxprgen.errors import DuplicateRuleError, InvalidRuleError, JaxprGenError
from jaxprgen.ir import primitives as lax
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
    structure,
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
        The replacement or the check uses a name that the pattern does not bind, one of them holds a
        term that only the other can, or a parameter without a default in `jax.lax` is left out.
    """

    pattern: Call | Product
    replacement: Term
    check: Check | None = None
    name: str = ""
    place: str = ""

    def __post_init__(self) -> None:
        values, params = _bound_names(self.pattern)
        self._require_params("pattern", self.pattern)
        self._require_params("replacement", self.replacement)
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

    def _require_params(self, part: str, term: Term) -> None:
        """Require that calls name the parameters for which `jax.lax` has no default."""
        for call in (x for x in walk(term) if isinstance(x, Call)):
            name = call.function.name
            if part == "pattern" and name.startswith("<"):
                raise InvalidRuleError(
                    f"{self}: the pattern contains {call}, which only replacements can contain."
                )
            missing = [k for k in _jax.required_params(name) if k not in call.params]
            if missing and not call.is_open:
                operands = ", ".join(map(str, call.operands))
                way = f", or accept any value: {name}({operands}, ...)" * (part == "pattern")
                raise InvalidRuleError(
                    f"{self}: the {part} {call} leaves out {', '.join(missing)}, for which "
                    f"jax.lax has no default.\nName it, {missing[0]}=Param({missing[0]!r}) or a "
                    f"value{way}."
                )

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

    def emit(self, match: Match, aval: Any) -> Value:
        """Append the replacement of a match to the builder at hand, and return its value.

        Parameters
        ----------
        match : Match
            What the pattern's names stand for.
        aval : ShapedArray
            The type of the matched value.

        Returns
        -------
        Value
            The value that takes the place of the matched one. It has the same shape and dtype.

        Raises
        ------
        InvalidRuleError
            The replacement fails, or has another shape or dtype.
        """
        term = self.replacement
        is_product = isinstance(self.pattern, Product)
        if is_product:
            new = term if isinstance(term, Number) else _Replaced(self, aval)
            term = _Placing(match.others, new).term()
        if isinstance(term, Number):
            return _run(self, lambda: term.filled(aval.shape, aval.dtype), match)
        if not is_product:
            return _replaced(self, match, aval)
        found = _run(self, lambda: term.emit(match), match)
        return broadcast_to(found, aval.shape)  # Numbers may be all that is left.

    def __str__(self) -> str:
        return f"{self.name} ({self.place})" if self.place else self.name


def _replaced(rule: Rule, match: Match, aval: Any) -> Value:
    """Append the replacement itself, which has to have the shape and dtype of a type."""
    found = _run(rule, lambda: rule.replacement.emit(match), match)
    if found.shape != aval.shape and _is_elementwise(rule, match, found.shape):
        found = broadcast_to(found, aval.shape)
    if found.shape == aval.shape and found.dtype == aval.dtype:
        return found
    raise InvalidRuleError(
        f"{rule}: {rule.pattern} is {_text(aval)}, but its replacement {rule.replacement} is "
        f"{_text(found)}, for {_texts(match)}.\n"
        "A replacement has the shape and dtype of what it replaces: convert it with .astype "
        "and .reshape, or refuse these types in the rule's check."
    )


def _run(rule: Rule, emit: Callable[[], Value], match: Match) -> Value:
    try:
        return emit()
    except InvalidRuleError:
        raise
    except Exception as error:
        raise InvalidRuleError(
            f"{rule}: the replacement {rule.replacement} of {rule.pattern} failed for "
            f"{_texts(match)}: {type(error).__name__}: {str(error).rstrip('.')}.\n"
            "Refuse these types in the rule's check, or correct the replacement."
        ) from error


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
        if not self._others.is_negative:
            return term
        return Number(-term.value) if isinstance(term, Number) else neg(term)

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
class _Replaced(Term):
    """The replacement of a rule, which has to have the type of what it replaces."""

    rule: Rule
    aval: Any

    def emit(self, match: Match) -> Value:
        return _replaced(self.rule, match, self.aval)


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
        The pattern is not the only result of an equation, or the rule is malformed; see `Rule`.
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

    ``check`` is the check of lines without one. Errors are those of `rule` and, if a line can never
    fire because of a line before it, a `DuplicateRuleError`.

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
    rules = tuple(rule(*line[:2], *(line[2:] or (check,)), place=place) for line in lines)
    require_distinct(rules)
    return rules


def require_distinct(rules: Sequence[Rule]) -> None:
    """Require that no rule comes after another one that fires wherever it would.

    Raises
    ------
    DuplicateRuleError
        Two rules have patterns that match the same, and the first has no check; or both have the
        same check, and names for it.
    """
    found: dict[Any, Rule] = {}
    for rule in rules:
        names: dict[Any, int] = {}
        pattern = structure(rule.pattern, names)
        own = (pattern, rule.check, tuple(names)) if rule.check else pattern
        for key in (pattern, own):
            first = found.get(key)
            if first is not None:
                raise DuplicateRuleError(
                    f"{rule} never fires: {first} comes before it, and its pattern {first.pattern} "
                    f"matches whatever {rule.pattern} matches.\n"
                    "Remove one of the rules, or give the first one a check."
                )
        found[own] = rule


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
        is_any = term.is_open or any(x is ... for x in term.params.values())
        return is_any or term.function.emit is None
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


def _is_elementwise(rule: Rule, match: Match, shape: Shape) -> bool:
    """Return whether a match and its replacement are elementwise: their operands broadcast.

    The replacement then has the shape to which the operands broadcast that it uses, which may be
    smaller than that of the match: in ``mul(x, 1)``, the 1 may have the larger shape.
    """
    if match.equations[0].primitive.name not in lax.ELEMENTWISE:
        return False
    names = {name for term in walk(rule.replacement) for name in _used_names(term)[0]}
    found = (match.atoms[name] for name in names if name in match.atoms)
    atoms = (y for x in found for y in (x if isinstance(x, tuple) else (x,)))
    try:
        return shape == broadcast_shapes(*(y.aval.shape for y in atoms))
    except JaxprGenError:
        return False


def _text(x: Any) -> str:
    return f"{x.dtype}[{','.join(map(str, x.shape))}]"


def _texts(match: Match) -> str:
    """Return the names of a match with their types or values."""
    several = {k: x if isinstance(x, tuple) else (x,) for k, x in match.atoms.items()}
    types = [f"{k}: {', '.join(_text(x.aval) for x in xs)}" for k, xs in several.items()]
    return "; ".join([*types, *(f"{k} = {x}" for k, x in match.params.items())]) or "no names"


def _is_one(term: Term) -> bool:
    return type(term) is Number and term.value == 1
