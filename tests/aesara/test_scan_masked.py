"""Loops whose steps range over, fill or draw as many elements as their rows say."""

import aesara.tensor as at
import jax
import numpy as np
import pytest
from aesara.compile.builders import OpFromGraph
from hypothesis import given, strategies as st
from jax.experimental import checkify
from laws import assert_agrees, assert_same, equations, inputs_among, reference, refusal
from looping import loops, scan
from profiles import examples

import jaxprgen
from jaxprgen import errors

y, z, M = at.lvector("y"), at.lvector("z"), at.lmatrix("M")
h, n = at.dscalar("h"), at.lscalar("n")
COUNTS = np.array([3, 0, 5, 5, 1])
quiet = pytest.mark.filterwarnings("ignore::jaxprgen.errors.RuntimeCheckWarning")


def several(k, h):
    r = at.arange(k) * h
    return r.sum() + at.exp(-r).sum() + at.prod(r + 1) + r.shape[0] + (r > 1).sum()


def over(step, *sequences):
    """A loop over rows whose steps read a number."""
    return scan(step, [*sequences], None, [h], strict=False)


LOOPS = {
    "functions and reductions": over(several, y),
    "a state": scan(lambda k, c, h: (c + at.arange(k) * h).sum() * 0.1, y, h * 1.0, [h]),
    "two sequences": over(lambda m, n, h: (at.arange(m, n) * h).sum(), y, z),
    "steps": over(lambda m, n, h: at.cos(at.arange(m, n, -2) * h).sum(), y, z),
    "rows of a matrix": over(lambda r, h: (at.arange(r[0] + r[1]) * h).sum(), M),
    "filled": over(lambda k, h: (at.ones(k) * h * at.arange(k)).sum(), y),
    "a matrix of rows": over(lambda k, h: at.full((k, 2), h).sum(0), y),
    "a loop in a loop": over(
        lambda k, h: scan(lambda j, k: (at.arange(k) * j).sum(), at.arange(3), None, [k]).sum(), y
    ),
    "a graph in a loop": over(lambda k, h: OpFromGraph([n, h], [several(n, h)])(k, h), y),
}

rows = st.lists(st.integers(0, 6), min_size=1, max_size=6).map(np.array)


@pytest.mark.parametrize("name", LOOPS)
@quiet
def test_values_are_those_of_aesara(name):
    """One program serves all rows of one largest size."""
    output = LOOPS[name]
    inputs = inputs_among([y, z, M, h], output)
    f = jaxprgen.compile(inputs, output)

    @given(drawn=rows, scale=st.sampled_from([0.3, -1.0]))
    @examples(0.4)
    def law(drawn, scale):
        values = {y: drawn, z: drawn[::-1] + 1, M: np.stack([drawn, drawn[::-1]], 1), h: scale}
        args = [values[v] for v in inputs]
        assert_same(f(*args), reference(inputs, [output], args)[0])

    law()


def test_a_largest_size_has_a_program():
    f = jaxprgen.compile([y, h], scan(several, y, None, [h]))
    for drawn in ([1, 2, 5], [5, 5, 0], [5, 0, 0], [0, 1, 4]):
        f(np.array(drawn), 0.5)
    assert f.cache_info().currsize == 2
    assert loops(f, COUNTS, 0.5) == []  # The steps are independent of each other.
    assert_agrees([y, h], [scan(several, y, None, [h])], [COUNTS[:0], 0.5])


def test_rows_known_ahead():
    """They are masked, not unrolled, if that is possible."""
    f = assert_agrees([h], [scan(several, at.constant(COUNTS), None, [h])], [0.5])
    once = equations(jaxprgen.compile([h], several(at.constant(5), h)), 0.5)
    assert equations(f, 0.5).count("exp") == once.count("exp") == 1
    many = scan(several, at.arange(300) % 7, None, [h])  # More than are unrolled.
    assert_agrees([h], [many], [0.1])


def test_gradients():
    cost = scan(lambda k, h: at.exp(-h * at.arange(k)).sum(), y, None, [h]).sum()
    f = jaxprgen.compile([y, h], cost)
    exact = sum(-j * np.exp(-0.3 * j) for k in COUNTS for j in range(k))
    np.testing.assert_allclose(jax.grad(f, 1)(COUNTS, 0.3), exact, rtol=1e-12)
    np.testing.assert_allclose(jax.jit(jax.grad(lambda h: f(COUNTS, h)))(0.3), exact, rtol=1e-12)


# --- Draws ------------------------------------------------------------------------------------


def keys(key, count):
    """The keys of the draws of one generator in a loop."""
    return [jax.random.fold_in(jax.random.fold_in(key, 0), i) for i in range(count)]


