"""Redundant equations: those that compute the same as another one, and those that loops repeat."""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable, Sequence
from typing import Any, TypeAlias

import jax
import numpy as np

from jaxprgen import _jax
from jaxprgen._jax import ClosedJaxpr, Jaxpr, JaxprEqn, Var, identity

_Name: TypeAlias = Callable[[Any], Hashable]

APART = frozenset({"rng_uniform", "optimization_barrier"})
"""Primitives without an effect that must neither move nor be merged.

``rng_uniform`` draws from a state of the device; ``optimization_barrier`` keeps computations apart.
"""

COMMUTATIVE = frozenset({"add", "add_any", "mul", "max", "min", "and", "or", "xor", "eq", "ne"})
"""Primitives that return the same number if their two operands are swapped; see `commutes`."""

_PLAIN = {str, int, bool, type(None), type}


def commutes(eqn: JaxprEqn) -> bool:
    """Return whether an equation gives the same bits if its two operands are swapped.

    The sign and payload of a NaN do not count. Complex products do not commute: a compiler that
    contracts a product and a sum into one operation rounds only one of the two products. Maxima and
    minima of floating-point numbers do not commute either, because of zeros of either sign.
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
    """Return whether an equation gives the same results wherever, and however often, it runs."""
    return not eqn.effects and APART.isdisjoint(_jax.primitives_of(eqn))


class Identities:
    """Hashable keys of equations and programs, equal for those that compute the same.

    Keys are exact: 1 differs from True, 0.0 from -0.0, and a weak type from a strong one. Programs
    inside equations are equal if their equations are, one by one. A function in a parameter, such
    as a custom derivative rule, equals only itself. Names and source lines do not count.

    Parameters
    ----------
    inside : bool
        Whether to compare the programs inside equations; if not, each equals only itself.
    """

    def __init__(self, inside: bool = True) -> None:
        self._inside = inside
        self._programs: dict[int, tuple[Any, int]] = {}
        self._numbers: dict[Hashable, int] = {}
        self._contexts: dict[int, tuple[Any, int]] = {}

    def equation(self, eqn: JaxprEqn, name: _Name) -> Hashable:
        """Return the key of an equation; ``name`` returns the keys of its operands."""
        operands = map(name, eqn.invars)
        given = frozenset(operands) if commutes(eqn) else tuple(operands)
        return given, self.parameters(eqn)

    def parameters(self, eqn: JaxprEqn) -> Hashable:
        """Return the key of an equation apart from its operands."""
        ctx, params = self._context(eqn.ctx), eqn.params
        if not params:
            return eqn.primitive, ctx
        return eqn.primitive, ctx, *[(k, self._value(params[k])) for k in sorted(params)]

    def program(self, program: Jaxpr | ClosedJaxpr) -> int:
        """Return a number that equal programs share. Each program is read once."""
        known = self._programs.get(identity(program))
        if known is None:
            key = self._structure(program) if self._inside else identity(program)
            number = self._numbers.setdefault(key, len(self._numbers))
            known = self._programs[identity(program)] = program, number
        return known[1]

    def constants(self, closed: ClosedJaxpr, limit: int) -> dict[Any, Any]:
        """Return the variables of constants that repeat another one, each with that other one.

        Constants of at most ``limit`` bytes are compared by value, larger ones by identity.
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
            return numbers[x] if type(x) is Var else literal_key(x)

        consts = tuple(map(self._constant, getattr(program, "consts", ())))
        parts: list[Hashable] = [bind(jaxpr.constvars), consts, bind(jaxpr.invars)]
        for eqn in jaxpr.eqns:
            parts.append(self.equation(eqn, name))
            parts.append(bind(eqn.outvars))
        return *parts, *map(name, jaxpr.outvars)

    def _context(self, ctx: Any) -> int:
        """Return a number that equal contexts share; most equations have the same object."""
        known = self._contexts.get(identity(ctx))
        if known is None:
            number = self._numbers.setdefault(ctx, len(self._numbers))
            known = self._contexts[identity(ctx)] = ctx, number
        return known[1]

    def _constant(self, x: Any) -> Hashable:
        return _bits(x) if isinstance(x, (np.ndarray, np.generic)) else identity(x)

    def _value(self, x: Any) -> Hashable:
        """Return the key of a parameter."""
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
        if callable(x):
            return kind, identity(x)
        try:
            hash(x)
        except TypeError:
            return kind, identity(x)
        return kind, x


def atom_key(x: Any) -> Hashable:
    """Return the key of an operand within one program."""
    return x if type(x) is Var else literal_key(x)


def literal_key(x: Any) -> Hashable:
    """Return the key of a literal: its type and its bits, because -0.0 differs from 0.0."""
    return x.aval, _bits(x.val)


def _bits(x: Any) -> Hashable:
    value = np.asarray(x)
    return value.dtype, value.shape, value.tobytes()


def merged(
    equations: Sequence[JaxprEqn], same: dict[Any, Any], identities: Identities
) -> list[JaxprEqn]:
    """Return equations without those that repeat an earlier one.

    Parameters
    ----------
    equations : sequence of JaxprEqn
        The equations, in order.
    same : dict
        Variables and the variables they are equal to, which are read in their place. The results
        of the equations left out are added.
    identities : Identities
        How equations are compared.
    """
    kept: list[JaxprEqn] = []
    seen: dict[Hashable, int] = {}
    for eqn in equations:
        if same and any(type(x) is Var and x in same for x in eqn.invars):
            eqn = eqn.replace(invars=[same.get(x, x) if type(x) is Var else x for x in eqn.invars])
        if not eqn.effects:
            place = seen.setdefault(identities.equation(eqn, atom_key), len(kept))
            if place < len(kept) and may_move(eqn) and have_same_types(kept[place], eqn):
                kept[place] = _for_both(kept[place], eqn, same)
                continue
        kept.append(eqn)
    return kept


def have_same_types(first: JaxprEqn, second: JaxprEqn) -> bool:
    """Return whether the results of two equations have equal types."""
    pairs = zip(first.outvars, second.outvars, strict=True)
    return all(v.aval == w.aval for v, w in pairs)


def _for_both(first: JaxprEqn, second: JaxprEqn, same: dict[Any, Any]) -> JaxprEqn:
    """Return the first of two equal equations, with the results that only the second one names."""
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
