"""Associative scan: solve affine recurrences by composing the functions of their steps."""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np

from jaxprgen import _jax
from jaxprgen._jax import ClosedJaxpr, JaxprEqn
from jaxprgen.ir import Atom, Builder
from jaxprgen.ir import primitives as lax
from jaxprgen.ir.loops import pure_loop
from jaxprgen.ir.rewriting import rewritten, without_lines
from jaxprgen.passes.affine_recurrences import (
    AffineRecurrence,
    StepFunctions,
    dtype_kind,
    find_affine_recurrence,
    repeat_axes,
    slope_product,
)
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
        slopes, offset = functions.of(batching.loop.after[v])
        start = lax.reshape(b, batching.loop.carries[v], (1, *v.aval.shape))
        if offset is not None and slopes[v] is functions.one:
            whole = repeat_axes(b, offset, (n, *v.aval.shape))
            return {v: lax.add(b, start, _cumulative(batching, "cumsum", whole))}
        if offset is None and not recurrence.is_matrix:
            whole = repeat_axes(b, slopes[v], (n, *v.aval.shape))
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
    found = [functions.of(batching.loop.after[v]) for v in carries]
    slopes = [functions.slope(f.slopes.get(v)) for f in found for v in carries]
    shape = (n, *np.broadcast_shapes(*(x.aval.shape[1:] for x in slopes)))
    whole = [repeat_axes(b, x, shape) for x in slopes]
    offsets = [functions.offset(f.offset) for f in found]
    whole += [repeat_axes(b, x, (n, *functions.row)) for x in offsets]
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
