"""Programs that repeat something are computed at once or by a loop, with the same values."""

import sys

import aesara
import aesara.tensor as at
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from aesara.graph.basic import applys_between
from aesara.scan.op import Scan
from catalogue import sizes
from catalogue.sizes import GRAPHS
from jax.experimental import io_callback
from profiles import amount, sample

import jaxprgen
from jaxprgen.api import jaxpr_as_fun
from jaxprgen.ir.evaluate import Evaluator
from jaxprgen.ir.programs import count_equations
from jaxprgen.passes import DEFAULT, ScanRepeats, VmapRepeats, vmap_repeats

pytestmark = pytest.mark.filterwarnings("ignore::jaxprgen.errors.RuntimeCheckWarning")

rng = np.random.default_rng(0)

# --- Models that a Python loop writes out ----------------------------------------------------


def normals(n):
    x, mu = at.dvector("x"), at.dscalar("mu")
    terms = [-0.5 * ((x[i] - mu * float(i + 1)) / 2.0) ** 2 - np.log(2.0) for i in range(n)]
    return [x, mu], sum(terms), [rng.normal(size=n), 0.3]


def separate_inputs(n):
    xs = [at.dscalar(f"x{i}") for i in range(n)]
    terms = [-0.5 * ((x - float(i)) / 2.0) ** 2 for i, x in enumerate(xs)]
    return xs, sum(terms), [*rng.normal(size=n)]


def autoregression(n):
    x = at.dvector("x")
    rho, s = at.dscalars("rho", "s")
    terms = [-0.5 * ((x[i] - rho * x[i - 1]) / s) ** 2 - at.log(s) for i in range(1, n)]
    return [x, rho, s], sum(terms), [rng.normal(size=n), 0.4, 1.3]


def alternating_kinds(n):
    x, s = at.dvector("x"), at.dscalar("s")
    terms = [at.sin(s * x[i]) if i % 2 else (x[i] - s) ** 2 for i in range(n)]
    return [x, s], sum(terms), [rng.normal(size=n), 0.7]


def irregular_elements(n):
    x, s = at.dvector("x"), at.dscalar("s")
    order = np.random.default_rng(1).permutation(n)
    return [x, s], sum(at.exp(-s * x[int(i)] ** 2) for i in order), [rng.normal(size=n), 0.7]


def groups_of_items(n):
    x, alpha = at.dmatrix("x"), at.dvector("alpha")
    groups = [sum((x[j, i] - alpha[j]) ** 2 for i in range(5)) for j in range(n)]
    return (
        [x, alpha],
        sum(at.tanh(g) for g in groups),
        [rng.normal(size=(n, 5)), rng.normal(size=n)],
    )


def ragged_groups(n):
    x, alpha = at.dvector("x"), at.dvector("alpha")
    owners = np.sort(np.random.default_rng(2).integers(0, n, 4 * n))
    groups = []
    for j in range(n):
        own = np.flatnonzero(owners == j)
        if len(own) > 2:
            groups.append(at.tanh(sum((x[int(i)] - alpha[j]) ** 2 for i in own)))
    return [x, alpha], sum(groups), [rng.normal(size=4 * n), rng.normal(size=n)]


def stacked(n):
    x, s = at.dvector("x"), at.dscalar("s")
    rows = at.stack([at.sin(s * x[i]) for i in range(n)])
    return [x, s], at.dot(rows, rows), [rng.normal(size=n), 0.7]


def vectors(n):
    x, w = at.dmatrix("x"), at.dvector("w")
    return (
        [x, w],
        sum(at.log1p(at.dot(x[i], w) ** 2) for i in range(n)),
        [rng.normal(size=(n, 3)), rng.normal(size=3)],
    )


def maxima(n):
    x, s = at.dvector("x"), at.dscalar("s")
    largest = s
    for i in range(n):
        largest = at.maximum(largest, at.sin(x[i] * s))
    return [x, s], largest, [rng.normal(size=n), 0.7]


def recurrence(n):
    y, rho = at.dvector("y"), at.dscalar("rho")
    h, total = at.as_tensor(0.0), 0
    for i in range(n):
        h = at.tanh(rho * h + y[i])
        total = total + (y[i] - h) ** 2
    return [y, rho], total, [rng.normal(size=n), 0.4]


