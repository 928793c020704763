"""Fusion analysis: find the equations around a ``scan`` that its body can compute row by row.

Loop fusion has two directions. Producers compute the sequences of the loop; consumers lead from its
stacked results to reductions over all rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from jaxprgen import _jax
from jaxprgen._jax import JaxprEqn, Var
from jaxprgen.ir import primitives as lax
from jaxprgen.ir.liveness import live_equations, readers_of, whole_equations
from jaxprgen.ir.loops import Loop
from jaxprgen.passes.unbatching import MONOIDS, Unbatched, unbatched

_LAYOUT_PRIMITIVES = {"reshape", "squeeze", "transpose", "copy"}
_SHIFT_PRIMITIVES = {
    *(lax.ELEMENTWISE - {"bitcast_convert_type"}),
    *("select_n", "clamp", "stop_gradient", "broadcast_in_dim", "reshape", "squeeze"),
}


class ShiftedExponentials(NamedTuple):
    """A sum of exponentials of rows, from which a function of their maximum is subtracted first.

    This is the pattern of log-sum-exp, in which the function is the maximum where it is finite. The
    subtracted value is called the shift.

    Attributes
    ----------
    maximum : JaxprEqn
        The equation of the maximum.
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
    reductions : list of JaxprEqn
        The reductions over all rows, in order.
    shifted : dict of int to ShiftedExponentials
        The sums of exponentials, by the identity of each equation that belongs to one.
    producers : list of JaxprEqn
        The fused equations before the loop, in order.
    consumers : list of JaxprEqn
        The fused equations after the loop, in order, except for the reductions.
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
    def is_profitable(self) -> bool:
        """Whether an array of all rows is no longer needed."""
        return bool(self.freed or self.producers)

    def _collect(self, refused: set[int]) -> bool:
        """Collect the cluster without refused equations; return whether no more were refused."""
        self.refused = refused
        self.row_axes: dict[Any, int] = dict.fromkeys(self.stacked, 0)
        self.unbatched: dict[int, Unbatched] = {}
        self.shifted: dict[int, ShiftedExponentials] = {}
        self.reductions: list[JaxprEqn] = []
        self.consumers: list[JaxprEqn] = []
        self.producers: list[JaxprEqn] = []
        self.dependent: set[Any] = set(self.loop.outvars)
        self.shifts: dict[Any, JaxprEqn] = {}
        self.made: dict[Any, JaxprEqn] = {}
        for e in self.after_loop:
            self._consider(e)
        self.inside = {id(e): e for e in [*self.consumers, *self.reductions]}
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
        if not any(x in self.row_axes for x in read):
            self._note_shift(eqn, read)
        elif all(x in self.row_axes for x in read):
            self._follow(eqn)
        elif eqn.primitive.name == "sub":
            self._take_difference(eqn)

    def _follow(self, eqn: JaxprEqn) -> None:
        makers = [self.made.get(x) for x in eqn.invars if type(x) is Var]
        sums = [self.shifted[id(e)] for e in makers if id(e) in self.shifted]
        if sums and not self._continues_sum(eqn):
            return
        if self._is_reduction(eqn):
            self.reductions.append(eqn)
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
        """Return whether an equation is no reduction, or one whose order may change."""
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
        if name != "dot_general":
            return self.row_axes[eqn.invars[0]] in eqn.params["axes"]
        contracted = list(zip(*eqn.params["dimension_numbers"][0], strict=True))
        places = [[pair[i] for pair in contracted] for i in range(2)]
        for i, x in enumerate(eqn.invars):
            if x in self.row_axes:
                if self.row_axes[x] not in places[i]:
                    return False
                pair = contracted[places[i].index(self.row_axes[x])]
                other: Any = eqn.invars[1 - i]
                return self.row_axes.get(other, pair[1 - i]) == pair[1 - i]
        return False

    # --- Sums of shifted exponentials -----------------------------------------------------

    def _note_shift(self, eqn: JaxprEqn, read: Sequence[Any]) -> None:
        """Note an elementwise function of a maximum of rows."""
        roots = {id(e): e for e in map(self._maximum, read)}
        (root,) = roots.values() if len(roots) == 1 else (None,)
        if root is not None and eqn.primitive.name in _SHIFT_PRIMITIVES:
            self.shifts[eqn.outvars[0]] = root

    def _maximum(self, x: Any) -> JaxprEqn | None:
        """Return the equation of the maximum from which a variable follows, if any."""
        eqn = self.shifts.get(x) or self.made.get(x)
        is_reduction = any(eqn is e for e in self.reductions)
        return (
            eqn if eqn is not None and is_reduction and eqn.primitive.name == "reduce_max" else None
        )

    def _take_difference(self, eqn: JaxprEqn) -> None:
        """Add an equation that subtracts a shift from rows."""
        x, shift = eqn.invars
        maximum = self._maximum(shift)
        axes = self._shifted_axes(x, maximum) if maximum is not None and self.reassociate else None
        if maximum is None or axes is None:
            return
        low: Any = shift.aval
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

    def shift_equations(self, found: ShiftedExponentials) -> list[JaxprEqn]:
        """Return the equations that compute a shift from a maximum."""
        given = set(found.maximum.outvars)
        shifts = [e for e in self.after_loop if e.outvars and e.outvars[0] in self.shifts]
        own = [e for e in shifts if self.shifts[e.outvars[0]] is found.maximum]
        wanted = live_equations(own, [found.difference.invars[1]])[0]
        return [e for e in wanted if given.isdisjoint(e.outvars)]

    def _continues_sum(self, eqn: JaxprEqn) -> bool:
        name, (before, *_) = eqn.primitive.name, eqn.invars
        made = self.made[before]
        if made.primitive.name == "sub":
            return name == "exp"
        return name == "reduce_sum" and sorted(eqn.params["axes"]) == self.shifted[id(made)].axes

    # --- Equations that may not be fused --------------------------------------------------

    def _drop_unfusible(self) -> None:
        """Drop equations with results that are read elsewhere, until nothing changes."""
        while True:
            self.freed = [v for v in self.stacked if self._is_internal(v)]
            touched: set[Any] = set(self.freed)
            for e in [*self.consumers, *self.reductions]:
                if not touched.isdisjoint(x for x in e.invars if type(x) is Var):
                    touched.update(e.outvars)
            ends = {id(e) for e in self.reductions if touched.isdisjoint(e.outvars)}
            kept = {i: e for i, e in self.inside.items() if i not in ends and self._may_stay(e)}
            is_settled = len(kept) == len(self.inside)
            self.inside = kept
            self.consumers = [e for e in self.consumers if id(e) in kept]
            self.reductions = [e for e in self.reductions if id(e) in kept]
            if is_settled:
                break
        if self._bytes(v for e in self.reductions for v in e.outvars) >= self._bytes(self.freed):
            self.inside, self.consumers, self.reductions, self.freed = {}, [], [], []

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
        if eqn.primitive.name != "dot_general":
            return [self.row_axes[eqn.invars[0]]]
        pairs = zip(*eqn.params["dimension_numbers"][0], strict=True)
        x, y = eqn.invars
        return next(
            p
            for p in pairs
            if self.row_axes.get(x, p[0]) == p[0] and self.row_axes.get(y, p[1]) == p[1]
        )

    def _take_producers(self) -> None:
        """Add the equations that compute rows for the cluster only."""
        self.wanted: dict[Any, set[int | None]] = {}
        for x in self.given.rows.values():
            self._want(x, 0)
        others = (*self.given.constants.values(), *self.given.carries.values())
        fixed = {x for x in others if type(x) is Var}
        for e in [*self.consumers, *self.reductions]:
            for x, axis in zip(e.invars, self.axes(e), strict=True):
                self._want(x, axis)
            found = self.shifted.get(id(e))
            for x in [x for s in self.shift_equations(found) for x in s.invars] if found else ():
                self._want(x, None)
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

    def consumers_in_order(self) -> list[JaxprEqn]:
        """Return the consumers and reductions in the order of the program."""
        moved = {id(e) for e in self.producers}
        return [e for e in self.after_loop if id(e) in self.inside and id(e) not in moved]

    def split_program(self) -> tuple[list[JaxprEqn], list[JaxprEqn]]:
        """Return the equations of the program before and after the fused loop."""
        moved, _ = whole_equations(self.after_loop, self.operands)
        early = {id(e) for e in moved}
        ahead = self.equations[: len(self.equations) - len(self.after_loop) - 1]
        ends = {id(e) for e in self.reductions}
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
