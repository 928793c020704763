"""Fit a model and save its posterior predictive: ``python examples/serve/save_model.py``.

The model predicts how far a patient's diabetes progresses within a year, from ten measurements. The
data are those of Efron, Hastie, Johnstone and Tibshirani, "Least angle regression", Annals of
Statistics 32 (2004), as scikit-learn has them. The file holds the posterior draws and everything
from measurements in their units to an interval, so a service needs no code of the model.
"""

import sys  # noqa: I001
from pathlib import Path

import jaxprgen  # First: it makes Aesara importable on current NumPy and Python.
import aeppl
import aesara.tensor as at
import jax
import numpy as np
from aeppl.transforms import LogTransform, TransformValuesRewrite

EXAMPLES = Path(__file__).resolve().parents[1]
FILE = EXAMPLES / "serve" / "progression.jxg"
CHAINS, WARMUP, DRAWS = 4, 500, 250
stream = at.random.RandomStream()


def posterior(points, outcomes):
    """Draw coefficients and the deviation of noise, given standardized data."""
    sys.path.append(str(EXAMPLES))
    from sampling import nuts

    beta = stream.normal(0, 1, size=points.shape[1], name="beta")
    sigma = stream.halfnormal(0, 1, name="sigma")
    y = stream.normal(at.constant(points) @ beta, sigma, name="y")
    log_posterior, values = aeppl.joint_logprob(
        *(beta, sigma),
        realized={y: at.constant(outcomes)},
        # A sampler needs an unbounded variable: log(sigma).
        extra_rewrites=TransformValuesRewrite({sigma: LogTransform()}),
    )
    log_density = jaxprgen.compile(values, log_posterior)
    starts = np.zeros((CHAINS, points.shape[1])), np.zeros(CHAINS)
    draws, _ = nuts(lambda p: log_density(*p), starts, jax.random.key(0), WARMUP, DRAWS)
    betas, log_sigmas = (np.asarray(x).reshape(CHAINS * DRAWS, -1) for x in draws)
    return betas, np.exp(log_sigmas[:, 0])


def predictive(betas, sigmas, points, outcomes):
    """Compile a prediction for one patient: the mean, and the bounds of nine tenths of the draws.

    Parameters
    ----------
    betas, sigmas
        Posterior draws for standardized data.
    points, outcomes
        The data, whose means and deviations standardize a patient's measurements.
    """
    x = at.dvector("measurements")
    z = (x - points.mean(0)) / points.std(0)
    drawn = stream.normal(at.constant(betas) @ z, at.constant(sigmas))
    drawn = at.sort(outcomes.mean() + outcomes.std() * drawn)
    tail = len(sigmas) // 20
    results = {"mean": drawn.mean(), "low": drawn[tail], "high": drawn[-1 - tail]}
    return jaxprgen.compile([x], results, name="progression")


def save(path, predict, count):
    """Save a prediction from ``count`` measurements, and the same for any number of patients."""
    jaxprgen.save(path, predict, "key[]", f"f64[{count}]", batched=["key", "measurements"])


def main():
    from sklearn.datasets import load_diabetes

    jax.config.update("jax_enable_x64", True)
    points, outcomes = load_diabetes(return_X_y=True, scaled=False)
    standardized = (x - x.mean(0) for x in (points, outcomes))
    betas, sigmas = posterior(*(x / x.std(0) for x in standardized))
    predict = predictive(betas, sigmas, points, outcomes)
    save(FILE, predict, points.shape[1])

    keys = jax.random.split(jax.random.key(1), len(points))
    found = jax.vmap(jaxprgen.load(FILE))(keys, points)
    inside = np.mean((found["low"] <= outcomes) & (outcomes <= found["high"]))
    print(f"Of {len(points)} outcomes, {inside:.1%} lie in the interval that holds 90% of draws.")
    print(f"Saved {FILE.stat().st_size / 1e3:.0f} kB to {FILE}.")


if __name__ == "__main__":
    main()
