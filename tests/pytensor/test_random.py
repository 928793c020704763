"""PyTensor's random variables: draws follow SciPy's laws, and have the shapes of PyTensor's."""

import jax
import numpy as np
import pytest
from hypothesis import given, strategies as st
from profiles import sample
from scipy import stats

import jaxprgen

pytensor = pytest.importorskip("pytensor")
pt = pytest.importorskip("pytensor.tensor")

import jaxprgen.pytensor  # noqa: E402  # It registers the mode.

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")
DRAWS = 4000
LEVEL = 1e-4
"""The probability with which a test of a correct law fails for an unlucky seed."""


SCALARS = {
    "uniform": ((-1.0, 2.0), stats.uniform(-1, 3)),
    "triangular": ((-1.0, 0.5, 2.0), stats.triang(0.5, -1, 3)),
    "beta": ((0.5, 2.0), stats.beta(0.5, 2)),
    "normal": ((1.0, 2.0), stats.norm(1, 2)),
    "halfnormal": ((1.0, 2.0), stats.halfnorm(1, 2)),
    "lognormal": ((0.5, 0.7), stats.lognorm(0.7, 0, np.exp(0.5))),
    "gamma": ((0.7, 2.0), stats.gamma(0.7, 0, 2.0)),
    "chisquare": ((3.0,), stats.chi2(3)),
    "pareto": ((2.0, 1.5), stats.pareto(2, 0, 1.5)),
    "gumbel": ((1.0, 2.0), stats.gumbel_r(1, 2)),
    "exponential": ((2.0,), stats.expon(0, 2)),
    "weibull": ((1.5,), stats.weibull_min(1.5)),
    "logistic": ((1.0, 2.0), stats.logistic(1, 2)),
    "vonmises": ((0.5, 2.0), stats.vonmises(2, 0.5)),
    "cauchy": ((1.0, 2.0), stats.cauchy(1, 2)),
    "halfcauchy": ((1.0, 2.0), stats.halfcauchy(1, 2)),
    "invgamma": ((3.0, 2.0), stats.invgamma(3, 0, 2)),
    "wald": ((1.5, 2.0), stats.invgauss(1.5 / 2, 0, 2)),
    "truncexpon": ((2.0, 1.0, 0.5), stats.truncexpon(2, 1, 0.5)),
    "t": ((3.0, 1.0, 2.0), stats.t(3, 1, 2)),
    "laplace": ((1.0, 2.0), stats.laplace(1, 2)),
    "gengamma": ((2.0, 1.5, 2.0), stats.gengamma(2 / 1.5, 1.5, 0, 2)),
    "poisson": ((3.5,), stats.poisson(3.5)),
    "geometric": ((0.3,), stats.geom(0.3)),
    "hypergeometric": ((7, 5, 6), stats.hypergeom(12, 7, 6)),
    "bernoulli": ((0.3,), stats.bernoulli(0.3)),
    "binomial": ((10, 0.3), stats.binom(10, 0.3)),
    "negative_binomial": ((4, 0.4), stats.nbinom(4, 0.4)),
    "betabinom": ((10, 1.5, 2.0), stats.betabinom(10, 1.5, 2)),
    "integers": ((-2, 5), stats.randint(-2, 5)),
    "categorical": (
        ([0.1, 0.2, 0.0, 0.7],),
        stats.rv_discrete(values=(range(4), [0.1, 0.2, 0, 0.7])),
    ),
}
"""Parameters of random variables of numbers, and their laws in SciPy."""


def drawn(*graphs):
    """Return draws of a function that PyTensor compiles with our mode."""
    return pytensor.function([], list(graphs), mode="JAXPR", on_unused_input="ignore")()


def rng(seed):
    return pytensor.shared(np.random.default_rng(seed))


def graph_of(name, parameters, size, generator):
    """Return a random variable of these parameters."""
    if name == "gamma":  # By position, the function takes a rate.
        shape, scale = parameters
        return pt.random.gamma(shape, scale=scale, size=size, rng=generator)
    return getattr(pt.random, name)(*parameters, size=size, rng=generator)


