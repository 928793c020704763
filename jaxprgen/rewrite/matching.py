"""Matching of patterns with equations, along data flow; the order of equations does not matter."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from jaxprgen import _jax
from jaxprgen._jax import JaxprEqn, Var
from jaxprgen.ir.redundancy import COMMUTATIVE, atom_key
from jaxprgen.rewrite.graph import PRODUCTS, Graph
from jaxprgen.rewrite.terms import Call, Match, Number, Once, Param, Product, Rest, Term, Variable


class Miss(NamedTuple):
    """A failed match.

    Attributes
    ----------
    found : tuple of JaxprEqn
        The equations that had matched before, the outermost first.
    reason : str
        Why the match failed.
    """

    found: tuple[JaxprEqn, ...]
    reason: str


class Matcher:
    """Matches terms with atoms of a graph.

    Parameters
    ----------
    graph : Graph
        The program's data flow.
    explaining : bool
        Whether to remember the nearest miss.

    Attributes
    ----------
    miss : Miss or None
        The nearest miss: the failed match in which most equations had matched.
    """

    def __init__(self, graph: Graph, explaining: bool = False) -> None:
        self.graph = graph
        self.explaining = explaining
        self.miss: Miss | None = None

    def matches(self, term: Term, x: Any, match: Match) -> Iterator[Match]:
        """Yield every match of a term with an atom that extends ``match``."""
        if type(term) is Call:
            yield from self._call(term, x, match)
        elif type(term) is Variable:
            yield from self._variable(term, x, match)
        elif type(term) is Number:
            number = self.graph.number(x)
            if number is not None and _is(number, term.value):
                yield match
            else:
                self._missed(match, lambda: f"{self.graph.described(x)} is not {term}")
        elif type(term) is Product:
            yield from self._product(term, x, match)
        elif type(term) is Once:
            if type(x) is not Var or self.graph.readers[x] == 1:
                yield from self.matches(term.call, x, match)
            else:
                self._missed(
                    match, lambda: f"{self.graph.described(x)} has {self.graph.readers[x]} readers"
                )

    def _variable(self, term: Variable, x: Any, match: Match) -> Iterator[Match]:
        if term.constant:
            number = self.graph.number(x)
            if number is None:
                self._missed(match, lambda: f"{self.graph.described(x)} is not a known number")
            else:
                yield from self._param(term.name, number, match)
            return
        known = match.atoms.get(term.name)
        if known is None:
            atoms, params, equations, others = match
            yield Match({**atoms, term.name: x}, params, equations, others)
        elif same(known, x):
            yield match
        else:
            text = self.graph.described
            self._missed(match, lambda: f"{term} cannot be both {text(known)} and {text(x)}")

    def _param(self, name: str, value: Any, match: Match) -> Iterator[Match]:
        if name not in match.params:
            atoms, params, equations, others = match
            yield Match(atoms, {**params, name: value}, equations, others)
        elif _jax.are_same(match.params[name], value):
            yield match
        else:
            self._missed(match, lambda: f"{name} cannot be both {match.params[name]} and {value}")

    def _call(self, term: Call, x: Any, match: Match) -> Iterator[Match]:
        name = self.graph.name(x)
        if name != term.function.name:
            wanted = term.function.name
            self._missed(match, lambda: f"{self.graph.described(x)} is not a result of {wanted}")
            return
        eqn = self.graph.definitions[x]
        atoms, params, equations, others = match
        found = Match(atoms, params, (*equations, eqn), others)
        for with_params in self._params(term, eqn, found):
            yield from self._operands(term.operands, eqn.invars, with_params)
            if name in COMMUTATIVE and not same(*eqn.invars):
                yield from self._operands(term.operands, eqn.invars[::-1], with_params)

    def _operands(
        self, terms: Sequence[Term], operands: Sequence[Any], match: Match
    ) -> Iterator[Match]:
        if not terms:
            if operands:
                self._missed(match, lambda: f"there are {len(operands)} more operands")
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
            self._missed(match, lambda: f"*{name} already matches other operands")

    def _params(self, term: Call, eqn: JaxprEqn, match: Match) -> Iterator[Match]:
        matches: Iterator[Match] = iter((match,))
        for name, wanted in term.params.items():
            if name not in eqn.params:
                self._missed(match, lambda name=name: f"{eqn.primitive} has no parameter {name}")
                return
            value = eqn.params[name]
            if type(wanted) is Param:
                matches = _each(functools.partial(self._param, wanted.name, value), matches)
            elif wanted is not ... and not _jax.are_same(wanted, value):
                text = f"{name} is {value}, not {wanted}"
                self._missed(match, lambda text=text: text)
                return
        for name in () if term.is_open else eqn.params:
            if name not in term.params and not _jax.is_default(eqn, name):
                text = f"the pattern leaves out {name}, which is not as by default: "
                self._missed(match, lambda text=text, name=name: f"{text}{eqn.params[name]}")
                return
        yield from matches

    def _product(self, term: Product, x: Any, match: Match) -> Iterator[Match]:
        if self.graph.name(x) not in PRODUCTS or x.aval.dtype.kind != "f":
            self._missed(match, lambda: f"{self.graph.described(x)} is not a product of floats")
            return
        found = self.graph.factors(x)
        start = match._replace(
            equations=(*match.equations, self.graph.definitions[x]), others=found
        )
        for up in self._chosen(term.factors, start, 0):
            yield from self._chosen(term.divisors, up, 1)

    def _chosen(self, terms: Sequence[Term], match: Match, place: int) -> Iterator[Match]:
        """Yield every match of terms with distinct factors, or divisors, of ``match.others``."""
        if not terms:
            yield match
            return
        name = ("factors", "divisors")[place]
        atoms: tuple[Any, ...] = getattr(match.others, name)
        for i, x in enumerate(atoms):
            left = match.others._replace(**{name: (*atoms[:i], *atoms[i + 1 :])})
            for found in self.matches(terms[0], x, match._replace(others=left)):
                yield from self._chosen(terms[1:], found, place)

    # --- Misses ---------------------------------------------------------------------------

    def _missed(self, match: Match, reason: Any) -> None:
        """Remember a miss if it is nearer than the one before."""
        if self.explaining and (self.miss is None or len(match.equations) > len(self.miss.found)):
            self.miss = Miss(match.equations, reason())

    def refuse(self, match: Match, reason: str) -> None:
        """Remember that a complete match was refused, which is nearer than any other miss."""
        if self.explaining:
            self.miss = Miss(match.equations, reason)


def _each(step: Any, matches: Iterator[Match]) -> Iterator[Match]:
    for match in matches:
        yield from step(match)


def same(x: Any, y: Any) -> bool:
    """Return whether two atoms are the same variable, or literals of equal types and bits."""
    return x is y or atom_key(x) == atom_key(y)


def _is(number: Any, wanted: float) -> bool:
    """Return whether a number equals that of a term; floating-point zeros have signs."""
    if wanted or number != wanted:
        return bool(number == wanted)
    return number.dtype.kind in "biu" or np.signbit(number.real) == np.signbit(wanted)