def two_lags(n):
    y, (p, q) = at.dvector("y"), at.dscalars("p", "q")
    before, h, total = at.as_tensor(0.0), at.as_tensor(0.1), 0
    for i in range(n):
        before, h = h, at.sin(p * h + q * before) + y[i]
        total = total + h**2
    return [y, p, q], total, [rng.normal(size=n), 0.4, 0.2]


def random_walk(n):
    e, s = at.dvector("e"), at.dscalar("s")
    x, total = at.as_tensor(0.0), 0
    for i in range(n):
        x = x + s * e[i]
        total = total + at.sin(x)
    return [e, s], total, [rng.normal(size=n), 0.3]


def kalman_filter(n):
    y, (q, r) = at.dvector("y"), at.dscalars("q", "r")
    m, p, total = at.as_tensor(0.0), at.as_tensor(1.0), 0
    for i in range(n):
        p = p + q
        s, e = p + r, y[i] - m
        total = total - 0.5 * (at.log(s) + e**2 / s)
        m, p = m + p / s * e, (1 - p / s) * p
    return [y, q, r], total, [rng.normal(size=n), 0.3, 0.8]


def long_short_term_memory(n):
    x, (a, b, c) = at.dvector("x"), at.dscalars("a", "b", "c")
    h, m = at.as_tensor(0.1), at.as_tensor(0.2)
    for i in range(n):
        forget, new = at.sigmoid(a * x[i] + b * h), at.tanh(b * x[i] + c * h)
        m = forget * m + (1 - forget) * new
        h = at.sigmoid(c * x[i] + a * h) * at.tanh(m)
    return [x, a, b, c], h**2 + m, [rng.normal(size=n), 0.4, 0.2, -0.3]


def hidden_markov(n):
    emission, transition = at.dmatrices("emission", "transition")
    alpha = at.as_tensor(np.zeros(3))
    for i in range(n):
        alpha = at.logsumexp(alpha[:, None] + transition, axis=0) + emission[i]
    inputs = [rng.normal(size=(n, 3)), rng.normal(size=(3, 3))]
    return [emission, transition], at.logsumexp(alpha), inputs


def layers(n):
    weights = [at.dmatrix(f"w{i}") for i in range(n)]
    x = h = at.dvector("x")
    for w in weights:
        h = at.tanh(at.dot(w, h))
    return [x, *weights], (h**2).sum(), [rng.normal(size=4), *rng.normal(size=(n, 4, 4))]


def layers_in_one_array(n):
    weights, x = at.dtensor3("weights"), at.dvector("x")
    h = x
    for i in range(n):
        h = at.tanh(at.dot(weights[i], h))
    return [weights, x], (h**2).sum(), [rng.normal(size=(n, 4, 4)), rng.normal(size=4)]


def squared_matrices(n):
    a, s = at.dmatrix("a"), at.dscalar("s")
    p = a
    for _ in range(n):
        p = s * at.dot(p, a) + at.eye(3)
    return [a, s], at.sum(p), [0.3 * rng.normal(size=(3, 3)), 0.5]


def last_step_differs(n):
    y, rho = at.dvector("y"), at.dscalar("rho")
    h = at.as_tensor(0.5)
    for i in range(n):
        h = at.tanh(rho * h + y[i]) if i < n - 1 else at.exp(h)
    return [y, rho], h, [rng.normal(size=n), 0.4]


BATCHED = [
    normals,
    autoregression,
    alternating_kinds,
    irregular_elements,
    groups_of_items,
    ragged_groups,
    stacked,
    vectors,
    maxima,
]
LOOPED = [
    recurrence,
    two_lags,
    random_walk,
    kalman_filter,
    long_short_term_memory,
    hidden_markov,
    layers_in_one_array,
    squared_matrices,
    last_step_differs,
]
MODELS = [*BATCHED, *LOOPED, separate_inputs, layers]


@pytest.fixture(autouse=True)
def deep_recursion():
    """Aesara's gradient recurses once per step."""
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(10**5)
    yield
    sys.setrecursionlimit(before)


def compiled(model, n, passes=DEFAULT):
    """A model's value and gradient as a function, and arguments for it."""
    inputs, output, arguments = model(n)
    return jaxprgen.compile(
        inputs, [output, *aesara.grad(output, inputs)], passes=passes
    ), arguments


