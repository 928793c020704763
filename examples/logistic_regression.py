"""Fit a logistic regression twice: with Aesara's gradient and with `jax.grad`.

The model is an Aesara graph (model.py). Both fits must agree with each other and with scikit-learn.
"""

import jax
import model
import numpy as np
from scipy.optimize import minimize
from sklearn.linear_model import LogisticRegression

import jaxprgen

jax.config.update("jax_enable_x64", True)


def fit(value_and_gradient, data) -> np.ndarray:
    """Maximize the log-posterior with BFGS."""

    def negated(beta):
        value, gradient = value_and_gradient(beta, *data)
        return -float(value), -np.asarray(gradient)

    start = np.zeros(data[0].shape[1] + 1)
    return minimize(negated, start, jac=True, method="BFGS", options={"gtol": 1e-7}).x


def main() -> None:
    features, labels = model.load_data()
    data = features, labels, 1.0

    log_posterior = jaxprgen.compile(model.inputs, model.log_posterior)
    by_aesara = jaxprgen.compile(model.inputs, [model.log_posterior, model.gradient])
    by_jax = jax.jit(jax.value_and_grad(log_posterior))

    beta = np.full(features.shape[1] + 1, 0.1)
    print("The log-posterior and Aesara's gradient, as a JAX program:\n")
    print(jaxprgen.pretty(by_aesara, beta, *data))

    difference = np.max(np.abs(by_aesara(beta, *data)[1] - by_jax(beta, *data)[1]))
    print(f"\nLargest difference between the two gradients: {difference:.1e}")
    assert difference < 1e-9

    fits = {"Aesara's gradient": fit(by_aesara, data), "jax.grad": fit(by_jax, data)}
    peer = LogisticRegression(C=1.0, solver="newton-cholesky", tol=1e-12).fit(features, labels)
    expected = np.concatenate([peer.intercept_, peer.coef_[0]])
    for name, found in fits.items():
        relative = np.max(np.abs(found - expected)) / np.max(np.abs(expected))
        print(f"Fit by {name}: relative difference from scikit-learn {relative:.1e}")
        assert relative < 1e-3

    correct = np.mean((features @ fits["jax.grad"][1:] + fits["jax.grad"][0] > 0) == labels)
    print(f"Classified correctly: {correct:.1%} of {len(labels)} tumours")


if __name__ == "__main__":
    main()
