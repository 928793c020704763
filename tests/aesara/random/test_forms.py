"""Every form of parameters and sizes, and parameters far out, for every RandomVariable."""

from __future__ import annotations

import functools
import itertools

import aesara
import aesara.tensor as at
import jax
import numpy as np
import pytest
import scipy.stats as stats
from aesara.tensor.random import basic as aer
from catalogue.draws import generator
from catalogue.parameters import TABLE, rows
from profiles import amount, sample

import jaxprgen
from jaxprgen._jax import check_jaxpr
from jaxprgen.errors import ShapeMismatchError

KEY = jax.random.key(0)
COUNT = amount(quick=2_000, deep=100_000)
ALARM = 1e-8
"""The probability of a false alarm, for each set of parameters; keys are fixed."""


def located(law):
    return lambda loc, scale: law(loc, scale)


def scaled(law):
    return lambda scale: law(scale=scale)


def circular(mu, kappa):
    if not kappa:
        return stats.uniform(-np.pi, 2 * np.pi)
    return stats.norm(mu, kappa**-0.5) if kappa > 1e7 else stats.vonmises(kappa, mu)


PLACES = [(0.0, 1.0), (5.0, 0.1), (-3e5, 1e3)]
SCALES = [(1.0,), (1e-9,), (3e8,)]
LAWS = {
    # The distribution that an Op's parameters stand for, and some of them.
    aer.uniform: (lambda a, b: stats.uniform(a, b - a), [(0.0, 1.0), (-1e6, 1e7), (3.0, 3.0001)]),
    aer.triangular: (
        lambda a, c, b: stats.triang((c - a) / (b - a), a, b - a),
        [(0.0, 0.0, 1.0), (0.0, 1.0, 1.0), (-1.0, 0.2, 3.0)],
    ),
    aer.beta: (stats.beta, [(0.3, 0.5), (0.5, 5.0), (1.0, 1.0), (500.0, 300.0), (1e-2, 1e2)]),
    aer.rayleigh: (scaled(stats.rayleigh), SCALES),
    aer.power: (stats.powerlaw, [(0.1,), (1.0,), (200.0,)]),
    aer.normal: (located(stats.norm), PLACES),
    aer.halfnormal: (located(stats.halfnorm), PLACES),
    aer.lognormal: (lambda m, s: stats.lognorm(s, scale=np.exp(m)), [(0.0, 1.0), (2.0, 5.0)]),
    aer.gamma: (
        lambda a, s: stats.gamma(a, scale=s),
        [(0.02, 1.0), (0.5, 2.0), (1.0, 1.0), (50.0, 0.1), (1e6, 1.0), (2.0, 1e-9)],
    ),
    aer.chisquare: (stats.chi2, [(0.1,), (1.0,), (1e4,)]),
    aer.pareto: (lambda b, s: stats.pareto(b, scale=s), [(0.2, 1.0), (5.0, 2.0), (1e3, 1e3)]),
    aer.gumbel: (located(stats.gumbel_r), PLACES),
    aer.exponential: (scaled(stats.expon), SCALES),
    aer.weibull: (stats.weibull_min, [(0.3,), (1.0,), (50.0,)]),
    aer.logistic: (located(stats.logistic), PLACES),
    aer.vonmises: (
        circular,
        [(0.0, 0.0), (0.0, 1e-6), (0.0, 1.0), (0.5, 50.0), (-1.0, 1e5), (0.0, 1e8)],
    ),
    aer.cauchy: (located(stats.cauchy), PLACES),
    aer.halfcauchy: (located(stats.halfcauchy), PLACES),
    aer.invgamma: (lambda a, s: stats.invgamma(a, scale=s), [(0.2, 1.0), (3.0, 2.0), (1e4, 1.0)]),
    aer.wald: (
        lambda m, s: stats.invgauss(m / s, scale=s),
        [(0.1, 1.0), (1.0, 1.0), (10.0, 1.0), (50.0, 0.5), (1.0, 1e4)],
    ),
    aer.truncexpon: (stats.truncexpon, [(0.01, 0.0, 1.0), (1.0, 2.0, 3.0), (50.0, 0.0, 1.0)]),
    aer.t: (stats.t, [(0.5, 0.0, 1.0), (1.0, 2.0, 3.0), (30.0, 0.0, 1.0), (1e6, 0.0, 1.0)]),
    aer.laplace: (located(stats.laplace), PLACES),
    aer.gengamma: (
        lambda a, p, s: stats.gengamma(a / p, p, scale=s),
        [(0.2, 0.5, 1.0), (2.0, 3.0, 1.5), (1.0, 1.0, 1.0), (30.0, 0.5, 2.0)],
    ),
    aer.f: (stats.f, [(0.5, 0.5), (1.0, 10.0), (30.0, 4.0), (1e4, 1e4)]),
    aer.zipf: (stats.zipf, [(4.0,), (10.0,), (300.0,), (2000.0,)]),
    aer.geometric: (stats.geom, [(1.0,), (0.5,), (1e-3,), (1e-6,)]),
    aer.hypergeometric: (
        lambda good, bad, n: stats.hypergeom(good + bad, good, n),
        [(0, 5, 3), (5, 0, 3), (5, 5, 0), (5, 5, 10), (10, 20, 15), (100_000, 200_000, 1000)],
    ),
    aer.bernoulli: (stats.bernoulli, [(0.0,), (1e-3,), (0.5,), (1.0,)]),
    aer.binomial: (
        stats.binom,
        [(0, 0.5), (1, 0.3), (10, 0.0), (10, 1.0), (1000, 0.01), (10**6, 0.5), (10**9, 0.9)],
    ),
    aer.betabinom: (
        stats.betabinom,
        [(0, 1.0, 1.0), (1, 0.5, 0.5), (50, 0.1, 0.2), (1000, 5.0, 3.0)],
    ),
    aer.poisson: (stats.poisson, [(0.0,), (1e-2,), (1.0,), (12.0,), (1e3,), (1e6,), (1e13,)]),
    aer.nbinom: (stats.nbinom, [(0.1, 0.5), (1.0, 0.1), (50.0, 0.9), (3.0, 1.0), (1e3, 1e-3)]),
    aer.integers: (stats.randint, [(0, 1), (-5, 5), (0, 2**40)]),
    aer.randint: (stats.randint, [(0, 1), (-5, 5), (0, 2**40)]),
    aer.categorical: (
        lambda p: stats.rv_discrete(values=(range(len(p)), p)),
        [([0.2, 0.5, 0.3],), ([0.0, 1.0, 0.0],), ([0.0, 0.999, 0.001],)],
    ),
}
VECTORS = {
    aer.multivariate_normal: ([0.0, 1.0], [[2.0, 0.5], [0.5, 1.0]]),
    aer.dirichlet: ([0.5, 1.5],),
    aer.multinomial: (5, [0.25, 0.75]),
}
SCALARS = {op: sets[0] for op, (_, sets) in LAWS.items()}


