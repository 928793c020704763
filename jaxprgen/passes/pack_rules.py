"""How alike nodes become one equation on rows, and what reads rows as a whole."""

from __future__ import annotations

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
from jaxprgen.passes.sums import Stretch, stretches


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
    zero = b.literal(np.zeros((), rows.aval.dtype))
    zeros = lax.broadcast_in_dim(b, zero, (n, *shape), [])
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
