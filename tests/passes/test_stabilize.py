"""`Stabilize`, compared with Aesara's rewrites and mpmath."""

import collections
import itertools
import warnings
from pathlib import Path

import aesara
import aesara.tensor as at
import jax
import jax.numpy as jnp
import mpmath
import numpy as np
import pytest
import scipy.special
from aesara.tensor.slinalg import Cholesky
from laws import all_equations, in_one_program
from mpmath import mp

import jaxprgen
from jaxprgen.passes import DEFAULT, Inline, Stabilize

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # Aesara deprecates this module.
    from aesara.tensor.nnet.basic import categorical_crossentropy

# Computed with mpmath and 400 digits; at the infinities limits. Of rows it is that of (x, 0), and
# what is looked at is the first element.
VALUES = collections.defaultdict(list)
for line in Path(__file__).with_name("stable_values.csv").read_text().splitlines()[1:]:
    name, *numbers = line.rsplit(",", 3)
    VALUES[name].append([float(x) for x in numbers])

x = at.dvector("x")
rows = at.stack([x, x * 0], axis=1)
row = at.dmatrix("row")
sigmoid = at.sigmoid(x)
exp, log = at.exp, at.log
SCALAR = {
    "log1p(exp(x))": at.log1p(exp(x)),
    "log(1+exp(x))": log(1 + exp(x)),
    "log(sigmoid(x))": log(sigmoid),
    "log(1-sigmoid(x))": log(1 - sigmoid),
    "log(1-exp(x))": log(1 - exp(x)),
    "exp(x)-1": exp(x) - 1,
    "log(1+x)": log(1 + x),
    "1-erf(x)": 1 - at.erf(x),
    "1-erfc(x)": 1 - at.erfc(x),
    "1+erf(x)": 1 + at.erf(x),
    "log(erfc(x))": log(at.erfc(x)),
    "sqrt(x**2)": at.sqrt(x**2),
    "log(exp(x)+exp(0))": log(exp(x) + exp(at.zeros_like(x))),
    "1/(1+exp(-x))": 1 / (1 + exp(-x)),
    "exp(x)/(1+exp(x))": exp(x) / (1 + exp(x)),
    "log(exp(x))": log(exp(x)),
    "log(sigmoid(x)/(1-sigmoid(x)))": log(sigmoid / (1 - sigmoid)),
}
ROWS = {
    "log(softmax(x))": log(at.special.softmax(row, axis=-1))[:, 0],
    "log(exp(x)/sum(exp(x)))": log(exp(row) / exp(row).sum(axis=-1, keepdims=True))[:, 0],
    "log(sum(exp(x)))": log(exp(row).sum(axis=-1)),
}


def errors(found, wanted, floor):
    """Return errors relative to at least ``floor``; NaN on one side is an infinite error."""
    with np.errstate(all="ignore"):
        error = np.abs(found - wanted) / np.maximum(np.abs(wanted), floor)
    same = (found == wanted) | (np.isnan(found) & np.isnan(wanted))
    return np.where(same, 0, np.where(np.isnan(error), np.inf, error))


def graph(name):
    """Return the input and outputs of a graph, and a function from points to its argument."""
    if name in SCALAR:
        y = SCALAR[name]
        return x, [y, aesara.grad(y.sum(), x)], lambda points: points
    y = ROWS[name]
    outputs = [y, aesara.grad(y.sum(), row)[:, 0]]
    return row, outputs, lambda points: np.stack([points, 0 * np.nan_to_num(points)], 1)


@pytest.mark.parametrize("name", [*SCALAR, *ROWS])
def test_as_accurate_as_rewritten_aesara_graphs(name):
    """Compare value, `aesara.grad` and `jax.grad` at zero, tiny, large and infinite numbers."""
    points, *wanted = np.array(VALUES[name]).T
    variable, outputs, argument = graph(name)
    f = jaxprgen.compile([variable], outputs)
    theirs = aesara.function([variable], outputs, mode="FAST_RUN")
    with np.errstate(all="ignore"):
        known = theirs(argument(points))
    ours, (slopes,) = in_one_program([f, jax.grad(lambda x: f(x)[0].sum())], argument(points))
    inside = ~np.isnan(wanted[0]) & ~np.isnan(wanted[1])
    check("value", points, ours[0], known[0], wanted[0])
    # The slopes of rows are differences of numbers about 1.
    floor = 1e-307 if name in SCALAR else 1e-3
    check("aesara.grad", points, ours[1], known[1], wanted[1], inside, floor)
    # JAX's own rules for derivatives are accurate to the last place of 1, and not at infinity.
    finite = inside & np.isfinite(wanted[1])
    slopes = slopes if name in SCALAR else slopes[:, 0]
    check("jax.grad", points, slopes, known[1], wanted[1], finite, floor=1.0)


