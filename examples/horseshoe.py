"""Take one model from its prior to its posterior predictive, as three JAX functions.

The model is a logistic regression with the horseshoe prior of Carvalho, Polson and Scott, "The
horseshoe estimator for sparse signals", Biometrika 97 (2010). Prior draws, the log-density and
posterior predictive draws are three compiled graphs. `jax.vmap`, `jax.grad` and BlackJAX's
No-U-Turn Sampler take them like any JAX function.
"""

import jaxprgen  # noqa: I001  # First: it makes Aesara importable on current NumPy and Python.
import aeppl
import aesara.tensor as at
import jax
import jax.numpy as jnp
import numpy as np

import figures
from sampling import nuts

jax.config.update("jax_enable_x64", True)

stream = at.random.RandomStream()
X = at.dmatrix("X")
tau = stream.halfcauchy(0, 1, name="tau")
lam = stream.halfcauchy(0, 1, size=X.shape[1], name="lambda")
beta = stream.normal(0, tau * lam, name="beta")
Y = stream.bernoulli(at.sigmoid(-X @ beta), name="Y")

log_joint, values = aeppl.joint_logprob(tau, lam, beta, Y)

prior = jaxprgen.compile([X], [tau, lam, beta, Y])
logdensity = jaxprgen.compile([X, *values], log_joint)
predictive = jaxprgen.compile([X, beta], Y)

CHAINS, WARMUP, DRAWS, ACCEPTANCE = 4, 1000, 1000, 0.99
COEFFICIENTS = np.array([2.0, -1.5, 1.0, 0, 0, 0, 0, 0])


def simulate(count=150):
    """Simulate points and outcomes for `COEFFICIENTS`, most of which are zero."""
    rng = np.random.default_rng(0)
    points = rng.normal(size=(count, len(COEFFICIENTS)))
    chances = 1 / (1 + np.exp(points @ COEFFICIENTS))
    return points, (rng.uniform(size=count) < chances).astype(int)


def parameters(position):
    """Return tau, lambda and beta from unbounded log(tau), log(lambda) and beta / scale."""
    log_tau, log_lam, z = position
    tau, lam = jnp.exp(log_tau), jnp.exp(log_lam)
    return tau, lam, tau * lam * z


def posterior(key, points, outcomes):
    """Draw tau, lambda and beta given the outcomes, and tell which draws diverged."""

    def log_posterior(position):
        # The change of variables is plain JAX; this is the log-determinant of its Jacobian.
        log_tau, log_lam, _ = position
        jacobian = log_tau + log_lam.sum() + (log_tau + log_lam).sum()
        return logdensity(points, *parameters(position), outcomes) + jacobian

    starting, sampling = jax.random.split(key)
    # Start near zero, where most of the posterior is.
    starts = 0.1 * jax.random.normal(starting, (CHAINS, 1 + 2 * points.shape[1]))
    positions = starts[:, 0], *jnp.split(starts[:, 1:], 2, axis=1)
    draws, diverged = nuts(log_posterior, positions, sampling, WARMUP, DRAWS, ACCEPTANCE)
    return jax.vmap(jax.vmap(parameters))(draws), diverged


def main():
    points, outcomes = simulate()
    keys = jax.random.split(jax.random.key(0), 1000)

    taus, lams, betas, drawn = jax.vmap(prior, in_axes=(0, None))(keys, points)
    extreme = np.mean(np.abs(betas) > 10)
    print(f"Prior: {drawn.mean():.3f} of outcomes are 1; {extreme:.1%} of beta exceed 10 in size.")

    gradient = jax.grad(logdensity, argnums=3)(points, taus[0], lams[0], betas[0], outcomes)
    print("Gradient of the log-density with respect to beta, at one draw:", gradient.round(1))

    (taus, lams, betas), diverged = posterior(jax.random.key(1), points, outcomes)
    print(f"Posterior: {diverged.mean():.1%} of draws diverged. Coefficients:")
    print("    simulated", "".join(f"{b:8.2f}" for b in COEFFICIENTS))
    print("    mean     ", "".join(f"{b:8.2f}" for b in betas.mean((0, 1))))
    print("    deviation", "".join(f"{b:8.2f}" for b in betas.std((0, 1))))

    keys = jax.random.split(jax.random.key(2), CHAINS * DRAWS)
    flat = betas.reshape(-1, points.shape[1])
    drawn = jax.vmap(predictive, in_axes=(0, None, 0))(keys, points, flat)
    agreement = np.mean(np.asarray(drawn) == outcomes)
    print(f"Posterior predictive: {agreement:.1%} of drawn outcomes equal the observed ones.")
    return {"tau": taus, "lambda": lams, "beta": betas}


def plot(draws):
    """Draw the posterior intervals of the coefficients, and those that made the data."""
    figure, axes = figures.subplots(size=(7, 2.8))
    names = [f"beta[{i}]" for i in range(len(COEFFICIENTS))]
    figures.intervals(axes, names, draws["beta"], label="posterior")
    axes.plot(COEFFICIENTS, range(len(names)), "|k", ms=12, label="simulated")
    axes.set_title("Horseshoe regression: middle 50 and 90 % of draws")
    axes.legend()
    return figure


if __name__ == "__main__":
    figures.save(plot, main())
