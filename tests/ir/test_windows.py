"""The constructors of `jaxprgen.ir.primitives.windows` make the equations of `jax.lax`."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np
import pytest
from hypothesis import find, given, settings
from hypothesis import strategies as st
from jax import lax
from profiles import examples
from test_primitives import SHAPES, Call, Row, array, check, dtypes

from jaxprgen.ir.primitives import windows


@st.composite
def moved(draw: Any) -> Call:
    """Mostly a window as an axis has it, now and then one too long, or a negative padding."""
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


def negative(call: Call) -> bool:
    return any(low < 0 for low, _ in call.options["padding"])


def is_complex(call: Call) -> bool:
    return call.types[0].dtype.kind == "c"


ROWS: dict[str, Row] = {
    "reduce_window_sum": Row(of_windows(lax.add, lambda d: d.type(0)), moved(), stricter=negative),
    "reduce_window_max": Row(
        of_windows(lax.max, lowest), moved(), stricter=lambda c: negative(c) or is_complex(c)
    ),
}


def test_every_constructor_is_in_the_table():
    made = [n for n, f in vars(windows).items() if inspect.isfunction(f) and n[0] != "_"]
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
