"""The workloads, for graph libraries and by hand."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from compare.workloads import (
    autoregression,
    elementwise,
    gaussian_process,
    logistic,
    network,
    prior,
    radon,
    schools,
)


def agree(system: str, results: Any, expected: Any) -> None:
    """Check that results equal those by hand; NumPyro's density is negated."""
    sign = -1 if system == "numpyro" else 1
    for x, y in zip(results, expected, strict=True):
        scale = max(1.0, float(np.max(np.abs(y), initial=0)))
        np.testing.assert_allclose(sign * np.asarray(x), y, rtol=1e-8, atol=1e-10 * scale)


class Workload(NamedTuple):
    """A computation, as a graph and by hand.

    Attributes
    ----------
    title
        The name on the page.
    graph
        Returns inputs and outputs, in a `compare.library.Library`.
    by_hand
        The same computation in `jax.numpy`.
    arguments
        Returns NumPy arrays, or JAX keys.
    slopes
        The arguments to differentiate the compiled value with `jax.grad`, if that is measured.
    numpyro
        Returns NumPyro's function of the same model.
    mapped
        The graph of all draws, for systems that cannot map ``graph``, which makes one draw.
    steps
        The number of steps of the graph, if only the time to the first number is measured.
    check
        Compares results with those by hand.
    """

    title: str
    graph: Callable[[Any], tuple[list[Any], list[Any]]]
    by_hand: Callable[..., Any]
    arguments: Callable[[], tuple[Any, ...]]
    slopes: tuple[int, ...] = ()
    numpyro: Callable[[], Callable[..., Any]] | None = None
    mapped: Callable[[Any], tuple[list[Any], list[Any]]] | None = None
    steps: int = 0
    check: Callable[[str, Any, Any], None] = agree


def _unrolled(steps: int, only_first: bool) -> Workload:
    return Workload(
        f"AR(1), {steps:,} steps unrolled, and gradient",
        functools.partial(autoregression.unrolled, steps=steps),
        functools.partial(autoregression.unrolled_by_hand, steps=steps),
        functools.partial(autoregression.arguments, steps),
        steps=steps if only_first else 0,
    )


STEPS = 30, 100, 300, 1_000, 3_000
"""The sizes of a model that grows."""

WORKLOADS: dict[str, Workload] = {
    "chain": Workload(
        "chain of 200 elementwise operations",
        functools.partial(elementwise.graph, n=200),
        functools.partial(elementwise.by_hand, n=200),
        elementwise.arguments,
    ),
    "logistic": Workload(
        "logistic regression and gradient",
        logistic.graph,
        logistic.by_hand,
        logistic.arguments,
        (2,),
    ),
    "schools": Workload(
        "eight schools and gradient",
        schools.graph,
        schools.by_hand,
        schools.arguments,
        (0, 1, 2),
        schools.numpyro,
    ),
    "radon": Workload(
        "radon and gradient",
        radon.graph,
        radon.by_hand,
        radon.arguments,
        (0, 1, 2, 3, 4),
        radon.numpyro,
    ),
    "scan": Workload(
        "AR(1), loop of 1,000 steps, and gradient",
        functools.partial(autoregression.scanned, steps=1000),
        functools.partial(autoregression.scanned_by_hand, steps=1000),
        lambda: autoregression.arguments(1000)[1:],
        (0, 1),
    ),
    "unrolled-80": _unrolled(80, False),
    "process": Workload(
        "Gaussian process of 200 points and gradient",
        gaussian_process.graph,
        gaussian_process.by_hand,
        gaussian_process.arguments,
        (0, 1),
    ),
    "network": Workload(
        "convolutional network and gradient",
        network.graph,
        network.by_hand,
        network.arguments,
        (2, 3, 4),
    ),
    "prior": Workload(
        "1,000 draws of a prior",
        prior.graph,
        prior.by_hand,
        prior.arguments,
        mapped=prior.graph_of_all,
        check=prior.check,
    ),
    **{f"steps-{n}": _unrolled(n, True) for n in STEPS},
}
