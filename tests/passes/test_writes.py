"""Arrays that are written, read, joined and split piece by piece are computed as a whole."""

import itertools
import random
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from profiles import amount

import jaxprgen
from jaxprgen.ir.evaluate import Evaluator
from jaxprgen.ir.programs import count_equations, verify
from jaxprgen.passes import DEFAULT, Pipeline, ScanRepeats, VmapRepeats

rng = np.random.default_rng(0)

# --- Equations do not grow ---------------------------------------------------------------------


def stacked(x):
    return jnp.stack([jnp.sin(v) for v in x])


def stacked_pairs(x):
    return jnp.stack([f(v) for v in x for f in (jnp.sin, jnp.cos)])


def listed(x):
    return jnp.array([jnp.sin(v) for v in x])


def joined(x):
    return jnp.concatenate([jnp.sin(x[i : i + 1]) for i in range(len(x))])


def written(x):
    y = x
    for i in range(len(x)):
        y = y.at[i].set(jnp.sin(x[i]))
    return y


def written_blocks(x):
    y = jnp.zeros(2 * len(x))
    for i in range(len(x)):
        y = y.at[2 * i : 2 * i + 2].set(jnp.sin(x[i]))
    return y


def written_columns(x):
    y = jnp.zeros((3, len(x)))
    for i in range(len(x)):
        y = y.at[:, i].set(jnp.sin(x[i]) * jnp.arange(3.0))
    return y


def written_in_two_loops(x):
    y = jnp.zeros((len(x), 4))
    for i, j in itertools.product(range(len(x)), range(4)):
        y = y.at[i, j].set(jnp.sin(x[i] * (j + 1)))
    return y


def written_backwards(x):
    y = jnp.zeros(len(x) + 7)
    for i in reversed(range(len(x))):
        y = jax.lax.dynamic_update_slice(y, jnp.sin(x[i])[None], (i,))
    return y


def added(x):
    y = x
    for i in range(len(x)):
        y = y.at[i].add(jnp.sin(x[i]))
    return y


def multiplied(x):
    y = x
    for i in range(len(x)):
        y = y.at[i].multiply(jnp.sin(x[i]))
    return y


def recurrence_written(x):
    h, y = 0.0, jnp.zeros(len(x))
    for i in range(len(x)):
        h = jnp.tanh(h * 0.5 + x[i])
        y = y.at[i].set(h)
    return y


def recurrence_read(x):
    y = jnp.zeros(len(x)).at[0].set(0.3)
    for i in range(1, len(x)):
        y = y.at[i].set(jnp.tanh(y[i - 1] * 0.5 + x[i]))
    return y


FUNCTIONS = [
    *(stacked, stacked_pairs, listed, joined, written, written_blocks, written_columns),
    *(written_in_two_loops, written_backwards, added, multiplied),
    *(recurrence_written, recurrence_read),
]


def value_and_gradient(function):
    return jax.value_and_grad(lambda x: jnp.sum(function(x) ** 2))


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda f: f.__name__)
def test_equations_do_not_grow_with_the_pieces(function):
    counts = []
    for n in (amount(quick=32, deep=64), amount(quick=40, deep=512)):
        program = jax.make_jaxpr(value_and_gradient(function))(np.ones(n))
        counts.append(count_equations(Pipeline(DEFAULT)(program)))
    assert counts[0] == counts[1] < 150


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda f: f.__name__)
def test_values_are_those_of_the_pieces(function):
    x = rng.normal(size=amount(quick=20, deep=40))
    with jax.enable_checks(True):
        ours = jaxprgen.transform(value_and_gradient(function), *DEFAULT)(x)
    with jax.disable_jit():  # Equation by equation: XLA would take seconds.
        wanted = value_and_gradient(function)(x)
    np.testing.assert_allclose(ours[0], wanted[0], rtol=1e-12)
    np.testing.assert_allclose(ours[1], wanted[1], rtol=1e-9, atol=1e-12)


