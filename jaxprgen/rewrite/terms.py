"""Patterns and replacements as terms: ``log(1 + exp(x))`` is a tree of what it is written as.

A term is matched with the results of equations, and what it stands for is emitted from a match.
Functions are named as in `jax.lax`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from jaxprgen import _jax
from jaxprgen._jax import JaxprEqn, Var
from jaxprgen.emit.values import Value, elementwise, full_rank, value_of
from jaxprgen.ir import Atom, Builder, current_builder
from jaxprgen.ir import primitives as lax


class Factors(NamedTuple):
    """What a product is of: factors, divisors, and whether its sign is changed besides.

    ``tree`` tells how they are nested: it is a factor, or a primitive's name and two trees, of
    which the first one of a quotient is None if that is 1.
    """

    factors: tuple[Any, ...]
    divisors: tuple[Any, ...] = ()
    is_negative: bool = False
    tree: Any = None


class Match(NamedTuple):
    """What a pattern found.

    Attributes
    ----------
    atoms
        By the names of variables: what they stand for.
    params
        By the names of parameters, and of constants, their values.
    equations
        The equations that calls stand for, the outermost first.
    others
        What else is multiplied to a product.
    """

    atoms: Mapping[str, Any]
    params: Mapping[str, Any]
    equations: tuple[JaxprEqn, ...]
    others: Factors


NOTHING = Match({}, {}, (), Factors(()))
Emit: TypeAlias = Callable[..., Value]
Operand: TypeAlias = "Term | float"


class Term:
    """A pattern, or what replaces one."""

    def __add__(self, other: Operand) -> Call:
        return add(self, other)

    def __radd__(self, other: float) -> Call:
        return add(other, self)

    def __sub__(self, other: Operand) -> Call:
        return sub(self, other)

    def __rsub__(self, other: float) -> Call:
        return sub(other, self)

    def __mul__(self, other: Operand) -> Call:
        return mul(self, other)

    def __rmul__(self, other: float) -> Call:
        return mul(other, self)

    def __truediv__(self, other: Operand) -> Call:
        return div(self, other)

    def __rtruediv__(self, other: float) -> Call:
        return div(other, self)

    def __neg__(self) -> Call:
        return neg(self)

    def emit(self, match: Match) -> Value:
        """What this stands for in a match."""
        raise TypeError(f"{self} is a pattern, and cannot replace one.")


@dataclass(frozen=True)
class Variable(Term):
    """Any value; the same one wherever the name is the same. A constant one is a known number."""

    name: str
    constant: bool = False

    def __str__(self) -> str:
        return self.name

    def emit(self, match: Match) -> Value:
        """The value found."""
        if self.constant:
            return Value(np.asarray(match.params[self.name]))
        return value_of(match.atoms[self.name])


@dataclass(frozen=True)
class Rest(Term):
    """All operands that are left, as the last operand of a call."""

    name: str

    def __str__(self) -> str:
        return f"*{self.name}"


@dataclass(frozen=True)
class Number(Term):
    """A number, in the dtype of what it meets, and everywhere in an array of any shape.

    Of the two zeros it is the one that is written, of floating-point numbers.
    """

    value: float

    def __str__(self) -> str:
        return f"{self.value:g}"

    def emit(self, match: Match) -> Value:
        """The number, before it has a dtype."""
        return Value(np.asarray(self.value))


@dataclass(frozen=True)
class Once(Term):
    """A call whose result nobody else reads."""

    call: Term

    def __str__(self) -> str:
        return f"once({self.call})"


@dataclass(frozen=True)
class Product(Term):
    """A product of floating-point numbers that has these factors, and divisors, among others.

    However multiplications, divisions and changes of sign are nested and ordered. What replaces
    it stands for these, in the place of one of them; the others stay where they are, as products
    in another order may be too large, or too small, for a number.
    """

    factors: tuple[Term, ...]
    divisors: tuple[Term, ...] = ()

    def __str__(self) -> str:
        divisors = f" over {', '.join(map(str, self.divisors))}" if self.divisors else ""
        return f"product({', '.join(map(str, self.factors))}{divisors})"


@dataclass(frozen=True)
class Param(Term):
    """The value of an equation's parameter; the same one wherever the name is the same."""

    name: str

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True)
class Call(Term):
    """What a function gives of operands.

    Parameters that are not written have their usual values, or any if they have none.
    """

    function: Function
    operands: tuple[Term, ...]
    params: Mapping[str, Any] = field(default_factory=dict, hash=False)

    @functools.cached_property
    def wanted(self) -> Mapping[str, Any]:
        """The parameters that an equation must have, where this is a pattern."""
        return {**_jax.default_params(self.function.name), **self.params}

    def __str__(self) -> str:
        params = [f"{k}={v}" for k, v in self.params.items()]
        return f"{self.function.name}({', '.join([*map(str, self.operands), *params])})"

    def emit(self, match: Match) -> Value:
        """What the function emits of the values found."""
        if self.function.emit is None:
            return super().emit(match)
        values = [x.emit(match) for x in self.operands]
        typed = [v for x, v in zip(self.operands, values, strict=True) if type(x) is not Number]
        values = [
            typed[0].like(x.value) if typed and type(x) is Number else v
            for x, v in zip(self.operands, values, strict=True)
        ]
        params = {
            k: match.params[v.name] if type(v) is Param else v for k, v in self.params.items()
        }
        return self.function.emit(*values, **params)


class Function(NamedTuple):
    """A function of terms.

    Attributes
    ----------
    name
        Of the primitive that it is; in angle brackets of one that no equation is.
    emit
        What it is in a replacement: a function of values, and of parameters by name.
    """

    name: str
    emit: Emit | None = None

    def __call__(self, *operands: Operand, **params: Any) -> Call:
        """What it gives of terms and numbers."""
        terms = tuple(x if isinstance(x, Term) else Number(x) for x in operands)
        return Call(self, terms, params)


def variables(names: str) -> list[Variable]:
    """Variables of these names, which spaces separate."""
    return [Variable(name) for name in names.split()]


def emitted(emit: Emit) -> Function:
    """A function for replacements alone, by what emits it."""
    return Function(f"<{emit.__name__}>", emit)


def primitive(name: str) -> Function:
    """The primitive of this name, whose operands broadcast in a replacement."""

    def emit(*operands: Value, **params: Any) -> Value:
        given = {**_jax.default_params(name), **params}

        def construct(b: Builder, *operands: Atom) -> Var:
            return b.bind(_jax.primitive(name), operands, given)

        if name in lax.ELEMENTWISE:
            return elementwise(construct, *operands)
        if name == "select_n":
            return full_rank(construct, *operands)
        return Value(construct(current_builder(), *[x.atom() for x in operands]))

    return Function(name, emit)


# The vocabulary that algebra needs; `primitive` has the rest.
abs_, max_, min_, not_, and_, or_ = map(primitive, ("abs", "max", "min", "not", "and", "or"))
add, sub, mul, div, neg = map(primitive, ("add", "sub", "mul", "div", "neg"))
exp, expm1, log, log1p = map(primitive, ("exp", "expm1", "log", "log1p"))
sqrt, square, integer_pow = map(primitive, ("sqrt", "square", "integer_pow"))
logistic, erf, erfc = map(primitive, ("logistic", "erf", "erfc"))
select, conj, reduce_sum = map(primitive, ("select_n", "conj", "reduce_sum"))
broadcast, transpose, rev = map(primitive, ("broadcast_in_dim", "transpose", "rev"))
reshape = primitive("reshape")
