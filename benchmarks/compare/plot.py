"""Draw the plots of benchmarks."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np

from compare import nuts, rows
from compare.figures import NAMES, WHOLE, first
from compare.records import MINUTE, Estimate, Records, power_law
from compare.systems import GROWING
from compare.workloads import STEPS

COLORS = {
    "jaxprgen": "#c1272d",
    "by hand": "#333333",
    "aesara": "#2a6f97",
    "pytensor": "#61a5c2",
    "numpyro": "#e9a03b",
}


def plot(records: Records, folder: Path, names: Iterable[str]) -> None:
    """Draw plots, each into a file of its own."""
    mpl.use("svg")
    from matplotlib import pyplot

    mpl.rcParams |= {"svg.hashsalt": "benchmarks", "svg.fonttype": "none", "font.size": 9}
    folder.mkdir(exist_ok=True)
    for name in names:
        figure, axes = pyplot.subplots(figsize=(7, 4.2), layout="constrained")
        PLOTS[name](records, axes)
        axes.legend(fontsize=8)
        figure.savefig(folder / f"{name}.svg", metadata={"Date": None})
        pyplot.close(figure)


def _firsts(records: Records, axes: Any) -> None:
    names = [name for name in WHOLE if records.systems(name)]
    height = 0.8 / len(COLORS)
    for i, (system, color) in enumerate(COLORS.items()):
        found = [records.estimate(name, [system], first) for name in names]
        places = np.arange(len(names)) + height * (i - 2)
        _bars(axes.barh, places, found, height, "xerr", color=color, label=NAMES[system])
    axes.set(xscale="log", xlabel="seconds from graph to first number")
    axes.set_yticks(range(len(names)), names)
    axes.invert_yaxis()


def _draws(records: Records, axes: Any) -> None:
    width = 0.8 / len(nuts.SYSTEMS)
    for i, system in enumerate(nuts.SYSTEMS):
        places = np.arange(len(nuts.MODELS)) + width * (i - 1)
        for run, alpha in {"cold": 0.35, "warm": 1.0}.items():
            found = [
                records.estimate(f"nuts-{model}", [system], effective(run)) for model in nuts.MODELS
            ]
            label = f"{nuts.TITLES[system]}{', with compilation' if run == 'cold' else ''}"
            _bars(
                axes.bar, places, found, width, "yerr",
                color=COLORS[system], alpha=alpha, label=label,
            )  # fmt: skip
    axes.set(yscale="log", ylabel="milliseconds for an effective draw")
    axes.set_ylim(top=10 * axes.get_ylim()[1])  # There is room for the legend.
    axes.set_xticks(range(len(nuts.MODELS)), nuts.MODELS)


def effective(run: str) -> Callable[[dict[str, Any]], float]:
    """Return the function of a record that gives milliseconds for an effective draw of a run."""
    return lambda record: 1e3 * record[run]["seconds"] / record[run]["effective"]


def _bars(
    bar: Any, places: Any, found: list[Estimate | None], width: float, error: str, **style: Any
) -> None:
    """Draw bars, with their intervals as whiskers."""
    nothing = Estimate(np.nan, np.nan, np.nan)
    each = [x or nothing for x in found]
    # The interval is that of a mean, and the median may be outside of it.
    below = [max(0.0, x.value - x.low) for x in each]
    above = [max(0.0, x.high - x.value) for x in each]
    bar(places, [x.value for x in each], width, **{error: [below, above]}, **style, error_kw=THIN)


THIN = {"elinewidth": 0.7}


def sizes(records: Records, system: str) -> dict[int, float]:
    """Return the seconds to the first number of models of growing size."""
    found = {n: records.get(f"steps-{n}", system) for n in STEPS}
    return {n: record["first"] for n, record in found.items() if record}


def largest(seconds: dict[int, float]) -> float:
    """Return the size that takes a minute, by a power law through the two largest sizes."""
    factor, power = power_law(seconds)
    return (MINUTE / factor) ** (1 / power)


def _steps(records: Records, axes: Any) -> None:
    axes.axhline(MINUTE, color="#bbbbbb", linewidth=0.8)
    axes.text(STEPS[0], MINUTE * 1.08, "a minute", color="#888888", fontsize=8)
    for system in GROWING:
        seconds, color = sizes(records, system), COLORS[system]
        axes.plot(list(seconds), list(seconds.values()), "o-", color=color, label=NAMES[system])
        if len(seconds) > 1:
            end = max(seconds)
            axes.plot([end, largest(seconds)], [seconds[end], MINUTE], ":", color=color)
    axes.set(xscale="log", yscale="log", xlabel="steps written out in a Python loop")
    axes.set(ylabel="seconds from graph to first number")


def _rows(records: Records, axes: Any) -> None:
    for system in ("by hand", "jaxprgen"):
        found = {n: rows.estimate(records, n, system) for n in rows.ROWS}
        known = {n: x for n, x in found.items() if x}
        low, high = ([x[i] for x in known.values()] for i in (1, 2))
        axes.fill_between(list(known), low, high, color=COLORS[system], alpha=0.2, linewidth=0)
        middle = [x.value for x in known.values()]
        axes.plot(list(known), middle, "o-", color=COLORS[system], label=NAMES[system])
    axes.set(xscale="log", yscale="log", xlabel="rows of data", ylabel="µs for a call")


PLOTS = {"first": _firsts, "draws": _draws, "size": _steps, "rows": _rows}
"""The plots, by the names of their files."""