def check(label, points, ours, theirs, true, where=..., floor=1e-307):
    """Assert that no error exceeds Aesara's by more than rounding."""
    columns = [np.asarray(column)[where] for column in (points, ours, theirs, true)]
    mine, other = (errors(column, columns[3], floor) for column in columns[1:3])
    worse = mine > np.maximum(1.01 * other, 1e-12)
    assert not worse.any(), f"{label} at x, ours, theirs, true:\n{np.array(columns).T[worse]}"


def test_formulas_across_calls():
    """Calls such as `jax.nn.sigmoid` are inlined first, nested and inside loops too."""

    def f(x):
        rows = jax.lax.map(lambda row: jnp.log(jax.nn.sigmoid(row)), x)
        return rows, jax.jit(lambda x: jnp.log(1 - jax.nn.sigmoid(x)))(x)

    points = np.array([-1e5, -800.0, 0.0, 800.0, 1e5])
    found = jaxprgen.transform(f, Inline(), Stabilize())
    for ours, sign in zip(found(points), (-1, 1), strict=True):
        np.testing.assert_allclose(ours, -np.logaddexp(0, sign * points), rtol=1e-12)
    closed = Inline()(jax.make_jaxpr(f)(points))
    assert "jit" not in [e.primitive.name for e in all_equations(closed.jaxpr)]
    assert Inline()(closed) is closed


@pytest.mark.parametrize("shape", [(3,), (2, 3)])
def test_sums_over_all_axes(shape):
    """A scalar is repeated without an equation."""
    v = at.TensorType("float64", (None,) * len(shape))("v")
    total = log(exp(v).sum())
    points = np.linspace(-900, 900, np.prod(shape)).reshape(shape)
    f = jaxprgen.compile([v], [total, aesara.grad(total, v)])
    value, slope = f(points)
    np.testing.assert_allclose(value, 900, rtol=1e-12)
    np.testing.assert_allclose(slope, jax.nn.softmax(points, axis=None), rtol=1e-12, atol=1e-300)


EXTREME = np.array([-1000.0, -50.0, -1e-20, 1e-20, 1.0, 800.0, 1000.0])


def log1mexp(x):
    return np.log(-np.expm1(x))


@pytest.mark.parametrize(
    ("y", "wanted"),
    [
        (at.log1p(-exp(-abs(x))), log1mexp(-abs(EXTREME))),
        (at.log1p(-exp(at.minimum(x, -1e-20))), log1mexp(np.minimum(EXTREME, -1e-20))),
        (at.log1p(exp(at.switch(at.gt(x, 2), x, 3))), np.logaddexp(0, np.maximum(EXTREME, 3))),
        (
            log(exp(x) + exp(-x) + exp(2 * x)),
            np.logaddexp(np.logaddexp(EXTREME, -EXTREME), 2 * EXTREME),
        ),
        (log(2 + exp(x) + exp(-x)), np.logaddexp(0, EXTREME) + np.logaddexp(0, -EXTREME)),
        (log(exp(x) - exp(x - 1)), EXTREME + np.log1p(-np.exp(-1))),
    ],
)
def test_more_formulas_at_extremes(y, wanted):
    """Aesara leaves some of these formulas as they are."""
    np.testing.assert_allclose(jaxprgen.compile([x], y)(EXTREME), wanted, 1e-12, 1e-20)


@pytest.mark.parametrize("columns", [None, 1, 3])
def test_quotients_by_exponentials_have_slopes_where_the_square_of_the_divisor_overflows(columns):
    """The divisor is one number, one for each row, or one for each element."""
    values = np.array([1e-5, 2.0, 3e5])
    f = jaxprgen.transform(lambda z, s: jnp.sum(z / jnp.exp(s)), Stabilize())
    for number in (400.0, -400.0):
        s = np.float64(number) if columns is None else np.full(columns, number)
        if columns == 1:
            s, values = s[:, None], values.reshape(1, 3)
        by_value, by_log = jax.grad(f, (0, 1))(values, s)
        np.testing.assert_allclose(by_value, np.exp(-number) * np.ones(values.shape), rtol=1e-13)
        wanted = -values * np.exp(-number)
        np.testing.assert_allclose(
            by_log, wanted if columns == 3 else wanted.sum(keepdims=columns == 1), rtol=1e-13
        )


