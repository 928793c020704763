"""Packs: alike values side by side, and how alike nodes become one equation on them."""

from __future__ import annotations

import itertools
from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from jaxprgen import _jax
from jaxprgen._jax import Var, identity
from jaxprgen.ir import Atom, Builder, primitives as lax
from jaxprgen.ir.redundancy import literal_key
from jaxprgen.ir.rewriting import as_weak_as
from jaxprgen.passes.batching import MaybeBatched, NotBatchableError, batch, with_batch_axis
from jaxprgen.passes.repeats import CHAINS, Node, reads_a_block
from jaxprgen.passes.sums import Stretch, stretches
from jaxprgen.passes.unbatching import REDUCTIONS


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


# --- How alike nodes become one equation on rows, and what reads rows as a whole -----------------


def emit_pack(packs: Packs, nodes: Sequence[Node]) -> list[MaybeBatched]:
    """Emit alike nodes as one, and return the rows of each result."""
    first = nodes[0]
    if first.terms:
        return [_sums(packs, nodes)]
    if reads_a_block(first.eqn):
        return [_slices(packs, nodes)]
    columns = [
        packs.column([node.operands[i] for node in nodes]) for i in range(len(first.operands))
    ]
    return _rows(packs, first.eqn.replace(invars=first.operands), columns)


def _rows(packs: Packs, eqn: Any, columns: Sequence[MaybeBatched]) -> list[MaybeBatched]:
    """Emit an equation on columns of operands, which may differ where its own are the same."""
    given = {Var(v.aval): x for v, x in zip(eqn.invars, columns, strict=True)}
    made = [Var(v.aval) for v in eqn.outvars]
    one = eqn.replace(invars=[*given], outvars=made, source_info=_jax.NO_SOURCE)
    return batch(packs.b, [one], given, made)


# --- Slices -----------------------------------------------------------------------------------


def _slices(packs: Packs, nodes: Sequence[Node]) -> MaybeBatched:
    """Read blocks of one array, or of the rows of a pack, at various places."""
    b, first = packs.b, nodes[0].eqn
    array = packs.column([node.operands[0] for node in nodes])
    starts = np.asarray([node.eqn.params["start_indices"] for node in nodes])
    sizes: Any = first.outvars[0].aval.shape  # type: ignore[attr-defined]
    steps = first.params["strides"] or [1] * len(sizes)
    moving = [d for d in range(len(sizes)) if np.any(starts[:, d] != starts[0, d])]
    if not moving:
        return _rows(packs, first, [array])[0]
    x, own = array.atom, int(array.is_batched)
    # First cut what all blocks have in common.
    low, high, stride = [0] * own, [*x.aval.shape[:own]], [1] * own
    for d, n in enumerate(x.aval.shape[own:]):
        is_moving = d in moving
        low.append(0 if is_moving else int(starts[0, d]))
        high.append(n if is_moving else low[-1] + (sizes[d] - 1) * steps[d] + 1)
        stride.append(1 if is_moving else steps[d])
    if (low, tuple(high)) != ([0] * len(low), x.aval.shape) or any(k != 1 for k in stride):
        x = lax.slice(b, x, low, high, stride)
    widths, strides = [sizes[d] for d in moving], [steps[d] for d in moving]
    if not own and len(moving) == 1:
        (d,) = moving
        places = starts[:, d, None] + strides[0] * np.arange(widths[0])
        return MaybeBatched(_moved(b, take(b, x, places, d), d, 0), True)
    indices, axes = windows(starts[:, moving], widths, strides), [d + own for d in moving]
    if own:
        rows = np.arange(len(nodes)).reshape(-1, *[1] * (indices.ndim - 1))
        rows = np.broadcast_to(rows, (*indices.shape[:-1], 1))
        indices, axes = np.concatenate([rows, indices], -1), [0, *axes]
    known = b.constant(indices.astype(np.int32), equal=True)
    places = [0, *(d + 1 for d in moving)]
    return MaybeBatched(lax.gather(b, x, known, axes, places, in_bounds=True), True)


def _moved(b: Builder, x: Atom, axis: int, place: int) -> Atom:
    """Return an array with one axis in another place."""
    if axis == place:
        return x
    order = [d for d in range(len(x.aval.shape)) if d != axis]
    order.insert(place, axis)
    return lax.transpose(b, x, order)


# --- Sums -------------------------------------------------------------------------------------


def _source(packs: Packs, x: Any) -> Any:
    if x in packs:
        return id(packs.source(x).atom)
    return x if type(x) is Var else "literal"


def _sums(packs: Packs, nodes: Sequence[Node]) -> MaybeBatched:
    """Emit alike sums: each stretch of their terms by one reduction for all of them."""
    b, n, family = packs.b, len(nodes), CHAINS[nodes[0].eqn.primitive.name]
    signs = [[term.sign for term in node.terms] for node in nodes]
    if len(signs[0]) <= _FEW_TERMS and all(own == signs[0] for own in signs):
        columns = zip(*([term.atom for term in node.terms] for node in nodes), strict=True)
        parts = [*zip(signs[0], map(packs.column, columns), strict=True)]
    else:
        alike = zip(*(node.stretches for node in nodes), strict=True)
        parts = [_stretched(packs, each, family) for each in alike]
    found = _combined_rows(b, parts, n, family)
    rows = with_batch_axis(b, found, n)
    assert rows.aval.shape == (n, *nodes[0].eqn.outvars[0].aval.shape)  # type: ignore[attr-defined]
    return MaybeBatched(rows, True)


