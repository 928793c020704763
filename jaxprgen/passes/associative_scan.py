"""Associative scan: solve affine recurrences by composing the functions of their steps."""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

import jax
import numpy as np

from jaxprgen import _jax
from jaxprgen._jax import ClosedJaxpr, JaxprEqn, Var
from jaxprgen.ir import Atom, Builder, primitives as lax
from jaxprgen.ir.liveness import live_equations
from jaxprgen.ir.loops import pure_loop
from jaxprgen.ir.rewriting import rewritten, without_lines
from jaxprgen.passes.batching import MaybeBatched, NotBatchableError, lookup, with_batch_axis
from jaxprgen.passes.inlining import with_calls_inlined
from jaxprgen.passes.meaning import Meaning, if_reassociated
from jaxprgen.passes.scan_batching import ScanBatching, in_place_of, slice_steps
from jaxprgen.passes.unbatching import REDUCTIONS


@dataclass(frozen=True)
class AssociativeScan:
    """Replace a ``scan`` with affine recurrences by a logarithmic number of batched equations.

    One carry, or several carries of one type that depend on each other, may be changed by any
    affine function, such as ``h = a * h + b`` or ``h = A @ h + b``. The slope and the offset may
    depend on the sequences, but not on the carry. Affine functions are closed under composition, so
    a parallel prefix computation gives the function of the first steps, for every number of them
    (Blelloch, *Prefix sums and their applications*, 1990). This takes twice the work of the loop
    for scalar slopes, and more for matrices, but in few large equations. It is faster on hardware
    that computes many elements in parallel; on one core, the loop is faster.

    Running sums, products, maxima and minima become ``cumsum``, ``cumprod``, ``cummax`` and
    ``cummin``. The remaining equations of a step are batched. Carries that follow other recurrences
    stay in a loop, which reads the solved carries as sequences.

    Rounding differs, as for any sum in another order. Products of slopes below one may underflow;
    the terms that they scale are then negligible. Infinite slopes, and products of slopes that
    overflow although the values of the loop do not, give infinities or NaN.

    Attributes
    ----------
    memory : int
        The number of bytes that the values of all steps may take, intermediate values included.
        Loops that would need more stay.
    reassociate : bool
        Whether floating-point numbers may be added and multiplied in another order. Otherwise, only
        recurrences of integers, maxima and minima are solved.
    size : int
        The largest number of rows of a slope that is a matrix. The product of two such matrices
        takes that many times the work of one step.
    """

    memory: int = 2**26
    reassociate: bool = False
    size: int = 8

    meaning = if_reassociated(Meaning.SAME_REALS)

    def __call__(self, closed: ClosedJaxpr) -> ClosedJaxpr:
        """Return the program without these loops, or the given one if no recurrence is affine.

        Parameters
        ----------
        closed : ClosedJaxpr
            The program. It is not changed.
        """
        return rewritten(closed, ("scan",), self._replacement)

    def _replacement(self, eqn: JaxprEqn) -> list[JaxprEqn] | None:
        eqn = _with_inlined_body(eqn)
        loop = pure_loop(eqn)
        if loop is None or not 2 <= _jax.bound(loop.length) < math.inf:
            return None
        return in_place_of(eqn, loop, self.memory, self.reassociate, self._plan)

    def _plan(self, batching: ScanBatching) -> None:
        batching.batch_ready()
        before = len(batching.pending_carries)
        while batching.pending_carries and (self._extremum(batching) or self._affine(batching)):
            batching.batch_ready()
        if len(batching.pending_carries) == before:
            raise NotBatchableError("No recurrence can be solved.")
        if batching.is_pending:
            batching.keep_residual_loop()
            batching.batch_ready()

    def _extremum(self, batching: ScanBatching) -> bool:
        """Solve a running maximum or minimum, and return whether one was found."""
        makers = {v: e for e in batching.pending_equations for v in e.outvars}
        for v in batching.pending_carries:
            for name in ("max", "min"):
                terms = _extremum_terms(v, batching.loop.after[v], makers, batching.is_known, name)
                if terms:
                    emit = functools.partial(_running_extremum, batching, v, name, terms)
                    _resolve(batching, [v], emit)
                    return True
        return False

    def _affine(self, batching: ScanBatching) -> bool:
        """Solve an affine recurrence, and return whether one was found."""
        afters = {
            v: batching.loop.after[v]
            for v in batching.pending_carries
            if dtype_kind(v.aval) in ("iufc" if self.reassociate else "iu")
        }
        recurrence = find_affine_recurrence(
            batching.pending_equations, afters, batching.is_known, self.size
        )
        if recurrence is not None:
            emit = functools.partial(_solve_recurrence, batching, recurrence)
            _resolve(batching, recurrence.carries, emit)
        return recurrence is not None


