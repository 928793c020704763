"""Gradients of the log-densities of PyMC's vectors and matrices are those of PyTensor.

So are those of distributions of numbers that mpmath would take minutes for.
They are finite wherever those of its default mode are, and equal where the log-density is finite.
"""

import jax
import numpy as np
import profiles
import pytest

pytest.importorskip("pymc.model")  # Not "pymc", which is also the name of this folder.
pytest.importorskip("mpmath")
pytensor = pytest.importorskip("pytensor")

import pymc as pm  # noqa: E402
import pytensor.tensor as pt  # noqa: E402
from densities import COUNT, LOCATION, OUT, SCALE, SHAPE, UNIT, arguments  # noqa: E402
from pymc.logprob.utils import ParameterValueError  # noqa: E402
from pytensor.compile.mode import Mode  # noqa: E402

import jaxprgen  # noqa: E402

SCALES = ([1.0, 1.0, 1.0], [1e-3, 1.0, 1e3], [1.0, 0.01, 1.0])
ROOTS = [np.diag(d) + lower for d in SCALES for lower in (np.zeros((3, 3)), np.tri(3, k=-1))]
UNIT_ROWS = [r / np.linalg.norm(r, axis=1, keepdims=True) for r in ROOTS]
DIRECTION = [1.0, -0.5, 0.25, 0.0, 1.0, 0.1]
LINE = np.outer(OUT, DIRECTION[:3])
GRID = [np.outer(x, [1.0, -2.0]) for x in LINE]
ADJACENT = np.array([[0, 1, 1], [1, 0, 0], [1, 0, 0]])
POSITIVE = [[1.0, 1.0, 1.0], [0.1, 2.5, 1000.0], [1e-12, 1e-3, 50.0]]
SIMPLEX = [
    *([0.2, 0.3, 0.5], [0.0, 0.0, 1.0], [1.0, 0.0, 0.0], [0.5, 0.5, 0.0]),
    *([1e-30, 1e-12, 1.0], [0.2, 0.3, 0.6], [-0.5, 1.0, 0.5]),
]
TALLY = [[2, 3, 5], [0, 0, 10], [10, 0, 0], [0, 10, 0], [-1, 5, 6], [1, 1, 1]]
AROUND = {"mu": LINE[:5:2], "root": ROOTS}
WEIGHTS = {"w": SIMPLEX[:5]}


def covariance(root):
    return pt.dot(root, root.T)


def start(scale=1.0):
    return pm.Normal.dist(0.0, scale)


