"""PyMC models of many kinds, each made by a function without arguments.

PyTensor's Python mode evaluates each in seconds. ``MODELS`` holds them by name.
"""

import numpy as np
import pymc as pm
import pymc.dims as pmd
import pytensor
import pytensor.tensor as pt

MODELS = {}
RNG = np.random.default_rng(1)
X = RNG.normal(size=(12, 3))
Y = X @ [1.0, -2.0, 0.5] + RNG.normal(size=12)
COUNTS = RNG.poisson(3.0, size=12)
GROUP = np.arange(12) % 4
SERIES = np.cumsum(RNG.normal(size=20)) * 0.3
TIMES = RNG.exponential(size=12) + 0.1
ADJACENT = np.array([[0, 1, 1, 0], [1, 0, 1, 1], [1, 1, 0, 1], [0, 1, 1, 0]])


def model(build):
    """Add the model whose variables a function makes."""

    def make():
        with pm.Model() as made:
            build()
        return made

    MODELS[build.__name__] = make
    return build


@model
def linear_regression():
    b = pm.Normal("b", 0, 2, shape=3)
    pm.Normal("y", pm.math.dot(X, b), pm.HalfNormal("sigma"), observed=Y)


@model
def radon_with_varying_slopes():
    # Two predictors per group, with a covariance matrix that has an LKJ prior.
    chol, _, _ = pm.LKJCholeskyCov("chol", n=2, eta=2.0, sd_dist=pm.Exponential.dist(1.0, shape=2))
    z = pm.Normal("z", shape=(4, 2))
    ab = pm.Deterministic("ab", pm.Normal("mean", 0, 5, shape=2) + pt.dot(z, chol.T))
    mu = ab[GROUP, 0] + ab[GROUP, 1] * X[:, 0]
    pm.Normal("y", mu, pm.HalfNormal("sigma"), observed=Y)


@model
def eight_schools():
    effect = np.array([28.0, 8, -3, 7, -1, 1, 18, 12])
    error = np.array([15.0, 10, 16, 11, 9, 11, 10, 18])
    mu, tau = pm.Normal("mu", 0, 5), pm.HalfCauchy("tau", 5)
    theta = pm.Normal("theta", mu, tau, shape=8)
    pm.Normal("y", theta, error, observed=effect)


@model
def robust_regression():
    b = pm.Normal("b", shape=3)
    nu = pm.Gamma("nu", 2, 0.1)
    pm.StudentT("y", nu=nu, mu=pt.dot(X, b), sigma=pm.HalfCauchy("s", 1), observed=Y)


@model
def logistic_regression():
    b = pm.Normal("b", shape=3)
    pm.Bernoulli("y", logit_p=pt.dot(X, b), observed=(Y > 0).astype(int))


@model
def binomial_regression():
    b = pm.Normal("b", shape=3)
    pm.Binomial("y", n=20, p=pm.math.invlogit(pt.dot(X, b)), observed=COUNTS)


@model
def beta_binomial():
    pm.BetaBinomial("y", pm.HalfNormal("a"), pm.HalfNormal("b"), 20, observed=COUNTS)


@model
def poisson_regression():
    b = pm.Normal("b", shape=3)
    pm.Poisson("y", pm.math.exp(pt.dot(X, b)), observed=COUNTS)


@model
def negative_binomial():
    pm.NegativeBinomial("y", pm.Gamma("mu", 2, 1), pm.Exponential("alpha", 1), observed=COUNTS)


@model
def zero_inflated_poisson():
    pm.ZeroInflatedPoisson(
        "y", pm.Beta("psi", 2, 2), pm.Exponential("mu", 0.3), observed=[0, 0, 3, 1, 0, 5]
    )


@model
def hurdle_gamma():
    pm.HurdleGamma("y", pm.Beta("psi", 2, 2), 2.0, pm.HalfNormal("b"), observed=[0, 0, 0.3, 1.5])


@model
def ordinal():
    cuts = pm.Normal(
        "cuts",
        0,
        2,
        shape=3,
        transform=pm.distributions.transforms.ordered,
        initval=[-1.0, 0.0, 1.0],
    )
    pm.OrderedLogistic("y", X[:, 0] * pm.Normal("b"), cuts, observed=COUNTS % 4)


@model
def ordered_probit():
    cuts = np.array([-1.0, 0.2, 1.3])
    pm.OrderedProbit("y", X[:, 0] * pm.Normal("b"), cuts, observed=COUNTS % 4)


@model
def normal_mixture():
    mu = pm.Normal("mu", [-1.0, 1.0], 2, shape=2)
    pm.NormalMixture("y", pm.Dirichlet("w", [2.0, 3.0]), mu, pm.HalfNormal("s"), observed=Y)


