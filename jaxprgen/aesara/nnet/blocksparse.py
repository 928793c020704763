"""Rules for `aesara.tensor.nnet.blocksparse`. In place or not is all one here."""

from __future__ import annotations

from aesara.tensor.nnet.blocksparse import SparseBlockGemv, SparseBlockOuter

from jaxprgen.aesara.subtensor import check_bounds
from jaxprgen.emit import blocks
from jaxprgen.emit.values import Value
from jaxprgen.lowering.context import RuleContext
from jaxprgen.lowering.registry import lowers


@lowers(SparseBlockGemv)
def lower_sparse_block_gemv(
    ctx: RuleContext, y: Value, matrix: Value, x: Value, rows: Value, columns: Value
) -> Value:
    """``y`` plus products of some blocks of a matrix with vectors."""
    check_bounds(ctx, matrix.shape, [(0, rows), (1, columns)])
    return blocks.multiply_blocks(y, matrix, x, rows, columns)


@lowers(SparseBlockOuter, folds=False)
def lower_sparse_block_outer(
    ctx: RuleContext, matrix: Value, x: Value, y: Value, rows: Value, columns: Value, scale: Value
) -> Value:
    """Some blocks of a matrix increased by outer products, scaled as is documented.

    Aesara's Python mode passes over the scale, which is one unless an Op is made by hand.
    """
    check_bounds(ctx, matrix.shape, [(0, rows), (1, columns)])
    x, y, scale = (v.astype(ctx.dtype) for v in (x, y, scale))
    return blocks.add_outer_blocks(matrix, x, y, rows, columns, scale)