def _with_inlined_body(eqn: JaxprEqn) -> JaxprEqn:
    """Return the loop with the calls in its body inlined."""
    body = _jax.close(eqn.params["jaxpr"])
    found = with_calls_inlined(body)
    return eqn if found is body else eqn.replace(params={**eqn.params, "jaxpr": found})


def _resolve(
    batching: ScanBatching, carries: Sequence[Any], emit: Callable[[], Mapping[Any, Atom]]
) -> None:
    """Plan carries, whose values after each step ``emit`` returns."""
    batching.resolve(carries, lambda: {v: MaybeBatched(x, True) for v, x in emit().items()})
    batching.pending_carries = [v for v in batching.pending_carries if v not in carries]


def _extremum_terms(
    v: Any, after: Any, makers: dict[Any, JaxprEqn], is_known: Callable[[Any], bool], name: str
) -> list[Any]:
    """Return the terms of a running maximum or minimum; none if a carry is anything else."""
    terms: list[Any] = []
    while after is not v:
        eqn = makers.get(after)
        if eqn is None or eqn.primitive.name != name or dtype_kind(v.aval) not in "iuf":
            return []
        own: list[Any] = [x for x in eqn.invars if is_known(x)]
        rest = [x for x in eqn.invars if not is_known(x)]
        if len(own) != 1 or own[0].aval.shape != v.aval.shape:
            return []
        terms += own
        (after,) = rest
    return terms


def _running_extremum(
    batching: ScanBatching, v: Any, name: str, terms: Sequence[Any]
) -> dict[Any, Atom]:
    b, combine = batching.b, REDUCTIONS[name].combine
    rows = [with_batch_axis(b, lookup(batching.env, x), batching.n) for x in terms]
    whole = functools.reduce(functools.partial(combine, b), rows)
    start = lax.reshape(b, batching.loop.carries[v], (1, *v.aval.shape))
    return {v: combine(b, start, _cumulative(batching, f"cum{name}", whole))}


def _cumulative(batching: ScanBatching, name: str, x: Atom) -> Atom:
    return getattr(lax, name)(batching.b, x, 0, reverse=batching.loop.reverse)


def _solve_recurrence(batching: ScanBatching, recurrence: AffineRecurrence) -> dict[Any, Atom]:
    """Return the values of the carries of a recurrence after each step."""
    b, n = batching.b, batching.n
    functions = StepFunctions(b, batching.env, n, recurrence)
    if len(recurrence.carries) == 1:
        (v,) = recurrence.carries
        function = functions.of[batching.loop.after[v]]
        slope, offset = function[v], function.get(None)
        start = lax.reshape(b, batching.loop.carries[v], (1, *v.aval.shape))
        if offset is not None and slope is functions.one:
            whole = lax.broadcast_to(b, offset, (n, *v.aval.shape))
            return {v: lax.add(b, start, _cumulative(batching, "cumsum", whole))}
        if offset is None and not recurrence.is_matrix:
            whole = lax.broadcast_to(b, slope, (n, *v.aval.shape))
            return {v: lax.mul(b, start, _cumulative(batching, "cumprod", whole))}
    return _solve_by_prefixes(batching, recurrence, functions)