@pytest.mark.parametrize("of", [jax.lax.lgamma, jax.lax.digamma, jnp.cos])
@pytest.mark.parametrize("shape", [(), (5,)])
def test_binomial_coefficients_do_not_cancel(shape, of):
    """As in the negative binomial distribution, of few events with large counts."""
    count = np.array([0.0, 3.0, 1e8, 1e17, 1e300])
    alpha = np.full(shape, 0.3)

    def f(alpha):
        n = count + alpha - 1
        return of(jnp.broadcast_to(n - count + 1, count.shape))

    stable = jaxprgen.transform(f, Stabilize())
    np.testing.assert_allclose(stable(alpha), of(np.full(5, 0.3)), rtol=1e-15)
    slopes = jax.jacobian(stable)(alpha).sum(-1 if shape else None)
    wanted = jax.grad(of)(0.3)
    np.testing.assert_allclose(slopes, wanted if shape else 5 * wanted, rtol=1e-14)


CUTS = np.array([-np.inf, -900.0, -40.0, -1.0, 1.0, 1.0, 40.0, 900.0, np.inf])


def test_differences_of_sigmoids():
    """As in the likelihood of ordered data, where both may be close to one."""
    ends = at.zeros(1), at.ones(1)
    cumulative = at.concatenate([ends[0], at.sigmoid(x), ends[1]])
    f = jaxprgen.compile([x], cumulative[1:] - cumulative[:-1])
    with mpmath.workdps(800):
        exact = [1 / (1 + mpmath.exp(-mpmath.mpf(cut))) for cut in CUTS]
        wanted = [float(b - a) for a, b in itertools.pairwise(exact)]
    np.testing.assert_allclose(f(CUTS[1:-1]), wanted, 1e-12)
    twice = jaxprgen.compile([x], at.sigmoid(x) - at.sigmoid(x[::-1]))
    slopes = jax.jacobian(twice)(np.array([-40.0, 1.0, 3.0, 1.0, -40.0]))
    own = [float(mpmath.exp(-abs(z)) / (1 + mpmath.exp(-abs(z))) ** 2) for z in (-40, 1, 0)]
    np.testing.assert_allclose(np.diag(slopes)[:3], [*own[:2], 0], 1e-12, 1e-300)


def test_differences_of_close_sigmoids_and_normal_tails_are_accurate_to_the_last_places():
    """Also where JAX's `log1p` is not."""
    y, points = at.vector("y"), np.linspace(-3, 3, 301)
    gaps = np.geomspace(1e-12, 1, 301)
    difference = jaxprgen.compile([x, y], at.sigmoid(x + y) - at.sigmoid(x))
    tail = jaxprgen.compile([x], log(at.erfc(x)))
    with mpmath.workdps(40):
        ends = [[mpmath.mpf(float(z)) for z in row] for row in (points + gaps, points)]
        upper, lower = ([1 / (1 + mpmath.exp(-z)) for z in row] for row in ends)
        wanted = np.array([b - a for a, b in zip(lower, upper, strict=True)], float)
        logs = np.array([mpmath.log(mpmath.erfc(z)) for z in ends[1]], float)
    np.testing.assert_allclose(difference(points, gaps), wanted, rtol=2e-15)
    np.testing.assert_allclose(tail(points), logs, rtol=2e-15)


def _triangle(places, numbers):
    return at.set_subtensor(at.zeros((3, 3))[tuple(places)], numbers)


