"""Measure what run-time checks cost: ``python benchmarks/checks.py``.

Functions of mode "JAXPR" are made with and without checks in turn. The time to the first number is
that on the processor, and the median of several functions. The time of a call is the median of many
calls, results included.
"""

import statistics  # noqa: I001
import time
import warnings
from collections.abc import Callable
from typing import Any

import jaxprgen  # First: it makes Aesara importable.
import aesara
import aesara.tensor as at
import aesara_graphs as graphs
import jax
import numpy as np
from aesara.raise_op import CheckAndRaise

jax.config.update("jax_enable_x64", True)

Graph = tuple[tuple[list[Any], Any], tuple[Any, ...]]
REPEATS, CALLS = 7, 2000


def positive(result: Any, *parameters: Any) -> Any:
    """Return a result that is checked as aeppl checks parameters."""
    for v in parameters:
        result = CheckAndRaise(ValueError, f"{v.name} > 0")(result, at.all(v > 0))
    return result


def without_checks() -> Graph:
    """Return a log-density that has nothing to check."""
    return graphs.horseshoe(100, 5)


def parameters() -> Graph:
    """Return a log-density with two checks of parameters."""
    (inputs, density), args = graphs.horseshoe(100, 5)
    _, tau, lam, *_ = inputs
    return (inputs, positive(density, tau, lam)), args


def groups() -> Graph:
    """Return a hierarchical log-density with its gradient: two arrays are read by index."""
    x, y, a, b = at.dvectors("x", "y", "a", "b")
    group, sigma = at.lvector("group"), at.dscalar("sigma")
    errors = (y - a[group] - b[group] * x) / sigma
    density = positive(at.sum(-0.5 * errors**2 - at.log(sigma)), sigma)
    rng = np.random.default_rng(0)
    args = *rng.normal(size=(2, 200)), rng.integers(0, 10, 200), *np.ones((2, 10)), np.asarray(1.0)
    return ([x, y, group, a, b, sigma], [density, *aesara.grad(density, [a, b, sigma])]), args


def loop() -> Graph:
    """Return a loop of 100 steps, each of which reads an array by an index."""
    x, start, index = at.dvector("x"), at.dscalar("start"), at.lvector("index")
    states, _ = aesara.scan(lambda i, s, x: at.tanh(s + x[i]), index, [start], [x])
    args = np.ones(10), np.asarray(0.5), np.arange(100) % 10
    return ([x, start, index], states), args


def many() -> Graph:
    """Return a chain of 200 operations, of which every tenth is checked."""
    z, y = at.dvectors("z", "y")
    inputs = [z, y]
    for i in range(200):
        z = (at.tanh, lambda z: z * y, lambda z: z + 1.5, lambda z: at.exp(-z))[i % 4](z)
        z = CheckAndRaise(ValueError, f"{i}")(z, at.all(z > -i - 9)) if i % 10 == 0 else z
    return (inputs, z), (np.ones(5), np.ones(5))


def first(make: Callable[[], Graph], checks: bool) -> tuple[float, Any, Any]:
    """Return the processor's seconds to the first number, the function, and its arguments."""
    (inputs, outputs), args = make()
    mode = jaxprgen.JaxprMode(jaxprgen.JaxprLinker(checks=checks), None)
    start = time.process_time()
    f = aesara.function(inputs, outputs, mode=mode)
    jax.block_until_ready(f(*args))
    return time.process_time() - start, f, [jax.numpy.asarray(x) for x in args]


def call(f: Any, args: Any) -> float:
    """Return the seconds of a call."""
    start = time.perf_counter()
    jax.block_until_ready(f(*args))
    return time.perf_counter() - start


def main() -> None:
    """Print one line for each graph."""
    warnings.simplefilter("ignore")
    print("graph             first number, ms: without, with    call, µs: without, with")
    for make in (without_checks, parameters, groups, loop, many):
        pairs = [(first(make, False), first(make, True)) for _ in range(REPEATS)]
        firsts = [statistics.median(pair[i][0] for pair in pairs) * 1e3 for i in (0, 1)]
        last = pairs[-1]
        taken = [[call(f, args) for _, f, args in last] for _ in range(CALLS)]
        calls = [statistics.median(row[i] for row in taken) * 1e6 for i in (0, 1)]
        name = make.__name__.replace("_", " ")
        print(f"{name:18}{firsts[0]:20.0f}{firsts[1]:6.0f}{calls[0]:26.0f}{calls[1]:6.0f}")


if __name__ == "__main__":
    main()
