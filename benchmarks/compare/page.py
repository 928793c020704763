"""Write the page of benchmarks and its plots."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from compare import nuts, rows
from compare.figures import (
    NAMES,
    WHOLE,
    Figure,
    called,
    digits,
    equations,
    figures,
    first,
    ratio,
    without_xla,
)
from compare.plot import effective, largest, plot, sizes
from compare.records import Estimate, Records
from compare.systems import BESIDE_PYTENSOR, GROWING
from compare.workloads import STEPS, WORKLOADS

BY_JAX = [name for name in NAMES if name not in ("jaxprgen", *BESIDE_PYTENSOR)]
FOLDER = "benchmarks"
HEAD = """# Benchmarks

How long does a modeller wait for the first number, for a draw, and for a model that grows? This
page compares jaxprgen with the JAX modes of Aesara and PyTensor, with `jax.numpy` written by hand,
and with NumPyro. `make bench` measures its figures in {minutes:.0f} minutes and writes it.

{machine}
"""
METHOD = """## How it is measured

- Each workload and system runs in {repeats} processes of its own ({processes} in all), which have
  imported everything and run a small JAX program before. No process reads the cache of
  another. Four cases run in one process only: systems that fail, those that take more than 5 s to
  the first number, PyTensor's Numba and C modes, and models that grow.
- A figure is the median over processes. The brackets hold a 95 % interval for the mean of the
  logarithms, by Student's distribution. Ratios compare processes of the same round. There is no
  interval for one process, or where both ends round to the same number.
- All results agree with the results by hand to eight digits. Random draws are compared by their
  quartiles.
- Calls take JAX arrays and wait for the result. Times are wall times unless a column says
  otherwise. Ratios of calls come from one process that calls both in turn. The last tables time the
  calls of each system in separate processes, so their quotients differ from these ratios.
- *Above the bare program* is a call of ours minus a call of `jax.jit` on our jaxpr, in processor
  time of the calling thread. It leaves out programs that keep this thread busy for 200 µs or more.
- Aesara and PyTensor rewrite graphs as they do by default. PyTensor's C mode compiles while it
  rewrites, its Numba mode in the first run.
- Counts of equations include inner programs, but not the calls to them.
- Eight schools has Rubin's data (1981). The data of all other models are synthetic; those of radon
  have the size of the original: 919 houses in 85 counties.

