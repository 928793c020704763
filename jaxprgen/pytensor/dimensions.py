"""Graphs with named dimensions, which PyTensor itself rewrites to graphs of tensors."""

# pyright: reportMissingImports=false
# Checks run without PyTensor, too.

from __future__ import annotations

from collections.abc import Collection, Sequence

from jaxprgen.graphs.state import substitute
from jaxprgen.lowering.names import Variable

_OF_NAMED_DIMENSIONS = "pytensor.xtensor."


def without_dimensions(
    inputs: Sequence[Variable], outputs: Sequence[Variable], kinds: Collection[type]
) -> Sequence[Variable]:
    """Return outputs whose graph has no Ops on named dimensions; the inputs stay the same.

    Parameters
    ----------
    inputs, outputs
        The graph, which is not changed.
    kinds
        The classes of its Ops.
    """
    if not any(kind.__module__.startswith(_OF_NAMED_DIMENSIONS) for kind in kinds):
        return outputs
    from pytensor.graph.rewriting.utils import rewrite_graph

    # The rewrite looks beyond inputs that nodes compute.
    leaves = [(v, v.type(name=v.name)) for v in inputs if v.owner is not None]
    ends = substitute(outputs, leaves)
    found = rewrite_graph(ends, include=["lower_xtensor"], clone=True)
    return substitute(found, [(leaf, v) for v, leaf in leaves])
