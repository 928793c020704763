"""Write the page of benchmarks and its plot."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from compare.figures import NAMES, WHOLE, Figure, calls_in_turn, digits, figures, without_xla
from compare.records import Records
from compare.systems import BESIDE_PYTENSOR
from compare.workloads import WORKLOADS

OTHERS = [name for name in NAMES if name != "jaxprgen"]
BY_JAX = [name for name in OTHERS if name not in BESIDE_PYTENSOR]
HEAD = """# Benchmarks

This page compares systems from a graph to its first number and in later calls: jaxprgen, the JAX
modes of Aesara and PyTensor with their default rewriting, `jax.numpy` written by hand, and NumPyro.
For two models it also shows jaxprgen with PyTensor's graph, and PyTensor's Numba and C modes,
whose compilation counts as rewriting. `make bench` runs everything and writes this page. `python
benchmarks/bench.py --only chain,radon` runs a part.

{machine}

- Each workload and system runs in processes of its own, which have imported everything and run a
  small JAX program before. A figure is the median of {repeats} processes; a process that takes long
  or fails runs once.
- All results agree with those by hand to eight digits, random draws by their quartiles.
- Calls take JAX arrays and wait for the result. Their time is processor time of all threads;
  differences in microseconds are processor time of the calling thread. Functions that are compared
  are called in turn, in one process.
- Equations of inner programs count; calls of functions do not.
"""


def write(folder: Path, docs: Path | None) -> str:
    """Return the page; write it and its plot into the folder ``docs``, if given."""
    records = Records(folder)
    sections = [
        HEAD.format(machine=_machine(records), repeats=records.repeats),
        "![From graphs to numbers, and the cost of a node](benchmarks.svg)\n",
        "## Budgets\n\nThe budgets of this project, with the worst and the best workload.\n\n"
        + _goals(figures(records)),
        "## Ratios\n\nThe time of each system over that of jaxprgen; in the last three columns, "
        "jaxprgen over handwritten JAX.\n\n" + _ratios(records),
        "## Times and sizes\n\n" + TIMES,
        *(_workload(records, name) for name in WORKLOADS if records.systems(name)),
        *_sampling(records),
    ]
    text = "\n".join(sections)
    if docs is not None:
        from compare.plot import plot

        (docs / "benchmarks.md").write_text(text)
        plot(records, docs / "benchmarks.svg")
    return text


TIMES = """The stages are in milliseconds, calls in microseconds. StableHLO and the memory that XLA
requests are in kilobytes. The memory of the process is the growth of its peak until the first
number, in megabytes.

