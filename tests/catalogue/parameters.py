"""Parameters of every RandomVariable that it draws of, and others that it refuses."""

from __future__ import annotations

from typing import Any

import numpy as np
from aesara.tensor.random import basic as aer

INF = np.inf
TABLE: dict[Any, Any] = {
    # The Op: good parameters, then for each parameter bad ones and good ones on the edge.
    aer.uniform: ((0.0, 1.0), [2.0], [1.0, -5.0], [-0.5], [0.0]),
    aer.triangular: ((-1.0, 0.5, 2.0), [0.6], [0.5], [-2.0, 3.0], [2.0], [0.0], [0.5]),
    aer.beta: ((1.5, 2.5), [0.0, -1.0], [1e-3], [0.0, -INF], [1e-3]),
    aer.rayleigh: ((1.5,), [-1.0], [0.0]),
    aer.power: ((1.5,), [0.0, -1.0], [1e-3]),
    aer.normal: ((0.0, 1.5), [], [-5.0], [-1.0, -INF], [0.0]),
    aer.halfnormal: ((0.0, 1.5), [], [-5.0], [-1.0], [0.0]),
    aer.lognormal: ((0.0, 1.5), [], [-5.0], [-1.0], [0.0]),
    aer.gamma: ((1.5, 2.5), [0.0, -1.0], [1e-3], [-1.0], [INF]),
    aer.chisquare: ((1.5,), [0.0, -1.0], [1e-3]),
    aer.pareto: ((1.5, 2.5), [0.0, -1.0], [0.5], [-1.0], [0.0]),
    aer.gumbel: ((0.0, 1.5), [], [-5.0], [-1.0], [0.0]),
    aer.exponential: ((1.5,), [-1.0], [0.0]),
    aer.weibull: ((1.5,), [-1.0], [0.0]),
    aer.logistic: ((0.0, 1.5), [], [-5.0], [-1.0], [0.0]),
    aer.vonmises: ((0.0, 1.5), [], [-5.0], [-1.0], [0.0, 1e300, INF]),
    aer.cauchy: ((0.0, 1.5), [], [-5.0], [-1.0], [0.0]),
    aer.halfcauchy: ((0.0, 1.5), [], [-5.0], [-1.0], [0.0]),
    aer.invgamma: ((1.5, 2.5), [0.0, -1.0], [1.0], [-1.0], [0.0]),
    aer.wald: ((1.5, 2.5), [0.0, -1.0], [1e-3], [0.0, -1.0], [1e3]),
    aer.truncexpon: ((1.5, 0.0, 2.5), [0.0, -1.0], [50.0], [], [-5.0], [-1.0], [0.0]),
    aer.t: ((1.5, 0.0, 2.5), [0.0, -1.0], [1.0], [], [-5.0], [-1.0], [0.0]),
    aer.laplace: ((0.0, 1.5), [], [-5.0], [-1.0], [0.0]),
    aer.gengamma: ((1.5, 2.5, 3.5), [0.0, -1.0], [1e-3], [0.0, -1.0], [1.0], [-1.0], [0.0]),
    aer.f: ((1.5, 2.5), [0.0, -1.0], [1.0], [0.0, -1.0], [1.0]),
    aer.zipf: ((1.5,), [1.0, 0.0, np.nan], [700.0]),
    aer.geometric: ((0.5,), [0.0, 1.5, np.nan], [1.0, 1e-9]),
    aer.hypergeometric: ((3, 4, 5), [-1, 0], [1], [-1, 1], [2], [-1, 8], [0, 7]),
    aer.bernoulli: ((0.5,), [-0.5, 1.5, np.nan], [0.0, 1.0]),
    aer.binomial: ((5, 0.5), [-1], [0], [-0.5, 1.5, np.nan], [0.0, 1.0]),
    aer.betabinom: ((5, 1.5, 2.5), [-1], [0], [0.0, -1.0, np.nan], [1e-3], [0.0], [1e-3]),
    aer.poisson: ((1.5,), [-1.0, np.nan], [0.0, 1e8]),
    aer.nbinom: ((3.0, 0.5), [0.0, -1.0, np.nan], [1e-3], [0.0, -1.0, 1.5], [1.0]),
    aer.dirichlet: (([1.5, 2.5],), [[-1.0, 1.0]], [[0.0, 1.0]]),
    aer.multinomial: (
        (5, [0.5, 0.5]),
        *([-1], [0], [[-0.5, 1.0], [1.5, 0.0], [np.nan, 0.5]], [[1.0, 0.0], [0.0, 1.0]]),
    ),
}


def rows(op: Any) -> list[list[list[Any]]]:
    """Parameters one of which is bad, and others on the edge, as arrays in their dtypes."""
    good, *lists = TABLE[op]
    found = []
    for kind in (0, 1):
        changes = [(i, x) for i, xs in enumerate(lists[kind::2]) for x in xs]
        found.append(
            [[np.asarray(x if j == i else p) for j, p in enumerate(good)] for i, x in changes]
        )
    return found
