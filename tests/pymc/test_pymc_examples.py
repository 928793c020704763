"""The examples with PyMC: densities by SciPy, and posteriors as published or integrated."""

import importlib
import importlib.metadata
import re
import sys
from pathlib import Path

import numpy as np
import pytest
from scipy import special, stats

pytest.importorskip("pymc.model")  # Not "pymc", which is also the name of this folder.
pytest.importorskip("arviz")

import jaxprgen.pymc

# The default mode of the oldest PyTensor imports a Numba that uses what NumPy deprecates.
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")
ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "examples" / "from_pymc"
NAMES = "radon", "coal", "nile"


@pytest.fixture
def example(monkeypatch):
    """A function that imports an example by its name."""
    monkeypatch.syspath_prepend(str(FOLDER))
    return importlib.import_module


def terms_of(model, point):
    point = {**model.initial_point(), **point}
    return jaxprgen.pymc.logp(model, sum=False)(point)


def flow_density(flow, noise, step):
    """The log-density of a random walk measured with noise, by its covariance matrix."""
    years = np.arange(len(flow))
    cov = 1e7 + step**2 * np.minimum(years[:, None], years) + noise**2 * np.eye(len(flow))
    return stats.multivariate_normal.logpdf(flow, np.zeros(len(flow)), cov)


def test_the_likelihood_of_radon(example):
    radon = example("radon")
    county, floor, measured = radon.load()
    assert (measured.size, county.max() + 1, floor.sum()) == (919, 85, 153)
    z = np.random.default_rng(0).normal(size=(85, 2))
    point = {"mean": np.array([1.4, -0.6]), "z": z, "sigma_log__": -0.2}
    effects = point["mean"] + z  # The covariance matrix starts as the identity.
    mu = effects[county, 0] + effects[county, 1] * floor
    model = radon.build()
    packed = {"covariance_cholesky-cov-packed__": np.zeros(3)}  # With logarithms on the diagonal.
    found = terms_of(model, {**point, **packed})["radon"]
    wanted = stats.norm.logpdf(measured, mu, np.exp(-0.2))
    np.testing.assert_allclose(np.sum(found), wanted.sum(), rtol=1e-8)


def test_the_likelihood_of_coal(example):
    """The process is that of the spectral density of a Matérn kernel, which is computed here."""
    coal = example("coal")
    years, counts = coal.load()
    coefficients = np.random.default_rng(0).normal(size=coal.FUNCTIONS)
    point = {
        "level": 0.3,
        "amplitude_log__": 0.1,
        "years_alike_log__": 3.0,
        "change_hsgp_coeffs": coefficients,
    }
    half, nu = 1.5 * np.ptp(years) / 2, 2.5
    frequencies = np.arange(1, coal.FUNCTIONS + 1) * np.pi / (2 * half)
    x = years - years.mean()
    basis = np.sin(frequencies * (x[:, None] + half)) / np.sqrt(half)
    scale = 2 * nu / np.exp(3.0) ** 2
    factor = 2 * np.sqrt(np.pi) * special.gamma(nu + 0.5) / special.gamma(nu)
    spectrum = np.exp(0.2) * factor * scale**nu * (scale + frequencies**2) ** -(nu + 0.5)
    rate = np.exp(0.3 + basis @ (np.sqrt(spectrum) * coefficients))
    try:
        model = coal.build()
    except AttributeError as error:  # The oldest PyTensor compiles a constant with Numba.
        pytest.skip(f"Its Numba does not work on this NumPy: {error}")
    found = terms_of(model, point)["accidents"]
    np.testing.assert_allclose(found, stats.poisson.logpmf(counts, rate), rtol=1e-8)


def test_the_likelihood_of_the_nile(example):
    nile = example("nile")
    found = terms_of(nile.build(), {"noise_log__": np.log(120.0), "step_log__": np.log(40.0)})
    wanted = flow_density(nile.load(), 120.0, 40.0)
    np.testing.assert_allclose(np.sum(found["flow"]), wanted, rtol=1e-8)


ROW = re.compile(r"^(\w+(?:\[\w+\])?) +(-?[\d.]+) +([\d.]+) ", re.MULTILINE)
"""The name, the mean and the deviation of a variable in a table."""


def table_of(text):
    return {name: (float(mean), float(sd)) for name, mean, sd in ROW.findall(text)}


def shown(name):
    """The table of an example on the page."""
    page = (ROOT / "docs" / "pymc.md").read_text("utf-8")
    block = re.search(rf"^\$ python examples/from_pymc/{name}\.py.*?^```", page, re.M | re.S)
    return table_of(block[0])


def published(name, example):
    """Means, and how far from them the means of the draws may be."""
    if name == "radon":  # By lmer: the modes of skew densities for deviations.
        fitted = {"mean[intercept]": (1.46, 0.05), "mean[slope]": (-0.68, 0.05)}
        fitted |= {"covariance_stds[0]": (0.35, 0.04), "covariance_stds[1]": (0.34, 0.14)}
        return {**fitted, "correlation": (-0.34, 0.3), "sigma": (0.75, 0.02)}
    if name == "coal":
        return {"rate_until_1889": (3.1, 0.2), "rate_from_1890": (0.9, 0.15)}
    return integrated(example("nile"))


def integrated(nile):
    """The posterior means of the deviations, on a grid, and a tenth of their deviations."""
    flow, noises, steps = nile.load(), np.linspace(60, 190, 40), np.linspace(2, 150, 50)
    prior = stats.halfnorm(scale=nile.SCALE)
    logs = np.array(
        [
            [flow_density(flow, a, b) + prior.logpdf(a) + prior.logpdf(b) for b in steps]
            for a in noises
        ]
    )
    weights = np.exp(logs - logs.max())
    weights /= weights.sum()
    found = {}
    for name, values, mass in (("noise", noises, weights.sum(1)), ("step", steps, weights.sum(0))):
        mean = mass @ values
        found[name] = mean, np.sqrt(mass @ (values - mean) ** 2) / 10
    return found


@pytest.mark.deep
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", NAMES)
def test_a_posterior_is_as_published_and_as_on_the_page(
    name, example, monkeypatch, tmp_path, capsys
):
    pytest.importorskip("numpyro")
    pytest.importorskip("matplotlib").use("agg")
    file = tmp_path / "trace.png"
    monkeypatch.setattr(sys, "argv", [f"{name}.py", "--plot", str(file)])
    module = example(name)
    example("report").main(module.sampled, module.NAMES)
    assert file.read_bytes().startswith(b"\x89PNG")
    found, page = table_of(capsys.readouterr().out), shown(name)
    assert found.keys() == page.keys() and len(found) >= len(module.NAMES)
    for variable, (mean, sd) in page.items():
        assert abs(found[variable][0] - mean) < sd / 4, variable
    for variable, (mean, within) in published(name, example).items():
        assert abs(found[variable][0] - mean) < within, variable


def test_no_script_hides_a_package_that_others_look_for():
    """The folder of a script comes first: xarray would take a sparse.py for the package sparse."""
    scripts = {
        path.stem for name in ("benchmarks", "examples") for path in (ROOT / name).rglob("*.py")
    }
    found = (x for each in importlib.metadata.distributions() for x in each.requires or ())
    wanted = {re.split(r"[^\w.-]", x)[0].lower().replace("-", "_") for x in found}
    assert "sparse" in wanted
    assert scripts & wanted == set()
