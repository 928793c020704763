"""Arguments that decide how many elements there are: what masks select, where they are true."""

import warnings

import aesara
import aesara.tensor as at
import jax
import numpy as np
import pytest
from aesara.compile.builders import OpFromGraph
from aesara.tensor.extra_ops import compress
from hypothesis import given, strategies as st
from laws import DTYPES, assert_agrees, assert_same, at_once, reference, refusal
from operands import values
from profiles import examples

import jaxprgen
from jaxprgen.errors import RuntimeCheckWarning, StaticShapeError

pytestmark = pytest.mark.filterwarnings("ignore::jaxprgen.errors.RuntimeCheckWarning")

x, y = at.dvectors("x", "y")
X = at.dmatrix("X")
m = at.tensor("bool", shape=(None,), name="m")
A = np.array([3.0, -1, 0.5, 2, 7, -4])
MASK = np.array([True, False, True, True, False, False])


def numbers(*shape):
    return np.random.default_rng(len(shape)).normal(size=shape)


COUNTED = {
    "the selection": x[m],
    "sorting": at.sort(x[m]),
    "another of its size": x[m] + y,
    "another mask": x[m] * y[y > 0],
    "a shape": at.arange(x[m].shape[0]),
    "an element": x[m][0],
    "the mean of others": X[m].sum(axis=1),
    "written elsewhere": at.set_subtensor(y[y > 0], x[m]),
    "inside": OpFromGraph([x], [at.sort(x).sum()])(x[m]),
    "a mask inside": OpFromGraph([x, m], [at.sort(x[m])])(x, m),
    "two masks": X[m, m].sum(),
    "a mask and integers": X[m, at.argsort(y)],
    "two masks among slices": X[None, m, m],
    "behind a slice": X[1:, m],
    "written by two masks": at.set_subtensor(X[m, m], 0.0),
    "of all axes": X[at.outer(m, m)],
    "where a mask is true": at.nonzero(m)[0],
    "where a matrix is": at.nonzero(at.outer(m, m) * X)[1],
    "as many others": at.set_subtensor(x[at.nonzero(m)], y),
    "with others": X[at.nonzero(m)[0], y.argsort()],
    "with a slice": X[at.nonzero(m)[0], ::2].sum(),
    "of what is selected": x[m][at.nonzero(x[m] > 1)].sum(),
    "by what is selected": x[m][at.zeros_like(x[m]) < 1],
    "written to what is selected": at.set_subtensor(x[m][at.nonzero(x[m] > 1)], 1.0).sum(),
    "of which one length is said": x[at.specify_shape(at.stack([m, m]), (2, None))[0]],
    "compressed": compress(m, X, axis=1),
    "of a gradient": aesara.grad((at.exp(x[m]) * at.sort(y)).sum(), x),
    "a loop": aesara.scan(lambda a: a * 2, x[m])[0],
    "in a loop": aesara.scan(lambda a, m, x: at.sort(x[m])[0] + a, y, None, [m, x])[0],
}
Y = np.array([5.0, 1, 2])


@pytest.mark.parametrize("name", COUNTED)
def test_arguments_decide_how_many_there_are(name):
    """There is one program for each number, and tracers tell none."""
    inputs, outputs = [x, m, y, X], COUNTED[name]
    f = jaxprgen.compile(inputs, outputs)
    square = numbers(6, 6)
    for mask in (MASK, MASK[::-1]):
        args = [A, mask, Y, square]
        assert_same(f(*args), *reference(inputs, [outputs], args))
    assert f.cache_info().misses == 1
    found = jaxprgen.check(inputs, outputs)
    assert found.compiles
    assert "m" in found.static
    first, second, third, *rest = refusal(StaticShapeError, jax.jit(f), A, MASK, Y, square)
    assert first.startswith("The number of true elements of ")
    assert first.endswith(
        "decides a shape, and is known only when the program runs; keep the shape: "
        "aesara.tensor.switch(mask, x, fill), and reduce with the mask as weights. Or give the "
        "result a size: jaxprgen.compile(..., sizes={variable: n})."
    )
    name = "y" if "input 'y'" in second else "m"
    assert second == (
        f"A shape depends on the value of input {name!r}, which is a tracer (DynamicJaxprTracer) "
        "under a JAX transformation."
    )
    assert third == (
        f"Pass {name!r} as a concrete array: call this outside of the transformation, close over "
        "it, or give the array a size that does not depend on it."
    )
    assert rest[0].startswith("  in ")
    assert rest[-1].startswith("  built at LINE: ")


SIZES = st.sampled_from([(0,), (1,), (5,), (3, 0), (2, 3), (2, 3, 2)])