def uniforms(drawn, law):
    """What is uniform on the unit interval if the draws are of this distribution."""
    if not hasattr(getattr(law, "dist", law), "pmf"):
        return law.cdf(drawn)
    before = law.cdf(drawn - 1)
    return before + np.random.default_rng(1).random(len(drawn)) * (law.cdf(drawn) - before)


# The distributions that a run tries; test_distributions.py has a law for each, too.
TRIED = set(sample(dict.fromkeys([*LAWS, *TABLE]), 18))


@functools.cache
def draws(op):
    """Draws of every set of parameters, as one array of parameters for each of the Op's.

    After those of `LAWS` there are those that are refused, then those on the edge.
    """
    sets = [*LAWS.get(op, (None, []))[1]]
    for more in rows(op) if op in TABLE else []:
        sets += more
    arrays = [np.stack(column) for column in zip(*sets, strict=True)]
    inputs = [at.tensor(a.dtype, shape=(None,) * a.ndim) for a in arrays]
    node = op.make_node(generator(op), (COUNT, len(sets)), "floatX", *inputs)
    f = jaxprgen.compile(inputs, node.outputs[1])
    check_jaxpr(f.jaxpr(KEY, *arrays).jaxpr)
    return np.asarray(f(KEY, *arrays))


@pytest.mark.parametrize("op", [op for op in TABLE if op in TRIED], ids=lambda op: op.name)
def test_draws_of_bad_parameters_are_no_numbers_of_the_distribution(op):
    """Nor do they touch the draws of others."""
    bad, edge = rows(op)
    found = draws(op)[:, -len(bad) - len(edge) :]
    missing = np.isnan(found) if found.dtype.kind == "f" else found == -1
    missing = missing.all(axis=-1) if op.ndim_supp else missing
    assert missing[:, : len(bad)].all()
    assert not missing[:, len(bad) :].any()


@pytest.mark.filterwarnings("ignore::RuntimeWarning:scipy")
@pytest.mark.parametrize("op", [op for op in LAWS if op in TRIED], ids=lambda op: op.name)
def test_distributions_of_many_parameters(op):
    law, sets = LAWS[op]
    for i, parameters in enumerate(sets):
        found = stats.kstest(uniforms(draws(op)[:, i], law(*parameters)), "uniform")
        assert found.pvalue > ALARM, parameters


