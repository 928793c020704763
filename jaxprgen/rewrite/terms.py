"""Terms, the algebra in which patterns and replacements are written.

``log(1 + exp(x))`` is a tree of calls, numbers and variables. A pattern is matched with the results
of equations; a replacement is emitted from a match. There is a function for each primitive, of the
same name. An underscore may follow, which Python's keywords need: ``not_``, ``and_``, ``or_``.
"""

from __future__ import annotations

import functools
import keyword
from collections.abc import Callable, Hashable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeAlias

import jax
import numpy as np

from jaxprgen import _jax
from jaxprgen._jax import JaxprEqn, Var
from jaxprgen.emit.primitives import emitter
from jaxprgen.emit.values import Dtype, Emit, Shape, Value, full, value_of
from jaxprgen.errors import InvalidRuleError
from jaxprgen.ir import Atom, Builder, primitives as lax


class Factors(NamedTuple):
    """A product, taken apart.

    Attributes
    ----------
    factors, divisors : tuple of atoms
        The numbers that are multiplied, and those that the product is divided by.
    is_negative : bool
        Whether the sign is changed besides.
    tree
        How the operations are nested: a factor, or the name of a primitive and two trees. The first
        tree of a quotient ``1 / x`` is None.
    """

    factors: tuple[Any, ...]
    divisors: tuple[Any, ...] = ()
    is_negative: bool = False
    tree: Any = None


class Match(NamedTuple):
    """One way in which a pattern matches.

    Attributes
    ----------
    atoms : mapping of str to an atom, or a tuple of atoms
        The atoms that variables stand for.
    params : mapping of str to value
        The values of parameters and of constant variables.
    equations : tuple of JaxprEqn
        The equations that match calls, the outermost first.
    others : Factors
        The remaining factors of a product.
    """

    atoms: Mapping[str, Any]
    params: Mapping[str, Any]
    equations: tuple[JaxprEqn, ...]
    others: Factors


NOTHING = Match({}, {}, (), Factors(()))
TermLike: TypeAlias = "Term | float"


def _operators(name: str) -> tuple[Callable[..., Call], Callable[..., Call]]:
    """Return the methods for an operator whose left, or right, operand is a term."""

    def operate(self: Term, other: TermLike) -> Call:
        return primitive(name)(self, other)

    def operate_from_right(self: Term, other: float) -> Call:
        return primitive(name)(other, self)

    return operate, operate_from_right


class Term:
    """A pattern or a replacement, or a part of one."""

    __add__, __radd__ = _operators("add")
    __sub__, __rsub__ = _operators("sub")
    __mul__, __rmul__ = _operators("mul")
    __truediv__, __rtruediv__ = _operators("div")

    def __pow__(self, exponent: TermLike) -> Call:
        """Return the power that JAX traces: ``integer_pow`` for an integer, else ``pow``."""
        if isinstance(exponent, (int, np.integer)):
            return integer_pow(self, y=int(exponent))
        return pow(self, exponent)

    def __rpow__(self, base: float) -> Call:
        return pow(base, self)

    def __neg__(self) -> Call:
        return neg(self)

    def __abs__(self) -> Call:
        return abs(self)

    def emit(self, match: Match) -> Value:
        """Append the equations of a replacement for a match, and return its value."""
        raise NotImplementedError(f"{self} can only be part of a pattern.")


@dataclass(frozen=True)
class Variable(Term):
    """Any value, but the same one wherever the name is the same.

    If ``constant``, it matches only a number that is known, and stands for that number.
    """

    name: str
    constant: bool = False

    def __str__(self) -> str:
        return self.name

    def emit(self, match: Match) -> Value:
        """Return the value that was matched."""
        if self.name in match.params:
            return Value(np.asarray(match.params[self.name]))
        return value_of(match.atoms[self.name])


@dataclass(frozen=True)
class Rest(Term):
    """All remaining operands, as the last operand of a call."""

    name: str

    def __str__(self) -> str:
        return f"*{self.name}"


@dataclass(frozen=True)
class Number(Term):
    """A number of any dtype, or an array of any shape filled with it.

    Floating-point zeros match only with the same sign.
    """

    value: float

    def __str__(self) -> str:
        return f"{self.value:g}"

    def emit(self, match: Match) -> Value:
        """Return the number, which `Call.emit` converts to the dtype of other operands."""
        return Value(np.asarray(self.value))

    def filled(self, shape: Shape, dtype: Dtype) -> Value:
        """Return the number in a shape and a dtype, which has to hold it up to rounding.

        Raises
        ------
        ValueError
            The dtype is one of integers or booleans, or of real numbers, and the number is not.
        """
        number = np.asarray(self.value)
        holds = number.dtype.kind != "c" or dtype.kind == "c"
        if holds and dtype.kind in "biu":
            with np.errstate(invalid="ignore"):
                holds = number.astype(dtype) == number
        if not holds:
            raise ValueError(f"{dtype} does not hold the number {self}")
        return full(shape, self.value, dtype)


@dataclass(frozen=True)
class Once(Term):
    """A call whose result nothing else reads."""

    call: Term

    def __str__(self) -> str:
        return f"once({self.call})"


