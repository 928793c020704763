"""Models like those in reports of users of PyMC: log-densities and gradients as in Python mode.

Each is written for this table. Where it names issues, their models had a wrong log-density, a wrong
gradient or an error, in PyMC or by its JAX samplers.
"""

import numpy as np
import profiles
import pytest

pytest.importorskip("pymc.model")  # Not "pymc", which is also the name of this folder.
pytensor = pytest.importorskip("pytensor")

import jax  # noqa: E402
import pymc as pm  # noqa: E402
import pytensor.tensor as pt  # noqa: E402
import scipy.stats  # noqa: E402
from models import COUNTS, GROUP, SERIES, TIMES, X, Y  # noqa: E402
from reports import recorded  # noqa: E402
from test_pymc_models import PYTHON, assert_as_by  # noqa: E402

import jaxprgen.pymc  # noqa: E402

MODELS = {}
LINE = np.linspace(0, 3, 12)[:, None]


def reported(report):
    """Add the model whose variables a function makes."""
    return recorded(MODELS, report)


@reported("PyMC 5989: a JAX sampler refuses the slices in a loop")
def adstock():
    alpha, spent = pm.Beta("alpha", 1, 3), TIMES
    shifted = pytensor.scan(
        lambda t, x: pt.concatenate([pt.zeros(t), x[: x.shape[0] - t]]),
        sequences=pt.arange(4),
        non_sequences=pt.constant(spent),
        return_updates=False,
    )
    weights = pt.stack([alpha**t for t in range(4)])
    pm.Normal("y", weights @ shifted, pm.HalfNormal("s"), observed=Y)


@reported("PyMC 6718: a loop without observations, used further on")
def latent_path():
    def step(x, sigma):
        x = pm.Normal.dist(x, sigma)
        return x, pm.pytensorf.collect_default_updates([x])

    def path(start, sigma, size):
        return pytensor.scan(step, outputs_info=[start], non_sequences=[sigma], n_steps=20)[0]

    sigma = pm.HalfNormal("sigma")
    x = pm.CustomDist("x", pm.Normal("start"), sigma, dist=path, shape=(20,))
    pm.Normal("y", x, pm.HalfNormal("eta"), observed=SERIES)


@reported("PyMC 5261, 6467: a walk and an autoregression that are latent, by JAX")
def trend_and_latent_autoregression():
    options = {"init_dist": pm.Normal.dist(0, 1), "shape": 20}
    trend = pm.GaussianRandomWalk("trend", 0.1, pm.HalfNormal("s"), **options)
    rho = pm.Normal("rho", 0, 0.3, shape=3)
    rest = pm.AR(
        "rest",
        rho,
        sigma=0.3,
        constant=True,
        **{**options, "init_dist": pm.Normal.dist(0, 1, shape=2)},
    )
    pm.StudentT("y", nu=4, mu=trend + rest, sigma=0.2, observed=SERIES)


@reported("PyMC 6728: a mixture of distributions that functions define")
def mixture_of_shifted_distributions():
    def moved(a, b, loc, size):
        return 2 * pm.Beta.dist(a, b, size=size) + loc

    a = pm.Gamma("a", 4, 2)
    parts = [
        pm.CustomDist.dist(a, 2.0, loc, dist=moved, class_name=f"moved{t}")
        for t, loc in enumerate((-1.0, -0.5))
    ]
    pm.Mixture("y", pm.Dirichlet("w", np.ones(2)), parts, observed=np.tanh(Y) * 0.45)


@reported("PyMC 4417: the gradient of a truncated density")
def truncated_exponential():
    mu = pm.Exponential("mu", 0.2)
    pm.Truncated("x", pm.Exponential.dist(1 / mu), lower=1, upper=20, observed=TIMES + 1)


@reported("PyMC 1833, 1864: bounds for each observation")
def censored_at_times_of_their_own():
    alpha, b = pm.Gamma("alpha", 4, 2), pm.Normal("b", shape=3)
    latent = pm.Weibull.dist(alpha, pt.exp(X @ b))
    limits = np.where(GROUP > 1, TIMES, np.inf)
    pm.Censored("t", latent, lower=None, upper=limits, observed=TIMES)