`python benchmarks/bench.py --only chain,radon` measures a part, and `--sampling` adds `pm.sample`.
"""
SAMPLERS = """NUTS draws from two models in {chains} chains of 1,000 draws, after 500 steps that
adapt the step size and a diagonal mass matrix. BlackJAX takes a log-density: one that jaxprgen
compiled from Aesara's graph, or one by hand. NumPyro samples its own model. *Effective draws*
are the smallest bulk effective sample size of any parameter (Vehtari and others, 2021). The last
column gives the posterior mean, with its Monte Carlo standard error, of `mu` in schools and of the
mean intercept in radon.
"""
SIZES = """The model is an autoregression that a Python loop writes out, with its gradient. jaxprgen
finds the repetition and gives XLA one step; the others give it all steps. Sizes go up to {largest}
steps; one is skipped if it is expected to take more than a minute. The dotted lines and the last
row extrapolate from the two largest measured sizes; trust one digit.
"""
ROWS = """The model is a logistic regression of 30 columns, with its gradient.
"""


def write(folder: Path, docs: Path | None) -> str:
    """Return the page; write it and its plots into the folder ``docs``, if given."""
    records = Records(folder)
    pictures = _pictures(records)
    sections = [
        HEAD.format(machine=_machine(records), minutes=records.seconds / 60),
        *pictures.values(),
        *_goals(figures(records)),
        RATIOS + _ratios(records),
        *_sampling(records),
        METHOD.format(repeats=records.repeats, processes=records.processes),
        "## All times and sizes\n\n" + TIMES,
        *(_workload(records, name) for name in WORKLOADS if records.systems(name)),
    ]
    text = "\n".join(sections)
    if docs is not None:
        (docs / "benchmarks.md").write_text(text)
        plot(records, docs / FOLDER, pictures)
    return text


def _pictures(records: Records) -> dict[str, str]:
    """Return the sections of the plots of what was measured, each with its table if it has one."""
    found = {}

    def add(name: str, title: str, alt: str, *text: str) -> None:
        found[name] = "\n".join([f"## {title}\n\n![{alt}]({FOLDER}/{name}.svg)\n", *text])

    if any(map(records.systems, WHOLE)):
        title, alt = "Time to the first number", "Seconds to the first number, by workload"
        add("first", title, alt, "[The table of ratios](#ratios) explains the names.\n")
    if any(records.get(f"nuts-{model}", s) for model in nuts.MODELS for s in nuts.SYSTEMS):
        title, alt = "Time for an effective draw", "Milliseconds for an effective draw, by model"
        add("draws", title, alt, SAMPLERS.format(chains=f"{_chains(records):,}"), _draws(records))
    growing = {s: sizes(records, s) for s in GROWING}
    known = {s: seconds for s, seconds in growing.items() if len(seconds) > 1}
    if known:
        title = "Size of a model that compiles in a minute"
        lines = [
            ["largest measured, steps", *(f"{max(x):,}" for x in known.values())],
            ["expected in a minute, steps", *(f"{_rounded(largest(x)):,}" for x in known.values())],
        ]
        text = (
            SIZES.format(largest=f"{max(STEPS):,}"),
            table(["", *(NAMES[s] for s in known)], lines),
        )
        add("size", title, "Seconds to the first number against the number of steps", *text)
    if records.get("rows", *rows.SYSTEMS):
        title, alt = "A call as data grows", "Microseconds for a call against rows of data"
        row = ["a call, ours ÷ by hand", *(_shown(rows.ratio(records, n)) for n in rows.ROWS)]
        add("rows", title, alt, ROWS, table(["rows", *(f"{n:,}" for n in rows.ROWS)], [row]))
    return found


def _chains(records: Records) -> int:
    found = (records.get(f"nuts-{m}", s) for m in nuts.MODELS for s in nuts.SYSTEMS)
    return next((int(record["chains"]) for record in found if record), 0)


def _draws(records: Records) -> str:
    head = ["model, sampler", "ms for an effective draw", "… with compilation", "effective draws"]
    head += ["seconds", "mean of the first parameter"]
    lines = []
    for model in nuts.MODELS:
        for system in nuts.SYSTEMS:
            workload = f"nuts-{model}"
            record = records.get(workload, system)
            if record is None:
                continue
            runs = [records.estimate(workload, [system], effective(r)) for r in ("warm", "cold")]
            warm = record["warm"]
            lines.append(
                [
                    f"{model}, {nuts.TITLES[system]}",
                    *map(_shown, runs),
                    f"{warm['effective']:,.0f}",
                    digits(warm["seconds"]),
                    f"{warm['mean']:.3f} ± {warm['error']:.3f}",
                ]
            )
    return table(head, lines)


def _shown(x: Estimate | None) -> str:
    """Write an estimate with its interval, if it has one that is wider than a digit."""
    if x is None:
        return ""
    low, high = digits(x.low), digits(x.high)
    return digits(x.value) + ("" if low == high else f" ({low}–{high})")


def _rounded(value: float) -> int:
    """Round to one digit, as the power law is no better."""
    return int(float(f"{value:.0e}"))


RATIOS = """## Ratios

Each time is divided by jaxprgen's time, so jaxprgen is faster where the ratio is above 1. The last
three columns of the first table divide jaxprgen by JAX written by hand: there, below 1 is better.
*… by jax.grad* differentiates our compiled value by JAX, inside of `jax.jit`. *Raises* means that
the system fails.

"""
TIMES = """First numbers and stages are in milliseconds, calls in microseconds. StableHLO and
the memory that XLA requests are in kilobytes. The memory of the process is the growth of its peak
until the first number, in megabytes.

