"""Functions of a model: points, data, draws and errors."""

import inspect

import jax
import numpy as np
import pytest

pytest.importorskip("pymc.model")  # Not "pymc", which is also the name of this folder.

import pymc as pm
import pytensor.tensor as pt
import scipy.special
import scipy.stats
from pytensor.compile.mode import Mode

import jaxprgen.pymc
from jaxprgen import _jax
from jaxprgen.errors import ArgumentTypeError, UnknownNameError

PYTHON = Mode("py", "fast_run")
"""The default mode compiles by Numba, for many seconds."""


@pytest.fixture
def model():
    with pm.Model() as made:
        x = pm.Data("x", np.array([0.0, 1.0, 2.0]))
        slope, sigma = pm.Normal("slope"), pm.HalfCauchy("sigma", 1)
        line = pm.Deterministic("line", slope * x)
        pm.Normal("y", line, sigma, observed=[0.1, 0.9, 2.2])
    return made


POINT = {"slope": np.float64(0.7), "sigma_log__": np.float64(-0.2)}


def log_density(x):
    sigma = np.exp(-0.2)
    prior = scipy.stats.norm.logpdf(0.7) + scipy.stats.halfcauchy.logpdf(sigma) - 0.2
    return prior + scipy.stats.norm.logpdf([0.1, 0.9, 2.2], 0.7 * x, sigma).sum()


def test_a_log_density_works_under_transformations(model):
    f = jaxprgen.pymc.logp(model)
    expected = log_density(np.array([0.0, 1.0, 2.0]))
    np.testing.assert_allclose(f(POINT), expected, rtol=1e-8)
    x = np.array([0.0, 1.0, 2.0])
    np.testing.assert_allclose(jax.jit(f)(POINT, {"x": x}), expected, rtol=1e-8)
    points = {name: np.stack([value, value]) for name, value in POINT.items()}
    many = jax.vmap(lambda point: f(point, {"x": x}))(points)
    np.testing.assert_allclose(many, [expected, expected], rtol=1e-8)
    slopes = jax.grad(f)(POINT, {"x": x})
    for name, slope in jaxprgen.pymc.dlogp(model)(POINT).items():
        np.testing.assert_allclose(slopes[name], slope, rtol=1e-12)


def test_data_can_be_set_or_replaced(model):
    f, other = jaxprgen.pymc.logp(model), np.array([1.0, -1.0, 0.5])
    np.testing.assert_allclose(f(POINT, {"x": other}), log_density(other), rtol=1e-8)
    with model:
        pm.set_data({"x": other})
    np.testing.assert_allclose(f(POINT), log_density(other), rtol=1e-8)


def test_terms_are_named(model):
    terms = jaxprgen.pymc.logp(model, sum=False)(POINT)
    assert set(terms) == {"slope", "sigma", "y"}
    np.testing.assert_allclose(sum(np.sum(x) for x in terms.values()), log_density(np.arange(3.0)))


@pytest.mark.filterwarnings("ignore:Not checked")  # Whether the drawn rows are within the data.
def test_a_density_of_drawn_data_takes_a_key():
    y = np.linspace(-1.0, 2.0, 100)
    with pm.Model() as model:
        pm.Normal("y", pm.Normal("mu"), observed=pm.Minibatch(y, batch_size=10), total_size=100)
    f, key, point = jaxprgen.pymc.logp(model), jax.random.key(0), {"mu": np.float64(0.4)}
    values = jax.vmap(f, (0, None))(jax.random.split(key, 1000), point)
    expected = scipy.stats.norm.logpdf(0.4) + scipy.stats.norm.logpdf(y, 0.4).sum()
    assert abs(values.mean() - expected) < 4 * values.std() / 1000**0.5
    slope = jaxprgen.pymc.dlogp(model)(key, point)["mu"]
    np.testing.assert_allclose(jax.grad(f, 1)(key, point)["mu"], slope, rtol=1e-8)


def test_invalid_parameters_give_minus_infinity_if_the_model_checks_them():
    for checks in (True, False):
        with pm.Model(check_bounds=checks) as model:
            pm.Normal("y", 0.0, pm.Normal("mu"), observed=0.0)
        found = jaxprgen.pymc.logp(model)({"mu": -1.0})
        assert np.isneginf(found) == checks


def test_draws_from_the_prior(model):
    f = jaxprgen.pymc.prior(model)
    draws = jax.vmap(f)(jax.random.split(jax.random.key(0), 500))
    assert set(draws) == {"slope", "sigma", "line", "y"}
    np.testing.assert_allclose(draws["line"][:, 1], draws["slope"], rtol=1e-12)
    assert scipy.stats.kstest(np.asarray(draws["slope"]), "norm").pvalue > 1e-3
    assert scipy.stats.kstest(np.asarray(draws["sigma"]), "halfcauchy").pvalue > 1e-3


