"""Measure one system on a workload, in this process."""

from __future__ import annotations

import random
import resource
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from compare.systems import SYSTEMS, Made
from compare.workloads import WORKLOADS, Workload

EVENTS = {
    "/jax/core/compile/jaxpr_trace_duration": "tracing",
    "/jax/core/compile/jaxpr_to_mlir_module_duration": "lowering",
    "/jax/core/compile/backend_compile_duration": "XLA",
}


def warm_up() -> None:
    """Run a program that no workload has, so that the start-up of JAX is not measured."""

    def program(x: Any) -> Any:
        total, _ = jax.lax.scan(lambda c, r: (c + jax.lax.sin(r), None), 0.0, x)
        return jax.lax.mul(total, jax.lax.dot(x, x))

    jax.block_until_ready(jax.jit(jax.grad(program))(np.ones(7)))


def arguments(workload: Workload, system: str) -> tuple[Any, ...]:
    """Return the arguments of the system's function."""
    mapped = workload.mapped is not None and system in ("aesara", "pytensor")
    return () if mapped else workload.arguments()


def measure_system(name: str, system: str, folder: Path) -> dict[str, Any]:
    """Measure from the graph to the first number, then calls and the size of the program."""
    workload = WORKLOADS[name]
    sys.setrecursionlimit(10**6)  # Aesara's gradient recurses once for each step of a long graph.
    args = arguments(workload, system)
    make = SYSTEMS[system](workload, args)
    stages, before = _listen(), _peak()
    start = time.perf_counter()
    made = make()
    results = jax.block_until_ready(made.call(*args))
    record: dict[str, Any] = {"first": time.perf_counter() - start}
    record |= {"stages": {**made.stages, **stages}, "megabytes": _peak() - before}
    if workload.steps:
        return record
    _check(workload, name, system, results, folder)
    record |= {"calls": _calls_of(made, args), **(_size(made) if made.lower else {})}
    if system == "jaxprgen":
        record["in turn"] = _calls_in_turn(workload, name, made, folder)
    return record


def _listen() -> dict[str, float]:
    """Return a dictionary that JAX fills with the seconds of its stages.

    It holds those of the last program. Earlier programs, such as constants that are put on the
    device, count to the stage that makes them.
    """
    found: dict[str, float] = {}

    def listener(event: str, seconds: float, **_: Any) -> None:
        if event in EVENTS:
            found[EVENTS[event]] = seconds

    jax.monitoring.register_event_duration_secs_listener(listener)
    return found


