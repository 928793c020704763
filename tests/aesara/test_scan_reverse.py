"""Reverse-mode differentiation of loops whose steps an argument counts, or a condition ends."""

import re

import aesara
import aesara.tensor as at
import jax
import numpy as np
import pytest
from aesara.scan.utils import until
from hypothesis import given, strategies as st
from laws import reference, refusal
from looping import loops, scan
from profiles import examples

import jaxprgen
from jaxprgen import errors

a, x0 = at.dscalar("a"), at.dscalar("x0")
v0, x = at.dvector("v0"), at.dvector("x")
n, m = at.lscalar("n"), at.lscalar("m")


def logistic(c, k):
    return k * c * (1 - c)


def fibonacci(p, q, k):
    return at.sin(p) * k + q


LAST = {
    "one state": lambda n: scan(logistic, None, v0.sum() / 7, [a], n_steps=n)[-1],
    "taps": lambda n: scan(fibonacci, None, [{"initial": v0, "taps": [-2, -1]}], [a], n_steps=n)[
        -1
    ],
    "a sequence": lambda n: scan(
        lambda p, c, k: at.tanh(c + k * p), at.arange(1, n + 1) * 0.1, v0, [a]
    )[-1].sum(),
    "no state": lambda n: scan(lambda k: at.exp(-k * v0).sum(), None, None, [a], n_steps=n)[-1],
    "a loop in a loop": lambda n: scan(
        lambda c, k: scan(logistic, None, c, [k], n_steps=n)[-1], None, v0[0], [a], n_steps=n
    )[-1],
    "a computed number": lambda n: scan(logistic, None, v0[1], [a], n_steps=2 * n - 1)[-1],
}
START, RATE = np.array([0.3, 0.4]), 1.7


ALONG = np.array([1.0, -2.0])


def slope(g, start, *args):
    """The derivative along a direction, by central differences."""
    return (g(start + 1e-6 * ALONG, *args) - g(start - 1e-6 * ALONG, *args)) / 2e-6


@pytest.mark.parametrize("name", LAST)
def test_gradients_of_the_last_step(name):
    """Gradients agree with Aesara's and with finite differences; each number has a program."""
    f = jaxprgen.compile([v0, a, n], LAST[name](n))
    gradient = jax.grad(f, (0, 1))
    counts = set()

    @given(count=st.integers(1, 6))
    @examples(0.2)
    def law(count):
        found = gradient(START, RATE, count)
        cost = LAST[name](at.constant(count))
        expected = reference([v0, a], aesara.grad(cost, [v0, a]), [START, RATE])
        for p, q in zip(found, expected, strict=True):
            np.testing.assert_allclose(p, q, rtol=1e-9, atol=1e-12)
        steep = slope(lambda *args: reference([v0, a], [cost], args)[0], START, RATE)
        np.testing.assert_allclose(np.dot(found[0], ALONG), steep, rtol=1e-5, atol=1e-8)
        counts.add(count)

    law()
    assert f.cache_info().currsize == len(counts)


def test_direct_calls_share_a_program_with_each_other_but_not_with_gradients():
    f = jaxprgen.compile([v0, a, n], LAST["one state"](n))
    gradient = jax.grad(f)
    before = [f(START, RATE, count) for count in range(1, 5)]
    assert f.cache_info().currsize == 1
    gradient(START, RATE, 3)
    gradient(START, RATE, 3)
    gradient(2 * START, RATE, 4)
    assert f.cache_info().currsize == 3
    assert [f(START, RATE, count) for count in range(1, 5)] == before
    assert f.cache_info().currsize == f.cache_info().misses == 3
    g = jaxprgen.compile([v0, a, n], LAST["one state"](n))
    jax.grad(g)(START, RATE, 3)  # First.
    assert loops(g, START, RATE, 3) == ["while"]
    assert g.cache_info().currsize == 2


def test_known_numbers_under_transformations():
    """A number that JAX does not trace makes a loop with a number of steps."""
    f = jaxprgen.compile([v0, a, n], LAST["one state"](n))

    def names(g, *args):
        return re.findall(r"\b(scan|while)\[", str(jax.make_jaxpr(g)(*args)))

    assert names(lambda s: f(s, RATE, 5), START) == ["scan"]
    assert names(jax.vmap(lambda s: f(s, RATE, 5)), START[None]) == ["scan"]
    assert names(f, START, RATE, 5) == ["while"]
    expected = jax.grad(f)(START, RATE, 5)
    for g in (
        jax.jit(jax.grad(f), static_argnums=2),
        lambda *args: jax.vmap(jax.grad(f), (0, None, None))(args[0][None], *args[1:])[0],
        jax.jacfwd(f),
        jax.jacrev(f),
        lambda s, k, c: jax.jit(jax.grad(lambda s: f(s, k, c)))(s),
    ):
        np.testing.assert_allclose(g(START, RATE, 5), expected, rtol=1e-12)
    second = jax.hessian(f)(START, RATE, 5)
    np.testing.assert_allclose(second, jax.jacfwd(jax.jacfwd(f))(START, RATE, 5), rtol=1e-12)


def test_a_shared_variable_counts():
    steps = aesara.shared(2, name="steps")
    f = jaxprgen.compile([v0, a], LAST["one state"](steps))
    for count in (2, 4):
        steps.set_value(count)
        expected = jax.grad(jaxprgen.compile([v0, a], LAST["one state"](count)))(START, RATE)
        np.testing.assert_allclose(jax.grad(f)(START, RATE), expected, rtol=1e-12)


