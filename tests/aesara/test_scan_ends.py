"""Loops whose number of steps is decided by values, draws inside of loops, and what is refused."""

import aesara
import aesara.tensor as at
import jax
import numpy as np
import pytest
from aesara.compile.mode import Mode, get_mode
from aesara.ifelse import ifelse
from aesara.scan.utils import until
from laws import assert_agrees, failures, reference, refusal
from looping import loops, scan

import jaxprgen
from jaxprgen import errors

x, v0, X = at.dvector("x"), at.dvector("v0"), at.dmatrix("X")
a, x0 = at.dscalar("a"), at.dscalar("x0")
n, m = at.lscalar("n"), at.lscalar("m")
numbers = np.array([0.5, -1.0, 2.0, 0.25, 3.0, -0.75])
quiet = pytest.mark.filterwarnings("ignore::jaxprgen.errors.RuntimeCheckWarning")


# --- A number of steps that values decide -----------------------------------------------------

doubled = scan(lambda c: c * 2, None, x0, n_steps=n)
ended = scan(lambda c, k: ((c * 2, c), until(c > k)), None, [x0, None], [a], n_steps=20)
newton = scan(
    lambda c, k: (c - (c**2 - k) / (2 * c), until(abs(c**2 - k) < 1e-12)),
    None,
    at.ones(()),
    [a],
    n_steps=100,
)


def test_steps_that_an_argument_counts():
    """One program does for all numbers of steps, if only the last value is used."""
    f = assert_agrees([x0, n], doubled[-1], [1.0, 5])
    assert loops(f, 1.0, 5) == ["while"]
    assert [f(1.0, k) for k in (1, 3, 9)] == [2, 8, 512]
    assert f.cache_info().misses == 1
    np.testing.assert_array_equal(jax.vmap(f, (None, 0))(1.0, np.arange(1, 4)), [2, 4, 8])
    whole = assert_agrees([x0, n], [doubled, doubled[-1]], [1.0, 5])
    assert loops(whole, 1.0, 5) == ["scan"]


def test_loops_over_a_range_that_a_loop_counts():
    """The sequence is no array then: its numbers are counted."""

    def triangle(k, c):
        return c + scan(lambda i, d, k: d + i * k, at.arange(1, k + 1), at.zeros_like(k), [k])[-1]

    total = scan(triangle, at.arange(1, 6), at.constant(0, dtype="int64"))
    (f,) = (assert_agrees([], [total], []),)
    assert loops(f) == ["scan"]
    last = scan(lambda i, d: d * 2 + i, at.arange(n), at.constant(0, dtype="int64"))[-1]
    f = assert_agrees([n], last, [4])
    assert [f(k) for k in (1, 2, 6)] == [0, 1, 57]
    assert jax.jit(f)(6) == 57


@quiet
def test_until():
    """Past some steps, past the first, and never."""
    outputs = [ended[0][-1], ended[1][-1], newton[-1]]
    first, second = ended
    reduced = [
        first.sum(),
        at.exp(-second).max(),
        first.shape[0],
        (first * second).mean(),
        first[1:].sum(),
        second[-1],
    ]
    f = jaxprgen.compile([x0, a], outputs)
    for bound in (50.0, 0.5, 1e9):
        assert_agrees([x0, a], [*outputs, *(reduced if bound > 1 else reduced[:4])], [1.0, bound])
        assert loops(f, 1.0, bound) == ["while", "while"]
    memory = f.lower(1.0, 50.0).compile().memory_analysis()
    assert memory.temp_size_in_bytes < 1000  # Nothing is stacked.
    g, batch = jaxprgen.compile([a], newton[-1]), np.array([2.0, 100.0, 1e-3])
    np.testing.assert_allclose(jax.vmap(g)(batch), np.sqrt(batch), rtol=1e-12)
    np.testing.assert_allclose(jax.jvp(g, (2.0,), (1.0,))[1], 0.5 / np.sqrt(2), rtol=1e-8)


