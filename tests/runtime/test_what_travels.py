"""If data is split by rows, devices exchange parameters and borders, but not the data."""

import json
import re

import aesara
import aesara.tensor as at
import jax
import numpy as np
import pytest
from aeppl import joint_logprob
from jax.sharding import AxisType, NamedSharding, PartitionSpec as P
from laws import equations
from profiles import sample

import jaxprgen
from jaxprgen.runtime.collectives import collectives_in

pytestmark = [
    pytest.mark.compiles,
    pytest.mark.filterwarnings("ignore::jaxprgen.errors.RuntimeCheckWarning"),
]
ROWS = 8192
SHARD = ROWS // 8
MESH = jax.make_mesh((8,), ("data",), axis_types=(AxisType.Auto,))
KEY = jax.ShapeDtypeStruct((), jax.random.key(0).dtype)


def split(*shape, axis=0, dtype=float):
    """The type of an array that is split along an axis."""
    return _placed(shape, P(*[None] * axis, "data"), dtype)


def whole(*shape, dtype=float):
    """The type of an array of which each device has a copy."""
    return _placed(shape, P(), dtype)


def _placed(shape, spec, dtype):
    return jax.ShapeDtypeStruct(shape, dtype, sharding=NamedSharding(MESH, spec))


def logistic_regression(rows=ROWS, columns=50):
    X, (y, beta) = at.dmatrix("X"), at.dvectors("y", "beta")
    eta = X @ beta
    log_density = (y * eta - at.softplus(eta)).sum() - 0.5 * (beta**2).sum()
    types = split(rows, columns), split(rows), whole(columns)
    return [X, y, beta], log_density, beta, types


def by_hand(X, y, beta):
    eta = X @ beta
    return (y * eta - jax.nn.softplus(eta)).sum() - 0.5 * (beta**2).sum()


def kinds(collectives):
    return sorted(c.kind for c in collectives)


@pytest.mark.parametrize("way", ["graph", "jax"])
def test_logistic_regression_sums_what_has_the_size_of_its_parameters(way):
    """As many sums as JAX's own program makes: XLA combines them, where it has that pass."""
    inputs, log_density, beta, types = logistic_regression()
    hand = jax.jit(jax.value_and_grad(by_hand, argnums=2)).lower(*types).compile()
    expected = collectives_in(hand.as_text(), dict(MESH.shape))
    if way == "graph":
        outputs = [log_density, aesara.grad(log_density, beta)]
        report = jaxprgen.compile(inputs, outputs).report(*types)
        found, temporary = report.collectives, report.temporary_bytes
    else:
        f = jax.value_and_grad(jaxprgen.compile(inputs, log_density), argnums=2)
        compiled = jax.jit(f).lower(*types).compile()
        found = collectives_in(compiled.as_text(), dict(MESH.shape))
        temporary = compiled.memory_analysis().temp_size_in_bytes
    assert kinds(found) == kinds(expected)
    assert set(kinds(found)) == {"all-reduce"}
    assert sum(c.nbytes for c in found) == 8 * (50 + 1)
    # Each device's part, and a tenth of it.
    assert temporary <= 0.1 * SHARD * (50 + 1) * 8


def test_the_number_of_rows_does_not_matter():
    def collectives(rows):
        inputs, log_density, beta, types = logistic_regression(rows, 3)
        f = jaxprgen.compile(inputs, [log_density, aesara.grad(log_density, beta)])
        return sorted((c.kind, c.nbytes, c.along) for c in f.report(*types).collectives)

    assert collectives(64) == collectives(ROWS)


def test_a_report_names_the_variables_and_their_lines():
    inputs, log_density, beta, types = logistic_regression(64, 3)
    report = jaxprgen.compile(inputs, [log_density, aesara.grad(log_density, beta)]).report(*types)
    causes = [cause for c in report.collectives for cause in c.causes]
    assert {cause.name for cause in causes} <= {node.name for node in report.nodes}
    lines = {node.line for node in report.nodes if node.equations}
    assert len(causes) == 2 and {cause.line for cause in causes} <= lines
    head, first = re.findall("between devices.*\n.*", str(report))[0].splitlines()
    assert head.split()[2:] == ["bytes", "along", "name", "line"]
    assert first.split()[:3] == ["all-reduce", str(report.collectives[0].nbytes), "data=8"]
    plain = json.loads(json.dumps(report.as_dict()))
    assert plain["collectives"][0]["causes"][0]["line"].endswith(causes[0].line)


