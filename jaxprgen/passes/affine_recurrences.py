"""Carries that steps change by affine functions, and these functions for all steps."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from jaxprgen import _jax
from jaxprgen._jax import JaxprEqn, Var
from jaxprgen.ir import Atom, Builder
from jaxprgen.ir import primitives as lax
from jaxprgen.ir.liveness import live_equations
from jaxprgen.passes.batching import MaybeBatched, lookup


class AffineFunction(NamedTuple):
    """A function of carries, for all rows: the sum of slopes times carries, and an offset.

    A slope is an array that broadcasts against the rows, or a matrix for each of them; both have
    the rows along their first axis, or one that all share. The offset may be missing.
    """

    slopes: dict[Any, Atom]
    offset: Atom | None


class AffineRecurrence(NamedTuple):
    """Carries that depend on each other, and on no others, by affine functions.

    ``equations`` are those of a step that lead from them to what they are behind it. Slopes are
    matrices if ``is_matrix``.
    """

    carries: list[Any]
    equations: list[JaxprEqn]
    is_matrix: bool


def dtype_kind(aval: Any) -> str:
    """The kind of a dtype: V for keys of random numbers and what else is not NumPy's."""
    return getattr(aval.dtype, "kind", "V")


def find_affine_recurrence(
    equations: Sequence[JaxprEqn],
    carry_outs: dict[Any, Any],
    is_known: Callable[[Any], bool],
    size: int,
) -> AffineRecurrence | None:
    """The smallest group of carries among those whose values after a step are given.

    Parameters
    ----------
    equations
        The equations of a step that depend on the carries.
    is_known
        Whether an atom does not depend on them.
    size
        The largest matrix, by its rows, that a slope may be.
    """
    on: dict[Any, set[Any] | None] = {v: {v} for v in carry_outs}
    for e in equations:
        found = _dependence(e, on, is_known, size)
        on.update(dict.fromkeys(e.outvars, found))
    best: list[Any] | None = None
    for v in carry_outs:
        reached = _reached(v, carry_outs, on)
        if reached is not None and (best is None or len(reached) < len(best)):
            best = reached
    if best is None:
        return None
    needed, _ = live_equations(equations, [carry_outs[v] for v in best])
    is_matrix = any(e.primitive.name == "dot_general" for e in needed)
    alike = {(v.aval.shape, v.aval.dtype) for v in best}
    if len(alike) > 1 or (is_matrix and best[0].aval.shape[0] * len(best) > size):
        return None
    return AffineRecurrence(best, needed, is_matrix)


def _reached(
    v: Any, carry_outs: dict[Any, Any], on: dict[Any, set[Any] | None]
) -> list[Any] | None:
    """The carries on which one depends in the end, if all by affine functions, and on itself."""
    found = dict.fromkeys([v])
    for u in (waiting := [v]):
        read = on.get(carry_outs[u])
        if read is None:
            return None
        waiting += [x for x in carry_outs if x in read and x not in found]
        found |= dict.fromkeys(waiting)
    return list(found)


def _dependence(
    eqn: JaxprEqn, on: dict[Any, set[Any] | None], is_known: Callable[[Any], bool], size: int
) -> set[Any] | None:
    """The carries of which the result of an equation is an affine function; None if it is not."""
    name, dependent = eqn.primitive.name, [not is_known(x) for x in eqn.invars]
    is_choice = name == "select_n" and not dependent[0]
    if not is_choice and dependent not in _DEPENDENT.get(name, ()):
        return None
    found: set[Any] = set()
    aval: Any = eqn.outvars[0].aval
    for x, is_dependent in zip(eqn.invars, dependent, strict=True):
        if is_dependent:
            read = on.get(x)
            own: Any = x.aval
            if read is None or own.shape != aval.shape or dtype_kind(own) not in "iufc":
                return None
            found |= read
    if name == "convert_element_type":
        kinds = _dtypes(eqn)
        if len(kinds) > 1 and any(k.kind != "f" for k in kinds):
            return None
    if name == "div" and aval.dtype.kind not in "fc":
        return None
    return found if name != "dot_general" or _is_square(eqn, dependent, size) else None


def _is_square(eqn: JaxprEqn, dependent: Sequence[bool], size: int) -> bool:
    """Whether an equation is a square matrix times a vector that carries decide."""
    operands: list[Any] = [eqn.invars[dependent.index(x)].aval for x in (False, True)]
    matrix, vector = (aval.shape for aval in operands)
    (contracted, _), (batch, _) = eqn.params["dimension_numbers"]
    is_product = len(contracted) == 1 and not batch and len(_dtypes(eqn)) == 1
    return is_product and len(matrix) == 2 and len(vector) == 1 and max(matrix) <= size