# --- Shapes and dtypes --------------------------------------------------------------------

SIZES = (None, (3,), (2, 3), (1, 3), (0,), (2,), (3, 1), (1,), (0, 3), (2, 0))
BATCHES = (((),), ((3,), (3,), ()), ((3,), (3,)), ((1,), (1,)), ((0,), (0,), ()))


def repeated(op, parameters, *batches):
    """Parameters as arrays of these batches, the last of which is for all that are left."""
    ranks = op.ndims_params
    batches = (*batches, *[batches[-1]] * len(ranks))
    arrays = [np.asarray(p) for p in parameters]
    return [
        np.broadcast_to(a, batch + a.shape[a.ndim - rank :])
        for a, rank, batch in zip(arrays, ranks, batches, strict=False)
    ]


def perform(op, parameters, size):
    """What Aesara draws, or None where it refuses."""
    node = op.make_node(generator(op), size, "floatX", *parameters)
    outputs = [[None], [None]]
    rng = generator(op).get_value()
    try:
        op.perform(node, [rng, np.asarray(size or [], int), None, *parameters], outputs)
    except ValueError:
        return node.outputs[1], None
    return node.outputs[1], outputs[1][0]


@pytest.mark.parametrize("op", [*SCALARS, *VECTORS], ids=lambda op: op.name)
def test_shapes_of_batches(op):
    """Sizes and arrays of parameters give the shapes they give in Aesara, or are refused."""
    parameters = SCALARS.get(op) or VECTORS[op]
    taken, shapes = [], []
    for (batch, *batches), size in sample(itertools.product(BATCHES, SIZES), 12):
        arrays = repeated(op, parameters, *(batches or [()]))
        variable, theirs = perform(op, arrays, size)
        ends = zip(reversed(batch), reversed(size or batch), strict=False)
        if len(batch) <= len(size or batch) and all(n in (1, m) for n, m in ends):
            taken.append(variable)
            support = variable.type.ndim - len(size or batch)
            assert theirs is not None or (op in VECTORS and 0 in (*batch, *(size or ())))
            shapes.append((*(size or batch), *[2] * support))
            assert theirs is None or theirs.shape == shapes[-1]
            continue
        # NumPy, for its integers, takes only as many parameters as there are numbers.
        assert theirs is None or op in (aer.integers, aer.randint)
        with pytest.raises(ShapeMismatchError, match="does not fit parameters of shapes"):
            jaxprgen.compile([], variable).jaxpr(KEY)
    found = jaxprgen.compile([], taken).jaxpr(KEY).out_avals
    assert [x.shape for x in found] == shapes
    assert {x.dtype.name for x in found} == {taken[0].dtype}


@pytest.mark.parametrize(
    "dtype", sample(["bool", "int8", "uint8", "int64", "float16", "float32"], 3)
)
def test_dtypes_of_parameters(dtype):
    """Parameters of any dtype that holds them make draws of the declared dtype."""
    inputs, outputs, arguments = [], [], []
    for op, parameters in SCALARS.items():
        for i, p in enumerate(parameters):
            number = np.asarray(p).astype(dtype)
            if np.array_equal(number.astype(float), np.asarray(p, float)):
                inputs.append(at.tensor(dtype, shape=(None,) * number.ndim))
                arguments.append(number)
                given = [inputs[-1] if j == i else np.asarray(q) for j, q in enumerate(parameters)]
                outputs.append(op.make_node(generator(op), (2,), "floatX", *given).outputs[1])
    found = jaxprgen.compile(inputs, outputs).jaxpr(KEY, *arguments).out_avals
    assert [x.dtype for x in found] == [v.dtype for v in outputs]
    assert len(found) > 10


# --- Permutations, choices, parameters by other names --------------------------------------


WEIGHTS = [0.5, 0.0, 0.25, 0.25]
WITHOUT = {"replace": False}
OPTIONS = [{}, {"size": ()}, {"size": 5}, {"size": (2, 2)}, {"size": (0,)}]
OPTIONS += [{"size": 4} | WITHOUT, {"size": (2, 2)} | WITHOUT]
OPTIONS += [{"size": 3, "p": WEIGHTS}, {"size": 3, "p": WEIGHTS} | WITHOUT]


