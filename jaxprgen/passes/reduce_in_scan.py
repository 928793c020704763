"""Loop fusion: compute reductions of stacked results, and sequences, inside a ``scan``."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from jaxprgen import _jax
from jaxprgen._jax import ClosedJaxpr, JaxprEqn, Var
from jaxprgen.ir import Atom, Builder, primitives as lax
from jaxprgen.ir.liveness import live_equations, readers_of, whole_equations
from jaxprgen.ir.loops import Loop, pure_loop
from jaxprgen.ir.programs import parts
from jaxprgen.ir.rewriting import each_program, with_equations
from jaxprgen.passes.inlining import bound_to, inlined
from jaxprgen.passes.meaning import Meaning, if_reassociated
from jaxprgen.passes.unbatching import MONOIDS, Unbatched, unbatched

_LAYOUT_PRIMITIVES = {"reshape", "squeeze", "transpose", "copy"}


class ShiftedExponentials(NamedTuple):
    """A sum of exponentials of rows, from which a function of their maximum is subtracted first.

    This is the pattern of log-sum-exp, in which the function is the maximum where it is finite. The
    subtracted value is called the shift.

    Attributes
    ----------
    maximum : JaxprEqn
        The equation of the maximum of the rows.
    difference : JaxprEqn
        The equation that subtracts the shift.
    axes : sequence of int
        The axes of the difference over which its exponentials are summed.
    """

    maximum: JaxprEqn
    difference: JaxprEqn
    axes: Sequence[int]


class FusionCluster:
    """The equations of a program that can be fused with one of its loops.

    After the loop, they lead from its stacked results to reductions over all rows; nothing else may
    read their results. Before the loop, they compute its sequences and other operands of the
    cluster.

    Parameters
    ----------
    equations, outputs : sequence
        The equations and outputs of the program.
    position : int
        The position of the loop among the equations.
    loop : Loop
        The same loop, by the roles of its operands.
    reassociate : bool
        Whether floating-point numbers may be reduced in another order.

    Attributes
    ----------
    row_axes : dict of Var to int
        The variables that have rows, and the axis along which the rows lie.
    unbatched : dict of int to Unbatched
        How each equation computes one row, by the identity of the equation.
    shifted : dict of int to ShiftedExponentials
        The sums of exponentials, by the identity of each equation that belongs to one.
    producers : list of JaxprEqn
        The fused equations before the loop, in order.
    consumers : list of JaxprEqn
        The fused equations after the loop, in order.
    freed : list of Var
        The stacked results that only the cluster reads, and that need not be stacked.
    inside : dict of int to JaxprEqn
        All fused equations and the loop, by identity.
    operands : dict of Var to set
        The variables read from outside, with the axes of their rows (None: shared by all rows).
    """

    def __init__(
        self,
        equations: Sequence[JaxprEqn],
        outputs: Sequence[Any],
        position: int,
        loop: Loop,
        reassociate: bool,
    ) -> None:
        self.loop, self.given = equations[position], loop
        self.n: int = loop.length
        self.reassociate = reassociate
        self.equations = equations
        self.after_loop = equations[position + 1 :]
        self.readers = readers_of(equations, outputs)
        results: list[Any] = self.loop.outvars[len(loop.carries) :]
        self.stacked = [v for v in results if type(v) is Var]
        refused: set[int] = set()
        while not self._collect(refused):
            pass

    @property
    def reductions(self) -> list[JaxprEqn]:
        """The fused reductions over all rows, in order."""
        return [e for e in self.consumers if id(e) not in self.unbatched]

    @property
    def is_profitable(self) -> bool:
        """Whether an array of all rows is no longer needed."""
        return bool(self.freed or self.producers)

    def _collect(self, refused: set[int]) -> bool:
        """Collect the cluster without refused equations; return whether no more were refused."""
        self.refused = refused
        self.row_axes: dict[Any, int] = dict.fromkeys(self.stacked, 0)
        self.unbatched: dict[int, Unbatched] = {}
        self.shifted: dict[int, ShiftedExponentials] = {}
        self.consumers: list[JaxprEqn] = []
        self.producers: list[JaxprEqn] = []
        self.dependent: set[Any] = set(self.loop.outvars)
        self.shifts: dict[Any, JaxprEqn] = {}  # Maxima, and what follows from one alone.
        self.made: dict[Any, JaxprEqn] = {}
        for e in self.after_loop:
            self._consider(e)
        self._drop_unfusible()
        self._take_producers()
        wrong = self._misplaced()
        refused.update(wrong)
        return not wrong

    # --- After the loop -------------------------------------------------------------------

    def _consider(self, eqn: JaxprEqn) -> None:
        """Add an equation after the loop if it computes rows, or reduces them."""
        read = [x for x in eqn.invars if type(x) is Var and x in self.dependent]
        if not read and not eqn.effects:
            return
        self.dependent.update(eqn.outvars)
        self.made.update(dict.fromkeys(eqn.outvars, eqn))
        if eqn.effects or id(eqn) in self.refused:
            return
        (root, *others) = {id(e): e for e in map(self.shifts.get, read)}.values()
        if root is not None and not others:
            self.shifts.update(dict.fromkeys(eqn.outvars, root))
        elif all(x in self.row_axes for x in read):
            self._follow(eqn)
        elif eqn.primitive.name == "sub" and read[0] is eqn.invars[0] and read[0] in self.row_axes:
            self._take_difference(eqn)

    def _follow(self, eqn: JaxprEqn) -> None:
        makers = [self.made.get(x) for x in eqn.invars if type(x) is Var]
        sums = [self.shifted[id(e)] for e in makers if id(e) in self.shifted]
        if sums and not self._continues_sum(eqn):
            return
        if self._is_reduction(eqn):
            self.consumers.append(eqn)
            if eqn.primitive.name == "reduce_max":
                self.shifts[eqn.outvars[0]] = eqn
            if sums:
                self.shifted[id(eqn)] = sums[0]
            return
        for axis, size in enumerate(getattr(eqn.outvars[0].aval, "shape", ())):
            row = unbatched(eqn, axis, self.n) if size == self.n else None
            if row is not None and self._fits(eqn, row):
                self._take(eqn, axis, row)
                if sums:
                    self.shifted[id(eqn)] = sums[0]
                return

    def _take(self, eqn: JaxprEqn, axis: int, row: Unbatched) -> None:
        self.unbatched[id(eqn)] = row
        self.row_axes.update(dict.fromkeys(self._results(eqn), axis))
        self.consumers.append(eqn)

    def _results(self, eqn: JaxprEqn) -> list[Any]:
        """Return the results of an equation that are read."""
        return [v for v in eqn.outvars if v in self.readers]

    def _fits(self, eqn: JaxprEqn, row: Unbatched) -> bool:
        """Return whether operands have their rows where an equation needs them."""
        if not self._may_reorder(eqn):
            return False
        pairs = zip(eqn.invars, row.axes, strict=True)
        return all(
            x not in self.row_axes or self.row_axes[x] == a for x, a in pairs if type(x) is Var
        )

    def _may_reorder(self, eqn: JaxprEqn) -> bool:
        """Return whether an equation may be fused: a reduction only if its order may change."""
        monoid = MONOIDS.get(eqn.primitive.name)
        if monoid is None or monoid.is_exact:
            return True
        aval: Any = eqn.outvars[0].aval
        return aval.dtype.kind in "biu" or (self.reassociate and aval.dtype.itemsize >= 4)

    def _is_reduction(self, eqn: JaxprEqn) -> bool:
        """Return whether an equation reduces over all rows, in an order that may change."""
        name = eqn.primitive.name
        aval: Any = eqn.outvars[0].aval
        if name not in MONOIDS or not self._may_reorder(eqn) or aval.dtype.kind not in "biufc":
            return False
        if name == "dot_general":
            return self._contracted_rows(eqn) is not None
        return self.row_axes[eqn.invars[0]] in eqn.params["axes"]

    def _contracted_rows(self, eqn: JaxprEqn) -> tuple[int, int] | None:
        """Return the pair of axes along which a product sums over rows, if it does."""
        if eqn.primitive.name != "dot_general":
            return None
        x, y = eqn.invars
        pairs: Any = zip(*eqn.params["dimension_numbers"][0], strict=True)
        axes = self.row_axes
        return next((p for p in pairs if (axes.get(x, p[0]), axes.get(y, p[1])) == p), None)

    # --- Sums of shifted exponentials -----------------------------------------------------

    def _take_difference(self, eqn: JaxprEqn) -> None:
        """Add an equation that subtracts a function of their maximum from rows."""
        x: Any = eqn.invars[0]
        low: Any = eqn.invars[1].aval
        maximum = self.shifts.get(eqn.invars[1])
        axes = self._shifted_axes(x, maximum) if maximum is not None and self.reassociate else None
        if maximum is None or axes is None:
            return
        top: Any = maximum.outvars[0].aval
        is_aligned = not low.shape or all(low.shape[d] == 1 for d in axes)
        if is_aligned and low.size == top.size and top.dtype.kind == "f":
            self._take(eqn, self.row_axes[x], Unbatched([self.row_axes[x], None], eqn.params))
            self.shifted[id(eqn)] = ShiftedExponentials(maximum, eqn, axes)

    def _shifted_axes(self, x: Any, maximum: JaxprEqn) -> Sequence[int] | None:
        """Return the axes of ``x`` over which a maximum of it, or of it transposed, was taken."""
        (source,), axes = maximum.invars, maximum.params["axes"]
        if x is source:
            return sorted(axes)
        made = self.made.get(x)
        if made is None or made.primitive.name != "transpose" or made.invars[0] is not source:
            return None
        order = made.params["permutation"]
        kept = [d for d in order if d not in axes]
        return [i for i, d in enumerate(order) if d in axes] if kept == sorted(kept) else None

    def _continues_sum(self, eqn: JaxprEqn) -> bool:
        name, (before, *_) = eqn.primitive.name, eqn.invars
        made = self.made[before]
        if made.primitive.name == "sub":
            return name == "exp"
        return name == "reduce_sum" and sorted(eqn.params["axes"]) == self.shifted[id(made)].axes

    # --- Equations that may not be fused --------------------------------------------------

    def _drop_unfusible(self) -> None:
        """Drop equations with results that are read elsewhere, until nothing changes."""
        before = -1
        while before != len(self.consumers):
            before = len(self.consumers)
            self.inside = {id(e): e for e in self.consumers}
            self.freed = [v for v in self.stacked if self._is_internal(v)]
            touched: set[Any] = set(self.freed)
            for e in self.consumers:
                if not touched.isdisjoint(x for x in e.invars if type(x) is Var):
                    touched.update(e.outvars)
            ends = {id(e) for e in self.reductions if touched.isdisjoint(e.outvars)}
            self.consumers = [e for e in self.consumers if id(e) not in ends and self._may_stay(e)]
        if self._bytes(v for e in self.reductions for v in e.outvars) >= self._bytes(self.freed):
            self.inside, self.consumers, self.freed = {}, [], []

    def _bytes(self, variables: Iterable[Any]) -> float:
        return sum(_jax.nbytes(v.aval) for v in variables)

    def _is_internal(self, v: Any) -> bool:
        """Return whether only the cluster reads a variable."""
        readers = self.readers.get(v)
        return readers is not None and all(e is not None and id(e) in self.inside for e in readers)

    def _may_stay(self, eqn: JaxprEqn) -> bool:
        if id(eqn) in self.shifted and id(self.shifted[id(eqn)].maximum) not in self.inside:
            return False
        for x in eqn.invars:
            is_rows = type(x) is Var and x in self.row_axes and x in self.made
            if is_rows and id(self.made[x]) not in self.inside:
                return False
        return id(eqn) not in self.unbatched or all(map(self._is_internal, self._results(eqn)))

    # --- Before the loop ------------------------------------------------------------------

    def axes(self, eqn: JaxprEqn) -> Sequence[int | None]:
        """Return the axis of the rows for each operand of a fused equation, or None."""
        if id(eqn) in self.unbatched:
            return self.unbatched[id(eqn)].axes
        return self._contracted_rows(eqn) or [self.row_axes[eqn.invars[0]]]

    def _take_producers(self) -> None:
        """Add the equations that compute rows for the cluster only."""
        self.wanted: dict[Any, set[int | None]] = {}
        for x in self.given.rows.values():
            self._want(x, 0)
        others = (*self.given.constants.values(), *self.given.carries.values())
        fixed = {x for x in others if type(x) is Var}
        for e in self.consumers:
            for x, axis in zip(e.invars, self.axes(e), strict=True):
                self._want(x, axis)
        self.inside[id(self.loop)] = self.loop
        for e in reversed(self.equations):
            made = self._results(e)
            axes = set[int | None]().union(*(self.wanted.get(v, {None}) for v in made))
            if not self.dependent.isdisjoint(made) or not fixed.isdisjoint(made):
                continue
            if len(axes) != 1 or id(e) in self.refused:
                continue
            (axis,) = axes
            if axis is None or not all(map(self._is_internal, made)) or not self._may_reorder(e):
                continue
            row = unbatched(e, axis, self.n)
            if row is None:
                continue
            self.inside[id(e)], self.unbatched[id(e)] = e, row
            self.row_axes.update(dict.fromkeys(made, axis))
            self.producers.append(e)
            for x, a in zip(e.invars, row.axes, strict=True):
                self._want(x, a)
        self.producers.reverse()
        made = {v for e in self.producers for v in e.outvars}
        self.operands = {
            x: axes for x, axes in self.wanted.items() if x not in made and x not in self.dependent
        }

    def _want(self, x: Any, axis: int | None) -> None:
        if type(x) is Var:
            self.wanted.setdefault(x, set()).add(axis)

    def split_program(self) -> tuple[list[JaxprEqn], list[JaxprEqn]]:
        """Return the equations of the program before and after the fused loop."""
        moved, _ = whole_equations(self.after_loop, self.operands)
        early = {id(e) for e in moved}
        ahead = self.equations[: len(self.equations) - len(self.after_loop) - 1]
        ends = {id(e) for e in self.reductions if id(e) not in self.shifted}
        rest = [e for e in self.after_loop if id(e) not in early and id(e) not in ends]
        return [*ahead, *moved], rest

    def _misplaced(self) -> set[int]:
        """Return equations that would need a transpose, or would be moved in vain."""
        wrong: set[int] = set()
        idle = {id(e) for e in self.producers if e.primitive.name in _LAYOUT_PRIMITIVES}
        for e in self.inside.values():
            if e is self.loop:
                continue
            for x, axis in zip(e.invars, self.axes(e), strict=True):
                if type(x) is not Var or x not in self.operands or axis is None:
                    continue
                if axis != 0 or (id(e) in idle and self.row_axes[e.outvars[0]] == 0):
                    wrong.add(id(e))
        return wrong


# --- The pass -------------------------------------------------------------------------------------


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
    sums : dict of Var to Var
        The sums of exponentials, with those from which only the maximum is subtracted.
    """

    def __init__(self, cluster: FusionCluster, loop: Loop) -> None:
        self.cluster, self.loop = cluster, loop
        self.b = b = Builder()
        self.results = [e.outvars[0] for e in cluster.reductions]
        self.sums = {
            e.outvars[0]: Var(e.outvars[0].aval)
            for e in cluster.reductions
            if id(e) in cluster.shifted
        }
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
        eqn = self.cluster.loop
        ahead, behind = self.cluster.split_program()
        b = Builder.in_place_of(eqn)
        out = self._fused([self._identity(b, e) for e in self.cluster.reductions]).emit(b)
        ends, sums, stacked = parts(out, len(self.loop.carries), len(self.results))
        pairs = zip(self.cluster.reductions, sums, strict=True)
        results = [*ends, *stacked, *(self._final(b, e, x) for e, x in pairs)]
        named = [*eqn.outvars, *(self.sums.get(v, v) for v in self.results)]
        after = [x for e in behind for x in self._shifted_back(e)]
        return [*ahead, *bound_to(b, results, named), *after]

    def _partial(self, eqn: JaxprEqn) -> tuple[Any, Any] | None:
        """Return the result and the carry type of a reduction that also reduces axes of rows.

        The carry keeps these axes, and they are reduced after the loop. XLA would write every row
        to memory before it reduced the row, whereas it updates a carry in place.
        """
        maxima = [found.maximum for found in self.cluster.shifted.values()]
        is_whole = id(eqn) in self.cluster.shifted or any(e is eqn for e in maxima)
        if len(eqn.params.get("axes", ())) < 2 or is_whole:
            return None
        x: Any = eqn.invars[0]
        axis, aval = self.cluster.row_axes[x], x.aval
        shape = (*aval.shape[:axis], 1, *aval.shape[axis + 1 :])
        return eqn.outvars[0], aval.update(shape=shape)

    def _identity(self, b: Builder, eqn: JaxprEqn) -> Atom:
        """Emit the result of a reduction over no rows."""
        (v,) = eqn.outvars
        aval: Any = self.partial.get(v, v.aval)
        identity = MONOIDS[eqn.primitive.name].identity(aval.dtype)
        return lax.full(b, identity, aval.shape, aval.dtype)

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
        for e in cluster.consumers:
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

    # Let m be the maximum so far, or 0 where that is infinite or NaN. The carry is the sum of
    # exp(x - m) so far, which is zero while all rows are minus infinity. The sum of exp(x - shift)
    # is exp(m - shift) times that. It does not depend on m, and neither do derivatives.

    def _finite(self, b: Builder, top: Atom) -> Atom:
        """Emit the finite number that is subtracted for a maximum."""

        def emit() -> Atom:
            zero = lax.full(b, 0, top.aval.shape, top.aval.dtype)
            return lax.stop_gradient(b, lax.select_n(b, lax.is_finite(b, top), zero, top))

        return b.memoized(("finite", top), emit)

    def _exponent(self, b: Builder, found: ShiftedExponentials) -> Atom:
        """Emit the difference of a row and the maximum so far."""
        row: Any = self.blocks[found.difference.invars[0]]
        top = self._finite(b, self.after[found.maximum.outvars[0]])
        kept = [d for d in range(len(row.aval.shape)) if d not in found.axes]
        return lax.sub(b, row, lax.broadcast_in_dim(b, top, row.aval.shape, kept))

    def _rescaling(self, b: Builder, found: ShiftedExponentials) -> Atom:
        """Emit the factor by which the sum so far shrinks when the maximum grows."""
        (v,) = found.maximum.outvars
        top = self.before[v]
        none = lax.full(b, -np.inf, top.aval.shape, top.aval.dtype)
        change = lax.sub(b, self._finite(b, top), self._finite(b, self.after[v]))
        return lax.exp(b, lax.select_n(b, lax.eq(b, top, none), change, none))

    def _final(self, b: Builder, eqn: JaxprEqn, result: Atom) -> Atom:
        """Emit the result of a reduction from its final carry."""
        if eqn.outvars[0] in self.partial:
            return b.bind_multiple(eqn.primitive, [result], eqn.params)[0]
        return result

    def _shifted_back(self, eqn: JaxprEqn) -> list[JaxprEqn]:
        """Return the equations that multiply a sum of exponentials, or another equation itself."""
        found = self.cluster.shifted.get(id(eqn))
        if found is None or eqn.outvars[0] not in self.sums:
            return [eqn]
        b, v = Builder.in_place_of(eqn), eqn.outvars[0]
        top: Any = found.maximum.outvars[0]
        shift: Any = found.difference.invars[1]
        if shift.aval.shape != top.aval.shape:
            shift = lax.reshape(b, shift, top.aval.shape)
        factor = lax.exp(b, lax.sub(b, self._finite(b, top), shift))
        return bound_to(b, [lax.mul(b, self.sums[v], factor)], [v])


def _block(b: Builder, row: Atom) -> Atom:
    """Return a row as an array of one row."""
    return lax.reshape(b, row, (1, *row.aval.shape))
