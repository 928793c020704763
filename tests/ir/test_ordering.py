"""The constructors of `jaxprgen.ir.primitives.ordering` make the equations of `jax.lax`."""

from __future__ import annotations

import inspect
from typing import Any

import jax
import numpy as np
import pytest
from hypothesis import find, given
from hypothesis import strategies as st
from jax import lax
from profiles import examples
from test_primitives import SHAPES, Call, Row, array, check, dtypes, in_range, one

from jaxprgen import _jax
from jaxprgen.ir import Builder, primitives
from jaxprgen.ir.primitives import ordering


def any_axis(draw: Any, shape: tuple[int, ...]) -> int:
    """Mostly an axis of a shape, now and then one too high."""
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
def transformed(draw: Any) -> Call:
    shape = tuple(n + 1 for n in draw(SHAPES))
    rank = draw(st.integers(1, max(1, len(shape))))
    kind = draw(st.sampled_from(["FFT", "IFFT", "RFFT", "IRFFT"]))
    wanted = st.sampled_from(["float32", "float64"] if kind == "RFFT" else ["complex64"])
    lengths = shape[-rank:]
    if kind == "IRFFT" and shape:
        lengths = (*lengths[:-1], max(1, 2 * (lengths[-1] - 1)))
    if draw(st.sampled_from([False, False, False, True])):
        lengths = draw(st.lists(st.integers(1, 4), min_size=1, max_size=3).map(tuple))
    return Call((array(draw(wanted | dtypes), *shape),), {"kind": kind, "lengths": lengths})


def lax_fft(x: Any, kind: str, lengths: Any) -> Any:
    """The equation inside of the program that `jax.lax.fft` is."""
    whole = jax.make_jaxpr(lambda x: lax.fft(x, kind, lengths))(x)
    (eqn,) = whole.jaxpr.eqns
    inner = eqn.params["jaxpr"].jaxpr.eqns
    if len(inner) > 1:  # JAX converts to what can be transformed; ours is the caller's to do.
        raise TypeError
    return _jax.primitive("fft").bind(x, **inner[0].params)


ROWS: dict[str, Row] = {
    **{name: cumulative(getattr(lax, name)) for name in ("cumsum", "cumprod", "cummax", "cummin")},
    "sort": Row(
        lax_sort,
        sorted_together(),
        lambda b, *xs, dimension, num_keys: primitives.sort(b, xs, dimension, num_keys),
    ),
    "top_k": Row(
        lambda x, k: lax.top_k(x, k), one(lambda draw, shape: {"k": draw(st.integers(-1, 3))})
    ),
    "fft": Row(lax_fft, transformed()),
}


def test_every_constructor_is_in_the_table():
    made = [n for n, f in vars(ordering).items() if inspect.isfunction(f) and n[0] != "_"]
    assert sorted(ROWS) == sorted(n for n in made if n != "are_axes")


@pytest.mark.parametrize("name", ROWS)
def test_equations_and_types_are_those_of_lax(name):
    @examples(2)
    @given(ROWS[name].calls)
    def law(call):
        check(name, call, ROWS)

    law()
    # One that is taken exists, so that the law says something.
    find(
        ROWS[name].calls, lambda call: check(name, call, ROWS), settings=examples(20, database=None)
    )


def test_a_callback_is_that_of_jax():
    theirs = jax.make_jaxpr(lambda x: jax.debug.callback(print, x, ordered=True))(1.0).jaxpr
    b = Builder([_jax.array_type((), np.dtype("float64"))])
    assert b.bind_multiple(_jax.debug_callback_p, b.inputs, _jax.debug_callback_params(print)) == []
    (ours,), (wanted,) = b.build([]).jaxpr.eqns, theirs.eqns
    assert ours.primitive is wanted.primitive
    assert ours.effects == wanted.effects
    assert list(ours.params) == list(wanted.params)
    assert {**ours.params, "callback": None} == {**wanted.params, "callback": None}
