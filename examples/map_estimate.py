"""Maximize a compiled log-posterior with Optax's L-BFGS and with `jax.scipy.optimize`.

The model is the logistic regression of model.py. Both fits must agree with scikit-learn.
"""

import jax
import jax.numpy as jnp
import jax.scipy.optimize
import model
import numpy as np
import optax
from sklearn.linear_model import LogisticRegression

import jaxprgen

jax.config.update("jax_enable_x64", True)

log_posterior = jaxprgen.compile(model.inputs, model.log_posterior)
STEPS = 100


def by_optax(loss, start):
    """Minimize with L-BFGS and Optax's line search, for a fixed number of steps."""
    optimizer = optax.lbfgs()
    value_and_grad = optax.value_and_grad_from_state(loss)

    def step(_, carry):
        beta, state = carry
        value, gradient = value_and_grad(beta, state=state)
        updates, state = optimizer.update(
            gradient, state, beta, value=value, grad=gradient, value_fn=loss
        )
        return optax.apply_updates(beta, updates), state

    return jax.lax.fori_loop(0, STEPS, step, (start, optimizer.init(start)))[0]


def by_jax(loss, start):
    return jax.scipy.optimize.minimize(loss, start, method="BFGS", options={"gtol": 1e-8}).x


def main():
    features, labels = model.load_data()

    def loss(beta):
        # The mean over tumours, because JAX's line search fails for large values and gradients.
        return -log_posterior(beta, features, labels, 1.0) / len(labels)

    peer = LogisticRegression(C=1.0, solver="newton-cholesky", tol=1e-12).fit(features, labels)
    expected = np.concatenate([peer.intercept_, peer.coef_[0]])
    start = jnp.zeros(len(expected))
    for name, fit in [("Optax", by_optax), ("jax.scipy.optimize", by_jax)]:
        found = jax.jit(lambda start, fit=fit: fit(loss, start))(start)
        relative = np.max(np.abs(found - expected)) / np.max(np.abs(expected))
        print(f"Fit by {name}: relative difference from scikit-learn {relative:.1e}")
        assert relative < 1e-4


if __name__ == "__main__":
    main()
