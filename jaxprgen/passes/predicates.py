"""Predicates: every kernel uses the same result of a comparison.

XLA computes a cheap array again in each kernel that reads it, and fuses some products with the sum
that they are terms of, which rounds differently. Where the sum cancels, as the squared distance of
a point from itself, it is then positive in one kernel and negative in another. Gradient terms that
should cancel, each as large as the slope of ``sqrt(max(x, 0) + 1e-12)``, then do not.

XLA repeats cheap operations even where an optimization barrier asks it not to, but it repeats no
square roots and divisions. JAX's derivative of ``max`` divides.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from jaxprgen._jax import ClosedJaxpr, JaxprEqn, Var
from jaxprgen.ir import Atom, Builder, primitives as lax
from jaxprgen.ir.rewriting import with_equations
from jaxprgen.passes.inlining import bound_to
from jaxprgen.passes.places import is_complex, is_inexact

_LOGIC = frozenset({"and", "or", "not", "transpose", "broadcast_in_dim"})
_DEEPEST = 4


def computed_once(b: Builder, predicate: Atom) -> Atom:
    """Return a predicate whose elements XLA computes once; a scalar as it is."""
    if not predicate.aval.shape:
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
        if not _is_mask(eqn, makers):
            equations.append(eqn)
            continue
        (x,), (v,) = eqn.invars, eqn.outvars
        b = Builder([x.aval])  # type: ignore[list-item]
        b.source_info = eqn.source_info
        number = lax.convert_element_type(b, x, v.aval.dtype)  # type: ignore[arg-type]
        equations += bound_to(b, [lax.sqrt(b, number)], [v])
    is_same = len(equations) == len(closed.jaxpr.eqns)
    return closed if is_same else with_equations(closed, equations)


def _is_mask(eqn: JaxprEqn, makers: dict[Any, JaxprEqn]) -> bool:
    """Return whether an equation makes numbers of predicates that compare floats."""
    if eqn.primitive.name != "convert_element_type":
        return False
    v: Any = eqn.outvars[0]
    is_array = v.aval.shape and is_inexact(v) and not is_complex(v)
    return bool(is_array) and _compares_floats(eqn.invars[0], makers, _DEEPEST)


def _compares_floats(x: Any, makers: dict[Any, JaxprEqn], depth: int) -> bool:
    """Return whether a value is a predicate, and depends on a comparison of floats."""
    eqn = makers.get(x) if type(x) is Var else None
    if eqn is None or not depth or x.aval.dtype != np.bool_:
        return False
    if eqn.primitive.name in _LOGIC:
        return any(_compares_floats(y, makers, depth - 1) for y in eqn.invars)
    return any(map(is_inexact, eqn.invars))
