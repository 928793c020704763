"""Loop fusion: compute reductions of stacked results, and sequences, inside a ``scan``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from jaxprgen import _jax
from jaxprgen._jax import ClosedJaxpr, JaxprEqn, Var
from jaxprgen.ir import Atom, Builder
from jaxprgen.ir import primitives as lax
from jaxprgen.ir.liveness import live_equations
from jaxprgen.ir.loops import Loop, pure_loop
from jaxprgen.ir.programs import parts
from jaxprgen.ir.rewriting import each_program, with_equations
from jaxprgen.passes.fusion_cluster import FusionCluster, ShiftedExponentials
from jaxprgen.passes.inlining import bound_to, inlined
from jaxprgen.passes.meaning import Meaning, if_reassociated
from jaxprgen.passes.unbatching import MONOIDS


@dataclass(frozen=True)
class ReduceInScan:
    """Reduce results of a ``scan`` inside the loop if they are stacked only to be reduced.

    This is loop fusion. Any equations that treat all rows alike may stand between the loop and the
    reductions over its steps: elementwise ones, also with other arrays that have one row per step,
    and those that broadcast, reshape, slice or reduce along other axes. All of them move into the
    body, and the reductions become carries. A sum of exponentials from which their maximum is
    subtracted, as in log-sum-exp, is carried together with the maximum so far, and rescaled
    whenever that grows (Milakov and Gimelshein, *Online normalizer calculation for softmax*,
    arXiv:1805.02867).

    Equations that compute the sequences of a loop move into it as well, if nothing else reads their
    results. Loops without carries are among them. For example, the gradient of a mean of squares
    then stores no array of residuals, and no stacked results if the loop has no carries.

    Nothing is moved if the stacked results are also read elsewhere, if the reductions take more
    memory than they save, or if an array would have to be transposed first. Calls are inlined if
    they or their neighbours contain loops, unless they hold constant arrays. Numbers of 16 bits are
    not summed, because such a carry would lose small terms.

    If several rows share the maximum, its derivative is divided among them in another way.

    Attributes
    ----------
    reassociate : bool
        Whether floating-point numbers may be summed and multiplied step by step, which changes
        rounding. Otherwise, only integers, maxima, minima and bitwise operations are reduced in the
        loop.
    """

    reassociate: bool = False

    meaning = if_reassociated(Meaning.SAME_REALS)

    def __call__(self, closed: ClosedJaxpr) -> ClosedJaxpr:
        """Return the program with loops fused, or the given one if no loop changes.

        Parameters
        ----------
        closed : ClosedJaxpr
            The program. It is not changed.
        """
        return each_program(closed, self._fuse)

    def _fuse(self, closed: ClosedJaxpr) -> ClosedJaxpr:
        outputs: Any = closed.jaxpr.outvars
        if not any("scan" in _jax.primitives_of(e) for e in closed.jaxpr.eqns):
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
        """Return the equations with one loop fused, or None if none can be."""
        for i, e in enumerate(equations):
            loop = pure_loop(e)
            if loop is None or _jax.bound(loop.length) < 2:
                continue
            cluster = FusionCluster(equations, outputs, i, loop, self.reassociate)
            if cluster.is_profitable:
                return _FusedLoop(cluster, loop).equations()
        return None


class _FusedLoop:
    """A loop that computes a fusion cluster.

    Attributes
    ----------
    rows : dict of Var to Var
        The arrays that the loop reads, and their rows in the body.
    blocks : dict of Var to Atom
        The variables that have rows, as arrays of one row in the body.
    shared : dict of Var to Atom
        The variables that all rows share, in the body.
    before, after : dict of Var to Atom
        The carries of the reductions before and after a step.
    partial : dict of Var to aval
        The reductions whose carry keeps axes that are reduced after the loop; see `_partial`.
    """

    def __init__(self, cluster: FusionCluster, loop: Loop) -> None:
        self.cluster, self.loop = cluster, loop
        self.b = b = Builder()
        self.results = [e.outvars[0] for e in cluster.reductions]
        self.partial = dict(filter(None, map(self._partial, cluster.reductions)))
        given = cluster.operands.items()
        self.shared: dict[Any, Atom] = {x: b.add_input(x.aval) for x, axes in given if None in axes}
        self.rows = {x: b.add_input(_jax.slice_type(x.aval)) for x, axes in given if 0 in axes}
        self.before: dict[Any, Atom] = {
            v: b.add_input(self.partial.get(v, v.aval)) for v in self.results
        }
        self.after: dict[Any, Atom] = {}
        self.blocks: dict[Any, Atom] = {}

    def equations(self) -> list[JaxprEqn]:
        """Return all equations of the program. Those that were moved remain, as dead code."""
        eqn, fixed = self.cluster.loop, list(self.shared)
        ahead, behind = self.cluster.split_program()
        b = Builder.in_place_of(eqn)
        out = self._fused([self._identity(b, e) for e in self.cluster.reductions]).emit(b)
        ends, sums, stacked = parts(out, len(self.loop.carries), len(self.results))
        self.after = dict(zip(self.results, sums, strict=True))
        self.shared = {x: x for x in fixed}
        results = [*ends, *stacked, *(self._final(b, e) for e in self.cluster.reductions)]
        return [*ahead, *bound_to(b, results, [*eqn.outvars, *self.results]), *behind]

    def _partial(self, eqn: JaxprEqn) -> tuple[Any, Any] | None:
        """Return the result and the carry type of a reduction that also reduces axes of rows.

        The carry keeps these axes, and they are reduced after the loop. XLA would write every row
        to memory before it reduced the row, whereas it updates a carry in place.
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
        """Emit the result of a reduction over no rows."""
        (v,) = eqn.outvars
        aval: Any = self.partial.get(v, v.aval)
        return _filled(b, MONOIDS[eqn.primitive.name].identity(aval.dtype), aval)

    # --- The body -------------------------------------------------------------------------

    def _fused(self, identities: Sequence[Atom]) -> Loop:
        """Return the loop: the carries are its own, then those of the reductions."""
        cluster, loop, b = self.cluster, self.loop, self.b
        inside = (e for e in cluster.inside.values() if e is not cluster.loop)
        read = {x for e in inside for x in e.invars if type(x) is Var}
        self.blocks = {x: _block(b, row) for x, row in self.rows.items() if x in read}
        for e in cluster.producers:
            self._bind(b, e)
        atoms: dict[Any, Any] = {v: v for v in (*loop.constants, *loop.carries)}
        for v, x in loop.rows.items():
            own = x not in self.rows
            atoms[v] = lax.reshape(b, self.blocks[x], v.aval.shape) if own else self.rows[x]
        for e in loop.equations:
            atoms.update(b.copy(e, atoms))
        results = [*loop.after.values(), *loop.stacked]
        ends, stacked = parts(
            [atoms[x] if type(x) is Var else x for x in results], len(loop.carries)
        )
        pairs = zip(cluster.loop.outvars[len(loop.carries) :], stacked, strict=True)
        self.blocks |= {v: _block(b, x) for v, x in pairs if v in read}
        for e in cluster.consumers_in_order():
            self._bind(b, e)
        sums: dict[Any, Atom] = dict(zip(self.before.values(), identities, strict=True))
        carries = {**loop.carries, **sums}
        ends += [self.after[v] for v in self.results]
        shared: dict[Any, Atom] = {v: x for x, v in self.shared.items()}
        return replace(
            loop,
            constants={**loop.constants, **shared},
            carries=carries,
            rows={row: x for x, row in self.rows.items()},
            equations=b.equations_from(0),
            after=dict(zip(carries, ends, strict=True)),
            stacked=stacked,
        )

    def _bind(self, b: Builder, eqn: JaxprEqn) -> None:
        """Emit for one row what an equation does for all rows."""
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
        """Emit a step of a loop without carries."""
        program = _jax.close(eqn.params["jaxpr"])
        inputs: Any = program.jaxpr.invars
        pairs = zip(eqn.invars, self.cluster.axes(eqn), inputs, strict=True)
        given: list[Any] = []
        for x, axis, v in pairs:
            shared: Any = self.shared[x] if type(x) is Var and axis is None else x
            given.append(shared if axis is None else lax.reshape(b, self.blocks[x], v.aval.shape))
        rows = b.inline(program, given)
        self.blocks |= {v: _block(b, x) for v, x in zip(eqn.outvars, rows, strict=True)}

    # --- Sums of exponentials -------------------------------------------------------------

    # Let m be the maximum so far and g(m) the shift, a function of m. The carry is the sum of
    # exp(x - g(m)) so far. It is zero while all rows are minus infinity, because g(m) is arbitrary
    # then. If all rows of the loop are, `_final` replaces it by what the program would compute.

    def _shift(self, b: Builder, found: ShiftedExponentials, maxima: dict[Any, Atom]) -> Atom:
        """Emit the shift for the current value of the maximum."""
        (v,) = found.maximum.outvars

        def emit() -> Atom:
            atoms = {**self.shared, v: maxima[v]}
            for e in self.cluster.shift_equations(found):
                atoms.update(b.copy(e, atoms))
            return atoms[found.difference.invars[1]]

        return b.once((id(found.difference), maxima[v]), emit)

    def _exponent(self, b: Builder, found: ShiftedExponentials) -> Atom:
        """Emit the difference of a row and the shift."""
        row: Any = self.blocks[found.difference.invars[0]]
        (v,) = found.maximum.outvars
        below = lax.sub(b, row, self._shift(b, found, self.after))
        kept = [d for d in range(len(row.aval.shape)) if d not in found.axes]
        is_none = lax.broadcast_in_dim(b, _is_lowest(b, self.after[v]), row.aval.shape, kept)
        return lax.select_n(b, is_none, below, _filled(b, -np.inf, row.aval))

    def _rescaling(self, b: Builder, found: ShiftedExponentials) -> Atom:
        """Emit the factor by which the sum so far shrinks when the maximum grows."""
        change = lax.sub(b, *(self._shift(b, found, m) for m in (self.before, self.after)))
        top = self.before[found.maximum.outvars[0]]
        change = _reshaped(b, change, top.aval.shape)
        none = _filled(b, -np.inf, top.aval)
        return lax.exp(b, lax.select_n(b, _is_lowest(b, top), change, none))

    def _final(self, b: Builder, eqn: JaxprEqn) -> Atom:
        """Emit the result of a reduction from its final carry."""
        result = self.after[eqn.outvars[0]]
        found = self.cluster.shifted.get(id(eqn))
        if eqn.outvars[0] in self.partial:
            return b.bind_multiple(eqn.primitive, [result], eqn.params)[0]
        if found is None:
            return result
        top = self.after[found.maximum.outvars[0]]
        shift = _reshaped(b, self._shift(b, found, self.after), top.aval.shape)
        is_none, zero = _is_lowest(b, top), _filled(b, 0, top.aval)
        # Elsewhere the exponent is not needed, and would make derivatives NaN if it were infinite.
        alone = lax.exp(b, lax.select_n(b, is_none, zero, lax.sub(b, top, shift)))
        return lax.select_n(b, is_none, result, alone)


def _block(b: Builder, row: Atom) -> Atom:
    """Return a row as an array of one row."""
    return lax.reshape(b, row, (1, *row.aval.shape))


def _reshaped(b: Builder, x: Atom, shape: tuple[int, ...]) -> Atom:
    return x if x.aval.shape == shape else lax.reshape(b, x, shape)


def _filled(b: Builder, value: Any, aval: Any) -> Atom:
    literal = b.literal(np.asarray(value, aval.dtype))
    return lax.broadcast_in_dim(b, literal, aval.shape, ()) if aval.shape else literal


def _is_lowest(b: Builder, x: Atom) -> Atom:
    return lax.eq(b, x, b.literal(np.asarray(-np.inf, x.aval.dtype)))
