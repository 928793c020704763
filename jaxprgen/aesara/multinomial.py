"""Rules for `aesara.sandbox.multinomial`, imported with the first graph that holds its Ops."""

from __future__ import annotations

from aesara.sandbox.multinomial import ChoiceFromUniform, MultinomialFromUniform

from jaxprgen.emit import inversion
from jaxprgen.emit.values import Value
from jaxprgen.lowering.context import RuleContext
from jaxprgen.lowering.registry import lowers


@lowers(MultinomialFromUniform)
def lower_multinomial_from_uniform(ctx: RuleContext, p: Value, u: Value, _: Value) -> Value:
    """Return how often each outcome is drawn, as `numpy.searchsorted` finds it.

    Aesara's Python mode raises an IndexError for a number above the sum of the probabilities. Its
    C code and the emitted program draw nothing.
    """
    return inversion.multinomial_counts(p, u, ctx.static_int(2)).astype(ctx.dtype)


@lowers(ChoiceFromUniform)
def lower_choice_from_uniform(ctx: RuleContext, p: Value, u: Value, _: Value) -> Value:
    """Return the drawn outcomes, one column per draw."""
    return inversion.choose(p, u, ctx.static_int(2), ctx.dtype, replace=ctx.op.replace)
