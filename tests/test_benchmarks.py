"""The page of benchmarks is made of records. These tests check no times."""

import json
from pathlib import Path

import pytest

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
    by_hand = {"first": 2.0, "stages": STAGES, "equations": 250, "megabytes": 5.0}
    ours = {"plan": 0.05, "emission": 0.1, "passes": 0.05, **STAGES}
    found = {
        "chain.by_hand.0": by_hand,
        "chain.jaxprgen.0": {**by_hand, "first": 1.0, "stages": ours, "equations": 200},
        "chain.jaxprgen.1": {**by_hand, "first": 1.5, "stages": ours, "equations": 200},
        "chain.aesara.0": {"error": "TypeError: no such thing"},
        "chain.pytensor.0": {"limit": 120.0},
        "chain.calls.0": {
            "calls": {
                "JAX": {
                    "by hand": {"wall": 20, "cpu": 10, "thread": 10},
                    "jaxprgen": {"wall": 20, "cpu": 13, "thread": 12},
                    "bare": {"wall": 10, "cpu": 9, "thread": 9},
                }
            },
            "above bare": 3,
        },
        "machine": {
            "processor": "an abacus",
            "cores": 1,
            "Python": "3",
            "versions": {"jax": "1"},
        },
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


def test_figures_are_ratios_with_budgets(compare, folder):
    figures, _, records = compare
    found = {figure.text: figure for figure in figures.figures(records.Records(folder))}
    called = found["a call: ours ÷ by hand"]
    assert called.values == {"chain": 1.3} and not called.holds(1.3) and called.holds(1.05)
    assert found["a call: µs above the bare program"].values == {"chain": 3}
    # (0.1 + 0.05) / 1.25
    emission = found["emission and passes ÷ all to the first number"]
    assert emission.values == pytest.approx({"chain": 0.12}) and not emission.holds(0.12)
    assert found["equations: ours ÷ by hand"].values == {"chain": 0.8}
    # (0.05 + 0.1 + 0.05 + 0.5) / (0.25 + 1), and with 0.25 more.
    waits = [found[f"all before {what} ÷ lowering and XLA by hand"] for what in ("lowering", "XLA")]
    assert [wait.values for wait in waits] == [pytest.approx({"chain": x}) for x in (0.56, 0.76)]
    assert "a call: ours ÷ NumPyro's" not in found  # It was not measured.


def test_a_page_reports_failures(compare, folder):
    _, page, _ = compare
    lines = page.write(folder, None).splitlines()
    assert "| equations: ours ÷ by hand | ≤ 1 | 0.80 (chain) |  | yes |" in lines
    assert "| a call: ours ÷ by hand | ≤ 1.05 | 1.30 (chain) |  | no |" in lines
    ratios = next(line for line in lines if line.startswith("| chain of 200"))
    cells = [cell.strip() for cell in ratios.split("|")[2:6]]
    assert cells == ["1.60", "raises", "> 120 s", ""]  # By hand, Aesara, PyTensor, NumPyro.
    assert "Aesara: raises `TypeError: no such thing`" in lines
    assert "PyTensor: > 120 s" in lines
    assert any("an abacus, 1 cores" in line for line in lines)
    assert any("A figure is the median of 2 " in line for line in lines)


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

    systems = ["jaxprgen", "numpyro", "numba", "c", "jaxprgen pytensor"]
    found = {name: [c.system for c in cells([name], systems)] for name in ("chain", "radon")}
    assert found == {"chain": ["jaxprgen", "calls"], "radon": [*systems, "calls"]}


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
