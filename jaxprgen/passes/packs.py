"""Packs: values of alike variables, side by side along a first axis."""

from __future__ import annotations

import itertools
from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from jaxprgen import _jax
from jaxprgen._jax import Var, identity
from jaxprgen.ir import Atom, Builder
from jaxprgen.ir import primitives as lax
from jaxprgen.ir.redundancy import literal_key
from jaxprgen.passes.batching import MaybeBatched, with_batch_axis
from jaxprgen.passes.inlining import as_weak_as


class Packs:
    """The packs of a program, and how values are read from them.

    Parameters
    ----------
    b : Builder
        The builder of the program.
    constants : mapping of Var to array
        The constants of the program whose values can be read.
    """

    def __init__(self, b: Builder, constants: Mapping[Any, Any]) -> None:
        self.b = b
        self._constants = constants
        self._lanes: dict[Any, tuple[MaybeBatched, int]] = {}
        self._taken: dict[Any, MaybeBatched] = {}
        self._singles: dict[Any, Atom] = {}
        self._places: dict[int, Atom] = {}

    def add(self, lanes: Iterable[tuple[Any, int]], values: MaybeBatched) -> None:
        """Record a pack: the value of each variable is a row of ``values``."""
        for v, lane in lanes:
            self._lanes[v] = values, lane

    def __contains__(self, x: Any) -> bool:
        return type(x) is Var and x in self._lanes

    def lane(self, x: Any) -> int:
        """Return the row of its pack in which the value of a variable is."""
        return self._lanes[x][1]

    def source(self, x: Any) -> MaybeBatched:
        """Return the pack that holds the value of a variable."""
        return self._lanes[x][0]

    def are_packed(self, atoms: Sequence[Any]) -> bool:
        """Return whether all atoms are variables of one pack."""
        if not all(x in self for x in atoms):
            return False
        source = self.source(atoms[0]).atom
        return all(self.source(x).atom is source for x in atoms)

    def single(self, x: Any) -> Any:
        """Return an atom by itself: of a row of a pack, its value, which is emitted once."""
        if x not in self:
            return x
        found = self._singles.get(x)
        if found is None:
            found = self._singles[x] = as_weak_as(self.b, self._row(*self._lanes[x]), x)
        return found

    def _row(self, values: MaybeBatched, lane: int) -> Atom:
        place = self._places.get(lane) if values.is_batched else None
        if place is None:
            return self._take(values, [lane]).atom
        b, shape = self.b, values.atom.aval.shape
        zeros = [b.literal(np.asarray(0, np.int32))] * (len(shape) - 1)
        row = lax.dynamic_slice(b, values.atom, [place, *zeros], (1, *shape[1:]))
        return lax.reshape(b, row, shape[1:])

    def hide_places(self, variables: Iterable[Any]) -> None:
        """Let single values be read at places that XLA does not know.

        XLA compiles one kernel for each known place. With JAX 0.12, one kernel reads at all unknown
        ones, such as numbers from an optimization barrier: on a CPU, 500 take 0.4 s instead of 5.
        """
        lanes = sorted({self.lane(x) for x in variables})
        known = [self.b.literal(np.asarray(lane, np.int32)) for lane in lanes]
        hidden = self.b.bind_multiple(_jax.primitive("optimization_barrier"), known, {})
        self._places = dict(zip(lanes, hidden, strict=True))

    def column(self, atoms: Sequence[Any]) -> MaybeBatched:
        """Emit the values of atoms as rows; they are shared if all are the same."""
        first = self.key(atoms[0])
        if atoms[0] not in self and all(self.key(x) == first for x in atoms):
            return MaybeBatched(atoms[0], False)
        if all(type(x) is not Var or x in self._constants for x in atoms):
            values = np.stack(list(map(self._known, atoms)))
            return MaybeBatched(self.b.constant(values, equal=True), True)
        if self.are_packed(atoms):
            return self._take(self.source(atoms[0]), [self.lane(x) for x in atoms])
        keys = list(map(self.key, atoms))
        distinct = dict(zip(keys, atoms, strict=True))
        number = {key: i for i, key in enumerate(distinct)}
        return self._take(self._stacked(list(distinct.values())), [number[key] for key in keys])

    def _known(self, x: Any) -> np.ndarray[Any, Any]:
        return np.asarray(self._constants[x] if type(x) is Var else x.val, x.aval.dtype)

    def key(self, x: Any) -> Hashable:
        """Return a key that is the same for atoms that are known to have one value."""
        if x in self:
            values, lane = self._lanes[x]
            return identity(values.atom), lane if values.is_batched else 0
        return x if type(x) is Var else literal_key(x)

    def sources(self, atoms: Sequence[Any]) -> dict[Hashable, list[Any]]:
        """Return atoms by the pack that they are in; an atom outside of packs is alone."""
        found: dict[Hashable, list[Any]] = {}
        for x in atoms:
            key = identity(self.source(x).atom) if x in self else self.key(x)
            found.setdefault(key, []).append(x)
        return found

    def _stacked(self, atoms: Sequence[Any]) -> MaybeBatched:
        """Return atoms as rows: those of each pack are copied together, and then ordered."""
        key = tuple(map(self.key, atoms))
        found = self._taken.get(key)
        if found is None:
            sources = [*self.sources(atoms).values()]
            rows: list[Atom] = []
            for own in sources:
                values = self.column(own) if own[0] in self else MaybeBatched(own[0], False)
                rows.append(with_batch_axis(self.b, values, len(own)))
            whole = rows[0] if len(rows) == 1 else lax.concatenate(self.b, rows, 0)
            lane = {self.key(x): i for i, x in enumerate(x for own in sources for x in own)}
            found = self._take(MaybeBatched(whole, True), [lane[k] for k in key])
            self._taken[key] = found
        return found

    def _take(self, values: MaybeBatched, rows: Sequence[int]) -> MaybeBatched:
        """Return some rows of a pack; a single row is shared, and loses its axis."""
        if not values.is_batched:
            return values
        key = identity(values.atom), tuple(rows)
        found = self._taken.get(key)
        if found is None:
            is_shared = all(row == rows[0] for row in rows)
            taken = take(self.b, values.atom, np.asarray(rows[:1] if is_shared else rows), 0)
            if is_shared:
                taken = lax.reshape(self.b, taken, taken.aval.shape[1:])
            found = self._taken[key] = MaybeBatched(taken, not is_shared)
        return found


