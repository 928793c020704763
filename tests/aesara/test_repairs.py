"""Graphs that Aesara's rewrites repair; see `tests/repairs.py`."""

import importlib.util
import warnings
from pathlib import Path

import aesara
import aesara.tensor as at
import numpy as np
import pytest
import repairs
from aesara.compile.mode import Mode, optdb
from mpmath import mp

DOCS = Path(__file__).parents[2] / "docs"

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # It will move.
    importlib.import_module("aesara.tensor.nnet")


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("repair", repairs.repairs_of("aesara"), ids=lambda each: each.formula)
def test_what_aesara_repairs(repair):
    repairs.check(repair, aesara, at, Mode)


def test_every_rewrite_is_classified(monkeypatch):
    assert not repairs.unclassified(optdb)
    monkeypatch.setattr(repairs, "NO_REPAIRS", {})
    assert "local_useless_fill" in repairs.unclassified(optdb)


def test_the_page_is_what_it_would_be_written_as():
    spec = importlib.util.spec_from_file_location("docs_repairs", DOCS / "repairs.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    assert module.PAGE.read_text("utf-8") == module.page()


def elementwise(function):
    return np.vectorize(lambda x: mp.nan if mp.isnan(x) else function(x), otypes=[object])


UNARY = ("exp", "log1p", "expm1", "sqrt", "erf", "erfc", "tanh", "sinh", "cosh", "sign")
FUNCTIONS = {
    **{name: elementwise(getattr(mp, name)) for name in UNARY},
    **{f"arc{name}": elementwise(getattr(mp, f"a{name}")) for name in ("tanh", "sinh", "cosh")},
    "log": elementwise(lambda x: mp.log(x) if x > 0 else mp.nan),
    "sigmoid": elementwise(lambda x: 1 / (1 + mp.exp(-x))),
    "softmax": lambda x: FUNCTIONS["exp"](x - x.max()) / FUNCTIONS["exp"](x - x.max()).sum(),
    "iv": lambda v, x: elementwise(lambda x: mp.besseli(v, x))(x),
    "kv": lambda v, x: elementwise(lambda x: mp.besselk(v, x))(x),
    "sum": np.sum,
    "prod": np.prod,
    "dot": np.dot,
    "zeros": mp.mpf(0),
    "switch": np.where,
    "gt": np.greater,
    "lt": np.less,
}
BY_CONVENTION = ("nnet", "rows", "x**0.5", "x / x", "(x / y + 1)", "/ (x - ", "x**0)")


@pytest.mark.parametrize("repair", repairs.REPAIRS, ids=lambda each: each.formula)
def test_right_values_are_those_of_mpmath(repair):
    """Derivatives are differences over 1e-350, with 800 digits."""
    formula = repair.formula
    if any(part in formula for part in BY_CONVENTION):
        pytest.skip("0 / 0 is what the rewrite makes of it, or the graph has no such form.")
    with mp.workdps(60 if "v(1" in formula else 800):
        x, y = (
            np.array([mp.mpf(v) for v in values], object)
            for values in (repair.x, repair.y or [1] * len(repair.x))
        )

        def value(formula, x):
            if not formula.startswith("D("):
                return eval(formula, {**FUNCTIONS, "x": x, "y": y})
            steps = np.diag([mp.mpf(10) ** -350] * len(x))
            inner = formula[2:-1]
            ends = ([np.sum(value(inner, x + step * s)) for s in (1, -1)] for step in steps)
            return [(up - down) / (2 * mp.mpf(10) ** -350) for up, down in ends]

        assert repairs.is_close(np.array(value(formula, x), float), repair.right)
        if repair.slope:
            found = np.array(value(f"D({formula})", x), float)
            assert repairs.is_close(found, repair.slope)
