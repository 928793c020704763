"""Rules for sums, products and comparisons of sparse matrices."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable

from jaxprgen.emit import elementwise as ew, sparse as sp, sparse_math as sm
from jaxprgen.emit.shape import reshape, transpose
from jaxprgen.emit.sizes import is_known
from jaxprgen.emit.sparse import Sparse
from jaxprgen.emit.values import Value, alike, truth, where
from jaxprgen.lowering.context import RuleContext
from jaxprgen.ops.sparse.operands import lower_all, lowers_matrices, order_of, warn_of_dense

# --- Elementwise --------------------------------------------------------------------------


lower_all(
    __name__,
    {
        "sparse.AddSS sparse.AddSparseSparse": lambda x, y: sm.combined(operator.add, x, y),
        "sparse.AddSD sparse.AddSparseDense": lambda x, y: sp.to_dense(x) + y,
        """sparse.MulSS sparse.MultiplySparseSparse
        sparse.SparseSparseMultiply""": lambda x, y: sm.combined(operator.mul, x, y),
        """sparse.MulSV sparse.MultiplySparseDenseVector sparse.SparseDenseVectorMultiply
        sparse.ColScaleCSC""": lambda x, y: x.with_data(x.data * sm.along(x, y, 1)),
        "sparse.RowScaleCSC": lambda x, y: x.with_data(x.data * sm.along(x, y, 0)),
        "sparse.SamplingDot": lambda x, y, p: p.with_data(p.data * sm.sampled_dot(x, y, p)),
    },
)


@lowers_matrices("sparse.AddSSData", "sparse.AddSparseSparseData")
def lower_add_ss_data(ctx: RuleContext, x: Sparse, y: Sparse) -> Sparse:
    """Add the entries of two matrices that store the same positions in the same order."""
    x, y = (sp.arranged(each, order_of(ctx.node.outputs[0])) for each in (x, y))
    sp.require_same(x.data.shape, y.data.shape)
    return x.with_data(x.data + y.data)


@lowers_matrices("sparse.StructuredAddSV", "sparse.StructuredAddSparseDenseVector")
def lower_structured_add_sv(ctx: RuleContext, x: Sparse, y: Value) -> Sparse:
    """Add a row vector to the elements that are not zero."""
    x = sp.summed(x)
    added = x.data + sm.along(x, y, 1)
    return sp.without_zeros(x.with_data(where(truth(x.data), added, x.data)))


@lowers_matrices("sparse.MulSD", "sparse.MultiplySparseDense", "sparse.SparseDenseMultiply")
def lower_mul_sd(ctx: RuleContext, x: Sparse, y: Value) -> Sparse:
    """Multiply the entries by a scalar, or by the elements of a dense matrix at their positions."""
    if y.ndim:
        sp.require_same(x.shape, y.shape)
    return x.with_data(x.data * sm.elements(y, x))


Relation = Callable[..., Value]

_EITHER: dict[str, Relation] = {
    "NotEqual": lambda x, y: ~ew.equal(x, y),
    "LessThan": operator.lt,
    "GreaterThan": operator.gt,
}
"""Relations that do not hold between zeros."""

_BOTH: dict[str, tuple[Relation, str]] = {
    "Equal": (ew.equal, "NotEqual"),
    "LessEqual": (operator.le, "GreaterThan"),
    "GreaterEqual": (operator.ge, "LessThan"),
}
"""Relations that hold between zeros, and what each of these denies."""


def _register(name: str, relation: Relation) -> None:
    @lowers_matrices(f"sparse.{name}SS", f"sparse.{name}SparseSparse")
    def lower_sparse(ctx: RuleContext, x: Sparse, y: Sparse) -> Sparse:
        if name in _EITHER:
            return sm.combined(relation, x, y)
        why = "two zeros are compared, too, so that the result stores nearly all elements"
        instead = "Compare by !=, < or >, which do not hold between zeros."
        warn_of_dense(ctx, x.shape, x.dtype, why, instead)
        # As in SciPy: where NaN is compared, what denies the relation does not hold.
        denied = _EITHER[_BOTH[name][1]](*alike(sp.to_dense(x), sp.to_dense(y)))
        return sp.from_dense(~denied, order_of(ctx.node.outputs[0]))

    @lowers_matrices(f"sparse.{name}SD", f"sparse.{name}SparseDense")
    def lower_dense(ctx: RuleContext, x: Sparse, y: Value) -> Value:
        return relation(*alike(sp.to_dense(x), y))


for _name in (*_EITHER, *_BOTH):
    _register(_name, _EITHER[_name] if _name in _EITHER else _BOTH[_name][0])


# --- Sums and products --------------------------------------------------------------------


@lowers_matrices("sparse.SpSum")
def lower_sp_sum(ctx: RuleContext, x: Sparse) -> Value:
    """Sum a matrix, or its rows or columns."""
    return sm.total(x, ctx.op.axis)


@lowers_matrices("sparse.Dot")
def lower_dot(ctx: RuleContext, x: Value | Sparse, y: Value | Sparse) -> Value:
    """Return the product of two matrices, as an array; at least one of them is sparse."""
    if isinstance(y, Value):
        return sm.dot(x, y)  # type: ignore[arg-type]
    if isinstance(x, Value):
        return sm.dot_left(x, y)
    sizes = [math.prod(each.shape) if is_known(each.shape) else 0 for each in (x, y)]
    smaller = x if sizes[0] < sizes[1] else y
    why = "one of two sparse factors is made dense"
    warn_of_dense(ctx, smaller.shape, smaller.dtype, why, _FROM_THE_RIGHT)
    if smaller is y:
        return sm.dot_sparse(x, y)
    return transpose(sm.dot_sparse(sp.transposed(y), sp.transposed(x)), (1, 0))


_FROM_THE_RIGHT = (
    "If a product with a vector or a dense matrix follows, begin with that one: dot(X, dot(Y, v))."
)


@lowers_matrices("sparse.TrueDot", "sparse.StructuredDot")
def lower_true_dot(ctx: RuleContext, x: Value | Sparse, y: Value | Sparse) -> Value | Sparse:
    """Multiply; the result is declared as sparse if both operands are, or for `TrueDot`."""
    product = lower_dot(ctx, x, y)
    if ctx.step.types[0] is not None:
        return product
    why = "how many entries a product of sparse matrices stores depends on values"
    warn_of_dense(ctx, product.shape, product.dtype, why, _FROM_THE_RIGHT)
    return sp.from_dense(product, order_of(ctx.node.outputs[0]))


@lowers_matrices("sparse.Usmm")
def lower_usmm(
    ctx: RuleContext, alpha: Value, x: Value | Sparse, y: Value | Sparse, z: Value
) -> Value:
    """Return ``alpha * x @ y + z``."""
    alpha = reshape(alpha, ()) if alpha.size == 1 else alpha
    return lower_dot(ctx, x, y) * alpha + z