def test_until_with_taps_sequences_and_a_limit():
    step = lambda p, c, d, k: (c + d * p, until(c > k))  # noqa: E731
    t = scan(step, x, [{"initial": v0, "taps": [-1, -2]}], [a])
    assert_agrees([x, v0, a], [t[-1], t.sum()], [numbers, np.ones(2), 1.2])
    t = scan(lambda c, k: (c * 2, until(c > k)), None, x0, [a], n_steps=n)
    f = assert_agrees([x0, a, n], t[-1], [1.0, 50.0, 4])
    assert f(1.0, 50.0, 40) == 128
    assert f.cache_info().misses == 1
    assert_agrees([x0, a, n], [t.sum()], [1.0, 50.0, 40])


@quiet
def test_rows_of_a_trace_that_the_program_counts():
    """By an index that is known as late; so what Aesara's rewriting makes of the last row works."""
    outputs = [ended[0][n], ended[1][1:][n], ended[0][n + 1] * 0.5]
    for k in (0, -1, 2, -3):
        assert_agrees([x0, a, n], outputs, [1.0, 50.0, k])
    wrong, right = failures([x0, a, n], ended[0][n], [1.0, 50.0, 7], [1.0, 50.0, 6])
    assert "The loop ends before it reaches this row." in wrong and right is None
    function = aesara.function([a], newton[-1], mode=Mode("py", "fast_run"))
    rewritten = jaxprgen.compile(function.maker.fgraph)
    np.testing.assert_allclose(rewritten(2.0), np.sqrt(2), rtol=1e-12)


def test_until_in_loops_and_branches():
    root = lambda k: scan(  # noqa: E731
        lambda c, k: (c - (c**2 - k) / (2 * c), until(abs(c**2 - k) < 1e-12)),
        None,
        at.ones(()),
        [k],
        n_steps=50,
    )[-1]
    t = scan(lambda k, c: c + ifelse(k > 0, root(k), k), x, at.zeros(()))
    assert_agrees([x], [t], [numbers])


# --- Draws ----------------------------------------------------------------------------------

rng = aesara.shared(np.random.default_rng(1), name="rng")
KEY = jax.random.key(3)


def draw(state, of=at.random.normal, *parameters):
    """The state behind a draw, and the draw."""
    return of(*parameters, rng=state).owner.outputs


def walk(c):
    state, step = draw(rng)
    state, scale = draw(state, at.random.uniform)
    return c + step * scale, {rng: state}


def test_loops_draw_what_their_steps_would_draw():
    """Bit for bit, and what is drawn behind the loop, too; also by a number that is an argument."""
    t, updates = aesara.scan(walk, outputs_info=[x0], n_steps=3)
    counted, after_counted = aesara.scan(walk, outputs_info=[x0], n_steps=n)
    state, c, rows = rng, x0, []
    for _ in range(3):
        state, step = draw(state)
        state, scale = draw(state, at.random.uniform)
        c = c + step * scale
        rows.append(c)
    both = [draw(updates[rng])[1], draw(state)[1], draw(after_counted[rng])[1]]
    f = jaxprgen.compile([x0, n], [t, at.stack(rows), *both, counted[-1]])
    looped, unrolled, after, behind, after_n, last = f(KEY, 0.5, 3)
    np.testing.assert_array_equal(looped, unrolled)
    assert after == behind == after_n
    np.testing.assert_allclose(last, looped[-1], rtol=1e-12)
    other = jax.vmap(jaxprgen.compile([x0], t), (0, None))(jax.random.split(KEY, 2), 0.5)
    assert len({*np.asarray(looped), *np.asarray(other).ravel()}) == 9


def test_a_state_that_is_not_updated_draws_the_same_in_every_step():
    t = scan(lambda c: draw(rng)[1] + 0 * c, None, x0, n_steps=3)
    drawn = jaxprgen.compile([x0], t)(KEY, 0.5)
    assert len(set(np.asarray(drawn))) == 1


