"""Compare log-densities of many PyMC models in several modes: ``python benchmarks/posteriors.py``.

The models are those of tests/pymc/models.py and of benchmarks/pymc_models.py, whose data are made:
regressions, hierarchies, mixtures, time series, Gaussian processes and others. Other suites are
chosen by ``--suite``: in ``distributions``, each distribution of PyMC has a model, with twelve
observations and its parameters as variables; ``bambi`` and ``extras`` are models that Bambi and
pymc-extras make, which must be installed. Names choose models. With ``--no-checks``, models do not
check their parameters, because PyTensor's JAX mode never does.

A row has the processor seconds to the first value and gradient, and the microseconds of one of 200
in a loop of a program, each step from where the one before leads, as a sampler makes them: by this
package and by PyTensor's JAX mode. Calls from Python are by both of these and by PyTensor's other
modes, ``--modes``. All is done in one process, in turns, without a cache of compiled programs.
"""

import argparse  # noqa: I001
import contextlib
import logging
import statistics
import sys
import time
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import jaxprgen  # First: it makes Aesara importable.
import jax
import library_models
import numpy as np
import pymc as pm
import pymc.sampling.jax as samplers
from pymc.distributions.shape_utils import change_dist_size

import jaxprgen.pymc

jax.config.update("jax_enable_x64", True)
sys.path[:0] = [str(Path(__file__).parents[1] / "tests" / name) for name in ("", "pymc")]

STEPS = 200
CALLS = 10_000
"""As many gradients as a sampler computes in seconds."""
RNG = np.random.default_rng(0)
PAIR = ("jaxprgen", "JAX")


def galleries() -> dict[str, Callable[[], Any]]:
    """Return functions that make the models, by name."""
    import models
    import pymc_models

    larger = {f"{name}, larger": partial(pymc_models.make, name) for name in pymc_models.MODELS}
    return models.MODELS | larger


