"""Statistical models by aeppl: a graph of each one's log-density, data, and SciPy's value of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import aesara
import aesara.tensor as at
import numpy as np
import scipy.stats as stats
from aeppl import joint_logprob
from aeppl.dists import discrete_markov_chain
from aeppl.transforms import DEFAULT_TRANSFORM, TransformValuesRewrite
from aesara.scalar.basic import autocast_float_as
from scipy.special import expit, softmax

GENERATOR = np.random.default_rng(5)
N = 12
X = GENERATOR.normal(size=(N, 3))
NOISE = GENERATOR.normal(size=N)
Y = X @ [1.0, -0.5, 0.25] + 0.3 * NOISE
POINTS = np.linspace(0, 3, N)
BINARY = (Y > 0).astype(np.int64)
COUNTS = np.array([0, 1, 3, 2, 0, 5, 1, 1, 0, 2, 4, 1])
GROUPS = np.array([0, 0, 1, 2, 2, 2, 3, 3, 1, 0, 3, 2])
EFFECTS = np.array([28.0, 8, -3, 7, -1, 1, 18, 12])
ERRORS = np.array([15.0, 10, 16, 11, 9, 11, 10, 18])
"""Eight schools: Rubin, Journal of Educational Statistics 6, 1981, table 1."""


class Model(NamedTuple):
    """A graph of a log-density, arguments for it, and the same by SciPy.

    ``scipy`` is called with all arguments. ``free`` arguments, the first ones, are real numbers.
    """

    inputs: list[Any]
    log_density: Any
    arguments: list[Any]
    free: int
    scipy: Callable[..., Any]


def model(
    free: dict[Any, Any],
    observed: dict[Any, Any],
    scipy: Callable[..., Any],
    *,
    data: dict[Any, Any] | None = None,
    transformed: tuple[Any, ...] = (),
) -> Model:
    """Of random variables with their values, those of ``transformed`` on the whole real line."""
    rewrite = TransformValuesRewrite(dict.fromkeys(transformed, DEFAULT_TRANSFORM))
    both = {**free, **observed}
    log_density, values = joint_logprob(*both, extra_rewrites=rewrite if transformed else None)
    inputs = [*values, *(data or {})]
    arguments = [*both.values(), *(data or {}).values()]
    return Model(inputs, log_density, list(map(np.asarray, arguments)), len(free), scipy)


def built(build: Callable[[], Model]) -> Model:
    """The model, of double precision throughout: as Aesara reads them, numbers such as 0.5 are
    single, and it takes their logarithms in that."""
    with autocast_float_as("float64"):
        return build()


def halfcauchy(x: Any, loc: float = 0, scale: float = 1) -> Any:
    """With aeppl's logarithm of 2, which is Aesara's of a small integer: in single precision."""
    return stats.cauchy.logpdf(x, loc, scale) + np.log(np.float32(2)).astype(float)


norm, halfnorm = stats.norm.logpdf, stats.halfnorm.logpdf
srng = at.random.RandomStream(3)


def linear_regression() -> Model:
    """With a half-normal scale, on the log scale."""
    x = at.dmatrix("x")
    beta = srng.normal(0.0, 10.0, size=x.shape[1], name="beta")
    sigma = srng.halfnormal(0.0, 2.0, name="sigma")
    y = srng.normal(x @ beta, sigma, name="y")

    def scipy(beta, log_sigma, y, x):
        sigma = np.exp(log_sigma)
        prior = norm(beta, 0, 10).sum() + halfnorm(sigma, 0, 2) + log_sigma
        return prior + norm(y, x @ beta, sigma).sum()

    free = {beta: [0.9, -0.4, 0.1], sigma: -0.7}
    return model(free, {y: Y}, scipy, data={x: X}, transformed=(sigma,))


def logistic_regression() -> Model:
    x = at.dmatrix("x")
    beta = srng.normal(0.0, 2.0, size=x.shape[1], name="beta")
    y = srng.bernoulli(at.sigmoid(x @ beta), name="y")

    def scipy(beta, y, x):
        return norm(beta, 0, 2).sum() + stats.bernoulli.logpmf(y, expit(x @ beta)).sum()

    return model({beta: [0.9, -0.4, 0.1]}, {y: BINARY}, scipy, data={x: X})


def robust_regression() -> Model:
    """Student's t, of unknown degrees of freedom."""
    x = at.dmatrix("x")
    beta = srng.normal(0.0, 10.0, size=x.shape[1], name="beta")
    sigma = srng.halfcauchy(0.0, 1.0, name="sigma")
    nu = srng.gamma(2.0, 0.1, name="nu")
    y = srng.t(nu, x @ beta, sigma, name="y")

    def scipy(beta, sigma, nu, y, x):
        prior = norm(beta, 0, 10).sum() + halfcauchy(sigma)
        prior += stats.gamma.logpdf(nu, 2, scale=10)
        return prior + stats.t.logpdf(y, nu, x @ beta, sigma).sum()

    return model({beta: [0.9, -0.4, 0.1], sigma: 0.6, nu: 4.5}, {y: Y}, scipy, data={x: X})


