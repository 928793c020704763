"""The rule for sparse matrices that are constants, where the graph makes them dense."""

from __future__ import annotations

from typing import Any

from aesara.sparse.basic import DenseFromSparse

from jaxprgen.emit.values import Array
from jaxprgen.lowering.context import RuleContext
from jaxprgen.lowering.registry import lowers


@lowers(DenseFromSparse, folds=False)
def lower_dense_from_sparse(ctx: RuleContext, x: Any) -> Array:
    """Return the matrix, which is a constant: programs have no sparse matrices."""
    return x.toarray()
