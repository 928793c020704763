"""Compile models whose compile time users reported: ``python benchmarks/reported.py``.

Each model is a JAX function that a Python loop writes out, re-created from the description in its
issue. `jax.jit` compiles its value and gradient as they are, and rewritten by `DEFAULT`, in turn,
each time in a fresh process. Either way, JAX traces the model once, which no pass can save:
each time is that of everything, and after the slash that of what follows tracing. Times are
processor times of all threads, which other processes delay less. Memory is that of temporary
values and results.
"""

import argparse
import json
import time
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from jax.scipy.stats import norm
from processes import in_turn

import jaxprgen
from jaxprgen.ir.programs import count_equations
from jaxprgen.passes import DEFAULT

jax.config.update("jax_enable_x64", True)

Model = tuple[Callable[..., Any], tuple[Any, ...]]
RNG = np.random.default_rng(0)


def marginalized(n: int) -> Model:
    """Return JAX issue 17335: observations of a mean that is marginalized one by one."""

    def log_density(log_s: Any, y: Any) -> Any:
        mean, variance, s = 0.0, 1.0, jnp.exp(log_s)
        total = norm.logpdf(log_s)
        for i in range(n):
            predicted = variance + s**2
            total += norm.logpdf(y[i], mean, jnp.sqrt(predicted))
            gain = variance / predicted
            mean, variance = mean + gain * (y[i] - mean), variance * (1 - gain)
        return total

    return log_density, (0.3, RNG.normal(size=n))


def gates(n: int) -> Model:
    """Return JAX issue 2777: random gates between two arrays, one after the other."""

    @jax.jit
    def step(key: Any, a: Any, b: Any) -> Any:
        key, own = jax.random.split(key)
        gate = jax.random.uniform(own, (8, 1))
        a, b = [0.5 * (x + gate * a + (1 - gate) * b) for x in (a, b)]
        return key, a, b

    def total(scale: Any) -> Any:
        key = jax.random.PRNGKey(1)
        a, b = [scale * jnp.tile(jnp.array(x), (8, 1)) for x in ([1.0, 0.0], [0.0, 1.0])]
        for _ in range(n):
            key, a, b = step(key, a, b)
        return jnp.sum(a**2)

    return total, (1.5,)


def power_flow(n: int) -> Model:
    """Return NumPyro issue 543: voltages of a grid, given powers of buses and currents of lines."""
    z = RNG.uniform(0.01, 0.03, (n, n)) + 1j * RNG.uniform(0.03, 0.06, (n, n))
    power, current = RNG.normal(size=(n, 2)), RNG.uniform(size=(n, n))

    def log_density(voltage: Any) -> Any:
        magnitude, angle = voltage
        u = magnitude * jnp.exp(1j * angle)
        total = jnp.sum(norm.logpdf(magnitude, 1.0, 0.1)) + jnp.sum(norm.logpdf(angle, 0.0, 0.1))
        for i in range(n):
            flow = 0.0
            for j in range(n):
                if i != j:
                    line = (u[i] - u[j]) / z[i, j]
                    total += norm.logpdf(current[i, j], jnp.abs(line), 0.1)
                    flow += u[i] * jnp.conj(line)
            total += norm.logpdf(power[i, 0], jnp.real(flow), 0.1)
            total += norm.logpdf(power[i, 1], jnp.imag(flow), 0.1)
        return total

    return log_density, ((RNG.uniform(0.9, 1.1, n), RNG.uniform(-0.1, 0.1, n)),)


def variables(n: int) -> Model:
    """Return PyMC issue 7044: a regression of five outputs with one variable per coefficient."""
    outputs, rows = 5, 100
    x, y = RNG.normal(size=(rows, n // outputs)), RNG.normal(size=(rows, outputs))

    def log_density(parameters: Any) -> Any:
        total = 0.0
        for k in range(outputs):
            mean, scale = 0.0, jnp.exp(parameters[f"log_scale_{k}"])
            for i in range(n // outputs):
                coefficient = parameters[f"coefficient_{k}_{i}"]
                total += norm.logpdf(coefficient, 0.0, 0.5)
                mean += coefficient * x[:, i]
            total += jnp.sum(norm.logpdf(y[:, k], mean, scale))
        return total

    names = [f"coefficient_{k}_{i}" for k in range(outputs) for i in range(n // outputs)]
    scales = [f"log_scale_{k}" for k in range(outputs)]
    return log_density, ({name: float(RNG.normal()) for name in (*names, *scales)},)


def flat_variables(n: int) -> Model:
    """Return the same with one vector of all variables, which is what a sampler passes."""
    log_density, (parameters,) = variables(n)
    vector, unravel = ravel_pytree(parameters)
    return lambda x: log_density(unravel(x)), (vector,)


MODELS: dict[str, tuple[Callable[[int], Model], int]] = {
    "JAX 17335, marginalized terms": (marginalized, 200),
    "JAX 2777, random gates": (gates, 80),
    "NumPyro 543, power flow": (power_flow, 16),
    "PyMC 7044, variables": (variables, 300),
    "PyMC 7044, variables in one vector": (flat_variables, 300),
}
"""Models with their sizes: the number of terms, gates, buses or coefficients."""


def measure(name: str, passes: Any) -> dict[str, float]:
    """Return the seconds to compile the value and gradient of a model, and what results."""
    model, n = MODELS[name]
    function, arguments = model(n)
    both, tracing = jax.value_and_grad(function), 0.0

    def traced(*arguments: Any) -> Any:
        nonlocal tracing
        start = time.process_time()
        found = both(*arguments)
        tracing = time.process_time() - start
        return found

    f = jax.jit(jaxprgen.transform(traced, *passes) if passes else traced)
    jax.jit(lambda x: x + 1)(1.0)  # JAX's own start.
    start = time.process_time()
    program = f.trace(*arguments)
    memory: Any = program.lower().compile().memory_analysis()
    whole = time.process_time() - start
    return {
        "whole": whole,
        "rest": whole - tracing,
        "equations": count_equations(program.jaxpr),
        "memory": memory.temp_size_in_bytes + memory.output_size_in_bytes,
    }


def main() -> None:
    """Print a table, or as JSON the figures of one model in this process."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--one", nargs=2)
    options = parser.parse_args()
    if options.one:
        name, which = options.one
        print(json.dumps(measure(name, DEFAULT if which == "default" else ())))
        return
    print(f"jax {jax.__version__}, numpy {np.__version__}; medians of {options.rounds} processes")
    print("| model | size | `jax.jit`, s | with passes, s | ratio | equations | memory, kB |")
    print("|---|---|---|---|---|---|---|")
    for name, (_, n) in MODELS.items():
        old, new = in_turn(__file__, options.rounds, [(name, "jit"), (name, "default")])
        times = [f"{row['whole']:.1f} / {row['rest']:.1f}" for row in (old, new)]
        ratios = " / ".join(f"{old[key] / new[key]:.0f}" for key in ("whole", "rest"))
        counts = f"{old['equations']:,.0f} → {new['equations']:,.0f}"
        sizes = f"{old['memory'] / 1e3:.0f} → {new['memory'] / 1e3:.0f}"
        print(f"| {name} | {n} | {' | '.join(times)} | {ratios} | {counts} | {sizes} |", flush=True)


if __name__ == "__main__":
    main()