DRAWS = {
    "size": (lambda s, k: s.normal(size=k), lambda key, k: jax.random.normal(key, (k,))),
    "rows": (lambda s, k: s.normal(size=(k, 2)), lambda key, k: jax.random.normal(key, (k, 2))),
    "range": (
        lambda s, k: s.normal(at.arange(k), 1),
        lambda key, k: jax.random.normal(key, (k,)) + np.arange(k),
    ),
    "both": (
        lambda s, k: s.normal(at.arange(k), 1, size=(k,)),
        lambda key, k: jax.random.normal(key, (k,)) + np.arange(k),
    ),
    "product": (
        lambda s, k: s.exponential(size=k) * at.arange(k),
        lambda key, k: jax.random.exponential(key, (k,)) * np.arange(k),
    ),
    "chances": (
        lambda s, k: s.bernoulli(1 / (1.0 + at.arange(k))),
        lambda key, k: jax.random.bernoulli(key, 1 / (1.0 + np.arange(k))),
    ),
}


@pytest.mark.parametrize("name", DRAWS)
def test_draws_are_those_of_jax(name):
    """The first of as many as there can be are the same as a draw of no more."""
    (step, expected), stream = DRAWS[name], at.random.RandomStream()
    f, key = jaxprgen.compile([y], scan(lambda k: step(stream, k).sum(), y)), jax.random.key(3)
    sums = [expected(own, k).sum() for own, k in zip(keys(key, 5), COUNTS, strict=True)]
    found = f(key, COUNTS)
    np.testing.assert_allclose(found, np.array(sums, found.dtype), rtol=1e-12, atol=1e-12)
    assert f.cache_info().currsize == 1


def test_a_chinese_restaurant_table_sampler():
    """As aemcmc has it: the number of tables of each of many customers' groups."""
    stream = at.random.RandomStream()

    def tables(k, h):
        n = at.arange(2, k + 1)
        return at.switch(k < 1, 0, 1 + stream.bernoulli(h / (n - 1 + h)).sum())

    f = jaxprgen.compile([y, h], scan(tables, y.ravel(), None, [h], strict=True))
    key, groups = jax.random.key(1), np.repeat([0, 1, 20], 2000)
    found = np.asarray(f(key, groups, 2.0)).reshape(3, -1)
    assert found[0].max() == 0 and found[1].min() == found[1].max() == 1
    mean = sum(2.0 / (n + 2.0) for n in range(20))
    np.testing.assert_allclose(found[2].mean(), mean, rtol=0.05)
    many = jax.vmap(lambda key: f(key, groups[-5:], 2.0))(jax.random.split(key, 3))
    assert many.shape == (3, 5)


def test_checks_ignore_elements_that_a_step_lacks():
    stream, key = at.random.RandomStream(), jax.random.key(0)
    drawn = scan(lambda k: stream.normal(0, 3 - at.arange(k)).sum(), y)
    f = checkify.checkify(jaxprgen.compile([y], drawn, checks=True))
    assert f(key, np.array([1, 4]))[0].get() is None
    assert "scale >= 0" in f(key, np.array([1, 5]))[0].get()


# --- What is refused --------------------------------------------------------------------------

CHANGES = [
    "A shape depends on a value that changes from one step of a loop to the next, and is not "
    "known while the program is emitted.",
    "Make all that the loop gives of one shape: compute with as much as there can be, and mask "
    "the rest.",
]


@pytest.mark.parametrize(
    "step",
    [
        lambda k: at.arange(k),
        lambda k: at.sort(at.arange(k)).sum(),
        lambda k: at.ones((k, k)).sum(),
        lambda k: (at.arange(k) * at.arange(1, k + 1)).sum(),
        lambda k, c: at.arange(c + k).sum(),
    ],
    ids=["returned", "sorted", "two axes", "two ranges", "a state"],
)
def test_sizes_that_a_mask_does_not_replace(step):
    start = y[0] if step.__code__.co_argcount == 2 else None
    lines = refusal(errors.StaticShapeError, jaxprgen.compile([y], scan(step, y, start)), COUNTS)
    assert lines[:2] == CHANGES
    assert lines[-1].startswith("  built at LINE")


def test_rows_that_are_traced():
    f = jaxprgen.compile([y, h], scan(several, y, None, [h]))
    f(COUNTS, 0.5)
    lines = refusal(errors.StaticShapeError, jax.jit(f), COUNTS, 0.5)
    assert lines[0] == (
        "A shape depends on the value of input 'y', which is a tracer (DynamicJaxprTracer) under a "
        "JAX transformation."
    )
    assert [line.split("(")[0] for line in lines if line.startswith("  in ")] == [
        "  in ARange{dtype='int64'}",
        "  in for{cpu,scan_fn}",
    ]


def test_negative_sizes():
    f = jaxprgen.compile([y], scan(lambda k: at.ones(k).sum(), y))
    with pytest.raises(errors.ShapeMismatchError, match=r"Sizes must be >= 0, got \(-1,\)"):
        f(np.array([2, -1]))


def test_check_says_what_decides():
    text = str(jaxprgen.check([y, h], scan(several, y, None, [h])))
    assert "its shape is decided by the value of y" in text
