"""Loops whose rows decide shapes: each step is emitted for itself, where the rows are known."""

import aesara.tensor as at
import jax
import numpy as np
import pytest
from aesara.raise_op import Assert
from aesara.scan.utils import until
from laws import assert_agrees, assert_derivatives, assert_same, equations, refusal
from looping import scan

import jaxprgen
from jaxprgen import errors
from jaxprgen.emit import recurrence

x, h0 = at.dvector("x"), at.dscalar("h0")
numbers = np.array([0.5, -1.5, 2.0, 3.0])


def counted(n):
    """The sum of the whole numbers up to three, but of no more than so many of them."""
    start = at.zeros((), "float64")
    return scan(lambda z: (z + 1, until(z > 2)), None, start, n_steps=n).sum()


prefixes = scan(lambda k, x: x[:k].sum(), at.arange(4), None, x)
padded = scan(lambda k, x: at.concatenate([x[k:], at.zeros(k)]), at.arange(x.shape[0]), None, x)
products = scan(lambda k, h, x: h * x[:k].prod(), at.arange(1, 4), h0, x)
taps = scan(
    lambda k, a, b, x: a + 2 * b + x[:k].sum(),
    at.arange(1, 4),
    {"initial": x[:2], "taps": [-1, -2]},
    x,
)
# Some rows are known, others are not; two traces, of which one has a state.
both = scan(
    lambda k, y, h, x: (y + x[k:].sum(), at.arange(k).sum() * y),
    [at.arange(3), x],
    [h0, None],
    x,
)
nested = scan(
    lambda k, x: scan(lambda j, x: x[:j].sum(), at.arange(3), None, x[k:]), at.arange(2), None, x
)
until_counted = scan(counted, at.as_tensor([2, 1, 5, 0]))
one = scan(lambda k, h, x: h + x[:k].sum(), at.arange(2, 3), h0, x)
LOOPS = [prefixes, padded, products, taps, *both, nested, until_counted, one]


def test_values():
    parts = [prefixes[-1], prefixes[1], products[-2:], padded[::-1], products.shape[0]]
    f = assert_agrees([x, h0], [*LOOPS, *parts], [numbers, 3.0])
    assert "scan" not in equations(f, numbers, 3.0)
    assert_agrees([x, h0], [padded, one], [numbers[:1], 0.0])
    assert_agrees([], [scan(lambda k: at.arange(k).sum(), at.arange(4))], [])


def test_gradients():
    """Aesara's is a graph with such loops in it, which overwrite rows; JAX's is of the program."""
    cost = sum((loop**2).sum() for loop in [products, taps, nested])
    assert_derivatives([x, h0], cost, [numbers, 3.0], rtol=1e-12)


def test_draws_are_those_of_the_loop():
    stream = at.random.RandomStream()
    loop = scan(lambda k: stream.normal(), at.arange(3))
    other = at.random.RandomStream()
    unrolled = scan(lambda k, x: other.normal() + 0 * x[:k].sum(), at.arange(3), None, x)
    key = jax.random.key(0)
    expected = jaxprgen.compile([], loop)(key)
    assert_same(jaxprgen.compile([x], unrolled)(key, numbers), np.asarray(expected))


def test_what_a_step_checks_is_announced_once():
    checked = scan(
        lambda k, x: Assert("negative")(x[:k].sum(), at.all(x > 0)),
        at.arange(3),
        None,
        x,
    )
    with pytest.warns(errors.RuntimeCheckWarning, match="negative") as found:
        jaxprgen.compile([x], checked)(numbers)
    assert len(found) == 1


def test_rows_of_different_shapes_are_refused():
    f = jaxprgen.compile([x], scan(lambda k, x: x[:k], at.arange(1, 4), None, x))
    first, place, *_ = refusal(errors.ShapeMismatchError, f, numbers)
    assert first == (
        "Steps of the loop return rows of shapes (1,), (2,), (3,): the rows that a loop stacks "
        "must have one shape."
    )
    assert place.startswith("  in for{cpu,scan_fn}(")


def test_loops_that_stay_loops():
    """Rows that decide nothing; rows that only the program knows; more steps than are emitted."""
    f = jaxprgen.compile([x], scan(lambda k, x: x * k, at.arange(4), None, x), passes=())
    assert equations(f, numbers) == ["scan"]
    counts = at.lvector("counts")
    f = jaxprgen.compile([counts, x], scan(lambda k, x: x[:k].sum(), counts, None, x))
    with pytest.raises(errors.StaticShapeError, match="changes from one step of a loop"):
        f(np.arange(3), numbers)
    for more, allowed in [(0, True), (1, False)]:
        steps = at.arange(recurrence.MOST_UNROLLED + more)
        f = jaxprgen.compile([x], scan(lambda k, x: x[:k].sum(), steps, None, x)[-1])
        if allowed:
            np.testing.assert_allclose(f(numbers), numbers.sum())
        else:
            with pytest.raises(errors.StaticShapeError, match="changes from one step of a loop"):
                f(numbers)