def test_draws_of_observations(model):
    f = jaxprgen.pymc.posterior_predictive(model, ["y", "line"])
    point = {"slope": 2.0, "sigma": 0.5, "line": None}  # Of which "line" follows.
    keys = jax.random.split(jax.random.key(0), 500)
    draws = jax.vmap(lambda key: f(key, point, {"x": np.array([1.0, 2.0, 3.0])}))(keys)
    np.testing.assert_allclose(draws["line"][0], [2.0, 4.0, 6.0])
    assert scipy.stats.kstest(np.asarray(draws["y"][:, 1] - 4.0) / 0.5, "norm").pvalue > 1e-3


def test_wrong_names(model):
    f = jaxprgen.pymc.logp(model)
    with pytest.raises(UnknownNameError) as lacks:
        f({"slope": 1.0, "sigma": 1.0})
    assert str(lacks.value).splitlines() == [
        "jaxprgen.pymc.logp: The point lacks 'sigma_log__'.",
        "  It takes 'slope', 'sigma_log__'; given are 'slope', 'sigma'.",
    ]
    with pytest.raises(UnknownNameError, match=r"The model has no variable 'slop'\."):
        f({**POINT, "slop": 1.0})
    with pytest.raises(UnknownNameError, match=r"There is no data 'z'\."):
        f(POINT, {"z": 1.0})


def test_a_derivative_where_a_factor_is_zero():
    """A skewness of zero, where PyTensor's rewritten switches have derivatives that are NaN."""
    with pm.Model() as model:
        pm.SkewNormal("y", alpha=pm.Normal("a"), observed=[0.3, -1.0, 2.0])
    f, point = jaxprgen.pymc.logp(model), {"a": np.array(0.0)}
    (wanted,) = jaxprgen.pymc.dlogp(model)(point).values()
    np.testing.assert_allclose(wanted, 1.3 * np.sqrt(2 / np.pi), rtol=1e-7)
    np.testing.assert_allclose(jax.grad(f)(point)["a"], wanted, rtol=1e-10)


def test_derivatives_far_out_in_normal_tails():
    """Of a truncated normal by central differences, of an ex-Gaussian the slope of its tail."""
    y, h = np.array([0.1, 0.2]), 1e-5
    with pm.Model() as truncated:
        pm.TruncatedNormal("y", pm.Flat("mu"), 1.0, lower=0.0, observed=y)
    with pm.Model() as times:
        pm.ExGaussian("y", mu=pm.Flat("mu"), sigma=0.02, nu=0.3, observed=np.array([1.5]))

    def density(mu):
        return (-0.5 * (y - mu) ** 2).sum() - 2 * scipy.special.log_ndtr(mu)

    slope = (density(-9 + h) - density(-9 - h)) / (2 * h)
    for model, mu, wanted in ((truncated, -9.0, slope), (times, 0.3, 1 / 0.3)):
        point = {"mu": np.array(mu)}
        for found in (
            jax.grad(jaxprgen.pymc.logp(model))(point),
            jaxprgen.pymc.dlogp(model)(point),
        ):
            np.testing.assert_allclose(found["mu"], wanted, rtol=1e-5)


def test_one_graph_serves_all_variables_of_a_kind(monkeypatch):
    """It must not mix up their parameters, nor constants that are both values and parameters."""
    from jaxprgen.pymc import density

    made, term = [], density._term
    monkeypatch.setattr(density, "_term", lambda *given: made.append(given) or term(*given))
    with pm.Model() as model:
        mean, scale, x = pm.Normal("mean"), pm.HalfNormal("scale"), 0.0
        for i in range(4):
            x = 0.5 * x + mean * (i + 1)
            pm.Normal(f"y{i}", x, 1.0, observed=float(i))
            pm.Normal(f"z{i}", x, scale, observed=1.0)
    found = jaxprgen.pymc.logp(model, sum=False)({"mean": 0.3, "scale_log__": 0.2})
    assert len(made) == 4
    at = 0.0
    for i in range(4):
        at = 0.5 * at + 0.3 * (i + 1)
        np.testing.assert_allclose(found[f"y{i}"], scipy.stats.norm.logpdf(i, at, 1), rtol=1e-12)
        expected = scipy.stats.norm.logpdf(1.0, at, np.exp(0.2))
        np.testing.assert_allclose(found[f"z{i}"], expected, rtol=1e-12)