def take(b: Builder, x: Atom, places: np.ndarray[Any, Any], axis: int) -> Atom:
    """Return the elements at an array of places along an axis, in place of which are its axes.

    Places that form a grid are sliced, transposed and repeated; others are gathered.
    """
    if len(places) > 1 and places.ndim == 1 and np.all(np.diff(places) < 0):
        return lax.rev(b, take(b, x, places[::-1], axis), [axis])
    grid = _grid(places.ravel())
    if grid is None:
        indices = b.constant(places[..., None].astype(np.int32), equal=True)
        return lax.gather(b, x, indices, [axis], range(axis, axis + places.ndim), in_bounds=True)
    shape = x.aval.shape
    before, after = shape[:axis], shape[axis + 1 :]
    moving = [i for i, (_, step) in enumerate(grid) if step]
    outwards = sorted(moving, key=lambda i: -grid[i][1])
    low, high, steps = [0] * len(shape), [*shape], [1] * len(shape)
    low[axis], high[axis] = int(np.min(places)), int(np.max(places)) + 1
    steps[axis] = grid[outwards[-1]][1]
    is_whole = (low[axis], high[axis], steps[axis]) == (0, shape[axis], 1)
    found = x if is_whole else lax.slice(b, x, low, high, steps)
    if len(grid) > 1:
        found = lax.reshape(b, found, (*before, *(grid[i][0] for i in outwards), *after))
        order = [axis + outwards.index(i) for i in moving]
        if order != sorted(order):
            rest = range(axis + len(moving), len(found.aval.shape))
            found = lax.transpose(b, found, [*range(axis), *order, *rest])
        if len(moving) < len(grid):
            sizes = (*before, *(n for n, _ in grid), *after)
            kept = [*range(axis), *(axis + i for i in moving)]
            kept += range(axis + len(grid), len(sizes))
            found = lax.broadcast_in_dim(b, found, sizes, kept)
    whole = (*before, *places.shape, *after)
    return found if found.aval.shape == whole else lax.reshape(b, found, whole)


def _grid(places: np.ndarray[Any, Any]) -> list[tuple[int, int]] | None:
    """Return the number and the distance of places along each axis of a grid.

    Return None if they form none, or if the axes that move leave places between them out.
    """
    axes: list[tuple[int, int]] = []
    while len(places) > 1 or not axes:
        steps = np.diff(places)
        step = int(steps[0]) if len(steps) else 1
        count = int(np.argmax(np.append(steps, step + 1) != step)) + 1
        rows = places.reshape(-1, count) if len(places) % count == 0 else None
        if step < 0 or rows is None or np.any(np.diff(rows) != step):
            return None
        axes.insert(0, (count, step))
        places = rows[:, 0]
    spans = sorted((step, n) for n, step in axes if step)
    is_dense = all(wide == step * n for (step, n), (wide, _) in itertools.pairwise(spans))
    return axes if spans and is_dense else None


def windows(
    starts: np.ndarray[Any, Any], widths: Sequence[int], steps: Sequence[int]
) -> np.ndarray[Any, Any]:
    """Return the indices of all elements of blocks of equal sizes.

    Parameters
    ----------
    starts : (n, k) array of int
        The first element of each block along ``k`` axes.
    widths, steps : sequence of int
        For each of these axes, the size of a block and the step between its elements.

    Returns
    -------
    array of int
        Of shape ``(n, *widths, k)``.
    """
    pairs = zip(widths, steps, strict=True)
    grid = np.stack(np.meshgrid(*(w * np.arange(n) for n, w in pairs), indexing="ij"), -1)
    return starts[(slice(None), *[None] * len(widths))] + grid
