"""Finding patterns among equations, by what reads what and not by their order."""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from jaxprgen import _jax
from jaxprgen._jax import JaxprEqn, Literal, Var
from jaxprgen.ir.sharing import COMMUTATIVE
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
)

_PASSED_ON = frozenset({"broadcast_in_dim", "reshape", "squeeze", "copy", "stop_gradient"})
"""Of one number everywhere these make that number everywhere."""

_PRODUCTS = frozenset({"mul", "div", "neg"})
_FEW = 8  # The most factors of a product that are looked at.


class Miss(NamedTuple):
    """Where a pattern was not found, and why not.

    ``found`` are the equations that it had found until then, the outermost first.
    """

    found: tuple[JaxprEqn, ...]
    reason: str


class Operand(NamedTuple):
    """What a variable of a pattern stands for, as a check sees it."""

    graph: Graph
    atom: Any

    @property
    def shape(self) -> tuple[int, ...]:
        """Its shape."""
        return self.atom.aval.shape

    @property
    def dtype(self) -> Any:
        """Its dtype."""
        return self.atom.aval.dtype

    @property
    def number(self) -> Any:
        """The number that it is everywhere, if that is known."""
        return self.graph.number(self.atom)

    @property
    def primitive(self) -> str:
        """The primitive that gives it; nothing for inputs and literals."""
        return self.graph.name(self.atom)

    @property
    def operands(self) -> list[Operand]:
        """What that primitive is of."""
        eqn = self.graph.definitions.get(self.atom) if self.primitive else None
        return [Operand(self.graph, x) for x in eqn.invars] if eqn is not None else []


