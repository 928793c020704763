"""Measure the cost of passes: ``python benchmarks/passes.py``.

The first table has microseconds per equation for each pass and for pipelines, on three kinds of
programs of 1,000 to 100,000 equations: a chain, a graph that shares and repeats values, and many
loops. Equations inside loops count. The second table shows how more passes than `DEFAULT` change
the number of equations and the time to emit a program. Times are the best of repeats in one
process, those of the first table in processor time.
"""

import time
import timeit
from collections.abc import Callable
from typing import Any

import aesara_graphs as graphs
import jax
import numpy as np
from core import making

import jaxprgen
from jaxprgen._jax import ClosedJaxpr, array_type
from jaxprgen.ir import Builder, primitives as lax
from jaxprgen.ir.programs import count_equations
from jaxprgen.passes import (
    DEFAULT,
    EliminateCommonSubexpressions,
    EliminateDeadCode,
    FoldConstants,
    Hoist,
    Pass,
    Pipeline,
)

jax.config.update("jax_enable_x64", True)

EXACT: tuple[Pass, ...] = (
    FoldConstants(),
    Hoist(),
    EliminateCommonSubexpressions(),
    EliminateDeadCode(),
)
PASSES: dict[str, tuple[Pass, ...]] = {
    **{type(p).__name__: (p,) for p in EXACT},
    "the exact passes": EXACT,
    "DEFAULT": DEFAULT,
    "the exact passes and DEFAULT": (*EXACT, *DEFAULT),
}
VECTOR = array_type((10,), np.dtype("float64"))


def best(function: Callable[[], Any], repeat: int) -> float:
    """Return the processor seconds of the fastest call."""
    return min(timeit.repeat(function, time.thread_time, number=1, repeat=repeat))


def chain(n: int) -> ClosedJaxpr:
    """Return a program in which each equation reads the one before."""
    b = Builder([VECTOR])
    (x,) = b.inputs
    half = b.literal(np.asarray(0.5))
    for _ in range(n // 2):
        x = lax.sin(b, lax.mul(b, x, half))
    return b.build([x])


def sharing(n: int) -> ClosedJaxpr:
    """Return a program whose equations read two earlier ones; a third are repetitions."""
    b = Builder([VECTOR, VECTOR])
    found = [*b.inputs]
    for i in range(n // 3):
        x, y = found[-1 - i % 2], found[-1 - i % len(found)]
        found.append(lax.add(b, lax.mul(b, x, y), lax.mul(b, y, x)))
    return b.build([found[-1]])


def loops(n: int) -> ClosedJaxpr:
    """Return a program of loops of ten equations, three of which are loop-invariant."""
    b = Builder([VECTOR, array_type((), np.dtype("float64"))])
    rows, k = b.inputs
    carry = b.literal(np.asarray(0.1))
    step = b.nested([k.aval] * 3)
    given, before, row = step.inputs
    fixed = lax.exp(step, lax.sin(step, lax.neg(step, given)))
    after = lax.mul(step, lax.add(step, before, row), fixed)
    for _ in range(5):
        after = lax.tanh(step, after)
    body = step.build([after], name="body")
    for _ in range(n // 11):
        (carry,) = lax.scan(b, body, [k], [carry], [rows], 10, reverse=False, unroll=1)
    return b.build([carry])


def report_costs() -> None:
    """Print µs per equation for each pass and kind of program."""
    sizes = (1_000, 10_000, 100_000)
    print(f"{'µs for an equation':32}{'':10}" + "".join(f"{n:>10,}" for n in sizes))
    for kind in (chain, sharing, loops):
        programs = [kind(n) for n in sizes]
        for name, passes in PASSES.items():
            row = ""
            for closed in programs:
                count = count_equations(closed)
                seconds = best(
                    lambda p=passes, c=closed: Pipeline(p)(c), 5 if count < 50_000 else 3
                )
                row += f"{seconds / count * 1e6:10.2f}"
            print(f"{name:32}{kind.__name__:10}{row}")


def report_graphs() -> None:
    """Print the number of equations of graphs' programs, and the µs to emit each."""
    vector = np.linspace(0.1, 0.2, 10)
    logistic, data = graphs.logistic(1000, 20)
    programs = {
        "200-op chain": (graphs.chain(200), (vector, vector)),
        "logistic regression + gradient": (logistic, data),
    }
    print(f"\n{'':32}{'':32}{'equations':>10}{'µs each':>10}")
    for name, (graph, args) in programs.items():
        for label, passes in {"no passes": (), "DEFAULT": DEFAULT, **added()}.items():
            f = jaxprgen.compile(*graph, passes=passes)
            count = count_equations(f.jaxpr(*args))
            print(f"{name:32}{label:32}{count:10}{making(f, args, 5, 5) * 1e6:10.2f}")


def added() -> dict[str, tuple[Pass, ...]]:
    """Return `DEFAULT` with one more pass, or with all of them."""
    one = {f"DEFAULT + {type(p).__name__}": (*DEFAULT, p) for p in EXACT}
    return {**one, "DEFAULT + the exact passes": (*DEFAULT, *EXACT)}


if __name__ == "__main__":
    print(f"jax {jax.__version__}, numpy {np.__version__}")
    report_costs()
    report_graphs()
