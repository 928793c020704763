"""Predicates: every kernel uses the same result of a comparison.

XLA computes a cheap array again in each kernel that reads it, and fuses some products with the sum
that they are terms of, which rounds differently. Where the sum cancels, as the squared distance of
a point from itself, it is then positive in one kernel and negative in another. Gradient terms that
should cancel, each as large as the slope of ``sqrt(max(x, 0) + 1e-12)``, then do not.

XLA repeats cheap operations even where an optimization barrier asks it not to, but it repeats no
square roots and divisions. JAX's derivative of ``max`` divides.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from jaxprgen._jax import ClosedJaxpr, JaxprEqn, Var
from jaxprgen.ir import Atom, Builder, primitives as lax
from jaxprgen.ir.rewriting import with_equations
from jaxprgen.passes.inlining import bound_to
from jaxprgen.passes.places import is_inexact

_LOGIC = frozenset({"and", "or", "not", "transpose", "broadcast_in_dim"})
_DEEPEST = 4


def computed_once(b: Builder, predicate: Atom) -> Atom:
    """Return a predicate whose elements XLA computes once; one element as it is."""
    if math.prod(predicate.aval.shape) == 1:
        return predicate
    number = lax.convert_element_type(b, predicate, np.dtype(np.float32))
    return lax.gt(b, lax.sqrt(b, number), b.literal(np.asarray(0.5, np.float32)))


def with_masks_computed_once(closed: ClosedJaxpr) -> ClosedJaxpr:
    """Return a program whose numbers 0 and 1 from comparisons of floats are computed once.

    The graph libraries multiply by them in derivatives of clips, maxima and minima.
    """
    makers = {v: eqn for eqn in closed.jaxpr.eqns for v in eqn.outvars}
    equations: list[JaxprEqn] = []
    for eqn in closed.jaxpr.eqns:
        v: Any = eqn.outvars[0] if eqn.outvars else None
        is_conversion = eqn.primitive.name == "convert_element_type" and v.aval.shape
        if is_conversion and is_inexact(v) and _compares_floats(eqn.invars[0], makers, _DEEPEST):
            b = Builder([eqn.invars[0].aval])
            b.source_info = eqn.source_info
            (x,) = eqn.invars
            number = lax.convert_element_type(b, x, v.aval.dtype)
            equations += bound_to(b, [lax.sqrt(b, number)], eqn.outvars)
        else:
            equations.append(eqn)
    is_same = all(x is y for x, y in zip(equations, closed.jaxpr.eqns, strict=False))
    return closed if is_same else with_equations(closed, equations)


def _compares_floats(x: Any, makers: dict[Any, JaxprEqn], depth: int) -> bool:
    """Return whether a value is a predicate, and depends on a comparison of floats."""
    eqn = makers.get(x) if type(x) is Var else None
    if eqn is None or not depth or x.aval.dtype != np.bool_:
        return False
    if eqn.primitive.name in _LOGIC:
        return any(_compares_floats(y, makers, depth - 1) for y in eqn.invars)
    return any(map(is_inexact, eqn.invars))