class Graph:
    """What gives and who reads the variables of a program.

    Attributes
    ----------
    definitions
        The equations by the variables they give.
    readers
        How many operands and results each variable is.
    explaining
        Whether misses are remembered.
    miss
        The nearest of them.
    """

    def __init__(
        self, constants: Mapping[Var, Any], readers: Counter[Any], explaining: bool = False
    ) -> None:
        self.definitions: dict[Any, JaxprEqn] = {}
        self.readers = readers
        self.explaining = explaining
        self.miss: Miss | None = None
        self._numbers: dict[Any, Any] = {}
        self._factors: dict[Any, Factors] = {}
        self._constants = constants

    def define(self, eqn: JaxprEqn) -> None:
        """Know an equation, which reads nothing that is unknown."""
        self.definitions.update(dict.fromkeys(eqn.outvars, eqn))
        name = eqn.primitive.name
        if name in _PASSED_ON or name == "convert_element_type":
            self._numbers[eqn.outvars[0]] = self._passed_on(eqn)

    def name(self, x: Any) -> str:
        """The primitive that gives an atom; nothing for inputs and literals."""
        eqn = self.definitions.get(x) if type(x) is Var else None
        return eqn.primitive.name if eqn is not None else ""

    def number(self, x: Any) -> Any:
        """The number that an atom is everywhere, if it is known to be one."""
        if type(x) is not Var:
            return np.asarray(x.val)[()] if np.ndim(x.val) == 0 else None
        if x in self._constants and x not in self._numbers:
            self._numbers[x] = self._constant(x)
        return self._numbers.get(x)

    def _passed_on(self, eqn: JaxprEqn) -> Any:
        """The number that an equation gives everywhere, of one; none that a conversion changes."""
        number = self.number(eqn.invars[0])
        if number is None or eqn.primitive.name != "convert_element_type":
            return number
        if number.dtype.kind == "c":
            return None
        with np.errstate(all="ignore"):
            converted = np.asarray(number).astype(eqn.params["new_dtype"])[()]
        return converted if converted == number else None

    def _constant(self, x: Var) -> Any:
        value: Any = self._constants.get(x)
        if not _jax.is_readable(value) or not 0 < np.size(value) <= _SMALL:
            return None
        array = np.asarray(value)
        bits = {element.tobytes() for element in array.ravel()}
        return array.ravel()[0] if len(bits) == 1 else None

    # --- Matching: each gives all ways in which an atom is what a term says ----------------

    def matches(self, term: Term, x: Any, match: Match) -> Iterator[Match]:
        """All matches of a term with an atom that extend a match."""
        if type(term) is Call:
            yield from self._call(term, x, match)
        elif type(term) is Variable:
            yield from self._variable(term, x, match)
        elif type(term) is Number:
            number = self.number(x)
            if number is not None and _is(number, term.value):
                yield match
            else:
                self._missed(match, lambda: f"{self.said(x)} is not {term}")
        elif type(term) is Product:
            yield from self._product(term, x, match)
        elif type(term) is Once:
            if self.readers[x] == 1:
                yield from self.matches(term.call, x, match)
            else:
                self._missed(match, lambda: f"{self.said(x)} has {self.readers[x]} readers")

    def _variable(self, term: Variable, x: Any, match: Match) -> Iterator[Match]:
        if term.constant:
            number = self.number(x)
            if number is None:
                self._missed(match, lambda: f"{self.said(x)} is no known number")
            else:
                yield from self._param(term.name, number, match)
            return
        known = match.atoms.get(term.name)
        if known is None:
            yield match._replace(atoms={**match.atoms, term.name: x})
        elif same(known, x):
            yield match
        else:
            said = self.said
            self._missed(match, lambda: f"{term} is {said(known)} and {said(x)} at once")

    def _param(self, name: str, value: Any, match: Match) -> Iterator[Match]:
        if name not in match.params:
            yield match._replace(params={**match.params, name: value})
        elif _equal(match.params[name], value):
            yield match
        else:
            self._missed(match, lambda: f"{name} is {match.params[name]} and {value} at once")

    def _call(self, term: Call, x: Any, match: Match) -> Iterator[Match]:
        name = self.name(x)
        if name != term.function.name:
            self._missed(match, lambda: f"{self.said(x)} is no {term.function.name}")
            return
        eqn = self.definitions[x]
        found = match._replace(equations=(*match.equations, eqn))
        for with_params in self._params(term, eqn, found):
            yield from self._operands(term.operands, eqn.invars, with_params)
            if name in COMMUTATIVE and not same(*eqn.invars):
                yield from self._operands(term.operands, eqn.invars[::-1], with_params)

    def _operands(
        self, terms: Sequence[Term], operands: Sequence[Any], match: Match
    ) -> Iterator[Match]:
        if not terms:
            if operands:
                self._missed(match, lambda: f"there are {len(operands)} operands more")
            else:
                yield match
        elif type(terms[0]) is Rest:
            rest = tuple(operands)
            yield from self._rest(terms[0].name, rest, match)
        elif not operands:
            self._missed(match, lambda: f"there is no operand for {terms[0]}")
        else:
            for found in self.matches(terms[0], operands[0], match):
                yield from self._operands(terms[1:], operands[1:], found)

    def _rest(self, name: str, rest: tuple[Any, ...], match: Match) -> Iterator[Match]:
        known = match.atoms.get(name, rest)
        if len(known) == len(rest) and all(map(same, known, rest)):
            yield match._replace(atoms={**match.atoms, name: rest})
        else:
            self._missed(match, lambda: f"*{name} are other operands")

    def _params(self, term: Call, eqn: JaxprEqn, match: Match) -> Iterator[Match]:
        matches: Iterator[Match] = iter((match,))
        for name, wanted in {**_usual(term.function.name), **term.params}.items():
            value = eqn.params.get(name)
            if type(wanted) is Param:
                matches = _each(functools.partial(self._param, wanted.name, value), matches)
            elif not _equal(wanted, value):
                text = f"{name} is {value}, not {wanted}"
                self._missed(match, lambda text=text: text)
                return
        yield from matches

    # --- Products, however they are nested --------------------------------------------------

    def factors(self, x: Any, depth: int = _FEW) -> Factors:
        """What a product is of: `_FEW` factors at most, and so many operations deep."""
        if not depth or self.name(x) not in _PRODUCTS:
            return Factors((x,), tree=x)
        eqn: Any = self.definitions[x]
        if any(y.aval.dtype != x.aval.dtype for y in eqn.invars):  # Wider than its factors.
            return Factors((x,), tree=x)
        if x not in self._factors:
            self._factors[x] = self._expanded(eqn, depth - 1)
        return self._factors[x]

    def _expanded(self, eqn: JaxprEqn, depth: int) -> Factors:
        first, *others = (self.factors(x, depth) for x in eqn.invars)
        if eqn.primitive.name == "neg":
            return first._replace(is_negative=not first.is_negative)
        (other,) = others
        count = len([*first.factors, *first.divisors, *other.factors, *other.divisors])
        if count > _FEW or max(_depth(first.tree), _depth(other.tree)) >= _FEW:
            first, other = (Factors((x,), tree=x) for x in eqn.invars)
        up, down = other.factors, other.divisors
        if eqn.primitive.name == "div":
            up, down = down, up
        found = [x for x in (*first.factors, *up) if self.number(x) != 1]
        is_negative = first.is_negative != other.is_negative
        tree = self._tree(eqn.primitive.name, first.tree, other.tree)
        return Factors(tuple(found), (*first.divisors, *down), is_negative, tree)

    def _tree(self, name: str, first: Any, other: Any) -> Any:
        if self._is_one(other):
            return first
        if self._is_one(first):
            return other if name == "mul" else (name, None, other)
        return name, first, other

    def _is_one(self, tree: Any) -> bool:
        return type(tree) is not tuple and self.number(tree) == 1

    def _product(self, term: Product, x: Any, match: Match) -> Iterator[Match]:
        if self.name(x) not in _PRODUCTS or x.aval.dtype.kind != "f":
            self._missed(match, lambda: f"{self.said(x)} is no product of real numbers")
            return
        found = self.factors(x)
        start = match._replace(equations=(*match.equations, self.definitions[x]), others=found)
        for up in self._chosen(term.factors, start, 0):
            yield from self._chosen(term.divisors, up, 1)

    def _chosen(self, terms: Sequence[Term], match: Match, place: int) -> Iterator[Match]:
        """All matches of terms with factors, or divisors, that are taken out of the others."""
        if not terms:
            yield match
            return
        name = ("factors", "divisors")[place]
        atoms: tuple[Any, ...] = getattr(match.others, name)
        for i, x in enumerate(atoms):
            left = match.others._replace(**{name: (*atoms[:i], *atoms[i + 1 :])})
            for found in self.matches(terms[0], x, match._replace(others=left)):
                yield from self._chosen(terms[1:], found, place)

    # --- Why not --------------------------------------------------------------------------

    def _missed(self, match: Match, reason: Any) -> None:
        """Remember a miss if it is nearer than those before."""
        if self.explaining and (self.miss is None or len(match.equations) > len(self.miss.found)):
            self.miss = Miss(match.equations, reason())

    def refuse(self, match: Match, reason: str) -> None:
        """A match that a check, or the type of what would replace it, refuses."""
        if self.explaining:
            self.miss = Miss(match.equations, reason)

    def said(self, x: Any) -> str:
        """An atom in words."""
        if isinstance(x, Literal):
            return f"the number {x.val}"
        name = self.name(x)
        return f"the result of {name} ({x.aval})" if name else f"an input ({x.aval})"


_SMALL = 4096  # The most elements of a constant that are looked at.


def _depth(tree: Any) -> int:
    return 1 + max(map(_depth, tree[1:])) if type(tree) is tuple else 0


def _each(step: Any, matches: Iterator[Match]) -> Iterator[Match]:
    for match in matches:
        yield from step(match)


@functools.cache
def _usual(name: str) -> Mapping[str, Any]:
    return _jax.default_params(name)


def same(x: Any, y: Any) -> bool:
    """Whether two atoms are one value: a variable, or literals of equal types and bits."""
    if type(x) is Var or type(y) is Var:
        return x is y
    return x.aval == y.aval and np.asarray(x.val).tobytes() == np.asarray(y.val).tobytes()


def _is(number: Any, wanted: float) -> bool:
    """Whether a number is one that is written, in its own dtype; zeros have signs."""
    if wanted or number != wanted:
        return bool(number == wanted)
    return number.dtype.kind in "biu" or np.signbit(number.real) == np.signbit(wanted)


def _equal(x: Any, y: Any) -> bool:
    return type(x) is type(y) and bool(np.all(x == y))