def _dtypes(eqn: JaxprEqn) -> set[Any]:
    avals: list[Any] = [x.aval for x in (*eqn.invars, *eqn.outvars)]
    return {aval.dtype for aval in avals}


_BOTH = [[True, True], [True, False], [False, True]]
_ONE = [[True]]
_DEPENDENT: dict[str, list[list[bool]]] = {
    "add": _BOTH,
    "add_any": _BOTH,
    "sub": _BOTH,
    "mul": _BOTH[1:],
    "dot_general": _BOTH[1:],
    "div": _BOTH[1:2],
    "neg": _ONE,
    "convert_element_type": _ONE,
    "copy": _ONE,
}
"""By the primitive, which operands may depend on carries for the result to be affine in them.

Of a choice, it is the cases.
"""


class StepFunctions:
    """The affine functions by which steps change the carries of a group, for all steps."""

    def __init__(
        self, b: Builder, env: dict[Any, MaybeBatched], n: int, recurrence: AffineRecurrence
    ) -> None:
        self.b, self.env, self.n, self.recurrence = b, env, n, recurrence
        self.row: tuple[int, ...] = recurrence.carries[0].aval.shape
        self.dtype = recurrence.carries[0].aval.dtype
        self.one = self._one()
        self.found: dict[Any, AffineFunction] = {
            v: AffineFunction({v: self.one}, None) for v in recurrence.carries
        }
        around = b.source_info
        for e in recurrence.equations:
            b.source_info = _jax.within(around, e.source_info)
            self.found[e.outvars[0]] = self._function(e)
        b.source_info = around

    def of(self, x: Any) -> AffineFunction:
        """The function that gives a variable of the step."""
        return self.found[x]

    def slope(self, x: Atom | None) -> Atom:
        """A slope, or zero in its place."""
        return self._zero(self.one.aval.shape) if x is None else x

    def offset(self, x: Atom | None) -> Atom:
        """An offset, or zero in its place."""
        return self._zero((1,) * (1 + len(self.row))) if x is None else x

    def _zero(self, shape: tuple[int, ...]) -> Atom:
        zero = self.b.literal(np.asarray(0, self.dtype))
        return lax.broadcast_in_dim(self.b, zero, shape, ())

    def _one(self) -> Atom:
        one = self.b.literal(np.asarray(1, self.dtype))
        if not self.recurrence.is_matrix:
            return lax.broadcast_in_dim(self.b, one, (1,) * (1 + len(self.row)), ())
        shape = 1, *self.row, *self.row
        rows, columns = (lax.iota(self.b, np.dtype(np.int32), shape, d) for d in (1, 2))
        return lax.convert_element_type(self.b, lax.eq(self.b, rows, columns), self.dtype)

    def _function(self, eqn: JaxprEqn) -> AffineFunction:
        read = [self.found.get(x) if type(x) is Var else None for x in eqn.invars]
        name = eqn.primitive.name
        if name in ("add", "add_any", "sub"):
            return self._sum(eqn, read)
        if name == "select_n":
            return self._choice(eqn, read)
        (function,) = (f for f in read if f is not None)
        others = [self._operand(x) for x, f in zip(eqn.invars, read, strict=True) if f is None]
        if name == "dot_general":
            return self._product(eqn, function)
        slopes = {
            v: self._scaled(eqn, s, others, self.recurrence.is_matrix)
            for v, s in function.slopes.items()
        }
        offset = function.offset
        return AffineFunction(
            slopes, None if offset is None else self._scaled(eqn, offset, others, False)
        )

    def _scaled(self, eqn: JaxprEqn, x: Atom, others: Sequence[Atom], is_matrix: bool) -> Atom:
        """What an equation of one operand, or of another one that is known, makes of a slope."""
        b, name = self.b, eqn.primitive.name
        if is_matrix:
            others = [lax.reshape(b, y, (*y.aval.shape, 1)) for y in others]
        if name == "mul":
            return lax.mul(b, x, *others)
        if name == "div":
            return lax.div(b, x, *others)
        if name == "neg":
            return lax.neg(b, x)
        aval: Any = eqn.outvars[0].aval
        return lax.convert_element_type(b, x, aval.dtype)

    def _sum(self, eqn: JaxprEqn, read: Sequence[AffineFunction | None]) -> AffineFunction:
        b, minus = self.b, eqn.primitive.name == "sub"
        first, second = (
            AffineFunction({}, self._operand(x)) if f is None else f
            for x, f in zip(eqn.invars, read, strict=True)
        )
        slopes = dict(first.slopes)
        for v, s in second.slopes.items():
            slopes[v] = _added(b, slopes.get(v), s, minus)
        offset = first.offset
        if second.offset is not None:
            offset = _added(b, offset, second.offset, minus)
        return AffineFunction(slopes, offset)

    def _choice(self, eqn: JaxprEqn, read: Sequence[AffineFunction | None]) -> AffineFunction:
        """Of functions, by what is known, where those that are missing give zero."""
        which, *cases = eqn.invars
        functions = [
            AffineFunction({}, self._operand(x)) if f is None else f
            for x, f in zip(cases, read[1:], strict=True)
        ]
        by = self._operand(which)
        carries = dict.fromkeys(v for f in functions for v in f.slopes)
        slopes = {
            v: self._chosen(by, [f.slopes.get(v) for f in functions], self.recurrence.is_matrix)
            for v in carries
        }
        if all(f.offset is None for f in functions):
            return AffineFunction(slopes, None)
        return AffineFunction(slopes, self._chosen(by, [f.offset for f in functions], False))

    def _chosen(self, which: Atom, cases: Sequence[Atom | None], is_matrix: bool) -> Atom:
        b = self.b
        if is_matrix:
            which = lax.reshape(b, which, (*which.aval.shape, 1))
        shapes = [which.aval.shape, *(x.aval.shape for x in cases if x is not None)]
        shape = np.broadcast_shapes(*shapes)
        dtype = next(x.aval.dtype for x in cases if x is not None)
        zero = lax.broadcast_in_dim(b, b.literal(np.asarray(0, dtype)), shape, ())
        full = [zero if x is None else broadcast_to(b, x, shape) for x in cases]
        return lax.select_n(b, broadcast_to(b, which, shape), *full)

    def _product(self, eqn: JaxprEqn, function: AffineFunction) -> AffineFunction:
        """A matrix that is known times a function."""
        b = self.b
        operands: Any = eqn.invars
        first = type(operands[1]) is Var and operands[1] in self.found
        pair = eqn.params["dimension_numbers"][0]
        own = pair[0 if first else 1][0]
        operand = lookup(self.env, operands[0 if first else 1])
        matrix = self._aligned(operand)
        if own == 0:
            matrix = lax.transpose(b, matrix, (0, 2, 1))
        slopes = {
            v: matrix if s is self.one else slope_product(b, matrix, s, is_matrix=True)
            for v, s in function.slopes.items()
        }
        offset = function.offset
        return AffineFunction(
            slopes, None if offset is None else slope_product(b, matrix, offset, is_matrix=True)
        )

    def _operand(self, x: Any) -> Atom:
        """An operand that is known, of the rank of rows."""
        return self._aligned(lookup(self.env, x))

    def _aligned(self, x: MaybeBatched) -> Atom:
        shape = x.atom.aval.shape
        lead = (shape[0],) if x.is_batched else (1,)
        own = shape[x.is_batched :] or (1,) * len(self.row)
        return x.atom if shape == (*lead, *own) else lax.reshape(self.b, x.atom, (*lead, *own))


def _added(b: Builder, x: Atom | None, y: Atom, minus: bool) -> Atom:
    if x is None:
        return lax.neg(b, y) if minus else y
    return (lax.sub if minus else lax.add)(b, x, y)


def broadcast_to(b: Builder, x: Atom, shape: tuple[int, ...]) -> Atom:
    """An array whose axes of size one are repeated."""
    if x.aval.shape == shape:
        return x
    kept = [d for d, k in enumerate(x.aval.shape) if k == shape[d]]
    narrow = tuple(x.aval.shape[d] for d in kept)
    return lax.broadcast_in_dim(b, lax.reshape(b, x, narrow), shape, kept)


def slope_product(b: Builder, x: Atom, y: Atom, *, is_matrix: bool) -> Atom:
    """Slopes times slopes or rows, row by row."""
    if not is_matrix:
        return lax.mul(b, x, y)
    n = max(x.aval.shape[0], y.aval.shape[0])
    x, y = (broadcast_to(b, z, (n, *z.aval.shape[1:])) for z in (x, y))
    return lax.dot_general(b, x, y, ((2,), (1,)), ((0,), (0,)))