@reported("PyMC 6797: missing parts of vectors")
def vectors_with_missing_parts():
    observed = np.ma.masked_array(X, mask=np.arange(36).reshape(12, 3) % 7 == 0)
    chol, _, _ = pm.LKJCholeskyCov("chol", n=3, eta=2.0, sd_dist=pm.Exponential.dist(1.0, shape=3))
    pm.MvNormal("x", pm.Normal("mu", shape=3), chol=chol, observed=observed)


@reported("PyMC 1254: a predictor with missing values")
def a_predictor_with_missing_values():
    seen = np.ma.masked_array(X[:, 0], mask=np.arange(12) % 4 == 1)
    x = pm.Normal("x", pm.Normal("center"), pm.HalfNormal("spread"), observed=seen)
    pm.Normal("y", 1.0 + pm.Normal("b") * x, pm.HalfNormal("s"), observed=Y)


@reported("PyMC 5255: counts with missing values, in a mixture")
def missing_counts():
    observed = np.ma.masked_array(COUNTS, mask=np.arange(12) % 5 == 2)
    pm.NegativeBinomial("y", pm.Gamma("mu", 2, 1, shape=4)[GROUP], 2.0, observed=observed)


@reported("a Kronecker product of processes")
def kronecker_process():
    covs = [pm.gp.cov.ExpQuad(1, ls=pm.Gamma("ls", 2, 1)), pm.gp.cov.Matern32(1, ls=1.5)]
    process = pm.gp.MarginalKron(cov_funcs=covs)
    process.marginal_likelihood("y", Xs=[LINE[:3], LINE[:4]], y=Y, sigma=pm.HalfNormal("s"))


@reported("inducing points")
def inducing_points():
    cov = pm.HalfNormal("eta") ** 2 * pm.gp.cov.RatQuad(1, ls=pm.Gamma("ls", 2, 1), alpha=1.0)
    process = pm.gp.MarginalApprox(cov_func=cov, approx="VFE")
    process.marginal_likelihood("y", X=LINE, Xu=LINE[1::3], y=Y, sigma=pm.HalfNormal("s"))


@reported("a process with heavy tails, and a changing length scale")
def student_t_process():
    cov = pm.gp.cov.Gibbs(1, lambda t, k: k + 0.1 * pt.abs(t), args=(pm.Gamma("ls", 2, 1),))
    f = pm.gp.TP(cov_func=cov, nu=pm.Gamma("nu", 4, 1) + 2).prior("f", X=LINE)
    pm.Normal("y", f, 0.4, observed=Y)


@reported("PyMC Marketing 2519: periodic functions by a basis")
def periodic_process_by_a_basis():
    cov = pm.gp.cov.Periodic(1, period=2.0, ls=pm.Gamma("ls", 4, 2))
    f = pm.gp.HSGPPeriodic(m=4, scale=pm.HalfNormal("scale"), cov_func=cov).prior("f", X=LINE)
    pm.Normal("y", f, pm.HalfNormal("s"), observed=Y)


@reported("PyTensor 1420: splines for each group")
def splines_for_each_group():
    knots = np.linspace(0.1, 2.9, 5)
    width = pm.HalfNormal("width")
    w = pm.Normal("w", 0, width, shape=(4, 6))
    basis = np.column_stack([LINE, np.maximum(LINE - knots, 0)])
    sigma = pm.HalfNormal("sigma")
    for g in range(4):
        mask = g == GROUP
        pm.Normal(f"y{g}", basis[mask] @ w[g], sigma, observed=Y[mask])


@reported("PyMC 3590: an epidemic")
def epidemic_by_runge_kutta():
    def slope(s, p):
        new = p[0] * s[0] * s[1]
        return pt.stack([-new, new - p[1] * s[1]])

    def step(s, p):
        k1 = slope(s, p)
        k2 = slope(s + 0.25 * k1, p)
        return s + 0.5 * slope(s + 0.5 * k2, p)

    p = pm.LogNormal("p", [0.4, -0.7], 0.3, shape=2)
    start = pt.stack([1 - pm.Beta("sick", 1, 9), 0.1])
    path = pytensor.scan(
        step, outputs_info=[start], non_sequences=[p], n_steps=12, return_updates=False
    )
    pm.NegativeBinomial("y", 20 * path[:, 1] + 0.1, 5.0, observed=COUNTS)