def test_the_factor_of_a_factor_times_its_transpose():
    """The factor is that of `cholesky`, of which the diagonal is positive, with its gradient."""
    y, places = at.vector("y"), np.array(np.tril_indices(3))
    factor, cholesky = _triangle(places, x), Cholesky(on_error="nan")
    f = jaxprgen.compile([x], cholesky(factor.dot(factor.T)))
    plain = jaxprgen.compile([x], cholesky(factor.dot(factor.T)), passes=())
    numbers = np.array([1.0, 0.3, -2.0, 0.4, 0.5, 0.7])
    assert "cholesky" not in str(f.jaxpr(numbers))
    np.testing.assert_allclose(f(numbers), plain(numbers), 1e-14, 1e-15)
    slopes = (jax.jacobian(g)(numbers) for g in (f, plain))
    np.testing.assert_allclose(*slopes, 1e-13, 1e-15)
    numbers[0] = 1e-200  # The product underflows.
    np.testing.assert_allclose(f(numbers)[0], [1e-200, 0, 0])
    numbers[0] = 0
    assert np.isnan(f(numbers)[-1, -1]) and np.isnan(plain(numbers)[-1, -1])

    for other in (_triangle(places[::-1], x), _triangle(places, x) + y[:3]):
        kept = jaxprgen.compile([x, y], cholesky(other.dot(other.T)))
        assert "cholesky" in str(kept.jaxpr(numbers, numbers))


def test_a_block_in_the_corner_is_no_triangle():
    """Its only known place, that of the corner, is in the lower triangle."""
    corner = jax.lax.ScatterDimensionNumbers((0, 1), (), (0, 1))

    def f(block):
        y = jax.lax.scatter(jnp.zeros((3, 3)), np.zeros(2, int), block, corner)
        product = jax.lax.dot_general(y, y, (((1,), (1,)), ((), ())))
        product = jax.lax.select_n(np.tri(3) > 0, product.T, product)
        return jax.lax.linalg.cholesky(product, symmetrize_input=False)

    block = np.random.default_rng(0).normal(size=(3, 3))
    np.testing.assert_allclose(jaxprgen.transform(f, Stabilize())(block), f(block), 1e-12)


NORMAL = {
    "log(erfc(x)/2)": log(at.erfc(x) / 2),
    "log(0.5*(1-erf(x)))": log(0.5 * (1 - at.erf(x))),
    "log(0.5-0.5*erf(x))": log(0.5 - 0.5 * at.erf(x)),
    "log(0.5+erf(-x)/2)": log(0.5 + at.erf(-x) / 2),
    "log(1-0.5*(1+erf(x)))": log(1 - 0.5 * (1 + at.erf(x))),
    "log(0.5*erfc(-(-x)/2*2))": log(0.5 * at.erfc(-(-x / 2) * 2)),
    "log1p(-erf(x))-log(2)": at.log1p(-at.erf(x)) - np.log(2.0),
    "log1p(erf(-x))-log(2)": at.log1p(at.erf(-x)) - np.log(2.0),
}


@pytest.mark.parametrize("name", NORMAL)
def test_normal_probabilities_as_people_write_them(name):
    """Values and gradients, by the library and by `jax.grad`, up to 60 scales out."""
    points = np.array([-40.0, -9.0, -4.0, -0.6, -0.3, 0.0, 0.3, 0.6, 4.0, 9.0, 40.0])
    f = jaxprgen.compile([x], NORMAL[name])
    with mpmath.workdps(800):
        tail = [mpmath.erfc(z) / 2 for z in points]
        value = [float(mpmath.log(p)) for p in tail]
        slope = [
            float(-mpmath.exp(-(mpmath.mpf(z) ** 2)) / mpmath.sqrt(mpmath.pi) / p)
            for z, p in zip(points, tail, strict=True)
        ]
    np.testing.assert_allclose(f(points), value, 1e-12, 1e-15)
    written = jaxprgen.compile([x], aesara.grad(NORMAL[name].sum(), x))
    for found in (written(points), jax.grad(lambda x: f(x).sum())(points)):
        np.testing.assert_allclose(found, slope, 1e-10, 1e-300)


AWKWARD = np.array([-40.0, -3.0, -0.1, 0.0, 0.3, 0.5, 0.7, 5.0, 30.0, 300.0])


def _slopes_by_mpmath(name, x, y):
    """Return the derivatives, written so that nothing cancels."""
    if name == "log_scaled":
        return mpmath.mpf(1), 1 / mpmath.mpf(y)
    if name == "logistic_difference":
        return [s / (2 + mpmath.exp(z) + mpmath.exp(-z)) for s, z in ((1, x), (-1, y))]
    x = mpmath.mpf(x)
    return [-2 / mpmath.sqrt(mpmath.pi) * mpmath.exp(-x * x) / mpmath.erfc(x)]