# --- Loops that have no reverse mode ----------------------------------------------------------


COUNTED = [
    "JAX cannot differentiate this loop in reverse, as jax.grad does: only the program that runs "
    "knows how many steps it takes. Forward mode works, as in jax.jvp and jax.jacfwd.",
    "For reverse mode, make n_steps a constant, or let concrete arguments decide it.",
]
counted = jaxprgen.compile([x0, n], scan(lambda c: at.sin(c), None, x0, n_steps=n)[-1])
ended = jaxprgen.compile(
    [x0, a], scan(lambda c, k: (c * 2, until(c * 2 > k)), None, x0, [a], n_steps=20)[-1]
)


def test_a_number_that_is_traced():
    expected = [
        *COUNTED,
        "A shape depends on the value of input 'n', which is a tracer (DynamicJaxprTracer) under a "
        "JAX transformation.",
        "Pass 'n' as a concrete number: mark it with jax.jit(..., static_argnums=1), close over "
        "it, or give the array a size that does not depend on it.",
        "  in for{cpu,scan_fn}(n, result of IncSubtensor{Set;:int64:})",
        "    n: int64[]",
        "    result of IncSubtensor{Set;:int64:}: TensorType(float64, (?,))",
        "  built at LINE: return aesara.scan(step, *args, **options)[0]",
    ]
    assert refusal(errors.ReverseModeError, jax.jit(jax.grad(counted)), 1.0, 3) == expected
    assert refusal(errors.ReverseModeError, jax.grad(jax.jit(counted)), 1.0, 3) == expected
    assert (
        refusal(errors.ReverseModeError, jax.jit(jax.jacrev(jax.jit(counted))), 1.0, 3) == expected
    )
    assert refusal(errors.ReverseModeError, jax.vjp(jax.jit(counted), 1.0, 3)[1], 1.0) == expected
    direct = jaxprgen.jaxpr_as_fun(counted.jaxpr(1.0, 3))
    assert refusal(errors.ReverseModeError, jax.grad(lambda s: direct(s, 3)[0]), 1.0)[:2] == COUNTED


def test_a_number_that_changes_from_step_to_step():
    inner = scan(lambda k, c: scan(lambda d: at.sin(d), None, c, n_steps=k)[-1], at.arange(3), x0)
    lines = refusal(errors.ReverseModeError, jax.grad(jaxprgen.compile([x0], inner[-1])), 1.0)
    assert lines[:3] == [
        *COUNTED,
        "A shape depends on a value that changes from one step of a loop to the next, and is not "
        "known while the program is emitted.",
    ]
    assert lines[-1].startswith("  built at LINE:")


def test_a_condition():
    assert refusal(errors.ReverseModeError, jax.grad(ended), 1.0, 9.0) == [
        "JAX cannot differentiate this loop in reverse, as jax.grad does: a condition ends it. "
        "Forward mode works, as in jax.jvp and jax.jacfwd.",
        "For reverse mode, give the loop a number of steps and no condition, and let the steps "
        "after the end return what they read.",
        "  in do_while{cpu,scan_fn}(20, result of IncSubtensor{Set;:int64:}, a)",
        "    result of IncSubtensor{Set;:int64:}: TensorType(float64, (21,))",
        "    a: float64[]",
        "  built at LINE: return aesara.scan(step, *args, **options)[0]",
    ]


def test_the_way_out_of_a_condition():
    """Steps after the end return what they read."""
    masked = scan(lambda c, k: at.switch(c > k, c, c * 2), None, x0, [a], n_steps=20)[-1]
    f = jaxprgen.compile([x0, a], masked)
    assert f(1.0, 9.0) == ended(1.0, 9.0) == 16
    assert jax.grad(f)(1.0, 9.0) == jax.jacfwd(ended)(1.0, 9.0) == 16
    assert issubclass(errors.ReverseModeError, ValueError)


@pytest.mark.parametrize("g", [counted, jax.jit(counted)], ids=["concrete", "traced"])
def test_forward_mode_works(g):
    slope = np.cos(np.sin(0.5)) * np.cos(0.5)
    np.testing.assert_allclose(jax.jvp(lambda s: g(s, 2), (0.5,), (1.0,))[1], slope)
    np.testing.assert_allclose(jax.linearize(lambda s: g(s, 2), 0.5)[1](1.0), slope)
    rows = jax.vmap(jax.jacfwd(g), (None, 0))(0.5, np.array([1, 2]))
    np.testing.assert_allclose(rows, [np.cos(0.5), slope])
    second = -np.sin(np.sin(0.5)) * np.cos(0.5) ** 2 - np.cos(np.sin(0.5)) * np.sin(0.5)
    np.testing.assert_allclose(jax.jit(jax.jacfwd(jax.jacfwd(g)))(0.5, 2), second)


def test_what_does_not_depend_on_the_loop_has_reverse_mode():
    f = jaxprgen.compile([x0, a, n], scan(lambda c: c * 2, None, a, n_steps=n)[-1] * x0)
    assert jax.jit(jax.grad(f))(3.0, 1.0, 4) == 16
    whole = jaxprgen.compile(
        [x0, n], scan(lambda k: k + 1, None, at.constant(0), n_steps=n)[-1] * x0
    )
    assert jax.jit(jax.grad(whole))(3.0, 4) == 4
