"""Fit a logistic regression for 64 regularization strengths in one call.

Newton's method uses `jax.grad` and `jax.hessian` of the compiled log-posterior; `jax.vmap`
vectorizes it over the strengths.
"""

import figures
import jax
import jax.numpy as jnp
import model
import numpy as np
from sklearn.linear_model import LogisticRegression

import jaxprgen

jax.config.update("jax_enable_x64", True)

log_posterior = jaxprgen.compile(model.inputs, model.log_posterior)
NEWTON_STEPS = 20


def fit(strength, features, labels):
    """Maximize the log-posterior with Newton's method, starting from zero."""

    def step(_, beta):
        gradient = jax.grad(log_posterior)(beta, features, labels, strength)
        curvature = jax.hessian(log_posterior)(beta, features, labels, strength)
        return beta - jnp.linalg.solve(curvature, gradient)

    start = jnp.zeros(features.shape[1] + 1)
    return jax.lax.fori_loop(0, NEWTON_STEPS, step, start)


def main() -> tuple[np.ndarray, jax.Array]:
    features, labels = model.load_data()
    strengths = np.logspace(-1, 3, 64)
    fits = jax.jit(jax.vmap(fit, in_axes=(0, None, None)))(strengths, features, labels)

    print("strength   largest coefficient   difference from scikit-learn")
    for i in (0, 21, 42, 63):
        peer = LogisticRegression(C=1 / strengths[i], solver="newton-cholesky", tol=1e-12)
        peer.fit(features, labels)
        expected = np.concatenate([peer.intercept_, peer.coef_[0]])
        relative = np.max(np.abs(fits[i] - expected)) / np.max(np.abs(expected))
        print(f"{strengths[i]:8.2f}   {np.max(np.abs(fits[i, 1:])):19.4f}   {relative:28.1e}")
        assert relative < 1e-3
    print(f"{len(strengths)} fits of {fits.shape[1]} parameters in one call")
    return strengths, fits


def plot(strengths, fits):
    """Draw each coefficient along the strengths."""
    figure, axes = figures.subplots()
    axes.plot(strengths, fits[:, 1:], lw=0.9)
    axes.axhline(0, color="k", lw=0.5)
    axes.set(xscale="log", xlabel="strength of the prior", ylabel="coefficient")
    axes.set_title("30 coefficients for 64 strengths")
    return figure


if __name__ == "__main__":
    figures.save(plot, *main())