def test_graphs_of_plain_models_do_not_grow_faster_than_models():
    """PyMC's own copies all that comes before each variable."""
    from pytensor.graph.traversal import ancestors

    from jaxprgen.pymc.density import density

    sizes = []
    for count in (10, 20, 40):
        with pm.Model() as model:
            x = rho = pm.Normal("rho")
            for i in range(count):
                x = rho * x
                pm.Normal(f"y{i}", x, 1.0, observed=float(i))
        rvs = model.basic_RVs
        sizes.append(len(set(ancestors([density(model, rvs, jacobian=True, sum=True)]))))
    assert sizes[2] - sizes[1] == 2 * (sizes[1] - sizes[0])


@pytest.mark.parametrize(
    "build",
    [
        lambda x: pm.ZeroInflatedPoisson("y", 0.5, pm.math.exp(x), observed=[0, 2]),
        lambda x: pm.TruncatedNormal("y", x, 1.0, lower=np.array([0.0, 0.0]), observed=[0.1, 2.0]),
        lambda x: pm.Mixture("y", [0.5, 0.5], pm.Normal.dist(x, [1.0, 2.0]), observed=0.3),
        lambda x: pm.MvNormal("y", x, np.eye(2), observed=[0.1, 0.2]),
    ],
)
def test_densities_that_look_at_their_parameters(build):
    with pm.Model() as model:
        build(pm.Normal("x"))
    f, point = jaxprgen.pymc.logp(model), {"x": np.float64(0.3)}
    np.testing.assert_allclose(f(point), model.compile_logp(mode=PYTHON)(point), rtol=1e-8)
    slope = model.compile_dlogp(mode=PYTHON)(point)[0]
    np.testing.assert_allclose(jax.grad(f)(point)["x"], slope, rtol=1e-7)


def test_an_op_without_a_rule_is_computed_once_if_constants_decide_it():
    from pytensor.compile.ops import FromFunctionOp

    basis = FromFunctionOp(lambda v: np.vander(v, 3), [pt.dvector], [pt.dmatrix], None)
    with pm.Model() as made:
        w = pm.Normal("w", shape=3)
        pm.Normal("y", basis(pt.constant(np.linspace(0, 1, 4))) @ w, 1.0, observed=np.ones(4))
    point = {"w": np.array([0.3, -0.2, 1.0])}
    wanted = made.compile_logp(mode="FAST_COMPILE")(point)
    np.testing.assert_allclose(jaxprgen.pymc.logp(made)(point), wanted)
    slopes = made.compile_dlogp(mode="FAST_COMPILE")(point)
    np.testing.assert_allclose(jax.grad(jaxprgen.pymc.logp(made))(point)["w"], slopes)


def test_an_op_without_a_rule_is_called_back_on_request_and_its_line_is_named():
    from pytensor.compile.ops import FromFunctionOp

    doubled = FromFunctionOp(lambda v: 2 * v, [pt.dvector], [pt.dvector], lambda *args: args[-1])
    with pm.Model() as made:
        w = pm.Normal("w", shape=3)
        pm.Normal("y", doubled(w), 1.0, observed=np.ones(3))
    point = {"w": np.array([0.3, -0.2, 1.0])}
    with pytest.raises(jaxprgen.errors.UnsupportedOpError) as caught:
        jaxprgen.pymc.logp(made)(point)
    assert "test_functions.py" in str(caught.value).splitlines()[2]
    assert 'pass fallback="callback" to this function' in str(caught.value)
    f = jaxprgen.pymc.logp(made, fallback="callback")
    np.testing.assert_allclose(f(point), made.compile_logp(mode="FAST_COMPILE")(point))
    drawn = jaxprgen.pymc.prior(made, fallback="callback")(jax.random.key(0))
    assert drawn["y"].shape == (3,)
    other = jaxprgen.pymc.posterior_predictive(made, fallback="callback")
    assert other(jax.random.key(0), point)["y"].shape == (3,)


