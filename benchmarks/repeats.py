"""Measure models that a Python loop writes out: ``python benchmarks/repeats.py [--rounds 3]``.

Each model is compiled with its gradient, with all default passes and without those that batch and
loop repetitions, in turn, each time in a fresh process. The time to the first number starts at
`jaxprgen.compile`. Models of hundreds of written-out steps take XLA minutes without the passes;
those cells stay empty unless ``--all`` is given. The models are those of the tests. Two of them are
also written by hand, with arrays, for ``jax.jit``.

``--sizes`` prints, for all models, the equations of value and gradient at 32 and 512 repetitions.

``--memory`` prints, for all models of the tests, the bytes of temporary values and results without
and with the passes, at ``--size`` repetitions. ``--share`` prints the processor time that the two
passes take of programs that repeat nothing, and their share of the time of all passes. ``--large``
prints what the two passes take of programs of about 10,000 and 100,000 equations. ``--stages``
prints what each stage takes of thousands of written-out terms and steps.
"""

import argparse  # noqa: I001
import itertools
import json
import statistics
import sys
import time
from pathlib import Path
from typing import Any

import jaxprgen  # First: it makes Aesara importable.
import aesara
import jax
import jax.numpy as jnp
import numpy as np
from compare.library import aesara_library
from compare.workloads import WORKLOADS
from processes import measured

from jaxprgen.api import jaxpr_as_fun
from jaxprgen.ir.programs import count_equations
from jaxprgen.passes import DEFAULT, Pipeline, ScanRepeats, VmapRepeats

jax.config.update("jax_enable_x64", True)
sys.setrecursionlimit(10**6)  # Aesara's gradient recurses once per step.
TESTS = Path(__file__).parents[1] / "tests"
sys.path[:0] = [str(TESTS), str(TESTS / "passes")]

import repeated_models as models  # noqa: E402

CALLS = 200
CASES = {
    ("normals", 500): True,
    ("separate_inputs", 500): True,
    ("autoregression", 80): True,
    ("autoregression", 160): True,
    ("autoregression", 1000): False,
    ("recurrence", 160): True,
    ("recurrence", 500): False,
    ("kalman_filter", 160): False,
}
"""Models with their sizes, and whether XLA compiles them in less than a minute as written."""


def normals_by_hand(x: Any, mu: Any) -> Any:
    """Compute what the model ``normals`` does, with arrays."""
    z = (x - mu * np.arange(1.0, len(x) + 1)) / 2.0
    return jnp.sum(-0.5 * z**2 - np.log(2.0))


def separate_inputs_by_hand(*xs: Any) -> Any:
    """Compute what the model ``separate_inputs`` does, with arrays."""
    return jnp.sum(-0.5 * ((jnp.stack(xs) - np.arange(float(len(xs)))) / 2.0) ** 2)


BY_HAND = {"normals": normals_by_hand, "separate_inputs": separate_inputs_by_hand}
WRITTEN_OUT = tuple(p for p in DEFAULT if not isinstance(p, VmapRepeats | ScanRepeats))
FOUND = tuple(p for p in DEFAULT if p not in WRITTEN_OUT)


def measure(name: str, n: int, which: str) -> dict[str, float]:
    """Return the times of one model and the number of its equations."""
    inputs, output, arguments = getattr(models, name)(n)
    outputs = [output, *aesara.grad(output, inputs)]
    jax.jit(lambda x: x + 1)(1.0)  # JAX's own start.
    start = time.perf_counter()
    if which == "by hand":
        f: Any = jax.jit(jax.value_and_grad(BY_HAND[name], tuple(range(len(inputs)))))
    else:
        f = jaxprgen.compile(inputs, outputs, passes=DEFAULT if which == "default" else WRITTEN_OUT)
    jax.block_until_ready(f(*arguments))
    first = time.perf_counter() - start
    arguments = [jnp.asarray(x) for x in arguments]
    calls: list[float] = []
    for _ in range(CALLS):
        start = time.perf_counter()
        jax.block_until_ready(f(*arguments))
        calls.append(time.perf_counter() - start)
    program = f.trace(*arguments).jaxpr if which == "by hand" else f.jaxpr(*arguments)
    equations = count_equations(program)
    return {"first": first, "call": statistics.median(calls), "equations": equations}


def report_sizes() -> None:
    """Print the equations of all models at two numbers of repetitions."""
    print("| model | equations at 32 | at 512 |")
    print("|---|---|---|")
    for model in models.MODELS:
        counts: list[int] = []
        for n in (32, 512):
            f, arguments = models.compiled(model, n)
            counts.append(count_equations(f.jaxpr(*arguments)))
        print(f"| {model.__name__.replace('_', ' ')} | {counts[0]:,} | {counts[1]:,} |", flush=True)


def report_memory(n: int) -> None:
    """Print the bytes that calls of all models need without and with the passes."""
    print(f"| model, {n} repetitions | as written, kB | repeats found, kB | ratio |")
    print("|---|---|---|---|")
    for model in models.MODELS:
        sizes: list[int] = []
        for passes in (WRITTEN_OUT, DEFAULT):
            f, arguments = models.compiled(model, n, passes)
            memory = f.lower(*arguments).compile().memory_analysis()
            sizes.append(memory.temp_size_in_bytes + memory.output_size_in_bytes)
        old, new = sizes
        name = model.__name__.replace("_", " ")
        print(f"| {name} | {old / 1e3:.1f} | {new / 1e3:.1f} | {new / old:.2f} |", flush=True)


