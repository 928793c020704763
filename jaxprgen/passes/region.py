"""What around a loop its body may do, row by row: the region that is fused with it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from jaxprgen import _jax
from jaxprgen._jax import JaxprEqn, Var
from jaxprgen.ir import primitives as lax
from jaxprgen.ir.liveness import live_equations
from jaxprgen.passes.rows import Row, one_row


class Monoid(NamedTuple):
    """What puts together what rows contribute, and what nothing contributes, by the dtype."""

    combine: Callable[..., Var]
    identity: Callable[[Any], Any]
    is_exact: bool


def _bound(dtype: Any, sign: int) -> Any:
    """The largest value of a dtype, or the smallest."""
    if dtype.kind == "b":
        return sign > 0
    if dtype.kind == "f":
        return sign * np.inf
    return np.iinfo(dtype).max if sign > 0 else np.iinfo(dtype).min


_SUM = Monoid(lax.add, lambda dtype: 0, False)
MONOIDS = {
    "reduce_sum": _SUM,
    "dot_general": _SUM,
    "reduce_prod": Monoid(lax.mul, lambda dtype: 1, False),
    "reduce_max": Monoid(lax.max, lambda dtype: _bound(dtype, -1), True),
    "reduce_min": Monoid(lax.min, lambda dtype: _bound(dtype, 1), True),
    "reduce_and": Monoid(lax.bitwise_and, lambda dtype: ~dtype.type(0), True),
    "reduce_or": Monoid(lax.bitwise_or, lambda dtype: dtype.type(0), True),
}
"""By the primitive that reduces over rows."""

_LAYOUT = {"reshape", "squeeze", "transpose", "copy"}
_SHADING = {
    *(lax.ELEMENTWISE - {"bitcast_convert_type"}),
    *("select_n", "clamp", "stop_gradient", "broadcast_in_dim", "reshape", "squeeze"),
}


class Softened(NamedTuple):
    """The exponentials of rows, less something that follows from their maximum, as a sum.

    ``largest`` is the equation of the maximum, ``less`` that of the difference, ``axes`` are those
    over which the latter's exponentials are summed.
    """

    largest: JaxprEqn
    less: JaxprEqn
    axes: Sequence[int]


class Region:
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
    softened
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
        self.behind = equations[position + 1 :]
        self.readers: dict[Any, list[Any]] = {}
        for e in equations:
            for x in e.invars:
                self.readers.setdefault(x, []).append(e) if type(x) is Var else None
        for x in outputs:
            self.readers.setdefault(x, []).append(None) if type(x) is Var else None
        constants, carries = _jax.scan_counts(self.loop)
        self.first = constants + carries
        self.stacked = [v for v in self.loop.outvars[carries:] if type(v) is Var]
        refused: set[int] = set()
        while not self._found(refused):
            pass

    @property
    def is_worth_it(self) -> bool:
        """Whether an array of all rows goes."""
        return bool(self.freed or self.produced)

    def _found(self, refused: set[int]) -> bool:
        """Find the region without equations that are refused, to which it may add."""
        self.refused = refused
        self.rows: dict[Any, int] = dict.fromkeys(self.stacked, 0)
        self.plans: dict[int, Row] = {}
        self.softened: dict[int, Softened] = {}
        self.ends: list[JaxprEqn] = []
        self.consumed: list[JaxprEqn] = []
        self.produced: list[JaxprEqn] = []
        self.dependent: set[Any] = set(self.loop.outvars)
        self.shades: dict[Any, JaxprEqn] = {}
        self.made: dict[Any, JaxprEqn] = {}
        for e in self.behind:
            self._consider(e)
        self.inside = {id(e): e for e in [*self.consumed, *self.ends]}
        self._settle()
        self._fetch()
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
        if not any(x in self.rows for x in read):
            self._shade(eqn, read)
        elif all(x in self.rows for x in read):
            self._follow(eqn)
        elif eqn.primitive.name == "sub":
            self._soften(eqn)

    def _follow(self, eqn: JaxprEqn) -> None:
        makers = [self.made.get(x) for x in eqn.invars if type(x) is Var]
        soft = [self.softened[id(e)] for e in makers if id(e) in self.softened]
        if soft and not self._stays_soft(eqn):
            return
        if self._is_end(eqn):
            self.ends.append(eqn)
            if soft:
                self.softened[id(eqn)] = soft[0]
            return
        for axis, size in enumerate(getattr(eqn.outvars[0].aval, "shape", ())):
            row = one_row(eqn, axis, self.n) if size == self.n else None
            if row is not None and self._agrees(eqn, row):
                self._take(eqn, axis, row)
                if soft:
                    self.softened[id(eqn)] = soft[0]
                return

    def _take(self, eqn: JaxprEqn, axis: int, row: Row) -> None:
        self.plans[id(eqn)] = row
        self.rows.update(dict.fromkeys(self._results(eqn), axis))
        self.consumed.append(eqn)

    def _results(self, eqn: JaxprEqn) -> list[Any]:
        """What an equation gives that is read."""
        return [v for v in eqn.outvars if v in self.readers]

    def _agrees(self, eqn: JaxprEqn, row: Row) -> bool:
        """Whether rows that are known lie where an equation has them, and its rounding is free."""
        if not self._is_free(eqn):
            return False
        pairs = zip(eqn.invars, row.axes, strict=True)
        return all(x not in self.rows or self.rows[x] == a for x, a in pairs if type(x) is Var)

    def _is_free(self, eqn: JaxprEqn) -> bool:
        """Whether a reduction may be done in another order."""
        monoid = MONOIDS.get(eqn.primitive.name)
        if monoid is None or monoid.is_exact:
            return True
        aval: Any = eqn.outvars[0].aval
        return aval.dtype.kind in "biu" or (self.reassociate and aval.dtype.itemsize >= 4)

    def _is_end(self, eqn: JaxprEqn) -> bool:
        """Whether an equation reduces over all rows, and may in another order."""
        name = eqn.primitive.name
        aval: Any = eqn.outvars[0].aval
        if name not in MONOIDS or not self._is_free(eqn) or aval.dtype.kind not in "biufc":
            return False
        if name != "dot_general":
            return self.rows[eqn.invars[0]] in eqn.params["axes"]
        contracted = list(zip(*eqn.params["dimension_numbers"][0], strict=True))
        places = [[pair[i] for pair in contracted] for i in range(2)]
        for i, x in enumerate(eqn.invars):
            if x in self.rows:
                if self.rows[x] not in places[i]:
                    return False
                pair = contracted[places[i].index(self.rows[x])]
                other: Any = eqn.invars[1 - i]
                return self.rows.get(other, pair[1 - i]) == pair[1 - i]
        return False

    # --- Exponentials below a maximum ------------------------------------------------------

    def _shade(self, eqn: JaxprEqn, read: Sequence[Any]) -> None:
        """Note what is elementwise of a maximum of rows."""
        roots = {id(e): e for e in map(self._maximum, read)}
        (root,) = roots.values() if len(roots) == 1 else (None,)
        if root is not None and eqn.primitive.name in _SHADING:
            self.shades[eqn.outvars[0]] = root

    def _maximum(self, x: Any) -> JaxprEqn | None:
        """The equation of the maximum of rows that a variable is, or follows from."""
        eqn = self.shades.get(x) or self.made.get(x)
        is_end = any(eqn is e for e in self.ends)
        return eqn if eqn is not None and is_end and eqn.primitive.name == "reduce_max" else None

    def _soften(self, eqn: JaxprEqn) -> None:
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
            self._take(eqn, self.rows[x], Row([self.rows[x], None], eqn.params))
            self.softened[id(eqn)] = Softened(largest, eqn, axes)

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

    def shading(self, found: Softened) -> list[JaxprEqn]:
        """The equations from a maximum to what is taken from rows."""
        given = set(found.largest.outvars)
        shades = [e for e in self.behind if e.outvars and e.outvars[0] in self.shades]
        own = [e for e in shades if self.shades[e.outvars[0]] is found.largest]
        wanted = live_equations(own, [found.less.invars[1]])[0]
        return [e for e in wanted if given.isdisjoint(e.outvars)]

    def _stays_soft(self, eqn: JaxprEqn) -> bool:
        name, (before, *_) = eqn.primitive.name, eqn.invars
        made = self.made[before]
        if made.primitive.name == "sub":
            return name == "exp"
        return name == "reduce_sum" and sorted(eqn.params["axes"]) == self.softened[id(made)].axes

    # --- What may stay -------------------------------------------------------------------

    def _settle(self) -> None:
        """Leave out what does not lead to reductions alone, until nothing changes."""
        while True:
            self.freed = [v for v in self.stacked if self._is_inner(v)]
            touched: set[Any] = set(self.freed)
            for e in [*self.consumed, *self.ends]:
                if not touched.isdisjoint(x for x in e.invars if type(x) is Var):
                    touched.update(e.outvars)
            ends = {id(e) for e in self.ends if touched.isdisjoint(e.outvars)}
            kept = {i: e for i, e in self.inside.items() if i not in ends and self._stays(e)}
            is_settled = len(kept) == len(self.inside)
            self.inside = kept
            self.consumed = [e for e in self.consumed if id(e) in kept]
            self.ends = [e for e in self.ends if id(e) in kept]
            if is_settled:
                break
        if self._bytes(v for e in self.ends for v in e.outvars) >= self._bytes(self.freed):
            self.inside, self.consumed, self.ends, self.freed = {}, [], [], []

    def _bytes(self, variables: Iterable[Any]) -> int:
        return sum(_jax.nbytes(v.aval) for v in variables)

    def _is_inner(self, v: Any) -> bool:
        """Whether nothing but the region reads a variable."""
        readers = self.readers.get(v)
        return readers is not None and all(e is not None and id(e) in self.inside for e in readers)

    def _stays(self, eqn: JaxprEqn) -> bool:
        if id(eqn) in self.softened and id(self.softened[id(eqn)].largest) not in self.inside:
            return False
        for x in eqn.invars:
            is_rows = type(x) is Var and x in self.rows and x in self.made
            if is_rows and id(self.made[x]) not in self.inside:
                return False
        return id(eqn) not in self.plans or all(map(self._is_inner, self._results(eqn)))

    # --- Before the loop -----------------------------------------------------------------

    def axes(self, eqn: JaxprEqn) -> Sequence[int | None]:
        """Along which axes the operands of an equation inside have the rows."""
        if id(eqn) in self.plans:
            return self.plans[id(eqn)].axes
        if eqn.primitive.name != "dot_general":
            return [self.rows[eqn.invars[0]]]
        pairs = zip(*eqn.params["dimension_numbers"][0], strict=True)
        x, y = eqn.invars
        return next(
            p for p in pairs if self.rows.get(x, p[0]) == p[0] and self.rows.get(y, p[1]) == p[1]
        )

    def _fetch(self) -> None:
        """Take in what gives the region and the loop their rows, and nobody else."""
        self.wanted: dict[Any, set[int | None]] = {}
        for x in self.loop.invars[self.first :]:
            self._want(x, 0)
        fixed = {x for x in self.loop.invars[: self.first] if type(x) is Var}
        for e in [*self.consumed, *self.ends]:
            for x, axis in zip(e.invars, self.axes(e), strict=True):
                self._want(x, axis)
            found = self.softened.get(id(e))
            for x in [x for s in self.shading(found) for x in s.invars] if found else ():
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
            if axis is None or not all(map(self._is_inner, made)) or not self._is_free(e):
                continue
            row = one_row(e, axis, self.n)
            if row is None:
                continue
            self.inside[id(e)], self.plans[id(e)] = e, row
            self.rows.update(dict.fromkeys(made, axis))
            self.produced.append(e)
            for x, a in zip(e.invars, row.axes, strict=True):
                self._want(x, a)
        self.produced.reverse()
        made = {v for e in self.produced for v in e.outvars}
        self.outside = {
            x: axes for x, axes in self.wanted.items() if x not in made and x not in self.dependent
        }

    def _want(self, x: Any, axis: int | None) -> None:
        if type(x) is Var:
            self.wanted.setdefault(x, set()).add(axis)

    def steps(self) -> list[JaxprEqn]:
        """The equations of the region behind the loop, in order."""
        moved = {id(e) for e in self.produced}
        return [e for e in self.behind if id(e) in self.inside and id(e) not in moved]

    def parted(self) -> tuple[list[JaxprEqn], list[JaxprEqn]]:
        """The program's other equations, those in front of which the loop can stand apart."""
        needed = set(self.outside)
        moved: list[JaxprEqn] = []
        for e in reversed(self.behind):
            if not needed.isdisjoint(e.outvars):
                needed.update(x for x in e.invars if type(x) is Var)
                moved.append(e)
        early = {id(e) for e in moved}
        ahead = self.equations[: len(self.equations) - len(self.behind) - 1]
        ends = {id(e) for e in self.ends}
        rest = [e for e in self.behind if id(e) not in early and id(e) not in ends]
        return [*ahead, *reversed(moved)], rest

    def _misplaced(self) -> set[int]:
        """Equations whose rows do not lie along the first axis, or that are moved for nothing."""
        wrong: set[int] = set()
        idle = {id(e) for e in self.produced if e.primitive.name in _LAYOUT}
        for e in self.inside.values():
            if e is self.loop:
                continue
            for x, axis in zip(e.invars, self.axes(e), strict=True):
                if type(x) is not Var or x not in self.outside or axis is None:
                    continue
                if axis != 0 or (id(e) in idle and self.rows[e.outvars[0]] == 0):
                    wrong.add(id(e))
        return wrong