*Rewriting* is everything that Aesara and PyTensor do before they write the Python function that
JAX traces; *to Python* writes it. *Emission* ends when the passes receive the program. The first
number also includes the first run, which has no column.
"""


def _machine(records: Records) -> str:
    machine = records.machine
    versions = [f"{name} {v}" for name, v in machine["versions"].items()]
    return (
        f"Measured on {machine['processor']}, {machine['cores']} cores, with Python "
        f"{machine['Python']}, {', '.join(versions)}. JAX ran on: {', '.join(records.devices)}."
    )


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Write a table whose first column is text."""
    lines = [head, ["---"] + ["---:"] * (len(head) - 1), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def _goals(found: Sequence[Figure]) -> list[str]:
    if not found:
        return []
    head = "figure", "goal", "worst", "best", "met"
    missed: dict[str, list[str]] = {}
    for figure in found:
        names = [n for n, x in figure.values.items() if not figure.holds(x.value)]
        if names:
            missed.setdefault(figure.reason, []).append(f"*{figure.text}* ({', '.join(names)})")
    reasons = [f"- {'; '.join(texts)}: {reason}\n" for reason, texts in missed.items()]
    return [
        "## Goals\n\n"
        "Each row shows a goal of this project with its worst and its best workload.\n\n"
        + table(head, [_goal(figure) for figure in found]),
        *(["Reasons for missed goals:\n\n" + "".join(reasons)] if reasons else []),
    ]


def _goal(figure: Figure) -> list[str]:
    values = figure.values
    ordered = sorted(values, key=lambda name: values[name].value, reverse=figure.at_most)
    worst, best = (f"{_shown(values[name])}, {name}" for name in (ordered[0], ordered[-1]))
    held = sum(figure.holds(x.value) for x in values.values())
    every = len(values)
    answer = "yes" if held == every else "no"
    return [
        figure.text,
        f"{'≤' if figure.at_most else '≥'} {figure.goal:g}",
        worst,
        best if every > 1 else "",
        f"{answer}, {held} of {every}" if every > 1 else answer,
    ]


def _ratios(records: Records) -> str:
    """Return tables of first numbers and calls, of the time without XLA, and beside PyTensor."""
    names = [name for name in WHOLE if records.systems(name)]
    head = ["workload", "in plots", *(f"first number, {NAMES[s]}" for s in BY_JAX)]
    head += ["our call", "… by jax.grad", "our equations"]
    parts = [table(head, [_ratio(records, name) for name in names])]
    for systems, quantity, text in (
        (BY_JAX, without_xla, "The first number without the time of XLA:"),
        (
            BESIDE_PYTENSOR,
            first,
            "The first number of other ways to run PyTensor's graph:",
        ),
    ):
        measured = [n for n in names if not set(systems).isdisjoint(records.systems(n))]
        lines = [[n, *(_over(records, n, s, quantity) for s in systems)] for n in measured]
        if lines:
            parts.append(f"{text}\n\n{table(['', *(NAMES[s] for s in systems)], lines)}")
    return "\n".join(parts)


def _over(records: Records, name: str, system: str, quantity: Any) -> str:
    """Write a quantity of a system over that of jaxprgen."""
    found = records.estimate(name, [system, "jaxprgen"], ratio(quantity))
    if found:
        return _shown(found)
    failure = records.failure(name, system)
    return failure if failure.startswith(">") else "raises" if failure else ""


def _ratio(records: Records, name: str) -> list[str]:
    sized = records.estimate(name, ["jaxprgen", "by hand"], ratio(equations))
    ways = ("jaxprgen", "jax.grad")
    return [
        WORKLOADS[name].title,
        name,
        *(_over(records, name, system, first) for system in BY_JAX),
        *(_shown(records.estimate(name, ["jaxprgen"], called(way))) for way in ways),
        digits(sized.value) if sized else "",  # Each process has the same program.
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
    "call, JAX arrays": ("calls.JAX.wall", 1),
    "… processor time": ("calls.JAX.cpu", 1),
    "call, NumPy arrays": ("calls.NumPy.wall", 1),
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