def p_value(draws, law):
    """Return how probable draws are that fit a law no better."""
    if hasattr(law, "pdf") and not hasattr(law.dist, "pmf"):
        return stats.kstest(draws, law.cdf).pvalue
    values, counts = np.unique(draws, return_counts=True)
    expected = law.pmf(values) * draws.size
    assert (expected > 0).all()
    common = expected >= 5
    observed = np.array([*counts[common], draws.size - counts[common].sum()])
    wanted = np.array([*expected[common], draws.size - expected[common].sum()])
    likely = wanted > 1e-9 * draws.size  # The rest is impossible if no values are rare.
    assert not observed[~likely].any()
    return stats.chisquare(observed[likely], wanted[likely], sum_check=False).pvalue


def test_draws_of_numbers_follow_their_laws():
    names = sample(SCALARS, 12)
    graphs = [graph_of(name, SCALARS[name][0], DRAWS, rng(i)) for i, name in enumerate(names)]
    wrong = {}
    for name, graph, draws in zip(names, graphs, drawn(*graphs), strict=True):
        _, law = SCALARS[name]
        assert (draws.shape, draws.dtype) == ((DRAWS,), graph.type.dtype), name
        p = p_value(draws, law)
        if not p > LEVEL:
            wrong[name] = p
    assert not wrong


def test_draws_of_vectors_follow_their_laws():
    mean, cov = np.array([1.0, -2.0]), np.array([[2.0, 0.6], [0.6, 0.5]])
    alphas, p = np.array([0.5, 1.5, 3.0]), np.array([0.2, 0.3, 0.5])
    normal, shares, counts = drawn(
        pt.random.multivariate_normal(mean, cov, size=DRAWS, rng=rng(1)),
        pt.random.dirichlet(alphas, size=DRAWS, rng=rng(2)),
        pt.random.multinomial(10, p, size=DRAWS, rng=rng(3)),
    )
    white = np.linalg.solve(np.linalg.cholesky(cov), (normal - mean).T)
    for row in white:
        assert stats.kstest(row, stats.norm.cdf).pvalue > LEVEL
    assert abs(np.corrcoef(white)[0, 1]) < 4 / np.sqrt(DRAWS)
    for i, a in enumerate(alphas):
        assert stats.kstest(shares[:, i], stats.beta(a, alphas.sum() - a).cdf).pvalue > LEVEL
        assert p_value(counts[:, i], stats.binom(10, p[i])) > LEVEL
    np.testing.assert_allclose(shares.sum(-1), 1)
    assert (counts.sum(-1) == 10).all()


def test_choice_and_permutation_of_a_batch_are_independent_and_uniform():
    rows = np.tile(np.arange(4), (DRAWS, 1))
    p = np.array([0.1, 0.2, 0.0, 0.7])
    choice, weighted, mixed = drawn(
        batched(pt.random.choice(rows[0], size=2, replace=False, rng=rng(4)), rows),
        batched(pt.random.choice(rows[0], size=2, replace=False, p=p, rng=rng(5)), rows),
        batched(pt.random.permutation(rows[0], rng=rng(6)), rows),
    )
    pairs = stats.randint(0, 12)
    assert (np.sort(mixed, -1) == rows).all()
    for draws in (choice, mixed):
        first, second = draws[:, 0], draws[:, 1]
        assert (first != second).all()
        assert p_value(first * 3 + second - (second > first), pairs) > LEVEL
    joint = {(i, j): p[i] * p[j] / (1 - p[i]) for i in range(4) for j in range(4) if i != j}
    law = stats.rv_discrete(values=([4 * i + j for i, j in joint], [*joint.values()]))
    assert p_value(weighted[:, 0] * 4 + weighted[:, 1], law) > LEVEL


