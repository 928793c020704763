"""Models that a Python loop writes out.

Each function takes the number of repetitions, and returns inputs, an output and arguments.
"""

import aesara
import aesara.tensor as at
import numpy as np

import jaxprgen
from jaxprgen.passes import DEFAULT

rng = np.random.default_rng(0)


def normals(n):
    x, mu = at.dvector("x"), at.dscalar("mu")
    terms = [-0.5 * ((x[i] - mu * float(i + 1)) / 2.0) ** 2 - np.log(2.0) for i in range(n)]
    return [x, mu], sum(terms), [rng.normal(size=n), 0.3]


def separate_inputs(n):
    xs = [at.dscalar(f"x{i}") for i in range(n)]
    terms = [-0.5 * ((x - float(i)) / 2.0) ** 2 for i, x in enumerate(xs)]
    return xs, sum(terms), [*rng.normal(size=n)]


def autoregression(n):
    x = at.dvector("x")
    rho, s = at.dscalars("rho", "s")
    terms = [-0.5 * ((x[i] - rho * x[i - 1]) / s) ** 2 - at.log(s) for i in range(1, n)]
    return [x, rho, s], sum(terms), [rng.normal(size=n), 0.4, 1.3]


def alternating_kinds(n):
    x, s = at.dvector("x"), at.dscalar("s")
    terms = [at.sin(s * x[i]) if i % 2 else (x[i] - s) ** 2 for i in range(n)]
    return [x, s], sum(terms), [rng.normal(size=n), 0.7]


def irregular_elements(n):
    x, s = at.dvector("x"), at.dscalar("s")
    order = np.random.default_rng(1).permutation(n)
    return [x, s], sum(at.exp(-s * x[int(i)] ** 2) for i in order), [rng.normal(size=n), 0.7]


def groups_of_items(n):
    x, alpha = at.dmatrix("x"), at.dvector("alpha")
    groups = [sum((x[j, i] - alpha[j]) ** 2 for i in range(5)) for j in range(n)]
    return (
        [x, alpha],
        sum(at.tanh(g) for g in groups),
        [rng.normal(size=(n, 5)), rng.normal(size=n)],
    )


def ragged_groups(n):
    x, alpha = at.dvector("x"), at.dvector("alpha")
    owners = np.sort(np.random.default_rng(2).integers(0, n, 4 * n))
    groups = []
    for j in range(n):
        own = np.flatnonzero(owners == j)
        if len(own) > 2:
            groups.append(at.tanh(sum((x[int(i)] - alpha[j]) ** 2 for i in own)))
    return [x, alpha], sum(groups), [rng.normal(size=4 * n), rng.normal(size=n)]


def stacked(n):
    x, s = at.dvector("x"), at.dscalar("s")
    rows = at.stack([at.sin(s * x[i]) for i in range(n)])
    return [x, s], at.dot(rows, rows), [rng.normal(size=n), 0.7]


def vectors(n):
    x, w = at.dmatrix("x"), at.dvector("w")
    return (
        [x, w],
        sum(at.log1p(at.dot(x[i], w) ** 2) for i in range(n)),
        [rng.normal(size=(n, 3)), rng.normal(size=3)],
    )


def maxima(n):
    x, s = at.dvector("x"), at.dscalar("s")
    largest = s
    for i in range(n):
        largest = at.maximum(largest, at.sin(x[i] * s))
    return [x, s], largest, [rng.normal(size=n), 0.7]


def recurrence(n):
    y, rho = at.dvector("y"), at.dscalar("rho")
    h, total = at.as_tensor(0.0), 0
    for i in range(n):
        h = at.tanh(rho * h + y[i])
        total = total + (y[i] - h) ** 2
    return [y, rho], total, [rng.normal(size=n), 0.4]


def two_lags(n):
    y, (p, q) = at.dvector("y"), at.dscalars("p", "q")
    before, h, total = at.as_tensor(0.0), at.as_tensor(0.1), 0
    for i in range(n):
        before, h = h, at.sin(p * h + q * before) + y[i]
        total = total + h**2
    return [y, p, q], total, [rng.normal(size=n), 0.4, 0.2]


def random_walk(n):
    e, s = at.dvector("e"), at.dscalar("s")
    x, total = at.as_tensor(0.0), 0
    for i in range(n):
        x = x + s * e[i]
        total = total + at.sin(x)
    return [e, s], total, [rng.normal(size=n), 0.3]


def kalman_filter(n):
    y, (q, r) = at.dvector("y"), at.dscalars("q", "r")
    m, p, total = at.as_tensor(0.0), at.as_tensor(1.0), 0
    for i in range(n):
        p = p + q
        s, e = p + r, y[i] - m
        total = total - 0.5 * (at.log(s) + e**2 / s)
        m, p = m + p / s * e, (1 - p / s) * p
    return [y, q, r], total, [rng.normal(size=n), 0.3, 0.8]


