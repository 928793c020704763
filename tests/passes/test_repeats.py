"""Programs that repeat something are computed at once or by a loop, with the same values."""

import sys
from collections import Counter

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
from profiles import amount, in_turn, is_deep, sample
from repeated_models import BATCHED, LOOPED, MODELS, compiled, kalman_filter, normals, recurrence

import jaxprgen
from jaxprgen.api import jaxpr_as_fun
from jaxprgen.inspect import explain_repeats
from jaxprgen.ir.evaluate import Evaluator
from jaxprgen.ir.programs import count_equations
from jaxprgen.passes import DEFAULT, ScanRepeats, VmapRepeats, default, repetitions

pytestmark = pytest.mark.filterwarnings("ignore::jaxprgen.errors.RuntimeCheckWarning")


@pytest.fixture(autouse=True)
def deep_recursion():
    """Aesara's gradient recurses once per step."""
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(10**5)
    yield
    sys.setrecursionlimit(before)


MANY = ["groups_of_items", "nested_groups", "ragged_groups", "separate_inputs"]
MANY += ["parallel_recurrences", "long_short_term_memory"]
"""Models of the most equations."""


def some(models):
    """Half of the models in a quick run."""
    return models if is_deep() else [m for m in models if m.__name__ not in MANY][::2]


