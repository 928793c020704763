"""Conditions: where, of the elements of an array, some cases of choices hold.

``select_n(p, x, y)`` takes elements of ``x`` where ``p`` is false, and of ``y`` elsewhere. A
condition is in disjunctive normal form: a set of *clauses*, of which one must hold, each a set of
*cases*, of which all must hold. Analyses combine conditions by `either` and `both`, and carry them
along equations by `moved`. What grows too long is given up, so that they stay linear.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from jaxprgen._jax import JaxprEqn, Var
from jaxprgen.ir import Atom, Builder, primitives as lax
from jaxprgen.ir.liveness import dependent
from jaxprgen.ir.redundancy import Identities, may_move, merged

_MOST = 64
"""A condition of more cases than this is given up."""


class Case(NamedTuple):
    """One case of a choice, as it applies to an array.

    Attributes
    ----------
    number : int
        The number of the predicate, by which cases are sorted.
    predicate : Var
        An array of booleans or integers.
    axes : tuple of (int or None)
        For each axis of the predicate, the axis of the array to which it belongs; None for an axis
        of size one. All elements along the other axes of the array have one case.
    case : int
        The value of the predicate; 0 and 1 for false and true.
    """

    number: int
    predicate: Var
    axes: tuple[int | None, ...]
    case: int

    @property
    def otherwise(self) -> Case | None:
        """The opposite case, if there are two."""
        is_boolean = self.predicate.aval.dtype == np.bool_  # type: ignore[attr-defined]
        return Case(*self[:3], 1 - self.case) if is_boolean else None


Clause: TypeAlias = frozenset[Case]
Condition: TypeAlias = frozenset[Clause]

ALWAYS: Condition = frozenset({frozenset()})
NEVER: Condition = frozenset()


def either(a: Condition, b: Condition) -> Condition:
    """Return the condition that one of two holds; `ALWAYS` if it would be long."""
    if a == b or ALWAYS in (a, b):
        return b if b == ALWAYS else a
    if not (a and b):
        return a or b
    found = _simplified(a | b)
    return found if size(found) <= _MOST else ALWAYS


def both(a: Condition, b: Condition) -> Condition:
    """Return the condition that two hold.

    If it would be long, the shorter of the two is returned, which holds in more places.
    """
    if a == ALWAYS or b == ALWAYS:
        return b if a == ALWAYS else a
    if len(a) * len(b) > _MOST:
        return min(a, b, key=size)
    joined = {c | d for c in a for d in b}
    found = _simplified(c for c in joined if not any(case.otherwise in c for case in c))
    return min(a, b, key=size) if found == ALWAYS or size(found) > _MOST else found


def _simplified(clauses: Iterable[Clause]) -> Condition:
    """Return an equal condition without what other clauses say already."""
    found = sorted(set(clauses), key=lambda clause: sorted(map(_order, clause)))
    while True:
        found = [c for c in found if not any(other < c for other in found)]
        present = frozenset[Case]().union(*found)
        shorter = ((i, _shortened(c, found, present)) for i, c in enumerate(found))
        i, clause = next(((i, c) for i, c in shorter if c is not None), (0, None))
        if clause is None:
            return frozenset(found)
        found[i] = clause


def _shortened(
    clause: Clause, clauses: Sequence[Clause], present: frozenset[Case]
) -> Clause | None:
    """Return a clause without a case in the opposite of which it holds, too; None without one."""
    for case in sorted(clause, key=_order):
        other = case.otherwise
        if other in present and any(c <= (clause - {case}) | {other} for c in clauses):
            return clause - {case}
    return None


def _order(case: Case) -> tuple[int, list[int], int]:
    """Return by what cases are sorted, where one predicate may have several kinds of axes."""
    return case.number, [-1 if axis is None else axis for axis in case.axes], case.case


def opposite(condition: Condition) -> Condition:
    """Return where a condition does not hold, or more than that."""
    found = ALWAYS
    for clause in condition:
        others = [case.otherwise for case in sorted(clause, key=_order)]
        if None not in others:
            alone = (frozenset({frozenset({case})}) for case in others if case is not None)
            found = both(found, functools.reduce(either, alone, NEVER))
    return found


def size(condition: Condition) -> int:
    """Return the number of cases of a condition."""
    return sum(map(len, condition))


def moved(condition: Condition, axes: Sequence[int | None]) -> Condition:
    """Return a condition on one array as one on another array.

    ``axes`` has the axis of the other array for each axis of the first, or None. Cases that vary
    along an axis without one are left out, so that the condition holds in more places.
    """
    n = len(axes)
    cases = [case for clause in condition for case in clause]
    if all(d is None or (d < n and axes[d] == d) for case in cases for d in case.axes):
        return condition
    found: set[Clause] = set()
    for clause in condition:
        kept: list[Case] = []
        for case in clause:
            to = [axes[d] if d is not None and d < n else None for d in case.axes]
            if to.count(None) == case.axes.count(None):
                kept.append(case._replace(axes=tuple(to)))
        found.add(frozenset(kept))
    return _simplified(found)


# --- Choices of a program -------------------------------------------------------------------


class Choices:
    """The predicates of a program's choices, by the smallest arrays that say them.

    Parameters
    ----------
    eqns : sequence of JaxprEqn
        The equations of the program.
    """

    def __init__(self, eqns: Sequence[JaxprEqn]) -> None:
        self._makers: dict[Any, Any] = {v: e for e in eqns for v in e.outvars}
        self._numbers: dict[Any, int] = {}
        self._first = _first_of_equals(eqns)
        self._fixed = dependent(eqns, {v for e in eqns if not may_move(e) for v in e.outvars})

    def case(self, predicate: Any, case: int) -> Condition:
        """Return one case of a choice as a condition.

        It is `ALWAYS` if the predicate is a number, or waits for an effect.
        """
        if type(predicate) is not Var or predicate in self._fixed:
            return ALWAYS
        aval: Any = predicate.aval
        axes = tuple(range(len(aval.shape)))
        while type(predicate) is Var and predicate in self._makers:
            eqn: Any = self._makers[predicate]
            name = eqn.primitive.name
            if name == "not" and aval.dtype == np.bool_:
                (predicate,), case = eqn.invars, 1 - case
            elif name == "broadcast_in_dim":
                (x, *sizes), to = eqn.invars, eqn.params["broadcast_dimensions"]
                shape = eqn.outvars[0].aval.shape
                if sizes:
                    break
                is_whole = (n == shape[d] for n, d in zip(x.aval.shape, to, strict=True))
                axes = tuple(
                    axes[d] if whole else None for d, whole in zip(to, is_whole, strict=True)
                )
                predicate = x
            else:
                break
        if type(predicate) is not Var:
            return ALWAYS
        predicate = self._first.get(predicate, predicate)
        number = self._numbers.setdefault(predicate, len(self._numbers))
        return frozenset({frozenset({Case(number, predicate, axes, case)})})


def _first_of_equals(eqns: Sequence[JaxprEqn]) -> dict[Any, Any]:
    """Return for each predicate that repeats an earlier one that one."""
    same: dict[Any, Any] = {}
    merged([e for e in eqns if all(map(_is_boolean, e.outvars))], same, Identities())
    return same


def _is_boolean(v: Any) -> bool:
    return getattr(v.aval, "dtype", None) == np.bool_


# --- Conditions as arrays -------------------------------------------------------------------


class Conditions:
    """Emits conditions as arrays of booleans, each once.

    Parameters
    ----------
    b : Builder
        The builder.
    read : callable
        ``read(predicate)`` returns the atom that holds a predicate.
    """

    def __init__(self, b: Builder, read: Callable[[Var], Atom]) -> None:
        self._b = b
        self._read = read

    def __call__(self, condition: Condition, shape: tuple[int, ...]) -> Atom:
        """Return a condition that is neither `ALWAYS` nor `NEVER`.

        Its array has this shape, or is a scalar.
        """
        key = self, condition, shape
        return self._b.memoized(key, lambda: self._emit(condition, shape))

    def _emit(self, condition: Condition, shape: tuple[int, ...]) -> Atom:
        cases = sorted({case for clause in condition for case in clause}, key=_order)
        scalar = all(set(case.axes) <= {None} for case in cases)
        holds = {case: self._holds(case, () if scalar else shape) for case in cases}
        clauses = [
            self._joined(lax.bitwise_and, [holds[case] for case in cases if case in clause])
            for clause in sorted(condition, key=lambda c: sorted(map(_order, c)))
        ]
        return self._joined(lax.bitwise_or, clauses)

    def _joined(self, operation: Callable[..., Atom], xs: Sequence[Atom]) -> Atom:
        def join(x: Atom, y: Atom) -> Atom:
            return self._b.memoized((self, operation, x, y), lambda: operation(self._b, x, y))

        return functools.reduce(join, xs)

    def _holds(self, case: Case, shape: tuple[int, ...]) -> Any:
        def emit() -> Any:
            b, x = self._b, self._read(case.predicate)
            if x.aval.dtype != np.bool_:
                x = lax.eq(b, x, b.literal(np.asarray(case.case, x.aval.dtype)))
            elif not case.case:
                x = lax.bitwise_not(b, x)
            axes = [d for d in case.axes if d is not None]
            if len(axes) < len(case.axes):
                x = lax.reshape(b, x, tuple(shape[d] for d in axes))
            if axes != sorted(axes):
                x = lax.transpose(b, x, sorted(range(len(axes)), key=axes.__getitem__))
            return lax.broadcast_in_dim(b, x, shape, sorted(axes)) if len(axes) < len(shape) else x

        return self._b.memoized((self, case, shape), emit)
