"""Rules for PyTensor's random variables, whose nodes take a generator, a size and parameters."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from jaxprgen.emit import distributions as d, random as streams, shape as sh
from jaxprgen.emit.create import count_along
from jaxprgen.emit.selection import Selected
from jaxprgen.emit.sizes import as_size
from jaxprgen.emit.sparse import Sparse
from jaxprgen.emit.values import Dtype, Shape, Size, Value, broadcast_shapes
from jaxprgen.errors import UnsupportedOpError
from jaxprgen.lowering.context import RuleContext
from jaxprgen.lowering.registry import lowers
from jaxprgen.ops import random
from jaxprgen.ops.changing_sizes import Sizes, sizes_of
from jaxprgen.ops.sparse.operands import dense_of
from jaxprgen.pytensor.registered import RegisteredSampler, is_sampler_registered


@lowers("pytensor.tensor.RandomVariable", folds=False)
def lower_random_variable(
    ctx: RuleContext, rng: Any, size: Value | None, *matrices: Value | Sparse
) -> Sequence[Any]:
    """Draw with the next key of the stream; return the advanced stream and the draw."""
    sizes, parameters = _sizes(ctx, size), [dense_of(x) for x in matrices]
    if random.has_sampler(ctx.op):
        return random.draw_of_sizes(ctx, rng, sizes, parameters)
    stream, drawn = random.draw(ctx, rng, sizes.shape, parameters, RegisteredSampler(ctx))
    return stream, sizes.of(drawn)


lower_random_variable.supports = (  # type: ignore[attr-defined]
    lambda op: random.has_sampler(op) or is_sampler_registered(op)
)


@lowers("pytensor.tensor.RandomVariable", lazy=Selected)
def lower_random_variable_of_selected(
    ctx: RuleContext, rng: Any, size: Value | None, *parameters: Value | Selected
) -> Sequence[Any]:
    """Draw for parameters that a mask selects, with as many draws as there are parameters."""
    return random.draw_of_selected(ctx, rng, _sizes(ctx, size), parameters)


def _sizes(ctx: RuleContext, size: Value | None) -> Sizes:
    """Return the sizes that are asked for, () for those of the parameters.

    An empty size asks for a single draw, which the parameters of such a node give, too.
    """
    return Sizes(()) if size is None else sizes_of(ctx, [1], [size])


@lowers("tensor.ChoiceWithoutReplacement", folds=False)
def lower_choice(
    ctx: RuleContext, rng: Any, size: Value | None, a: Value, *others: Value
) -> Sequence[Any]:
    """Draw rows of an array, or integers below a number, each at most once."""
    stream, key = streams.take_key(rng)
    own, p = ctx.op.ndims_params[0], others[0] if len(others) == 2 else None
    last = len(ctx.node.inputs) - 1
    wanted = ctx.static(last)
    core = tuple(map(as_size, wanted.reshape(-1, wanted.shape[-1])[0] if wanted.size else ()))
    batches = [a.shape[: a.ndim - own], () if p is None else p.shape[:-1]]
    batch = _batch(ctx, size, *batches)
    population = a.shape[a.ndim - own] if own else _homogeneous(ctx, 2)
    if p is not None:
        p = p.astype(random.working_dtype([p]))
    rows = d.rows_without_replacement(key, batch, p, population, math.prod(core))
    rows = sh.reshape(rows, (*batch, *core))
    return stream, _rows_of(a, rows, batch, own).astype(_dtype(ctx))


@lowers("pytensor.tensor.PermutationRV", folds=False)
def lower_permutation(ctx: RuleContext, rng: Any, size: Value | None, x: Value) -> Sequence[Any]:
    """Return the rows of an array, or the integers below a number, in random order."""
    own = ctx.op.ndims_params[0]
    batch = _batch(ctx, size, x.shape[: x.ndim - own])
    stream, key = streams.take_key(rng)
    if not batch:
        rows = x if own else count_along((_homogeneous(ctx, 2),), 0)
        return stream, streams.permutation(key, rows).astype(_dtype(ctx))
    population = x.shape[x.ndim - own] if own else _homogeneous(ctx, 2)
    rows = streams.permuted_positions(key, (*batch, population))
    return stream, _rows_of(x, rows, batch, own).astype(_dtype(ctx))


def _dtype(ctx: RuleContext) -> Dtype:
    return np.dtype(ctx.node.outputs[1].type.dtype)


def _rows_of(x: Value, rows: Value, batch: Shape, own: int) -> Value:
    """Return rows of an array with ``own`` axes besides the batch's; of a number, the positions."""
    if not own:
        return rows
    missing = len(batch) - (x.ndim - own)
    return d.take_rows(sh.expand_dims(x, range(missing)), rows, batch)


def _batch(ctx: RuleContext, size: Value | None, *shapes: Shape) -> Shape:
    """Return the shape of independent draws: the size, or that of the parameters."""
    return broadcast_shapes((), *shapes) if size is None else tuple(map(as_size, ctx.static(1)))


def _homogeneous(ctx: RuleContext, position: int) -> Size:
    """Return a number of integers, which must be the same for every draw."""
    counts = np.asarray(ctx.static(position)).ravel()
    if any(n != counts[0] for n in counts[1:]):
        raise UnsupportedOpError(
            f"{ctx.label(position)} asks for {[*counts]} integers, but every draw must have as "
            "many as the others. Draw them by nodes of their own."
        )
    return as_size(counts[0])
