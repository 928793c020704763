"""Whole traces of loops that end by a condition: concrete arguments decide how long they are."""

import aesara
import aesara.tensor as at
import jax
import numpy as np
import pytest
from aesara.compile.builders import OpFromGraph
from aesara.compile.mode import Mode
from aesara.graph.op import Op
from aesara.scan.utils import until
from hypothesis import given, strategies as st
from laws import assert_agrees, assert_same, failures, refusal
from looping import loops, scan
from profiles import examples

import jaxprgen
from jaxprgen import errors
from jaxprgen.lowering import registry
from jaxprgen.runtime.specialize import DECIDING_LIMIT

x, v0, X = at.dvector("x"), at.dvector("v0"), at.dmatrix("X")
a, x0, low = at.dscalar("a"), at.dscalar("x0"), at.dscalar("low")
n, s = at.lscalar("n"), at.lscalar("s")
numbers = np.array([0.5, -1.0, 2.0, 0.25, 3.0, -0.75])
quiet = pytest.mark.filterwarnings("ignore::jaxprgen.errors.RuntimeCheckWarning")


def compiled(inputs, outputs):
    """Ours, and Aesara's Python linker without rewriting, each compiled once."""
    mode = Mode(linker="py", optimizer=None)
    return jaxprgen.compile(inputs, outputs), aesara.function(inputs, outputs, mode=mode)


def doubled(limit=20):
    return scan(lambda c, k: (c * 2, until(c > k)), None, x0, [a], n_steps=limit)


def newton_step(c, k):
    return c - (c**2 - k) / (2 * c), until(abs(c**2 - k) < 1e-9)


def halve(low, high, k):
    middle = (low + high) / 2
    below = middle**3 < k
    low, high = at.switch(below, middle, low), at.switch(below, high, middle)
    return [low, high, middle], until(high - low < 1e-3)


