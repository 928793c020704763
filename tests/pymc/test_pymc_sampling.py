"""PyMC's samplers on programs of this package."""

import sys

import jax
import numpy as np
import pytest
from subprocesses import python

pytest.importorskip("pymc.model")  # Not "pymc", which is also the name of this folder.

import pymc as pm
import pytensor
import pytensor.tensor as pt
from pytensor.compile.mode import Mode
from pytensor.graph.op import Op

import jaxprgen.pymc
from jaxprgen.errors import GradientWarning, UnsupportedOpError, UnsupportedVersionError
from jaxprgen.pymc.gradients import check_by_jax

samplers = pytest.importorskip("pymc.sampling.jax")


@pytest.fixture
def model():
    with pm.Model() as made:
        pm.Normal("y", pm.Normal("mu"), 1.0, observed=[1.0, 2.0, 3.0])
    return made


def assert_posterior(trace):
    """Normal, with mean 1.5 and standard deviation 0.5."""
    draws = trace.posterior["mu"].values.ravel()
    assert abs(draws.mean() - 1.5) < 0.15
    assert 0.35 < draws.std() < 0.65


def test_what_the_block_replaces_is_restored():
    before = samplers.get_jaxified_graph, pytensor.config.mode
    with pytest.raises(KeyError), jaxprgen.pymc.sampling():
        assert samplers.get_jaxified_graph is not before[0]
        raise KeyError
    assert (samplers.get_jaxified_graph, pytensor.config.mode) == before


def test_an_unknown_version_is_an_error(monkeypatch):
    monkeypatch.delattr(samplers, "get_jaxified_graph")
    with pytest.raises(UnsupportedVersionError) as error, jaxprgen.pymc.sampling():
        pass
    assert str(error.value).startswith(
        f"pymc {pm.__version__} has no pymc.sampling.jax.get_jaxified_graph, which"
    )


def test_a_model_becomes_one_program(model):
    with jaxprgen.pymc.sampling():
        f = samplers.get_jaxified_logp(model)
    found = f([np.float64(0.3)])
    np.testing.assert_allclose(found, model.compile_logp(mode="FAST_COMPILE")({"mu": 0.3}))


@pytest.fixture
def kinked():
    """A model whose log-density is finite everywhere, and its gradient by JAX nowhere."""
    with pm.Model() as made:
        mu = pm.Normal("mu")
        pm.Potential("kink", pytensor.tensor.sqrt(abs(mu - mu)))
        pm.Normal("y", mu, 1.0, observed=[1.0, 2.0, 3.0])
    return made


def test_a_gradient_that_samplers_cannot_use_is_named(kinked):
    with jaxprgen.pymc.sampling(), pytest.warns(GradientWarning) as caught:
        samplers.get_jaxified_logp(kinked)
    (warning,) = caught
    first, term, place, *advice = str(warning.message).splitlines()
    assert first.startswith(
        "The gradient of the log-density with respect to 'mu' is not finite at a point where the "
    )
    assert term == "  The term is that of 'kink'."
    assert place.startswith("  It arises in ") and __file__ in place
    assert len(advice) == 2


def test_usable_gradients_are_not_warned_of(model):
    """Warnings are errors here."""
    with jaxprgen.pymc.sampling():
        samplers.get_jaxified_logp(model)
        model.logp_dlogp_function(ravel_inputs=True)
        model.logp_dlogp_function(ravel_inputs=False, tempered=True)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_parameters_that_a_check_refuses_have_no_density():
    with pm.Model() as refusing:
        sigma = pm.Normal("sigma")
        pm.Normal("y", 0, sigma, observed=[0.3, 1.0])

    def evaluated():
        function = refusing.logp_dlogp_function(ravel_inputs=True)
        function.set_extra_values({})
        return [function(np.array([x])) for x in (1.0, -1.0)]

    theirs = evaluated()
    with jaxprgen.pymc.sampling():
        ours = evaluated()
    assert ours[1][0] == -np.inf
    jax.tree.map(lambda x, y: np.testing.assert_allclose(x, y, rtol=1e-12), ours, theirs)


class Doubled(Op):
    """An Op without a rule, which knows its gradient."""

    itypes = (pt.dscalar,)
    otypes = (pt.dscalar,)

    def perform(self, node, inputs, outputs):
        outputs[0][0] = np.asarray(2.0 * inputs[0])

    def pullback(self, inputs, outputs, slopes):
        return [2.0 * slopes[0]]

    def grad(self, inputs, slopes):
        return [2.0 * slopes[0]]


