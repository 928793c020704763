"""PyMC's distributions: draws follow the laws that their densities and SciPy name."""

import jax
import numpy as np
import pytest
import scipy.sparse
from scipy import stats

pytest.importorskip("pymc.model")  # Not "pymc", which is also the name of this folder.

import pymc as pm

import jaxprgen.pymc

DRAWS = 4000
LEVEL = 1e-4
"""The probability with which a test of a correct law fails for an unlucky seed."""

LAWS = {
    "AsymmetricLaplace": (
        {"kappa": 2.0, "mu": 0.5, "b": 1.5},
        stats.laplace_asymmetric(2, 0.5, 1 / 1.5),
    ),
    "ExGaussian": ({"mu": 1.0, "sigma": 0.5, "nu": 2.0}, stats.exponnorm(4, 1, 0.5)),
    "HalfStudentT": ({"nu": 3.0, "sigma": 2.0}, None),
    "Kumaraswamy": ({"a": 2.0, "b": 3.0}, None),
    "LogitNormal": ({"mu": 0.3, "sigma": 0.8}, None),
    "Moyal": ({"mu": 1.0, "sigma": 2.0}, stats.moyal(1, 2)),
    "Rice": ({"nu": 1.0, "sigma": 2.0}, stats.rice(0.5, 0, 2)),
    "SkewNormal": ({"mu": 1.0, "sigma": 2.0, "alpha": 3.0}, stats.skewnorm(3, 1, 2)),
    "SkewStudentT": ({"a": 2.0, "b": 3.0, "mu": 1.0, "sigma": 2.0}, stats.jf_skew_t(2, 3, 1, 2)),
    "TruncatedNormal": (
        {"mu": 0.5, "sigma": 2.0, "lower": -1.0, "upper": 2.0},
        stats.truncnorm(-0.75, 0.75, 0.5, 2),
    ),
    "Wald": ({"mu": 1.5, "lam": 2.0, "alpha": 0.5}, stats.invgauss(0.75, 0.5, 2)),
    "Weibull": ({"alpha": 1.5, "beta": 2.0}, stats.weibull_min(1.5, 0, 2)),
}
"""Parameters of PyMC's own distributions, with SciPy's law; else it is written out below."""


def cumulative(name, x):
    if name == "HalfStudentT":
        return 2 * stats.t(3).cdf(x / 2) - 1
    if name == "Kumaraswamy":
        return 1 - (1 - x**2) ** 3
    if name == "LogitNormal":
        return stats.norm(0.3, 0.8).cdf(np.log(x / (1 - x)))
    return LAWS[name][1].cdf(x)


def test_draws_of_continuous_distributions_follow_their_laws():
    with pm.Model() as model:
        for name, (parameters, _) in LAWS.items():
            getattr(pm, name)(name, **parameters)
    keys = jax.random.split(jax.random.key(0), DRAWS)
    draws = jax.vmap(jaxprgen.pymc.prior(model))(keys)
    wrong = {}
    for name in LAWS:
        p = stats.kstest(np.asarray(draws[name]), lambda x, name=name: cumulative(name, x)).pvalue
        if not p > LEVEL:
            wrong[name] = p
    assert not wrong


def test_draws_of_tails_of_densities_between_points_and_of_polya_gamma():
    points, heights = np.array([-1.0, 0.0, 1.0, 3.0]), np.array([0.0, 2.0, 1.0, 1.0])
    with pm.Model() as model:
        pm.TruncatedNormal("tail", 0.0, 1.0, lower=9.0)
        pm.TruncatedNormal("lower tail", 1.0, 2.0, upper=-15.0)
        pm.Interpolated("interpolated", points, heights)
        pm.PolyaGamma("gamma", h=1.0, z=2.0)
    keys = jax.random.split(jax.random.key(3), DRAWS)
    draws = {k: np.asarray(x) for k, x in jax.vmap(jaxprgen.pymc.prior(model))(keys).items()}
    grid = np.linspace(-1, 3, 40_001)
    density = np.interp(grid, points, heights)
    below = np.concatenate([[0], np.cumsum((density[1:] + density[:-1]) / 2)])
    laws = {
        "tail": stats.truncnorm(9, np.inf).cdf,
        "lower tail": stats.truncnorm(-np.inf, -8, 1, 2).cdf,
        "interpolated": lambda x: np.interp(x, grid, below / below[-1]),
    }
    for name, law in laws.items():
        assert stats.kstest(draws[name], law).pvalue > LEVEL, name
    error = draws["gamma"].std() / np.sqrt(DRAWS)
    assert abs(draws["gamma"].mean() - np.tanh(1.0) / 4) < 4.5 * error


def weibull(k, q=0.6, beta=1.5):
    return q ** (k**beta) - q ** ((k + 1) ** beta)


def inflated(k, psi=0.6):
    return psi * stats.poisson.pmf(k, 3.0) + (1 - psi) * (k == 0)