newton = scan(newton_step, None, at.ones(()), [a], n_steps=60)
collatz = scan(
    lambda c: (at.switch(at.eq(c % 2, 0), c // 2, 3 * c + 1), until(at.eq(c, 1))),
    None,
    s,
    n_steps=150,
)
bisection = scan(halve, None, [x0 * 0, x0, None], [a], n_steps=30)
two_back = scan(
    lambda p, c, d, k: (c + d * p, until(abs(c) > k)), x, [{"initial": v0, "taps": [-1, -2]}], [a]
)
three_back = scan(
    lambda c, k: (c * 1.5, until(c > k)), None, [{"initial": x[:3], "taps": [-3]}], [a], n_steps=9
)
mapped = scan(lambda p, k: (at.exp(p), until(p > k)), x, None, [a])
backwards = scan(lambda p, c, k: (p * 2 + c, until(p > k)), x, x0, [a], go_backwards=True)
rows = scan(lambda c, k: (at.dot(k, c), until(c.sum() > 20)), None, v0, [X], n_steps=12)

bounds = st.sampled_from([0.1, 0.5, 1.0, 3.0, 50.0, 1e9, np.nan, np.inf])
few = st.sampled_from([0.5, 1.0, 2.0])
vectors = st.permutations(list(numbers)).map(np.array)
pairs = st.sampled_from([np.ones(2), np.array([0.5, 2.0])])
matrices = st.sampled_from([np.eye(2), np.array([[1.0, 2.0], [0.0, 1.0]]), -3 * np.ones((2, 2))])
GRAPHS = {
    "Newton": ([a], [newton], [st.sampled_from([1.0, 1.01, 2.0, 2.1, 100.0, 1e-3])]),
    "Collatz": ([s], [collatz], [st.integers(1, 30)]),
    "bisection": ([x0, a], bisection, [st.sampled_from([1.0, 4.0, 4.5]), bounds]),
    "taps": ([x, v0, a], [two_back], [vectors, pairs, bounds]),
    "one tap far back": ([x, a], [three_back], [vectors, bounds]),
    "a map": ([x, a], [mapped], [vectors, bounds]),
    "backwards": ([x, x0, a], [backwards], [vectors, few, bounds]),
    "matrices": ([v0, X], [rows], [pairs, matrices]),
    "as many as there are rows": ([x, x0, a], [doubled(x.shape[0])], [vectors, few, bounds]),
}


def whole(trace):
    """What takes all rows of a trace, and the rows."""
    return [trace, trace[::-1], at.zeros(trace.shape[0]), at.sort(trace, 0), trace.sum(0)]


@pytest.mark.parametrize("name", GRAPHS)
def test_traces_are_those_of_aesara(name):
    """There is one program for all arguments of which as many steps are taken."""
    inputs, traces, drawn = GRAPHS[name]
    ours, theirs = compiled(inputs, [y for trace in traces for y in whole(trace)])
    lengths = set()

    @given(args=st.tuples(*drawn))
    @examples(0.6)
    def law(args):
        with np.errstate(all="ignore"):
            expected = theirs(*args)
        for p, q in zip(ours(*args), expected, strict=True):
            assert_same(p, q, where=name)
        lengths.add(len(expected[0]))

    law()
    assert ours.cache_info().currsize == ours.cache_info().misses == len(lengths)


def test_an_argument_bounds_the_steps():
    """One program for each bound, and each number of steps."""
    ours, theirs = compiled([x0, a, n], whole(doubled(n)))
    for bound, limit in ((50.0, 4), (51.0, 4), (50.0, 40), (0.5, 40), (0.5, 0)):
        jax.tree.map(assert_same, list(ours(1.0, bound, limit)), theirs(1.0, bound, limit))
    assert ours.cache_info().misses == ours.cache_info().currsize == 4


def test_a_loop_beside_one_whose_whole_is_needed_depends_on_no_value():
    f = assert_agrees([x0, a], [at.sort(doubled()), newton[-1]], [1.0, 50.0])
    assert loops(f, 1.0, 50.0) == ["scan", "while"]
    f(1.0, 51.0)
    assert f.cache_info().misses == 1


# --- Gradients --------------------------------------------------------------------------------

COSTS = {
    "Newton": ([a], lambda t: (t**2).sum(), newton_step, [at.ones(()), [a]], [2.0]),
    "powers": (
        [x0, a],
        lambda t: at.sort(t)[0] * t.sum() + (t[1:] * t[:-1]).sum(),
        lambda c, k: (c * c / (1 + k * 0), until(c > k)),
        [x0, [a]],
        [1.1, 50.0],
    ),
    "of rows": (
        [v0, X],
        lambda t: (at.exp(-t) * at.arange(t.shape[0])[:, None]).sum(),
        lambda c, k: (at.dot(k, c), until(c.sum() > 20)),
        [v0, [X]],
        [np.ones(2), np.array([[1.0, 2.0], [0.5, 1.0]])],
    ),
}


@pytest.mark.parametrize("name", COSTS)
@quiet
def test_gradients(name):
    """Aesara's, whose loop is as long as the trace, and JAX's of a loop of so many steps."""
    inputs, cost, step, (start, constants), args = COSTS[name]
    t = scan(step, None, start, constants, n_steps=25)
    wanted = [v for v in inputs if name != "powers" or v is x0]
    found = assert_agrees(inputs, [t.shape[0], *aesara.grad(cost(t), wanted)], args)(*args)
    length = int(found[0])
    assert 2 < length < 25
    plain = scan(lambda *k: step(*k)[0], None, start, constants, n_steps=length)
    g = jaxprgen.compile(inputs, cost(plain))
    for v, gradient in zip(wanted, found[1:], strict=True):
        expected = jax.grad(g, inputs.index(v))(*args)
        np.testing.assert_allclose(gradient, expected, rtol=1e-10)


# --- Loops inside of graphs -------------------------------------------------------------------


def test_values_are_forgotten_but_programs_are_not(monkeypatch):
    monkeypatch.setattr("jaxprgen.runtime.specialize.MOST_VALUES", 3)
    f = jaxprgen.compile([x0, a], doubled())
    for start in np.linspace(1.0, 1.7, 8):
        np.testing.assert_allclose(f(start, 7.0), start * 2.0 ** np.arange(1, 5))
    assert f.cache_info().misses == f.cache_info().currsize == 1


def test_in_graphs_and_loops_of_known_inputs():
    """A graph that is used twice, for other arguments; and a loop whose steps read the same."""
    inside = OpFromGraph([x0, a], [doubled()])
    ours, theirs = compiled([x0, a], [inside(x0, a), at.sort(inside(x0 + 1, a))])
    for args in ((1.0, 50.0), (1.0, 51.0), (2.0, 50.0)):
        jax.tree.map(assert_same, list(ours(*args)), theirs(*args))
    assert ours.cache_info().misses == 2
    known = OpFromGraph([a], [doubled_from(a)])
    assert_agrees([x0], [known(at.constant(50.0, dtype="float64")) + x0], [1.0])
    outer = scan(lambda p, k: at.sort(doubled_from(k)).sum() + p, x, None, [a])
    assert_agrees([x, a], [outer], [numbers, 50.0])
    f = jaxprgen.compile([x, a], outer, passes=())
    assert loops(f, numbers, 50.0) == ["scan", "scan"]  # The inner one does not change.


def doubled_from(k):
    return scan(lambda c, k: (c * 2, until(c > k)), None, k * 0 + 1, [k], n_steps=20)


def test_as_long_as_a_shared_variable_says():
    bound = aesara.shared(50.0, name="bound")
    t = scan(lambda c: (c * 2, until(c > bound)), None, x0, n_steps=20)
    f = jaxprgen.compile([x0], t)
    lengths = []
    for value in (50.0, 3.0, 51.0):
        bound.set_value(value)
        lengths.append(len(f(1.0)))
    assert lengths == [7, 3, 7]
    assert f.cache_info().misses == 2


def test_the_graph_of_a_step_stays_as_it_is():
    """Aesara rewrites it in place where it runs a loop."""
    t = scan(lambda c, k: (c * 2 + 1 - 1, until(c > k)), None, x0, [a], n_steps=20)
    graph = t.owner.inputs[0].owner.op.fgraph
    before = aesara.dprint(graph, file="str")
    assert len(jaxprgen.compile([x0, a], t)(1.0, 50.0)) == 7
    assert aesara.dprint(graph, file="str") == before


# --- What is refused --------------------------------------------------------------------------


UNKNOWN = (
    "This loop ends on a condition, so only the program that runs knows how many steps it takes "
    "and how many rows it stacks. Take its last value, as in `trace[-1]`, or reduce it: sums, "
    "means, extrema and elementwise functions of the whole are possible. Or give the loop a number "
    "of steps and no condition, and mask the rows after the end."
)


def test_tracers_do_not_tell_a_length():
    """Nor do they once other arguments did; and those that do not matter may be tracers."""
    f = jaxprgen.compile([x0, a, low], doubled() * low)
    f(1.0, 50.0, 1.0)
    expected = [
        UNKNOWN,
        "A shape depends on the value of input 'x0', which is a tracer (DynamicJaxprTracer) under "
        "a JAX transformation.",
        "Pass 'x0' as a concrete number: mark it with jax.jit(..., static_argnums=0), close over "
        "it, or give the array a size that does not depend on it.",
        "  in do_while{cpu,scan_fn}(20, result of IncSubtensor{Set;:int64:}, a)",
        "    result of IncSubtensor{Set;:int64:}: TensorType(float64, (21,))",
        "    a: float64[]",
        "  built at LINE: return aesara.scan(step, *args, **options)[0]",
    ]
    assert refusal(errors.StaticShapeError, jax.jit(f), 1.0, 50.0, 1.0) == expected
    assert (
        refusal(errors.StaticShapeError, jax.jit(f), *map(np.float64, (1.0, 50.0, 1.0))) == expected
    )
    assert_same(jax.jit(lambda k: f(1.0, 3.0, k))(2.0), np.array([4.0, 8.0, 16.0]))
    assert jax.grad(lambda k: f(1.0, 3.0, k).sum())(2.0) == 14


def test_each_graph_around_a_loop_is_told_once():
    inside = OpFromGraph([x0, a], [OpFromGraph([x0, a], [doubled()])(x0, a)])
    f = jax.jit(jaxprgen.compile([x0, a], inside(x0, a)))
    lines = refusal(errors.StaticShapeError, f, 1.0, 50.0)
    graph = "  in OpFromGraph{inline=False}"
    places = [line.split("(")[0] for line in lines if line.startswith("  in ")]
    assert places == ["  in do_while{cpu,scan_fn}", graph, graph]


def test_a_rule_that_asks_for_a_decision_takes_it(monkeypatch):
    """Else it would ask forever."""

    class Undecided(Op):
        __props__ = ()
        itypes = otypes = [at.dscalar]  # noqa: RUF012

        def perform(self, node, inputs, outputs):
            outputs[0][0] = inputs[0]

    def rule(ctx, value):
        raise ctx.undecided([0], "It depends on a value.")

    monkeypatch.setattr(registry, "_rules", registry._rules.copy())
    jaxprgen.lowers(Undecided)(rule)
    f = jaxprgen.compile([x0], Undecided()(x0))
    with pytest.raises(errors.LoweringError, match="asks for a decision, and does not take it"):
        f(1.0)


def test_a_length_is_decided_by_many_numbers_but_not_by_any_number_of_them():
    t = scan(lambda c, k: (c * 2, until(c.sum() > k)), None, x, [a], n_steps=9)
    f = jaxprgen.compile([x, a], t)
    for value, length in ((np.ones(100), 1), (3 * np.ones(100), 1), (np.ones(100) / 4, 3)):
        assert f(value, 99.0).shape == (length, 100)
    assert f.cache_info().misses == 2
    count = DECIDING_LIMIT
    lines = refusal(errors.StaticShapeError, f, np.ones(count + 1), 100.0)
    assert lines[:3] == [
        UNKNOWN,
        f"A shape depends on the value of input 'x', which is an array of {count + 1} elements.",
        f"Up to {count} elements decide how many elements there are, how many steps a loop takes, "
        "or which way a branching goes.",
    ]


def test_a_length_that_changes_from_step_to_step():
    outer = scan(lambda p: at.sort(doubled_from(p)).sum(), x)
    lines = refusal(errors.StaticShapeError, jaxprgen.compile([x], outer), numbers)
    assert lines[0] == UNKNOWN
    assert lines[1].startswith("A shape depends on a value that changes from one step of a loop")
    assert [line.split("(")[0] for line in lines if line.startswith("  in ")] == [
        "  in do_while{cpu,scan_fn}",
        "  in for{cpu,scan_fn}",
    ]


def test_a_length_that_draws_decide():
    rng = aesara.shared(np.random.default_rng(1), name="rng")
    t, _ = aesara.scan(
        lambda c: (c + at.random.normal(rng=rng), until(c > 3)), outputs_info=[x0], n_steps=20
    )
    lines = refusal(errors.StaticShapeError, jaxprgen.compile([x0], t), jax.random.key(1), 0.0)
    assert lines[1:3] == [
        "A shape depends on a random draw, which has no value while the program is emitted.",
        "Draw in a function of its own, and pass what it returns.",
    ]
    # There the generator is an argument, of which the value is a key.
    lines = refusal(errors.StaticShapeError, jaxprgen.function([x0], t), 0.0)
    assert lines[1:3] == [
        "A shape depends on the value of input 'rng', which is a PRNG key.",
        "Draw in a function of its own, and pass what it returns; or use no more of what the loop "
        "leaves than single rows and reductions.",
    ]


# --- The rows of a loop that takes too few steps ----------------------------------------------

counted = scan(lambda c: c * 2, None, x0, n_steps=n)


def test_the_last_row_of_no_steps_is_what_a_loop_starts_with():
    """As with Aesara's rewriting; without it, and with checks, there is none."""
    f = jaxprgen.compile([x0, n], counted[-1])
    rewritten = aesara.function([x0, n], counted[-1], mode=Mode("py", "fast_run"))
    assert f(3.0, 0) == rewritten(3.0, 0) == 3
    with pytest.raises(IndexError, match="index -1 is out of bounds"):
        compiled([x0, n], counted[-1])[1](3.0, 0)
    right, wrong = failures([x0, n], counted[-1], [3.0, 1], [3.0, 0])
    assert right is None
    assert "IndexOutOfBoundsError: The loop ends before it" in wrong
    none = scan(lambda c: c * 2, None, x0, n_steps=0)
    with pytest.raises(errors.IndexOutOfBoundsError, match="axis 0 of size 0"):
        jaxprgen.compile([x0], none[-1])(3.0)


@quiet
def test_rows_that_a_known_number_tells():
    """No value decides the program: what need not be there is checked."""
    t = doubled()
    outputs = [t[0], t[3], t[-1], t[-3], t[1:][0]]
    f = assert_agrees([x0, a], outputs, [1.0, 50.0])
    assert loops(f, 1.0, 50.0) == ["while"]
    found = failures([x0, a], outputs, *([1.0, bound] for bound in (50.0, 5.0, 3.0, 0.5)))
    assert [text is None for text in found] == [True, True, False, False]
    assert failures([x0, a], [t[0], t[-1]], [1.0, 0.5]) == [None]