@model
def mixture_of_families():
    parts = [
        pm.Normal.dist(pm.Normal("m"), 1.0),
        pm.StudentT.dist(nu=4, mu=0, sigma=pm.HalfNormal("s")),
    ]
    pm.Mixture("y", pm.Dirichlet("w", np.ones(2)), parts, observed=Y)


@model
def categorical_with_softmax():
    b = pm.Normal("b", shape=(3, 4))
    pm.Categorical("y", p=pm.math.softmax(pt.dot(X, b), axis=-1), observed=COUNTS % 4)


@model
def multinomial():
    observed = np.array([[3, 2, 5], [1, 4, 5]])
    pm.Multinomial("y", 10, pm.Dirichlet("p", np.ones(3)), observed=observed)


@model
def dirichlet_multinomial():
    observed = np.array([[3, 2, 5], [1, 4, 5]])
    pm.DirichletMultinomial("y", 10, pm.HalfNormal("a", shape=3), observed=observed)


@model
def multivariate_normal():
    chol, _, _ = pm.LKJCholeskyCov("L", n=3, eta=1.5, sd_dist=pm.HalfNormal.dist(1.0, shape=3))
    pm.MvNormal("y", pm.Normal("mu", shape=3), chol=chol, observed=X)


@model
def multivariate_student_t():
    scale = np.eye(3) + 0.2
    nu, mu = pm.Gamma("nu", 3, 0.5), pm.Normal("mu", shape=3)
    pm.MvStudentT("y", nu=nu, mu=mu, scale=scale, observed=X)


@model
def lkj_correlations():
    corr = pm.LKJCorr("corr", n=3, eta=2)
    pm.MvNormal("y", np.zeros(3), corr, observed=X)


@model
def wishart():
    scale = np.array([[1.0, 0.2], [0.2, 2.0]])
    pm.Wishart("w", nu=5, V=scale * pm.HalfNormal("s"), observed=np.array([[2.0, 0.3], [0.3, 1.0]]))


@model
def gaussian_process():
    cov = pm.HalfNormal("eta") ** 2 * pm.gp.cov.Matern52(1, ls=pm.Gamma("ls", 2, 1))
    pm.gp.Marginal(cov_func=cov).marginal_likelihood(
        "y", X=np.linspace(0, 3, 12)[:, None], y=Y, sigma=pm.HalfNormal("sigma")
    )


@model
def latent_gaussian_process():
    cov = pm.gp.cov.ExpQuad(1, ls=pm.Gamma("ls", 2, 1))
    f = pm.gp.Latent(cov_func=cov).prior("f", X=np.linspace(0, 3, 12)[:, None])
    pm.Poisson("y", pm.math.exp(f), observed=COUNTS)


@model
def hilbert_space_gaussian_process():
    cov = pm.gp.cov.Matern32(1, ls=pm.Gamma("ls", 2, 1))
    f = pm.gp.HSGP(m=[8], c=2.0, cov_func=cov).prior("f", X=np.linspace(0, 3, 12)[:, None])
    pm.Normal("y", f, pm.HalfNormal("s"), observed=Y)


@model
def censored():
    latent = pm.Normal.dist(pm.Normal("mu"), pm.HalfNormal("s"))
    pm.Censored("y", latent, lower=-1.0, upper=1.0, observed=np.clip(Y, -1, 1))


@model
def truncated():
    inner = pm.Gamma.dist(pm.HalfNormal("a"), 1.0)
    pm.Truncated("y", inner, lower=0.05, upper=8.0, observed=TIMES)


@model
def truncated_normal():
    mu, sigma = pm.Normal("mu"), pm.HalfNormal("s")
    pm.TruncatedNormal("y", mu, sigma, lower=0.0, observed=TIMES)


@model
def autoregression():
    rho = pm.Normal("rho", 0, 0.5, shape=2)
    pm.AR("y", rho, sigma=pm.HalfNormal("s"), init_dist=pm.Normal.dist(0, 1), observed=SERIES)


@model
def unrolled_autoregression():
    rho, x = pm.Uniform("rho", -1, 1), 0.0
    for i, y in enumerate(SERIES[:12]):
        x = rho * x + pm.Normal(f"e{i}", 0, 0.3)
        pm.Normal(f"y{i}", x, 0.5, observed=y)


@model
def random_walk():
    walk = pm.GaussianRandomWalk(
        "walk", sigma=pm.HalfNormal("s"), init_dist=pm.Normal.dist(0, 1), shape=20
    )
    pm.Normal("y", walk, 0.3, observed=SERIES)


@model
def multivariate_random_walk():
    pm.MvGaussianRandomWalk(
        "walk", mu=np.zeros(3), cov=np.eye(3), init_dist=pm.MvNormal.dist(np.zeros(3), np.eye(3)),
        shape=(6, 3),
    )  # fmt: skip


