"""Batch the steps of one ``scan``, as far as no carry that depends on itself is involved.

`ScanBatching` is the common part of the passes `MapToVmap`, `DistributeScan` and `AssociativeScan`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import jax
import numpy as np

from jaxprgen import _jax
from jaxprgen._jax import JaxprEqn, Var
from jaxprgen.ir import Atom, Builder
from jaxprgen.ir import primitives as lax
from jaxprgen.ir.liveness import dependent, readers_of, whole_equations
from jaxprgen.ir.loops import Loop
from jaxprgen.passes.batching import (
    MaybeBatched,
    NotBatchableError,
    batch,
    lookup,
    why_not_batched,
    with_batch_axis,
)
from jaxprgen.passes.costs import CostModel
from jaxprgen.passes.inlining import bound_to
from jaxprgen.passes.unbatching import REDUCTIONS


class _Reduction(NamedTuple):
    """A carry to which every step only adds terms, by one primitive such as ``add`` or ``max``.

    Attributes
    ----------
    equations : list of JaxprEqn
        The equations that add the terms, in order.
    terms : list of Atom
        The terms. None of them depends on the carry.
    """

    equations: list[Any]
    terms: list[Atom]


class ScanBatching:
    """The equations that replace one ``scan``, while they are found.

    The equations of the body are batched as soon as their operands are known for all steps. Carries
    are resolved as soon as their values after every step are.

    Parameters
    ----------
    loop : Loop
        The loop, with at least one step.
    b : Builder
        The builder of the equations.
    memory : int
        The number of bytes that the values of all steps may take.
    reassociate : bool
        Whether floating-point numbers may be added in another order.

    Attributes
    ----------
    env : dict of Var to MaybeBatched
        The known values of the body's variables, for all steps.
    finals : dict of Var to Atom
        The final values of the carries, as far as they are known.
    reductions : dict of Var to _Reduction
        The carries that only accumulate terms.
    pending_equations, pending_carries : list
        The equations and carries of the body that are not known yet.
    """

    def __init__(self, loop: Loop, b: Builder, memory: int, reassociate: bool) -> None:
        self.loop, self.b, self.memory, self.reassociate = loop, b, memory, reassociate
        self.n: int = loop.length
        self.env: dict[Any, MaybeBatched] = {
            **{v: MaybeBatched(x, False) for v, x in loop.constants.items()},
            **{v: MaybeBatched(x, True) for v, x in loop.rows.items()},
        }
        self.finals: dict[Any, Atom] = {}
        self.counted = 0
        self.readers = readers_of(loop.equations, [*loop.after.values(), *loop.stacked])
        self.reductions = self._find_reductions()
        reducing = {id(e) for r in self.reductions.values() for e in r.equations}
        self.pending_equations = [e for e in loop.equations if id(e) not in reducing]
        self.pending_carries = [v for v in loop.carries if v not in self.reductions]

    def batch_ready(self) -> None:
        """Batch all equations and resolve all carries that do not depend on unresolved ones.

        Equations without a batching rule stay pending, and so does everything that depends on them.
        So do inner loops: batched, each would run as long as the longest one.
        """
        while self.is_pending:
            before = len(self.pending_equations) + len(self.pending_carries)
            self.pending_equations = [e for e in self.pending_equations if not self._emit(e)]
            self.pending_carries = [v for v in self.pending_carries if not self._resolve_pending(v)]
            if len(self.pending_equations) + len(self.pending_carries) == before:
                return

    @property
    def is_pending(self) -> bool:
        """Whether the loop has equations or carries that are not known yet."""
        return bool(self.pending_equations or self.pending_carries)

    def finish(self) -> list[Atom]:
        """Return the results of the loop, when nothing is pending."""
        assert not self.is_pending
        for v, reduction in self.reductions.items():
            self._reduce(v, reduction)
        rows = [with_batch_axis(self.b, lookup(self.env, x), self.n) for x in self.loop.stacked]
        self._count_memory()
        return [*(self.finals[v] for v in self.loop.carries), *rows]

    def is_known(self, x: Any) -> bool:
        """Return whether the values of an atom are known for all steps."""
        return type(x) is not Var or x in self.env

    def _is_stuck(self, eqn: Any) -> bool:
        return bool(why_not_batched(eqn, loops=False, reassociate=self.reassociate))

    def _emit(self, eqn: Any) -> bool:
        """Batch an equation if its operands are known, and return whether it was batched."""
        b, env = self.b, self.env
        if not all(map(self.is_known, eqn.invars)):
            return False
        operands = [lookup(env, x) for x in eqn.invars]
        if any(x.is_batched for x in operands) and self._is_stuck(eqn):
            return False
        env.update(zip(eqn.outvars, batch(b, eqn, operands, self.n), strict=True))
        self._count_memory()
        return True

    def _count_memory(self) -> None:
        """Subtract the memory of the equations that were emitted since the last call."""
        new = self.b.equations_from(self.counted)
        self.counted += len(new)
        self.memory -= sum(_jax.nbytes(v.aval) for e in new for v in e.outvars)
        if self.memory < 0:
            raise NotBatchableError("The values of all steps would take too much memory.")

    # --- Carries that only hand over a value ----------------------------------------------

    def _resolve_pending(self, v: Any) -> bool:
        """Resolve a carry if its value after each step is known, and return whether it is."""
        start, after = self.loop.carries[v], self.loop.after[v]
        if after is v:
            self.env[v], self.finals[v] = MaybeBatched(start, False), start
            return True
        if not self.is_known(after):
            return False
        end = lookup(self.env, after)
        if v in self.readers or end.is_batched:
            self.resolve(v, end)
        else:
            self.finals[v] = end.atom
        return True

    def resolve(self, v: Any, end: MaybeBatched) -> None:
        """Record the values of a carry after each step, and so those before the next one."""
        b, n = self.b, self.n
        rows = with_batch_axis(b, end, n)
        first = lax.reshape(b, self.loop.carries[v], (1, *v.aval.shape))
        if self.loop.reverse:
            others, last = slice_steps(b, rows, 1, n), slice_steps(b, rows, 0, 1)
        else:
            others, last = slice_steps(b, rows, 0, n - 1), slice_steps(b, rows, n - 1, n)
        before = lax.concatenate(b, [others, first] if self.loop.reverse else [first, others], 0)
        self.env[v] = MaybeBatched(before, True)
        self.finals[v] = lax.squeeze(b, last, [0]) if end.is_batched else end.atom
        self._count_memory()

    # --- Carries that only accumulate -----------------------------------------------------

    def _find_reductions(self) -> dict[Any, _Reduction]:
        """Return the carries that accumulate terms in an order that may change."""
        found: dict[Any, _Reduction] = {}
        for v in self.loop.carries:
            aval: Any = v.aval
            is_exact = not jax.numpy.issubdtype(aval.dtype, np.inexact)
            allowed = REDUCTIONS.keys() - (set() if is_exact else {"mul"})
            is_number = getattr(aval.dtype, "kind", "V") in "biufc"  # Not bfloat16, nor keys.
            is_free = is_number and (is_exact or self.reassociate)
            reduction = self._reduction(v, allowed) if is_free else None
            if reduction is not None:
                found[v] = reduction
        return found

    def _reduction(self, v: Any, allowed: Collection[str]) -> _Reduction | None:
        """Return how steps accumulate a carry, or None if they do anything else to it."""
        found, x = _Reduction([], []), v
        while x is not self.loop.after[v]:
            eqn: Any
            (eqn, *others) = self.readers.get(x, [None])
            if eqn is None or others:
                return None
            operands = [y for y in eqn.invars if y is not x]
            is_same = not found.equations or found.equations[0].primitive is eqn.primitive
            if eqn.primitive.name not in allowed or len(operands) != 1 or not is_same:
                return None
            if operands[0].aval.shape != v.aval.shape:
                return None
            found.equations.append(eqn)
            found.terms.append(operands[0])
            (x,) = eqn.outvars
        return found if found.terms and self.readers[x] == [None] else None

    def _reduce(self, v: Any, reduction: _Reduction) -> None:
        b, around = self.b, self.b.source_info
        monoid = REDUCTIONS[reduction.equations[0].primitive.name]
        b.source_info = _jax.within(around, reduction.equations[-1].source_info)
        terms = [with_batch_axis(b, lookup(self.env, x), self.n) for x in reduction.terms]
        whole = functools.reduce(functools.partial(monoid.combine, b), terms)
        self.finals[v] = monoid.combine(b, self.loop.carries[v], monoid.reduce(b, whole, [0]))
        b.source_info = around

    # --- Carries that depend on themselves ------------------------------------------------

    def emit_residual_loop(self, cost: CostModel | None = None) -> None:
        """Emit a loop of the recurrences and of the equations that have no batching rule.

        Parameters
        ----------
        cost : CostModel, optional
            By which what leaves the loop must save more time in its steps than it takes outside.

        Raises
        ------
        NotBatchableError
            Fewer equations would leave the loop than arrays pass between its parts, or they would
            save too little time.
        """
        loop, pending = self.loop, self.pending_equations
        stuck = [v for e in pending if self._is_stuck(e) for v in e.outvars]
        carries, inside = self._recurrence(stuck)
        made = {*carries, *(v for e in inside for v in e.outvars)}
        self.pending_equations = [e for e in pending if made.isdisjoint(e.outvars)]
        self.pending_carries = [v for v in self.pending_carries if v not in carries]
        wanted: list[Any] = [x for e in self.pending_equations for x in e.invars]
        wanted += [x for r in self.reductions.values() for x in r.terms]
        wanted += [*loop.stacked, *(loop.after[v] for v in self.pending_carries)]
        stacked = list(dict.fromkeys(x for x in wanted if type(x) is Var and x in made))
        known = self.env.items()
        rest = replace(
            loop,
            constants={v: x.atom for v, x in known if not x.is_batched},
            carries={v: loop.carries[v] for v in carries},
            rows={v: x.atom for v, x in known if x.is_batched},
            equations=inside,
            after={v: loop.after[v] for v in carries},
            stacked=stacked,
        ).live()
        self._require_gain(rest, cost)
        out = rest.emit(self.b)
        self.finals.update(zip(carries, out, strict=False))
        rows = [MaybeBatched(x, True) for x in out[len(carries) :]]
        self.env.update(zip(stacked, rows, strict=True))
        self._count_memory()

    def _recurrence(self, stuck: Sequence[Any]) -> tuple[list[Any], list[JaxprEqn]]:
        """Return the carries that stay in a loop, and the equations that these and results need.

        A carry stays if one that stays depends on it, perhaps itself, or one of the results does.
        Results of these equations that the loop does not need may be read after it.
        """
        carries = self.pending_carries
        while True:
            needed = [*stuck, *(self.loop.after[v] for v in carries)]
            equations, live = whole_equations(self.pending_equations, needed)
            fewer = [v for v in carries if v in live]
            if len(fewer) == len(carries):
                return carries, equations
            carries = fewer

    def _require_gain(self, rest: Loop, cost: CostModel | None) -> None:
        loop = self.loop
        kept = {v for e in rest.equations for v in e.outvars}
        moved = [e for e in loop.equations if kept.isdisjoint(e.outvars)]
        crossing = len(rest.rows) + len(rest.stacked) - len(loop.rows) - len(loop.stacked)
        if len(moved) <= max(0, crossing):
            raise NotBatchableError(
                "Fewer equations would leave the loop than arrays pass between its parts."
            )
        varying = dependent(loop.equations, [*loop.carries, *loop.rows])
        if cost is not None and not cost.is_faster_together(moved, self.n, varying):
            raise NotBatchableError("What would leave the loop is as fast in its steps.")


def in_place_of(
    eqn: JaxprEqn,
    loop: Loop | None,
    memory: int,
    reassociate: bool,
    batched: Callable[[ScanBatching], Sequence[Atom]],
) -> list[JaxprEqn] | None:
    """Return the equations that replace a loop, or None if it must stay.

    Parameters
    ----------
    eqn : JaxprEqn
        The ``scan``.
    loop : Loop or None
        The loop; None if it must stay.
    memory, reassociate
        As for `ScanBatching`.
    batched : callable
        ``batched(batching)`` emits the equations, and returns the results of the loop. It may raise
        `NotBatchableError`.
    """
    if loop is None or not loop.length:
        return None
    b = Builder.in_place_of(eqn)
    try:
        results = batched(ScanBatching(loop, b, memory, reassociate))
    except NotBatchableError:
        return None
    return bound_to(b, results, eqn.outvars)


def slice_steps(b: Builder, x: Atom, start: int, stop: int, stride: int = 1) -> Atom:
    """Emit a slice along the first axis; the array itself if that is all of it."""
    n, *row = x.aval.shape
    if (start, stop, stride) == (0, n, 1):
        return x
    low, high = [start, *[0] * len(row)], [stop, *row]
    return lax.slice(b, x, low, high, [stride, *[1] * len(row)])
