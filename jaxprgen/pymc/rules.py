"""Rules for PyMC's own Ops: checks of parameters, splines, and Bessel functions."""

# pyright: reportMissingImports=false, reportAttributeAccessIssue=false
# Checks run without PyMC, too.

from __future__ import annotations

import functools
import operator
from typing import Any

import numpy as np
from pymc.distributions.dist_math import I0e, I1e, SplineWrapper
from pymc.logprob.utils import CheckParameterValue
from scipy.interpolate import PPoly

from jaxprgen.emit import elementwise as ew, gather as ga, primitives as lax, sort as so
from jaxprgen.emit.values import Value, where
from jaxprgen.lowering.context import RuleContext
from jaxprgen.lowering.registry import lowers
from jaxprgen.ops import scalar
from jaxprgen.ops.identity import lower_check

scalar.RULES[I0e] = scalar.in_output_dtype(lax.bessel_i0e)
scalar.RULES[I1e] = scalar.in_output_dtype(lax.bessel_i1e)


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


@lowers(SplineWrapper)
def lower_spline(ctx: RuleContext, x: Value) -> Value:
    """Return the values of a spline, as polynomials between its knots."""
    knots, coefficients, degree = ctx.op.spline._eval_args
    parts = PPoly.from_spline((knots, coefficients, degree), extrapolate=True)
    inner = x.like(parts.x[1:-1])
    row = so.searchsorted(inner, x, right=True)
    distance = x - ga.take(x.like(parts.x), [row])
    terms = [ga.take(x.like(c), [row]) for c in parts.c]
    result = functools.reduce(lambda total, term: total * distance + term, terms)
    if ctx.op.spline.ext != 1:  # Only with this setting is it zero outside.
        return result
    inside = (x >= float(knots[0])) & (x <= float(knots[-1]))
    return where(inside, result, x.like(0.0))