def _solve_by_prefixes(
    batching: ScanBatching, recurrence: AffineRecurrence, functions: StepFunctions
) -> dict[Any, Atom]:
    """Solve an affine recurrence by composing the functions of its steps.

    The initial values are applied to the first function, so that the offsets of all compositions
    are the values of the carries.
    """
    b, n, backwards = batching.b, batching.n, batching.loop.reverse
    carries, starts = recurrence.carries, batching.loop.carries
    by = functools.partial(slope_product, b, is_matrix=recurrence.is_matrix)
    ends = [batching.loop.after[v] for v in carries]
    slopes = [functions.coefficient(x, v) for x in ends for v in carries]
    shape = (n, *np.broadcast_shapes(*(x.aval.shape[1:] for x in slopes)))
    whole = [lax.broadcast_to(b, x, shape) for x in slopes]
    offsets = [functions.coefficient(x, None) for x in ends]
    whole += [lax.broadcast_to(b, x, (n, *functions.row)) for x in offsets]
    if backwards:
        whole = [lax.rev(b, x, [0]) for x in whole]
    slopes, offsets = whole[: -len(carries)], whole[-len(carries) :]
    given = [lax.reshape(b, starts[v], (1, *v.aval.shape)) for v in carries]
    for i, x in enumerate(offsets):
        first = slice_steps(b, x, 0, 1)
        for j, start in enumerate(given):
            moved = by(slice_steps(b, slopes[i * len(carries) + j], 0, 1), start)
            first = lax.add(b, moved, first)
        offsets[i] = lax.concatenate(b, [first, slice_steps(b, x, 1, n)], 0)
    values = _composed(b, slopes, offsets, recurrence.is_matrix)
    if backwards:
        values = [lax.rev(b, x, [0]) for x in values]
    return dict(zip(carries, values, strict=True))


def _composed(
    b: Builder, slopes: Sequence[Atom], offsets: Sequence[Atom], is_matrix: bool
) -> list[Atom]:
    """Emit the offsets of the compositions of the first functions of a sequence, as JAX does.

    Each carry has a slope with respect to every one, in order, and an offset. The steps lie along
    the first axis.
    """
    each = range(len(offsets))

    def by(x: Any, y: Any) -> Any:
        return jax.lax.dot_general(x, y, (((2,), (1,)), ((0,), (0,)))) if is_matrix else x * y

    def after(first: Any, second: Any) -> Any:
        slopes, offsets = zip(first, second, strict=True)
        rows = [[slopes[1][i * len(each) + k] for k in each] for i in each]
        columns = [[slopes[0][k * len(each) + j] for k in each] for j in each]
        together = [_dot(by, row, column) for row in rows for column in columns]
        moved = [_dot(by, row, offsets[0]) for row in rows]
        return together, [x + y for x, y in zip(moved, offsets[1], strict=True)]

    def composed(*xs: Any) -> Any:
        given = list(xs[: len(slopes)]), list(xs[len(slopes) :])
        return jax.lax.associative_scan(after, given)[1]

    operands = [*slopes, *offsets]
    closed = jax.make_jaxpr(composed)(*[x.aval for x in operands])
    return b.inline(without_lines(closed), operands)


def _dot(by: Callable[[Any, Any], Any], xs: Sequence[Any], ys: Sequence[Any]) -> Any:
    return functools.reduce(operator.add, map(by, xs, ys))


# --- Affine recurrences --------------------------------------------------------------------------


AffineFunction: TypeAlias = Mapping[Any, Atom]
"""An affine function of carries, for all steps: its slope for each carry, and its offset by None.

Those that are left out are zero. The shape of a slope is ``(n or 1, ...)``; the trailing axes
broadcast against the carry. In recurrences with matrices, its shape is ``(n or 1, k, k)``. An
offset broadcasts against ``(n, ...)``.
"""


class AffineRecurrence(NamedTuple):
    """Carries of one type that depend affinely on each other, and on no other carries.

    Attributes
    ----------
    carries : list of Var
        The carries.
    equations : list of JaxprEqn
        The equations of a step that compute their next values.
    is_matrix : bool
        Whether slopes are matrices.
    """

    carries: list[Any]
    equations: list[JaxprEqn]
    is_matrix: bool


def dtype_kind(aval: Any) -> str:
    """Return the kind of a dtype as NumPy does, with "V" for keys and other extended dtypes."""
    return getattr(aval.dtype, "kind", "V")


