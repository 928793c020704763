"""How alike nodes become one equation on rows, and what reads rows as a whole."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import numpy as np

from jaxprgen import _jax
from jaxprgen._jax import Var
from jaxprgen.ir import Atom, Builder
from jaxprgen.ir import primitives as lax
from jaxprgen.passes.batching import MaybeBatched, NotBatchableError, batch, with_batch_axis
from jaxprgen.passes.packs import Packs, windows
from jaxprgen.passes.repeats import CHAINS, Node, Term, reads_a_block
from jaxprgen.passes.scan_batching import REDUCTIONS


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
    eqn = first.eqn.replace(invars=first.operands, source_info=_jax.NO_SOURCE)
    return batch(packs.b, eqn, columns, len(nodes))


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
        alone = first.replace(invars=[array.atom], source_info=_jax.NO_SOURCE)
        return batch(b, alone, [array], len(nodes))[0]
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
        adjacent = _adjacent(b, x, starts[:, moving[0]], widths[0], strides[0], moving[0])
        if adjacent is not None:
            return MaybeBatched(adjacent, True)
    indices, axes = windows(starts[:, moving], widths, strides), [d + own for d in moving]
    if own:
        rows = np.arange(len(nodes)).reshape(-1, *[1] * (indices.ndim - 1))
        rows = np.broadcast_to(rows, (*indices.shape[:-1], 1))
        indices, axes = np.concatenate([rows, indices], -1), [0, *axes]
    known = b.constant(indices.astype(np.int32), equal=True)
    places = [0, *(d + 1 for d in moving)]
    return MaybeBatched(lax.gather(b, x, known, axes, places, in_bounds=True), True)


def _adjacent(
    b: Builder, x: Atom, starts: np.ndarray[Any, Any], width: int, stride: int, axis: int
) -> Atom | None:
    """Return blocks along one axis by a slice and a reshape, or None if they are not adjacent.

    Single elements may also be regularly spaced.
    """
    n, step = len(starts), int(starts[1] - starts[0])
    if step <= 0 or np.any(np.diff(starts) != step):
        return None
    if width > 1 and (step != width or stride != 1):
        return None
    shape, first = x.aval.shape, int(starts[0])
    last = first + (n - 1) * step + width
    low, high, steps = [0] * len(shape), [*shape], [1] * len(shape)
    low[axis], high[axis], steps[axis] = first, last, step if width == 1 else 1
    is_whole = (first, last) == (0, shape[axis]) and steps[axis] == 1
    block = x if is_whole else lax.slice(b, x, low, high, steps)
    split = lax.reshape(b, block, (*shape[:axis], n, width, *shape[axis + 1 :]))
    return _moved(b, split, axis, 0)


def _moved(b: Builder, x: Atom, axis: int, place: int) -> Atom:
    """Return an array with one axis in another place."""
    if axis == place:
        return x
    order = [d for d in range(len(x.aval.shape)) if d != axis]
    order.insert(place, axis)
    return lax.transpose(b, x, order)


# --- Sums -------------------------------------------------------------------------------------


def kinds_of(packs: Packs, terms: Sequence[Term]) -> dict[Any, list[Term]]:
    """Return the terms of a sum by sign, origin and padding."""
    found: dict[Any, list[Term]] = {}
    for term in terms:
        x = term.atom
        if x in packs:
            source: Any = id(packs.source(x).atom)
        else:
            source = x if type(x) is Var else "literal"
        pad = None if term.pad is None else term.pad.outvars[0].aval
        found.setdefault((term.sign, source, pad), []).append(term)
    return found


def _sums(packs: Packs, nodes: Sequence[Node]) -> MaybeBatched:
    """Emit alike sums: each kind of term by one reduction over the terms of all of them."""
    b, n, family = packs.b, len(nodes), CHAINS[nodes[0].eqn.primitive.name]
    shape = nodes[0].eqn.outvars[0].aval.shape  # type: ignore[attr-defined]
    parts: list[tuple[int, Atom]] = []
    for sign, lists in _corresponding(packs, nodes):
        found = _reduced(packs, lists, family)
        parts.append((sign, with_batch_axis(b, found, n)))
        assert parts[-1][1].aval.shape == (n, *shape)
    return MaybeBatched(combined(b, parts, family), True)


def _corresponding(packs: Packs, nodes: Sequence[Node]) -> list[tuple[int, list[list[Any]]]]:
    """Return the terms of alike sums by kind, one list of atoms for each sum."""
    kinds = [kinds_of(packs, node.terms) for node in nodes]
    if all(kind.keys() == kinds[0].keys() for kind in kinds):
        return [(key[0], [[t.atom for t in kind[key]] for kind in kinds]) for key in kinds[0]]
    # Terms of one colour come from various places: they correspond by their order.
    signs = [[term.sign for term in node.terms] for node in nodes]
    if any(own != signs[0] for own in signs):
        raise NotBatchableError("These sums have terms of different origins.")
    columns = zip(*(node.terms for node in nodes), strict=True)
    return [(column[0].sign, [[t.atom] for t in column]) for column in columns]


def _reduced(packs: Packs, lists: Sequence[Sequence[Any]], family: str) -> MaybeBatched:
    """Combine the terms of each of several sums."""
    b, counts = packs.b, [len(terms) for terms in lists]
    column = packs.column([x for terms in lists for x in terms])
    most, least = max(counts), min(counts)
    if most == 1:
        return column
    if not column.is_batched:
        return _repeated(b, column.atom, counts, family)
    shape = column.atom.aval.shape[1:]
    if most == least and len(lists) == 1:
        return MaybeBatched(REDUCTIONS[family][1](b, column.atom, [0]), False)
    if most == least:
        grid = lax.reshape(b, column.atom, (len(lists), most, *shape))
        return MaybeBatched(REDUCTIONS[family][1](b, grid, [1]), True)
    if family != "add":
        raise NotBatchableError("Only sums may have different numbers of terms.")
    owners = np.repeat(np.arange(len(lists)), counts)[:, None].astype(np.int32)
    zeros = lax.broadcast_in_dim(b, _zero(b, column.atom), (len(lists), *shape), [])
    indices = b.constant(owners, equal=True)
    return MaybeBatched(
        lax.scatter_add(b, zeros, indices, column.atom, [0], [0], in_bounds=True), True
    )


def _repeated(b: Builder, x: Atom, counts: Sequence[int], family: str) -> MaybeBatched:
    """Combine one value with itself, several times."""
    if family in ("max", "min", "and", "or"):
        return MaybeBatched(x, False)
    if family != "add":
        raise NotBatchableError("Powers are left alone.")
    shape = x.aval.shape
    numbers = np.asarray(counts).astype(x.aval.dtype)  # Small integers wrap, as their sums do.
    if max(counts) == min(counts):
        factor = b.literal(numbers[0])
        whole = lax.broadcast_in_dim(b, factor, shape, []) if shape else factor
        return MaybeBatched(lax.mul(b, x, whole), False)
    factors = b.constant(numbers, equal=True)
    size = (len(counts), *shape)
    rows = lax.broadcast_in_dim(b, x, size, range(1, len(size)))
    return MaybeBatched(lax.mul(b, rows, lax.broadcast_in_dim(b, factors, size, [0])), True)


def emit_sum(packs: Packs, node: Node, least: int) -> Atom | None:
    """Emit one sum by reductions of the terms that are in packs.

    Return None if there are not enough of them.
    """
    b, family = packs.b, CHAINS[node.eqn.primitive.name]
    kinds = kinds_of(packs, node.terms)
    if all(len(terms) < least for terms in kinds.values()):
        return None
    shape = node.eqn.outvars[0].aval.shape  # type: ignore[attr-defined]
    parts: list[tuple[int, Atom]] = []
    for (sign, _, _), terms in kinds.items():
        if len(terms) < least:
            parts += [(sign, padded(packs, term)) for term in terms]
        elif terms[0].pad is None:
            parts.append((sign, _reduced(packs, [[t.atom for t in terms]], family).atom))
        else:
            parts.append((sign, _scattered(packs, terms, shape)))
    return combined(b, parts, family)


def padded(packs: Packs, term: Term) -> Atom:
    """Return a term as the sum needs it."""
    x = packs.single(term.atom) if term.atom in packs else term.atom
    if term.pad is None:
        return x
    value: Any = term.pad.invars[1]
    return lax.pad(packs.b, x, value, term.pad.params["padding_config"])


def combined(b: Builder, parts: Sequence[tuple[int, Atom]], family: str) -> Atom:
    """Combine values with their signs."""
    combine = functools.partial(REDUCTIONS[family][0], b)
    plus = [x for sign, x in parts if sign > 0]
    minus = [x for sign, x in parts if sign < 0]
    if not minus:
        return functools.reduce(combine, plus)
    less = functools.reduce(combine, minus)
    return lax.sub(b, functools.reduce(combine, plus), less) if plus else lax.neg(b, less)


def _scattered(packs: Packs, terms: Sequence[Term], shape: tuple[int, ...]) -> Atom:
    """Add up blocks that are padded with zeros, by writing them to their places."""
    b = packs.b
    starts = np.asarray(
        [[low for low, _, _ in term.pad.params["padding_config"]] for term in terms]  # type: ignore[union-attr]
    )
    order = np.lexsort(starts.T[::-1])
    starts = starts[order]
    column = packs.column([terms[i].atom for i in order])
    blocks = with_batch_axis(b, column, len(terms))
    sizes = blocks.aval.shape[1:]
    axes = [d for d in range(len(shape)) if sizes[d] != shape[d]]
    if len(axes) == 1 and np.all(np.diff(starts[:, axes[0]]) == sizes[axes[0]]):
        (d,) = axes
        first, length = int(starts[0, d]), len(terms) * sizes[d]
        whole = lax.reshape(b, _moved(b, blocks, 0, d), (*shape[:d], length, *shape[d + 1 :]))
        config = [(0, 0, 0)] * len(shape)
        config[d] = first, shape[d] - first - length, 0
        return whole if length == shape[d] else lax.pad(b, whole, _zero(b, whole), config)
    if not axes:
        return REDUCTIONS["add"][1](b, blocks, [0])
    indices = windows(starts[:, axes], [sizes[d] for d in axes], [1] * len(axes))
    zeros = lax.broadcast_in_dim(b, _zero(b, blocks), shape, [])
    known = b.constant(indices.astype(np.int32), equal=True)
    places = [0, *(d + 1 for d in axes)]
    return lax.scatter_add(b, zeros, known, blocks, axes, places, in_bounds=True)


def _zero(b: Builder, x: Atom) -> Atom:
    return b.literal(np.zeros((), x.aval.dtype))


# --- Joined values ----------------------------------------------------------------------------


def joined(packs: Packs, eqn: Any, least: int) -> Atom | None:
    """Join values along an axis, rows of packs by reshaping them.

    Return None if there are not enough of them.
    """
    b, is_new = packs.b, eqn.primitive.name == "stack"
    axis = eqn.params["axis" if is_new else "dimension"]
    pieces: list[Atom] = []
    for run in _alike(eqn.invars):
        if len(run) < max(least, _FEW * len(packs.sources(run))):
            pieces += [packs.single(x) if x in packs else x for x in run]
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


def _alike(atoms: Sequence[Any]) -> list[list[Any]]:
    """Split atoms where their type changes."""
    runs: list[list[Any]] = []
    for x in atoms:
        if runs and runs[-1][-1].aval == x.aval:
            runs[-1].append(x)
        else:
            runs.append([x])
    return runs