def eight_schools_centred() -> Model:
    errors = at.dvector("errors")
    mu = srng.normal(0.0, 5.0, name="mu")
    tau = srng.halfcauchy(0.0, 5.0, name="tau")
    theta = srng.normal(mu, tau, size=errors.shape, name="theta")
    y = srng.normal(theta, errors, name="y")

    def scipy(mu, log_tau, theta, y, errors):
        tau = np.exp(log_tau)
        prior = norm(mu, 0, 5) + halfcauchy(tau, 0, 5) + log_tau + norm(theta, mu, tau).sum()
        return prior + norm(y, theta, errors).sum()

    free = {mu: 4.0, tau: 1.1, theta: EFFECTS / 2}
    return model(free, {y: EFFECTS}, scipy, data={errors: ERRORS}, transformed=(tau,))


def eight_schools_non_centred() -> Model:
    errors = at.dvector("errors")
    mu = srng.normal(0.0, 5.0, name="mu")
    tau = srng.halfcauchy(0.0, 5.0, name="tau")
    z = srng.normal(0.0, 1.0, size=errors.shape, name="z")
    y = srng.normal(mu + tau * z, errors, name="y")

    def scipy(mu, log_tau, z, y, errors):
        tau = np.exp(log_tau)
        prior = norm(mu, 0, 5) + halfcauchy(tau, 0, 5) + log_tau + norm(z).sum()
        return prior + norm(y, mu + tau * z, errors).sum()

    free = {mu: 4.0, tau: 1.1, z: EFFECTS / 20}
    return model(free, {y: EFFECTS}, scipy, data={errors: ERRORS}, transformed=(tau,))


def horseshoe() -> Model:
    x = at.dmatrix("x")
    tau = srng.halfcauchy(0.0, 1.0, name="tau")
    lambdas = srng.halfcauchy(0.0, 1.0, size=x.shape[1], name="lambda")
    beta = srng.normal(0.0, tau * lambdas, size=x.shape[1], name="beta")
    y = srng.bernoulli(at.sigmoid(-x @ beta), name="y")

    def scipy(tau, lambdas, beta, y, x):
        prior = halfcauchy(tau) + halfcauchy(lambdas).sum() + norm(beta, 0, tau * lambdas).sum()
        return prior + stats.bernoulli.logpmf(y, expit(-x @ beta)).sum()

    free = {tau: 0.3, lambdas: [1.0, 2.0, 0.1], beta: [0.9, -0.4, 0.1]}
    return model(free, {y: BINARY}, scipy, data={x: X})


def poisson_regression() -> Model:
    x = at.dmatrix("x")
    alpha = srng.normal(0.0, 5.0, name="alpha")
    beta = srng.laplace(0.0, 2.0, size=x.shape[1], name="beta")
    y = srng.poisson(at.exp(alpha + x @ beta), name="y")

    def scipy(alpha, beta, y, x):
        prior = norm(alpha, 0, 5) + stats.laplace.logpdf(beta, 0, 2).sum()
        return prior + stats.poisson.logpmf(y, np.exp(alpha + x @ beta)).sum()

    return model({alpha: 0.4, beta: [0.2, -0.4, 0.1]}, {y: COUNTS}, scipy, data={x: X})


