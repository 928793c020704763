"""Which equations compute the same, so that one will do."""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable, Sequence
from typing import Any, TypeAlias

import jax
import numpy as np

from jaxprgen import _jax
from jaxprgen._jax import ClosedJaxpr, Jaxpr, JaxprEqn, Var, identity

_Name: TypeAlias = Callable[[Any], Hashable]

APART = frozenset({"rng_uniform", "optimization_barrier"})
"""Primitives without an effect that are not to be computed elsewhere, or once for several.

The one draws by a state of the device's; the other is there to keep computations apart.
"""

COMMUTATIVE = frozenset({"add", "add_any", "mul", "max", "min", "and", "or", "xor", "eq", "ne"})
"""Primitives that give the same number for their two operands swapped; see also `commutes`."""

_PLAIN = {str, int, bool, type(None), type}


def commutes(eqn: JaxprEqn) -> bool:
    """Whether an equation gives the same bits for its operands swapped.

    NaN aside, whose sign and payload are nobody's. A product of complex numbers does not: where
    compilers contract a product and a sum to one operation, they round one of two products.
    Neither do maxima and minima of floating-point numbers, of zeros of either sign.
    """
    name = eqn.primitive.name
    if name not in COMMUTATIVE or len(eqn.invars) != 2:
        return False
    if name not in ("mul", "max", "min"):
        return True
    aval: Any = eqn.invars[0].aval
    return np.dtype(aval.dtype).kind in "biu" or (
        name == "mul" and not jax.numpy.issubdtype(aval.dtype, np.complexfloating)
    )


def may_move(eqn: JaxprEqn) -> bool:
    """Whether an equation gives the same wherever and however often it is computed."""
    return not eqn.effects and APART.isdisjoint(_jax.primitives_of(eqn))


class Identities:
    """Keys that are equal for what computes the same: of values, equations and programs.

    They are exact: 1 is not True, 0.0 not -0.0, and a weak type not a strong one. Programs inside
    of equations are equal if their equations are, one by one; a function in a parameter, such as
    the derivative of a function that has its own, is equal to itself alone. Names and lines of the
    user's do not count.

    Parameters
    ----------
    inside
        Whether programs are compared; else each is equal to itself alone.
    """

    def __init__(self, inside: bool = True) -> None:
        self._inside = inside
        self._programs: dict[int, tuple[Any, int]] = {}
        self._numbers: dict[Hashable, int] = {}
        self._contexts: dict[int, tuple[Any, int]] = {}

    def equation(self, eqn: JaxprEqn, name: _Name) -> Hashable:
        """The key of an equation, of whose operands ``name`` gives the keys."""
        operands = map(name, eqn.invars)
        given = frozenset(operands) if commutes(eqn) else tuple(operands)
        ctx, params = self._context(eqn.ctx), eqn.params
        if not params:
            return eqn.primitive, given, ctx
        return eqn.primitive, given, ctx, *[(k, self._value(params[k])) for k in sorted(params)]

    def program(self, program: Jaxpr | ClosedJaxpr) -> int:
        """A number that equal programs share; each is read once."""
        known = self._programs.get(identity(program))
        if known is None:
            key = self._structure(program) if self._inside else identity(program)
            number = self._numbers.setdefault(key, len(self._numbers))
            known = self._programs[identity(program)] = program, number
        return known[1]

    def constants(self, closed: ClosedJaxpr, limit: int) -> dict[Any, Any]:
        """The variables of constants that equal another one's, each with that one.

        Of the values that are at most ``limit`` bytes long; longer ones are equal if they are
        one object.
        """
        first: dict[Hashable, Var] = {}
        same: dict[Any, Any] = {}
        for v, x in zip(closed.jaxpr.constvars, closed.consts, strict=True):
            small = _jax.nbytes(v.aval) <= limit and _jax.is_readable(x)
            key = v.aval, _bits(x) if small else identity(x)
            other = first.setdefault(key, v)
            if other is not v:
                same[v] = other
        return same

    def _structure(self, program: Jaxpr | ClosedJaxpr) -> Hashable:
        jaxpr = _jax.open_jaxpr(program)
        numbers: dict[Any, int] = {}

        def bind(variables: Iterable[Any]) -> tuple[Any, ...]:
            for v in variables:
                numbers[v] = len(numbers)
            return tuple(v.aval for v in variables)

        def name(x: Any) -> Hashable:
            return numbers[x] if type(x) is Var else literal(x)

        consts = tuple(map(self._constant, getattr(program, "consts", ())))
        parts: list[Hashable] = [bind(jaxpr.constvars), consts, bind(jaxpr.invars)]
        for eqn in jaxpr.eqns:
            parts.append(self.equation(eqn, name))
            parts.append(bind(eqn.outvars))
        return *parts, *map(name, jaxpr.outvars)

    def _context(self, ctx: Any) -> int:
        """A number that equal contexts share; most equations have one and the same object."""
        known = self._contexts.get(identity(ctx))
        if known is None:
            number = self._numbers.setdefault(ctx, len(self._numbers))
            known = self._contexts[identity(ctx)] = ctx, number
        return known[1]

    def _constant(self, x: Any) -> Hashable:
        return _bits(x) if isinstance(x, (np.ndarray, np.generic)) else identity(x)

    def _value(self, x: Any) -> Hashable:
        """The key of a parameter."""
        kind = type(x)
        if kind in _PLAIN:
            return kind, x
        if kind is tuple or kind is list:
            return kind, *map(self._value, x)
        if isinstance(x, (Jaxpr, ClosedJaxpr)):
            return kind, self.program(x)
        if isinstance(x, (float, complex, np.generic, np.ndarray)):
            return kind, _bits(x)
        if kind is dict:
            return kind, *x, *map(self._value, x.values())
        try:
            hash(x)
        except TypeError:
            return kind, identity(x)
        return kind, x