def distributions() -> dict[str, Callable[[], Any]]:
    """Return functions that make a model of each distribution, at ordinary parameters."""
    from test_gradients_of_distributions import CASES, distribution

    def make(name: str) -> Any:
        parameters, values = CASES[name]
        middle = len(values) // 2
        # Equal numbers would be computed once, where a compiler unrolls loops over constants.
        observed = np.linspace(values[middle - 1], values[middle], 12)
        if isinstance(values[middle], int):
            observed = observed.round().astype(int)
        given: dict[str, Any] = {
            key: choices[len(choices) // 2] for key, choices in parameters.items()
        }
        with pm.Model() as model:
            for key, number in given.items():
                if isinstance(number, float) and key not in ("lower", "upper", "low", "high"):
                    given[key] = pm.Flat(key, initval=number)
            law = change_dist_size(distribution(name, **given), (len(observed),))
            model.register_rv(law, "y", observed=observed)
        return model

    own = [name for name in CASES if not name.startswith("Transformed")]
    return {name: partial(make, name) for name in own}


def densities(model: Any) -> dict[str, Callable[[Any], Any]]:
    """Return functions of a point that give the value and the gradient, by JAX."""

    def ours() -> Any:
        return jaxprgen.pymc.logp(model)

    def theirs() -> Any:
        f = samplers.get_jaxified_logp(model)
        return lambda point: f([point[v.name] for v in model.value_vars])

    return dict(zip(PAIR, (ours, theirs), strict=True))


def first(make: Callable[[], Any], point: Any) -> tuple[float, Any, Any]:
    """Return processor seconds to the first value and gradient, the function, and the value."""
    start = time.process_time()
    function = jax.value_and_grad(make())
    found = jax.block_until_ready(jax.jit(function)(point))
    return time.process_time() - start, function, found


def looped(function: Any, point: Any) -> Callable[[], float]:
    """Return a function that measures the seconds of a value and gradient in a loop."""

    def step(_: Any, carry: Any) -> Any:
        here, total = carry
        value, slope = function(here)
        return jax.tree.map(lambda x, d: x + 1e-9 * d, here, slope), total + value

    run = jax.jit(lambda point: jax.lax.fori_loop(0, STEPS, step, (point, 0.0))[1])
    jax.block_until_ready(run(point))

    def measure() -> float:
        start = time.perf_counter()
        jax.block_until_ready(run(point))
        return (time.perf_counter() - start) / STEPS

    return measure


def from_python(function: Any, argument: Any) -> Callable[[], float]:
    """Return a function that measures the seconds of a call."""

    def measure() -> float:
        start = time.perf_counter()
        jax.block_until_ready(function(argument))
        return time.perf_counter() - start

    return measure


def in_turns(measures: dict[str, Callable[[], float]], rounds: int) -> dict[str, float]:
    """Return medians of measurements that are taken in turns, in random order."""
    times: dict[str, list[float]] = {name: [] for name in measures}
    for _ in range(rounds):
        for name in RNG.permutation(list(measures)):
            times[name].append(measures[name]())
    return {name: statistics.median(found) for name, found in times.items()}


def compare(model: Any, modes: list[str]) -> dict[str, dict[str, float]]:
    """Return the times of one model: to the first number, of calls in a loop, and from Python."""
    if model.discrete_value_vars:
        raise NotImplementedError("It has discrete variables.")
    point = model.initial_point()
    start = {name: np.asarray(x, dtype=x.dtype) for name, x in point.items()}
    found = {name: first(make, start) for name, make in densities(model).items()}
    (value, slope), *others = (result for _, _, result in found.values())
    for result in others:
        if not all(np.isfinite(x).all() for x in jax.tree.leaves(result)):
            raise FloatingPointError("PyTensor's value or gradient by JAX is not finite.")
        np.testing.assert_allclose(result[0], value, rtol=1e-6)
        jax.tree.map(
            lambda x, y: np.testing.assert_allclose(x, y, rtol=1e-5, atol=1e-8), result[1], slope
        )
    loops = in_turns({name: looped(f, start) for name, (_, f, _) in found.items()}, 15)
    on_device = jax.device_put(start)
    calls = {name: from_python(jax.jit(f), on_device) for name, (_, f, _) in found.items()}
    for mode in modes:
        own = model.logp_dlogp_function(ravel_inputs=True, mode=mode)
        own.set_extra_values({})
        calls[mode] = from_python(own, pm.blocking.DictToArrayBijection.map(point))
    return {
        "first": {name: seconds for name, (seconds, _, _) in found.items()},
        "loop": loops,
        "call": in_turns(calls, 200),
    }


def main() -> None:
    """Print a row for each model, and what all have in common."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--suite", choices=_SUITES, default="galleries")
    parser.add_argument("--no-checks", action="store_true")
    parser.add_argument("--modes", nargs="*", default=["NUMBA"], help="of PyTensor, beside JAX")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    logging.disable(logging.WARNING)
    print(f"pymc {pm.__version__}, jax {jax.__version__}, {jax.default_backend()}\n")
    modes = [*PAIR, *options.modes]
    heads = [f"{kind}, {who}" for kind, every in _COLUMNS for who in (modes if every else PAIR)]
    print("|".join(["| model ", *(f" {head} " for head in heads), ""]))
    print("|" + "---|" * (len(heads) + 1))
    rows: list[dict[str, dict[str, float]]] = []
    models = _SUITES[options.suite]()
    names = options.names or list(models)
    with contextlib.suppress(Exception):
        compare(models[names[0]](), [])  # What JAX and PyTensor do once in a process.
    for name in names:
        try:
            model = models[name]()
            model.check_bounds = not options.no_checks
            row = compare(model, options.modes)
        except Exception as error:
            print(f"| {name} | {type(error).__name__}: {str(error).splitlines()[0]} |", flush=True)
            continue
        rows.append(row)
        cells = [f"{row['first'][who]:.2f}" for who in PAIR]
        cells += [f"{row[kind][who] * 1e6:.2f}" for kind in ("loop", "call") for who in row[kind]]
        print(f"| {name} | {' | '.join(cells)} |", flush=True)
    for kind, every in _COLUMNS:
        for who in (modes if every else PAIR)[1:]:
            summarize(f"{kind}, {who}", [row[kind][who] / row[kind][PAIR[0]] for row in rows])
    waits = [[row["first"][who] + CALLS * row["loop"][who] for who in PAIR] for row in rows]
    summarize(f"first and {CALLS:,} in a loop, JAX", [theirs / ours for ours, theirs in waits])


def summarize(what: str, ratios: list[float]) -> None:
    """Print the geometric mean, the median and the ends of ratios of times, theirs to ours."""
    print(
        f"\n{what} / {PAIR[0]}: geometric mean {statistics.geometric_mean(ratios):.2f}, "
        f"median {statistics.median(ratios):.2f}, from {min(ratios):.2f} to {max(ratios):.2f}"
    )


_SUITES = {
    "galleries": galleries,
    "distributions": distributions,
    "bambi": library_models.bambi_models,
    "extras": library_models.extras_models,
}
"""Functions that return the models of each suite, by name."""

_COLUMNS = (("first", False), ("loop", False), ("call", True))
"""Kinds of times, and whether all modes have them."""

if __name__ == "__main__":
    main()
