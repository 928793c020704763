"""Products and triangular systems of transposed arrays."""

from __future__ import annotations

import hypothesis.strategies as st
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from jax import lax
from laws import in_one_program
from profiles import examples

import jaxprgen
from jaxprgen.passes import Simplify, Stabilize
from jaxprgen.passes.simplify import UNTRANSPOSED
from jaxprgen.rewrite import explain

PASSES = Simplify(reassociate=True), Stabilize()


def numbers(*shape):
    return np.random.default_rng(len(shape)).normal(size=shape)


def transposes(f, *args):
    return str(jax.make_jaxpr(f)(*args)).count("transpose[")


@pytest.mark.parametrize("by", PASSES, ids=repr)
@pytest.mark.parametrize(
    ("f", "shapes"),
    [
        (lambda x, y: x.T @ y, [(4, 3), (4,)]),
        (lambda x, y: y @ x.T, [(3, 4), (4,)]),
        (lambda x, y: x.T @ y.T, [(4, 3), (5, 4)]),
        (lambda x, y: x.T @ x, [(4, 3), ()]),
        (lambda x, y: jnp.swapaxes(x, 1, 2) @ y, [(2, 4, 3), (2, 4, 5)]),
    ],
)
def test_products_do_without_transposes(f, shapes, by):
    args = [numbers(*shape) for shape in shapes]
    g = jaxprgen.transform(f, by)
    assert transposes(f, *args) and not transposes(g, *args)
    np.testing.assert_allclose(g(*args), f(*args), rtol=1e-12)


@st.composite
def products(draw):
    """Draw a product of two transposed arrays along any of their axes."""
    contracted, batched = (draw(st.integers(0, 2)) for _ in range(2))
    ranks = [draw(st.integers(contracted + batched, 5)) for _ in range(2)]
    places = [draw(st.permutations(range(n))) for n in ranks]
    sizes = [[0] * n for n in ranks]
    contract = [tuple(p[:contracted]) for p in places]
    batch = [tuple(p[contracted : contracted + batched]) for p in places]
    for pair in (*zip(*contract, strict=True), *zip(*batch, strict=True)):
        size = draw(st.integers(1, 3))
        for shape, d in zip(sizes, pair, strict=True):
            shape[d] = size
    shapes = [[n or draw(st.integers(1, 3)) for n in shape] for shape in sizes]
    orders = [draw(st.permutations(range(n))) for n in ranks]
    before = [[s[o.index(d)] for d in range(len(o))] for s, o in zip(shapes, orders, strict=True)]

    def f(x, y):
        x, y = (lax.transpose(a, order) for a, order in zip((x, y), orders, strict=True))
        return lax.dot_general(x, y, (tuple(contract), tuple(batch)))

    return f, [numbers(*shape) for shape in before]


@examples(3, quick=0.6)
@given(products(), st.sampled_from(PASSES))
def test_random_products_agree(product, by):
    f, args = product
    (ours,), (theirs,) = in_one_program([jaxprgen.transform(f, by), f], *args)
    np.testing.assert_allclose(ours, theirs, rtol=1e-12, atol=1e-12)


def test_transposes_that_change_the_order_of_remaining_axes_stay():
    def f(x, y):
        return jnp.tensordot(x.transpose(2, 1, 0), y, 1)

    args = numbers(4, 3, 2), numbers(4, 3)
    assert "the remaining axes would change places" in str(explain(UNTRANSPOSED[0], f, *args))
    assert transposes(jaxprgen.transform(f, *PASSES), *args) == 1


def test_precision_is_kept():
    def f(x, y):
        return lax.dot(x.T, y, precision="highest", preferred_element_type=jnp.float64)

    x = numbers(3, 3).astype(np.float32)
    after = jax.make_jaxpr(jaxprgen.transform(f, *PASSES))(x, x)
    assert str(after).count("Precision.HIGHEST") and "preferred_element_type=float64" in str(after)


# --- Triangular systems -------------------------------------------------------------------


@examples(3, quick=0.6)
@given(
    st.sampled_from(PASSES),
    st.sampled_from([(3, 3), (2, 3, 3)]),
    st.sampled_from([np.float64, np.complex128]),
    *[st.booleans()] * 4,
)
def test_random_triangular_systems_agree(by, shape, dtype, left, lower, transpose, unit):
    rng = np.random.default_rng(0)
    imaginary = 1j if dtype is np.complex128 else 0
    a, y = (rng.normal(size=shape) + imaginary * rng.normal(size=shape) for _ in "ay")
    a = a + 3 * np.eye(3)

    def f(a, y):
        settings = {"left_side": left, "lower": lower, "unit_diagonal": unit}
        turn = {"transpose_a": transpose, "conjugate_a": transpose and dtype is np.complex128}
        return lax.linalg.triangular_solve(jnp.swapaxes(a, -1, -2), y, **settings, **turn)

    g = jaxprgen.transform(f, by)
    assert transposes(f, a, y) == 1 and not transposes(g, a, y)
    (ours,), (theirs,) = in_one_program([g, f], a, y)
    np.testing.assert_allclose(ours, theirs, rtol=1e-10, atol=1e-12)


def test_transposes_of_batch_axes_stay():
    def f(a, y):
        return lax.linalg.triangular_solve(a.transpose(1, 0, 2), y, left_side=True)

    args = numbers(3, 3, 3), numbers(3, 3, 3)
    assert "other axes change places" in str(explain(UNTRANSPOSED[2], f, *args))
    assert transposes(jaxprgen.transform(f, *PASSES), *args) == 1