def test_functions_with_state_go_on_behind_loops():
    t, updates = aesara.scan(walk, outputs_info=[x0], n_steps=3)
    total = aesara.shared(0.0, name="total")
    f = jaxprgen.function([x0], t[-1], updates={**updates, total: total + t[-1]})
    first, second = f(0.5), f(0.5)
    assert first != second
    np.testing.assert_allclose(total.get_value(), first + second)


# --- What is refused --------------------------------------------------------------------------


def test_a_number_of_steps_that_is_not_known():
    f = jaxprgen.compile([x0, n], doubled)
    lines = refusal(errors.StaticShapeError, jax.jit(f), 1.0, 5)
    assert lines[:3] == [
        "A shape depends on the value of input 'n', which is a tracer (DynamicJaxprTracer) under a "
        "JAX transformation.",
        "Pass 'n' as a concrete number: mark it with jax.jit(..., static_argnums=1), close over "
        "it, or give the array a size that does not depend on it.",
        "  in for{cpu,scan_fn}(n, result of IncSubtensor{Set;:int64:})",
    ]


def test_sizes_that_loops_compute():
    """By a gradient, which overwrites rows; by loops in loops; whatever Aesara's mode is."""
    product = scan(lambda p, c: c * p, x, x0)
    gradient = aesara.grad((product**2).sum(), x0)
    size = at.cast(abs(gradient), "int64") % 7
    f = assert_agrees([x, x0], at.arange(size), [numbers[:3], 1.5])
    assert len({f(numbers[:3], v).shape for v in (1.5, 1.7, 2.5)}) > 1
    with aesara.config.change_flags(mode=get_mode("JAXPR")):
        squares = scan(
            lambda k, c: c + scan(lambda i, d: d + i, at.arange(k), k * 0)[-1], at.arange(1, n), n
        )[-1]
        powers = scan(lambda c, k: (c * 2, until(c > k)), None, x0, [a], n_steps=20)
    assert jaxprgen.compile([n], at.zeros(squares))(5).shape == (5 + 0 + 1 + 3 + 6,)
    assert jaxprgen.compile([x0, a], powers)(1.0, 50.0).shape == (7,)


def test_shapes_that_change_from_step_to_step():
    t = scan(lambda c: at.join(0, c, c), None, v0, n_steps=3)
    f = jaxprgen.compile([v0], t)
    assert refusal(errors.ShapeMismatchError, f, np.ones(2))[0] == (
        "A step of the loop returns a row of shape (4,) to replace a row of shape (2,): a value "
        "that goes from step to step must keep its shape."
    )


def test_sequences_that_are_too_short_and_negative_numbers_of_steps():
    """Aesara refuses both as well."""
    t = scan(lambda p: p * 2, x, n_steps=9)
    first = refusal(errors.ShapeMismatchError, jaxprgen.compile([x], t), numbers)[0]
    assert first == "Sequence 0 has 6 rows, but the loop has 9 steps."
    with pytest.raises(ValueError, match="required number of steps is 9"):
        reference([x], [t], [numbers])
    t = scan(lambda k: k * 2, None, None, [x0], n_steps=n)
    first = refusal(errors.ShapeMismatchError, jaxprgen.compile([x0, n], t), 1.0, -2)[0]
    assert first == "A loop cannot have -2 steps: the number must be >= 0."
    with pytest.raises(IndexError, match="negative number of step"):
        reference([x0, n], [t], [1.0, -2])
    t = scan(lambda c: c * 2, None, [{"initial": v0, "taps": [-3]}], n_steps=4)
    first = refusal(errors.ShapeMismatchError, jaxprgen.compile([v0], t), np.ones(2))[0]
    assert first == "A loop reads 3 rows before its own, but there are 2 to start with."
