"""Values at extremes, which PyTensor's rewrites keep finite."""

import jax
import numpy as np
import pytest
import scipy.special

import jaxprgen

pt = pytest.importorskip("pytensor.tensor")

POINTS = np.array([-1000.0, -50.0, -1e-20, 1e-20, 1.0, 800.0, 1000.0])
SCORES = np.array([[0.0, 1000.0, -1000.0], [1.0, 2.0, 3.0]])
x, m = pt.dvector("x"), pt.dmatrix("m")
softmax = pt.special.softmax(m, axis=-1)
sigmoid = pt.sigmoid(x)
LOG1MEXP = np.log(-np.expm1(-abs(POINTS)))
LOG_SOFTMAX = scipy.special.log_softmax(SCORES, axis=-1)
SCALARS = {
    "log(1+exp(x))": (pt.log(1 + pt.exp(x)), np.logaddexp(0, POINTS)),
    "log(sigmoid(x))": (pt.log(sigmoid), -np.logaddexp(0, -POINTS)),
    "log(1-sigmoid(x))": (pt.log(1 - sigmoid), -np.logaddexp(0, POINTS)),
    "log(1-exp(-|x|))": (pt.log(1 - pt.exp(-abs(x))), LOG1MEXP),
    "log1p(-exp(-|x|))": (pt.log1p(-pt.exp(-abs(x))), LOG1MEXP),
    "log(exp(x)+exp(-x))": (pt.log(pt.exp(x) + pt.exp(-x)), np.logaddexp(POINTS, -POINTS)),
    "log(exp(x)-exp(x-1))": (pt.log(pt.exp(x) - pt.exp(x - 1)), POINTS + np.log(-np.expm1(-1.0))),
}
ROWS = {
    "log(softmax)": (pt.log(softmax), LOG_SOFTMAX),
    "log(softmax, all axes)": (
        pt.log(pt.special.softmax(m, axis=None)),
        scipy.special.log_softmax(SCORES),
    ),
    "log(softmax[i, j])": (pt.log(softmax[pt.arange(2), [0, 2]]), LOG_SOFTMAX[[0, 1], [0, 2]]),
    "log(softmax[:, 0])": (pt.log(softmax[:, 0]), LOG_SOFTMAX[:, 0]),
    "log(sum(exp))": (pt.log(pt.exp(m).sum(axis=1)), scipy.special.logsumexp(SCORES, axis=1)),
    "log(sum(exp)), kept axes": (
        pt.log(pt.exp(m).sum(axis=1, keepdims=True)),
        scipy.special.logsumexp(SCORES, axis=1, keepdims=True),
    ),
}
NAN = ("log(exp(x)+exp(-x))", "log(exp(x)-exp(x-1))")
CASES = {
    **{name: (x, POINTS, *case) for name, case in SCALARS.items()},
    **{name: (m, SCORES, *case) for name, case in ROWS.items()},
}


@pytest.mark.parametrize("name", CASES)
def test_logarithms_at_extremes(name):
    """Values equal stable formulas of NumPy and SciPy, and JAX's gradients are finite.

    So are gradients by PyTensor, but for those of two formulas. With PyTensor's rewrites, those of
    probabilities are NaN at some of these points, too.
    """
    variable, point, y, wanted = CASES[name]
    np.testing.assert_allclose(jaxprgen.compile([variable], y)(point), wanted, 1e-12, 1e-20)
    total = jaxprgen.compile([variable], y.sum())
    slopes = jax.grad(total)(point)
    assert np.isfinite(slopes).all()
    found = jaxprgen.compile([variable], pt.grad(y.sum(), variable))(point)
    if name in NAN:
        found = np.where(np.isnan(found), slopes, found)
    np.testing.assert_allclose(found, slopes, 1e-12, 1e-15)