@examples(1, quick=0.6)
@given(st.data())
def test_what_masks_select(data):
    """Of every shape, on axes from any one on, among slices, in any dtype."""
    shape = data.draw(SIZES)
    first = data.draw(st.integers(0, len(shape) - 1))
    count = data.draw(st.integers(1, len(shape) - first))
    dtype = data.draw(st.sampled_from(DTYPES))
    v = at.tensor(dtype, [None] * len(shape))
    mask = at.tensor("bool", [None] * count)
    a = np.resize(values(dtype, limits=True), shape)
    random = np.random.default_rng(data.draw(st.integers(0, 99)))
    k = random.random(shape[first : first + count]) < data.draw(st.sampled_from([0, 0.5, 1]))
    index = [slice(None, None, -1)] * first
    outputs = [v[(*index, mask)], *at.nonzero(mask), v[(*index, *at.nonzero(mask))]]
    f = jaxprgen.compile([v, mask], outputs)
    ours, theirs = at_once(f, a, k), reference([v, mask], outputs, [a, k])
    for mine, yours in zip(ours, theirs, strict=True):
        assert_same(mine, yours, rtol=0)


def test_one_program_for_all_that_select_as_many():
    f = jaxprgen.compile([x, m], x[m])
    for mask in ~np.tri(7, 6, -1, bool):
        for permuted in (mask, mask[::-1]):
            np.testing.assert_array_equal(f(A, permuted), A[permuted])
    assert f.cache_info().currsize == f.cache_info().misses == 7


def test_what_need_not_be_counted_depends_on_no_value():
    """Nor does it where something else is counted."""
    f = jaxprgen.compile([x, m, y], [x[m].sum(), at.set_subtensor(x[m], 1.0), y[y > 0].mean()])
    for mask in (MASK, ~MASK, MASK | True):
        f(A, mask, A)
    assert f.cache_info().misses == 1
    outputs = [x[m].sum(), at.sort(y[y > 0])]
    f = assert_agrees([x, m, y], outputs, [A, MASK, A])
    f(A, MASK | True, A[::-1])
    assert f.cache_info().misses == 1


def test_derivatives_of_what_arguments_select():
    f = jaxprgen.compile([x, m], at.sort(x[m]) * at.arange(1, x[m].shape[0] + 1))
    gradient = jax.grad(lambda a: (f(a, MASK) ** 2).sum())(A)
    order = np.argsort(np.argsort(A[MASK]))
    wanted = np.zeros(6)
    wanted[MASK] = 2 * A[MASK] * (order + 1) ** 2
    assert_same(gradient, wanted)
    rows = np.stack([A, -A])
    assert_same(jax.vmap(f, (0, None))(rows, MASK), np.stack([f(row, MASK) for row in rows]))
    tangent = jax.jvp(lambda a: f(a, MASK), [A], [np.ones(6)])[1]
    assert_same(np.sort(tangent), np.array([1.0, 2, 3]))
    g = jaxprgen.compile([x], x[x > 0])
    assert_same(g(A), A[A > 0])
    for transform in (jax.vmap, lambda g: jax.grad(lambda a: g(a).sum())):
        with pytest.raises(StaticShapeError, match="value of input 'x', which is"):
            transform(g)(A if transform is not jax.vmap else rows)


def test_a_gradient_that_is_written_where_a_mask_is_true_is_not_checked():
    """As many values are written as are true: that is how many were taken."""
    gradient = aesara.grad((x[m] * y).sum(), x)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = jaxprgen.compile([x, m, y], gradient)(A, MASK, Y)
        compress_ = jaxprgen.compile([x, m], compress(m, x))(A, MASK)
    assert_same(found, np.array([5.0, 0, 1, 2, 0, 0]))
    assert_same(compress_, A[MASK])
    with pytest.warns(RuntimeCheckWarning, match="within axis 0 of size 5"):
        jaxprgen.compile([x, m], compress(m, x))(A[:5], MASK)


def test_a_size_that_is_given_comes_first():
    part = x[m]
    f = jaxprgen.compile([x, m], part, sizes={part: 4})
    for mask in (MASK, ~MASK, MASK | True):
        assert f(A, mask).shape == (4,)
    assert f.cache_info().misses == 1


def test_as_many_as_draws_say():
    rng = aesara.shared(np.random.default_rng(1), name="rng")
    f = jaxprgen.compile([x], x[at.random.normal(size=x.shape, rng=rng) > 0])
    with pytest.raises(
        StaticShapeError, match=r"The number of true elements of .* decides"
    ) as caught:
        f(jax.random.key(1), A)
    assert str(caught.value).splitlines()[1] == (
        "A shape depends on a random draw, which has no value while the program is emitted."
    )
