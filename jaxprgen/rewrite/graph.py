"""The data flow of a program: definitions, known numbers, and products of its variables."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from jaxprgen import _jax
from jaxprgen._jax import JaxprEqn, Literal, Var
from jaxprgen.ir.redundancy import atom_key
from jaxprgen.rewrite.terms import Factors

Trait: TypeAlias = "str | float"
"""A property of an operand: the primitive that computes it, or the number that fills it."""

TWICE = "twice"
"""The trait that two operands are the same, or that a factor is also a divisor."""

NO_TRAITS: frozenset[Trait] = frozenset()

_PASSED_ON = frozenset({"broadcast_in_dim", "reshape", "squeeze", "copy", "stop_gradient"})
"""Primitives that return an array filled with the number that fills their operand."""

PRODUCTS = frozenset({"mul", "div", "neg"})
_FEW = 8  # Products of more factors are not taken apart.
_SMALL = 4096  # Constants of more elements are not inspected.


class Graph:
    """The definitions and uses of a program's variables.

    Parameters
    ----------
    constants : mapping of Var to value
        The program's constants.
    readers : Counter of Var
        How often each variable is an operand of an equation, or an output of the program.
    wanted : frozenset of Trait
        The traits to look for.

    Attributes
    ----------
    definitions : dict of Var to JaxprEqn
        The equation that binds each variable.
    """

    def __init__(
        self, constants: Mapping[Var, Any], readers: Counter[Any], wanted: frozenset[Trait]
    ) -> None:
        self.definitions: dict[Any, JaxprEqn] = {}
        self.readers = readers
        self.constants = constants
        self._wanted = wanted
        self._numbers: dict[Any, Any] = {}
        self._factors: dict[Any, Factors] = {}
        self._traits: dict[Any, frozenset[Trait]] = {}

    def define(self, eqn: JaxprEqn) -> None:
        """Add an equation; those that define its operands were added before."""
        for v in eqn.outvars:
            self.definitions[v] = eqn
        if eqn.primitive.name in _PASSED_ON or eqn.primitive.name == "convert_element_type":
            self._numbers[eqn.outvars[0]] = self._passed_on(eqn)

    def name(self, x: Any) -> str:
        """Return the name of the primitive that computes an atom; "" for inputs and literals."""
        eqn = self.definitions.get(x) if type(x) is Var else None
        return eqn.primitive.name if eqn is not None else ""

    def number(self, x: Any) -> Any:
        """Return the number that fills an atom, or None if there is none or it is not known."""
        if type(x) is not Var:
            return np.asarray(x.val)[()] if np.ndim(x.val) == 0 else None
        if x in self.constants and x not in self._numbers:
            self._numbers[x] = self._constant(x)
        return self._numbers.get(x)

    def _passed_on(self, eqn: JaxprEqn) -> Any:
        """Return the number that fills a result of `_PASSED_ON`, or of an exact conversion."""
        number = self.number(eqn.invars[0])
        if number is None or eqn.primitive.name != "convert_element_type":
            return number
        if number.dtype.kind == "c":
            return None
        with np.errstate(all="ignore"):
            converted = np.asarray(number).astype(eqn.params["new_dtype"])[()]
        return converted if converted == number else None

    def _constant(self, x: Var) -> Any:
        value: Any = self.constants.get(x)
        if not _jax.is_readable(value) or not 0 < np.size(value) <= _SMALL:
            return None
        array = np.ravel(value)
        bits = array.view(np.uint8).reshape(array.size, -1)
        return array[0] if (bits == bits[0]).all() else None

    def described(self, x: Any) -> str:
        """Return a description of an atom."""
        if isinstance(x, Literal):
            return f"the number {x.val}"
        name = self.name(x)
        return f"the result of {name} ({x.aval})" if name else f"an input ({x.aval})"

    # --- Traits, which exclude most rules -------------------------------------------------------

    def traits(self, x: Any) -> frozenset[Trait]:
        """Return the wanted traits of an atom."""
        found = self._traits.get(x) if type(x) is Var else None
        if found is None:
            number = self.number(x)
            both = self.name(x), None if number is None else number.item()
            found = self._wanted.intersection(both)
            if type(x) is Var:
                self._traits[x] = found
        return found

    def traits_of(self, operands: Sequence[Any]) -> frozenset[Trait]:
        """Return the wanted traits of any of the operands, and `TWICE` if the first recurs."""
        found = NO_TRAITS.union(*map(self.traits, operands))
        is_twice = any(x is operands[0] for x in operands[1:])
        return found | {TWICE} if is_twice else found

    def traits_of_factors(self, x: Any) -> frozenset[Trait]:
        """Return the wanted traits of a product's factors and divisors, if there are several."""
        factors, divisors = self.factors(x)[:2]
        if len(factors) + len(divisors) < 2:
            return NO_TRAITS
        found = NO_TRAITS.union(*map(self.traits, (*factors, *divisors)))
        is_twice = not set(map(atom_key, factors)).isdisjoint(map(atom_key, divisors))
        return found | {TWICE} if is_twice else found

    # --- Products -------------------------------------------------------------------------------

    def factors(self, x: Any, depth: int = _FEW) -> Factors:
        """Take a product apart, into at most `_FEW` factors and through ``depth`` operations."""
        if not depth or self.name(x) not in PRODUCTS:
            return Factors((x,), tree=x)
        eqn: Any = self.definitions[x]
        if any(y.aval.dtype != x.aval.dtype for y in eqn.invars):  # Wider than its operands.
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


class Operand(NamedTuple):
    """A matched value, as a check of a rule sees it.

    Attributes
    ----------
    graph : Graph
        The program that is rewritten.
    atom : Var or Literal
        The value there.
    """

    graph: Graph
    atom: Any

    @property
    def shape(self) -> tuple[int, ...]:
        """The value's shape."""
        return self.atom.aval.shape

    @property
    def dtype(self) -> Any:
        """The value's dtype."""
        return self.atom.aval.dtype

    @property
    def number(self) -> Any:
        """The number that fills the value, or None if there is none or it is not known."""
        return self.graph.number(self.atom)

    @property
    def primitive(self) -> str:
        """The name of the primitive that computes the value; "" for inputs and literals."""
        return self.graph.name(self.atom)

    @property
    def operands(self) -> list[Operand]:
        """The operands of the equation that computes the value."""
        eqn = self.graph.definitions.get(self.atom) if self.primitive else None
        return [Operand(self.graph, x) for x in eqn.invars] if eqn is not None else []


def _depth(tree: Any) -> int:
    return 1 + max(map(_depth, tree[1:])) if type(tree) is tuple else 0