def find_affine_recurrence(
    equations: Sequence[JaxprEqn],
    carry_outs: dict[Any, Any],
    is_known: Callable[[Any], bool],
    size: int,
) -> AffineRecurrence | None:
    """Find the smallest affine recurrence.

    Parameters
    ----------
    equations : sequence of JaxprEqn
        The equations of a step that depend on the carries.
    carry_outs : dict of Var to Atom
        The value of each carry after a step.
    is_known : callable
        ``is_known(atom)`` says whether an atom does not depend on the carries.
    size : int
        The largest number of rows of a slope that is a matrix.

    Returns
    -------
    AffineRecurrence or None
        None if no carries follow an affine recurrence.
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
    if len(alike) > 1 or (is_matrix and _jax.bound(best[0].aval.shape[0]) * len(best) > size):
        return None
    return AffineRecurrence(best, needed, is_matrix)


def _reached(
    v: Any, carry_outs: dict[Any, Any], on: dict[Any, set[Any] | None]
) -> list[Any] | None:
    """Return the carries on which one depends transitively, or None if not affinely."""
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
    """Return the carries on which a result depends affinely, or None if it does not."""
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
    """Return whether an equation multiplies a known square matrix by a vector of carries."""
    operands: list[Any] = [eqn.invars[dependent.index(x)].aval for x in (False, True)]
    matrix, vector = (aval.shape for aval in operands)
    (contracted, _), (batch, _) = eqn.params["dimension_numbers"]
    is_product = len(contracted) == 1 and not batch and len(_dtypes(eqn)) == 1
    return (
        is_product
        and len(matrix) == 2
        and len(vector) == 1
        and max(map(_jax.bound, matrix)) <= size
    )


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
"""For each primitive, the operands that may depend on carries in an affine function.

