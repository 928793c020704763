"""Programs that are faster as they are written stay; others are batched, or become loops."""

import aesara.tensor as at
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxprgen
from jaxprgen.inspect import explain_repeats
from jaxprgen.ir.programs import count_equations
from jaxprgen.passes import DEFAULT, CostModel, Pipeline, ScanRepeats, VmapRepeats, default

rng = np.random.default_rng(0)


def program(f, args, passes=DEFAULT):
    return Pipeline(passes)(jax.make_jaxpr(f)(*args))


def primitives(closed):
    return [eqn.primitive.name for eqn in closed.jaxpr.eqns]


# --- Sums of terms that XLA fuses -------------------------------------------------------------


def stencil(x, k):
    return sum(k[i, j] * x[i : i + 60, j : j + 60] for i in range(5) for j in range(5))


def maxima(x, c):
    found = x
    for i in range(32):
        found = jnp.maximum(found, c[i] * x)
    return found


def filtered(x, h):
    return sum(h[k] * x[k : len(x) - 40 + k] for k in range(40))


def basis(x, c):
    return sum(c[i] * jnp.exp(-((x - 0.1 * i) ** 2)) for i in range(32))


def columns(x, b):
    return sum(x[:, j] * b[j] for j in range(30))


SUMS = {
    stencil: ((64, 64), (5, 5)),
    maxima: (5_000, 32),
    filtered: (5_000, 40),
    basis: (5_000, 32),
    columns: ((5_000, 30), 30),
}


def arguments(f, shapes):
    return [rng.normal(size=shape) for shape in shapes[f]]


@pytest.mark.parametrize("f", SUMS, ids=lambda f: f.__name__)
def test_sums_of_large_functions_stay_as_written(f):
    args = arguments(f, SUMS)
    closed = jax.make_jaxpr(f)(*args)
    assert VmapRepeats(reassociate=True, cost=CostModel())(closed) is closed
    assert VmapRepeats(reassociate=True)(closed) is not closed  # Nothing is weighed.


@pytest.mark.parametrize("f", SUMS, ids=lambda f: f.__name__)
def test_gradients_of_sums_take_no_more_memory(f):
    args = arguments(f, SUMS)

    def temporaries(passes):
        def g(*args):
            return jax.value_and_grad(lambda *xs: f(*xs).sum(), (0, 1))(*args)

        compiled = jax.jit(jaxprgen.transform(g, *passes)).lower(*args).compile()
        return compiled.memory_analysis().temp_size_in_bytes

    assert temporaries(DEFAULT) <= 1.05 * temporaries(())


@pytest.mark.parametrize("f", [filtered, basis, columns], ids=lambda f: f.__name__)
def test_sums_of_small_functions_are_batched(f):
    small = {filtered: (56, 40), basis: (16, 32), columns: ((16, 30), 30)}
    args = arguments(f, small)
    closed = jax.make_jaxpr(f)(*args)
    assert count_equations(program(f, args)) < count_equations(closed) / 2


def test_the_number_of_calls_decides():
    args = arguments(basis, SUMS)
    closed = jax.make_jaxpr(basis)(*args)
    assert len(program(basis, args, default(calls=0)).jaxpr.eqns) < 40 < len(closed.jaxpr.eqns)
    assert len(program(basis, args, default(calls=10**9)).jaxpr.eqns) > 200


# --- Layers with weights of their own ---------------------------------------------------------


def layers(ws, x):
    for w in ws:
        x = jnp.tanh(x @ w)
    return jnp.sum(x**2)


def test_layers_of_vectors_are_looped_unless_rows_are_taken_apart():
    # XLA compiles each product of a matrix and a vector, but also each row that is taken apart.
    args = [rng.normal(size=(64, 64)) for _ in range(30)], rng.normal(size=64)
    f = jax.value_and_grad(layers)
    assert "scan" in primitives(program(layers, args, default(calls=100)))
    assert "scan" not in primitives(program(f, args))
    text = str(explain_repeats(f, *args))
    assert "10000 calls would take" in text
    assert "compiling" in text