def negative_binomial_regression() -> Model:
    x = at.dmatrix("x")
    beta = srng.normal(0.0, 2.0, size=x.shape[1], name="beta")
    alpha = srng.exponential(2.0, name="alpha")
    mu = at.exp(x @ beta)
    y = srng.nbinom(alpha, alpha / (alpha + mu), name="y")

    def scipy(beta, alpha, y, x):
        prior = norm(beta, 0, 2).sum() + stats.expon.logpdf(alpha, scale=2)
        mu = np.exp(x @ beta)
        return prior + stats.nbinom.logpmf(y, alpha, alpha / (alpha + mu)).sum()

    return model({beta: [0.2, -0.4, 0.1], alpha: 1.7}, {y: COUNTS}, scipy, data={x: X})


def radon() -> Model:
    """A line for every group, its intercept and slope around common ones."""
    x, group = at.dvector("x"), at.lvector("group")
    mu = srng.normal(0.0, 5.0, size=2, name="mu")
    sigma = srng.halfnormal(0.0, 1.0, size=2, name="sigma")
    lines = srng.normal(mu, sigma, size=(4, 2), name="lines")
    noise = srng.halfnormal(0.0, 1.0, name="noise")
    y = srng.normal(lines[group, 0] + lines[group, 1] * x, noise, name="y")

    def scipy(mu, sigma, lines, noise, y, x, group):
        prior = norm(mu, 0, 5).sum() + halfnorm(sigma).sum() + norm(lines, mu, sigma).sum()
        mean = lines[group, 0] + lines[group, 1] * x
        return prior + halfnorm(noise) + norm(y, mean, noise).sum()

    lines_ = np.arange(8.0).reshape(4, 2) / 10
    free = {mu: [0.3, -0.2], sigma: [0.5, 0.8], lines: lines_, noise: 0.4}
    return model(free, {y: Y}, scipy, data={x: POINTS, group: GROUPS})


def gaussian_process() -> Model:
    """On any number of points, with an exponentiated quadratic kernel."""
    x = at.dvector("x")
    scale = srng.lognormal(0.0, 0.5, name="scale")
    length = srng.invgamma(3.0, 2.0, name="length")
    noise = srng.halfnormal(0.0, 1.0, name="noise")
    square = (x[:, None] - x[None, :]) ** 2
    kernel = scale**2 * at.exp(-square / (2 * length**2)) + noise**2 * at.eye(x.shape[0])
    y = srng.multivariate_normal(at.zeros_like(x), kernel, name="y")

    def scipy(scale, length, noise, y, x):
        prior = stats.lognorm.logpdf(scale, 0.5) + stats.invgamma.logpdf(length, 3, scale=2)
        square = (x[:, None] - x[None, :]) ** 2
        kernel = scale**2 * np.exp(-square / (2 * length**2)) + noise**2 * np.eye(len(x))
        likelihood = stats.multivariate_normal.logpdf(y, np.zeros(len(x)), kernel)
        return prior + halfnorm(noise) + likelihood

    return model({scale: 1.2, length: 0.8, noise: 0.5}, {y: Y}, scipy, data={x: POINTS})


def normal_mixture() -> Model:
    """Which component each observation is from is an index into their stack."""
    weights = srng.dirichlet(np.full(2, 1.5), name="weights")
    mu = srng.normal(0.0, 5.0, size=2, name="mu")
    labels = srng.categorical(weights, size=(N,), name="labels")
    components = [srng.normal(mu[i], 0.5 + i, size=(N,)) for i in range(2)]
    y = at.stack(components)[labels, at.arange(N)]
    y.name = "y"

    def scipy(simplex, mu, labels, y):
        weights = softmax(np.append(simplex, -simplex.sum()))
        # The determinant of the map from ``simplex`` to all weights but the last.
        jacobian = np.diag(weights[:-1]) - np.outer(weights[:-1], weights[:-1])
        jacobian = jacobian @ (np.eye(len(simplex)) + 1)
        prior = stats.dirichlet.logpdf(weights, np.full(2, 1.5)) + norm(mu, 0, 5).sum()
        prior += np.linalg.slogdet(jacobian)[1] + np.log(weights)[labels].sum()
        return prior + norm(y, mu[labels], 0.5 + labels).sum()

    free = {weights: [0.3], mu: [1.0, -1.0]}
    return model(free, {labels: BINARY, y: Y}, scipy, transformed=(weights,))


