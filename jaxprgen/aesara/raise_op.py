"""Assertions."""

from __future__ import annotations

import functools

from aesara.raise_op import CheckAndRaise

from jaxprgen.aesara.library import error_of, failed_check
from jaxprgen.emit import elementwise as ew
from jaxprgen.emit.values import Value, known
from jaxprgen.lowering.context import RuleContext
from jaxprgen.lowering.registry import lowers, lowers_selected


@lowers_selected(CheckAndRaise)
@lowers(CheckAndRaise, folds=False, shape_only=lambda node: range(1, len(node.inputs)))
def lower_check(ctx: RuleContext, x: Value, *conditions: Value) -> Value:
    """The value; the conditions are checked now where known, else at run time or not at all."""
    truths = [ew.truth(ctx.builder, c) for c in conditions]
    if any(t is not None and not t for t in map(known, truths)):
        raise failed_check(ctx.op)
    open_ = [t for t in truths if known(t) is None]
    if open_:
        holds = functools.reduce(lambda p, q: ew.bitwise_and(ctx.builder, p, q), open_)
        ctx.require(lambda b: holds, error_of(ctx.op), f"{ctx.op}: {ctx.op.msg}")
    return x
