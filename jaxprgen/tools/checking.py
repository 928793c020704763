"""Check graphs before they run, and find gradients that are not finite where their function is."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import jax
import numpy as np

from jaxprgen.api import compile
from jaxprgen.errors import ArgumentTypeError, GradientWarning, levels_to_user
from jaxprgen.graphs import check as graph_check
from jaxprgen.graphs.check import GraphCheck
from jaxprgen.runtime.compiled import CompiledFunction
from jaxprgen.tools.debugging import debug

_SCALES = (0.0, 1.0, 1.0, 2.0, 2.0)
"""The standard deviations of the steps from the given point to those that are tried."""

Point = Mapping[Any, Any]
"""Arrays by name, or by another key."""


def check(graph: Any, outputs: Any = None, *, point: Sequence[Any] | None = None) -> GraphCheck:
    """Find which part of a graph JAX can run, and what is in the way of the rest.

    The graph is lowered by the rules that `jaxprgen.compile` uses, for arguments of which only the
    declared types are known. The graph is not changed.

    Parameters
    ----------
    graph, outputs
        A `FunctionGraph`, or inputs and outputs, as `jaxprgen.compile` takes them.
    point : sequence of array, optional
        Arguments of a graph whose output is a scalar of floats, such as a log-density: its gradient
        is evaluated at this point and at four points around it. If it is NaN or infinite where the
        output is finite, a `GradientWarning` names the inputs and the user's line.

    Returns
    -------
    GraphCheck
        A verdict on every node, with a reason and a remedy; the inputs that decide shapes by
        their values, and the nodes of these shapes; and the largest part of the graph that
        compiles. To find that part, the graph is cut into stages: nodes with equally many blocked
        nodes between them and the inputs, or the outputs. One call computes a stage.

    Raises
    ------
    InvalidGraphError
        An input or output is not a variable, or an input is a constant or given twice, or there
        are no outputs.
        A missing input, or one that is not an array, is a finding and not an error.
    ArgumentTypeError
        The graph has a point, but another output.
    """
    found = graph_check.check(graph, outputs)
    if point is not None:
        _check_gradient(compile(graph, outputs), point)
    return found


class NotFinite(NamedTuple):
    """A point where a function is finite, and gradients by ``names`` are not."""

    point: Point
    value: float
    names: list[Any]


def not_finite(evaluate: Callable[[Point], tuple[Any, Point]], start: Point) -> NotFinite | None:
    """Look for such a point at ``start`` and around it; always at the same points.

    ``evaluate(point)`` returns the value, a float, and the gradients by name.
    """
    steps = np.random.default_rng(0)
    for scale in _SCALES:
        point: dict[Any, Any] = {}
        for name, x in start.items():
            x, step = np.asarray(x), scale * steps.standard_normal(np.shape(x))
            point[name] = (x + step).astype(x.dtype) if x.dtype.kind == "f" else x
        value, gradients = evaluate(point)
        names = [name for name, g in gradients.items() if not np.isfinite(np.asarray(g)).all()]
        if names and np.isfinite(value):
            return NotFinite(point, float(value), names)
    return None


def warn(what: str, value: float, names: Iterable[Any], where: str) -> None:
    """Issue a `GradientWarning` about a function and the names of arguments."""
    text = (
        f"The gradient of {what} with respect to {', '.join(map(repr, names))} is not finite at a "
        f"point where the value is {value:.6g}.{where}\n"
        "  Samplers cannot enter such a region, so that draws may follow another distribution.\n"
        "  Rewrite the formula, or the rule of its derivative, so that the derivative is finite."
    )
    warnings.warn(text, GradientWarning, stacklevel=levels_to_user())


def origin(gradient: Callable[..., Any], *args: Any) -> str:
    """Describe where NaN arises in a gradient: the operation, and the user's line."""
    debugger = debug(gradient, stop=False, find="nan")
    debugger(*args)
    found = next((x for x in debugger.findings if x.frame), None)
    return f"\n  It arises in {found.op}, {found.frame.built}" if found and found.frame else ""


def _check_gradient(f: CompiledFunction, point: Sequence[Any]) -> None:
    args = f.accepted(point)
    moving = tuple(i for i, x in enumerate(args) if np.asarray(x).dtype.kind == "f")
    results = f.jaxpr(*args).out_avals
    if not moving or [(x.shape, x.dtype.kind) for x in results] != [((), "f")]:
        raise ArgumentTypeError(
            "A point is for a graph with inputs of floats and one output, a scalar of floats."
        )
    gradient = jax.jit(jax.value_and_grad(f, moving))

    def evaluate(values: Point) -> tuple[Any, Point]:
        value, slopes = gradient(*values.values())
        return value, dict(zip(moving, slopes, strict=True))

    found = not_finite(evaluate, dict(enumerate(args)))
    if found:
        names = [f.inputs[i].name for i in found.names]
        where = origin(jax.grad(f, moving), *found.point.values())
        warn("the output", found.value, names, where)
