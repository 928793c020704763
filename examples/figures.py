"""Draw what an example found: ``python examples/eight_schools.py --plot FILE``.

This needs Matplotlib. A file whose name ends in ``.svg`` has that format, any other is a PNG.
"""

import io
import os
import sys

import numpy as np

STYLE = {
    "figure.dpi": 110,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.titlesize": 10,
    "font.size": 9,
    "legend.frameon": False,
    "svg.hashsalt": "jaxprgen",
}


def save(plot, *found):
    """Draw the picture ``plot(*found)`` if the command line asks for it by ``--plot FILE``."""
    if "--plot" not in sys.argv[:-1]:
        return
    path = sys.argv[sys.argv.index("--plot") + 1]
    if path.endswith(".svg"):
        plot(*found).savefig(path, metadata={"Date": None})
    else:  # With few colours, a third of the size.
        from PIL import Image

        drawn = io.BytesIO()
        plot(*found).savefig(drawn)
        Image.open(drawn).convert("RGB").quantize(64).save(path, optimize=True)
    print("Wrote", path)


def subplots(*shape, size=(7, 3.2), **options):
    """Return a new figure and its axes."""
    import matplotlib

    if "MPLBACKEND" not in os.environ:  # Notebooks set it.
        matplotlib.use("agg")
    import matplotlib.pyplot as plt

    plt.rcParams.update(STYLE)
    return plt.subplots(*shape, figsize=size, layout="constrained", **options)


def intervals(axes, names, draws, *, color="C0", offset=0.0, label=None):
    """Draw the mean and the middle 50 and 90 % of draws, in a row for each last index."""
    flat = np.asarray(draws).reshape(-1, len(names))
    rows = np.arange(len(names)) + offset
    low, lower, upper, high = np.percentile(flat, [5, 25, 75, 95], axis=0)
    axes.hlines(rows, low, high, color=color, lw=1)
    axes.hlines(rows, lower, upper, color=color, lw=3)
    axes.plot(flat.mean(0), rows, "o", color=color, ms=4, label=label)
    axes.set_yticks(np.arange(len(names)), names)
    axes.set_ylim(len(names) - 0.5, -0.5)


def band(axes, x, draws, *, color="C0", label=None):
    """Draw the middle 50 and 90 % of draws along ``x``; the last axis of draws is that of x."""
    flat = np.asarray(draws).reshape(-1, len(x))
    for lower, upper, alpha in ((5, 95, 0.2), (25, 75, 0.35)):
        low, high = np.percentile(flat, [lower, upper], axis=0)
        axes.fill_between(x, low, high, color=color, alpha=alpha, lw=0)
    axes.plot(x, np.median(flat, axis=0), color=color, lw=1.2, label=label)


def traces(axes, draws):
    """Draw each chain of draws (chains, draws) over its steps."""
    for chain in np.asarray(draws):
        axes.plot(chain, lw=0.4)
