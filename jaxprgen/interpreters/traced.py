"""The two ways to run branches and loops."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import numpy as np
from jax import lax

from jaxprgen import _jax
from jaxprgen.interpreters.context import Context, PrimitiveRule
from jaxprgen.ir.evaluate import while_parts
from jaxprgen.ir.programs import parts


def _scan(context: Context, *operands: Any, **params: Any) -> list[Any]:
    constants, carry, arrays = parts([*operands], *_jax.scan_counts(context.eqn))

    def step(carry: list[Any], slices: list[Any]) -> tuple[list[Any], list[Any]]:
        outputs = context.run(params["jaxpr"], *constants, *carry, *slices)
        return outputs[: len(carry)], outputs[len(carry) :]

    options = {key: params[key] for key in ("length", "reverse", "unroll")}
    carry, stacked = lax.scan(step, carry, arrays, **options)
    return [*carry, *stacked]


def _while(context: Context, *operands: Any, **params: Any) -> list[Any]:
    loop = while_parts(context.eqn, operands)

    def goes_on(carry: list[Any]) -> Any:
        (value,) = context.run(loop.condition, *loop.condition_constants, *carry)
        return context.domain.array(value)

    def step(carry: list[Any]) -> list[Any]:
        return context.run(loop.body, *loop.body_constants, *carry)

    return lax.while_loop(goes_on, step, loop.carry)


def _cond(context: Context, which: Any, *operands: Any, **params: Any) -> list[Any]:
    index = context.domain.array(which)
    branches = [functools.partial(context.run, branch) for branch in params["branches"]]
    if not isinstance(index, _jax.Tracer):
        return branches[min(max(int(index), 0), len(branches) - 1)](*operands)
    return lax.switch(lax.convert_element_type(index, np.int32), branches, *operands)


TRACED: Mapping[str, PrimitiveRule] = MappingProxyType(
    {"scan": _scan, "while": _while, "cond": _cond}
)
"""Branches and loops become JAX's again, and their programs are interpreted once. Values must be
arrays, or pytrees of arrays."""

STEPWISE: Mapping[str, PrimitiveRule] = MappingProxyType({})
"""Branches and loops have no rule: iterations are interpreted one by one, on values of any kind.
Arrays are sliced and stacked by ``slice``, ``squeeze``, ``broadcast_in_dim`` and ``concatenate``
equations."""