@dataclass(frozen=True)
class Product(Term):
    """A product of floats that has these factors and divisors, among others.

    Multiplications, divisions and changes of sign may be nested and ordered in any way. The
    replacement takes the place of one of the matched factors. The other factors stay where they
    are, because products in another order might overflow or underflow.
    """

    factors: tuple[Term, ...]
    divisors: tuple[Term, ...] = ()

    def __str__(self) -> str:
        divisors = f" over {', '.join(map(str, self.divisors))}" if self.divisors else ""
        return f"product({', '.join(map(str, self.factors))}{divisors})"


@dataclass(frozen=True)
class Param(Term):
    """A parameter of an equation: any value, but the same wherever the name is the same."""

    name: str

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True)
class Call(Term):
    """A function applied to operands.

    Parameters that are not given match the values that `jax.lax` gives them by default, or any
    value if the call is open. The value ``...`` of a parameter matches any value, too.
    """

    function: Function
    operands: tuple[Term, ...]
    params: Mapping[str, Any] = field(default_factory=dict, hash=False)
    is_open: bool = False

    def __str__(self) -> str:
        parts = [*map(str, self.operands), *["..."] * self.is_open]
        parts += [f"{k}={'...' if v is ... else v}" for k, v in self.params.items()]
        return f"{self.function.name}({', '.join(parts)})"

    def emit(self, match: Match) -> Value:
        """Append the function's equations for the matched operands, and return its result."""
        assert self.function.emit is not None
        values = [x.emit(match) for x in self.operands]
        typed = [v for x, v in zip(self.operands, values, strict=True) if type(x) is not Number]
        values = [
            x.filled((), typed[0].dtype) if typed and type(x) is Number else v
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
    name : str
        The primitive that it matches, or a name in angle brackets that matches none.
    emit : callable, optional
        How to emit it in a replacement: a function of values, and of parameters by name. Without
        it, the function can only be in patterns.
    """

    name: str
    emit: Emit | None = None

    def __call__(self, *operands: Any, **params: Any) -> Call:
        """Return the call with these operands, which are terms and numbers, and parameters.

        In a pattern, ``...`` after the operands accepts any value of the parameters that are not
        given, and as a parameter any value of that one.
        """
        is_open = bool(operands) and operands[-1] is ...
        terms = operands[:-1] if is_open else operands
        terms = tuple(x if isinstance(x, Term) else Number(x) for x in terms)
        return Call(self, terms, params, is_open)


def walk(term: Term) -> Iterator[Term]:
    """Yield a term, and all terms among its operands."""
    yield term
    for part in parts(term):
        yield from walk(part)


def structure(term: Term, names: dict[Any, int]) -> Hashable:
    """Return what only patterns have in common that match the same, whatever their names are.

    The names are added to ``names``, in the order in which they appear, with their numbers.
    """
    if isinstance(term, (Variable, Rest)):
        number = names.setdefault(term.name, len(names))
        return type(term), number, getattr(term, "constant", False)
    if isinstance(term, Number):
        return Number, term.value, str(term.value)[0] == "-"
    operands = tuple(structure(x, names) for x in parts(term))
    if isinstance(term, Call):
        params = tuple((k, _value(v, names)) for k, v in sorted(term.params.items()))
        return Call, term.function.name, operands, params, term.is_open
    return type(term), operands, len(getattr(term, "divisors", ()))


def _value(value: Any, names: dict[Any, int]) -> Hashable:
    if isinstance(value, Param):
        return Param, names.setdefault((Param, value.name), len(names))
    return type(value), repr(value)


def parts(term: Term) -> tuple[Term, ...]:
    """Return the operands of a term."""
    if isinstance(term, Call):
        return term.operands
    if isinstance(term, Product):
        return (*term.factors, *term.divisors)
    return (term.call,) if isinstance(term, Once) else ()


def variables(names: str) -> list[Variable]:
    """Return variables of these names, which are separated by spaces."""
    return [Variable(name) for name in names.split()]


def emitted(emit: Emit) -> Function:
    """Return a function that only replacements may call, and that ``emit`` emits."""
    return Function(f"<{emit.__name__}>", emit)


@functools.cache
def primitive(name: str) -> Function:
    """Return the function of a primitive's name; in a replacement, its operands broadcast.

    Raises
    ------
    InvalidRuleError
        The installed JAX has no such primitive.
    """
    if not _jax.has_primitive(name):
        raise InvalidRuleError(f"JAX {jax.__version__} has no primitive {name!r}.")

    found = _jax.primitive(name)

    def construct(b: Builder, *operands: Atom, **params: Any) -> Var:
        types = [x.aval for x in operands]
        return b.bind(found, operands, _jax.all_params(name, types, params))

    return Function(found.name, emitter(name, construct))


def primitives(names: str) -> list[Function]:
    """Return the functions of primitives of these names, which are separated by spaces."""
    return [*map(primitive, names.split())]


add, sub, mul, div, neg, integer_pow, pow, abs = primitives(
    "add sub mul div neg integer_pow pow abs"
)


def __getattr__(name: str) -> Function:
    """Return the function of any other primitive, such as ``terms.tanh`` or ``terms.and_``."""
    if not _jax.has_primitive(name.rstrip("_")):
        raise AttributeError(f"There is no primitive {name.rstrip('_')!r}, so no such function.")
    function = globals()[name] = primitive(name.rstrip("_"))
    return function


def __dir__() -> list[str]:
    named = (f"{name}_" if keyword.iskeyword(name) else name for name in lax.ELEMENTWISE)
    return sorted({*globals(), *named})