@model
def stochastic_volatility():
    h = pm.GaussianRandomWalk(
        "h", sigma=pm.Exponential("s", 10), init_dist=pm.Normal.dist(0, 1), shape=20
    )
    pm.StudentT("r", nu=pm.Exponential("nu", 0.1), sigma=pm.math.exp(h), observed=SERIES)


@model
def garch():
    pm.GARCH11(
        "y",
        omega=pm.HalfNormal("omega"),
        alpha_1=pm.Beta("alpha", 2, 5),
        beta_1=pm.Beta("beta", 2, 2),
        initial_vol=np.float64(1.0),
        observed=SERIES,
    )


@model
def stochastic_differential_equation():
    pm.EulerMaruyama(
        "x",
        dt=0.1,
        sde_fn=lambda x, theta: (-theta * x, 0.5),
        sde_pars=(pm.HalfNormal("theta"),),
        init_dist=pm.Normal.dist(0, 1),
        observed=SERIES,
    )


@model
def differential_equation_by_scan():
    a, b = pm.HalfNormal("a"), pm.HalfNormal("b")

    def step(x, y, a, b):
        return x + 0.1 * (a * x - 0.4 * x * y), y + 0.1 * (0.3 * x * y - b * y)

    (x, _) = pytensor.scan(
        step,
        outputs_info=[np.float64(1.0), np.float64(0.5)],
        non_sequences=[a, b],
        n_steps=20,
        return_updates=False,
    )
    pm.LogNormal("prey", pt.log(x), 0.2, observed=np.exp(0.1 * SERIES))


@model
def hidden_markov_model():
    # The forward algorithm, with the states summed out.
    moves = pm.Dirichlet("moves", np.array([[4.0, 1.0], [1.0, 4.0]]))
    mu = pm.Normal("mu", [-1.0, 1.0], 1, shape=2)
    terms = pm.logp(pm.Normal.dist(mu[None], 1.0), SERIES[:, None])

    def step(term, before, moves):
        return term + pm.math.logsumexp(before[:, None] + pt.log(moves), axis=0)[0]

    last = pytensor.scan(
        step,
        sequences=[terms[1:]],
        outputs_info=[terms[0] - np.log(2.0)],
        non_sequences=[moves],
        return_updates=False,
    )
    pm.Potential("likelihood", pm.math.logsumexp(last[-1]))


@model
def markov_chain():
    def step(x, rho):
        x = pm.Normal.dist(rho * x, 0.5)
        return x, pm.pytensorf.collect_default_updates([x])

    def dist(rho, size):
        return pytensor.scan(
            step, outputs_info=[np.float64(0.0)], non_sequences=[rho], n_steps=20
        )[0]  # fmt: skip

    pm.CustomDist("x", pm.Normal("rho", 0, 0.5), dist=dist, observed=SERIES)


@model
def horseshoe():
    tau, lam = pm.HalfCauchy("tau", 1), pm.HalfCauchy("lam", 1, shape=3)
    c2 = pm.InverseGamma("c2", 2, 2)
    shrunk = lam * pt.sqrt(c2 / (c2 + tau**2 * lam**2))
    b = pm.Deterministic("b", pm.Normal("z", shape=3) * tau * shrunk)
    pm.Normal("y", pt.dot(X, b), pm.HalfNormal("s"), observed=Y)


@model
def weibull_survival():
    alpha, b = pm.Gamma("alpha", 2, 1), pm.Normal("b", shape=3)
    beta = pt.exp(pt.dot(X, b))
    died = GROUP > 0
    pm.Weibull("died", alpha, beta[died], observed=TIMES[died])
    pm.Potential("alive", -((TIMES[~died] / beta[~died]) ** alpha).sum())


@model
def proportional_hazards():
    hazard = pm.Gamma("hazard", 1, 1, shape=4)
    risk = pt.exp(pt.dot(X, pm.Normal("b", shape=3)))
    pm.Poisson("died", TIMES * hazard[GROUP] * risk, observed=(COUNTS > 2).astype(int))


@model
def conditional_autoregression():
    phi = pm.CAR(
        "phi", np.zeros(4), ADJACENT, pm.Uniform("alpha", 0, 0.95), pm.HalfNormal("tau"), shape=4
    )
    pm.Normal("y", phi[GROUP], 1.0, observed=Y)


@model
def intrinsic_conditional_autoregression():
    phi = pm.ICAR("phi", W=ADJACENT, sigma=pm.HalfNormal("s"), shape=4)
    pm.Poisson("y", pm.math.exp(phi[GROUP]), observed=COUNTS)


