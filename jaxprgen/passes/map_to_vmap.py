"""Loops whose steps do not wait for each other, as equations on all steps at once."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

from jaxprgen import _jax
from jaxprgen._jax import ClosedJaxpr, JaxprEqn, Var
from jaxprgen.ir import Atom, Builder
from jaxprgen.ir import primitives as lax
from jaxprgen.passes.batching import NotBatchableError, Operand, all_rows, batch, operand_of
from jaxprgen.passes.programs import rewritten

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


@dataclass(frozen=True)
class MapToVmap:
    """A ``scan`` without a recurrence becomes equations on all its steps at once.

    No carry may depend on itself. One that hands something over from the step before is no
    obstacle. Neither is one that nobody sees before the end, and that all steps do no more than
    add to: that is a sum. Likewise for maxima and minima, and for products and bits of integers;
    a product of floating-point numbers stays, as a part of it may overflow where the whole does
    not. Loops within loops come first. What bodies may consist of is what has a rule in
    `jaxprgen.passes.batching`.

    Attributes
    ----------
    memory
        The most bytes that the values of all steps may take up, those between included, although
        a compiler that fuses will not hold them all. Loops that would need more stay.
    reassociate
        Whether floating-point numbers may be reduced in another order, which rounds otherwise.
    """

    memory: int = 2**26
    reassociate: bool = False

    def __call__(self, closed: ClosedJaxpr) -> ClosedJaxpr:
        """The program without these loops."""
        return rewritten(closed, self._equations)

    def _equations(self, eqn: JaxprEqn) -> list[JaxprEqn] | None:
        """What stands for an equation, if it is such a loop."""
        if eqn.primitive.name != "scan" or eqn.effects or not eqn.params["length"]:
            return None
        loop = _Batched(eqn, self)
        if not loop.b.plain or _jax.close(eqn.params["jaxpr"]).consts:
            return None
        try:
            return loop.equations()
        except NotBatchableError:
            return None


class _Reduction(NamedTuple):
    """A carry that every step changes by values which do not depend on it.

    ``equations`` are those that change it, all of one primitive, by ``terms``.
    """

    equations: list[JaxprEqn]
    terms: list[Atom]


class _Batched:
    """One loop, on all of its steps at once."""

    def __init__(self, eqn: JaxprEqn, options: MapToVmap) -> None:
        self.eqn: Any = eqn
        self.n: int = eqn.params["length"]
        self.body: Any = _jax.open_jaxpr(eqn.params["jaxpr"])
        self.b = Builder([x.aval for x in self.eqn.invars])  # The types tell whether it is plain.
        self.b.source_info = eqn.source_info
        constants, carries = _jax.scan_counts(eqn)
        self.carries = range(constants, constants + carries)
        pairs = enumerate(zip(self.body.invars, self.eqn.invars, strict=True))
        self.known: dict[Any, Operand] = {
            v: Operand(x, i >= self.carries.stop) for i, (v, x) in pairs if i not in self.carries
        }
        self.readers: dict[Any, list[Any]] = {}
        for e in self.body.eqns:
            for x in {x for x in e.invars if type(x) is Var}:
                self.readers.setdefault(x, []).append(e)
        self.ends: dict[Var, Atom] = {}
        self.memory = options.memory
        self.reassociate = options.reassociate

    def equations(self) -> list[JaxprEqn]:
        """What gives the results of the loop, in its variables."""
        body, carries = self.body, self.carries
        starts = dict(zip(body.invars, self.eqn.invars, strict=True))
        afters = dict(zip([body.invars[i] for i in carries], body.outvars, strict=False))
        reductions = {v: r for v, x in afters.items() if (r := self._reduction(v, x))}
        reducing = {id(e) for r in reductions.values() for e in r.equations}
        waiting = [e for e in body.eqns if id(e) not in reducing]
        left = [v for v in afters if v not in reductions]
        while waiting or left:
            before = len(waiting) + len(left)
            waiting = [e for e in waiting if not self._emit(e)]
            left = [v for v in left if not self._take_over(v, starts[v], afters[v])]
            if len(waiting) + len(left) == before:
                raise NotBatchableError("A carry depends on itself.")
        for v, reduction in reductions.items():
            self._reduce(v, starts[v], reduction)
        rows = body.outvars[len(carries) :]
        results = [all_rows(self.b, operand_of(self.known, x), self.n) for x in rows]
        return self._named([*(self.ends[v] for v in afters), *results])

    def _is_known(self, x: Any) -> bool:
        return type(x) is not Var or x in self.known

    def _emit(self, eqn: Any) -> bool:
        """Whether an equation could be emitted for all steps."""
        b, known = self.b, self.known
        if not all(map(self._is_known, eqn.invars)):
            return False
        b.source_info = _jax.within(self.eqn.source_info, eqn.source_info)
        found = batch(b, eqn, [operand_of(known, x) for x in eqn.invars], self.n)
        b.source_info = self.eqn.source_info
        known.update(zip(eqn.outvars, found, strict=True))
        self.memory -= sum(_jax.nbytes(x.atom.aval) for x in found)
        if self.memory < 0:
            raise NotBatchableError("That would take too much memory.")
        return True

    # --- Carries -------------------------------------------------------------------------

    def _take_over(self, v: Var, start: Atom, after: Atom) -> bool:
        """Whether it is known what a carry is in every step: what it is after the one before."""
        b, n = self.b, self.n
        if after is v:
            self.known[v], self.ends[v] = Operand(start, False), start
            return True
        if not self._is_known(after):
            return False
        rows = all_rows(b, operand_of(self.known, after), n)
        first = lax.reshape(b, start, (1, *v.aval.shape))
        backwards = self.eqn.params["reverse"]
        others = self._rows(rows, 1, n) if backwards else self._rows(rows, 0, n - 1)
        last = self._rows(rows, 0, 1) if backwards else self._rows(rows, n - 1, n)
        before = lax.concatenate(b, [others, first] if backwards else [first, others], 0)
        self.known[v] = Operand(before, True)
        self.ends[v] = lax.squeeze(b, last, [0])
        return True

    def _rows(self, x: Atom, start: int, stop: int) -> Var:
        shape = x.aval.shape
        low, high = [start, *[0] * (len(shape) - 1)], [stop, *shape[1:]]
        return lax.slice(self.b, x, low, high, [1] * len(shape))

    def _reduction(self, v: Var, after: Atom) -> _Reduction | None:
        """How steps change a carry, if it is a reduction that may be done in any order."""
        body = self.body
        found = _Reduction([], [])
        x: Any = v
        is_exact = v.aval.dtype.kind not in "fc"
        if after is v or not (is_exact or self.reassociate):
            return None
        allowed = _REDUCTIONS.keys() - (set() if is_exact else {"mul"})
        while x is not after:
            readers = self.readers.get(x, [])
            if len(readers) != 1 or x in body.outvars:
                return None
            (eqn,) = readers
            operands = [y for y in eqn.invars if y is not x]
            is_same = not found.equations or found.equations[0].primitive is eqn.primitive
            if eqn.primitive.name not in allowed or len(operands) != 1 or not is_same:
                return None
            if operands[0].aval.shape != v.aval.shape:
                return None
            found.equations.append(eqn)
            found.terms.append(operands[0])
            (x,) = eqn.outvars
        return None if x in self.readers or body.outvars.count(x) > 1 else found

    def _reduce(self, v: Var, start: Atom, reduction: _Reduction) -> None:
        b = self.b
        combine, reduce = _REDUCTIONS[reduction.equations[0].primitive.name]
        b.source_info = _jax.within(self.eqn.source_info, reduction.equations[-1].source_info)
        terms = [all_rows(b, operand_of(self.known, x), self.n) for x in reduction.terms]
        whole = functools.reduce(functools.partial(combine, b), terms)
        self.ends[v] = combine(b, start, reduce(b, whole, [0]))

    # --- Results -------------------------------------------------------------------------

    def _named(self, results: Sequence[Atom]) -> list[JaxprEqn]:
        """The equations, which give the results in the variables of the loop."""
        b = self.b
        names: dict[Any, Var] = {}
        made = {v for e in b.equations_from(0) for v in e.outvars}
        for x, v in zip(results, self.eqn.outvars, strict=True):
            is_new = type(x) is Var and x in made and x not in names
            names[x if is_new else b.bind_multiple(_jax.primitive("copy"), [x], {})[0]] = v
        return [
            e.replace(
                invars=[names.get(x, x) if type(x) is Var else x for x in e.invars],
                outvars=[names.get(v, v) for v in e.outvars],
            )
            for e in b.equations_from(0)
        ]
