"""The rule for `aesara.scan`."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np

from jaxprgen.emit.deferred import Deferred
from jaxprgen.lowering.context import RuleContext
from jaxprgen.lowering.loops import LoopLayout, lower_loop
from jaxprgen.lowering.names import Apply
from jaxprgen.lowering.registry import lowers


def layout_of(node: Apply) -> LoopLayout:
    """Return a node's loop in neutral terms, translated from `aesara.scan.op.ScanInfo`.

    A mit-mot is a window, of which the first step reads the first row. A mit-sot or sit-sot is a
    state, a nit-sot a stack, and an updated shared variable is carried.
    """
    info: Any = node.op.info  # type: ignore[union-attr]
    places = itertools.count(1)
    sequences = _take(places, info.n_seqs)
    windows = [
        (next(places), reads, writes, -min(reads))
        for reads, writes in zip(info.mit_mot_in_slices, info.mit_mot_out_slices, strict=True)
    ]
    taps = (*info.mit_sot_in_slices, *info.sit_sot_in_slices)
    states = [(next(places), each) for each in taps]
    carried = _take(places, _count_of_carried(info))
    first = len(windows) + len(states)
    types = [v.type for v in node.outputs[first : first + info.n_nit_sot]]
    stacks = [(next(places), np.dtype(t.dtype), t.ndim) for t in types]
    constants = _take(places, info.n_non_seqs)
    graph = node.op.fgraph  # type: ignore[union-attr]
    return LoopLayout(
        graph, sequences, windows, states, carried, stacks, constants, bool(info.as_while)
    )


def _count_of_carried(info: Any) -> int:
    """Return how many values are carried unstacked: in Aesara, updated shared variables."""
    is_new = hasattr(info, "n_untraced_sit_sot")  # In PyTensor, whose other name is deprecated.
    return info.n_untraced_sit_sot if is_new else info.n_shared_outs


def _take(places: Iterator[int], count: int) -> list[int]:
    return list(itertools.islice(places, count))


@lowers("scan.Scan", lazy=Deferred)
@lowers("scan.Scan", folds=False)
def lower_scan(ctx: RuleContext, *xs: Any) -> list[Any]:
    """Emit a loop, which stacks only the rows that the graph uses."""
    return lower_loop(ctx, layout_of(ctx.node), xs)
