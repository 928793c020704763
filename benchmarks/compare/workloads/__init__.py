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
    scalars,
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
    nodes
        The number of nodes of the graph, if only the cost of making programs is measured.
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
    nodes: int = 0
    check: Callable[[str, Any, Any], None] = agree


def _chain(nodes: int, title: str, only_programs: bool) -> Workload:
    graph = functools.partial(elementwise.graph, n=nodes)
    by_hand = functools.partial(elementwise.by_hand, n=nodes)
    return Workload(
        title, graph, by_hand, elementwise.arguments, nodes=nodes if only_programs else 0
    )


def _unrolled(steps: int) -> Workload:
    return Workload(
        f"AR(1), {steps} steps unrolled, and gradient",
        functools.partial(autoregression.unrolled, steps=steps),
        functools.partial(autoregression.unrolled_by_hand, steps=steps),
        functools.partial(autoregression.arguments, steps),
    )


SIZES = 100, 1_000, 10_000, 100_000

WORKLOADS: dict[str, Workload] = {
    "chain": _chain(200, "chain of 200 elementwise operations", False),
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
    **{f"unrolled-{n}": _unrolled(n) for n in (20, 40, 80, 160)},
    "scalars": Workload(
        "500 scalar normals and gradient", scalars.graph, scalars.by_hand, scalars.arguments
    ),
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
    **{f"nodes-{n}": _chain(n, f"chain of {n:,} operations", True) for n in SIZES},
}