The cases of a ``select_n`` may depend on carries as well, but not its condition.
"""


class StepFunctions:
    """The affine functions that map the carries of a recurrence to their next values.

    Parameters
    ----------
    b : Builder
        The builder, to which slopes and offsets are emitted.
    env : dict of Var to MaybeBatched
        The variables that do not depend on the carries, for all steps.
    n : int
        The number of steps.
    recurrence : AffineRecurrence
        The carries and the equations that change them.

    Attributes
    ----------
    of : dict of Var to AffineFunction
        The function that computes each variable of a step.
    one : Atom
        The slope of a carry itself.
    """

    def __init__(
        self, b: Builder, env: dict[Any, MaybeBatched], n: int, recurrence: AffineRecurrence
    ) -> None:
        self.b, self.env, self.n, self.is_matrix = b, env, n, recurrence.is_matrix
        self.row: tuple[int, ...] = recurrence.carries[0].aval.shape
        self.dtype = recurrence.carries[0].aval.dtype
        self.one = self._one()
        self.of: dict[Any, AffineFunction] = {v: {v: self.one} for v in recurrence.carries}
        around = b.source_info
        for e in recurrence.equations:
            b.source_info = _jax.within(around, e.source_info)
            self.of[e.outvars[0]] = self._function(e)
        b.source_info = around

    def coefficient(self, x: Any, key: Any) -> Atom:
        """Return a slope, or the offset, of the function that computes a variable."""
        found = self.of[x].get(key)
        shape = (1,) * (1 + len(self.row)) if key is None else self.one.aval.shape
        return lax.full(self.b, 0, shape, self.dtype) if found is None else found

    def _one(self) -> Atom:
        if not self.is_matrix:
            return lax.full(self.b, 1, (1,) * (1 + len(self.row)), self.dtype)
        shape = 1, *self.row, *self.row
        rows, columns = (lax.iota(self.b, np.dtype(np.int32), shape, d) for d in (1, 2))
        return lax.convert_element_type(self.b, lax.eq(self.b, rows, columns), self.dtype)

    def _function(self, eqn: JaxprEqn) -> AffineFunction:
        name = eqn.primitive.name
        if name in ("add", "add_any", "sub"):
            return self._sum(*map(self._read, eqn.invars), minus=name == "sub")
        if name == "select_n":
            which, *cases = eqn.invars
            return self._choice(self._operand(which), [*map(self._read, cases)])
        (function,) = (self.of[x] for x in eqn.invars if self._is_carried(x))
        others = [self._operand(x) for x in eqn.invars if not self._is_carried(x)]
        if name == "dot_general":
            return self._product(eqn, others[0], function)
        return {key: self._scaled(eqn, key, x, others) for key, x in function.items()}

    def _is_carried(self, x: Any) -> bool:
        return type(x) is Var and x in self.of

    def _read(self, x: Any) -> AffineFunction:
        return self.of[x] if self._is_carried(x) else {None: self._operand(x)}

    def _operand(self, x: Any) -> Atom:
        """Return a known operand with an axis of steps, and the rank of the carries after it."""
        atom, is_batched = lookup(self.env, x)
        shape = atom.aval.shape
        lead = (shape[0],) if is_batched else (1,)
        own = shape[is_batched:] or (1,) * len(self.row)
        return atom if shape == (*lead, *own) else lax.reshape(self.b, atom, (*lead, *own))

    def _beside(self, key: Any, x: Atom) -> Atom:
        """Return a known operand in a shape that broadcasts against a slope, or the offset."""
        if key is None or not self.is_matrix:
            return x
        return lax.reshape(self.b, x, (*x.aval.shape, 1))

    def _scaled(self, eqn: JaxprEqn, key: Any, x: Atom, others: Sequence[Atom]) -> Atom:
        """Apply an equation to a slope or an offset in place of the operand with carries."""
        b, name = self.b, eqn.primitive.name
        others = [self._beside(key, y) for y in others]
        if name == "mul":
            return lax.mul(b, x, *others)
        if name == "div":
            return lax.div(b, x, *others)
        if name == "neg":
            return lax.neg(b, x)
        aval: Any = eqn.outvars[0].aval
        return lax.convert_element_type(b, x, aval.dtype)

    def _sum(self, first: AffineFunction, second: AffineFunction, *, minus: bool) -> AffineFunction:
        b, found = self.b, dict(first)
        for key, x in second.items():
            if key in found:
                found[key] = (lax.sub if minus else lax.add)(b, found[key], x)
            else:
                found[key] = lax.neg(b, x) if minus else x
        return found

    def _choice(self, which: Atom, cases: Sequence[AffineFunction]) -> AffineFunction:
        """Select between functions by a known condition."""
        keys = dict.fromkeys(key for f in cases for key in f)
        return {k: self._chosen(self._beside(k, which), [f.get(k) for f in cases]) for k in keys}

    def _chosen(self, which: Atom, cases: Sequence[Atom | None]) -> Atom:
        b, present = self.b, [x.aval for x in cases if x is not None]
        shape = np.broadcast_shapes(which.aval.shape, *(aval.shape for aval in present))
        zero = lax.full(b, 0, shape, present[0].dtype)
        full = [zero if x is None else lax.broadcast_to(b, x, shape) for x in cases]
        return lax.select_n(b, lax.broadcast_to(b, which, shape), *full)

    def _product(self, eqn: JaxprEqn, matrix: Atom, function: AffineFunction) -> AffineFunction:
        """Multiply a known matrix by a function."""
        contracted, _ = eqn.params["dimension_numbers"]
        ((axis,),) = (
            axes for x, axes in zip(eqn.invars, contracted, strict=True) if not self._is_carried(x)
        )
        if axis == 0:
            matrix = lax.transpose(self.b, matrix, (0, 2, 1))
        return {
            key: matrix if x is self.one else slope_product(self.b, matrix, x, is_matrix=True)
            for key, x in function.items()
        }


def slope_product(b: Builder, x: Atom, y: Atom, *, is_matrix: bool) -> Atom:
    """Multiply slopes by slopes, offsets or carries, step by step."""
    if not is_matrix:
        return lax.mul(b, x, y)
    n = max(x.aval.shape[0], y.aval.shape[0])
    x, y = (lax.broadcast_to(b, z, (n, *z.aval.shape[1:])) for z in (x, y))
    return lax.dot_general(b, x, y, ((2,), (1,)), ((0,), (0,)))
