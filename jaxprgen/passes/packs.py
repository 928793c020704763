"""Packs: values of alike variables, side by side along a first axis."""

from __future__ import annotations

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

    def runs(self, atoms: Sequence[Any]) -> list[list[Any]]:
        """Split atoms where the pack that they are in changes."""
        found: list[list[Any]] = []
        for x in atoms:
            if found and self.are_packed([found[-1][-1], x]):
                found[-1].append(x)
            else:
                found.append([x])
        return found

    def _stacked(self, atoms: Sequence[Any]) -> MaybeBatched:
        """Return atoms as rows; adjacent rows of one pack are copied together."""
        b = self.b
        key = tuple(map(self.key, atoms))
        found = self._taken.get(key)
        if found is None:
            runs = self.runs(atoms)
            sources = [*self.sources(atoms).values()]
            if len(runs) > 2 * len(sources):
                return self._interleaved(key, sources)
            rows: list[Atom] = []
            for run in runs:
                values = self.column(run) if run[0] in self else MaybeBatched(run[0], False)
                rows.append(with_batch_axis(b, values, len(run)))
            stacked = rows[0] if len(rows) == 1 else lax.concatenate(b, rows, 0)
            found = self._taken[key] = MaybeBatched(stacked, True)
        return found

    def _interleaved(
        self, keys: Sequence[Hashable], sources: Sequence[Sequence[Any]]
    ) -> MaybeBatched:
        """Return rows of several packs in any order: first each pack's, then ordered."""
        grouped = [x for atoms in sources for x in atoms]
        place = {self.key(x): i for i, x in enumerate(grouped)}
        return self._take(self._stacked(grouped), [place[key] for key in keys])

    def _take(self, values: MaybeBatched, rows: Sequence[int]) -> MaybeBatched:
        """Return some rows of a pack; a single row is shared."""
        if not values.is_batched:
            return values
        key = identity(values.atom), tuple(rows)
        found = self._taken.get(key)
        if found is None:
            found = self._taken[key] = take(self.b, values.atom, np.asarray(rows))
        return found


def take(b: Builder, x: Atom, rows: np.ndarray[Any, Any]) -> MaybeBatched:
    """Return some rows of an array; a single row is shared, and loses its axis.

    Rows in regular order are sliced, reversed or repeated; others are gathered.
    """
    count, shape = len(rows), x.aval.shape
    if np.all(rows == rows[0]):
        block = _rows(b, x, int(rows[0]), int(rows[0]) + 1, 1)
        return MaybeBatched(lax.reshape(b, block, shape[1:]), False)
    step = int(rows[1] - rows[0])
    if step and np.all(np.diff(rows) == step):
        low, high = int(min(rows[0], rows[-1])), int(max(rows[0], rows[-1])) + 1
        block = _rows(b, x, low, high, abs(step))
        return MaybeBatched(lax.rev(b, block, [0]) if step < 0 else block, True)
    turned = _turned(b, x, rows)
    if turned is not None:
        return MaybeBatched(turned, True)
    for axis, (base, times) in enumerate((_runs(rows), _tiles(rows))):
        if times > 1:
            kept = take(b, x, base)
            assert kept.is_batched
            n = len(base)
            sizes = (n, times) if axis == 0 else (times, n)
            whole = lax.broadcast_in_dim(
                b, kept.atom, (*sizes, *shape[1:]), [axis, *range(2, len(shape) + 1)]
            )
            return MaybeBatched(lax.reshape(b, whole, (count, *shape[1:])), True)
    return MaybeBatched(_gathered(b, x, rows), True)


def _gathered(b: Builder, x: Atom, rows: np.ndarray[Any, Any]) -> Atom:
    indices = b.constant(rows[:, None].astype(np.int32), equal=True)
    return lax.gather(b, x, indices, [0], [0], in_bounds=True)


def _rows(b: Builder, x: Atom, low: int, high: int, step: int) -> Atom:
    shape = x.aval.shape
    if (low, high, step) == (0, shape[0], 1):
        return x
    rest = len(shape) - 1
    return lax.slice(b, x, [low, *[0] * rest], [high, *shape[1:]], [step, *[1] * rest])


def _turned(b: Builder, x: Atom, rows: np.ndarray[Any, Any]) -> Atom | None:
    """Return all rows, of which some are blocks of equal sizes, in turn from each block."""
    count, shape = len(rows), x.aval.shape
    next_to_first = np.flatnonzero(rows == rows[0] + 1)
    blocks = int(next_to_first[0]) if len(next_to_first) else 0
    if blocks < 2 or count % blocks or count != shape[0]:
        return None
    order = np.arange(count).reshape(blocks, -1)
    if not np.array_equal(rows, order.T.ravel()):
        return None
    grid = lax.reshape(b, x, (*order.shape, *shape[1:]))
    rest = range(2, len(shape) + 1)
    return lax.reshape(b, lax.transpose(b, grid, [1, 0, *rest]), shape)


def _runs(rows: np.ndarray[Any, Any]) -> tuple[np.ndarray[Any, Any], int]:
    """Return the rows without repetition, if each is repeated this often before the next."""
    times = int(np.argmax(rows != rows[0]))
    base = rows[::times]
    is_run = len(rows) % times == 0 and np.array_equal(np.repeat(base, times), rows)
    return base, times if is_run else 1


def _tiles(rows: np.ndarray[Any, Any]) -> tuple[np.ndarray[Any, Any], int]:
    """Return the first period of the rows, and how many periods there are."""
    again = np.flatnonzero(rows == rows[0])
    period = int(again[1]) if len(again) > 1 else len(rows)
    base = rows[:period]
    is_tiled = len(rows) % period == 0 and period > 1
    times = len(rows) // period
    return base, times if is_tiled and np.array_equal(np.tile(base, times), rows) else 1


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
