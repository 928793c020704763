"""Warn of gradients of a model that samplers cannot use."""

# pyright: reportMissingImports=false, reportAttributeAccessIssue=false
# Checks run without PyMC, too.

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np
from pymc.blocking import DictToArrayBijection, RaveledVars

from jaxprgen.pymc.functions import RandomModelFunction, logp
from jaxprgen.tools.checking import Point, not_finite, origin, warn


def check_by_jax(model: Any) -> None:
    """Warn if `jax.grad` of a model's log-density is not finite where the density is."""
    density = logp(model)
    if not isinstance(density, RandomModelFunction):  # Draws of data take a key.
        _check(model, jax.jit(jax.value_and_grad(density)))


def check_raveled(model: Any, evaluate: Callable[[Any], Sequence[Any]]) -> None:
    """Warn if a sampler's own gradient is not finite where the density is.

    ``evaluate`` takes a point as `RaveledVars`. It returns the terms of the density, and the
    gradient as a flat array.
    """
    names = [v.name for v in model.continuous_value_vars]

    def by_name(point: Point) -> tuple[Any, Point]:
        raveled = DictToArrayBijection.map({name: point[name] for name in names})
        *terms, slopes = evaluate(raveled)
        return sum(terms), DictToArrayBijection.rmap(RaveledVars(slopes, raveled.point_map_info))

    _check(model, by_name)


def _check(model: Any, evaluate: Callable[[Point], tuple[Any, Point]]) -> None:
    if model.discrete_value_vars:
        return  # Other step methods choose their values.
    start = {name: np.asarray(x) for name, x in model.initial_point().items()}
    found = not_finite(evaluate, start)
    if found:
        warn("the log-density", found.value, found.names, _term(model, found.point))


def _term(model: Any, point: Point) -> str:
    """Return the name of the term whose gradient is not finite, and where NaN arises in it."""
    for variable in [*model.free_RVs, *model.observed_RVs, *model.potentials]:
        gradient = jax.grad(logp(model, [variable]))
        if not all(np.isfinite(slope).all() for slope in gradient(point).values()):
            return f"\n  The term is that of {variable.name!r}.{origin(gradient, point)}"
    return ""