CASES = {
    "MvNormal": (lambda mu, r: pm.MvNormal.dist(mu, covariance(r)), AROUND, LINE),
    "MvNormal of chol": (lambda mu, r: pm.MvNormal.dist(mu, chol=r), AROUND, LINE),
    "MvNormal of tau": (lambda mu, r: pm.MvNormal.dist(mu, tau=covariance(r)), AROUND, LINE),
    "MvStudentT": (
        lambda nu, mu, r: pm.MvStudentT.dist(nu, mu=mu, scale=covariance(r)),
        {"nu": SHAPE, **AROUND},
        LINE,
    ),
    "Dirichlet": (pm.Dirichlet.dist, {"a": POSITIVE}, SIMPLEX),
    "Multinomial": (lambda p: pm.Multinomial.dist(10, p), {"p": SIMPLEX}, TALLY),
    "DirichletMultinomial": (
        lambda a: pm.DirichletMultinomial.dist(10, a),
        {"a": POSITIVE[:2]},
        TALLY,
    ),
    "OrderedMultinomial": (
        lambda eta, c: pm.OrderedMultinomial.dist(eta, c, 10),
        {"eta": OUT[:7], "cutpoints": [[-1.0, 1.0], [-9.0, 9.0]]},
        TALLY,
    ),
    "StickBreakingWeights": (
        lambda alpha: pm.StickBreakingWeights.dist(alpha, 2),
        {"alpha": SHAPE},
        SIMPLEX,
    ),
    "Wishart": (
        lambda root: pm.Wishart.dist(4, covariance(root)),
        {"root": ROOTS},
        [r @ r.T for r in ROOTS],
    ),
    "MatrixNormal": (
        lambda mu, r, c: pm.MatrixNormal.dist(mu, rowcov=covariance(r), colchol=c),
        {"mu": GRID[:5:2], "root": ROOTS, "chol": [[[1.0, 0.0], [0.5, 2.0]]]},
        GRID,
    ),
    "KroneckerNormal": (
        lambda mu, r, c, sigma: pm.KroneckerNormal.dist(
            mu, [covariance(r), covariance(c)], sigma=sigma
        ),
        {
            "mu": np.zeros((1, 6)),
            "root": ROOTS[1:4],
            "chol": [[[1.0, 0.0], [0.5, 2.0]]],
            "sigma": (0.0, *SCALE),
        },
        [x.ravel() for x in GRID],
    ),
    "CAR": (
        lambda mu, alpha, tau: pm.CAR.dist(mu, ADJACENT, alpha, tau),
        {"mu": LINE[:5:2], "alpha": (0.0, 0.5, -1 + 1e-12, 1 - 1e-12), "tau": SCALE},
        LINE,
    ),
    "ICAR": (lambda sigma: pm.ICAR.dist(ADJACENT, sigma), {"sigma": SCALE}, LINE),
    "ZeroSumNormal": (
        lambda sigma: pm.ZeroSumNormal.dist(sigma, shape=3),
        {"sigma": SCALE},
        np.outer(OUT, [1.0, -0.5, -0.5]),
    ),
    "GaussianRandomWalk": (
        lambda mu, sigma: pm.GaussianRandomWalk.dist(mu, sigma, init_dist=start(), steps=2),
        {"mu": OUT, "sigma": SCALE},
        LINE,
    ),
    "MvGaussianRandomWalk": (
        lambda mu, c: pm.MvGaussianRandomWalk.dist(
            mu, chol=c, init_dist=pm.MvNormal.dist(np.zeros(2), np.eye(2)), steps=2
        ),
        {"mu": GRID[1][:1], "chol": [[[1.0, 0.0], [0.5, 2.0]]]},
        GRID,
    ),
    "AR": (
        lambda rho, sigma: pm.AR.dist(rho, sigma, init_dist=start(), steps=2, ar_order=1),
        {"rho": [[0.0], [0.9], [1.0], [-40.0]], "sigma": SCALE},
        LINE,
    ),
    "AR of two": (
        lambda rho, sigma: pm.AR.dist(
            rho, sigma, init_dist=start(), steps=2, ar_order=1, constant=True
        ),
        {"rho": [[0.0, 0.0], [40.0, 0.9]], "sigma": SCALE},
        LINE,
    ),
    "GARCH11": (
        lambda w, a, b, v: pm.GARCH11.dist(w, a, b, v, steps=2),
        {"w": SCALE, "a": (0.0, 0.3), "b": (0.0, 0.6), "v": SCALE},
        LINE,
    ),
    "EulerMaruyama": (
        lambda a, b: pm.EulerMaruyama.dist(
            0.1, lambda x, a, b: (-a * x, pt.sqrt(b)), (a, b), init_dist=start(), steps=2
        ),
        {"a": OUT, "b": SCALE},
        LINE,
    ),
    "LKJCorr": (lambda eta: pm.LKJCorr.dist(3, eta), {"eta": SHAPE}, UNIT_ROWS),
    "LKJCholeskyCov": (
        lambda lam: pm.LKJCholeskyCov.dist(
            eta=2.5, n=3, sd_dist=pm.Exponential.dist(lam, shape=3), compute_corr=False
        ),
        {"lam": SCALE},
        np.outer(OUT, DIRECTION),
    ),
    "Mixture": (
        lambda w: pm.Mixture.dist(w, [pm.Dirichlet.dist([0.5 * k, 1.0, 2.0]) for k in (1, 2, 3)]),
        WEIGHTS,
        SIMPLEX,
    ),
    "NormalMixture": (
        lambda w, mu: pm.NormalMixture.dist(w, mu, [1.0, 0.1, 50.0]),
        {**WEIGHTS, "mu": LINE},
        [*OUT],
    ),
    "Interpolated": (
        lambda shift: (
            pm.Interpolated.dist(np.arange(5.0), np.array([0.0, 1.0, 3.0, 1.0, 0.0])) + shift
        ),
        {"shift": OUT},
        OUT,
    ),
}
FREE = {"Dirichlet": 2, "LKJCholeskyCov": 6, "LKJCorr": 3, "StickBreakingWeights": 2}
FREE |= {"Wishart": 6, "ZeroSumNormal": 2}
"""Name -> how many numbers a sampler moves."""
CASES |= {
    f"Transformed {name}": (*CASES[name][:2], np.outer(OUT[:7], DIRECTION[:size]))
    for name, size in FREE.items()
}
"""Name -> a function of parameters, values of each, values of the variable."""
P = (1e-12, 0.3, 1 - 1e-12)
BOUNDED = {
    "Beta": ({"alpha": SHAPE, "beta": SHAPE}, (0.1, 0.9), UNIT),
    "StudentT": ({"nu": SHAPE, "mu": LOCATION, "sigma": SCALE}, (-20.0, 9.0), OUT),
    "Binomial": ({"n": (0, 1, 20, 1000), "p": P}, (1, 9), COUNT),
    "NegativeBinomial": ({"n": SHAPE, "p": (1e-3, 0.3, 0.9)}, (1, 9), COUNT),
}


