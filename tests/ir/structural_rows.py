"""Rows for `jaxprgen.ir.primitives.structural`, except gather and scatter."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from constructor_law import SHAPES, Call, Row, array, axes_of, dtypes, in_range, one
from hypothesis import strategies as st
from jax import lax, make_mesh
from jax.sharding import AxisType, NamedSharding, PartitionSpec

from jaxprgen.ir import primitives

MESH = make_mesh((2, 4), ("i", "j"), axis_types=(AxisType.Auto,) * 2)


def sizes_near(draw: Any, shape: tuple[int, ...]) -> tuple[int, ...]:
    same_size = [shape, shape[::-1], (math.prod(shape),), (1, *shape)]
    return draw(st.sampled_from(same_size) | SHAPES)


def slice_options(draw: Any, shape: tuple[int, ...]) -> dict[str, Any]:
    bounds = [sorted(draw(st.tuples(*[st.integers(0, n + (n == 3))] * 2))) for n in shape]
    return {
        "start": [low for low, _ in bounds],
        "limit": [high for _, high in bounds],
        "strides": [draw(st.sampled_from([1, 1, 2])) for _ in shape],
    }


def broadcast_options(draw: Any, shape: tuple[int, ...]) -> dict[str, Any]:
    target, where = [], []
    for n in shape:  # The operand's sizes, or what a size of one becomes, between new ones.
        target += draw(st.lists(st.integers(0, 3), max_size=1))
        where.append(len(target))
        target.append(draw(st.integers(0, 3)) if n == 1 else n)
    if where and draw(st.sampled_from([False, False, False, True])):
        where[draw(st.integers(0, len(where) - 1))] = draw(st.integers(0, len(target)))
    return {"shape": tuple(target), "dimensions": tuple(where)}


def pad_options(draw: Any, shape: tuple[int, ...]) -> dict[str, Any]:
    edge = st.integers(-1, 2)
    return {"config": [(draw(edge), draw(edge), draw(st.integers(0, 2))) for _ in shape]}


@st.composite
def padded(draw: Any) -> Call:
    call = draw(one(pad_options))
    return Call((call.types[0], array(call.types[0].dtype)), call.options)


@st.composite
def blocks(draw: Any, *, update: bool) -> Call:
    x = array(draw(dtypes), *draw(SHAPES))
    sizes = tuple(draw(st.integers(0, n + (n == 3))) for n in x.shape)
    index = draw(st.sampled_from(["int32", "int64", "uint8"]))
    start = tuple(array(index) for _ in x.shape)
    if update:
        return Call((x, array(x.dtype, *sizes), *start))
    return Call((x, *start), {"sizes": sizes})


@st.composite
def joined(draw: Any) -> Call:
    first = draw(SHAPES.filter(bool))
    dimension = draw(st.integers(0, len(first) - 1))
    dtype = draw(dtypes)
    others = [
        (*first[:dimension], draw(st.integers(0, 3)), *first[dimension + 1 :])
        for _ in range(draw(st.integers(1, 3)))
    ]
    if draw(st.sampled_from([False, False, False, True])):
        others.append(draw(SHAPES))
    last = draw(st.sampled_from([dtype, dtype, dtype, np.dtype("float32")]))
    types = (array(last, *first), *(array(dtype, *s) for s in others))
    return Call(types, {"dimension": dimension})


def ranged(draw: Any) -> Call:
    shape = draw(SHAPES)
    dimension = draw(st.integers(0, len(shape)))
    return Call((), {"dtype": draw(dtypes), "shape": shape, "dimension": dimension})


def split_options(draw: Any, shape: tuple[int, ...]) -> dict[str, Any]:
    axes = draw(st.permutations([*MESH.axis_names, *[None] * len(shape)]))
    return {"sharding": NamedSharding(MESH, PartitionSpec(*axes[: len(shape)]))}


ROWS: dict[str, Row] = {
    "broadcast_in_dim": Row(
        lambda x, shape, dimensions: lax.broadcast_in_dim(x, shape, dimensions),
        one(broadcast_options),
    ),
    "optimization_barrier": Row(lax.optimization_barrier, one(lambda draw, shape: {})),
    "reshape": Row(
        lambda x, shape: lax.reshape(x, shape),
        one(lambda draw, shape: {"shape": sizes_near(draw, shape)}),
    ),
    "sharding_constraint": Row(
        lambda x, sharding: lax.with_sharding_constraint(x, sharding), one(split_options)
    ),
    "squeeze": Row(
        lambda x, dimensions: lax.squeeze(x, in_range(dimensions, x)),
        one(lambda draw, shape: {"dimensions": axes_of(draw, shape)}),
    ),
    "transpose": Row(
        lambda x, permutation: lax.transpose(x, permutation),
        one(lambda draw, shape: {"permutation": axes_of(draw, shape)}),
    ),
    "rev": Row(
        lambda x, dimensions: lax.rev(x, in_range(dimensions, x)),
        one(lambda draw, shape: {"dimensions": axes_of(draw, shape)}),
    ),
    "slice": Row(
        lambda x, start, limit, strides: lax.slice(
            x, start, limit, None if all(n == 1 for n in strides) else strides
        ),
        one(slice_options),
    ),
    "dynamic_slice": Row(
        lambda x, *start, sizes: lax.dynamic_slice(x, start, sizes),
        blocks(update=False),
        lambda b, x, *start, sizes: primitives.dynamic_slice(b, x, start, sizes),
    ),
    "dynamic_update_slice": Row(
        lambda x, y, *start: lax.dynamic_update_slice(x, y, start),
        blocks(update=True),
        lambda b, x, y, *start: primitives.dynamic_update_slice(b, x, y, start),
    ),
    "pad": Row(lambda x, value, config: lax.pad(x, value, config), padded()),
    "concatenate": Row(
        lambda *xs, dimension: lax.concatenate(xs, dimension),
        joined(),
        lambda b, *xs, dimension: primitives.concatenate(b, xs, dimension),
    ),
    "iota": Row(
        lambda dtype, shape, dimension: lax.broadcasted_iota(dtype, shape, dimension),
        st.composite(ranged)(),
    ),
}