@pytest.mark.filterwarnings("ignore:Setting default_update:DeprecationWarning")  # By PyTensor.
def test_a_density_has_what_compiled_functions_have(model, tmp_path):
    f, wanted = jaxprgen.pymc.logp(model), log_density(np.array([0.0, 1.0, 2.0]))
    names = f.jaxpr(POINT).jaxpr.debug_info.arg_names
    assert [name.split("[")[0] for name in names] == ["slope", "sigma_log__"]
    assert "sigma_log__" in jaxprgen.inspect.pretty(f, POINT)
    assert any("Exp" in node.op for node in f.report(POINT).nodes)
    assert "sigma_log__" in jaxprgen.inspect.html(f, POINT)
    assert "stablehlo" in f.lower(POINT).as_text()
    assert f.export(POINT, vjp_order=1).in_avals
    debugger = jaxprgen.debug(f)
    np.testing.assert_allclose(debugger(POINT), wanted, rtol=1e-8)
    jaxprgen.save(tmp_path / "density.jxg", f, POINT)
    loaded = jaxprgen.load(tmp_path / "density.jxg")
    np.testing.assert_allclose(loaded(*POINT.values()), wanted, rtol=1e-8)
    cloudpickle = pytest.importorskip("cloudpickle")
    copied = cloudpickle.loads(cloudpickle.dumps(f))
    np.testing.assert_allclose(copied(POINT), wanted, rtol=1e-8)


def test_draws_have_what_compiled_functions_have(model):
    f, key = jaxprgen.pymc.posterior_predictive(model), jax.random.key(0)
    point = {"slope": 0.7, "sigma": 0.8}
    assert f.jaxpr(key, point).jaxpr.eqns
    assert f.report(key, point).nodes
    assert jaxprgen.pymc.prior(model).jaxpr(key).jaxpr.eqns


@pytest.mark.parametrize(
    ("use", "said"),
    [
        (lambda model: jaxprgen.pymc.logp(3), "Expected a pymc.Model, got int"),
        (lambda model: jaxprgen.pymc.logp(model)(0.0, 0.0), "by their names, got float"),
        (lambda model: jaxprgen.pymc.logp(model).jaxpr(), "by their names, got nothing"),
        (lambda model: jaxprgen.pymc.logp(model)(POINT, 1.0), "by their names, got float"),
        (lambda model: jaxprgen.pymc.logp(model, ["zz"]), "no variable 'zz'; it has"),
        (lambda model: jaxprgen.pymc.dlogp(model, ["zz"]), "no variable 'zz'; it has"),
        (lambda model: jaxprgen.pymc.prior(model, ["zz"]), "no variable 'zz'; it has"),
        (lambda model: jaxprgen.pymc.posterior_predictive(model, ["zz"]), "no variable 'zz'"),
        (lambda model: jaxprgen.pymc.prior(model)(), "first argument is a key"),
        (lambda model: jaxprgen.pymc.posterior_predictive(model)(POINT), "argument is a key"),
    ],
)
def test_what_is_wrong_is_said_in_terms_of_models(model, use, said):
    with pytest.raises((ArgumentTypeError, UnknownNameError), match=said):
        use(model)


def test_variables_may_be_given_by_name(model):
    whole = jaxprgen.pymc.logp(model, sum=False)(POINT)
    np.testing.assert_allclose(jaxprgen.pymc.logp(model, ["slope"])(POINT), whole["slope"])
    assert set(jaxprgen.pymc.dlogp(model, ["slope"])(POINT)) == {"slope"}


def test_equations_have_the_line_of_the_variable_of_their_term():
    with pm.Model() as made:
        first = inspect.currentframe().f_lineno + 1
        slope = pm.Normal("slope")
        sigma = pm.HalfNormal("sigma", 2)
        pm.StudentT("y", 4, mu=slope, sigma=sigma, observed=np.ones(3))
    program = jaxprgen.pymc.logp(made).jaxpr(made.initial_point())
    found = [(_jax.scope_of(e.source_info), _jax.frame_of(e.source_info)) for e in program.eqns]
    assert {line.line for _, line in found if line} == {first, first + 1, first + 2}
    for name, line in found:
        assert line if name != "__logp" else line is None  # What adds up the terms.


def test_what_data_decide_is_computed_once_for_each_of_their_values():
    rows = np.random.default_rng(0).normal(size=(2000, 10))
    with pm.Model() as made:
        x = pm.Data("x", rows)
        standardized = (x - x.mean(0)) / x.std(0)
        pm.Normal("y", standardized @ pm.Normal("b", shape=10), 1, observed=np.ones(2000))
    f, point = jaxprgen.pymc.logp(made), {"b": np.linspace(-1, 1, 10)}
    assert f.report(point).data_equations > 3
    for factor in (1.0, 2.0):
        data = factor * rows + rows**2
        pm.set_data({"x": data}, model=made)
        mean = (data - data.mean(0)) / data.std(0) @ point["b"]
        wanted = scipy.stats.norm.logpdf(point["b"]).sum() + scipy.stats.norm.logpdf(1 - mean).sum()
        for found in (f(point), f(point, {"x": data}), jax.jit(f)(point, {"x": data})):
            np.testing.assert_allclose(found, wanted, rtol=1e-12)