_FEW_TERMS = 4
"""Sums of this many terms or fewer are added up one by one, for all rows together."""


def _stretched(packs: Packs, alike: Sequence[Stretch], family: str) -> tuple[int, MaybeBatched]:
    """Add up a stretch of each of several sums, and return the sign with which it joins them.

    What one repetition contributes is combined first.
    """
    b, rows = packs.b, [row for stretch in alike for row in stretch.repetitions]
    sign = rows[0][0][0].sign
    parts: list[tuple[int, MaybeBatched]] = []
    for runs in zip(*rows, strict=True):
        lists = [[term.atom for term in run] for run in runs]
        parts.append((sign * runs[0][0].sign, _reduced(packs, lists, family)))
    found = _combined_rows(b, parts, len(rows), family)
    return sign, _folded(b, found, [len(stretch.repetitions) for stretch in alike], family)


def _combined_rows(
    b: Builder, parts: Sequence[tuple[int, MaybeBatched]], n: int, family: str
) -> MaybeBatched:
    """Combine values with their signs, in order, for all rows."""
    is_batched = any(x.is_batched for _, x in parts)
    atoms = [(sign, with_batch_axis(b, x, n) if is_batched else x.atom) for sign, x in parts]
    return MaybeBatched(combined(b, atoms, family), is_batched)


def _reduced(packs: Packs, lists: Sequence[Sequence[Any]], family: str) -> MaybeBatched:
    """Combine the terms of each of several sums."""
    column = packs.column([x for terms in lists for x in terms])
    return _folded(packs.b, column, list(map(len, lists)), family)


def _folded(b: Builder, column: MaybeBatched, counts: Sequence[int], family: str) -> MaybeBatched:
    """Combine rows, so many for each of several sums."""
    most, least, n = max(counts), min(counts), len(counts)
    if most == 1:
        return column
    rows = with_batch_axis(b, column, sum(counts))
    shape = rows.aval.shape[1:]
    if most == least and n == 1:
        return MaybeBatched(REDUCTIONS[family][1](b, rows, [0]), False)
    if most == least:
        grid = lax.reshape(b, rows, (n, most, *shape))
        return MaybeBatched(REDUCTIONS[family][1](b, grid, [1]), True)
    if family != "add":
        raise NotBatchableError("Only sums may have different numbers of terms.")
    zeros = lax.full(b, 0, (n, *shape), rows.aval.dtype)
    owners = np.repeat(np.arange(n), counts)[:, None].astype(np.int32)
    indices = b.constant(owners, equal=True)
    return MaybeBatched(lax.scatter_add(b, zeros, indices, rows, [0], [0], in_bounds=True), True)


def emit_sum(packs: Packs, node: Node, least: int) -> Atom | None:
    """Emit one sum by reductions of the terms that are in packs.

    Return None if there are not enough of them.
    """
    family, terms = CHAINS[node.eqn.primitive.name], node.terms
    kinds = [(term.sign, _source(packs, term.atom)) for term in terms]
    if not node.is_ordered:
        number = {kind: i for i, kind in enumerate(dict.fromkeys(kinds))}
        order = sorted(range(len(terms)), key=lambda i: (-terms[i].sign, number[kinds[i]]))
        terms, kinds = [terms[i] for i in order], [kinds[i] for i in order]
    parts: list[tuple[int, Atom]] = []
    written = 0
    for stretch in stretches(terms, kinds):
        if stretch.most < least:
            written += len(stretch.terms)
            parts += [(term.sign, packs.single(term.atom)) for term in stretch.terms]
        else:
            sign, found = _stretched(packs, [stretch], family)
            parts.append((sign, found.atom))
    return None if written == len(terms) else combined(packs.b, parts, family)


def combined(b: Builder, parts: Sequence[tuple[int, Atom]], family: str) -> Atom:
    """Combine values with their signs, in order."""
    (first, found), *others = parts
    for sign, x in others:
        found = REDUCTIONS[family][0](b, found, x) if sign == first else lax.sub(b, found, x)
    return found if first > 0 else lax.neg(b, found)


# --- Joined values ----------------------------------------------------------------------------


def joined(packs: Packs, eqn: Any, least: int) -> Atom | None:
    """Join values along an axis, rows of packs by reshaping them.

    Return None if there are not enough of them.
    """
    b, is_new = packs.b, eqn.primitive.name == "stack"
    axis = eqn.params["axis" if is_new else "dimension"]
    pieces: list[Atom] = []
    for run in (list(alike) for _, alike in itertools.groupby(eqn.invars, lambda x: x.aval)):
        if len(run) < max(least, _FEW * len(packs.sources(run))):
            pieces += map(packs.single, run)
            continue
        rows = _moved(b, with_batch_axis(b, packs.column(run), len(run)), 0, axis)
        if not is_new:
            sizes = list(run[0].aval.shape)
            sizes[axis] *= len(run)
            rows = lax.reshape(b, rows, tuple(sizes))
        pieces.append(rows)
    if len(pieces) == len(eqn.invars):
        return None
    return pieces[0] if len(pieces) == 1 else lax.concatenate(b, pieces, axis)


_FEW = 4
"""Values are joined as rows if this many come from one pack, on average."""
