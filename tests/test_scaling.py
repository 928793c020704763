"""Devices that get as many rows each do the same, however many there are."""

import functools
import importlib
import sys
from pathlib import Path

import jax
import pytest
from jax.sharding import AxisType

ROOT = Path(__file__).parents[1]
# Every group is one of those that there are.
pytestmark = pytest.mark.filterwarnings("ignore::jaxprgen.errors.RuntimeCheckWarning")

MODELS = ["logistic_regression", "hierarchical_regression", "autoregression"]


@pytest.fixture
def scaling(monkeypatch):
    monkeypatch.setattr(sys, "path", [*sys.path, str(ROOT / "benchmarks")])
    return importlib.import_module("scaling")


@functools.cache
def found(scaling, name, devices):
    model = getattr(scaling, name)()
    mesh = jax.make_mesh((devices,), ("rows",), (AxisType.Auto,), devices=jax.devices()[:devices])
    return scaling.figures(model, scaling.compiled(model, mesh)[0])


def assert_alike(few, many):
    assert few.pop("flops") == pytest.approx(many.pop("flops"), rel=1e-3)
    assert few == many


@pytest.mark.compiles
def test_a_logistic_regression_of_a_million_rows(scaling):
    figures = found(scaling, "logistic_regression", 8)
    assert 8 * scaling.ROWS == 10**6
    assert {kind for kind, _ in figures["exchanged"]} == {"all-reduce"}
    assert sum(nbytes for _, nbytes in figures["exchanged"]) == 8 * (scaling.COLUMNS + 1)
    assert figures["memory"] < 1.1 * figures["rows"]


@pytest.mark.compiles
@pytest.mark.parametrize("name", MODELS)
def test_a_device_does_not_notice_how_many_there_are(scaling, name):
    assert_alike(dict(found(scaling, name, 2)), dict(found(scaling, name, 8)))


@pytest.mark.deep
def test_nor_do_hundreds_of_devices_and_several_processes(scaling):
    alone = scaling.measured([], 2)
    others = scaling.measured([], 512), scaling.measured([scaling.HOSTS / "launch.py", 2], 1)
    for other in others:
        for few, many in zip(alone, other, strict=True):
            assert_alike(dict(few), many)
