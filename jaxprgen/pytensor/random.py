"""The rule for PyTensor's `RandomVariable`, whose nodes take a generator, a size and parameters."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from jaxprgen.emit.sizes import as_size
from jaxprgen.emit.values import Value
from jaxprgen.lowering.context import RuleContext
from jaxprgen.lowering.registry import lowers
from jaxprgen.ops import random


@lowers("pytensor.tensor.RandomVariable", folds=False)
def lower_random_variable(
    ctx: RuleContext, rng: Any, size: Value | None, *parameters: Value
) -> Sequence[Any]:
    """Draw with the next key of the stream; return the advanced stream and the draw."""
    shape = () if size is None else tuple(map(as_size, ctx.static(1)))
    return random.draw(ctx, rng, shape, parameters)


lower_random_variable.supports = random.has_sampler  # type: ignore[attr-defined]
