"""Measure models that a Python loop writes out: ``python benchmarks/repeats.py [--rounds 3]``.

Each model is compiled with its gradient, with all default passes and without those that batch and
loop repetitions, in turn, each time in a fresh process. The time to the first number starts at
`jaxprgen.compile`. Models of hundreds of written-out steps take XLA minutes without the passes;
those cells stay empty unless ``--all`` is given.
"""

import argparse  # noqa: I001
import json
import statistics
import subprocess
import sys
import time
from typing import Any

import jaxprgen  # First: it makes Aesara importable.
import aesara
import aesara.tensor as at
import jax
import numpy as np

from jaxprgen.ir.programs import count_equations
from jaxprgen.passes import DEFAULT, ScanRepeats, VmapRepeats

jax.config.update("jax_enable_x64", True)
sys.setrecursionlimit(10**6)  # Aesara's gradient recurses once per step.

Model = tuple[list[Any], Any, list[Any]]
CALLS = 200


def normals(n: int) -> Model:
    """Return normal terms, one for each element of a vector."""
    x, mu = at.dvector("x"), at.dscalar("mu")
    terms = [-0.5 * ((x[i] - mu * float(i + 1)) / 2.0) ** 2 for i in range(n)]
    return [x, mu], sum(terms), [np.linspace(-1, 1, n), 0.3]


def separate(n: int) -> Model:
    """Return normal terms of separate scalar inputs."""
    xs = [at.dscalar(f"x{i}") for i in range(n)]
    terms = [-0.5 * ((x - float(i)) / 2.0) ** 2 for i, x in enumerate(xs)]
    return xs, sum(terms), [*np.linspace(-1, 1, n)]


def autoregression(n: int) -> Model:
    """Return the log-density of an observed AR(1) series."""
    x = at.dvector("x")
    rho, s = at.dscalars("rho", "s")
    terms = [-0.5 * ((x[i] - rho * x[i - 1]) / s) ** 2 - at.log(s) for i in range(1, n)]
    return [x, rho, s], sum(terms), [np.linspace(-1, 1, n), 0.4, 1.3]


def recurrence(n: int) -> Model:
    """Return the squared errors of a nonlinear recurrence."""
    y, rho = at.dvector("y"), at.dscalar("rho")
    h, total = at.as_tensor(0.0), 0
    for i in range(n):
        h = at.tanh(rho * h + y[i])
        total = total + (y[i] - h) ** 2
    return [y, rho], total, [np.linspace(-1, 1, n), 0.4]


def kalman(n: int) -> Model:
    """Return the log-likelihood of a local level, by the Kalman filter."""
    y, (q, r) = at.dvector("y"), at.dscalars("q", "r")
    m, p, total = at.as_tensor(0.0), at.as_tensor(1.0), 0
    for i in range(n):
        p = p + q
        s, e = p + r, y[i] - m
        total = total - 0.5 * (at.log(s) + e**2 / s)
        m, p = m + p / s * e, (1 - p / s) * p
    return [y, q, r], total, [np.linspace(-1, 1, n), 0.3, 0.8]


CASES = {
    ("normals", 500): True,
    ("separate", 500): True,
    ("autoregression", 80): True,
    ("autoregression", 160): True,
    ("autoregression", 1000): False,
    ("recurrence", 160): True,
    ("recurrence", 500): False,
    ("kalman", 160): False,
}
"""Models with their sizes, and whether XLA compiles them in less than a minute as written."""
WRITTEN_OUT = tuple(p for p in DEFAULT if not isinstance(p, VmapRepeats | ScanRepeats))


def measure(name: str, n: int, passes: Any) -> dict[str, float]:
    """Return the times of one model and the number of its equations."""
    inputs, output, arguments = globals()[name](n)
    outputs = [output, *aesara.grad(output, inputs)]
    jax.jit(lambda x: x + 1)(1.0)  # JAX's own start.
    start = time.perf_counter()
    f = jaxprgen.compile(inputs, outputs, passes=passes)
    jax.block_until_ready(f(*arguments))
    first = time.perf_counter() - start
    arguments = [jax.numpy.asarray(x) for x in arguments]
    calls: list[float] = []
    for _ in range(CALLS):
        start = time.perf_counter()
        jax.block_until_ready(f(*arguments))
        calls.append(time.perf_counter() - start)
    equations = count_equations(f.jaxpr(*arguments))
    return {"first": first, "call": statistics.median(calls), "equations": equations}


def main() -> None:
    """Print a table, or as JSON the times of one model in this process."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--all", action="store_true")
    parser.add_argument("--one", nargs=3)
    options = parser.parse_args()
    if options.one:
        name, n, which = options.one
        passes = DEFAULT if which == "default" else WRITTEN_OUT
        print(json.dumps(measure(name, int(n), passes)))
        return
    print(f"jax {jax.__version__}, numpy {np.__version__}; medians of {options.rounds} processes")
    print("| model | first number as written, s | repeats found, s | call, µs | equations |")
    print("|---|---|---|---|---|")
    for (name, n), is_quick in CASES.items():
        found: dict[str, list[dict[str, float]]] = {"written": [], "default": []}
        for _ in range(options.rounds):
            for which in found if is_quick or options.all else ["default"]:
                command = [sys.executable, __file__, "--one", name, str(n), which]
                text = subprocess.run(command, check=True, capture_output=True, text=True).stdout
                found[which].append(json.loads(text.splitlines()[-1]))

        def cell(which: str, key: str, scale: float, digits: int, found: Any = found) -> str:
            values = [row[key] * scale for row in found[which]]
            return f"{statistics.median(values):.{digits}f}" if values else "–"

        calls, counts = [
            " → ".join(cell(which, key, scale, 0) for which in found)
            for key, scale in (("call", 1e6), ("equations", 1))
        ]
        old, new = cell("written", "first", 1, 2), cell("default", "first", 1, 2)
        print(f"| {name}, {n} | {old} | {new} | {calls} | {counts} |", flush=True)


if __name__ == "__main__":
    main()