def test_parts_without_a_rule_run_as_callbacks():
    with pm.Model() as model:
        mu = pm.Normal("mu")
        pm.CustomDist(
            "y",
            Doubled()(mu),
            logp=lambda y, mu: pm.logp(pm.Normal.dist(mu, 1.0), y),
            random=lambda mu, rng, size: rng.normal(mu, size=size),
            observed=[1.0, 2.0],
        )

    def sampled():
        return pm.sample(draws=20, tune=20, chains=1, progressbar=False, random_seed=1)

    with model:
        with jaxprgen.pymc.sampling(), pytest.raises(UnsupportedOpError, match="fallback="):
            model.compile_logp()
        with jaxprgen.pymc.sampling(fallback="callback"):
            trace = sampled()
            drawn = pm.sample_posterior_predictive(trace, progressbar=False)
    assert np.isfinite(trace["posterior"]["mu"].values).all()
    y = drawn["posterior_predictive"]["y"].values
    assert y.shape == (1, 20, 2) and len(np.unique(y)) == y.size


def test_models_whose_data_are_drawn_are_not_checked():
    with pm.Model() as drawn:
        rows = pm.Minibatch(np.arange(10.0), batch_size=4)
        pm.Normal("y", pm.Normal("mu"), 1.0, observed=rows, total_size=10)
    check_by_jax(drawn)


@pytest.mark.deep
@pytest.mark.filterwarnings("ignore")
def test_numpyro(model):
    pytest.importorskip("numpyro")
    with model, jaxprgen.pymc.sampling():
        trace = pm.sample(
            500,
            tune=500,
            chains=2,
            nuts_sampler="numpyro",
            random_seed=1,
            progressbar=False,
            nuts_sampler_kwargs={"chain_method": "vectorized"},
        )
    assert_posterior(trace)


@pytest.mark.deep
@pytest.mark.filterwarnings("ignore")
def test_blackjax_by_pymc(model):
    """PyMC 6.4 calls BlackJAX in a way that later versions do not take."""
    blackjax = pytest.importorskip("blackjax")
    options = {"chain_method": "vectorized"}
    newest = tuple(map(int, blackjax.__version__.split(".")[:2]))
    with model, jaxprgen.pymc.sampling():
        try:
            trace = pm.sample(
                500,
                tune=500,
                chains=2,
                nuts_sampler="blackjax",
                random_seed=1,
                progressbar=False,
                nuts_sampler_kwargs=options,
            )
        except TypeError as error:
            assert "progress_bar" in str(error) and newest >= (1, 6)
            pytest.skip("This PyMC does not know this BlackJAX.")
    assert_posterior(trace)


@pytest.mark.deep
@pytest.mark.filterwarnings("ignore")
def test_blackjax_on_a_log_density(model):
    blackjax = pytest.importorskip("blackjax")
    f = jaxprgen.pymc.logp(model)
    warming, sampling = jax.random.split(jax.random.key(1))
    warmup = blackjax.window_adaptation(blackjax.nuts, f)
    (state, parameters), _ = warmup.run(warming, model.initial_point(), 500)
    step = blackjax.nuts(f, **parameters).step

    def advance(state, key):
        state, _ = step(key, state)
        return state, state.position["mu"]

    _, draws = jax.lax.scan(advance, state, jax.random.split(sampling, 1000))
    assert abs(draws.mean() - 1.5) < 0.15
    assert 0.35 < draws.std() < 0.65


@pytest.mark.deep
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("gradient", ["pytensor", "jax"])
def test_nutpie(model, gradient):
    nutpie = pytest.importorskip("nutpie")
    with jaxprgen.pymc.sampling():
        made = nutpie.compile_pymc_model(model, backend="jax", gradient_backend=gradient)
    assert_posterior(nutpie.sample(made, draws=500, tune=500, chains=2, seed=1, progress_bar=False))


@pytest.mark.filterwarnings("ignore")
def test_what_an_approximation_learned_can_be_sampled_in_other_modes(model):
    options = {"compile_kwargs": {"mode": "JAXPR"}, "progressbar": False, "random_seed": 1}
    with model:
        found = pm.fit(20, **options).sample(10)
    assert np.isfinite(found.posterior["mu"].values).all()


@pytest.mark.deep
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", ["advi", "smc", "predictive"])
def test_other_methods_take_the_mode(model, name):
    options = {"compile_kwargs": {"mode": "JAXPR"}, "progressbar": False, "random_seed": 1}
    with model:
        if name == "advi":
            assert_posterior(
                pm.fit(4000, obj_optimizer=pm.adam(learning_rate=0.01), **options).sample(500)
            )
        elif name == "smc":
            assert_posterior(pm.sample_smc(500, chains=2, cores=1, **options))
        else:
            del options["progressbar"]
            prior = pm.sample_prior_predictive(300, **options)
            assert abs(prior.prior["mu"].values.std() - 1) < 0.2
            found = pm.sample_posterior_predictive(prior["prior"].dataset, **options)
            residuals = found["posterior_predictive"]["y"] - prior["prior"]["mu"]
            assert abs(residuals.values.std() - 1) < 0.1


