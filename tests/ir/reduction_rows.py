"""Rows for `jaxprgen.ir.primitives.reductions`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from constructor_law import SHAPES, Call, Row, array, axes_of, dtypes, in_range, one
from hypothesis import strategies as st
from jax import lax

from jaxprgen.ir import primitives

REDUCTIONS = [
    f"reduce_{operation}" for operation in ("sum", "prod", "max", "min", "and", "or", "xor")
]


def reduction(function: Callable[..., Any]) -> Callable[..., Any]:
    return lambda x, axes: function(x, in_range(axes, x))


def repeats_axis(call: Call) -> bool:
    return len(set(call.options["axes"])) < len(call.options["axes"])


def any_axis(draw: Any, shape: tuple[int, ...]) -> int:
    """Mostly an axis of a shape; sometimes one too high."""
    return draw(st.integers(0, len(shape)))


def cumulative(function: Any) -> Row:
    def theirs(x: Any, axis: int) -> Any:
        return function(x, *in_range([axis], x))

    return Row(theirs, one(lambda draw, shape: {"axis": any_axis(draw, shape)}))


@st.composite
def sorted_together(draw: Any) -> Call:
    shape = draw(SHAPES)
    count = draw(st.integers(1, 3))
    types = [array(draw(dtypes), *shape) for _ in range(count)]
    if draw(st.sampled_from([False, False, False, True])):
        types.append(array("float32", *draw(SHAPES)))
    keys = draw(st.integers(0, len(types) + 1))
    return Call(tuple(types), {"dimension": any_axis(draw, shape), "num_keys": keys})


def lax_sort(*xs: Any, dimension: int, num_keys: int) -> Any:
    in_range([dimension], xs[0])
    return lax.sort(xs, dimension=dimension, num_keys=num_keys)


@st.composite
def moved(draw: Any) -> Call:
    """Mostly windows that fit; sometimes one too long, or negative padding."""
    shape = draw(SHAPES)
    low = draw(st.sampled_from([0, 0, 0, -1]))
    padding = [(draw(st.integers(low, 2)), draw(st.integers(0, 2))) for _ in shape]
    sizes = tuple(draw(st.integers(1, max(1, n) + (n == 3))) for n in shape)
    strides = tuple(draw(st.integers(1, 3)) for _ in shape)
    x = array(draw(dtypes), *shape)
    return Call((x,), {"sizes": sizes, "strides": strides, "padding": padding})


def of_windows(combine: Any, neutral: Any) -> Any:
    def theirs(x: Any, sizes: Any, strides: Any, padding: Any) -> Any:
        return lax.reduce_window(x, neutral(x.dtype), combine, sizes, strides, padding)

    return theirs


def lowest(dtype: Any) -> Any:
    if dtype.kind == "b":
        return np.False_
    return np.array(np.iinfo(dtype).min if dtype.kind in "iu" else -np.inf, dtype)


def is_illogical(call: Call) -> bool:
    """Whether a logical reduction does not take the dtype, or has no such axes."""
    (x,), axes = call.types, call.options["axes"]
    return x.dtype.kind in "fc" or not {*axes} <= {*range(len(x.shape))} or repeats_axis(call)


def is_unordered(call: Call) -> bool:
    """Whether there is no such axis, or no such number of keys."""
    rank, options = len(call.types[0].shape), call.options
    return options["dimension"] >= rank or not 1 <= options["num_keys"] <= len(call.types)


def is_complex(call: Call) -> bool:
    return call.types[0].dtype.kind == "c"


ROWS: dict[str, Row] = {
    **{
        name: Row(
            reduction(getattr(lax, name)),
            one(lambda draw, shape: {"axes": axes_of(draw, shape)}),
            stricter=repeats_axis,
            outside=is_illogical if name[7:] in ("and", "or", "xor") else lambda call: False,
        )
        for name in REDUCTIONS
    },
    "argmax": Row(
        lambda x, axis, dtype: lax.argmax(x, axis, dtype),
        one(
            lambda draw, shape: {
                "axis": draw(st.integers(0, len(shape))),
                "dtype": np.dtype(draw(st.sampled_from(["int32", "int64"]))),
            }
        ),
    ),
    **{name: cumulative(getattr(lax, name)) for name in ("cumsum", "cumprod", "cummax", "cummin")},
    "reduce_window_sum": Row(of_windows(lax.add, lambda d: d.type(0)), moved()),
    "reduce_window_max": Row(of_windows(lax.max, lowest), moved(), outside=is_complex),
    "sort": Row(
        lax_sort,
        sorted_together(),
        lambda b, *xs, dimension, num_keys: primitives.sort(b, xs, dimension, num_keys),
        outside=is_unordered,
    ),
    "top_k": Row(
        lambda x, k: lax.top_k(x, k), one(lambda draw, shape: {"k": draw(st.integers(-1, 3))})
    ),
}