def assert_close(ours, theirs):
    for x, y in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(np.asarray(x), np.asarray(y), rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("model", some(MODELS), ids=lambda model: model.__name__)
def test_values_are_those_of_the_written_out_program(model):
    n = amount(quick=24, deep=40)
    f, arguments = compiled(model, n)
    written_out, _ = compiled(model, n, passes=())
    with jax.disable_jit():  # Equation by equation: XLA would take seconds.
        wanted = written_out(*arguments)
    assert_close(f(*arguments), wanted)


@pytest.mark.parametrize("model", some([*BATCHED, *LOOPED]), ids=lambda m: m.__name__)
def test_programs_do_not_grow_with_the_repetitions(model):
    sizes = []
    for n in (32, amount(quick=40, deep=512)):
        f, arguments = compiled(model, n, default(calls=0, graph=True))
        sizes.append(count_equations(f.jaxpr(*arguments)))
    assert sizes[1] == sizes[0]


def test_a_number_that_all_terms_share_may_also_be_the_factor_of_one():
    def equations(divisor):
        x, mu = at.dvector("x"), at.dscalar("mu")
        terms = [at.exp((x[i] - mu * float(i + 2)) / divisor) for i in range(20)]
        f = jaxprgen.compile([x, mu], sum(terms))
        return count_equations(f.jaxpr(np.ones(20), 0.5))

    assert equations(2.0) == equations(2.5)


# --- Repetitions of every graph --------------------------------------------------------------


def side_by_side(graph):
    """The sum of a graph's results for several arguments."""
    inputs = [sizes.variable(name) for name in graph.inputs]
    found = []
    for t in range(4):
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
    for _ in range(6):
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
@pytest.mark.parametrize("graph", sample(GRAPHS, 10), ids=lambda g: f"{g.family}: {g.name}")
def test_repetitions_of_every_graph(graph, form, monkeypatch):
    monkeypatch.setattr(repetitions, "_SAVED", -(10**9))  # Also where nothing is gained.
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
    for i in range(len(x)):
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


def places_in_arguments(x):
    places = jnp.argsort(x)
    return sum(jnp.sin(x[places[i]] * (i + 1)) for i in range(len(x)))


def known_places(x):
    rows = (jax.lax.dynamic_index_in_dim(x, i, keepdims=False) for i in range(len(x)))
    return sum(jnp.sin(row) * i for i, row in enumerate(rows))


def loops(x):
    def steps(v):
        return jax.lax.while_loop(lambda c: c < 1, lambda c: 1.5 * c + 0.1, jnp.abs(v))

    return sum(steps(v) for v in x)


def scans(x):
    def path(v):
        noise = jnp.arange(5, dtype=v.dtype)
        return jax.lax.scan(lambda h, e: (jnp.tanh(v * h + e),) * 2, v, noise)[1]

    return sum(jnp.sum(path(v)) for v in x)


GROWING = [
    *(calls, jax.grad(calls), pieces, jax.grad(pieces), rows_of_data, jax.grad(rows_of_data)),
    *(places_in_arguments, jax.grad(places_in_arguments), known_places, jax.grad(known_places)),
    *(loops, scans, jax.grad(scans)),
]
FUNCTIONS = [
    *GROWING,
    *(weakly_typed_terms, jax.grad(weakly_typed_terms)),
    *(weakly_typed_recurrence, jax.grad(weakly_typed_recurrence)),
    *(complex_maxima, written_elements, draws),
]


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda f: f.__name__)
def test_functions_of_jax(function):
    x = np.linspace(-1, 1, amount(quick=40, deep=60), dtype=np.float32)
    with jax.enable_checks(True):
        ours = jaxprgen.transform(function, *DEFAULT)(x)
    np.testing.assert_allclose(ours, jax.jit(function)(x), rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("function", GROWING, ids=lambda f: f.__name__)
def test_programs_of_functions_do_not_grow(function):
    found = []
    for n in (60, 68):
        f = jaxprgen.transform(function, *default(calls=0))
        program = jax.make_jaxpr(f)(np.ones(n, np.float32))
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


def test_a_small_integer_may_be_added_more_often_than_it_can_count():
    def function(x, y):
        return sum((~x[i] + y for i in range(200)), np.int8(0))

    x, y = np.arange(200, dtype=np.int8), np.int8(3)
    program = jax.make_jaxpr(function)(x, y)
    found = VmapRepeats()(program)
    assert len(found.jaxpr.eqns) < 20
    assert jaxpr_as_fun(found)(x, y) == [np.sum(~x + y, dtype=np.int8)]


def test_sums_of_inputs_keep_their_signs():
    def function(*xs):
        total = 0.0
        for i, (p, q, r) in enumerate(zip(xs[::3], xs[1::3], xs[2::3], strict=True)):
            v = p + q - r if i % 2 else p - q - r
            total += jnp.sin(jnp.exp(jnp.sin(jnp.cos(v))))
        return total

    x = np.linspace(-1, 1, 72)
    ours = jaxprgen.transform(function, VmapRepeats(reassociate=True))(*x)
    np.testing.assert_allclose(ours, function(*x), rtol=1e-6)


def test_one_kernel_reads_many_results_of_a_pack():
    """XLA compiles one for each place that it knows."""

    def slopes(*xs):
        return [jnp.exp(jnp.sin(2 * jnp.cos(x)) - 1) for x in xs]

    program = jax.make_jaxpr(slopes)(*np.arange(12.0))
    found = VmapRepeats(reassociate=True)(program)
    names = Counter(eqn.primitive.name for eqn in found.jaxpr.eqns)
    assert names["dynamic_slice"] == 12 and names["optimization_barrier"] == 1
    assert "slice" not in names
    np.testing.assert_allclose(jaxpr_as_fun(found)(*np.arange(12.0)), slopes(*np.arange(12.0)))


def test_a_step_may_do_the_same_several_times():
    """Such as to the queries, keys and values of attention, in layers with weights of their own."""

    def layers(x, weights):
        for w in weights:
            normal = x / jnp.sqrt(1 + jnp.sum(x**2, 1, keepdims=True))
            q, k, v = (normal @ each for each in w[:3])
            x = x + jax.nn.softmax(q @ k.T) @ v
            x = x + jnp.tanh(x @ w[3]) @ w[4]
        return jnp.sum(x**2)

    rng = np.random.default_rng(0)
    x, weights = rng.normal(size=(5, 4)), 0.3 * rng.normal(size=(30, 5, 4, 4))
    for f in (layers, jax.grad(layers, (0, 1))):
        program = jax.make_jaxpr(f)(x, [[*w] for w in weights])
        found = ScanRepeats(reassociate=True)(program)
        lengths = [e.params["length"] for e in found.jaxpr.eqns if e.primitive.name == "scan"]
        assert len(lengths) == (1 if f is layers else 2) and min(lengths) >= 24
        operands = [x, *weights.reshape(-1, 4, 4)]
        ours, wanted = (jaxpr_as_fun(each)(*operands) for each in (found, program))
        for a, b in zip(jax.tree.leaves(ours), jax.tree.leaves(wanted), strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize(("inner", "steps"), in_turn([4, 2], [20, 40]))
def test_a_step_may_do_the_same_several_times_in_turn(inner, steps):
    """Such as the slopes of a Runge-Kutta method: too few for a loop of their own."""

    def slope(x, p):
        return jnp.tanh(p[0] * x) + p[1] * jnp.roll(x, 1) - p[2] * x**2

    def solution(x, p):
        for _ in range(steps):
            y, total = x, 0
            for j in range(inner):
                k = slope(y, p)
                y, total = x + 0.01 * (j + 1) * k, total + k
            x = x + 0.05 * total
        return jnp.sum(x)

    x, p = np.linspace(0.1, 0.4, 4), np.array([0.2, -0.3, 0.4])
    for f in (solution, jax.value_and_grad(solution, (0, 1))):
        program = jax.make_jaxpr(f)(x, p)
        found = ScanRepeats(reassociate=True)(program)
        lengths = [e.params["length"] for e in found.jaxpr.eqns if e.primitive.name == "scan"]
        assert len(lengths) == (1 if f is solution else 2) and min(lengths) >= steps - 5
        with jax.disable_jit():  # XLA takes minutes for this program as it is written.
            wanted = jaxpr_as_fun(program)(x, p)
        for a, b in zip(jaxpr_as_fun(found)(x, p), wanted, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-12)


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


def test_sums_stay_in_order_by_loops_without_reassociation():
    inputs, output, arguments = normals(40)
    f = jaxprgen.compile(inputs, output, passes=[ScanRepeats(), VmapRepeats()])
    assert count_equations(f.jaxpr(*arguments)) < 30


@pytest.mark.parametrize(
    "parameter", [lambda x: jnp.exp(-x) / 2, lambda x: jax.lax.convert_element_type(x, float)]
)
def test_parameters_that_were_made_alike_are_told_apart(parameter):
    def lags(y, a, b):
        p, q, before, now, total = parameter(a), parameter(b), 0.0, 0.1, 0.0
        for i in range(40):
            before, now = now, jnp.sin(p * now + q * before) + y[i]
            total = total + now**2
        return total

    f = jax.value_and_grad(lags, (0, 1, 2))
    passes, arguments = [ScanRepeats(reassociate=True)], (np.linspace(-1, 1, 40), 0.4, 0.2)
    found = explain_repeats(f, *arguments, passes=passes).found
    assert [10 < r.times < 40 for r in found if r.how == "looped"] == [True, True]
    given = jax.jit(jaxprgen.transform(f, *passes))(*arguments)
    jax.tree.map(np.testing.assert_allclose, given, jax.jit(f)(*arguments))


@pytest.mark.parametrize("of_group", [lambda x: x, jnp.exp])
def test_what_all_of_a_group_read_is_not_told_apart(of_group):
    def model(m, y):
        means = [of_group(m[g]) for g in range(8)]
        return sum((y[g, i] - means[g]) ** 2 for g in range(8) for i in range(10))

    program = jax.make_jaxpr(jax.value_and_grad(model))(np.ones(8), np.ones((8, 10)))
    assert count_equations(VmapRepeats(reassociate=True)(program)) < 50


def test_a_sum_of_blocks_stays_if_nothing_is_batched():
    def walk(e, s):
        x = total = 0.0
        for i in range(32):
            x = x + s * e[i]
            total = total + jnp.sin(x)
        return total

    program = jax.make_jaxpr(jax.value_and_grad(walk, (0, 1)))(np.ones(32), 0.5)
    (rewrite,) = [p for p in default() if isinstance(p, VmapRepeats)]
    assert rewrite(program) is program


def test_the_value_and_the_gradient_of_one_call_are_looked_at_together():
    def model(x, s):
        return sum(jnp.sin(s * x[i]) if i % 2 else (x[i] - s) ** 2 for i in range(32))

    def equations(f):
        program = jax.make_jaxpr(jax.value_and_grad(f, (0, 1)))(np.ones(32), 0.5)
        return count_equations(VmapRepeats(reassociate=True)(program))

    assert equations(jax.jit(model)) <= equations(model) < 40


def test_a_function_that_is_called_once_stays_if_nothing_repeats():
    program = jax.make_jaxpr(lambda x: jax.jit(jnp.sin)(x) + 1)(1.0)
    assert VmapRepeats()(program) is program


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