def report_share() -> None:
    """Print what the two passes cost programs that repeat nothing."""
    print("| model | equations | with passes | ms | of all passes |")
    print("|---|---|---|---|---|")
    for name in ("chain", "logistic", "schools", "radon", "scan", "process", "network"):
        load = WORKLOADS[name]
        f = jaxprgen.compile(*load.graph(aesara_library()), passes=())
        program = f.jaxpr(*load.arguments())
        changed, times = program, list[tuple[float, float]]()
        for _ in range(31):
            start = time.process_time()
            changed = Pipeline(FOUND)(program)
            middle = time.process_time()
            Pipeline(WRITTEN_OUT)(changed)
            times.append((middle - start, time.process_time() - middle))
        own, others = map(statistics.median, zip(*times, strict=True))
        counts = f"{count_equations(program)} | {count_equations(changed)}"
        print(f"| {load.title} | {counts} | {own * 1e3:.2f} | {own / (own + others):.0%} |")


def terms(x: Any, a: Any) -> Any:
    """Return a sum of terms, eight equations and an addition each."""
    return sum(-0.5 * ((xi - a) / 2.0) ** 2 - jnp.log(2.0 + a * xi) for xi in x)


def chain(x: Any, a: Any) -> Any:
    """Return what a chain of steps without data makes of an array, four equations each."""
    last = x[:3]
    for _ in x:
        last = jnp.sin(last * a) + jnp.cos(last)
    return last


def filtered(x: Any, a: Any) -> Any:
    """Return a sum over the steps of a recurrence, eight equations each."""
    last, total = 0.0, 0.0
    for xi in x:
        last = jnp.tanh(a * last + xi)
        total += (xi - last) ** 2
    return total


def report_large() -> None:
    """Print the processor time of the two passes at two sizes of programs of JAX."""
    print("| program | equations | with passes | s |")
    print("|---|---|---|---|")
    for function in (terms, chain, filtered):
        per_repetition = len(jax.make_jaxpr(function)(np.ones(9), 0.3).jaxpr.eqns) / 9
        for size in (10_000, 100_000):
            n = round(size / per_repetition)
            program = changed = jax.make_jaxpr(function)(np.ones(n), 0.3)
            times: list[float] = []
            for _ in range(3):
                start = time.process_time()
                changed = Pipeline(FOUND)(program)
                times.append(time.process_time() - start)
            counts = f"{count_equations(program):,} | {count_equations(changed)}"
            print(
                f"| {function.__name__} | {counts} | {statistics.median(times):.2f} |", flush=True
            )


def report_stages() -> None:
    """Print the processor time of each stage from a graph with its gradient to a first number."""
    print("| model | nodes | plan, s | emission, s | passes, s | lowering and XLA, s |")
    print("|---|---|---|---|---|---|")
    for name, n in (("normals", 8), ("normals", 500), ("normals", 5000), ("autoregression", 1000)):
        inputs, output, arguments = getattr(models, name)(n)
        outputs = [output, *aesara.grad(output, inputs)]
        marks = [time.process_time()]
        f = jaxprgen.compile(inputs, outputs, passes=())
        marks.append(time.process_time())
        program = f.jaxpr(*arguments)
        marks.append(time.process_time())
        program = Pipeline(DEFAULT)(program)
        marks.append(time.process_time())
        jax.jit(jaxpr_as_fun(program)).lower(*arguments).compile()
        marks.append(time.process_time())
        nodes = len(list(aesara.graph.basic.applys_between(inputs, outputs)))
        seconds = " | ".join(f"{b - a:.2f}" for a, b in itertools.pairwise(marks))
        if n > 8:  # The first one is for JAX's own start.
            print(f"| {name}, {n} | {nodes:,} | {seconds} |", flush=True)


REPORTS = {
    "share": report_share,
    "sizes": report_sizes,
    "large": report_large,
    "stages": report_stages,
}


def main() -> None:
    """Print a table, or as JSON the times of one model in this process."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--all", action="store_true")
    parser.add_argument("--memory", action="store_true")
    parser.add_argument("--size", type=int, default=64)
    for name in REPORTS:
        parser.add_argument(f"--{name}", action="store_true")
    parser.add_argument("--one", nargs=3)
    options = parser.parse_args()
    if options.memory:
        report_memory(options.size)
        return
    for name, report in REPORTS.items():
        if getattr(options, name):
            report()
            return
    if options.one:
        name, n, which = options.one
        print(json.dumps(measure(name, int(n), which)))
        return
    print(f"jax {jax.__version__}, numpy {np.__version__}; medians of {options.rounds} processes")
    firsts = "first number as written, s | repeats found, s | by hand, s"
    print(f"| model | {firsts} | call, µs | equations |")
    print("|---|---|---|---|---|---|")
    for (name, n), is_quick in CASES.items():
        found: dict[str, list[dict[str, float]]] = {"written": [], "default": [], "by hand": []}
        for _ in range(options.rounds):
            for which in found:
                if (which != "by hand" or name in BY_HAND) and (
                    which != "written" or is_quick or options.all
                ):
                    found[which].append(measured(__file__, name, n, which))

        def cell(which: str, key: str, scale: float, digits: int, found: Any = found) -> str:
            values = [row[key] * scale for row in found[which]]
            return f"{statistics.median(values):.{digits}f}" if values else "–"

        calls, counts = [
            " → ".join(cell(which, key, scale, 0) for which in found)
            for key, scale in (("call", 1e6), ("equations", 1))
        ]
        firsts = " | ".join(cell(which, "first", 1, 2) for which in found)
        print(f"| {name}, {n} | {firsts} | {calls} | {counts} |", flush=True)


if __name__ == "__main__":
    main()