def test_what_needs_no_other_device_says_so():
    x = at.dvector("x")
    report = jaxprgen.compile([x], at.exp(x)).report(split(ROWS))
    assert report.collectives == ()
    assert "Between devices: nothing" in str(report)


def test_on_one_device_nothing_is_said():
    x = at.dvector("x")
    report = jaxprgen.compile([x], at.exp(x).sum()).report(np.ones(8))
    assert report.collectives is None
    assert "devices" not in str(report)


def test_the_program_is_that_of_whole_arguments():
    """So passes treat its loops alike: here, they take the sum over series out of the loop."""
    outputs = [(smoothed(X) ** 2).sum(), aesara.grad((smoothed(X) ** 2).sum(), b)]
    f = jaxprgen.compile([X, b], outputs)
    ours, plain = (f.jaxpr(x, whole()) for x in (split(20, 64, axis=1), np.ones((20, 64))))
    assert str(ours) == str(plain)
    names = equations(f, np.ones((20, 64)), 0.5)
    assert names[::-1].index("reduce_sum") < names[::-1].index("scan")


# --- Models -------------------------------------------------------------------------------

x, y, w = at.dvectors("x", "y", "w")
X, V = at.dmatrices("X", "V")
b = at.dscalar("b")
groups, n = at.lvector("groups"), at.lscalar("n")
mask = at.bvector("mask")
draws = at.random.RandomStream(1)


classes = draws.categorical(X, name="classes")
class_density, (observed_classes,) = joint_logprob(classes)


def likelihood(eta):
    return -((y - eta) ** 2).sum()


def smoothed(series):
    """Each column smoothed on its own, by a loop over rows."""
    first = at.zeros(series.shape[1])
    states, _ = aesara.scan(
        lambda row, state, b: at.tanh(b * state + row),
        sequences=series,
        outputs_info=first,
        non_sequences=b,
    )
    return states


def gaussian_process(z):
    covariance = at.exp(-((z[:, None] - z[None]) ** 2)) + b * at.eye(z.shape[0])
    root = at.slinalg.cholesky(covariance)
    return at.slinalg.solve_triangular(root, z, lower=True).sum() + at.log(at.diag(root)).sum()


def scaled(rows, covariance):
    """Rows divided by a Cholesky factor, of which the inverse is small."""
    root = at.slinalg.cholesky(covariance)
    inverse = at.slinalg.solve_triangular(root, at.eye(covariance.shape[0]), lower=True)
    return rows @ inverse.T


