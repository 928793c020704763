"""How alike nodes become one equation on rows, and what reads rows as a whole."""

from __future__ import annotations

import graphlib
from collections.abc import Sequence
from typing import Any

import numpy as np

from jaxprgen import _jax
from jaxprgen._jax import Var
from jaxprgen.ir import Atom, Builder
from jaxprgen.ir import primitives as lax
from jaxprgen.passes.batching import MaybeBatched, NotBatchableError, batch, with_batch_axis
from jaxprgen.passes.packs import Packs, take, windows
from jaxprgen.passes.repeats import CHAINS, Node, reads_a_block
from jaxprgen.passes.scan_batching import REDUCTIONS
from jaxprgen.passes.sums import Stretch, Term, stretches


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


def _kind(packs: Packs, term: Term) -> Any:
    """Return the kind of a term in a sum that stays alone: its sign and origin.

    Padded blocks of one size are of one kind, because few of them meet at an element.
    """
    if term.pad is not None:
        return "block", term.atom.aval.shape
    return term.sign, _source(packs, term.atom)


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
    most, least = max(counts), min(counts)
    if most == 1:
        return column
    if not column.is_batched:
        return _repeated(b, column.atom, counts, family)
    shape, n = column.atom.aval.shape[1:], len(counts)
    if most == least and n == 1:
        return MaybeBatched(REDUCTIONS[family][1](b, column.atom, [0]), False)
    if most == least:
        grid = lax.reshape(b, column.atom, (n, most, *shape))
        return MaybeBatched(REDUCTIONS[family][1](b, grid, [1]), True)
    if family != "add":
        raise NotBatchableError("Only sums may have different numbers of terms.")
    owners = np.repeat(np.arange(n), counts)[:, None].astype(np.int32)
    zeros = lax.broadcast_in_dim(b, _zero(b, column.atom), (n, *shape), [])
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
    if not np.all(np.isfinite(numbers)):
        raise NotBatchableError("There are more terms than their type can count.")
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
    family, terms = CHAINS[node.eqn.primitive.name], node.terms
    kinds = [_kind(packs, term) for term in terms]
    if not node.is_ordered:
        number = {kind: i for i, kind in enumerate(dict.fromkeys(kinds))}
        order = sorted(range(len(terms)), key=lambda i: (-terms[i].sign, number[kinds[i]]))
        terms, kinds = [terms[i] for i in order], [kinds[i] for i in order]
    shape = node.eqn.outvars[0].aval.shape  # type: ignore[attr-defined]
    parts: list[tuple[int, Atom]] = []
    written = 0
    for stretch in stretches(terms, kinds):
        found = _whole(packs, stretch, shape, least, family)
        if found is None:
            written += len(stretch.terms)
            found = [(term.sign, _alone(packs, term)) for term in stretch.terms]
        parts += found
    return None if written == len(terms) else combined(packs.b, parts, family)


def _whole(
    packs: Packs, stretch: Stretch, shape: tuple[int, ...], least: int, family: str
) -> list[tuple[int, Atom]] | None:
    """Emit a stretch of one sum, or return None if its terms must be added one by one."""
    terms = stretch.terms
    if stretch.most < least:
        return None
    if all(term.pad is None for term in terms):
        sign, found = _stretched(packs, [stretch], family)
        return [(sign, found.atom)]
    groups: dict[Any, list[Term]] = {}
    for term in terms:
        groups.setdefault((term.sign, _source(packs, term.atom)), []).append(term)
    if len(stretch.kinds) > 1 or max(map(len, groups.values())) < least:
        return None
    order = _order_of_blocks(terms, [*groups.values()])
    if order is None and len({term.sign for term in terms}) > 1:
        return None
    rows = [terms] if order is None else [[*groups.values()][i] for i in order]
    sign = rows[0][0].sign
    parts = [
        (sign * own[0].sign, _scattered(packs, own, shape) if own[1:] else _alone(packs, own[0]))
        for own in rows
    ]
    return [(sign, combined(packs.b, parts, family))]


def _order_of_blocks(terms: Sequence[Term], groups: Sequence[Sequence[Term]]) -> list[int] | None:
    """Return an order of groups of padded blocks in which each element is added up as written.

    Return None if there is none, or if it is not known, because blocks may overlap in part.
    """
    if len(groups) == 1:
        return [0]
    number = {id(term): i for i, group in enumerate(groups) for term in group}
    places: dict[tuple[int, ...], list[int]] = {}
    for term in terms:
        places.setdefault(_start(term), []).append(number[id(term)])
    aligned = np.asarray([*places]) % np.maximum(terms[0].atom.aval.shape, 1)
    if np.any(aligned != aligned[0]) or any(len({*x}) < len(x) for x in places.values()):
        return None
    before: dict[int, set[int]] = {i: set() for i in range(len(groups))}
    for found in places.values():
        for i in range(2, len(found)):  # The first two may be exchanged.
            before[found[i]].update(found[:i])
    try:
        return [*graphlib.TopologicalSorter(before).static_order()]
    except graphlib.CycleError:
        return None


def _start(term: Term) -> tuple[int, ...]:
    """Return the place of a padded block."""
    return tuple(low for low, _, _ in term.pad.params["padding_config"])  # type: ignore[union-attr]


def padded(b: Builder, term: Term) -> Atom:
    """Return a term as the sum needs it."""
    if term.pad is None:
        return term.atom
    value: Any = term.pad.invars[1]
    return lax.pad(b, term.atom, value, term.pad.params["padding_config"])


def _alone(packs: Packs, term: Term) -> Atom:
    return padded(packs.b, term._replace(atom=packs.single(term.atom)))


def combined(b: Builder, parts: Sequence[tuple[int, Atom]], family: str) -> Atom:
    """Combine values with their signs, in order."""
    (first, found), *others = parts
    for sign, x in others:
        found = REDUCTIONS[family][0](b, found, x) if sign == first else lax.sub(b, found, x)
    return found if first > 0 else lax.neg(b, found)


def _scattered(packs: Packs, terms: Sequence[Term], shape: tuple[int, ...]) -> Atom:
    """Add up blocks that are padded with zeros, by writing them to their places."""
    b = packs.b
    starts = np.asarray(list(map(_start, terms)))
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


def _alike(atoms: Sequence[Any]) -> list[list[Any]]:
    """Split atoms where their type changes."""
    runs: list[list[Any]] = []
    for x in atoms:
        if runs and runs[-1][-1].aval == x.aval:
            runs[-1].append(x)
        else:
            runs.append([x])
    return runs
