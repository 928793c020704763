"""Associative scan: solve affine recurrences by composing the functions of their steps."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from jaxprgen import _jax
from jaxprgen._jax import ClosedJaxpr, JaxprEqn
from jaxprgen.ir import Atom, Builder
from jaxprgen.ir import primitives as lax
from jaxprgen.ir.loops import pure_loop
from jaxprgen.ir.rewriting import rewritten
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

_Functions: TypeAlias = dict[Any, Atom]


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


class _PrefixCompositions:
    """The compositions of the first functions in a sequence of affine functions.

    A sequence of functions is a dictionary. The key ``u, v`` holds the slopes of carry ``u`` with
    respect to carry ``v``; the key ``u`` holds the offsets. The steps lie along the first axis.
    """

    def __init__(self, b: Builder, recurrence: AffineRecurrence) -> None:
        self.b, self.carries, self.is_matrix = b, recurrence.carries, recurrence.is_matrix

    def of(self, functions: _Functions) -> _Functions:
        """Return the functions of the first step, the first two steps, and so on."""
        n = next(iter(functions.values())).aval.shape[0]
        if n == 1:
            return functions
        pairs = self._after(self._every(functions, 0, n - 1, 2), self._every(functions, 1, n, 2))
        odd = self.of(pairs)
        first = self._every(functions, 0, 1, 1)
        if n == 2:
            return self._joined(first, odd)
        before = self._every(odd, 0, (n - 1) // 2, 1)
        even = self._joined(first, self._after(before, self._every(functions, 2, n, 2)))
        return {k: self._interleaved(even[k], odd[k]) for k in functions}

    def _after(self, first: _Functions, second: _Functions) -> _Functions:
        """Compose functions: apply the first, then the second."""
        b, carries = self.b, self.carries
        by = functools.partial(slope_product, b, is_matrix=self.is_matrix)
        add = functools.partial(lax.add, b)
        found: _Functions = {}
        for u in carries:
            for v in carries:
                products = [by(second[u, w], first[w, v]) for w in carries]
                found[u, v] = functools.reduce(add, products)
            found[u] = functools.reduce(add, [by(second[u, w], first[w]) for w in carries])
            found[u] = lax.add(b, found[u], second[u])
        return found

    def _every(self, functions: _Functions, start: int, stop: int, stride: int) -> _Functions:
        return {k: slice_steps(self.b, x, start, stop, stride) for k, x in functions.items()}

    def _joined(self, first: _Functions, rest: _Functions) -> _Functions:
        return {k: lax.concatenate(self.b, [first[k], rest[k]], 0) for k in first}

    def _interleaved(self, even: Atom, odd: Atom) -> Atom:
        """Interleave two arrays, of which the first may have one more row."""
        b, (m, *row) = self.b, odd.aval.shape
        both = [lax.reshape(b, slice_steps(b, x, 0, m, 1), (m, 1, *row)) for x in (even, odd)]
        found = lax.reshape(b, lax.concatenate(b, both, 1), (2 * m, *row))
        if even.aval.shape[0] == m:
            return found
        return lax.concatenate(b, [found, slice_steps(b, even, m, m + 1, 1)], 0)


def _solve_by_prefixes(
    batching: ScanBatching, recurrence: AffineRecurrence, functions: StepFunctions
) -> dict[Any, Atom]:
    """Solve an affine recurrence by composing the functions of its steps.

    The initial values are applied to the first function, so that the offsets of all compositions
    are the values of the carries.
    """
    b, n, backwards = batching.b, batching.n, batching.loop.reverse
    found = {v: functions.of(batching.loop.after[v]) for v in recurrence.carries}
    slopes = {
        (u, v): functions.slope(found[u].slopes.get(v))
        for u in recurrence.carries
        for v in recurrence.carries
    }
    shape = (n, *np.broadcast_shapes(*(x.aval.shape[1:] for x in slopes.values())))
    whole: _Functions = {k: repeat_axes(b, x, shape) for k, x in slopes.items()}
    for v in recurrence.carries:
        whole[v] = repeat_axes(b, functions.offset(found[v].offset), (n, *functions.row))
    if backwards:
        whole = {k: lax.rev(b, x, [0]) for k, x in whole.items()}
    first = {k: slice_steps(b, x, 0, 1, 1) for k, x in whole.items()}
    for u in recurrence.carries:
        for v in recurrence.carries:
            start = lax.reshape(b, batching.loop.carries[v], (1, *v.aval.shape))
            moved = slope_product(b, first[u, v], start, is_matrix=recurrence.is_matrix)
            first[u] = lax.add(b, moved, first[u])
        rest = slice_steps(b, whole[u], 1, n, 1)
        whole[u] = lax.concatenate(b, [first[u], rest], 0)
    prefixes = _PrefixCompositions(b, recurrence).of(whole)
    return {
        v: lax.rev(b, prefixes[v], [0]) if backwards else prefixes[v] for v in recurrence.carries
    }