@pytest.mark.parametrize("name", ["log_erfc", "log_half_erfc", "log_scaled", "logistic_difference"])
def test_slopes_of_formulas_that_have_their_own(name):
    """Without them, JAX would differentiate each branch of the formulas."""
    function = {
        "log_erfc": lambda x, y: jnp.log(jax.lax.erfc(x)),
        "log_half_erfc": lambda x, y: jnp.log(0.5 * jax.lax.erfc(x)),
        "log_scaled": lambda x, y: jnp.log(y * jnp.exp(x)),
        "logistic_difference": lambda x, y: jax.lax.logistic(x) - jax.lax.logistic(y),
    }[name]
    f = jaxprgen.transform(function, *DEFAULT)
    x, y = AWKWARD, abs(AWKWARD[::-1]) + 0.25
    found = jax.jit(jax.vmap(jax.grad(f, (0, 1))))(x, y)
    with mpmath.workdps(400):
        rows = [_slopes_by_mpmath(name, *pair) for pair in zip(x, y, strict=True)]
        wanted = np.array(rows, float).T
    for one, other in zip(found, wanted, strict=False):
        np.testing.assert_allclose(one, other, 1e-12, 1e-300)


def test_slopes_have_slopes_where_formulas_change():
    """Not half of them, as those of maxima of equal numbers."""
    log_erfc = jaxprgen.transform(lambda x: jnp.log(jax.lax.erfc(x)), *DEFAULT)
    found = jax.jit(jax.vmap(jax.grad(jax.grad(log_erfc))))(AWKWARD)
    with mpmath.workdps(400):
        slopes = [_slopes_by_mpmath("log_erfc", x, x)[0] for x in AWKWARD]
        wanted = [float(-2 * x * s - s**2) for x, s in zip(AWKWARD.tolist(), slopes, strict=True)]
    np.testing.assert_allclose(found, wanted, 1e-9, 1e-300)

    logaddexp = jaxprgen.transform(lambda x, y: jnp.log(jnp.exp(x) + jnp.exp(y)), *DEFAULT)
    hessian = jax.jit(jax.hessian(logaddexp, (0, 1)))
    for x in (0.0, 800.0, -800.0):
        np.testing.assert_allclose(hessian(x, x), [[0.25, -0.25], [-0.25, 0.25]], 1e-12)


@pytest.mark.parametrize("x", [0.0, -0.0, 1e-300, 1e300, np.inf, np.nan])
def test_quotient_by_a_reciprocal(x):
    """It is a product, which is rounded once."""
    f = jaxprgen.transform(lambda y, x: y / (1 / x), *DEFAULT)
    found = f(jnp.asarray(3.0), jnp.asarray(x))
    np.testing.assert_array_equal(found, 3.0 * x)
    np.testing.assert_array_equal(np.signbit(found), np.signbit(3.0 * x))


SCORES = np.array([[0.0, 1000.0, -1000.0], [1.0, 2.0, 3.0]])
LOGARITHMS = scipy.special.log_softmax(SCORES, axis=1)
i = at.iscalar("i")
CHOICES = {
    "[:, 0]": (lambda p: p[:, 0], LOGARITHMS[:, 0]),
    "[:, i]": (lambda p: p[:, i], LOGARITHMS[:, 2]),
    "[[0, 1], [0, 2]]": (
        lambda p: p[at.arange(2), at.as_tensor([0, 2])],
        LOGARITHMS[[0, 1], [0, 2]],
    ),
    "transposed": (lambda p: p.T[1:], LOGARITHMS.T[1:]),
    "ravel": (lambda p: p.ravel()[::2], LOGARITHMS.ravel()[::2]),
    "a row for all": (
        lambda p: at.broadcast_to(p[:1], (2, 3))[at.arange(2), at.as_tensor([0, 2])],
        LOGARITHMS[0, [0, 2]],
    ),
}


@pytest.mark.filterwarnings("ignore::jaxprgen.errors.RuntimeCheckWarning")
@pytest.mark.parametrize("choice", CHOICES)
def test_logarithms_of_chosen_probabilities_and_complements(choice):
    """As in the likelihoods of categorical and of binary data."""
    choose, wanted = CHOICES[choice]
    y = log(choose(at.special.softmax(row, axis=1)))
    f = jaxprgen.compile([row, i], y, passes=[Stabilize()])
    np.testing.assert_allclose(f(SCORES, 2), wanted, 1e-12)
    assert np.isfinite(jax.grad(lambda x: f(x, 2).sum())(SCORES)).all()
    f = jaxprgen.compile([row, i], log(1 - choose(at.sigmoid(row))))
    wanted = jaxprgen.compile([row, i], choose(row))(-np.logaddexp(0, SCORES), 2)
    np.testing.assert_allclose(f(SCORES, 2), wanted, 1e-12)