def assert_close(ours, theirs):
    for x, y in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(np.asarray(x), np.asarray(y), rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("model", MODELS, ids=lambda model: model.__name__)
def test_values_are_those_of_the_written_out_program(model):
    f, arguments = compiled(model, 40)
    written_out, _ = compiled(model, 40, passes=())
    with jax.disable_jit():  # Equation by equation: XLA would take seconds.
        wanted = written_out(*arguments)
    assert_close(f(*arguments), wanted)


@pytest.mark.parametrize("model", [*BATCHED, *LOOPED], ids=lambda model: model.__name__)
def test_programs_do_not_grow_with_the_repetitions(model):
    sizes = []
    for n in (32, amount(quick=60, deep=512)):
        f, arguments = compiled(model, n)
        sizes.append(count_equations(f.jaxpr(*arguments)))
    assert sizes[1] == sizes[0]


# --- Repetitions of every graph --------------------------------------------------------------


def side_by_side(graph):
    """The sum of a graph's results for several arguments."""
    inputs = [sizes.variable(name) for name in graph.inputs]
    found = []
    for t in range(6):
        scaled = [
            v * (1 + t / 100) if v.dtype == "float64" and name not in "mpq" else v
            for name, v in zip(graph.inputs, inputs, strict=True)
        ]
        output = graph.build(*scaled)
        found.append(output[0] if isinstance(output, (list, tuple)) else output)
    return inputs, [sum(at.sum(at.cast(x, "float64")) for x in found), found[-1], found[2]]


def one_after_the_other(graph):
    """A graph applied again and again to its own result, if it has the type of an input."""
    inputs = [sizes.variable(name) for name in graph.inputs]
    x, sums = inputs[0], []
    for _ in range(8):
        output = graph.build(x, *inputs[1:])
        output = output[0] if isinstance(output, (list, tuple)) else output
        if output.type.ndim != inputs[0].type.ndim or output.dtype != inputs[0].dtype:
            return None
        nodes = applys_between([], [output])
        if graph.family == "Gradients" and any(isinstance(node.op, Scan) for node in nodes):
            return None  # Aesara would take minutes to make them.
        x = at.tanh(output) * 0.9
        sums.append(at.sum(x))
    return inputs, [sum(sums), x]


@pytest.mark.parametrize("form", [side_by_side, one_after_the_other])
@pytest.mark.parametrize("graph", sample(GRAPHS, 16), ids=lambda g: f"{g.family}: {g.name}")
def test_repetitions_of_every_graph(graph, form, monkeypatch):
    monkeypatch.setattr(vmap_repeats, "_SAVED", -(10**9))  # Also where nothing is gained.
    made = form(graph)
    if made is None:
        pytest.skip("The graph's result is not of the type of its input.")
    inputs, outputs = made
    values = sizes.operands(graph.inputs, {"n": 8, "k": 4, "b": 2})
    f = jaxprgen.compile(inputs, outputs, passes=())
    key = [jax.random.key(0)] if f.inputs[: -len(inputs)] else []
    try:
        program = f.jaxpr(*key, *values)
    except jaxprgen.errors.ShapeMismatchError:
        pytest.skip("The graph's result is not of the shape of its input.")
    wanted = f(*key, *values)
    for passes in (
        [VmapRepeats(least=3, reassociate=True)],
        [ScanRepeats(least=3, reassociate=True)],
        [VmapRepeats(least=3), ScanRepeats(least=3)],
    ):
        changed = program
        for rewrite in passes:
            changed = rewrite(changed)
        if changed is not program:
            assert_close(jax.jit(jaxprgen.jaxpr_as_fun(changed))(*key, *values), wanted)


# --- Functions of JAX -------------------------------------------------------------------------


def weakly_typed_terms(x):
    total = 0.0
    for i in range(40):
        total = total + jnp.sin(x[i] * (i + 1))
    return total


def weakly_typed_recurrence(x):
    h = 0.1
    for i in range(60):
        h = jnp.tanh(0.5 * h + x[i])
    return h


def complex_maxima(x):
    largest = x[0] * 1j
    for i in range(1, 40):
        largest = jnp.maximum(largest, x[i] * 1j)
    return largest


def written_elements(x):
    y = jnp.zeros(40, x.dtype)
    for i in range(40):
        y = y.at[i].set(jnp.sin(x[i]) * 2)
    return y


def draws(x):
    key = jax.random.key(0)
    return sum(x[i] * jax.random.normal(jax.random.fold_in(key, i)) for i in range(40))


def pieces(x):
    return sum(jnp.sum(jnp.sin(piece) ** 2) for piece in jnp.split(x, len(x)))


def rows_of_data(x):
    data = np.random.default_rng(0).normal(size=(len(x), 3)).astype(x.dtype)
    return sum(jnp.sum(jnp.sin(x[i] * row)) for i, row in enumerate(data))


@jax.jit
def step(x):
    return jnp.tanh(0.5 * x + 0.1) * jnp.sqrt(1 + x**2)


def calls(x):
    h = x[:3]
    for _ in range(len(x)):
        h = step(h)
    return jnp.sum(h)


GROWING = [calls, jax.grad(calls), pieces, jax.grad(pieces), rows_of_data, jax.grad(rows_of_data)]
FUNCTIONS = [
    *GROWING,
    *(weakly_typed_terms, jax.grad(weakly_typed_terms)),
    *(weakly_typed_recurrence, jax.grad(weakly_typed_recurrence)),
    *(complex_maxima, written_elements, draws),
]


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda f: f.__name__)
def test_functions_of_jax(function):
    x = np.linspace(-1, 1, 60, dtype=np.float32)
    with jax.enable_checks(True):
        ours = jaxprgen.transform(function, *DEFAULT)(x)
    np.testing.assert_allclose(ours, function(x), rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("function", GROWING, ids=lambda f: f.__name__)
def test_programs_of_functions_do_not_grow(function):
    found = []
    for n in (40, 60):
        program = jax.make_jaxpr(jaxprgen.transform(function, *DEFAULT))(np.ones(n, np.float32))
        found.append((count_equations(program), len(program.consts)))
    assert found[0] == found[1]


def test_a_number_may_be_a_result_beside_packs():
    def function(x):
        rows = [jnp.sin(x[i]) for i in range(12)]
        return sum(rows), rows[3], 1.0

    x = np.linspace(-1, 1, 12, dtype=np.float32)
    program = jax.make_jaxpr(function)(x)
    found = VmapRepeats(reassociate=True)(program)
    assert len(found.jaxpr.eqns) < len(program.jaxpr.eqns)
    np.testing.assert_allclose(jaxpr_as_fun(found)(x), jaxpr_as_fun(program)(x), rtol=1e-6)


# --- What stays --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "exact", [[VmapRepeats()], [ScanRepeats()], [VmapRepeats(), ScanRepeats()]]
)
@pytest.mark.parametrize("model", [normals, recurrence, kalman_filter], ids=lambda m: m.__name__)
def test_without_reassociation_every_bit_is_kept(model, exact):
    inputs, output, arguments = model(40)
    f = jaxprgen.compile(inputs, output, passes=())
    g = jaxprgen.compile(inputs, output, passes=exact)
    # One equation at a time, as XLA may round a product and a sum of one program together.
    first, second = (Evaluator().run(each.jaxpr(*arguments), arguments) for each in (f, g))
    np.testing.assert_array_equal(first, second)


def test_small_programs_are_left_alone():
    x = at.dvector("x")
    f = jaxprgen.compile([x], [at.sin(x) + at.cos(x)], passes=())
    program = f.jaxpr(np.arange(3.0))
    assert VmapRepeats()(program) is program
    assert ScanRepeats()(program) is program


def test_ordered_effects_keep_their_order():
    order, x = [], np.linspace(0.1, 1.0, 20)

    def noting(x):
        for i in range(20):
            sine = jnp.sin(jax.lax.while_loop(lambda v: v < 1, lambda v: v + 1, x[i]))
            y = jnp.cos(sine) * 2
            io_callback(lambda v, i=i: order.append((i, "first")), None, y, ordered=True)
            io_callback(lambda i=i: order.append((i, "second")), None, ordered=True)
        return x

    closed = jax.make_jaxpr(noting)(x)
    for each in (VmapRepeats(reassociate=True), ScanRepeats(least=8, reassociate=True)):
        order.clear()
        jax.block_until_ready(jax.jit(jaxprgen.jaxpr_as_fun(each(closed)))(x))
        jax.effects_barrier()
        assert order == sorted(order) and len(order) == 40
