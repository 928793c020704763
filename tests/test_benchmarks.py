"""The page of benchmarks is made of records. These tests check no times."""

import json
import re
from pathlib import Path

import numpy as np
import pytest
import scipy.stats

ROOT = Path(__file__).parents[1]
STAGES = {"tracing": 0.5, "lowering": 0.25, "XLA": 1.0}


@pytest.fixture
def compare(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    from compare import figures, page, records

    return figures, page, records


@pytest.fixture
def folder(tmp_path):
    """Records of a chain: two of jaxprgen, one by hand, an error, and one that took too long."""
    by_hand = {
        "first": 2.0,
        "stages": STAGES,
        "equations": 250,
        "megabytes": 5.0,
        "device": "beads",
    }
    ours = {
        **by_hand,
        "stages": {"plan": 0.05, "emission": 0.1, "passes": 0.05, **STAGES, "XLA": 0.5},
        "equations": 200,
        "in turn": {
            "by hand": {"wall": 20, "cpu": 10, "thread": 10},
            "jaxprgen": {"wall": 26, "cpu": 13, "thread": 12},
            "bare": {"wall": 10, "cpu": 9, "thread": 9},
            "above bare": 3,
        },
    }
    found = {
        "chain.by_hand.0": by_hand,
        "chain.by_hand.1": {**by_hand, "first": 3.0},
        "chain.jaxprgen.0": {**ours, "first": 1.0},
        "chain.jaxprgen.1": {**ours, "first": 1.5},
        "chain.aesara.0": {"error": "TypeError: no such thing"},
        "chain.pytensor.0": {"limit": 120.0},
        "machine": {"processor": "an abacus", "cores": 1, "Python": "3", "versions": {"jax": "1"}},
    }
    for name, record in found.items():
        (tmp_path / f"{name}.json").write_text(json.dumps(record))
    return tmp_path


def test_a_figure_is_the_median_of_repeats(compare, folder):
    _, _, records = compare
    found = records.Records(folder)
    assert found.repeats == 2
    assert found.get("chain", "jaxprgen")["first"] == 1.25
    assert found.get("chain", "aesara") is None
    assert found.failure("chain", "pytensor") == "> 120 s"


def test_an_interval_holds_the_mean_of_19_in_20_samples(compare):
    _, _, records = compare
    rng = np.random.default_rng(0)
    samples = np.exp(rng.normal(1.0, 0.2, size=(2_000, 3)))
    found = [records.estimate(list(x)) for x in samples]
    outside = [np.e < x.low or np.e > x.high for x in found]
    # The number of misses is binomial, with p = 0.05.
    assert abs(np.mean(outside) - 0.05) < 4 * np.sqrt(0.05 * 0.95 / 2_000)


def test_an_interval_agrees_with_scipy(compare):
    _, _, records = compare
    values = [-1.0, 2.0, 4.0]  # Differences need not be positive.
    found = records.estimate(values)
    mean, error = np.mean(values), scipy.stats.sem(values)
    assert found[1:] == pytest.approx(scipy.stats.t.interval(0.95, 2, mean, error))
    assert found.value == 2
    assert np.isnan(records.estimate([3.0])[1:]).all()  # One process has no interval.


def test_a_ratio_pairs_the_processes_of_a_round(compare, folder):
    figures, _, records = compare
    pair = ["chain", ["by hand", "jaxprgen"], figures.ratio(figures.first)]
    found = records.Records(folder).estimate(*pair)
    assert found == pytest.approx((2, 2, 2))  # 2 / 1 and 3 / 1.5, in each round the same.
    (folder / "chain.by_hand.1.json").unlink()
    assert records.Records(folder).estimate(*pair).value == 2


def test_figures_are_ratios_with_goals(compare, folder):
    figures, _, records = compare
    found = {figure.text: figure for figure in figures.figures(records.Records(folder))}
    values = {text: figure.values["chain"].value for text, figure in found.items()}
    called = found["a call: ours ÷ by hand"]
    assert called.values["chain"].value == 1.3 and not called.holds(1.3) and called.holds(1.05)
    assert values["a call: µs above the bare program"] == 3
    # The median of 0.15 / 1.0 and 0.15 / 1.5
    assert values["emission and passes ÷ all to the first number"] == pytest.approx(0.125)
    assert values["equations: ours ÷ by hand"] == 0.8
    # (0.05 + 0.1 + 0.05 + 0.5) / (0.25 + 1)
    wait = values["all before lowering ÷ lowering and XLA by hand"]
    assert wait == pytest.approx(0.56)


def test_a_page_reports_failures(compare, folder):
    _, page, _ = compare
    lines = page.write(folder, None).splitlines()
    assert "| equations: ours ÷ by hand | ≤ 1 | 0.80, chain |  | yes |" in lines
    assert "| a call: ours ÷ by hand | ≤ 1.05 | 1.30, chain |  | no |" in lines
    assert any(line.startswith("- *a call: ours ÷ by hand* (chain): ") for line in lines)
    ratios = next(line for line in lines if line.startswith("| chain of 200"))
    cells = [cell.strip() for cell in ratios.split("|")[3:7]]
    assert cells == ["2.00", "raises", "> 120 s", ""]  # The last is NumPyro.
    assert "Aesara: raises `TypeError: no such thing`" in lines
    assert "PyTensor: > 120 s" in lines
    assert any("an abacus, 1 cores" in line and "JAX ran on: beads" in line for line in lines)
    assert any("runs in 2 processes of its own (6 in all)" in line for line in lines)


def test_a_larger_model_is_left_out_if_it_would_take_a_minute(compare, folder):
    from bench import expected
    from compare.process import Cell

    _, page, _ = compare
    large = Cell("steps-1000", "by hand")
    known = {Cell(f"steps-{n}", "by hand"): (n / 100) ** 2 for n in (30, 100, 300)}
    assert expected(large, known) == pytest.approx(100)
    assert expected(Cell("steps-1000", "aesara"), known) == 0
    assert expected(large, {**known, Cell("steps-301", "by hand"): float("inf")}) > 1e9
    for cell, first in known.items():
        path = folder / f"{cell.record}.0.json"
        path.write_text(json.dumps({"first": first, "stages": STAGES, "megabytes": 1.0}))
    assert "| expected in a minute, steps | 800 |" in page.write(folder, None)  # 100 * 60**0.5


def test_a_page_has_the_plots_of_what_was_measured(compare, folder, tmp_path):
    pytest.importorskip("matplotlib")
    _, page, _ = compare
    docs = tmp_path / "docs"
    docs.mkdir()

    def plots():
        links = re.findall(r"\((benchmarks/.*\.svg)\)", page.write(folder, docs))
        assert all((docs / link).exists() for link in links)
        return links

    assert plots() == ["benchmarks/first.svg"]
    run = {"seconds": 2.0, "effective": 500.0, "mean": 4.4, "error": 0.1}
    calls = {name: {"wall": 20.0} for name in ("by hand", "jaxprgen")}
    found = {
        "nuts-schools.numpyro": {"chains": 4, "cold": run, "warm": run},
        "rows.jaxprgen": {str(10**n): calls for n in range(2, 6)},
        **{f"steps-{n}.jaxprgen": {"first": 0.01 * n} for n in (30, 100)},
    }
    for name, record in found.items():
        (folder / f"{name}.0.json").write_text(json.dumps(record))
    assert plots() == [f"benchmarks/{name}.svg" for name in ("first", "draws", "size", "rows")]


def test_a_page_compares_sampling_if_it_was_measured(compare, folder):
    _, page, _ = compare
    assert "## Sampling with PyMC" not in page.write(folder, None)
    ours = {"seconds": 12.3, "mean": [1.0, 2.0], "error": [0.03, 0.1], "rhat": [1.0, 1.0123]}
    theirs = {"seconds": 45.0, "mean": [1.1, 2.0], "error": [0.04, 0.1], "rhat": [1.0, 1.0]}
    (folder / "sampling.json").write_text(json.dumps({"ours": ours, "theirs": theirs}))
    lines = page.write(folder, None).splitlines()
    assert "| jaxprgen | 12.3 | 1.012 | 2.00 |" in lines  # 0.1 / hypot(0.03, 0.04)
    assert "| PyMC | 45.0 | 1.000 |  |" in lines
    (folder / "sampling.json").write_text(json.dumps({"error": "PyMC is not installed."}))
    assert "Not measured: PyMC is not installed." in page.write(folder, None)


def test_some_systems_are_measured_on_some_workloads_only(compare):
    from bench import cells

    chosen = ["jaxprgen", "numpyro", "jaxprgen pytensor", "numba", "c"]
    names = "chain", "radon", "nuts-radon", "rows", "steps-100"
    found = {name: [c.system for c in cells([name], chosen)] for name in names}
    assert found == {
        "chain": chosen[:1],
        "radon": chosen,
        "nuts-radon": chosen[:2],
        "rows": chosen[:1],
        "steps-100": chosen[:1],
    }


def test_a_call_counts_as_what_it_calls(compare):
    import jax
    import jax.numpy as jnp
    from compare.measure import count

    def step(c, x):
        return c + x, jnp.where(c > x, c, x)

    loop = jax.jit(lambda x: jax.lax.scan(step, jnp.ones(()), x))
    program = jax.make_jaxpr(lambda x: loop(x))(jnp.ones(3))
    assert [e.primitive.name for e in program.jaxpr.eqns] in (["jit"], ["pjit"])
    assert count(program) == 4  # The loop; add, greater, select.