@pytest.mark.parametrize("f", [layers, jax.value_and_grad(layers)])
def test_layers_of_matrices_stay_as_written(f):
    # Products of matrices call a library, and XLA compiles alike kernels once.
    args = [rng.normal(size=(64, 64)) for _ in range(30)], rng.normal(size=(32, 64))
    assert "scan" not in primitives(program(f, args, default(calls=100)))


@pytest.mark.parametrize("makes_alike", [False, True])
def test_kernels_that_differ_in_a_number_are_batched(makes_alike):
    def f(xs):
        return [jnp.exp(x * (0.5 if makes_alike else 0.1 * i)).sum() for i, x in enumerate(xs)]

    args = ([rng.normal(size=(8, 8)) for _ in range(30)],)
    found = primitives(program(lambda xs: sum(f(xs)), args, default(calls=0)))
    assert (found.count("exp") == 1) == (not makes_alike)


def test_recurrences_are_looped():
    def recurrent(w, x):
        h = jnp.zeros(len(w))
        for i in range(30):
            h = jnp.tanh(w @ h + x[i])
        return h.sum()

    args = rng.normal(size=(16, 16)), rng.normal(size=(30, 16))
    assert primitives(program(jax.value_and_grad(recurrent), args)).count("scan") == 2
    # A step of a loop takes tens of microseconds there.
    on_gpu = ScanRepeats(reassociate=True, cost=CostModel(platform="gpu"))
    assert "scan" not in primitives(program(recurrent, args, [on_gpu]))


def test_a_recurrence_that_does_not_pay_hides_no_other_one():
    def f(w, x, p, q):
        h = jnp.zeros(len(w))
        for i in range(60):
            h = w @ h
            for _ in range(7):
                h = jnp.sin(h)
            h = h + x[i]
        for _ in range(16):
            p = p @ q
        return h.sum() + p.sum()

    args = [rng.normal(size=shape) for shape in ((5, 5), (60, 5), (64, 64), (64, 64))]
    assert len(program(f, args).jaxpr.eqns) < 60
    assert primitives(program(f, args)).count("scan") == 1


def residual(normal):
    def f(x, weights):
        for w in weights:
            x = x + normal(x) @ w
        return jnp.sum(x**2)

    return f


def by_variance(x):
    return (x - jnp.mean(x, -1, keepdims=True)) * jax.lax.rsqrt(jnp.var(x, -1, keepdims=True))


@pytest.mark.parametrize(("normal", "loops"), [(by_variance, 2), (jnp.tanh, 0)])
def test_layers_that_normalize_a_growing_sum_become_loops(normal, loops):
    """XLA computes the sum of the cotangents of all layers again in each kernel that reads it."""
    args = rng.normal(size=(10, 16)), [*rng.normal(size=(24, 16, 16))]
    found = Pipeline(DEFAULT)(jax.make_jaxpr(jax.value_and_grad(residual(normal), (0, 1)))(*args))
    assert primitives(found).count("scan") == loops


# --- Loops ------------------------------------------------------------------------------------


def test_a_polynomial_by_horner_stays_as_written():
    def polynomial(x):
        found = jnp.zeros_like(x)
        for i in range(24):
            found = found * x + 1 / (i + 1)
        return found.sum()

    # XLA makes one kernel of it, which compiles sooner than a loop as well.
    program = jax.make_jaxpr(jax.value_and_grad(polynomial))(np.ones(12))
    for passes in (DEFAULT, default(calls=0)):
        assert not {"scan", "while"}.intersection(primitives(Pipeline(passes)(program)))


@pytest.mark.parametrize(("steps", "is_distributed"), [(5, False), (200, True)])
def test_products_leave_a_loop_of_many_steps(steps, is_distributed):
    def f(w, x):
        def step(h, x):
            return jnp.tanh(h + w @ x), h

        return jax.lax.scan(step, jnp.zeros(6), x)[1].sum()

    found = program(f, (rng.normal(size=(6, 4)), rng.normal(size=(steps, 4))))
    assert ("dot_general" in primitives(found)) == is_distributed