def mixture_of_two_kinds() -> Model:
    """A join of components of different distributions, one of them heavy-tailed."""
    p = srng.beta(2.0, 3.0, name="p")
    scale = srng.weibull(1.5, name="scale")
    labels = srng.bernoulli(p, size=(N,), name="labels")
    components = [srng.normal(0.0, scale, size=(1, N)), srng.cauchy(1.0, scale, size=(1, N))]
    y = at.join(0, *components)[labels, at.arange(N)]
    y.name = "y"

    def scipy(log_odds, scale, labels, y):
        p = expit(log_odds)
        prior = stats.beta.logpdf(p, 2, 3) + np.log(p * (1 - p))
        prior += stats.weibull_min.logpdf(scale, 1.5) + stats.bernoulli.logpmf(labels, p).sum()
        kinds = [norm(y, 0, scale), stats.cauchy.logpdf(y, 1, scale)]
        return prior + np.choose(labels, kinds).sum()

    free = {p: -0.4, scale: 0.8}
    return model(free, {labels: BINARY, y: Y}, scipy, transformed=(p,))


def censored_normal() -> Model:
    mu = srng.normal(0.0, 3.0, name="mu")
    sigma = srng.halfnormal(0.0, 1.0, name="sigma")
    y = at.clip(srng.normal(mu, sigma, size=(N,)), -0.5, 1.0)
    y.name = "y"

    def scipy(mu, sigma, y):
        low, high = stats.norm.logcdf(-0.5, mu, sigma), stats.norm.logsf(1, mu, sigma)
        likelihood = np.select([y == -0.5, y == 1], [low, high], norm(y, mu, sigma))
        return norm(mu, 0, 3) + halfnorm(sigma) + likelihood.sum()

    return model({mu: 0.2, sigma: 0.9}, {y: np.clip(Y, -0.5, 1)}, scipy)


def transformed_variables() -> Model:
    """What is observed is a function of something drawn."""
    mu = srng.gumbel(0.0, 2.0, name="mu")
    sigma = srng.uniform(0.1, 2.0, name="sigma")
    y = at.exp(mu + sigma * srng.normal(0.0, 1.0, size=(N,)))
    y.name = "y"

    def scipy(mu, interval, y):
        sigma = 0.1 + 1.9 * expit(interval)
        prior = stats.gumbel_r.logpdf(mu, 0, 2) + stats.uniform.logpdf(sigma, 0.1, 1.9)
        prior += np.log(1.9 * expit(interval) * expit(-interval))
        return prior + stats.lognorm.logpdf(y, sigma, scale=np.exp(mu)).sum()

    free = {mu: 0.2, sigma: -0.3}
    return model(free, {y: np.exp(Y)}, scipy, transformed=(sigma,))


def dirichlet_multinomial() -> Model:
    n = at.lscalar("n")
    concentration = srng.gamma(2.0, 1.0, size=3, name="concentration")
    p = srng.dirichlet(concentration, name="p")
    counts = srng.multinomial(n, p, name="counts")
    total = srng.betabinom(n, concentration[0], concentration[1], name="total")

    def scipy(concentration, p, counts, total, n):
        prior = stats.gamma.logpdf(concentration, 2).sum()
        prior += stats.dirichlet.logpdf(p, concentration) + stats.multinomial.logpmf(counts, n, p)
        return prior + stats.betabinom.logpmf(total, n, *concentration[:2])

    # aeppl asks that the probabilities sum to one exactly.
    observed = {p: [0.25, 0.25, 0.5], counts: [1, 4, 2], total: 3}
    return model({concentration: [0.7, 1.5, 2.0]}, observed, scipy, data={n: 7})