def bounded(kind, name):
    """Return a function that makes a censored or truncated distribution."""
    parameters, (lower, upper), _ = BOUNDED[name]

    def build(*given):
        inner = getattr(pm, name).dist(**dict(zip(parameters, given, strict=True)))
        return getattr(pm, kind).dist(inner, lower=lower, upper=upper)

    return build


CASES |= {
    f"{kind} {name}": (bounded(kind, name), parameters, values)
    for name, (parameters, _, values) in BOUNDED.items()
    for kind in ("Censored", "Truncated")
}


def graph(name):
    """Return inputs, a log-density, and stacked points."""
    build, parameters, values = CASES[name]
    given = arguments(name, parameters, values)
    inputs = [pt.tensor(k, shape=x.shape[1:], dtype=x.dtype) for k, x in given.items()]
    chosen = build(*inputs[1:])
    if not name.startswith("Transformed"):
        return inputs, pm.logp(chosen, inputs[0]).sum(), given
    with pm.Model() as model:
        model.register_rv(chosen, name="x")
    return [*model.value_vars, *inputs[1:]], model.logp(), given


@pytest.mark.filterwarnings(
    "ignore::jaxprgen.errors.RuntimeCheckWarning",
    "ignore::UserWarning:pymc",
    "ignore::FutureWarning",
)
@pytest.mark.filterwarnings(
    "ignore:overflow", "ignore:divide", "ignore:invalid", "ignore:underflow"
)
@pytest.mark.parametrize("name", profiles.sample(CASES, 4))
def test_gradients_are_finite_and_right_where_those_of_the_default_mode_are(name):
    inputs, density, given = graph(name)
    wrt = [i for i, v in enumerate(inputs) if v.type.dtype.startswith("float")]
    slopes = pytensor.grad(density, [inputs[i] for i in wrt], disconnected_inputs="ignore")
    ways = {
        "jax.grad": jax.jit(jax.grad(jaxprgen.compile(inputs, density), wrt)),
        "the library's gradient": jaxprgen.compile(inputs, slopes),
    }
    default = pytensor.function(
        inputs, [density, *slopes], mode=Mode("py", "fast_run"), on_unused_input="ignore"
    )
    for point in zip(*given.values(), strict=True):
        try:
            value, *expected = default(*point)
        except ParameterValueError:
            continue
        for way, find in ways.items():
            for i, ours, theirs in zip(wrt, find(*point), expected, strict=True):
                text = f"{way}, d/d{inputs[i]}, at {point}"
                assert np.isfinite(ours)[np.isfinite(theirs)].all(), text
                if np.isfinite(value) and np.isfinite(theirs).all():
                    size = 1e-6 * abs(theirs).max() + 1e-12
                    np.testing.assert_allclose(ours, theirs, 1e-6, size, err_msg=text)