@reported("a mixture of infinitely many parts, cut off")
def sticks():
    weights = pm.StickBreakingWeights("weights", pm.Gamma("alpha", 2, 1), K=4)
    mu = pm.Normal("mu", 0, 2, shape=5)
    pm.NormalMixture("y", weights, mu, pm.HalfNormal("s", shape=5), observed=Y)


@reported("ordered intercepts and answers of unequal scales")
def item_responses():
    ability = pm.ZeroSumNormal("ability", shape=4)
    slope = pm.LogNormal("slope", 0, 0.3, shape=3)
    items = np.arange(12) % 3
    eta = slope[items] * (ability[GROUP] - pm.Normal("hard", shape=3)[items])
    p = pt.clip(0.2 + 0.8 * pm.math.invlogit(eta), 1e-6, 1 - 1e-6)
    pm.Bernoulli("y", p, observed=(Y > 0).astype(int))


@reported("a minibatch whose likelihood is scaled")
def scaled_likelihood():
    pm.Normal("y", X[:4] @ pm.Normal("b", shape=3), 1.0, observed=Y[:4], total_size=12)


def make(name):
    with pm.Model() as made:
        MODELS[name]()
    return made


@pytest.mark.filterwarnings("ignore::jaxprgen.errors.RuntimeCheckWarning")
@pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::DeprecationWarning")
@pytest.mark.filterwarnings("ignore::UserWarning:pymc")  # About missing data, and clones.
@pytest.mark.parametrize("name", profiles.sample(MODELS, 6))
def test_a_log_density_and_its_gradients_agree_with_python_mode(name):
    assert_as_by(make(name), PYTHON)


@pytest.mark.filterwarnings("ignore::jaxprgen.errors.RuntimeCheckWarning")
def test_the_gradient_of_a_truncated_density_is_that_of_its_formula():
    def formula(log_mu):
        scale = np.exp(log_mu)
        law = scipy.stats.expon(scale=scale)
        terms = law.logpdf(TIMES + 1).sum() - 12 * np.log(law.cdf(20) - law.cdf(1))
        return terms + scipy.stats.expon(scale=5).logpdf(scale) + log_mu

    model = make("truncated_exponential")
    point, h = {"mu_log__": np.array(1.0)}, 1e-5
    np.testing.assert_allclose(jaxprgen.pymc.logp(model)(point), formula(1.0), rtol=1e-10)
    slope = (formula(1 + h) - formula(1 - h)) / (2 * h)
    np.testing.assert_allclose(jaxprgen.pymc.dlogp(model)(point)["mu_log__"], slope, rtol=1e-7)


PLACES = np.linspace(0, 3, 30)


def smooth(r, exp=np.exp):
    return exp(-(((PLACES[:, None] - PLACES) / r) ** 2))


@pytest.mark.filterwarnings("ignore:batched_dot:FutureWarning")  # PyMC 6.0 calls it.
@pytest.mark.parametrize("kernel", [lambda r, exp=np.exp: r * np.eye(30), smooth])
def test_kronecker_products_whose_eigenvalues_nearly_coincide(kernel):
    """For the smooth kernel, PyMC's own gradient, outside of the block, has no correct digit."""
    y, other = np.resize(Y, 60), np.array([[1, 0.3], [0.3, 0.8]])

    def density(r):
        cov = np.kron(kernel(r), other) + 0.25 * np.eye(60)
        return scipy.stats.multivariate_normal(cov=cov).logpdf(y) + scipy.stats.norm.logpdf(r)

    with pm.Model() as model:
        covs = [kernel(pm.Normal("r"), pt.exp), other]
        pm.KroneckerNormal("y", np.zeros(60), covs=covs, sigma=0.5, observed=y)
    point, h = {"r": np.array(1.3)}, 1e-5
    slope = (density(1.3 + h) - density(1.3 - h)) / (2 * h)
    with jaxprgen.pymc.sampling():
        (own,) = model.compile_dlogp()(point)
    by_jax, by_pytensor = jax.grad(jaxprgen.pymc.logp(model)), jaxprgen.pymc.dlogp(model)
    found = [own, by_jax(point)["r"], by_pytensor(point)["r"]]
    np.testing.assert_allclose(found, slope, rtol=1e-7)