PROBABILITIES = {
    "softmax": lambda x: at.special.softmax(x, axis=1),
    "exp / sum(exp)": lambda x: exp(x) / exp(x).sum(axis=1, keepdims=True),
}
COSTS = {
    "x * p": (lambda p: row * p, lambda x, p: p * (1 + x - (x * p).sum(1, keepdims=True))),
    "-p": (lambda p: -p, lambda x, p: 0 * p),
    "dot": (lambda p: at.dot(p, [1, 2, 3.0]), lambda x, p: p * ([1, 2, 3] - p @ [[1], [2], [3]])),
    "p[:, 0]": (lambda p: log(p)[:, 0], lambda x, p: [1, 0, 0] - p),
    "log(p[:, 0])": (lambda p: log(p[:, 0]), lambda x, p: [1, 0, 0] - p),
    "log(p[:, :2])": (lambda p: log(p[:, :2]), lambda x, p: [1, 1, 0] - 2 * p),
    "log(p[:, ::2])": (lambda p: log(p[:, ::2]), lambda x, p: [1, 0, 1] - 2 * p),
    "log(p)[:, i]": (lambda p: log(p)[:, i], lambda x, p: [0, 0, 1] - p),
    "log(p)[[0, 1], [0, i]]": (
        lambda p: log(p)[at.arange(2), at.stack([0, i])],
        lambda x, p: [[1, 0, 0], [0, 0, 1]] - p,
    ),
    "2 * log(p[[0, 1], [0, i]])": (
        lambda p: 2 * log(p[at.arange(2), at.stack([0, i])]),
        lambda x, p: [[2, 0, 0], [0, 0, 2]] - 2 * p,
    ),
    "log(p)[0, i]": (lambda p: log(p)[0, i], lambda x, p: [[0, 0, 1], [0, 0, 0]] - p * [[1], [0]]),
    "categorical_crossentropy": (
        lambda p: categorical_crossentropy(p, at.stack([0, i])),
        lambda x, p: p - [[1, 0, 0], [0, 0, 1]],
    ),
}


@pytest.mark.filterwarnings("ignore::jaxprgen.errors.RuntimeCheckWarning")
@pytest.mark.parametrize("probability", PROBABILITIES)
@pytest.mark.parametrize("cost", COSTS)
def test_gradients_that_the_library_writes_of_probabilities(probability, cost):
    """Probabilities that underflow cancel."""
    build, slope = COSTS[cost]
    y = build(PROBABILITIES[probability](row)).sum()
    found = jaxprgen.compile([row, i], aesara.grad(y, row))(SCORES, 2)
    wanted = slope(SCORES, scipy.special.softmax(SCORES, axis=1))
    np.testing.assert_allclose(found, wanted, 1e-12, 1e-15)


REPEATED = {
    "quotient": lambda p, y: jax.lax.pad(y[:2] / p[:1, 0], 0.0, [(0, 1, 0)]) * p[:, 0],
    "another axis": lambda p, y: jnp.pad((y / p[0])[:, None], ((0, 0), (0, 2))) * p,
    "row": lambda p, y: jnp.broadcast_to(y / p[0], (3, 3)) * p,
    "padded row": lambda p, y: jnp.pad((y / p[0])[None] * jnp.ones((2, 1)), ((0, 1), (0, 0))) * p,
    "written row": lambda p, y: jnp.zeros((3, 3)).at[:2].set(y / p[0]) * p,
    "steps": lambda p, y: jax.lax.pad(y[:2] / p[0, :2], 0.0, [(0, 0, 1)]) * p[0],
    "total": lambda p, y: (1 / jnp.broadcast_to(p.sum(1)[:, None], (3, 3))).sum(1)[:, None] * p,
}


