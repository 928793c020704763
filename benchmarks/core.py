"""Measure the core: equations, time per equation, binds, and the cost of data in a graph.

Run as ``python benchmarks/core.py``. Times are the best or the median of repeats in one process;
the ratios matter more than the times.
"""

import statistics
import time
import timeit
from collections.abc import Callable
from typing import Any

import aesara_graphs as graphs
import jax
import jax.numpy as jnp
import numpy as np

import jaxprgen
from jaxprgen._jax import NO_SOURCE, ClosedJaxpr
from jaxprgen.graphs.library import frame_of
from jaxprgen.lowering.origin import Origins
from jaxprgen.lowering.traversal import toposort

jax.config.update("jax_enable_x64", True)


def count_equations(f: Any, *args: Any) -> int:
    """Return the number of equations of the program for these arguments."""
    return len(f.jaxpr(*args).jaxpr.eqns)


def best(function: Callable[[], Any], number: int, repeat: int) -> float:
    """Return the seconds of the fastest call."""
    return min(timeit.repeat(function, number=number, repeat=repeat)) / number


def making(f: Any, args: Any, number: int, repeat: int) -> float:
    """Return the seconds per equation to emit the program again, including passes."""

    def make() -> None:
        f.cache_clear()
        f.jaxpr(*args)

    return best(make, number, repeat) / count_equations(f, *args)


def copying(f: Any, args: Any) -> Callable[[], float]:
    """Return a function that measures the seconds to copy an equation with fresh variables."""
    from jaxprgen._jax import JaxprEqn, Var

    eqns = f.jaxpr(*args).jaxpr.eqns

    def copy() -> float:
        start = time.perf_counter()
        fresh: dict[Any, Any] = {}
        for e in eqns:
            outs = [Var(v.aval) for v in e.outvars]
            fresh.update(zip(e.outvars, outs, strict=True))
            ins = [fresh.get(x, x) if type(x) is Var else x for x in e.invars]
            JaxprEqn(ins, outs, e.primitive, e.params, e.effects, e.source_info, e.ctx)
        return (time.perf_counter() - start) / len(eqns)

    return copy


def locating(inputs: Any, output: Any) -> float:
    """Return the seconds per node to find names and lines, which is part of planning."""
    nodes = toposort([output], set(inputs))

    def locate() -> None:
        origins, places = Origins(), {}
        for v in inputs:
            places[v] = len(places)
            origins.add_leaf(v.name, frame_of(v))
        for node in nodes:
            for v in node.inputs:
                if v not in places:
                    places[v] = len(places)
                    origins.add_leaf(v.name, frame_of(v))
            places[node.outputs[0]] = len(places)
            names = [v.name for v in node.outputs]
            origins.add_node([places[v] for v in node.inputs], names, frame_of(node.outputs[0]))
        origins.source_infos()

    return best(locate, 10, 20) / len(nodes)


def lowering(f: Any, args: Any, *, located: bool) -> float:
    """Return the seconds to lower a program to StableHLO, with or without names and lines."""
    closed = f.jaxpr(*args)
    if not located:
        eqns = [eqn.replace(source_info=NO_SOURCE) for eqn in closed.jaxpr.eqns]
        closed = ClosedJaxpr(closed.jaxpr.replace(eqns=eqns), closed.consts)
    program = jaxprgen.jaxpr_as_fun(closed)
    start = time.perf_counter()
    jax.jit(lambda *xs: program(*xs)).lower(*args)
    return time.perf_counter() - start


def binds_of_first_call(inputs: Any, output: Any, args: Any) -> int:
    """Return how often the first call of a function enters `Primitive.bind`."""
    from jaxprgen._jax import Primitive

    f, count, original = jaxprgen.compile(inputs, output), 0, Primitive.bind

    def counting(self: Any, *a: Any, **k: Any) -> Any:
        nonlocal count
        count += 1
        return original(self, *a, **k)

    Primitive.bind = counting
    try:
        f(*args)
    finally:
        Primitive.bind = original
    return count


def compile_seconds(rows: int) -> float:
    """Return the seconds to lower and compile a model with ``rows`` × 25 doubles in its graph."""
    f = jaxprgen.compile(*graphs.model_with_data(rows))
    start = time.perf_counter()
    f.lower(np.ones(25)).compile()
    return time.perf_counter() - start


def compile_seconds_by_hand(rows: int) -> float:
    """Return the seconds for the same model in `jax.numpy`, with the data as an argument."""
    f = jax.jit(lambda data, w: jnp.sum(jnp.tanh(data @ w) ** 2))
    start = time.perf_counter()
    f.lower(jax.ShapeDtypeStruct((rows, 25), float), np.ones(25)).compile()
    return time.perf_counter() - start


def medians(*functions: Callable[[], float], repeat: int) -> list[float]:
    """Call the functions in turn, and return the median result of each."""
    return [
        statistics.median(c)
        for c in zip(*([f() for f in functions] for _ in range(repeat)), strict=True)
    ]


def main() -> None:
    """Measure, and print one row per figure."""
    vector = np.linspace(0.1, 0.2, 10)
    chain, args = graphs.chain(200), (vector, vector)
    f = jaxprgen.compile(*chain)
    long = jaxprgen.compile(*graphs.chain(100_000))
    copy = copying(f, args)
    short_time, long_time = making(f, args, 20, 30), making(long, args, 1, 5)
    logistic, data = graphs.logistic(1000, 20)
    lowering(f, args, located=True)
    with_lines, without_lines = medians(
        lambda: lowering(f, args, located=True),
        lambda: lowering(f, args, located=False),
        repeat=15,
    )
    compile_seconds(5)
    compile_seconds_by_hand(5)
    small, large, small_by_hand, large_by_hand = medians(
        lambda: compile_seconds(5),
        lambda: compile_seconds(500_000),
        lambda: compile_seconds_by_hand(5),
        lambda: compile_seconds_by_hand(500_000),
        repeat=15,
    )
    rows = {
        "equations, 200-op chain": count_equations(f, *args),
        "equations, logistic regression + gradient": count_equations(
            jaxprgen.compile(*logistic), *data
        ),
        "µs per equation, 200-op chain (best)": short_time * 1e6,
        "µs per equation, 100,000-op chain (best)": long_time * 1e6,
        "… ratio": long_time / short_time,
        "µs to copy an equation (best)": min(copy() for _ in range(400)) * 1e6,
        "µs per node to compile (plan), 200-op chain": best(
            lambda: jaxprgen.compile(*chain), 10, 20
        )
        / 200
        * 1e6,
        "… of that, names and lines": locating(*chain) * 1e6,
        "lower, names and lines ÷ none (medians)": with_lines / without_lines,
        "binds in the first call, 200-op chain": binds_of_first_call(*chain, args),
        "lower + XLA, 100 MB constant ÷ 1 kB (medians)": large / small,
        "… by hand, the data an argument": large_by_hand / small_by_hand,
    }
    print(f"jax {jax.__version__}, numpy {np.__version__}")
    for name, value in rows.items():
        print(f"{name:48} {value:10.2f}" if isinstance(value, float) else f"{name:48} {value:10}")


if __name__ == "__main__":
    main()
