"""Batch the steps of one ``scan``, as far as no carry that depends on itself is involved.

`ScanBatching` is the common part of the passes `MapToVmap`, `DistributeScan` and `AssociativeScan`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection, Sequence
from typing import Any, NamedTuple, TypeAlias

import jax
import numpy as np

from jaxprgen import _jax
from jaxprgen._jax import JaxprEqn, Var
from jaxprgen.ir import Atom, Builder
from jaxprgen.ir import primitives as lax
from jaxprgen.ir.liveness import live_equations
from jaxprgen.passes.batching import (
    MaybeBatched,
    NotBatchableError,
    batch,
    lookup,
    why_not_batched,
    with_batch_axis,
)
from jaxprgen.passes.costs import CostModel, varying_in
from jaxprgen.passes.inlining import bound_to

_Constructor: TypeAlias = Callable[..., Var]
REDUCTIONS: dict[str, tuple[_Constructor, _Constructor]] = {
    "add": (lax.add, lax.reduce_sum),
    "add_any": (lax.add, lax.reduce_sum),
    "mul": (lax.mul, lax.reduce_prod),
    "max": (lax.max, lax.reduce_max),
    "min": (lax.min, lax.reduce_min),
    "and": (lax.bitwise_and, lax.reduce_and),
    "or": (lax.bitwise_or, lax.reduce_or),
}
"""For each primitive that may accumulate a carry: its constructor, and that of its reduction."""


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
    eqn : JaxprEqn
        The loop, with at least one step and without effects.
    memory : int
        The number of bytes that the values of all steps may take.
    reassociate : bool
        Whether floating-point numbers may be added in another order.

    Attributes
    ----------
    env : dict of Var to MaybeBatched
        The known values of the body's variables, for all steps.
    inits : dict of Var to Atom
        The initial value of each carry.
    carry_outs : dict of Var to Atom
        The variable of the body that holds each carry after a step.
    finals : dict of Var to Atom
        The final values of the carries, as far as they are known.
    reductions : dict of Var to _Reduction
        The carries that only accumulate terms.
    pending_equations, pending_carries : list
        The equations and carries of the body that are not known yet.
    """

    def __init__(self, eqn: JaxprEqn, memory: int, reassociate: bool) -> None:
        self.eqn: Any = eqn
        self.memory = memory
        self.reassociate = reassociate
        self.n: int = eqn.params["length"]
        self.body: Any = _jax.open_jaxpr(eqn.params["jaxpr"])
        self.b = Builder([x.aval for x in self.eqn.invars])  # Sets `plain` by the types.
        self.b.source_info = eqn.source_info
        constants, carries = _jax.scan_counts(eqn)
        self.carries = own = range(constants, constants + carries)
        pairs = list(zip(self.body.invars, self.eqn.invars, strict=True))
        self.env: dict[Any, MaybeBatched] = {
            v: MaybeBatched(x, i >= own.stop) for i, (v, x) in enumerate(pairs) if i not in own
        }
        self.inits: dict[Any, Any] = dict(pairs[own.start : own.stop])
        self.carry_outs: dict[Any, Any] = dict(zip(self.inits, self.body.outvars, strict=False))
        self.results: list[Any] = self.body.outvars[carries:]
        self.finals: dict[Any, Atom] = {}
        self.counted = 0
        self.readers: dict[Any, list[Any]] = {}
        self.reductions = self._find_reductions(reassociate)
        reducing = {id(e) for r in self.reductions.values() for e in r.equations}
        self.pending_equations = [e for e in self.body.eqns if id(e) not in reducing]
        self.pending_carries = [v for v in self.carry_outs if v not in self.reductions]

    def batch_ready(self) -> None:
        """Batch all equations and resolve all carries that do not depend on unresolved ones.

        Equations without a batching rule stay pending, and so does everything that depends on them.
        So do inner loops: batched, each would run as long as the longest one.
        """
        while self.pending_equations or self.pending_carries:
            before = len(self.pending_equations) + len(self.pending_carries)
            self.pending_equations = [e for e in self.pending_equations if not self._emit(e)]
            self.pending_carries = [v for v in self.pending_carries if not self._resolve_pending(v)]
            if len(self.pending_equations) + len(self.pending_carries) == before:
                return

    def finish(self) -> list[JaxprEqn]:
        """Return the equations that bind the results of the loop, when nothing is pending."""
        for v, reduction in self.reductions.items():
            self._reduce(v, reduction)
        rows = [with_batch_axis(self.b, lookup(self.env, x), self.n) for x in self.results]
        self._count_memory()
        results = [*(self.finals[v] for v in self.carry_outs), *rows]
        return bound_to(self.b, results, self.eqn.outvars)

    def _is_known(self, x: Any) -> bool:
        return type(x) is not Var or x in self.env

    def _is_stuck(self, eqn: Any) -> bool:
        return bool(why_not_batched(eqn, loops=False, reassociate=self.reassociate))

    def _emit(self, eqn: Any) -> bool:
        """Batch an equation if its operands are known, and return whether it was batched."""
        b, env = self.b, self.env
        if not all(map(self._is_known, eqn.invars)):
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
        start, after = self.inits[v], self.carry_outs[v]
        if after is v:
            self.env[v], self.finals[v] = MaybeBatched(start, False), start
            return True
        if not self._is_known(after):
            return False
        end = lookup(self.env, after)
        is_read = v in self.readers or v in self.body.outvars
        if is_read or end.is_batched:
            self.resolve(v, end)
        else:
            self.finals[v] = end.atom
        return True

    def resolve(self, v: Any, end: MaybeBatched) -> None:
        """Record the values of a carry after each step, and so those before the next one."""
        b, n, start = self.b, self.n, self.inits[v]
        rows = with_batch_axis(b, end, n)
        first = lax.reshape(b, start, (1, *v.aval.shape))
        backwards = self.eqn.params["reverse"]
        others = self._slice_steps(rows, 1, n) if backwards else self._slice_steps(rows, 0, n - 1)
        last = self._slice_steps(rows, 0, 1) if backwards else self._slice_steps(rows, n - 1, n)
        before = lax.concatenate(b, [others, first] if backwards else [first, others], 0)
        self.env[v] = MaybeBatched(before, True)
        self.finals[v] = lax.squeeze(b, last, [0]) if end.is_batched else end.atom
        self._count_memory()

    def _slice_steps(self, x: Atom, start: int, stop: int) -> Var:
        shape = x.aval.shape
        low, high = [start, *[0] * (len(shape) - 1)], [stop, *shape[1:]]
        return lax.slice(self.b, x, low, high, [1] * len(shape))

    # --- Carries that only accumulate -----------------------------------------------------

    def _find_reductions(self, reassociate: bool) -> dict[Any, _Reduction]:
        """Return the carries that accumulate terms in an order that may change."""
        for e in self.body.eqns:
            for x in {x for x in e.invars if type(x) is Var}:
                self.readers.setdefault(x, []).append(e)
        found: dict[Any, _Reduction] = {}
        for v in self.carry_outs:
            is_exact = not jax.numpy.issubdtype(v.aval.dtype, np.inexact)
            allowed = REDUCTIONS.keys() - (set() if is_exact else {"mul"})
            is_number = getattr(v.aval.dtype, "kind", "V") in "biufc"  # Not bfloat16, nor keys.
            is_free = is_number and (is_exact or reassociate)
            reduction = self._reduction(v, allowed) if is_free else None
            if reduction is not None:
                found[v] = reduction
        return found

    def _reduction(self, v: Any, allowed: Collection[str]) -> _Reduction | None:
        """Return how steps accumulate a carry, or None if they do anything else to it."""
        found = _Reduction([], [])
        outputs, after, readers, x = self.body.outvars, self.carry_outs[v], self.readers, v
        while x is not after:
            if len(readers.get(x, ())) != 1 or x in outputs:
                return None
            (eqn,) = readers[x]
            operands = [y for y in eqn.invars if y is not x]
            is_same = not found.equations or found.equations[0].primitive is eqn.primitive
            if eqn.primitive.name not in allowed or len(operands) != 1 or not is_same:
                return None
            if operands[0].aval.shape != v.aval.shape:
                return None
            found.equations.append(eqn)
            found.terms.append(operands[0])
            (x,) = eqn.outvars
        is_used = not found.terms or x in readers or outputs.count(x) > 1
        return None if is_used else found

    def _reduce(self, v: Any, reduction: _Reduction) -> None:
        b = self.b
        combine, reduce = REDUCTIONS[reduction.equations[0].primitive.name]
        b.source_info = _jax.within(self.eqn.source_info, reduction.equations[-1].source_info)
        terms = [with_batch_axis(b, lookup(self.env, x), self.n) for x in reduction.terms]
        whole = functools.reduce(functools.partial(combine, b), terms)
        self.finals[v] = combine(b, self.inits[v], reduce(b, whole, [0]))

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
        stuck = [e for e in self.pending_equations if self._is_stuck(e)]
        carries = self._recurrent_carries(stuck)
        needed = [*(self.carry_outs[v] for v in carries), *(v for e in stuck for v in e.outvars)]
        inside = self._whole_equations(needed)
        made = {*carries, *(v for e in inside for v in e.outvars)}
        self.pending_equations = [e for e in self.pending_equations if made.isdisjoint(e.outvars)]
        self.pending_carries = [v for v in self.pending_carries if v not in carries]
        wanted = [x for e in self.pending_equations for x in e.invars]
        wanted += [x for r in self.reductions.values() for x in r.terms]
        wanted += [*self.results, *(self.carry_outs[v] for v in self.pending_carries)]
        stacked = list(dict.fromkeys(x for x in wanted if type(x) is Var and x in made))
        inside, read = live_equations(inside, [*needed, *stacked])
        given = [v for v in self.env if v in read]
        constants = [v for v in given if not self.env[v].is_batched]
        arrays = [v for v in given if self.env[v].is_batched]
        self._require_gain(inside, len(arrays) + len(stacked), cost)
        out = self._emit_loop(inside, constants, carries, arrays, stacked)
        self.finals.update(zip(carries, out, strict=False))
        rows = [MaybeBatched(x, True) for x in out[len(carries) :]]
        self.env.update(zip(stacked, rows, strict=True))
        self._count_memory()

    def _whole_equations(self, needed: Sequence[Any]) -> list[Any]:
        """Return the pending equations on which atoms depend, with all of their results.

        An equation with several results is not divided: those that the loop does not need may be
        read after it.
        """
        live, kept = {x for x in needed if type(x) is Var}, list[Any]()
        for e in reversed(self.pending_equations):
            if not live.isdisjoint(e.outvars):
                live.update(x for x in e.invars if type(x) is Var)
                kept.append(e)
        return kept[::-1]

    def _recurrent_carries(self, stuck: Sequence[Any]) -> list[Any]:
        """Return the carries that depend on themselves or that ``stuck`` equations read.

        The carries on which these depend are included. Sets of carries are integers with one bit
        per carry.
        """
        bits = {v: 1 << i for i, v in enumerate(self.pending_carries)}
        on = dict(bits)
        for e in self.pending_equations:
            read = 0
            for x in e.invars:
                read |= on.get(x, 0) if type(x) is Var else 0
            on.update(dict.fromkeys(e.outvars, read))
        further = {v: on.get(self.carry_outs[v], 0) for v in self.pending_carries}
        for u, bit in bits.items():  # Transitive closure by Warshall's algorithm.
            for v in self.pending_carries:
                if further[v] & bit:
                    further[v] |= further[u]
        first = 0
        for e in stuck:
            first |= functools.reduce(lambda a, v: a | on[v], e.outvars, 0)
        kept = first
        for v, bit in bits.items():
            if (first | further[v]) & bit:
                kept |= bit | further[v]
        return [v for v, bit in bits.items() if kept & bit]

    def _require_gain(
        self, inside: Sequence[JaxprEqn], crossing: int, cost: CostModel | None
    ) -> None:
        kept = {v for e in inside for v in e.outvars}
        moved = [e for e in self.body.eqns if kept.isdisjoint(e.outvars)]
        before = len(self.body.invars) - self.carries.stop + len(self.results)
        if len(moved) <= max(0, crossing - before):
            raise NotBatchableError(
                "Fewer equations would leave the loop than arrays pass between its parts."
            )
        varying = varying_in(self.body, self.body.invars[self.carries.start :])
        if cost is not None and not cost.is_faster_together(moved, self.n, varying):
            raise NotBatchableError("What would leave the loop is as fast in its steps.")

    def _emit_loop(
        self,
        inside: Sequence[JaxprEqn],
        constants: Sequence[Any],
        carries: Sequence[Any],
        arrays: Sequence[Any],
        stacked: Sequence[Any],
    ) -> list[Any]:
        inputs = [*constants, *carries, *arrays]
        outputs = [*(self.carry_outs[v] for v in carries), *stacked]
        name = self.body.debug_info.func_src_info
        names = [""] * len(inputs), [""] * len(outputs)
        program = _jax.closed_jaxpr(
            (), inputs, outputs, inside, frozenset(), (), name, *names, self.body
        )
        return lax.scan(
            self.b,
            program,
            [self.env[v].atom for v in constants],
            [self.inits[v] for v in carries],
            [self.env[v].atom for v in arrays],
            self.n,
            reverse=self.eqn.params["reverse"],
            unroll=self.eqn.params["unroll"],
        )
