"""The constructor of convolutions makes the equation of `jax.lax`."""

from __future__ import annotations

import inspect
from typing import Any

import jax
import numpy as np
import pytest
from hypothesis import find, given, settings
from hypothesis import strategies as st
from jax import lax
from profiles import examples
from test_primitives import Call, Row, array, check, dtypes

from jaxprgen import _jax
from jaxprgen.ir import Builder, primitives
from jaxprgen.ir.primitives import convolution

small = st.integers(1, 3)


@st.composite
def convolutions(draw: Any) -> Call:
    """Operands that mostly fit: in their dtype, and in channels and groups."""
    rank = draw(st.integers(1, 3))
    groups, outer, inner = draw(small), draw(small), draw(small)
    kind = draw(st.sampled_from(["plain", "features", "batch"]))
    batch = groups * draw(small) if kind == "batch" else draw(st.integers(0, 2))
    sizes = [draw(st.integers(1, 6)) for _ in range(rank)]
    filters = [draw(small) for _ in range(rank)]
    channels = inner * groups if kind == "features" else inner
    off = draw(st.sampled_from([0, 0, 0, 1]))
    x, w = (batch, channels, *sizes), (outer * groups + off, inner, *filters)
    options: dict[str, Any] = {
        "strides": tuple(draw(small) for _ in range(rank)),
        "padding": tuple((draw(st.integers(-1, 2)), draw(st.integers(0, 2))) for _ in range(rank)),
    }
    for name, factor in [("x_dilation", small), ("w_dilation", small)]:
        if draw(st.booleans()):
            options[name] = tuple(draw(factor) for _ in range(rank))
    for name in ("x_axes", "w_axes", "out_axes"):
        if draw(st.booleans()):
            options[name] = tuple(draw(st.permutations(range(rank + 2))))
    x, w = (
        tuple(shape[options.get(name, range(rank + 2)).index(d)] for d in range(rank + 2))
        for name, shape in [("x_axes", x), ("w_axes", w)]
    )
    if kind != "plain":
        options["feature_groups" if kind == "features" else "batch_groups"] = groups
    dtype = draw(dtypes)
    other = draw(dtypes) if draw(st.sampled_from([False, False, False, True])) else dtype
    return Call((array(dtype, *x), array(other, *w)), options)


def lax_conv(
    x: Any,
    w: Any,
    strides: Any,
    padding: Any,
    x_dilation: Any = None,
    w_dilation: Any = None,
    x_axes: Any = None,
    w_axes: Any = None,
    out_axes: Any = None,
    feature_groups: int = 1,
    batch_groups: int = 1,
) -> Any:
    order = tuple(range(x.ndim))
    numbers = lax.ConvDimensionNumbers(x_axes or order, w_axes or order, out_axes or order)
    return lax.conv_general_dilated(
        x,
        w,
        strides,
        padding,
        lhs_dilation=x_dilation,
        rhs_dilation=w_dilation,
        dimension_numbers=numbers,
        feature_group_count=feature_groups,
        batch_group_count=batch_groups,
    )


ROWS = {"conv_general_dilated": Row(lax_conv, convolutions())}


def test_every_constructor_is_in_the_table():
    made = [n for n, f in vars(convolution).items() if inspect.isfunction(f)]
    assert sorted(ROWS) == sorted(made)


@pytest.mark.parametrize("name", ROWS)
def test_equations_and_types_are_those_of_lax(name):
    @examples(2)
    @given(ROWS[name].calls)
    def law(call):
        check(name, call, ROWS)

    law()
    # One that is taken exists, so that the law says something.
    find(ROWS[name].calls, lambda call: check(name, call, ROWS), settings=settings(database=None))


@pytest.mark.parametrize("precision", [None, "float32", "highest"])
def test_the_precision_is_the_user_s(precision):
    x = array("float32", 1, 1, 2)
    options = {"strides": (1,), "padding": ((0, 0),)}
    with jax.default_matmul_precision(precision):
        theirs = jax.make_jaxpr(lambda x: lax_conv(x, x, **options))(x).jaxpr.eqns[0]
        b = Builder([_jax.array_type(x.shape, np.dtype(x.dtype))])
        ours = primitives.conv_general_dilated(b, *b.inputs * 2, **options)
        (equation,) = b.build([ours]).jaxpr.eqns
    assert equation.params["precision"] == theirs.params["precision"]
    assert (precision is None) == (theirs.params["precision"] is None)