def hidden_markov() -> Model:
    """Known transitions of hidden states, each with a rate of its own."""
    transitions, first = at.dtensor3("transitions"), at.dvector("first")
    states, _ = discrete_markov_chain(transitions, first, srng=srng)
    states.name = "states"
    rates = srng.gamma(2.0, 1.0, size=2, name="rates")
    y = srng.poisson(rates[states], name="y")

    def scipy(rates, states, y, transitions, first):
        path = np.log(first @ transitions[0])[states[0]]
        path += np.log(transitions[np.arange(N - 1), states[:-1], states[1:]]).sum()
        prior = stats.gamma.logpdf(rates, 2).sum()
        return prior + path + stats.poisson.logpmf(y, rates[states]).sum()

    chain = np.array([[0.9, 0.1], [0.3, 0.7]])
    data = {transitions: np.stack([chain] * N), first: [0.4, 0.6]}
    return model({rates: [0.7, 2.5]}, {states: BINARY, y: COUNTS}, scipy, data=data)


def autoregression() -> Model:
    """Of order one: every value around a multiple of the one before."""
    y = at.dvector("y")
    rho = srng.uniform(-1.0, 1.0, name="rho")
    sigma = srng.halfnormal(0.0, 1.0, name="sigma")
    start = srng.normal(0.0, sigma / at.sqrt(1 - rho**2), name="start")
    steps = srng.normal(rho * y[:-1], sigma, name="steps")
    log_density, values = joint_logprob(rho, sigma, realized={start: y[0], steps: y[1:]})

    def scipy(rho, sigma, y):
        prior = stats.uniform.logpdf(rho, -1, 2) + halfnorm(sigma)
        start = norm(y[0], 0, sigma / np.sqrt(1 - rho**2))
        return prior + start + norm(y[1:], rho * y[:-1], sigma).sum()

    arguments = [np.asarray(0.4), np.asarray(0.7), Y]
    return Model([*values, y], log_density, arguments, 2, scipy)


def autoregression_by_scan() -> Model:
    """The same from zero on, as a loop that draws one value after the other."""
    rho = srng.uniform(-1.0, 1.0, name="rho")
    sigma = srng.halfnormal(0.0, 1.0, name="sigma")
    y, _ = aesara.scan(
        lambda before, rho, sigma: srng.normal(rho * before, sigma),
        outputs_info=[{"initial": at.as_tensor(0.0), "taps": [-1]}],
        non_sequences=[rho, sigma],
        n_steps=N,
    )

    def scipy(rho, sigma, y):
        prior = stats.uniform.logpdf(rho, -1, 2) + halfnorm(sigma)
        return prior + norm(y, rho * np.append(0, y[:-1]), sigma).sum()

    return model({rho: 0.4, sigma: 0.7}, {y: Y}, scipy)


def mixture_by_one_label() -> Model:
    """The component of all observations is one number."""
    mu = srng.normal(0.0, 5.0, size=2, name="mu")
    label = srng.bernoulli(0.5, name="label")
    y = at.stack([srng.normal(mu[i], 0.5 + i, size=(N,)) for i in range(2)])[label]

    def scipy(mu, label, y):
        prior = norm(mu, 0, 5).sum() + stats.bernoulli.logpmf(label, 0.5)
        return prior + norm(y, mu[label], 0.5 + label).sum()

    return model({mu: [1.0, -1.0]}, {label: 1, y: Y}, scipy)


MODELS = (
    linear_regression,
    logistic_regression,
    robust_regression,
    eight_schools_centred,
    eight_schools_non_centred,
    horseshoe,
    poisson_regression,
    negative_binomial_regression,
    radon,
    gaussian_process,
    normal_mixture,
    mixture_of_two_kinds,
    censored_normal,
    transformed_variables,
    dirichlet_multinomial,
    hidden_markov,
    autoregression,
    autoregression_by_scan,
    mixture_by_one_label,
)
