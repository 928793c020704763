"""Assertions."""

from __future__ import annotations

import functools

from aesara.raise_op import CheckAndRaise

from jaxprgen.aesara.library import error_of, failed_check
from jaxprgen.emit import elementwise as ew
from jaxprgen.emit.selection import Selected
from jaxprgen.emit.values import Value
from jaxprgen.lowering.context import RuleContext
from jaxprgen.lowering.registry import lowers


@lowers(CheckAndRaise, lazy=Selected)
@lowers(CheckAndRaise, folds=False, shape_only=lambda node: range(1, len(node.inputs)))
def lower_check(ctx: RuleContext, x: Value, *conditions: Value) -> Value:
    """The value; the conditions are checked now where known, else at run time or not at all."""
    truths = [ew.truth(c) for c in conditions]
    if any(t is not None and not t for t in (truth.static for truth in truths)):
        raise failed_check(ctx.op)
    open_ = [t for t in truths if t.static is None]
    if open_:
        holds = functools.reduce(lambda p, q: p & q, open_)
        ctx.require(lambda: holds, error_of(ctx.op), f"{ctx.op}: {ctx.op.msg}")
    return x
