"""Loops that `aesara.grad` writes, and JAX's derivatives of loops: both are the same."""

import aesara
import aesara.tensor as at
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from laws import all_equations, assert_agrees, assert_derivatives, inputs_among, refusal
from looping import scan

import jaxprgen
from jaxprgen import errors

x, v0, X = at.dvector("x"), at.dvector("v0"), at.dmatrix("X")
a, b, x0 = at.dscalar("a"), at.dscalar("b"), at.dscalar("x0")
numbers = np.array([0.5, -1.0, 2.0, 0.25, 3.0, -0.75]) / 2


def inner(row, c, k):
    return scan(lambda p, q, k: at.tanh(q * k) + p, row, c, [k])[-1]


def stepped(p, c, k):
    return at.tanh(c) * k + p


COSTS = {
    "all rows": (scan(stepped, x, x0, [a]) ** 2).sum(),
    "the last row": scan(stepped, x, x0, [a])[-1],
    "some rows": scan(stepped, x, x0, [a])[1:-1:2].sum(),
    "backwards": scan(stepped, x, x0, [a], go_backwards=True)[-1],
    "taps": (
        scan(
            lambda p, q, c, d, k: at.sin(c * k) * d + p * q,
            [{"input": x, "taps": [-2, 1]}],
            [{"initial": v0, "taps": [-1, -3]}],
            [a],
        )
        ** 3
    ).sum(),
    "first taps": scan(
        lambda p, c: at.exp(c) * p, x, [{"initial": v0, "taps": [-3]}], n_steps=4
    ).sum(),
    "a map": scan(lambda p, k: at.exp(p * k), x, None, [a]).sum(),
    "two results": sum(
        t.sum() for t in scan(lambda p, c, k: (c * k + p, c * c), x, [x0, None], [a])
    ),
    "rows": scan(lambda r, c, k: at.tanh(c * r) * k + c, X, x, [a])[-1].sum(),
    "a loop in a loop": (scan(inner, X, x0, [a]) ** 2).sum(),
}
VALUES = {x: numbers, v0: numbers[:3], X: np.outer(numbers[:4], numbers), a: 0.5, x0: 0.25}


def graph_of(name):
    """The inputs, the cost and the arguments of a row of the table."""
    inputs = inputs_among([x, X, v0, x0, a], COSTS[name])
    return inputs, COSTS[name], [np.asarray(VALUES[v]) for v in inputs]


@pytest.mark.parametrize("name", COSTS)
def test_gradients(name):
    """Those of Aesara's Python linker, and of JAX to ten digits; some also of the gradient."""
    inputs, cost, args = graph_of(name)
    assert_derivatives(inputs, cost, args)
    if name in ("the last row", "two results"):
        assert_derivatives(inputs, aesara.grad(cost, inputs[-1]), args)
        f, last = jaxprgen.compile(inputs, cost), len(inputs) - 1
        again = jax.grad(jax.grad(f, last), range(len(args)))(*args)
        slopes = aesara.grad(aesara.grad(cost, inputs[-1]), inputs)
        for ours, theirs in zip(again, jaxprgen.compile(inputs, slopes)(*args), strict=True):
            np.testing.assert_allclose(ours, theirs, rtol=1e-10, atol=1e-12)


def test_second_derivatives_by_jax():
    """Of all rows, where those that `aesara.grad` makes of its own gradient are wrong."""
    inputs, cost, args = graph_of("all rows")
    f, g = (jaxprgen.compile(inputs, y) for y in (cost, aesara.grad(cost, a)))
    by_jax, by_both = jax.jit(jax.grad(jax.grad(f, 2), 2)), jax.jit(jax.grad(g, 2))
    np.testing.assert_allclose(by_jax(*args), by_both(*args), rtol=1e-10)
    step = 1e-5
    slopes = [g(args[0], args[1], args[2] + sign * step) for sign in (1, -1)]
    np.testing.assert_allclose(by_jax(*args), (slopes[0] - slopes[1]) / (2 * step), rtol=1e-7)