@pytest.mark.parametrize("rank", [pytest.param(2, marks=pytest.mark.deep), 3])
def test_choices_from_rows(rank):
    """Aesara declares a rank without the axes of rows; its draws have them, as NumPy's do."""
    table = np.arange(4 * 3 * 2.0).reshape((4, 3, 2)[:rank] if rank == 3 else (4, 6))
    drawn = [aer.choice(at.constant(table), rng=generator(), **options) for options in OPTIONS]
    python = aesara.compile.mode.Mode("py", None)
    shapes = [each.shape for each in aesara.function([], drawn, mode=python)()]
    f = jaxprgen.compile([], [*drawn, *((2 * each).sum() for each in drawn)])(KEY)
    for found in (f[: len(drawn)], aesara.function([], drawn, mode="JAXPR")()):
        for options, shape, each in zip(OPTIONS, shapes, found, strict=True):
            rows = np.asarray(each).reshape(-1, table[0].size)
            assert each.shape == shape
            places = [int(row[0]) // table[0].size for row in rows]
            np.testing.assert_array_equal(rows, table.reshape(4, -1)[places])
            assert options.get("replace", True) or len({*places}) == len(places)
            assert "p" not in options or 1 not in places
    for each, total in zip(f[: len(drawn)], f[len(drawn) :], strict=True):
        np.testing.assert_allclose(total, 2 * each.sum())


def test_vectors_of_batches():
    """Means and covariances of batched vector distributions."""
    mean = np.array([[0.0, 1.0], [5.0, -5.0]])
    cov = np.array([[[2.0, 0.5], [0.5, 1.0]], [[1.0, -0.9], [-0.9, 1.0]]])
    alphas, n = np.array([[0.5, 1.5], [20.0, 5.0]]), np.array([5, 1000])
    p = np.array([[0.25, 0.75], [0.9, 0.1]])
    inputs = [at.tensor(a.dtype, shape=(None,) * a.ndim) for a in (mean, cov, alphas, n, p)]
    m, c, a, k, q = inputs
    size = (COUNT, 2)
    outputs = [
        aer.multivariate_normal(m, c, size=size, rng=generator()),
        aer.dirichlet(a, size=size, rng=generator()),
        aer.multinomial(k, q, size=size, rng=generator()),
    ]
    found = jaxprgen.compile(inputs, outputs)(KEY, mean, cov, alphas, n, p)
    normal, shares, counts = (np.asarray(x) for x in found)
    for i in range(2):
        white = np.linalg.solve(np.linalg.cholesky(cov[i]), (normal[:, i] - mean[i]).T)
        assert all(stats.kstest(row, "norm").pvalue > ALARM for row in white)
        assert abs(np.corrcoef(white)[0, 1]) < 6 / np.sqrt(COUNT)
        for j, law in ((0, stats.beta(*alphas[i])), (1, stats.beta(*alphas[i][::-1]))):
            assert stats.kstest(shares[:, i, j], law.cdf).pvalue > ALARM
        law = stats.binom(n[i], p[i, 0])
        assert stats.kstest(uniforms(counts[:, i, 0], law), "uniform").pvalue > ALARM
    np.testing.assert_array_equal(counts.sum(axis=2), np.broadcast_to(n, size))
    # As in NumPy: the last probability is what the others leave.
    left = jaxprgen.compile([], aer.multinomial(100, [0.5, 0.5, 0.25], rng=generator()))(KEY)
    assert left[2] == 0 and left[:2].sum() == 100


def test_other_names_of_parameters():
    """The standard distributions, and gamma by its rate; sizes of shapes and of arguments."""
    x, n = at.dmatrix("x"), at.lvector("n")
    pairs = [
        (aer.standard_normal, (), aer.normal, (0.0, 1.0)),
        (aer.standard_gamma, (2.0,), aer.gamma, (2.0, 1.0)),
        (aer.gamma, (2.0, 4.0), aer.gamma, (2.0, 4.0)),
        (aer.negative_binomial, (2.0, 0.5), aer.nbinom, (2.0, 0.5)),
        (aer.random, (), aer.uniform, (0.0, 1.0)),
        (aer.integers, (5,), aer.integers, (0, 5)),
    ]
    size = (x.shape[0], n[1], n.shape[0])
    f, g = (
        jaxprgen.compile([x, n], [op(*ps, size=size, rng=generator()) for op, ps in each])
        for each in ([pair[:2] for pair in pairs], [pair[2:] for pair in pairs])
    )
    args = KEY, np.ones((3, 4)), np.array([7, 5])
    assert str(f.jaxpr(*args)) == str(g.jaxpr(*args))
    assert {aval.shape for aval in f.jaxpr(*args).out_avals} == {(3, 5, 2)}
    with aesara.config.change_flags(floatX="float32"):
        (drawn,) = jaxprgen.compile([], aer.normal(0.0, 1.0)).jaxpr(KEY).out_avals
    assert drawn.dtype == "float32"
