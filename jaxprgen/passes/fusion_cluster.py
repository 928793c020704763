"""What around a loop its body may do, row by row: the region that is fused with it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from jaxprgen import _jax
from jaxprgen._jax import JaxprEqn, Var
from jaxprgen.ir import primitives as lax
from jaxprgen.ir.liveness import live_equations
from jaxprgen.passes.unbatching import MONOIDS, Unbatched, unbatched

_LAYOUT_PRIMITIVES = {"reshape", "squeeze", "transpose", "copy"}
_SHIFT_PRIMITIVES = {
    *(lax.ELEMENTWISE - {"bitcast_convert_type"}),
    *("select_n", "clamp", "stop_gradient", "broadcast_in_dim", "reshape", "squeeze"),
}


class ShiftedExponentials(NamedTuple):
    """The exponentials of rows, less something that follows from their maximum, as a sum.

    ``largest`` is the equation of the maximum, ``less`` that of the difference, ``axes`` are those
    over which the latter's exponentials are summed.
    """

    maximum: JaxprEqn
    difference: JaxprEqn
    axes: Sequence[int]


class FusionCluster:
    """The equations that a loop can do for each row, found by their order in a program.

    Behind the loop they lead from what it stacks to reductions over all rows; none may be read
    otherwise. Before it they lead to its sequences and to what else the region reads.

    Attributes
    ----------
    rows
        The variables that are rows in the region, and the axis along which all of them lie.
    plans
        How an equation inside does its work for one row, by its identity.
    ends
        The reductions, in order.
    shifted
        Of those that are sums of exponentials below a maximum: how.
    produced
        The equations before the loop that move into it, in order.
    consumed
        Those behind it, in order, but for the reductions.
    """

    def __init__(
        self,
        equations: Sequence[JaxprEqn],
        outputs: Sequence[Any],
        position: int,
        reassociate: bool,
    ) -> None:
        self.loop: Any = equations[position]
        self.n: int = self.loop.params["length"]
        self.reassociate = reassociate
        self.equations = equations
        self.after_loop = equations[position + 1 :]
        self.readers: dict[Any, list[Any]] = {}
        for e in equations:
            for x in e.invars:
                self.readers.setdefault(x, []).append(e) if type(x) is Var else None
        for x in outputs:
            self.readers.setdefault(x, []).append(None) if type(x) is Var else None
        constants, carries = _jax.scan_counts(self.loop)
        self.first_sequence = constants + carries
        self.stacked = [v for v in self.loop.outvars[carries:] if type(v) is Var]
        refused: set[int] = set()
        while not self._collect(refused):
            pass

    @property
    def is_profitable(self) -> bool:
        """Whether an array of all rows goes."""
        return bool(self.freed or self.producers)

    def _collect(self, refused: set[int]) -> bool:
        """Find the region without equations that are refused, to which it may add."""
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

    # --- Behind the loop -----------------------------------------------------------------

    def _consider(self, eqn: JaxprEqn) -> None:
        """Take an equation behind the loop in, if rows of it or a reduction of them are known."""
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
        soft = [self.shifted[id(e)] for e in makers if id(e) in self.shifted]
        if soft and not self._continues_sum(eqn):
            return
        if self._is_reduction(eqn):
            self.reductions.append(eqn)
            if soft:
                self.shifted[id(eqn)] = soft[0]
            return
        for axis, size in enumerate(getattr(eqn.outvars[0].aval, "shape", ())):
            row = unbatched(eqn, axis, self.n) if size == self.n else None
            if row is not None and self._fits(eqn, row):
                self._take(eqn, axis, row)
                if soft:
                    self.shifted[id(eqn)] = soft[0]
                return

    def _take(self, eqn: JaxprEqn, axis: int, row: Unbatched) -> None:
        self.unbatched[id(eqn)] = row
        self.row_axes.update(dict.fromkeys(self._results(eqn), axis))
        self.consumers.append(eqn)

    def _results(self, eqn: JaxprEqn) -> list[Any]:
        """What an equation gives that is read."""
        return [v for v in eqn.outvars if v in self.readers]

    def _fits(self, eqn: JaxprEqn, row: Unbatched) -> bool:
        """Whether rows that are known lie where an equation has them, and its rounding is free."""
        if not self._may_reorder(eqn):
            return False
        pairs = zip(eqn.invars, row.axes, strict=True)
        return all(
            x not in self.row_axes or self.row_axes[x] == a for x, a in pairs if type(x) is Var
        )

    def _may_reorder(self, eqn: JaxprEqn) -> bool:
        """Whether a reduction may be done in another order."""
        monoid = MONOIDS.get(eqn.primitive.name)
        if monoid is None or monoid.is_exact:
            return True
        aval: Any = eqn.outvars[0].aval
        return aval.dtype.kind in "biu" or (self.reassociate and aval.dtype.itemsize >= 4)

    def _is_reduction(self, eqn: JaxprEqn) -> bool:
        """Whether an equation reduces over all rows, and may in another order."""
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

    # --- Exponentials below a maximum ------------------------------------------------------

    def _note_shift(self, eqn: JaxprEqn, read: Sequence[Any]) -> None:
        """Note what is elementwise of a maximum of rows."""
        roots = {id(e): e for e in map(self._maximum, read)}
        (root,) = roots.values() if len(roots) == 1 else (None,)
        if root is not None and eqn.primitive.name in _SHIFT_PRIMITIVES:
            self.shifts[eqn.outvars[0]] = root

    def _maximum(self, x: Any) -> JaxprEqn | None:
        """The equation of the maximum of rows that a variable is, or follows from."""
        eqn = self.shifts.get(x) or self.made.get(x)
        is_end = any(eqn is e for e in self.reductions)
        return eqn if eqn is not None and is_end and eqn.primitive.name == "reduce_max" else None

    def _take_difference(self, eqn: JaxprEqn) -> None:
        """Take the difference of rows and what follows from their maximum in."""
        x, shade = eqn.invars
        largest = self._maximum(shade)
        axes = self._axes_below(x, largest) if largest is not None and self.reassociate else None
        if largest is None or axes is None:
            return
        low: Any = shade.aval
        top: Any = largest.outvars[0].aval
        is_aligned = not low.shape or all(low.shape[d] == 1 for d in axes)
        if is_aligned and low.size == top.size and top.dtype.kind == "f":
            self._take(eqn, self.row_axes[x], Unbatched([self.row_axes[x], None], eqn.params))
            self.shifted[id(eqn)] = ShiftedExponentials(largest, eqn, axes)

    def _axes_below(self, x: Any, largest: JaxprEqn) -> Sequence[int] | None:
        """The axes of rows over which a maximum of these was taken, or of these transposed."""
        (source,), axes = largest.invars, largest.params["axes"]
        if x is source:
            return sorted(axes)
        made = self.made.get(x)
        if made is None or made.primitive.name != "transpose" or made.invars[0] is not source:
            return None
        order = made.params["permutation"]
        kept = [d for d in order if d not in axes]
        return [i for i, d in enumerate(order) if d in axes] if kept == sorted(kept) else None

    def shift_equations(self, found: ShiftedExponentials) -> list[JaxprEqn]:
        """The equations from a maximum to what is taken from rows."""
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

    # --- What may stay -------------------------------------------------------------------

    def _drop_unfusible(self) -> None:
        """Leave out what does not lead to reductions alone, until nothing changes."""
        while True:
            self.freed = [v for v in self.stacked if self._is_inner(v)]
            touched: set[Any] = set(self.freed)
            for e in [*self.consumers, *self.reductions]:
                if not touched.isdisjoint(x for x in e.invars if type(x) is Var):
                    touched.update(e.outvars)
            ends = {id(e) for e in self.reductions if touched.isdisjoint(e.outvars)}
            kept = {i: e for i, e in self.inside.items() if i not in ends and self._stays(e)}
            is_settled = len(kept) == len(self.inside)
            self.inside = kept
            self.consumers = [e for e in self.consumers if id(e) in kept]
            self.reductions = [e for e in self.reductions if id(e) in kept]
            if is_settled:
                break
        if self._bytes(v for e in self.reductions for v in e.outvars) >= self._bytes(self.freed):
            self.inside, self.consumers, self.reductions, self.freed = {}, [], [], []

    def _bytes(self, variables: Iterable[Any]) -> int:
        return sum(_jax.nbytes(v.aval) for v in variables)

    def _is_inner(self, v: Any) -> bool:
        """Whether nothing but the region reads a variable."""
        readers = self.readers.get(v)
        return readers is not None and all(e is not None and id(e) in self.inside for e in readers)

    def _stays(self, eqn: JaxprEqn) -> bool:
        if id(eqn) in self.shifted and id(self.shifted[id(eqn)].maximum) not in self.inside:
            return False
        for x in eqn.invars:
            is_rows = type(x) is Var and x in self.row_axes and x in self.made
            if is_rows and id(self.made[x]) not in self.inside:
                return False
        return id(eqn) not in self.unbatched or all(map(self._is_inner, self._results(eqn)))

    # --- Before the loop -----------------------------------------------------------------

    def axes(self, eqn: JaxprEqn) -> Sequence[int | None]:
        """Along which axes the operands of an equation inside have the rows."""
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
        """Take in what gives the region and the loop their rows, and nobody else."""
        self.wanted: dict[Any, set[int | None]] = {}
        for x in self.loop.invars[self.first_sequence :]:
            self._want(x, 0)
        fixed = {x for x in self.loop.invars[: self.first_sequence] if type(x) is Var}
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
            if axis is None or not all(map(self._is_inner, made)) or not self._may_reorder(e):
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
        """The equations of the region behind the loop, in order."""
        moved = {id(e) for e in self.producers}
        return [e for e in self.after_loop if id(e) in self.inside and id(e) not in moved]

    def split_program(self) -> tuple[list[JaxprEqn], list[JaxprEqn]]:
        """The program's other equations, those in front of which the loop can stand apart."""
        needed = set(self.operands)
        moved: list[JaxprEqn] = []
        for e in reversed(self.after_loop):
            if not needed.isdisjoint(e.outvars):
                needed.update(x for x in e.invars if type(x) is Var)
                moved.append(e)
        early = {id(e) for e in moved}
        ahead = self.equations[: len(self.equations) - len(self.after_loop) - 1]
        ends = {id(e) for e in self.reductions}
        rest = [e for e in self.after_loop if id(e) not in early and id(e) not in ends]
        return [*ahead, *reversed(moved)], rest

    def _misplaced(self) -> set[int]:
        """Equations whose rows do not lie along the first axis, or that are moved for nothing."""
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
