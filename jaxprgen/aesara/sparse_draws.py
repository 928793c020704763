"""Ops of `aesara.sparse.sandbox` that draw from NumPy's global generator."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any

import aesara.tensor
from aesara.sparse import basic

from jaxprgen.graphs.sparse import all_entries
from jaxprgen.graphs.state import substitute
from jaxprgen.lowering.names import Variable, entry_of
from jaxprgen.lowering.traversal import toposort

at: Any = aesara.tensor  # Its submodules and functions lack types.


def with_generators(
    inputs: Sequence[Variable], outputs: Sequence[Variable], kinds: Collection[type]
) -> Sequence[Variable]:
    """Return outputs whose graph draws from generators of its own instead.

    It is a ``lowered`` of `jaxprgen.graphs.library.GraphLibrary`.
    """
    if not any(entry_of(_DRAWN, kind) for kind in kinds):
        return outputs
    drawn: list[tuple[Variable, Any]] = []
    for node in toposort(outputs, set(inputs)):
        draw = entry_of(_DRAWN, type(node.op))
        if draw is not None:  # Its operands may be drawn, too.
            drawn.append((node.outputs[0], draw(node.op, *substitute(node.inputs, drawn))))
    return substitute(outputs, drawn)


def _poisson(op: Any, mean: Any) -> Any:
    data, indices, pointers, shape = all_entries(mean)
    counts = at.random.poisson(data).astype(mean.type.dtype)
    return basic.remove0(basic.CSM(mean.type.format)(counts, indices, pointers, shape))


def _binomial(op: Any, n: Any, p: Any, shape: Any) -> Any:
    counts = at.random.binomial(n, p, size=(shape[0], shape[1])).astype(op.dtype)
    return basic.SparseFromDense(op.format)(counts)


def _multinomial(op: Any, n: Any, p: Any) -> Any:
    """Return counts by row; whoever has no entry has probability zero."""
    data, indices, pointers, shape = all_entries(p)
    counts = at.random.multinomial(n, basic.dense_from_sparse(p)).astype(p.type.dtype)
    ones = basic.CSM(p.type.format)(at.ones_like(data), indices, pointers, shape)
    return basic.mul_s_d(ones, counts)


_DRAWN: dict[Any, Callable[..., Any]] = {
    "sparse.Poisson": _poisson,
    "sparse.Binomial": _binomial,
    "sparse.Multinomial": _multinomial,
}
"""What computes an Op's result, from the Op and its inputs."""
