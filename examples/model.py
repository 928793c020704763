"""A logistic regression in Aesara, and the Wisconsin breast-cancer data to fit it to."""

import jaxprgen  # noqa: F401, I001  # First: it makes Aesara importable on current NumPy and Python.
import aesara
import aesara.tensor as at
import numpy as np

X = at.dmatrix("X")
y = at.dvector("y")
beta = at.dvector("beta")
"""The intercept, then one coefficient per feature."""
strength = at.dscalar("strength")
"""The precision of the normal prior on the coefficients: scikit-learn's 1 / C."""

eta = beta[0] + at.dot(X, beta[1:])
eta.name = "eta"
log_likelihood = at.sum(y * eta - at.softplus(eta))
log_prior = -0.5 * strength * at.sum(beta[1:] ** 2)
log_posterior = log_likelihood + log_prior
log_posterior.name = "log_posterior"
gradient = aesara.grad(log_posterior, beta)

inputs = [beta, X, y, strength]
graph = inputs, [log_posterior, gradient]


def load_data() -> tuple[np.ndarray, np.ndarray]:
    """Return 30 standardized measurements of 569 tumours, and whether each is benign (1 or 0)."""
    from sklearn.datasets import load_breast_cancer
    from sklearn.preprocessing import StandardScaler

    data = load_breast_cancer()
    return StandardScaler().fit_transform(data.data), data.target.astype(float)
