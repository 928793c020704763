"""The operands of rules for sparse matrices, and the declared types of results."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from jaxprgen.arguments.sparse import FORMATS, row_or_column
from jaxprgen.emit import elementwise as ew
from jaxprgen.emit.sizes import is_known
from jaxprgen.emit.sparse import Sparse, of_scipy, to_dense
from jaxprgen.emit.values import Dtype, Shape, Value
from jaxprgen.errors import DenseMatrixWarning
from jaxprgen.lowering.context import RuleContext
from jaxprgen.lowering.registry import lowers

Rule = Callable[..., Any]


def lowers_matrices(*names: str, folds: bool = True) -> Callable[[Rule], Rule]:
    """Register a rule to which constants are `Sparse`, too.

    The result of the rule, a matrix or an array, is converted to its declared dtype.
    """

    def register(rule: Rule) -> Rule:
        @lowers(*names, folds=folds)
        @functools.wraps(rule)
        def lower(ctx: RuleContext, *xs: Any) -> Any:
            found = rule(ctx, *(x if x is None or type(x) is Value else matrix_of(x) for x in xs))
            if isinstance(found, Sparse):
                return found.with_data(found.data.astype(dtype_of(ctx)))
            return found.astype(dtype_of(ctx))

        return rule

    return register


def lower_all(module: str, functions: Mapping[str, Rule]) -> None:
    """Make functions of matrices and arrays the rules of Ops, from a module with rules."""
    for names, function in functions.items():

        def lower(ctx: RuleContext, *xs: Any, function: Rule = function) -> Any:
            return function(*xs)

        lower.__module__ = module
        lowers_matrices(*names.split())(lower)


def matrix_of(x: Any) -> Sparse:
    """Return a matrix, which may be a constant of SciPy's."""
    return x if isinstance(x, Sparse) else of_scipy(x)


def dense_of(x: Any) -> Value:
    """Return an array, made of a matrix if it is one."""
    return x if isinstance(x, Value) else to_dense(matrix_of(x))


def order_of(variable: Any) -> int:
    """Return the axis that the format of a variable compresses."""
    return FORMATS.index(row_or_column(variable.type))


def dtype_of(ctx: RuleContext) -> Dtype:
    """Return the declared dtype of the first output, which may be a matrix."""
    return ew.canonical(np.dtype(ctx.node.outputs[0].type.dtype))


LARGE = 1 << 27
"""Bytes of an array from which a program warns that it makes one of a sparse matrix."""


def warn_of_dense(ctx: RuleContext, shape: Shape, dtype: Dtype, why: str, instead: str) -> None:
    """Warn of an array that a rule makes of a sparse matrix, if it is large."""
    size = math.prod(shape) * dtype.itemsize if is_known(shape) else 0
    if size > LARGE:
        ctx.warn(
            DenseMatrixWarning,
            f"{ctx.op} makes an array of shape {shape}, {size / 1e9:.2f} GB: {why}.\n{instead}",
        )