MASSES = {
    "DiscreteUniform": ({"lower": -1, "upper": 3}, stats.randint(-1, 4).pmf),
    "DiscreteWeibull": ({"q": 0.6, "beta": 1.5}, weibull),
    "ZeroInflatedPoisson": ({"psi": 0.6, "mu": 3.0}, inflated),
    "HurdlePoisson": (
        {"psi": 0.6, "mu": 3.0},
        lambda k: np.where(k == 0, 0.4, 0.6 * stats.poisson.pmf(k, 3.0) / (1 - np.exp(-3.0))),
    ),
}


@pytest.mark.filterwarnings("ignore::jaxprgen.errors.RuntimeCheckWarning")
def test_draws_of_counts_follow_their_laws():
    with pm.Model() as model:
        for name, (parameters, _) in MASSES.items():
            getattr(pm, name)(name, **parameters)
    keys = jax.random.split(jax.random.key(1), DRAWS)
    draws = jax.vmap(jaxprgen.pymc.prior(model))(keys)
    for name, (_, mass) in MASSES.items():
        values = np.arange(-1 if name == "DiscreteUniform" else 0, 30)
        observed = (np.asarray(draws[name])[:, None] == values).sum(0)
        expected = DRAWS * mass(values)
        common = expected >= 5
        observed = [*observed[common], DRAWS - observed[common].sum()]
        expected = [*expected[common], DRAWS - expected[common].sum() + 1e-9]
        p = stats.chisquare(observed, expected, sum_check=False).pvalue
        assert p > LEVEL, name


def test_draws_of_vectors_have_the_moments_of_their_laws():
    """Means and second moments, with four standard errors."""
    cov, rows = np.array([[2.0, 0.6], [0.6, 0.5]]), np.array([[1.0, 0.3], [0.3, 2.0]])
    with pm.Model() as model:
        pm.MvStudentT("t", nu=6, mu=[1.0, 2.0], scale=cov)
        pm.MatrixNormal("matrix", np.zeros((2, 2)), rowcov=rows, colcov=cov)
        pm.KroneckerNormal("kronecker", np.zeros(4), covs=[rows, cov])
        pm.ZeroSumNormal("zero", sigma=2, shape=3)
        pm.StickBreakingWeights("sticks", alpha=2.0, K=2)
        pm.Wishart("wishart", nu=5, V=cov)
        pm.LKJCorr("corr", n=3, eta=2)
    keys = jax.random.split(jax.random.key(2), DRAWS)
    draws = {k: np.asarray(x) for k, x in jax.vmap(jaxprgen.pymc.prior(model))(keys).items()}

    def assert_mean(values, expected, name):
        error = values.std(0) / np.sqrt(DRAWS)
        assert (abs(values.mean(0) - expected) <= 4.5 * error + 1e-9).all(), name

    def second(x):
        x = x.reshape(DRAWS, -1)
        return x[:, :, None] * x[:, None]

    assert_mean(draws["t"], [1, 2], "t")
    assert_mean(second(draws["t"] - np.array([1, 2])), cov * 6 / 4, "t")
    for name in ("matrix", "kronecker"):
        assert_mean(second(draws[name]), np.kron(rows, cov), name)
    assert_mean(second(draws["zero"]), 4 * (np.eye(3) - 1 / 3), "zero")
    assert_mean(draws["sticks"], [1 / 3, 2 / 9, 4 / 9], "sticks")
    assert_mean(draws["wishart"], 5 * cov, "wishart")
    off = draws["corr"][:, 1, 0]  # Of the matrix, or of its Cholesky factor.
    assert stats.kstest((off + 1) / 2, stats.beta(2.5, 2.5).cdf).pvalue > LEVEL


@pytest.mark.parametrize("shape", [(4,), (2, 4)])
@pytest.mark.parametrize("form", [np.asarray, scipy.sparse.csr_matrix])
@pytest.mark.filterwarnings("ignore:Method.*sparse variables:UserWarning")
def test_draws_of_neighbors_have_the_precision_of_their_law(form, shape):
    neighbors = np.array([[0, 1, 1, 0], [1, 0, 1, 0], [1, 1, 0, 1], [0, 0, 1, 0.0]])
    with pm.Model() as model:
        pm.CAR("x", np.arange(4.0), form(neighbors), alpha=0.7, tau=2.0, shape=shape)
    keys = jax.random.split(jax.random.key(4), DRAWS)
    draws = np.asarray(jax.vmap(jaxprgen.pymc.prior(model))(keys)["x"])
    assert draws.shape == (DRAWS, *shape)
    precision = 2 * (np.diag(neighbors.sum(0)) - 0.7 * neighbors)
    white = (draws.reshape(-1, 4) - np.arange(4.0)) @ np.linalg.cholesky(precision)
    assert all(stats.kstest(x, stats.norm.cdf).pvalue > LEVEL for x in white.T)
    assert abs(np.corrcoef(white.T) - np.eye(4)).max() < 5 / np.sqrt(len(white))
