"""Draw the plot of benchmarks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np

from compare.figures import NAMES, WHOLE, before_lowering
from compare.records import Records
from compare.workloads import WORKLOADS

COLORS = {
    "jaxprgen": "#c1272d",
    "by hand": "#333333",
    "aesara": "#2a6f97",
    "pytensor": "#61a5c2",
    "numpyro": "#999999",
}


def plot(records: Records, path: Path) -> None:
    """Plot seconds from graph to number by workload, and microseconds per node by size."""
    mpl.use("svg")
    from matplotlib import pyplot

    mpl.rcParams |= {"svg.hashsalt": "benchmarks", "svg.fonttype": "none", "font.size": 9}
    figure, (left, right) = pyplot.subplots(1, 2, figsize=(11, 4.6), layout="constrained")
    _bars(records, left)
    _lines(records, right)
    figure.savefig(path, metadata={"Date": None})
    pyplot.close(figure)


def _bars(records: Records, axes: Any) -> None:
    names = [name for name in WHOLE if records.systems(name)]
    height = 0.8 / len(COLORS)
    for i, (system, color) in enumerate(COLORS.items()):
        found = [records.get(name, system) for name in names]
        seconds = [record["first"] if record else np.nan for record in found]
        places = np.arange(len(names)) + height * (i - 2)
        axes.barh(places, seconds, height, color=color, label=NAMES[system])
    axes.set(xscale="log", xlabel="seconds from graph to first number")
    axes.set_yticks(range(len(names)), names)
    axes.invert_yaxis()
    axes.legend(fontsize=8)


def _lines(records: Records, axes: Any) -> None:
    sizes = [workload.nodes for workload in WORKLOADS.values() if workload.nodes]

    def line(system: str, label: str, style: str, seconds: Any) -> None:
        found = {n: records.get(f"nodes-{n}", system) for n in sizes}
        points = [(n, 1e6 * seconds(r) / n) for n, r in found.items() if r]
        if points:
            axes.plot(*zip(*points, strict=True), style, color=COLORS[system], label=label)

    for stage, style in {"plan": "o:", "emission": "o-", "passes": "o--"}.items():
        line("jaxprgen", f"jaxprgen, {stage}", style, lambda r, s=stage: r["stages"][s])
    for system in ("by hand", "aesara", "pytensor"):
        line(system, f"{NAMES[system]}, all before lowering", "s-", before_lowering)
    axes.set(xscale="log", yscale="log", xlabel="nodes of a chain", ylabel="µs for a node")
    axes.legend(fontsize=8)