def test_a_function_applied_to_an_element_is_no_write():
    def applied(x):
        for i in range(len(x)):
            x = x.at[i].apply(jnp.sin)
        return x

    x = rng.normal(size=12)
    ours = jaxprgen.transform(applied, VmapRepeats(reassociate=True))(x)
    np.testing.assert_allclose(ours, np.sin(x), rtol=1e-12)


def test_an_array_may_be_written_in_any_number_of_phases():
    """Each phase reads the array of the phase before, deeper than Python recurses."""

    def f(x):
        y = jnp.zeros(8)
        for t in range(sys.getrecursionlimit() // 2):
            for i in (0, 1) if t % 2 else (1, 4):  # Single elements, then pairs beside them.
                y = jax.lax.dynamic_update_slice(y, x[t : t + 1 + t % 2], (i * (1 + t % 2),))
        return y

    x = rng.normal(size=sys.getrecursionlimit())
    program = jax.make_jaxpr(f)(x)
    found = VmapRepeats(least=2)(program)
    assert found is not program
    verify(found)
    ours, wanted = Evaluator().run(found, [x]), Evaluator().run(program, [x])
    np.testing.assert_array_equal(ours, wanted)


# --- Any writes, in any order ------------------------------------------------------------------


def random_writes(seed):
    """A function that writes blocks to an array, and sometimes reads what it wrote."""
    choose = random.Random(seed)
    shape = choose.choice([(12,), (6, 4), (2, 3, 4)])
    axis = choose.randrange(len(shape))
    sizes = choose.choice(
        [
            (1,) * len(shape),
            tuple(1 if d == axis else n for d, n in enumerate(shape)),
            tuple(choose.randint(1, n) for n in shape),
        ]
    )
    step = sizes if choose.random() < 0.8 else (1,) * len(shape)
    grid = [
        *itertools.product(
            *(range(0, n - k + 1, s) for n, k, s in zip(shape, sizes, step, strict=True))
        )
    ]
    starts = choose.choices(grid, k=12) if choose.random() < 0.6 else grid[:24]
    kinds = choose.choices(["set", "add", "multiply", "min", "increment", "update"], k=len(starts))
    kinds = kinds if choose.random() < 0.4 else [kinds[0]] * len(starts)
    reads, wholes, weak, from_zeros = (choose.random() < p for p in (0.6, 0.2, 0.2, 0.5))

    def f(x):
        y = jnp.zeros(shape) if from_zeros else x[: np.prod(shape)].reshape(shape)
        total = 0.0
        for t, (start, kind) in enumerate(zip(starts, kinds, strict=True)):
            place = tuple(
                slice(i, i + k) if k > 1 else i for i, k in zip(start, sizes, strict=True)
            )
            value = jnp.sin(x[t]) + (jnp.tanh(y[tuple(starts[t - 1])]) if reads and t else 0.0)
            value = jnp.broadcast_to(0.25 if weak and t % 2 else value, y[place].shape)
            if kind == "increment":
                y = y.at[place].set(y[place] + value)
            elif kind == "update":
                y = jax.lax.dynamic_update_slice(y, value.reshape(sizes).astype(y.dtype), start)
            else:
                y = getattr(y.at[place], kind)(value)
            total = total + (y.sum() if wholes and t % 3 == 0 else 0.0)
        return total + (y * np.arange(1.0, y.size + 1).reshape(shape)).sum(), y

    return f


@pytest.mark.parametrize("seed", range(amount(quick=3, deep=60)))
def test_any_writes(seed):
    x = np.random.default_rng(seed).normal(size=30)
    f = random_writes(seed)
    for function in (f, jax.grad(lambda x: f(x)[0])):
        program = jax.make_jaxpr(function)(x)
        exact = VmapRepeats(least=3)(program)
        free = VmapRepeats(least=3, reassociate=True)(program)
        free = ScanRepeats(least=4, reassociate=True)(free)
        with jax.disable_jit():
            wanted, same, close = (
                jaxprgen.jaxpr_as_fun(p)(x) for p in (program, exact, free) if verify(p) is None
            )
        for a, b, c in zip(wanted, same, close, strict=True):
            assert np.array_equal(a, b)
            np.testing.assert_allclose(a, c, rtol=1e-9, atol=1e-11)
