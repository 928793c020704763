"""Loops for tests of passes that rewrite loops, and what is in their bodies."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
from jax import lax
from laws import all_equations

from jaxprgen._jax import open_jaxpr

xs = np.random.default_rng(0).normal(size=(6, 3))
w = np.random.default_rng(1).normal(size=(3, 3))
one = np.ones(3)


def loop(step: Any, start: Any) -> Any:
    """Return a function of rows and a matrix: a loop over the rows."""
    return lambda x, w, **options: lax.scan(lambda c, r: step(c, r, w), start, x, **options)


def printing(c: Any, r: Any, w: Any) -> Any:
    """Take a step that has an effect."""
    jax.debug.print("{}", r)
    return c + r, c


def scans(program: Any) -> list[Any]:
    """Return all loops of a program, and those inside."""
    return [e for e in all_equations(program.jaxpr) if e.primitive.name == "scan"]


def body_of(eqn: Any) -> list[str]:
    """Return the names of the primitives in the body of a loop."""
    return [e.primitive.name for e in open_jaxpr(eqn.params["jaxpr"]).eqns]


def only_body(program: Any) -> list[str]:
    """Return the names of the primitives in the body of a program's only loop."""
    (eqn,) = (e for e in program.jaxpr.eqns if e.primitive.name == "scan")
    return body_of(eqn)


def grown(values: list[Any], choices: Any, operations: Any) -> list[Any]:
    """Return values, and what chosen operations of two earlier ones make."""
    for which, i, j in choices:
        values.append(operations[which](values[i % len(values)], values[j % len(values)]))
    return values