@model
def custom_density():
    def density(value, mu):
        return -pt.abs(value - mu) - pt.log1p((value - mu) ** 2)

    pm.CustomDist("y", pm.Normal("mu"), logp=density, observed=Y)


@model
def custom_distribution():
    def dist(mu, sigma, size):
        return pt.exp(pm.Normal.dist(mu, sigma, size=size)) + 0.05

    pm.CustomDist("y", pm.Normal("mu"), pm.HalfNormal("s"), dist=dist, observed=TIMES)


@model
def potential_and_deterministic():
    x = pm.Normal("x", shape=4)
    total = pm.Deterministic("total", x.sum())
    pm.Potential("soft", -10 * (total - 1.0) ** 2)


@model
def missing_data():
    observed = np.ma.masked_array(Y, mask=np.arange(12) % 5 == 0)
    pm.Normal("y", pm.Normal("mu"), pm.HalfNormal("s"), observed=observed)


@model
def mutable_data():
    x, y = pm.Data("x", X), pm.Data("y", Y)
    pm.Normal("like", pt.dot(x, pm.Normal("b", shape=3)), 1.0, observed=y, shape=x.shape[0])


@model
def spike_and_slab():
    kept = pm.Bernoulli("kept", 0.5, shape=3)
    b = kept * pm.Normal("b", shape=3)
    pm.Normal("y", pt.dot(X, b), pm.HalfNormal("s"), observed=Y)


@model
def latent_categories():
    z = pm.Categorical("z", [0.3, 0.7], shape=12)
    pm.Normal("y", pm.Normal("mu", shape=2)[z], 1.0, observed=Y)


@model
def change_point():
    early, late = pm.Exponential("early", 1), pm.Exponential("late", 1)
    change = pm.DiscreteUniform("change", 0, 11)
    rate = pm.math.switch(change >= np.arange(12), early, late)
    pm.Poisson("y", rate, observed=COUNTS)


@model
def skew_normal_at_zero():
    mu, sigma = pm.Normal("mu"), pm.HalfNormal("s")
    pm.SkewNormal("y", mu=mu, sigma=sigma, alpha=pm.Normal("alpha"), observed=Y)


@model
def zero_sum():
    pm.Normal("y", pm.ZeroSumNormal("z", shape=4)[GROUP], pm.HalfNormal("s"), observed=Y)


@model
def many_scalars():
    terms = [pm.Normal(f"x{i}", 0, 1 + i) for i in range(25)]
    pm.Normal("y", sum(terms), pm.HalfNormal("s"), observed=Y)


@model
def many_families():
    pm.Beta("beta", 2, 3)
    pm.VonMises("angle", 0.1, 2)
    pm.Gumbel("gumbel", 0, 1)
    pm.Kumaraswamy("kumaraswamy", 2, 3)
    pm.Wald("wald", mu=1, lam=2)
    pm.ExGaussian("exgaussian", mu=0, sigma=1, nu=2)
    pm.AsymmetricLaplace("laplace", b=1, kappa=2, mu=0)
    pm.Logistic("logistic", 0, 1)
    pm.LogitNormal("logitnormal", 0, 1)
    pm.Rice("rice", nu=1, sigma=1)
    pm.Moyal("moyal", 0, 1)
    pm.Pareto("pareto", 2, 1)
    pm.Triangular("triangular", lower=0, c=1, upper=3)
    pm.ChiSquared("chi", 4)
    pm.SkewStudentT("skewt", a=2, b=3)
    pm.StickBreakingWeights("sticks", alpha=1.5, K=4)


@model
def interpolated():
    grid = np.linspace(-3, 3, 30)
    x = pm.Interpolated("x", grid, np.exp(-(grid**2)))
    pm.Normal("y", x, 1.0, observed=Y)


@model
def matrix_normal():
    rows, columns = np.eye(4) + 0.1, np.eye(3) + 0.2
    pm.MatrixNormal("y", pm.Normal("mu", shape=(4, 3)), rowcov=rows, colcov=columns, observed=X[:4])


@model
def kronecker_normal():
    covs = [np.eye(2) + 0.2, np.eye(3) + 0.1]
    pm.KroneckerNormal("y", pm.Normal("mu", shape=6), covs=covs, sigma=0.3, observed=Y[:6])


def dims():
    """Return a regression with labelled dimensions."""
    with pm.Model(coords={"row": range(12), "column": range(3)}) as made:
        x = pmd.Data("x", X, dims=("row", "column"))
        b = pmd.Normal("b", 0, 1, dims="column")
        sigma = pmd.HalfNormal("sigma")
        pmd.Normal(
            "y", (x * b).sum("column"), sigma, dims="row", observed=pmd.as_xtensor(Y, dims=("row",))
        )
    return made


MODELS["dims"] = dims