# --- Posteriors of models whose gradients were NaN ------------------------------------------


def guarded_regression():
    """Return a model with a logarithm of negative numbers in a branch, and its posterior."""
    x, y = np.array([-1, -0.5, 0.5, 2, 3, 5]), np.array([0.1, -0.2, -0.9, 1.2, 2.3, 3.1])
    with pm.Model() as made:
        b = pm.Normal("b")
        mu = pytensor.tensor.switch(x > 0, b * pytensor.tensor.log(x), 0.0)
        pm.Normal("y", mu, 1, observed=y)
    logs, y = np.log(x[x > 0]), y[x > 0]
    precision = 1 + logs @ logs
    return made, "b", logs @ y / precision, precision**-0.5


def response_times():
    """Return a model of response times with an unknown scale, and its posterior by quadrature."""
    rng = np.random.default_rng(3)
    times = rng.normal(0.3, 0.02, 40) + rng.exponential(0.3, 40)
    with pm.Model() as made:
        pm.ExGaussian("y", mu=0.3, sigma=pm.HalfNormal("s", 0.1), nu=0.3, observed=times)
    grid, f = np.linspace(-8, -1, 501), jax.jit(jaxprgen.pymc.logp(made))
    weights = np.array([f({"s_log__": point}) for point in grid])
    weights = np.exp(weights - weights.max())
    weights /= weights.sum()
    mean = weights @ np.exp(grid)
    return made, "s", mean, np.sqrt(weights @ np.exp(2 * grid) - mean**2)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("build", [guarded_regression, response_times])
def test_gradients_are_those_of_pymc(build):
    made, *_ = build()
    (v,) = made.value_vars
    theirs = made.compile_dlogp(mode=Mode("py", "fast_run"))
    by_jax, ours = jax.grad(jaxprgen.pymc.logp(made)), jaxprgen.pymc.dlogp(made)
    for value in (-7.0, -4.0, -1.0, 0.0, 1.0):
        point = {v.name: np.array(value)}
        for found in (by_jax(point)[v.name], ours(point)[v.name]):
            np.testing.assert_allclose(found, theirs(point)[0], rtol=1e-6)


@pytest.mark.deep
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("sampler", ["pymc", "nutpie", "numpyro"])
@pytest.mark.parametrize("build", [guarded_regression, response_times])
def test_posteriors_of_guarded_models(build, sampler):
    pytest.importorskip(sampler)
    made, name, mean, deviation = build()
    options = {"nutpie": {"backend": "jax"}, "numpyro": {"chain_method": "vectorized"}}
    with made, jaxprgen.pymc.sampling():
        trace = pm.sample(
            1000,
            tune=1000,
            chains=2,
            cores=1,
            nuts_sampler=sampler,
            nuts_sampler_kwargs=options.get(sampler),
            random_seed=1,
            progressbar=False,
            compute_convergence_checks=False,
        )
    draws = trace.posterior[name].values
    assert abs(draws.mean() - mean) < 5 * deviation / np.sqrt(200)
    assert 0.8 < draws.std() / deviation < 1.25


_NUTPIE = """
import sys
import pymc.sampling.jax
import jaxprgen.pymc
before = list(sys.meta_path)
with jaxprgen.pymc.sampling():
    assert "nutpie" not in sys.modules
    import nutpie.compile_pymc as models
    inside = models._make_functions
assert models._make_functions is not inside and sys.meta_path == before
with jaxprgen.pymc.sampling():
    assert models._make_functions.__module__ == "jaxprgen.pymc.sampling"
with jaxprgen.pymc.sampling():
    pass
assert models._make_functions.__module__ == "nutpie.compile_pymc" and sys.meta_path == before
"""


@pytest.mark.deep
def test_nutpie_is_not_imported_unless_the_block_does():
    pytest.importorskip("nutpie")
    python("-c", _NUTPIE)


def test_a_module_of_the_name_is_not_imported_unless_the_block_does(tmp_path, monkeypatch):
    """As in a quick run nutpie itself would take longest to import."""
    (tmp_path / "nutpie").mkdir()
    (tmp_path / "nutpie" / "__init__.py").touch()
    (tmp_path / "nutpie" / "compile_pymc.py").write_text("def _make_functions(): pass")
    for name in [name for name in sys.modules if name.partition(".")[0] == "nutpie"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.syspath_prepend(str(tmp_path))
    exec(_NUTPIE, {})
    for name in [name for name in sys.modules if name.partition(".")[0] == "nutpie"]:
        del sys.modules[name]