def test_products_and_solutions_of_each_step_stay_in_the_loop():
    """They would be computed one after the other all the same."""

    def f(x, y):
        def step(h, rows):
            x, y = rows
            upper = jnp.eye(3) + x @ x.T
            return jnp.tanh(h + jax.scipy.linalg.solve_triangular(upper, y) @ x), h

        return jax.lax.scan(step, jnp.zeros(4), (x, y))[1].sum()

    found = program(f, (rng.normal(size=(200, 3, 4)), rng.normal(size=(200, 3))))
    assert "dot_general" not in primitives(found) and "triangular_solve" not in primitives(found)


def test_cheap_functions_stay_in_the_loop():
    def f(rho, y):
        return jax.lax.scan(lambda h, y: (rho * h + y, (y - h) ** 2), 0.0, y)[1].sum()

    found = program(f, (0.5, rng.normal(size=200)))
    assert primitives(found) == ["scan", "reduce_sum"]


def cumulative_sum(x):
    """A loop whose sums were computed one by one by a rival, which takes quadratic time."""
    return jax.lax.fori_loop(1, len(x), lambda i, y: y.at[i].add(y[i - 1]), x)


def scanned_sum(x):
    return jax.lax.scan(lambda c, v: (c + v,) * 2, jnp.zeros_like(x[0]), x)[1]


def written_sums(x):
    found = [x[0]]
    for i in range(1, len(x)):
        found.append(found[-1] + x[i])
    return jnp.stack(found)


def diffusion(x):
    """A loop of a large state, whose gradient a rival computed from a copy for each step."""

    def step(i, u):
        return u + 0.1 * (jnp.roll(u, 1) + jnp.roll(u, -1) - 2 * u) * jnp.cos(u)

    return jnp.sum(jax.lax.fori_loop(0, 50, step, x) ** 2)


@pytest.mark.parametrize("f", [cumulative_sum, scanned_sum, written_sums])
def test_cumulative_sums_stay_linear(f, n=128):
    def work(g):
        costs = jax.jit(g).lower(np.ones(n)).compile().cost_analysis()
        return (costs if isinstance(costs, dict) else costs[0]).get("flops", 0)

    assert work(jaxprgen.transform(f, *DEFAULT)) <= 2 * work(f) + 4 * n


@pytest.mark.parametrize("change", [lambda f: f, jax.grad])
def test_gradients_of_loops_keep_no_more_than_jax(change):
    def temporaries(g):
        compiled = jax.jit(g).lower(np.ones(10_000)).compile()
        return compiled.memory_analysis().temp_size_in_bytes

    f = change(diffusion)
    assert temporaries(jaxprgen.transform(f, *DEFAULT)) <= 1.1 * temporaries(f) + 1000


# --- The passes themselves --------------------------------------------------------------------


def test_defaults_are_the_same_objects_for_the_same_arguments():
    assert default() is DEFAULT
    assert default(calls=100) is default(calls=100)
    assert default(calls=100) != DEFAULT


def test_other_platforms_count_as_gpus():
    assert CostModel(platform="tpu").constants == CostModel(platform="cuda").constants
    assert CostModel(platform="cpu").constants != CostModel(platform="gpu").constants


def test_the_platform_is_that_of_the_default_device_and_part_of_the_key_of_programs():
    x = at.dvector("x")
    platforms = []

    def watch(closed):
        platforms.append(CostModel().constants)
        return closed

    f = jaxprgen.compile([x], x + 1, passes=[watch])
    f(np.ones(2))
    with jax.default_device(jax.devices("cpu")[0]):
        f(np.ones(2))
        assert CostModel().constants == CostModel(platform="cpu").constants
    assert len(platforms) == 2