def test_truncated_gradients():
    """As many steps back as are asked for, and zeros before them."""
    traces = [scan(stepped, x, x0, [a], truncate_gradient=steps) for steps in (1, 3, 6, 9)]
    gradients = [g for t in traces for g in aesara.grad((t**2).sum(), [x, x0, a])]
    assert_agrees([x, x0, a], gradients, [numbers, 0.25, 0.5])


def test_gradients_of_steps_that_an_argument_counts():
    n = at.lscalar("n")
    last = scan(lambda c, k: c * k, None, x0, [a], n_steps=n)[-1]
    f = assert_agrees([x0, a, n], aesara.grad(last, [x0, a]), [2.0, 0.5, 4])
    np.testing.assert_allclose(f(2.0, 0.5, 3), [0.125, 1.5])


# --- As good as by hand ---------------------------------------------------------------------


def likelihood(y, rho, mu, log_sigma):
    """The log-likelihood of an AR(1) process."""

    def step(now, before, total, rho, mu, log_sigma):
        residual = (now - mu - rho * (before - mu)) / at.exp(log_sigma)
        return total - 0.5 * residual**2 - log_sigma

    rows = [{"input": y, "taps": [0, -1]}]
    return scan(step, rows, at.zeros(()), [rho, mu, log_sigma])[-1]


def likelihood_by_hand(y, rho, mu, log_sigma):
    def step(total, rows):
        residual = (rows[0] - mu - rho * (rows[1] - mu)) / jnp.exp(log_sigma)
        return total - 0.5 * residual**2 - log_sigma, None

    return jax.lax.scan(step, 0.0, (y[1:], y[:-1]))[0]


def count(jaxpr):
    return sum(1 for _ in all_equations(jaxpr))


def test_an_autoregression_is_as_good_as_by_hand():
    """The same derivatives; within a fifth as many equations, those of Aesara's gradient too."""
    inputs, wrt = [x, a, b, x0], [a, b, x0]
    args = np.resize(numbers, 1001), 0.5, 0.25, -0.125
    cost = likelihood(*inputs)
    f = jaxprgen.compile(inputs, cost)
    g = jaxprgen.compile(inputs, [cost, *aesara.grad(cost, wrt)])
    by_hand = jax.value_and_grad(likelihood_by_hand, (1, 2, 3))
    ours = jax.value_and_grad(lambda *xs: f(*xs), (1, 2, 3))
    for found in (ours(*args), g(*args)):
        for p, q in zip(jax.tree.leaves(found), jax.tree.leaves(by_hand(*args)), strict=True):
            np.testing.assert_allclose(p, q, rtol=1e-10)
    allowed = 1.2 * count(jax.make_jaxpr(by_hand)(*args).jaxpr)
    assert count(jax.make_jaxpr(ours)(*args).jaxpr) <= allowed
    assert count(g.jaxpr(*args).jaxpr) <= allowed


def test_a_window_stays_in_its_array():
    """A loop that reads and writes rows of an array, of which there are too few."""
    t = scan(stepped, x, x0, [a])
    gradient = aesara.grad(t[-1], x0)
    nodes = aesara.graph.basic.io_toposort([x, x0, a], [gradient])
    (node,) = (n for n in nodes if getattr(getattr(n.op, "info", None), "n_mit_mot", 0))
    inputs = [v.type(f"i{i}") if v.owner else v for i, v in enumerate(node.inputs)]
    f = jaxprgen.compile(inputs, node.op(*inputs)[0])
    args = [np.resize(numbers, (7,) * v.ndim).astype(v.dtype) for v in inputs]
    args[0] = np.asarray(7)
    assert refusal(errors.ShapeMismatchError, f.jaxpr, *args)[0] == (
        "Array 0 has 7 rows, but 7 steps of the loop read and write its rows from 0 up to 8."
    )
