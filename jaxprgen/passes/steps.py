"""The steps of a loop, done at once as far as they do not wait for each other."""

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
    NotBatchableError,
    Operand,
    all_rows,
    batch,
    has_rule,
    operand_of,
)

_Constructor: TypeAlias = Callable[..., Var]
_REDUCTIONS: dict[str, tuple[_Constructor, _Constructor]] = {
    "add": (lax.add, lax.reduce_sum),
    "add_any": (lax.add, lax.reduce_sum),
    "mul": (lax.mul, lax.reduce_prod),
    "max": (lax.max, lax.reduce_max),
    "min": (lax.min, lax.reduce_min),
    "and": (lax.bitwise_and, lax.reduce_and),
    "or": (lax.bitwise_or, lax.reduce_or),
}
"""By the primitive by which steps change a carry: that primitive, and what does it for all rows."""


class _Reduction(NamedTuple):
    """A carry that every step changes by values which do not depend on it.

    ``equations`` are those that change it, all of one primitive, by ``terms``.
    """

    equations: list[Any]
    terms: list[Atom]


class Steps:
    """All steps of one ``scan``.

    Parameters
    ----------
    eqn
        The loop, of one step or more and without effects.
    memory
        The most bytes that the values of all steps may take up.
    reassociate
        Whether floating-point numbers may be reduced in another order.
    """

    def __init__(self, eqn: JaxprEqn, memory: int, reassociate: bool) -> None:
        self.eqn: Any = eqn
        self.memory = memory
        self.n: int = eqn.params["length"]
        self.body: Any = _jax.open_jaxpr(eqn.params["jaxpr"])
        self.b = Builder([x.aval for x in self.eqn.invars])  # The types tell whether it is plain.
        self.b.source_info = eqn.source_info
        constants, carries = _jax.scan_counts(eqn)
        self.carries = own = range(constants, constants + carries)
        pairs = list(zip(self.body.invars, self.eqn.invars, strict=True))
        self.known: dict[Any, Operand] = {
            v: Operand(x, i >= own.stop) for i, (v, x) in enumerate(pairs) if i not in own
        }
        self.starts: dict[Any, Any] = dict(pairs[own.start : own.stop])
        self.afters: dict[Any, Any] = dict(zip(self.starts, self.body.outvars, strict=False))
        self.results: list[Any] = self.body.outvars[carries:]
        self.ends: dict[Any, Atom] = {}
        self.counted = 0
        self.readers: dict[Any, list[Any]] = {}
        self.reductions = self._reductions(reassociate)
        reducing = {id(e) for r in self.reductions.values() for e in r.equations}
        self.waiting = [e for e in self.body.eqns if id(e) not in reducing]
        self.left = [v for v in self.afters if v not in self.reductions]

    def advance(self) -> None:
        """Emit for all steps what does not wait for a carry that depends on itself.

        What has no rule stays, and what waits for it.
        """
        while self.waiting or self.left:
            before = len(self.waiting) + len(self.left)
            self.waiting = [e for e in self.waiting if not self._emit(e)]
            self.left = [v for v in self.left if not self._take_over(v)]
            if len(self.waiting) + len(self.left) == before:
                return

    def finish(self) -> list[JaxprEqn]:
        """What gives the results of the loop, in its variables, when nothing is left."""
        for v, reduction in self.reductions.items():
            self._reduce(v, reduction)
        rows = [all_rows(self.b, operand_of(self.known, x), self.n) for x in self.results]
        self._spend()
        results = [*(self.ends[v] for v in self.afters), *rows]
        return named(self.b, results, self.eqn.outvars)

    def _is_known(self, x: Any) -> bool:
        return type(x) is not Var or x in self.known

    def _emit(self, eqn: Any) -> bool:
        """Whether an equation could be emitted for all steps."""
        b, known = self.b, self.known
        if not all(map(self._is_known, eqn.invars)):
            return False
        operands = [operand_of(known, x) for x in eqn.invars]
        if any(x.is_batched for x in operands) and not has_rule(eqn):
            return False
        known.update(zip(eqn.outvars, batch(b, eqn, operands, self.n), strict=True))
        self._spend()
        return True

    def _spend(self) -> None:
        """Count the memory of what was emitted since it was counted before."""
        new = self.b.equations_from(self.counted)
        self.counted += len(new)
        self.memory -= sum(_jax.nbytes(v.aval) for e in new for v in e.outvars)
        if self.memory < 0:
            raise NotBatchableError("That would take too much memory.")

    # --- Carries that only hand over ------------------------------------------------------

    def _take_over(self, v: Any) -> bool:
        """Whether it is known what a carry is in every step: what it is after the one before."""
        start, after = self.starts[v], self.afters[v]
        if after is v:
            self.known[v], self.ends[v] = Operand(start, False), start
            return True
        if not self._is_known(after):
            return False
        end = operand_of(self.known, after)
        is_read = v in self.readers or v in self.body.outvars
        if is_read or end.is_batched:
            self.hand_over(v, end)
        else:
            self.ends[v] = end.atom
        return True

    def hand_over(self, v: Any, end: Operand) -> None:
        """Note what a carry is after every step; before it, it is that after the one before."""
        b, n, start = self.b, self.n, self.starts[v]
        rows = all_rows(b, end, n)
        first = lax.reshape(b, start, (1, *v.aval.shape))
        backwards = self.eqn.params["reverse"]
        others = self._rows(rows, 1, n) if backwards else self._rows(rows, 0, n - 1)
        last = self._rows(rows, 0, 1) if backwards else self._rows(rows, n - 1, n)
        before = lax.concatenate(b, [others, first] if backwards else [first, others], 0)
        self.known[v] = Operand(before, True)
        self.ends[v] = lax.squeeze(b, last, [0]) if end.is_batched else end.atom
        self._spend()

    def _rows(self, x: Atom, start: int, stop: int) -> Var:
        shape = x.aval.shape
        low, high = [start, *[0] * (len(shape) - 1)], [stop, *shape[1:]]
        return lax.slice(self.b, x, low, high, [1] * len(shape))

    # --- Carries that only gather ---------------------------------------------------------

    def _reductions(self, reassociate: bool) -> dict[Any, _Reduction]:
        """The carries that are reductions, which may be done in any order."""
        for e in self.body.eqns:
            for x in {x for x in e.invars if type(x) is Var}:
                self.readers.setdefault(x, []).append(e)
        found: dict[Any, _Reduction] = {}
        for v in self.afters:
            is_exact = not jax.numpy.issubdtype(v.aval.dtype, np.inexact)
            allowed = _REDUCTIONS.keys() - (set() if is_exact else {"mul"})
            is_number = getattr(v.aval.dtype, "kind", "V") in "biufc"  # Not bfloat16, nor keys.
            is_free = is_number and (is_exact or reassociate)
            reduction = self._reduction(v, allowed) if is_free else None
            if reduction is not None:
                found[v] = reduction
        return found

    def _reduction(self, v: Any, allowed: Collection[str]) -> _Reduction | None:
        """How steps change a carry, if by nothing but primitives that are allowed."""
        found = _Reduction([], [])
        outputs, after, readers, x = self.body.outvars, self.afters[v], self.readers, v
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
        combine, reduce = _REDUCTIONS[reduction.equations[0].primitive.name]
        b.source_info = _jax.within(self.eqn.source_info, reduction.equations[-1].source_info)
        terms = [all_rows(b, operand_of(self.known, x), self.n) for x in reduction.terms]
        whole = functools.reduce(functools.partial(combine, b), terms)
        self.ends[v] = combine(b, self.starts[v], reduce(b, whole, [0]))

    # --- Carries that depend on themselves ------------------------------------------------

    def recur(self) -> None:
        """Emit a loop of nothing but what carries that depend on themselves need, and what has
        no rule.

        Raises
        ------
        NotBatchableError
            That would move less than it takes to hand values from one part to the other.
        """
        stuck = [e for e in self.waiting if not has_rule(e)]
        carries = self._recurrent(stuck)
        needed = [*(self.afters[v] for v in carries), *(v for e in stuck for v in e.outvars)]
        inside, read = live_equations(self.waiting, needed)
        made = {*carries, *(v for e in inside for v in e.outvars)}
        self.waiting = [e for e in self.waiting if made.isdisjoint(e.outvars)]
        self.left = [v for v in self.left if v not in carries]
        wanted = [x for e in self.waiting for x in e.invars]
        wanted += [x for r in self.reductions.values() for x in r.terms]
        wanted += [*self.results, *(self.afters[v] for v in self.left)]
        stacked = list(dict.fromkeys(x for x in wanted if type(x) is Var and x in made))
        given = [v for v in self.known if v in read]
        constants = [v for v in given if not self.known[v].is_batched]
        arrays = [v for v in given if self.known[v].is_batched]
        self._weigh(len(inside), len(arrays) + len(stacked))
        out = self._loop(inside, constants, carries, arrays, stacked)
        self.ends.update(zip(carries, out, strict=False))
        rows = [Operand(x, True) for x in out[len(carries) :]]
        self.known.update(zip(stacked, rows, strict=True))
        self._spend()

    def _recurrent(self, stuck: Sequence[Any]) -> list[Any]:
        """The carries that depend on themselves or are read by what stays, and what these read.

        Sets of carries are integers, of a bit for each.
        """
        bits = {v: 1 << i for i, v in enumerate(self.left)}
        on = dict(bits)
        for e in self.waiting:
            read = 0
            for x in e.invars:
                read |= on.get(x, 0) if type(x) is Var else 0
            on.update(dict.fromkeys(e.outvars, read))
        further = {v: on.get(self.afters[v], 0) for v in self.left}
        for u, bit in bits.items():  # Warshall's algorithm.
            for v in self.left:
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

    def _weigh(self, inside: int, crossing: int) -> None:
        moved = len(self.body.eqns) - inside
        before = len(self.body.invars) - self.carries.stop + len(self.results)
        if moved <= max(0, crossing - before):
            raise NotBatchableError("That moves less than it hands over.")

    def _loop(
        self,
        inside: Sequence[JaxprEqn],
        constants: Sequence[Any],
        carries: Sequence[Any],
        arrays: Sequence[Any],
        stacked: Sequence[Any],
    ) -> list[Any]:
        inputs = [*constants, *carries, *arrays]
        outputs = [*(self.afters[v] for v in carries), *stacked]
        name = self.body.debug_info.func_src_info
        names = [""] * len(inputs), [""] * len(outputs)
        program = _jax.closed_jaxpr(
            (), inputs, outputs, inside, frozenset(), (), name, *names, self.body
        )
        return lax.scan(
            self.b,
            program,
            [self.known[v].atom for v in constants],
            [self.starts[v] for v in carries],
            [self.known[v].atom for v in arrays],
            self.n,
            reverse=self.eqn.params["reverse"],
            unroll=self.eqn.params["unroll"],
        )


def named(b: Builder, results: Sequence[Atom], variables: Sequence[Any]) -> list[JaxprEqn]:
    """The equations of a builder, which give these results in variables of another program."""
    names: dict[Any, Any] = {}
    made = {v for e in b.equations_from(0) for v in e.outvars}
    for x, v in zip(results, variables, strict=True):
        if type(v) is not Var:  # Nobody reads it.
            continue
        is_new = type(x) is Var and x in made and x not in names
        names[x if is_new else b.bind_multiple(_jax.primitive("copy"), [x], {})[0]] = v
    return [
        e.replace(
            invars=[names.get(x, x) if type(x) is Var else x for x in e.invars],
            outvars=[names.get(v, v) for v in e.outvars],
        )
        for e in b.equations_from(0)
    ]