def _peak() -> float:
    """Return the peak memory of the process in megabytes; Linux counts in kilobytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3


def _check(workload: Workload, name: str, system: str, results: Any, folder: Path) -> None:
    """Check results against those by hand, which are kept in the folder."""
    leaves, path = jax.tree.leaves(results), folder / f"{name}.npz"
    if system == "by hand":
        np.savez(path, *map(np.asarray, leaves))
    with np.load(path) as expected:
        workload.check(system, leaves, list(expected.values()))


def _size(made: Made) -> dict[str, Any]:
    """Return the size of the program."""
    lowered = made.lower()
    memory = lowered.compile().memory_analysis()
    sizes = "argument_size_in_bytes", "output_size_in_bytes", "temp_size_in_bytes"
    return {
        "equations": count(made.jaxpr()),
        "StableHLO": len(lowered.as_text()),
        "bytes": sum(getattr(memory, size) for size in sizes),
    }


def count(program: Any) -> int:
    """Count the equations of a program and of inner programs; a call itself does not count."""
    total = 0
    for eqn in getattr(program, "jaxpr", program).eqns:
        inner = sum(map(count, _programs(eqn.params.values())))
        total += inner + (eqn.primitive.name not in ("jit", "pjit", "closed_call"))
    return total


def _programs(values: Any) -> list[Any]:
    """Return the programs among parameters."""
    found = []
    for x in values:
        found += _programs(x) if isinstance(x, tuple | list) else [x] if _is_program(x) else []
    return found


def _is_program(x: Any) -> bool:
    return hasattr(getattr(x, "jaxpr", x), "eqns")


CLOCKS = {"wall": time.perf_counter, "cpu": time.process_time, "thread": time.thread_time}
"""Wall time, processor time of all threads, and processor time of the calling thread."""


def timed(function: Callable[..., Any], args: Sequence[Any], repeats: int) -> list[float]:
    """Return the microseconds of a call, including its result, by each clock."""
    before = [clock() for clock in CLOCKS.values()]
    for _ in range(repeats):
        jax.block_until_ready(function(*args))
    after = [clock() for clock in CLOCKS.values()]
    return [1e6 * (y - x) / repeats for x, y in zip(before, after, strict=True)]


def cost(function: Callable[..., Any], args: Sequence[Any], rounds: int = 100) -> dict[str, float]:
    """Return the microseconds of a call, including its result: the median over rounds."""
    repeats = _repeats(function, args)
    return _medians([timed(function, args, repeats) for _ in range(rounds)])


def costs_in_turn(
    functions: dict[str, Callable[..., Any]], args: Sequence[Any], seconds: float = 0.3
) -> dict[str, Any]:
    """Return the cost of calls of several functions: medians over single calls in turn.

    The order is shuffled, so that no function always follows the same other one. "above bare" is
    the median difference to the bare program, in microseconds of the calling thread; single
    differences vary by more than that.
    """
    order, shuffle = list(functions), random.Random(0).shuffle
    taken: dict[str, list[list[float]]] = {name: [] for name in functions}
    for f in list(functions.values()) * 3:
        timed(f, args, 1)
    end = time.perf_counter() + seconds * len(functions)
    while time.perf_counter() < end:
        for name in order:
            taken[name].append(timed(functions[name], args, 1))
        shuffle(order)
    found: dict[str, Any] = {name: _medians(t) for name, t in taken.items()}
    if "bare" in functions:
        pairs = zip(taken["jaxprgen"], taken["bare"], strict=True)
        found["above bare"] = statistics.median(ours[2] - bare[2] for ours, bare in pairs)
    return found


def _medians(taken: list[list[float]]) -> dict[str, float]:
    return dict(zip(CLOCKS, map(statistics.median, zip(*taken, strict=True)), strict=True))


def _repeats(function: Callable[..., Any], args: Sequence[Any]) -> int:
    """Return how many calls take about a millisecond."""
    times = []
    for _ in range(10):
        start = time.perf_counter()
        jax.block_until_ready(function(*args))
        times.append(time.perf_counter() - start)
    return max(1, min(20, round(1e-3 / min(times))))


def _calls_of(made: Made, args: Sequence[Any]) -> dict[str, Any]:
    """Return the cost of calls with JAX arrays and with NumPy arrays."""
    kinds = {"JAX": list(map(jnp.asarray, args))} if made.lower else {}
    if all(isinstance(x, np.ndarray) for x in args):
        kinds["NumPy"] = list(args)
    return {kind: cost(made.call, arrays) for kind, arrays in kinds.items()}


def _calls_in_turn(workload: Workload, name: str, ours: Made, folder: Path) -> dict[str, Any]:
    """Measure calls in turn: by hand, compiled, and the bare jitted program."""
    import jaxprgen
    from compare.library import aesara_library

    args = workload.arguments()
    functions = {"jaxprgen": ours.call, "by hand": SYSTEMS["by hand"](workload, args)().call}
    if workload.slopes:
        inputs, (value, *_) = workload.graph(aesara_library())
        compiled = jaxprgen.compile(inputs, value)
        functions["jax.grad"] = jax.jit(jax.value_and_grad(compiled, workload.slopes))
        _check(workload, name, "jax.grad", functions["jax.grad"](*args), folder)
    if not workload.mapped and ours.jaxpr:
        functions["bare"] = jax.jit(jaxprgen.jaxpr_as_fun(ours.jaxpr()))
    return costs_in_turn(functions, list(map(jnp.asarray, args)))
