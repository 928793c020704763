"""Reductions of what a loop stacks, and what its sequences are made of, done in the loop."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from jaxprgen import _jax
from jaxprgen._jax import ClosedJaxpr, JaxprEqn, Var
from jaxprgen.ir import Atom, Builder
from jaxprgen.ir import primitives as lax
from jaxprgen.ir.liveness import live_equations
from jaxprgen.ir.rewriting import each_program, with_equations
from jaxprgen.passes.fusion_cluster import FusionCluster, ShiftedExponentials
from jaxprgen.passes.inlining import bound_to, contains_scan, inlined
from jaxprgen.passes.unbatching import MONOIDS


@dataclass(frozen=True)
class ReduceInScan:
    """What a ``scan`` stacks only to be reduced is reduced in the loop, and is never stacked.

    A compiler would call it *loop fusion*. Between the loop and the reductions over its steps may
    stand whatever treats rows alike: elementwise equations, also on other arrays with a row for
    each step; what broadcasts, reshapes, slices or reduces along other axes. All of that moves into
    the body, and the reductions become carries. A sum of exponentials less their maximum, as in
    log-sum-exp, is carried beside the maximum so far, and rescaled where that grows (Milakov and
    Gimelshein, *Online normalizer calculation for softmax*, arXiv:1805.02867).

    In the same way what makes the sequences of a loop moves into it, if nobody else reads it, loops
    without a state among that: so the gradient of a mean of squares holds no array of residuals,
    and, where the loop has no state, none of what was stacked.

    What is stacked, reduced, and read otherwise as well, stays; nor is anything moved if the
    results of the reductions take more memory than they save, or if it would have to be transposed
    first. Programs that are called are inlined where a loop is in them or beside them, unless they
    hold arrays. Numbers in 16 bits are not summed: a carry of these would forget small terms.

    The derivative of a maximum that several rows share is divided among them otherwise.

    Attributes
    ----------
    reassociate
        Whether floating-point numbers may be summed and multiplied one step after the other,
        which rounds otherwise. Without it only integers, maxima, minima and bits are reduced in
        the loop.
    """

    reassociate: bool = False

    def __call__(self, closed: ClosedJaxpr) -> ClosedJaxpr:
        """The program with these loops fused with what is around them."""
        return each_program(closed, self._fuse)

    def _fuse(self, closed: ClosedJaxpr) -> ClosedJaxpr:
        outputs: Any = closed.jaxpr.outvars
        if not any(map(contains_scan, closed.jaxpr.eqns)):
            return closed
        equations = [x for e in closed.jaxpr.eqns for x in inlined(e)]
        equations, _ = live_equations(equations, outputs)
        found = self._fuse_one(equations, outputs)
        if found is None:
            return closed
        while found is not None:
            equations, _ = live_equations(found, outputs)
            found = self._fuse_one(equations, outputs)
        return with_equations(closed, equations)

    def _fuse_one(
        self, equations: Sequence[JaxprEqn], outputs: Sequence[Any]
    ) -> list[JaxprEqn] | None:
        """The equations with one loop fused with what is around it, if there is one to fuse."""
        for i, e in enumerate(equations):
            if e.primitive.name != "scan" or e.effects or e.params["length"] < 2:
                continue
            types: list[Any] = [x.aval for x in e.invars]
            if not Builder(types).plain or _jax.close(e.params["jaxpr"]).consts:
                continue
            cluster = FusionCluster(equations, outputs, i, self.reassociate)
            if cluster.is_profitable:
                return _FusedLoop(cluster).equations()
        return None


class _FusedLoop:
    """A loop and what is fused with it.

    Rows stand in the body as ``blocks``, of size one along the axis of the rows; ``shared`` is
    what all rows share. ``before`` and ``after`` are the carries of the reductions in a step.
    """

    def __init__(self, cluster: FusionCluster) -> None:
        self.cluster, self.loop = cluster, cluster.loop
        self.constants, carries = _jax.scan_counts(self.loop)
        self.starts = self.loop.invars[self.constants : cluster.first_sequence]
        self.stacked = self.loop.outvars[carries:]
        self.sequences = self.loop.invars[cluster.first_sequence :]
        self.fixed = [x for x, axes in cluster.operands.items() if None in axes]
        self.arrays = [x for x, axes in cluster.operands.items() if 0 in axes]
        self.results = [e.outvars[0] for e in cluster.reductions]
        self.partial = dict(filter(None, map(self._partial, cluster.reductions)))
        self.blocks: dict[Any, Atom] = {}
        self.shared: dict[Any, Atom] = {}
        self.before: dict[Any, Atom] = {}
        self.after: dict[Any, Atom] = {}

    def equations(self) -> list[JaxprEqn]:
        """All equations of the program; those that have moved are still there, for nobody."""
        cluster, loop = self.cluster, self.loop
        ahead, behind = cluster.split_program()
        b = Builder([x.aval for x in loop.invars])
        b.source_info = loop.source_info
        constants = [*loop.invars[: self.constants], *self.fixed]
        starts = [*self.starts, *(self._identity(b, e) for e in cluster.reductions)]
        options = {k: loop.params[k] for k in ("reverse", "unroll")}
        program = self._program()
        out = lax.scan(b, program, constants, starts, self.arrays, cluster.n, **options)
        first, last = len(self.starts), len(starts)
        self.after = dict(zip(self.results, out[first:last], strict=True))
        self.shared = {x: x for x in self.fixed}
        results = [*out[:first], *out[last:], *(self._final(b, e) for e in cluster.reductions)]
        new = bound_to(b, results, [*loop.outvars, *self.results])
        return [*ahead, *new, *behind]

    def _partial(self, eqn: JaxprEqn) -> tuple[Any, Any] | None:
        """The type of the carry of a reduction over axes of rows as well, by its result.

        It has these axes: they are reduced behind the loop, for what XLA reduces it writes to
        memory first, row by row, and a carry it changes in place.
        """
        maxima = [found.maximum for found in self.cluster.shifted.values()]
        is_whole = id(eqn) in self.cluster.shifted or any(e is eqn for e in maxima)
        if len(eqn.params.get("axes", ())) < 2 or is_whole:
            return None
        (axis,) = self.cluster.axes(eqn)
        if axis is None:
            return None
        aval: Any = eqn.invars[0].aval
        shape = (*aval.shape[:axis], 1, *aval.shape[axis + 1 :])
        return eqn.outvars[0], aval.update(shape=shape)

    def _identity(self, b: Builder, eqn: JaxprEqn) -> Atom:
        """What a reduction gives of no rows."""
        (v,) = eqn.outvars
        aval: Any = self.partial.get(v, v.aval)
        return _filled(b, MONOIDS[eqn.primitive.name].identity(aval.dtype), aval)

    # --- The body ------------------------------------------------------------------------

    def _program(self) -> ClosedJaxpr:
        """The body of the loop: its carries, then those of the reductions, then what it stacks."""
        cluster, loop = self.cluster, self.loop
        kinds = [loop.invars[: self.constants], self.fixed, self.starts, self.results]
        given = [x.aval for xs in kinds[:-1] for x in xs]
        types: list[Any] = [*given, *(self.partial.get(v, v.aval) for v in self.results)]
        b = Builder([*types, *(_jax.slice_type(x.aval) for x in self.arrays)])
        inputs = iter(b.inputs)
        constants, fixed, carries, sums = ([next(inputs) for _ in xs] for xs in kinds)
        self.shared = dict(zip(self.fixed, fixed, strict=True))
        self.before = dict(zip(self.results, sums, strict=True))
        rows = dict(zip(self.arrays, inputs, strict=True))
        read = {
            x for e in cluster.inside.values() if e is not loop for x in e.invars if type(x) is Var
        }
        self.blocks = {x: _block(b, row) for x, row in rows.items() if x in read}
        for e in cluster.producers:
            self._bind(b, e)
        given = [
            rows[x] if x in rows else lax.reshape(b, self.blocks[x], x.aval.shape[1:])
            for x in self.sequences
        ]
        out = b.inline(_jax.close(loop.params["jaxpr"]), [*constants, *carries, *given])
        first = len(carries)
        pairs = zip(self.stacked, out[first:], strict=True)
        self.blocks |= {v: _block(b, x) for v, x in pairs if v in read}
        for e in cluster.consumers_in_order():
            self._bind(b, e)
        name = _jax.open_jaxpr(loop.params["jaxpr"]).debug_info.func_src_info
        after = [self.after[v] for v in self.results]
        return b.build([*out[:first], *after, *out[first:]], name=name)

    def _bind(self, b: Builder, eqn: JaxprEqn) -> None:
        """Do for a row what an equation does for all."""
        cluster, v = self.cluster, eqn.outvars[0]
        b.source_info = eqn.source_info
        if eqn.primitive.name == "scan":
            self._inline_loop(b, eqn)
            return
        found = cluster.shifted.get(id(eqn))
        if found is not None and eqn is found.difference:
            self.blocks[v] = self._exponent(b, found)
            return
        operands: list[Any] = [
            x if type(x) is not Var else (self.shared if axis is None else self.blocks)[x]
            for x, axis in zip(eqn.invars, cluster.axes(eqn), strict=True)
        ]
        if v in self.partial:
            self.after[v] = MONOIDS[eqn.primitive.name].combine(b, self.before[v], *operands)
            return
        plan = cluster.unbatched.get(id(eqn))
        (value,) = b.bind_multiple(eqn.primitive, operands, plan.params if plan else eqn.params)
        if plan:
            self.blocks[v] = value
            return
        before = self.before[v]
        if found is not None:
            before = lax.mul(b, before, self._rescaling(b, found))
        self.after[v] = MONOIDS[eqn.primitive.name].combine(b, before, value)

    def _inline_loop(self, b: Builder, eqn: JaxprEqn) -> None:
        """Do in a step what a loop without a state did in one of its own."""
        program = _jax.close(eqn.params["jaxpr"])
        inputs: Any = program.jaxpr.invars
        pairs = zip(eqn.invars, self.cluster.axes(eqn), inputs, strict=True)
        given: list[Any] = []
        for x, axis, v in pairs:
            shared: Any = self.shared[x] if type(x) is Var and axis is None else x
            given.append(shared if axis is None else lax.reshape(b, self.blocks[x], v.aval.shape))
        rows = b.inline(program, given)
        self.blocks |= {v: _block(b, x) for v, x in zip(eqn.outvars, rows, strict=True)}

    # --- Sums of exponentials --------------------------------------------------------------

    # With m the maximum so far and g what the program takes from rows, a function of m, the sum so
    # far is that of exp(x - g(m)). Before the first row that is not minus infinity it is zero, for
    # g(m) may be anything; whatever the program gives if there is none is put in its place at last.

    def _shift(self, b: Builder, found: ShiftedExponentials, maxima: dict[Any, Atom]) -> Atom:
        """What is taken from rows below this maximum."""
        (v,) = found.maximum.outvars

        def emit() -> Atom:
            atoms = {**self.shared, v: maxima[v]}
            for e in self.cluster.shift_equations(found):
                atoms.update(b.copy(e, atoms))
            return atoms[found.difference.invars[1]]

        return b.once((id(found.difference), maxima[v]), emit)

    def _exponent(self, b: Builder, found: ShiftedExponentials) -> Atom:
        """A row, less what follows from the maximum so far."""
        row: Any = self.blocks[found.difference.invars[0]]
        (v,) = found.maximum.outvars
        below = lax.sub(b, row, self._shift(b, found, self.after))
        kept = [d for d in range(len(row.aval.shape)) if d not in found.axes]
        is_none = lax.broadcast_in_dim(b, _is_lowest(b, self.after[v]), row.aval.shape, kept)
        return lax.select_n(b, is_none, below, _filled(b, -np.inf, row.aval))

    def _rescaling(self, b: Builder, found: ShiftedExponentials) -> Atom:
        """What the sum of the rows before shrinks by, as the maximum grows."""
        change = lax.sub(b, *(self._shift(b, found, m) for m in (self.before, self.after)))
        top = self.before[found.maximum.outvars[0]]
        change = _reshaped(b, change, top.aval.shape)
        none = _filled(b, -np.inf, top.aval)
        return lax.exp(b, lax.select_n(b, _is_lowest(b, top), change, none))

    def _final(self, b: Builder, eqn: JaxprEqn) -> Atom:
        """The result of a reduction."""
        result = self.after[eqn.outvars[0]]
        found = self.cluster.shifted.get(id(eqn))
        if eqn.outvars[0] in self.partial:
            return b.bind_multiple(eqn.primitive, [result], eqn.params)[0]
        if found is None:
            return result
        top = self.after[found.maximum.outvars[0]]
        shade = _reshaped(b, self._shift(b, found, self.after), top.aval.shape)
        is_none, zero = _is_lowest(b, top), _filled(b, 0, top.aval)
        # The other exponents would be infinite where the maximum is, and so derivatives NaN.
        alone = lax.exp(b, lax.select_n(b, is_none, zero, lax.sub(b, top, shade)))
        return lax.select_n(b, is_none, result, alone)


def _block(b: Builder, row: Atom) -> Atom:
    """A row as an array of one row."""
    return lax.reshape(b, row, (1, *row.aval.shape))


def _reshaped(b: Builder, x: Atom, shape: tuple[int, ...]) -> Atom:
    return x if x.aval.shape == shape else lax.reshape(b, x, shape)


def _filled(b: Builder, value: Any, aval: Any) -> Atom:
    literal = b.literal(np.asarray(value, aval.dtype))
    return lax.broadcast_in_dim(b, literal, aval.shape, ()) if aval.shape else literal


def _is_lowest(b: Builder, x: Atom) -> Atom:
    return lax.eq(b, x, b.literal(np.asarray(-np.inf, x.aval.dtype)))