SUM = {"all-reduce"}
HALO = {"collective-permute"}
ROW, TABLE = split(ROWS), split(ROWS, 4)
MODELS = {  # A function, what to differentiate it with respect to, its inputs, what it exchanges.
    "of one parameter for each group": (
        likelihood(w[groups] + b * x) - (w**2).sum(),
        [w, b],
        {y: ROW, x: ROW, groups: split(ROWS, dtype=int), w: whole(85), b: whole()},
        SUM,
    ),
    "of several parameters for each group": (
        likelihood((V[groups] * X).sum(axis=1)),
        [V],
        {y: ROW, X: TABLE, groups: split(ROWS, dtype=int), V: whole(85, 4)},
        SUM,
    ),
    "of an effect for each row": (likelihood(b * x), [x, b], {y: ROW, x: ROW, b: whole()}, SUM),
    "of sums over groups": (
        at.inc_subtensor(at.zeros(85)[groups], x),
        [],
        {x: ROW, groups: split(ROWS, dtype=int)},
        SUM,
    ),
    "of differences": (((x[1:] - b * x[:-1]) ** 2).sum(), [b, x], {x: ROW, b: whole()}, SUM | HALO),
    "of a convolution": (
        ((w[0] * x[2:] + w[1] * x[1:-1] + w[2] * x[:-2]) ** 2).sum(),
        [w],
        {x: ROW, w: whole(3)},
        SUM | HALO,
    ),
    "of a softmax": (
        (at.special.softmax(X @ V, axis=1) ** 2).sum(),
        [V],
        {X: TABLE, V: whole(4, 3)},
        SUM,
    ),
    "of a mixture": (
        at.logsumexp(w - (x[:, None] - w) ** 2, axis=1).sum(),
        [w],
        {x: ROW, w: whole(3)},
        SUM,
    ),
    "of sums along rows": ((at.cumsum(b * X, axis=1) ** 2).sum(), [b], {X: TABLE, b: whole()}, SUM),
    "of masked rows": (
        at.switch(mask, (y - b * x) ** 2, 0.0).sum(),
        [b],
        {mask: split(ROWS, dtype=np.int8), y: ROW, x: ROW, b: whole()},
        SUM,
    ),
    "of missing rows": (
        at.switch(at.isnan(x), 0.0, (x - b) ** 2).sum(),
        [b],
        {x: ROW, b: whole()},
        SUM,
    ),
    "of standardized columns": ((X - X.mean(axis=0)) / X.std(axis=0), [], {X: TABLE}, SUM),
    "of an added column": (
        likelihood(at.concatenate([at.ones((X.shape[0], 1)), X], axis=1) @ w),
        [w],
        {y: ROW, X: TABLE, w: whole(5)},
        SUM,
    ),
    "of columns": (likelihood(b * X[:, 1] - X[:, 0]), [b], {y: ROW, X: TABLE, b: whole()}, SUM),
    "of flat rows": (
        (b * X.flatten()).sum() + (b * y.reshape((-1, 4))).sum(),
        [b],
        {X: TABLE, y: ROW, b: whole()},
        SUM,
    ),
    "of products": (X.T @ X, [], {X: TABLE}, SUM),
    "of largest elements": (at.stack([x.max(), x.min(), x.prod()]), [], {x: ROW}, SUM),
    "of classes": (
        at.log(at.special.softmax(X @ V, axis=1))[at.arange(groups.shape[0]), groups].sum(),
        [V],
        {X: TABLE, groups: split(ROWS, dtype=int), V: whole(4, 3)},
        SUM,
    ),
    "of random classes, by aeppl": (
        class_density,
        [],
        {X: TABLE, observed_classes: split(ROWS, dtype=int)},
        SUM,
    ),
    "of indicators": (
        (at.extra_ops.to_one_hot(groups, 3) * w).sum(),
        [w],
        {groups: split(ROWS, dtype=int), w: whole(3)},
        SUM,
    ),
    "of observed rows": (
        ((x[x > 0] - b) ** 2).sum(),
        [b],
        {x: ROW, b: whole()},
        SUM | {"all-gather"},  # Of the number of the first one, by which `argmax` is found.
    ),
    "of one row": (X[n] * b, [], {X: TABLE, n: whole(dtype=int), b: whole()}, SUM),
    "of some rows": (X[[5, 900, -1]] * b, [], {X: TABLE, b: whole()}, SUM),
    "of one changed row": (
        at.inc_subtensor(x[n], b),
        [],
        {x: ROW, n: whole(dtype=int), b: whole()},
        SUM,
    ),
    "of all rows but one": (
        at.stack([at.inc_subtensor(x[1:], b), at.set_subtensor(x[:-1], x[1:] * b)]),
        [],
        {x: ROW, b: whole()},
        HALO,
    ),
    "of many series": ((smoothed(X) ** 2).sum(), [b], {X: split(4, ROWS, axis=1), b: whole()}, SUM),
    "of a Gaussian process": (
        gaussian_process(w) * likelihood(b * x),
        [w],
        {y: ROW, x: ROW, w: whole(30), b: whole()},
        SUM,
    ),
    "of multivariate normals": (
        (scaled(X - w, V) ** 2).sum(),
        [w, V],
        {X: TABLE, w: whole(4), V: whole(4, 4)},
        SUM,
    ),
    "of noise": (draws.normal(b * x, 1.0), [], {x: ROW, b: whole()}, set()),
    "of as much noise": (x + b * draws.uniform(size=x.shape), [], {x: ROW, b: whole()}, set()),
    "of random classes": (draws.categorical(X), [], {X: TABLE}, set()),
    "of noise by rejection": (draws.gamma(x, b), [], {x: ROW, b: whole()}, SUM),
}


@pytest.mark.parametrize("name", sample(MODELS, 16))
def test_no_device_gets_the_rows_of_another(name):
    function, parameters, types, expected = MODELS[name]
    outputs = [function, *aesara.grad(function, parameters)] if parameters else function
    f = jaxprgen.compile([*types], outputs)
    key = [KEY] * len(f.__signature__.parameters.keys() - {v.name for v in types})
    text = f.lower(*key, *types.values()).compile().as_text()
    found = collectives_in(text, dict(MESH.shape))
    assert {c.kind for c in found} == expected
    assert all(c.along == "data=8" for c in found)
    parts = [t.dtype.itemsize * SHARD for t in types.values() if "data" in t.sharding.spec]
    assert all(c.nbytes < min(parts) for c in found)
    assert not any(c.per_step for c in found) or name == "of noise by rejection"
    assert not re.search(rf"[\[,]{ROWS}[,\]]", text), "a device has all rows of some array"