*Rewriting* is everything that Aesara and PyTensor do before they write the Python function that
JAX traces; *to Python* writes it. *Emission* ends when the passes receive the program. The first
number also includes the first run, which has no column.
"""


def _machine(records: Records) -> str:
    machine = records.machine
    versions = [f"{name} {v}" for name, v in machine["versions"].items()]
    return (
        f"Measured on {machine['processor']}, {machine['cores']} cores, with Python "
        f"{machine['Python']}, {', '.join(versions)}."
    )


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Write a table whose first column is text."""
    lines = [head, ["---"] + ["---:"] * (len(head) - 1), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def _goals(found: Sequence[Figure]) -> str:
    head = "figure", "budget", "worst", "best", "holds"
    return table(head, [_goal(figure) for figure in found])


def _goal(figure: Figure) -> list[str]:
    ordered = sorted(figure.values.items(), key=lambda item: item[1], reverse=figure.at_most)
    worst, best = (f"{digits(value)} ({name})" for name, value in (ordered[0], ordered[-1]))
    held = sum(map(figure.holds, figure.values.values()))
    every = len(figure.values)
    return [
        figure.text,
        f"{'≤' if figure.at_most else '≥'} {figure.goal:g}",
        worst,
        best if every > 1 else "",
        f"{'yes' if held == every else 'no'}, {held} of {every}"
        if every > 1
        else "yes"
        if held
        else "no",
    ]


def _ratios(records: Records) -> str:
    head = [
        "workload",
        *(f"first number, {NAMES[s]}" for s in OTHERS),
        *(f"… without XLA, {NAMES[s]}" for s in BY_JAX),
        "our call",
        "… by jax.grad",
        "our equations",
    ]
    return table(head, [_ratio(records, name) for name in WHOLE if records.systems(name)])


def _ratio(records: Records, name: str) -> list[str]:
    ours, by_hand = records.get(name, "jaxprgen"), records.get(name, "by hand")

    def over(system: str, quantity: Any) -> str:
        other = records.get(name, system)
        if ours and other:
            return digits(quantity(other) / quantity(ours))
        failure = records.failure(name, system)
        return failure if failure.startswith(">") else "raises" if failure else ""

    calls = calls_in_turn(records, name)
    ways = [calls.get(way) for way in ("jaxprgen", "jax.grad")]
    called = [way["cpu"] / calls["by hand"]["cpu"] if way else None for way in ways]
    sizes = ours["equations"] / by_hand["equations"] if ours and by_hand else None
    return [
        WORKLOADS[name].title,
        *(over(system, lambda r: r["first"]) for system in OTHERS),
        *(over(system, without_xla) for system in BY_JAX),
        *("" if x is None else digits(x) for x in (*called, sizes)),
    ]


def _workload(records: Records, name: str) -> str:
    systems = [s for s in NAMES if s in records.systems(name)]
    found = {s: record for s in systems if (record := records.get(name, s))}
    columns = [c for c in COLUMNS if any(_cell(r, c) for r in found.values())]
    rows = [[NAMES[s], *(_cell(r, c) for c in columns)] for s, r in found.items()]
    failures = [f"{NAMES[s]}: {_failure(records, name, s)}\n" for s in systems if s not in found]
    text = f"<details><summary>{WORKLOADS[name].title}</summary>\n\n" + table(["", *columns], rows)
    return "\n".join([text, *failures, "</details>\n"])


def _sampling(records: Records) -> list[str]:
    """Return the section on `pymc.sample`, if it was measured."""
    found = records.sampling
    if not found:
        return []
    head = ["", "seconds", "largest R-hat", "standard errors between means"]
    text = (
        '## Sampling with PyMC\n\n`pm.sample(nuts_sampler="numpyro")` as a whole: a radon model '
        "with an LKJ prior, two chains of 500 draws after 500 steps of tuning, one process each, "
        "with `jaxprgen.pymc.sampling()` and without it.\n\n"
    )
    if "error" in found:
        return [f"{text}Not measured: {found['error']}\n"]
    ours, theirs = found["ours"], found["theirs"]
    both = zip(ours["mean"], theirs["mean"], ours["error"], theirs["error"], strict=True)
    apart = max(abs(a - b) / (e**2 + f**2) ** 0.5 for a, b, e, f in both)
    rows = [
        [name, digits(record["seconds"]), f"{max(record['rhat']):.3f}", shown]
        for name, record, shown in (("jaxprgen", ours, digits(apart)), ("PyMC", theirs, ""))
    ]
    return [text + table(head, rows)]


def _failure(records: Records, name: str, system: str) -> str:
    failure = records.failure(name, system)
    return failure if failure.startswith(">") else f"raises `{failure.replace('`', '')}`"


COLUMNS = {
    "first number": ("first", 1e3),
    "rewriting": ("stages.rewriting", 1e3),
    "to Python": ("stages.to Python", 1e3),
    "plan": ("stages.plan", 1e3),
    "emission": ("stages.emission", 1e3),
    "passes": ("stages.passes", 1e3),
    "tracing": ("stages.tracing", 1e3),
    "lowering": ("stages.lowering", 1e3),
    "XLA": ("stages.XLA", 1e3),
    "again: plan": ("again.plan", 1e3),
    "… emission": ("again.emission", 1e3),
    "… passes": ("again.passes", 1e3),
    "call, JAX arrays": ("calls.JAX.cpu", 1),
    "… wall time": ("calls.JAX.wall", 1),
    "call, NumPy arrays": ("calls.NumPy.cpu", 1),
    "equations": ("equations", 1),
    "StableHLO": ("StableHLO", 1e-3),
    "memory, XLA": ("bytes", 1e-3),
    "memory, process": ("megabytes", 1),
}
"""For each column, the path of its figure in records, and the factor to its unit."""


def _cell(record: dict[str, Any], column: str) -> str:
    path, factor = COLUMNS[column]
    value: Any = record
    for key in path.split("."):
        value = value.get(key) if isinstance(value, dict) else None
    if value is None:
        return ""
    return f"{value:,.0f}" if column == "equations" else digits(factor * value)
