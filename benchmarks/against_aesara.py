"""Compare jaxprgen with Aesara's own JAX mode: ``python benchmarks/against_aesara.py``.

Each graph runs through ``aesara.function(..., mode="JAX")`` and through `jaxprgen.compile`, and the
table shows the time from the graph to the first result: rewriting, lowering, XLA and one call.
Imports and JAX's own start-up are not counted. Every figure is the median over fresh processes;
the two systems take turns, so that both meet the same load. Times are processor time, which other
programs on the machine disturb less than the clock. A failure is shown as the exception.

The last row compiles binary operators for every pair of dtypes that Aesara's Python mode accepts.
A pair is wrong if it raises, or if its result has another dtype than Aesara declares.
"""

from __future__ import annotations

import argparse
import importlib
import itertools
import json
import os
import statistics
import subprocess
import sys
import textwrap
import time
import warnings
from collections.abc import Callable
from importlib.metadata import version
from typing import Any, NamedTuple

SYSTEMS = {"aesara": 'Aesara `mode="JAX"`', "jaxprgen": "jaxprgen"}
PACKAGES = "aesara", "jax", "numpy"
DTYPES = (
    *("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
    *("float32", "float64", "complex64", "complex128"),
)
OPERATORS = (
    *("add", "sub", "mul", "true_div", "int_div", "mod", "pow", "maximum", "minimum"),
    *("arctan2", "eq", "lt", "and_", "or_", "xor"),
)
ROWS, COLUMNS, GROUPS, STEPS = 569, 30, 85, 100


class Graph(NamedTuple):
    """Inputs and outputs, and one argument for each input."""

    inputs: list[Any]
    outputs: list[Any]
    arguments: list[Any]


def logistic() -> Graph:
    """Return a logistic log-likelihood and its gradient."""
    import aesara
    import aesara.tensor as at
    import numpy as np

    X, y, beta = at.dmatrix("X"), at.dvector("y"), at.dvector("beta")
    eta = X @ beta
    value = (y * eta - at.softplus(eta)).sum()
    rng = np.random.default_rng(0)
    points, outcomes = rng.normal(size=(ROWS, COLUMNS)), rng.integers(0, 2, ROWS) * 1.0
    arguments = [points, outcomes, np.full(COLUMNS, 0.1)]
    return Graph([X, y, beta], [value, aesara.grad(value, beta)], arguments)


def poisson() -> Graph:
    """Return the log-density of counts in groups with varying intercepts, and its gradients."""
    import aesara
    import aesara.tensor as at
    import numpy as np

    x, counts, group = at.dvector("x"), at.dvector("counts"), at.lvector("group")
    mu, slope, log_sigma, z = (
        at.dscalar("mu"),
        at.dscalar("slope"),
        at.dscalar("s"),
        at.dvector("z"),
    )
    eta = mu + at.exp(log_sigma) * z[group] + slope * x
    value = (
        (counts * eta - at.exp(eta) - at.gammaln(counts + 1)).sum()
        - 0.5 * (z**2).sum()
        - 0.5 * (mu**2 + slope**2 + log_sigma**2)
    )
    parameters = [mu, slope, log_sigma, z]
    rng = np.random.default_rng(0)
    data = [rng.normal(size=ROWS), rng.poisson(3, ROWS) * 1.0, rng.integers(0, GROUPS, ROWS)]
    start = [np.asarray(0.5), np.asarray(0.1), np.asarray(-1.0), np.linspace(-1, 1, GROUPS)]
    return Graph(
        [x, counts, group, *parameters], [value, *aesara.grad(value, parameters)], [*data, *start]
    )


def epidemic() -> Graph:
    """Return the squared error of an SIR epidemic, a `scan`, and its gradient."""
    import aesara
    import aesara.tensor as at
    import numpy as np

    infected, beta, gamma = at.dvector("infected"), at.dscalar("beta"), at.dscalar("gamma")

    def day(s: Any, i: Any, beta: Any, gamma: Any) -> list[Any]:
        new, recovered = beta * s * i, gamma * i
        return [s - new, i + new - recovered]

    start = [at.constant(0.99), at.constant(0.01)]
    (_, path), _ = aesara.scan(
        day, outputs_info=start, non_sequences=[beta, gamma], n_steps=infected.shape[0]
    )
    error = ((path - infected) ** 2).sum()
    arguments = [np.linspace(0.01, 0.2, STEPS), np.asarray(0.3), np.asarray(0.1)]
    return Graph([infected, beta, gamma], [error, *aesara.grad(error, [beta, gamma])], arguments)


def positions() -> Graph:
    """Return a sum weighted by positions, whose number follows from the input."""
    import aesara.tensor as at
    import numpy as np

    x = at.dvector("x")
    return Graph([x], [(x * at.arange(x.shape[0])).sum()], [np.ones(10)])


def half() -> Graph:
    """Return the first half of a vector, reshaped to two columns."""
    import aesara.tensor as at
    import numpy as np

    x = at.dvector("x")
    n = x.shape[0] // 2
    return Graph([x], [x[:n].reshape((n // 2, 2))], [np.ones(12)])


def draws() -> Graph:
    """Return draws of a normal distribution, as many as the input has elements."""
    import aesara.tensor as at
    import numpy as np

    x = at.dvector("x")
    stream = at.random.RandomStream(1)
    return Graph([x], [stream.normal(x, 1.0, size=x.shape)], [np.zeros(10)])


GRAPHS: dict[str, tuple[str, Callable[[], Graph]]] = {
    "logistic": (f"Logistic regression, {ROWS} × {COLUMNS}, and gradient", logistic),
    "poisson": (f"Poisson regression, {GROUPS} varying intercepts, and gradient", poisson),
    "epidemic": (f"SIR epidemic, `scan` of {STEPS} steps, and gradient", epidemic),
    "positions": ("`(x * arange(x.shape[0])).sum()`", positions),
    "half": ("`x[:n].reshape((n // 2, 2))`, `n = x.shape[0] // 2`", half),
    "draws": ("`stream.normal(x, 1, size=x.shape)`", draws),
}
MATRIX = "matrix"


def compiled(system: str, inputs: list[Any], outputs: list[Any]) -> Callable[..., Any]:
    """Compile a graph with one of the systems."""
    if system == "jaxprgen":
        import jax

        import jaxprgen

        f = jaxprgen.compile(inputs, outputs)
        is_random = len(f.inputs) > len(inputs)
        return (lambda *args: f(jax.random.key(0), *args)) if is_random else f
    import aesara

    return aesara.function(inputs, outputs, mode="JAX")


def seconds(system: str, name: str) -> float:
    """Measure the processor time from the graph to the first result.

    Raises
    ------
    AssertionError
        The result differs from that of Aesara's Python mode.
    """
    import jax
    import numpy as np

    jax.block_until_ready(jax.jit(lambda x: jax.numpy.sin(x).sum())(np.ones(7)))
    graph = GRAPHS[name][1]()
    start = time.process_time()
    f = compiled(system, graph.inputs, graph.outputs)
    results = jax.block_until_ready(f(*graph.arguments))
    taken = time.process_time() - start
    if name != "draws":
        expected = in_python(graph.inputs, graph.outputs)(*graph.arguments)
        found = results if isinstance(results, list | tuple) else [results]
        for x, y in zip(found, expected, strict=True):
            np.testing.assert_allclose(x, y, rtol=1e-8)
    return taken


def in_python(inputs: list[Any], outputs: list[Any]) -> Callable[..., Any]:
    """Compile a graph for Aesara's Python mode, the reference."""
    import aesara
    from aesara.compile.mode import Mode

    return aesara.function(inputs, outputs, mode=Mode("py", None), on_unused_input="ignore")


def matrix(system: str) -> dict[str, int]:
    """Count how many combinations of an operator and two dtypes raise, or have a wrong dtype."""
    import aesara.tensor as at
    import numpy as np

    counts = {"all": 0, "raise": 0, "wrong": 0}
    for operator in OPERATORS:
        known: list[tuple[list[Any], Any]] = []
        for dtypes in itertools.product(DTYPES, repeat=2):
            inputs = [at.vector(name, dtype) for name, dtype in zip("xy", dtypes, strict=True)]
            try:
                output = getattr(at, operator)(*inputs)
                in_python(inputs, [output])(*(np.ones(3, dtype) for dtype in dtypes))
            except Exception:  # Aesara does not accept this pair.
                continue
            known.append((inputs, output))
        counts["all"] += len(known)
        for wanted, found in zip(
            (output.dtype for _, output in known), dtypes_of(system, known), strict=True
        ):
            counts["raise"] += found is None
            counts["wrong"] += found not in (None, wanted)
    return counts


def dtypes_of(system: str, graphs: list[tuple[list[Any], Any]]) -> list[str | None]:
    """Return the dtype of each graph's result, or None where it raises.

    One program has all graphs; where that raises, it is split in two.
    """
    import numpy as np

    inputs = [x for own, _ in graphs for x in own]
    outputs = [output for _, output in graphs]
    try:
        results = compiled(system, inputs, outputs)(*(np.ones(3, x.dtype) for x in inputs))
    except Exception:
        if len(graphs) == 1:
            return [None]
        middle = len(graphs) // 2
        return [*dtypes_of(system, graphs[:middle]), *dtypes_of(system, graphs[middle:])]
    found = results if isinstance(results, list | tuple) else [results]
    return [str(x.dtype) for x in found]


def measure(system: str, name: str) -> Any:
    """Measure in this process, and return a figure or an error's text."""
    warnings.simplefilter("ignore")
    import jaxprgen  # noqa: F401, I001  # First: it makes Aesara importable.
    import aesara.tensor  # noqa: F401
    import jax

    importlib.import_module("aesara.link.jax.dispatch")
    jax.config.update("jax_enable_x64", True)
    try:
        return matrix(system) if name == MATRIX else seconds(system, name)
    except Exception as error:
        return f"{type(error).__name__}: {error}"


def in_a_process(system: str, name: str) -> Any:
    """Measure in a fresh process."""
    command = [sys.executable, __file__, "--system", system, "--graph", name]
    environment = {**os.environ, "AESARA_FLAGS": os.environ.get("AESARA_FLAGS", "cxx=")}
    done = subprocess.run(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    done.check_returncode()
    return json.loads(done.stdout.splitlines()[-1])


def cell(found: list[Any]) -> str:
    """Show the median of the repeats, or the error."""
    if isinstance(found[0], str):
        kind, _, message = found[0].partition(":")
        return f"`{kind}`: {textwrap.shorten(message, 50, placeholder=' …')}"
    return f"{statistics.median(found):.2f} s"


def main() -> None:
    """Measure everything, or one graph with one system, and print it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=5, help="processes for each figure")
    parser.add_argument("--only", default=",".join([*GRAPHS, MATRIX]), help="comma-separated")
    parser.add_argument("--system", choices=SYSTEMS, help="measure it here, with --graph")
    parser.add_argument("--graph", choices=[*GRAPHS, MATRIX])
    options = parser.parse_args()
    if options.system:
        print(json.dumps(measure(options.system, options.graph)))
        return
    versions = ", ".join(f"{name} {version(name)}" for name in PACKAGES)
    print(f"Python {sys.version.split()[0]}, {versions}; {os.cpu_count()} cores; ", end="")
    print(f"medians of {options.repeats} processes\n")
    print(f"| from a graph to the first result | {' | '.join(SYSTEMS.values())} |\n|---|---|---|")
    wanted = options.only.split(",")
    for name in [name for name in GRAPHS if name in wanted]:
        rounds = [{s: in_a_process(s, name) for s in SYSTEMS} for _ in range(options.repeats)]
        cells = [cell([found[s] for found in rounds]) for s in SYSTEMS]
        print(f"| {GRAPHS[name][0]} | {' | '.join(cells)} |", flush=True)
    if MATRIX in wanted:
        counts = [in_a_process(s, MATRIX) for s in SYSTEMS]
        cells = [f"{c['wrong'] + c['raise']} wrong" for c in counts]
        pairs = f"for {counts[0]['all']:,} pairs of dtypes"
        print(f"| dtypes of {len(OPERATORS)} binary operators, {pairs} | {' | '.join(cells)} |")


if __name__ == "__main__":
    main()
