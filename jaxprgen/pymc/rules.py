"""The rule for the checks of parameters in PyMC's log-densities."""

# pyright: reportMissingImports=false
# Checks run without PyMC, too.

from __future__ import annotations

import functools
import operator
from typing import Any

import numpy as np
from pymc.logprob.utils import CheckParameterValue

from jaxprgen.emit import elementwise as ew
from jaxprgen.emit.values import Value, where
from jaxprgen.lowering.context import RuleContext
from jaxprgen.lowering.registry import lowers
from jaxprgen.ops.identity import lower_check


@lowers(CheckParameterValue, folds=False)
def lower_check_parameter(ctx: RuleContext, x: Value, *conditions: Value) -> Any:
    """Return the log-density, or minus infinity for invalid parameters, as `pymc.compile` does.

    Checks without this meaning remain assertions. With ``checks``, all of them do.
    """
    if ctx.lowering.checks or not ctx.op.can_be_replaced_by_ninf:
        return lower_check(ctx, x, *conditions)
    unknown = [t for t in map(ew.truth, conditions) if t.static is None or not t.static]
    if not unknown:
        return x
    holds = functools.reduce(operator.and_, unknown)
    return where(holds, x, x.like(-np.inf))