def atom(x: Any) -> Hashable:
    """The key of an operand in one program."""
    return x if type(x) is Var else literal(x)


def literal(x: Any) -> Hashable:
    """The key of a literal: its type, and its bits, as -0.0 is not 0.0."""
    return x.aval, _bits(x.val)


def _bits(x: Any) -> Hashable:
    value = np.asarray(x)
    return value.dtype, value.shape, value.tobytes()


def merged(
    equations: Sequence[JaxprEqn], same: dict[Any, Any], identities: Identities
) -> list[JaxprEqn]:
    """The equations without those that compute what one before them does.

    ``same`` tells which variables are others; those that turn out to be are added to it.
    """

    kept: list[JaxprEqn] = []
    seen: dict[Hashable, int] = {}
    for eqn in equations:
        if same and any(type(x) is Var and x in same for x in eqn.invars):
            eqn = eqn.replace(invars=[same.get(x, x) if type(x) is Var else x for x in eqn.invars])
        if not eqn.effects:
            place = seen.setdefault(identities.equation(eqn, atom), len(kept))
            if place < len(kept) and may_move(eqn) and alike(kept[place], eqn):
                kept[place] = _for_both(kept[place], eqn, same)
                continue
        kept.append(eqn)
    return kept


def alike(first: JaxprEqn, second: JaxprEqn) -> bool:
    """Whether results are of equal types."""
    pairs = zip(first.outvars, second.outvars, strict=True)
    return all(v.aval == w.aval for v, w in pairs)


def _for_both(first: JaxprEqn, second: JaxprEqn, same: dict[Any, Any]) -> JaxprEqn:
    """The first of two equal equations, with results that only the second one names."""
    outs: list[Any] = []
    for v, w in zip(first.outvars, second.outvars, strict=True):
        is_named = type(v) is Var
        outs.append(v if is_named else w)
        if is_named and type(w) is Var:
            same[w] = v
    is_kept = all(v is w for v, w in zip(outs, first.outvars, strict=True))
    return first if is_kept else first.replace(outvars=outs)


_REPEATING = {"broadcast_in_dim", "iota", "empty", "empty2"}
_UNSURE = frozenset({"while", "pure_callback"})


def split_invariant(
    equations: Sequence[JaxprEqn], fixed: Collection[Any], *, runs: bool = True
) -> tuple[list[JaxprEqn], list[JaxprEqn]]:
    """Split the equations of a loop's body into those that are loop-invariant and the others.

    Broadcasts of invariant values, which cost memory outside of the loop, are in both lists, and so
    are equations that only write out a constant.

    Parameters
    ----------
    equations : sequence of JaxprEqn
        The equations of the body, in order.
    fixed : collection of Var
        The variables that have the same value in every iteration.
    runs : bool
        Whether the body is known to run at least once. If not, equations that might not terminate
        or might raise (``while`` and callbacks) are not invariant: all others give some value for
        any operands.

    Returns
    -------
    invariant, rest : list of JaxprEqn
        The equations that depend on nothing but fixed variables, and those that have to stay.
    """
    known = set(fixed)
    invariant: list[JaxprEqn] = []
    rest: list[JaxprEqn] = []
    for eqn in equations:
        read = [x for x in eqn.invars if type(x) is Var]
        follows = all(x in known for x in read) and may_move(eqn)
        if follows and (runs or _UNSURE.isdisjoint(_jax.primitives_of(eqn))):
            known.update(eqn.outvars)
            invariant.append(eqn)
            if not (eqn.primitive.name in _REPEATING or (not read and not _jax.sub_jaxprs(eqn))):
                continue
        rest.append(eqn)
    return invariant, rest
