"""Fit a logistic regression twice: with Aesara's gradient and with `jax.grad`.

The model is an Aesara graph (model.py). Both fits must agree with each other and with scikit-learn.
"""

import figures
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


def main() -> tuple[np.ndarray, np.ndarray]:
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

    eta = features @ fits["jax.grad"][1:] + fits["jax.grad"][0]
    print(f"Classified correctly: {np.mean((eta > 0) == labels):.1%} of {len(labels)} tumours")
    return eta, labels


def plot(eta, labels):
    """Draw the fitted log-odds of malignant and of benign tumours."""
    figure, axes = figures.subplots(size=(7, 2.6))
    bins = np.linspace(-20, 15, 60)
    for i, name in enumerate(["malignant", "benign"]):
        odds = np.clip(eta[labels == i], *bins[[0, -1]])
        axes.hist(odds, bins, color=f"C{1 - i}", alpha=0.7, label=name)
    axes.axvline(0, color="k", lw=0.8)
    axes.set(xlabel="fitted log-odds of being benign", ylabel="tumours", title="569 tumours")
    axes.legend()
    return figure


if __name__ == "__main__":
    figures.save(plot, *main())
