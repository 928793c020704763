"""Ranges whose length only the running program knows: a loop counts them."""

import aesara
import aesara.tensor as at
import jax
import numpy as np
import pytest
from aesara.ifelse import ifelse
from aesara.scan.utils import until
from hypothesis import given, strategies as st
from laws import assert_agrees, assert_same, reference
from profiles import examples, in_turn

import jaxprgen
from jaxprgen._jax import check_jaxpr
from jaxprgen.errors import StaticShapeError

a, c = at.lscalars("a", "c")
START = at.as_tensor(np.int64(1))


def loops(by, dtype):
    """The last values of loops over parts of a range."""
    numbers = at.arange(a, c, by, dtype=dtype)
    step = {
        "whole": (numbers, lambda n, x: 3 * x + n),
        "part": (numbers[1:], lambda n, x: 3 * x + n),
        "end": (numbers[:-1], lambda n, x: 2 * x - n),
        "until": (numbers, lambda n, x: (2 * x + n, until(x > 60))),
    }
    outputs = []
    for sequence, function in step.values():
        trace, _ = aesara.scan(
            lambda n, x, function=function: function(at.cast(n, "int64"), x), sequence, START
        )
        outputs.append(trace[-1])
    return outputs


@pytest.mark.parametrize(("by", "dtype"), in_turn([1, 3, -2], ["int64", "int16"]))
def test_a_loop_over_a_range(by, dtype):
    outputs = loops(by, dtype)
    f = jaxprgen.compile([a, c], outputs)
    run = jax.jit(f)

    @examples(0.3)
    @given(st.integers(3, 40), st.integers(2, 9))
    def check(first, steps):
        args = [np.asarray(first if by > 0 else first + 30), 0]
        args[1] = args[0] + by * steps
        wanted = reference([a, c], outputs, args)
        for mine, concrete, yours in zip(run(*args), f(*args), wanted, strict=True):
            assert_same(mine, yours)
            assert_same(concrete, yours)

    check()
    check_jaxpr(f.jaxpr(*(jax.ShapeDtypeStruct((), np.int64),) * 2).jaxpr)


def test_a_range_in_a_loop():
    """As samplers have it: a loop doubles the number of steps of the one inside."""

    def outer(i, total):
        trace, _ = aesara.scan(lambda n, x: x + n * n, at.arange(1, 1 + 2**i), total)
        return trace[-1]

    trace, _ = aesara.scan(outer, at.arange(5), START)
    assert_agrees([], [trace], [])
    assert_agrees([], [trace[-1]], [])


def test_a_range_that_is_needed_is_refused():
    for output in (at.arange(a, c), at.arange(a, c) * 2, at.arange(a, c)[::-1].sum()):
        f = jaxprgen.compile([a, c], output)
        with pytest.raises(StaticShapeError, match=r"value of input 'a'[\s\S]*ARange"):
            jax.jit(f)(1, 5)
        assert_same(f(1, 5), reference([a, c], [output], [np.int64(1), np.int64(5)])[0])


def test_the_number_of_rows_is_no_shape():
    trace, _ = aesara.scan(lambda n, x: x + n, at.arange(a), START)
    f = jaxprgen.compile([a], [at.zeros(trace.shape[0]).sum()])
    with pytest.raises(StaticShapeError):
        jax.jit(f)(3)
    assert_same(jax.jit(jaxprgen.compile([a], trace.shape[0]))(3), np.asarray(3))


@pytest.mark.parametrize("number", [2, 7])
def test_a_branch_reads_what_a_loop_leaves(number):
    trace, _ = aesara.scan(lambda n, x: (x + n, until(x > 20)), at.arange(1, a), START)
    large = at.gt(a, 5)
    outputs = ifelse(large, [trace[-1], large], [at.sum(trace) + START, large])
    traced = [ifelse(large, trace[-1], START), large]
    assert_agrees([a], [*outputs, trace[-1] * 2, *traced], [number])
    run = jax.jit(jaxprgen.compile([a], traced))
    jax.tree.map(assert_same, list(run(number)), reference([a], traced, [np.int64(number)]))
