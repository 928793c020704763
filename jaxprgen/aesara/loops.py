"""Loops that run in Python: the ``perform`` of Aesara's `Scan`."""

from __future__ import annotations

import weakref

from aesara.compile.function.types import FunctionMaker
from aesara.compile.mode import Mode
from aesara.scan.op import Scan

_copies: dict[int, Scan] = {}
"""The copy of each loop, by its address: Ops of unlike loops may compare equal."""


def compiled_loop(op: Scan) -> Scan:
    """Return the same loop with a graph of its own, because Aesara compiles the graph in place.

    It is compiled by Aesara's Python linker, without rewriting, in any mode.
    """
    twin = _copies.get(id(op))
    if twin is None:
        twin = op.clone()
        twin.fgraph = op.fgraph.clone_get_equiv(clone_inner_graphs=True)[0]
        for node in twin.fgraph.apply_nodes:
            if isinstance(node.op, Scan):
                node.op = compiled_loop(node.op)
        inputs, outputs = twin.prepare_fgraph(twin.fgraph)
        maker = FunctionMaker(
            inputs,
            [FunctionMaker.wrap_out(v) for v in outputs],
            Mode(linker="vm", optimizer="None"),
            accept_inplace=False,
            fgraph=twin.fgraph,
            on_unused_input="ignore",
        )
        twin._fn = maker.create([x.value for x in inputs])  # pyright: ignore[reportPrivateUsage]
        _copies[id(op)] = twin
        weakref.finalize(op, _copies.pop, id(op), None).atexit = False
    return twin
