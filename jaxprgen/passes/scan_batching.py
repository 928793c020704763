"""Batch the steps of one ``scan``, as far as no carry that depends on itself is involved.

`ScanBatching` is the common part of the passes `MapToVmap`, `DistributeScan` and `AssociativeScan`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import jax
import numpy as np

from jaxprgen import _jax
from jaxprgen._jax import JaxprEqn, Var
from jaxprgen.ir import Atom, Builder, primitives as lax
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
    """What replaces one ``scan``: planned first, because to batch costs time, and then emitted.

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
    known : dict of Var to bool
        The variables of the body that are known for all steps, and whether each step has a value of
        its own.
    reductions : dict of Var to _Reduction
        The carries that only accumulate terms.
    pending_equations, pending_carries : list
        The equations and carries of the body that are not known yet.
    env : dict of Var to MaybeBatched
        The values of known variables, as far as they are emitted and read later.
    finals : dict of Var to Atom
        The final values of the carries, as far as they are emitted.
    """

    def __init__(self, loop: Loop, b: Builder, memory: int, reassociate: bool) -> None:
        self.loop, self.b, self.memory, self.reassociate = loop, b, memory, reassociate
        self.n: int = loop.length
        self.known: dict[Any, bool] = {
            **dict.fromkeys(loop.constants, False),
            **dict.fromkeys(loop.rows, True),
        }
        self.env: dict[Any, MaybeBatched] = {
            **{v: MaybeBatched(x, False) for v, x in loop.constants.items()},
            **{v: MaybeBatched(x, True) for v, x in loop.rows.items()},
        }
        self.finals: dict[Any, Atom] = {}
        self._planned: list[Callable[[], None]] = []
        self.readers = readers_of(loop.equations, [*loop.after.values(), *loop.stacked])
        self.reductions = self._find_reductions()
        reducing = {id(e) for r in self.reductions.values() for e in r.equations}
        self.pending_equations = [e for e in loop.equations if id(e) not in reducing]
        self.pending_carries = [v for v in loop.carries if v not in self.reductions]

    def batch_ready(self) -> None:
        """Plan all equations and carries that do not depend on unresolved ones.

        Equations that cannot be batched stay pending, and so does everything that depends on them.
        So do inner loops: batched, each would run as long as the longest one.
        """
        while self.is_pending:
            ready = [e for e in self.pending_equations if self._is_ready(e)]
            if ready:
                self._planned.append(functools.partial(self._batch, ready))
                self._leave_known()
            waiting = [v for v in self.pending_carries if not self._resolve_pending(v)]
            if not ready and len(waiting) == len(self.pending_carries):
                return
            self.pending_carries = waiting

    @property
    def is_pending(self) -> bool:
        """Whether the loop has equations or carries that are not known yet."""
        return bool(self.pending_equations or self.pending_carries)

    def finish(self) -> list[Atom]:
        """Emit what is planned, when nothing is pending, and return the results of the loop."""
        assert not self.is_pending
        for emit in self._planned:
            emit()
        for v, reduction in self.reductions.items():
            self._reduce(v, reduction)
        rows = [with_batch_axis(self.b, lookup(self.env, x), self.n) for x in self.loop.stacked]
        return [*(self.finals[v] for v in self.loop.carries), *rows]

    def is_known(self, x: Any) -> bool:
        """Return whether the values of an atom are known for all steps."""
        return type(x) is not Var or x in self.known

    def _is_stuck(self, eqn: Any) -> bool:
        return bool(why_not_batched(eqn, loops=False, reassociate=self.reassociate))

    def _is_ready(self, eqn: Any) -> bool:
        """Return whether an equation can be batched now; then its results are known."""
        if not all(map(self.is_known, eqn.invars)):
            return False
        differs = any(type(x) is Var and self.known[x] for x in eqn.invars)
        if differs and self._is_stuck(eqn):
            return False
        self.known.update(dict.fromkeys(eqn.outvars, differs))
        self._count_memory(eqn.outvars)
        return True

    def _count_memory(self, variables: Iterable[Any]) -> None:
        """Subtract the memory of known variables."""
        each = ((_jax.nbytes(v.aval), self.n if self.known[v] else 1) for v in variables)
        self.memory -= sum(size * _jax.bound(times) for size, times in each)
        if self.memory < 0:
            raise NotBatchableError("The values of all steps would take too much memory.")

    def _leave_known(self) -> None:
        pending = self.pending_equations
        self.pending_equations = [e for e in pending if not all(map(self.is_known, e.outvars))]

    def _batch(self, equations: Sequence[Any]) -> None:
        """Emit equations for all steps."""
        own = set(map(id, equations))
        outputs = [
            v
            for e in equations
            for v in e.outvars
            if not own.issuperset(map(id, self.readers.get(v, ())))
        ]
        found = batch(self.b, equations, self.env, outputs)
        self.env.update(zip(outputs, found, strict=True))

    # --- Carries that only hand over a value ----------------------------------------------

    def _resolve_pending(self, v: Any) -> bool:
        """Plan a carry if its value after each step is known, and return whether it is."""
        after = self.loop.after[v]
        if after is v:
            start = self.loop.carries[v]
            self.known[v], self.env[v], self.finals[v] = False, MaybeBatched(start, False), start
            return True
        if not self.is_known(after):
            return False
        if v in self.readers or self.known.get(after):
            self.resolve([v], lambda: {v: lookup(self.env, after)})
        else:
            self._planned.append(lambda: self.finals.update({v: lookup(self.env, after).atom}))
        return True

    def resolve(self, carries: Sequence[Any], values: Callable[[], Mapping[Any, Any]]) -> None:
        """Plan carries by their values after each step, which give those before the next one.

        Parameters
        ----------
        carries : sequence of Var
            The carries.
        values : callable
            ``values()`` emits these values, and returns a `MaybeBatched` for each carry.
        """
        after = [self.loop.after[v] for v in carries]
        new = [v for v in after if type(v) is Var and not self.is_known(v)]
        self.known |= dict.fromkeys([*carries, *new], True)
        self._count_memory(carries)
        self._leave_known()

        def emit() -> None:
            for v, end in values().items():
                self._hand_over(v, end)
                self.env.setdefault(self.loop.after[v], end)

        self._planned.append(emit)

    def _hand_over(self, v: Any, end: MaybeBatched) -> None:
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

    def keep_residual_loop(self, cost: CostModel | None = None) -> None:
        """Plan a loop of the recurrences and of the equations that cannot be batched.

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
        rest = replace(
            loop,
            constants={v: v for v, differs in self.known.items() if not differs},
            carries={v: loop.carries[v] for v in carries},
            rows={v: v for v, differs in self.known.items() if differs},
            equations=inside,
            after={v: loop.after[v] for v in carries},
            stacked=stacked,
        ).live()
        self._require_gain(rest, cost)
        self.known |= dict.fromkeys(stacked, True)
        self._count_memory(stacked)
        self._planned.append(functools.partial(self._emit_rest, rest))

    def _emit_rest(self, rest: Loop) -> None:
        constants, rows = ({v: self.env[v].atom for v in x} for x in (rest.constants, rest.rows))
        out = replace(rest, constants=constants, rows=rows).emit(self.b)
        self.finals.update(zip(rest.carries, out, strict=False))
        found = (MaybeBatched(x, True) for x in out[len(rest.carries) :])
        self.env.update(zip(rest.stacked, found, strict=True))

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
    plan: Callable[[ScanBatching], None],
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
    plan : callable
        ``plan(batching)`` plans what replaces the loop. It may raise `NotBatchableError`.
    """
    if loop is None or not loop.length:
        return None
    b = Builder.in_place_of(eqn)
    try:
        batching = ScanBatching(loop, b, memory, reassociate)
        plan(batching)
        results = batching.finish()
    except NotBatchableError:
        return None
    return bound_to(b, results, eqn.outvars)


def slice_steps(b: Builder, x: Atom, start: int, stop: int) -> Atom:
    """Emit a slice along the first axis; the array itself if that is all of it."""
    n, *row = x.aval.shape
    if (start, stop) == (0, n):
        return x
    return lax.slice(b, x, [start, *[0] * len(row)], [stop, *row], [1] * (1 + len(row)))