@pytest.mark.parametrize("name", REPEATED)
def test_quotients_that_are_put_elsewhere_do_not_cancel(name):
    """By exponentials, which are positive, and by their sums."""
    x, y = np.linspace(-1.0, 1.0, 9).reshape(3, 3), np.array([1.0, 2.0, 3.0])
    closed = Inline()(jax.make_jaxpr(lambda x, y: REPEATED[name](jnp.exp(x), y))(x, y))
    (found,) = jaxprgen.jaxpr_as_fun(Stabilize()(closed))(x, y)
    np.testing.assert_allclose(found, REPEATED[name](np.exp(x), y), 1e-12)


def test_softmax_of_a_whole_matrix():
    f = jaxprgen.compile([row], log(at.special.softmax(row, axis=None)))
    np.testing.assert_allclose(f(SCORES), scipy.special.log_softmax(SCORES), 1e-12)
    assert np.isfinite(jax.grad(lambda x: f(x).sum())(SCORES)).all()


def test_gradient_of_kept_axes():
    total = log(exp(row).sum(axis=1, keepdims=True)).sum()
    slopes = jaxprgen.compile([row], aesara.grad(total, row))(SCORES)
    np.testing.assert_allclose(slopes, scipy.special.softmax(SCORES, axis=1), 1e-12, 1e-300)


def test_elements_out_of_bounds_stay_what_they_are():
    """A gather may replace them by a number, whose logarithm is another one."""

    def fun(x, i):
        return jnp.log(jax.nn.softmax(x).at[i].get(mode="fill", fill_value=1.0))

    scores, index = np.array([0.0, 1.0]), np.array([0, 5])
    found = jaxprgen.transform(fun, Inline(), Stabilize())(scores, index)
    np.testing.assert_allclose(found, fun(scores, index), 1e-12)


POWERS = {
    "exp(x) * exp(y)": lambda m, x, y: m.exp(x) * m.exp(y),
    "exp(x) / exp(y)": lambda m, x, y: m.exp(x) / m.exp(y),
    "1 / exp(x)": lambda m, x, y: 1 / m.exp(x),
    "log(exp(y) * exp(x))": lambda m, x, y: m.log(m.exp(y) * m.exp(x)),
    "log(y**2 * exp(x))": lambda m, x, y: m.log(y * y * m.exp(x)),
    "log(1 / y**2)": lambda m, x, y: m.log(1 / (y * y)),
    "log(y**-2)": lambda m, x, y: m.log(y**-2),
    "log((y**2)**3)": lambda m, x, y: m.log((y * y) ** 3),
    "y / (y * y)": lambda m, x, y: y / (y * y),
    "1 / (1 / y)": lambda m, x, y: 1 / (1 / y),
}


@pytest.mark.parametrize("name", POWERS)
def test_powers_and_their_logarithms_are_never_less_accurate(name):
    """Errors are a few units in the last place, or at most those of the formula as written."""
    random = np.random.default_rng(0)
    points = random.uniform(-300, 300, (2, 100))
    points[1, ::2] = points[1, ::2] * 1e-3 - points[0, ::2]  # Products near one.
    written = np.array(POWERS[name](np, *points))
    f = jaxprgen.transform(lambda x, y: POWERS[name](jnp, x, y), Inline(), Stabilize())
    with mp.workdps(300):
        true = [POWERS[name](mp, *map(mp.mpf, point)) for point in points.T]
        ours, theirs = (
            np.array([float(abs((v - t) / t)) for v, t in zip(found, true, strict=True)])
            for found in (map(float, f(*points)), map(float, written))
        )
    assert (ours <= np.maximum(1.01 * theirs, 9e-16)).all(), (ours.max(), theirs.max())


@pytest.mark.parametrize("name", POWERS)
def test_powers_of_special_numbers(name):
    """Finite results and NaN stay; only infinity times zero and the like becomes a number."""
    special = np.array([0.0, -0.0, 1.0, -2.0, np.inf, -np.inf, np.nan])
    x, y = (v.ravel() for v in np.meshgrid(special, special))
    with np.errstate(all="ignore"):
        written = POWERS[name](np, x, y)
    f = jaxprgen.transform(lambda x, y: POWERS[name](jnp, x, y), Inline(), Stabilize())
    stays = np.isfinite(written) | ((np.isnan(x) & ("x" in name.replace("exp", ""))) | np.isnan(y))
    np.testing.assert_allclose(np.asarray(f(x, y))[stays], written[stays], rtol=1e-14)