def long_short_term_memory(n):
    x, (a, b, c) = at.dvector("x"), at.dscalars("a", "b", "c")
    h, m = at.as_tensor(0.1), at.as_tensor(0.2)
    for i in range(n):
        forget, new = at.sigmoid(a * x[i] + b * h), at.tanh(b * x[i] + c * h)
        m = forget * m + (1 - forget) * new
        h = at.sigmoid(c * x[i] + a * h) * at.tanh(m)
    return [x, a, b, c], h**2 + m, [rng.normal(size=n), 0.4, 0.2, -0.3]


def hidden_markov(n):
    emission, transition = at.dmatrices("emission", "transition")
    alpha = at.as_tensor(np.zeros(3))
    for i in range(n):
        alpha = at.logsumexp(alpha[:, None] + transition, axis=0) + emission[i]
    inputs = [rng.normal(size=(n, 3)), rng.normal(size=(3, 3))]
    return [emission, transition], at.logsumexp(alpha), inputs


def layers(n):
    weights = [at.dmatrix(f"w{i}") for i in range(n)]
    x = h = at.dvector("x")
    for w in weights:
        h = at.tanh(at.dot(w, h))
    return [x, *weights], (h**2).sum(), [rng.normal(size=4), *rng.normal(size=(n, 4, 4))]


def layers_in_one_array(n):
    weights, x = at.dtensor3("weights"), at.dvector("x")
    h = x
    for i in range(n):
        h = at.tanh(at.dot(weights[i], h))
    return [weights, x], (h**2).sum(), [rng.normal(size=(n, 4, 4)), rng.normal(size=4)]


def squared_matrices(n):
    a, s = at.dmatrix("a"), at.dscalar("s")
    p = a
    for _ in range(n):
        p = s * at.dot(p, a) + at.eye(3)
    return [a, s], at.sum(p), [0.3 * rng.normal(size=(3, 3)), 0.5]


def last_step_differs(n):
    y, rho = at.dvector("y"), at.dscalar("rho")
    h = at.as_tensor(0.5)
    for i in range(n):
        h = at.tanh(rho * h + y[i]) if i < n - 1 else at.exp(h)
    return [y, rho], h, [rng.normal(size=n), 0.4]


def nested_groups(n):
    x, a, s = at.dtensor3("x"), at.dmatrix("a"), at.dscalar("s")
    total = 0
    for j in range(n):
        inner = [at.exp(-sum((x[j, k, i] - a[j, k]) ** 2 for i in range(3))) for k in range(2)]
        total = total + at.log1p(s * sum(inner))
    return [x, a, s], total, [rng.normal(size=(n, 2, 3)), rng.normal(size=(n, 2)), 0.7]


def three_kinds(n):
    x, s = at.dvector("x"), at.dscalar("s")
    kinds = [lambda v: at.sin(s * v), lambda v: (v - s) ** 2, lambda v: at.exp(-s * v**2)]
    count = n // 3 * 3  # All of x is read, and as often by each kind.
    return [x, s], sum(kinds[i % 3](x[i]) for i in range(count)), [rng.normal(size=count), 0.7]


def first_step_differs(n):
    y, rho = at.dvector("y"), at.dscalar("rho")
    h = at.exp(y[0]) * rho
    for i in range(1, n):
        h = at.tanh(rho * h + y[i])
    return [y, rho], h**2, [rng.normal(size=n), 0.4]


def backwards(n):
    y, rho = at.dvector("y"), at.dscalar("rho")
    h, total = at.as_tensor(0.3), 0
    for i in reversed(range(n)):
        h = at.sin(rho * h) + y[i]
        total = total + at.sqrt(1 + h**2)
    return [y, rho], total, [rng.normal(size=n), 0.4]


def two_matrices(n):
    a, b = at.dmatrices("a", "b")
    p, q = a, b
    for _ in range(n):
        p, q = at.tanh(at.dot(p, b) + q), at.tanh(at.dot(a, q) - p)
    return [a, b], at.sum(p * q), [0.3 * rng.normal(size=(3, 3)), 0.3 * rng.normal(size=(3, 3))]


def parallel_recurrences(n):
    y, rho = at.dmatrix("y"), at.dvector("rho")
    total = 0
    for j in range(n):
        h = at.as_tensor(0.0)
        for i in range(26):
            h = at.tanh(rho[j] * h + y[j, i])
            total = total + h**2
    return [y, rho], total, [rng.normal(size=(n, 26)), rng.normal(size=n)]


BATCHED = [
    normals,
    autoregression,
    alternating_kinds,
    irregular_elements,
    groups_of_items,
    ragged_groups,
    stacked,
    vectors,
    maxima,
    nested_groups,
    three_kinds,
]
LOOPED = [
    recurrence,
    two_lags,
    random_walk,
    kalman_filter,
    long_short_term_memory,
    hidden_markov,
    layers_in_one_array,
    squared_matrices,
    last_step_differs,
    first_step_differs,
    backwards,
    two_matrices,
    parallel_recurrences,
]
MODELS = [*BATCHED, *LOOPED, separate_inputs, layers]


def compiled(model, n, passes=DEFAULT):
    """A model's value and gradient as a function, and arguments for it."""
    inputs, output, arguments = model(n)
    return jaxprgen.compile(
        inputs, [output, *aesara.grad(output, inputs)], passes=passes
    ), arguments