def test_choice_with_replacement_and_permutations_of_whole_numbers():
    p, rows = np.array([0.1, 0.2, 0.0, 0.7]), np.array([2.0, 3.0, 5.0, 7.0])
    even, weighted, numbers, ordered, standard, successes = drawn(
        pt.random.choice(rows, size=DRAWS, rng=rng(10)),
        pt.random.choice(rows, size=DRAWS, p=p, rng=rng(11)),
        pt.random.choice(5, size=DRAWS, rng=rng(12)),
        pt.random.permutation(7, rng=rng(13)),
        pt.random.standard_normal(size=DRAWS, rng=rng(14)),
        pt.random.nbinom(4, 0.4, size=DRAWS, rng=rng(15)),
    )
    assert p_value(even, stats.rv_discrete(values=(rows.astype(int), np.full(4, 0.25)))) > LEVEL
    assert p_value(weighted, stats.rv_discrete(values=(rows.astype(int), p))) > LEVEL
    assert p_value(numbers, stats.randint(0, 5)) > LEVEL
    assert sorted(ordered) == [*range(7)]
    assert p_value(standard, stats.norm()) > LEVEL
    assert p_value(successes, stats.nbinom(4, 0.4)) > LEVEL


OTHERS = {"MvNormalRV", "DirichletRV", "MultinomialRV", "ChoiceWithoutReplacement", "PermutationRV"}
"""The random variables that other tests than those of numbers draw."""


def test_every_random_variable_of_the_library_is_drawn():
    from pytensor.tensor.random import basic
    from pytensor.tensor.random.op import RandomVariable

    kinds = {
        kind
        for kind in vars(basic).values()
        if isinstance(kind, type)
        and issubclass(kind, RandomVariable)
        and getattr(kind, "name", None)
    }
    drawn_here = {
        type(graph_of(name, parameters, None, rng(0)).owner.op)
        for name, (parameters, _) in SCALARS.items()
    }
    assert {kind.__name__ for kind in kinds - drawn_here} == OTHERS


def batched(graph, rows):
    """Return the random variable of a graph, with the rows of a batch as its first parameter."""
    generator, size, _, *others = graph.owner.inputs
    return graph.owner.op.make_node(generator, size, pt.as_tensor(rows), *others).outputs[1]


SHAPES = st.sampled_from([(), (1,), (3,), (2, 3), (2, 1)])


@given(
    st.sampled_from(["normal", "poisson", "categorical", "multinomial", "multivariate_normal"]),
    SHAPES,
    st.sampled_from([None, (), (2,), (4, 2, 3)]),
)
def test_shapes_are_those_of_the_python_mode(name, batch, extra):
    core = {"normal": [(), ()], "poisson": [()], "categorical": [(3,)], "multinomial": [(), (3,)]}
    shapes = [(*batch, *c) for c in core.get(name, [(3,), (3, 3)])]
    values = [np.full(s, 1 / 3) for s in shapes]
    if name == "multinomial":
        values[0] = np.full(shapes[0], 4)
    if name == "multivariate_normal":
        values[1] = np.broadcast_to(np.eye(3), shapes[1])
    size = None if extra is None else (*extra, *batch)
    parameters = [pt.tensor(dtype=v.dtype, shape=(None,) * v.ndim) for v in values]
    generator = rng(7)
    y = graph_of(name, parameters, size, generator)
    expected = pytensor.function(parameters, y, mode=pytensor.compile.mode.Mode("py", None))
    f = jaxprgen.function([generator, *parameters], y)
    found = jax.eval_shape(f, jax.random.key(7), *values)
    assert (found.shape, found.dtype) == (expected(*values).shape, y.dtype)


def test_the_mode_advances_shared_generators_and_those_of_inner_graphs():
    state = rng(8)
    following, x = pt.random.normal(rng=state, return_next_rng=True)
    f = pytensor.function([], x, updates={state: following}, mode="JAXPR")
    assert len({float(f()) for _ in range(3)}) == 3


def test_an_inner_graph_takes_and_returns_a_generator():
    from pytensor.compile.builders import OpFromGraph

    state, inner = rng(9), rng(0).type()
    following, x = pt.random.normal(rng=inner, return_next_rng=True)
    op = OpFromGraph([inner], [following, x])
    after, first = op(state)
    f = pytensor.function([], [first, op(after)[1]], updates={state: after}, mode="JAXPR")
    (a, b), (c, d) = f(), f()
    assert len({*map(float, (a, b, c, d))}) == 4
