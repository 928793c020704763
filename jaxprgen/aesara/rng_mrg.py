"""Rules for `aesara.sandbox.rng_mrg`, imported with the first graph that holds its Ops.

Importing that module of Aesara warns of its deprecation. Draws and states equal those of the Ops'
Python implementations bit for bit. The state is data, as in Aesara: these draws need no PRNG key.
"""

from __future__ import annotations

import math

import numpy as np
from aesara.sandbox.rng_mrg import DotModulo, mrg_uniform

from jaxprgen.emit import elementwise as ew, mrg31k3p
from jaxprgen.emit.shape import concatenate
from jaxprgen.emit.sizes import as_size, is_known, require_at_least, require_equal
from jaxprgen.emit.values import INT32, Value
from jaxprgen.errors import IntegerRangeError, ShapeMismatchError, UnsupportedOpError
from jaxprgen.lowering.context import RuleContext
from jaxprgen.lowering.registry import lowers


@lowers(mrg_uniform, folds=False)
def lower_mrg_uniform(ctx: RuleContext, state: Value, _: Value) -> tuple[Value, Value]:
    """Return the advanced states and the draws."""
    shape, dtype = tuple(map(as_size, ctx.static(1))), ctx.op.output_type.dtype
    if dtype not in mrg31k3p.FLOATS:
        raise UnsupportedOpError(f"It draws {', '.join(mrg31k3p.FLOATS)}, not {dtype}.")
    _check_state(state)
    for n in shape:
        require_at_least(n, 0, f"Sizes must be >= 0, got {shape}.")
    if is_known(shape) and math.prod(shape) > mrg31k3p.M1:
        raise IntegerRangeError(f"It draws at most 2**31 - 1 numbers at once, not {shape}.")
    return mrg31k3p.uniform(state, shape, ew.canonical(np.dtype(dtype)))


def _check_state(state: Value) -> None:
    """Raise unless an array holds states of at least one stream."""
    streams, words = state.shape
    text = (
        f"The state of a generator has shape {state.shape} and dtype {state.dtype}; expected "
        f"(streams, {mrg31k3p.WORDS}) with at least one stream, and int32."
    )
    if state.dtype != INT32:
        raise ShapeMismatchError(text)
    require_equal(words, mrg31k3p.WORDS, text)
    require_at_least(streams, 1, text)


@lowers(DotModulo)
def lower_dot_modulo(ctx: RuleContext, *operands: Value) -> Value:
    """Return two products of matrices and vectors, each by its own modulus, one after the other."""
    halves = [mrg31k3p.dot_modulo(*operands[i : i + 3]) for i in (0, 3)]
    return concatenate([x.astype(ctx.dtype) for x in halves], 0)
