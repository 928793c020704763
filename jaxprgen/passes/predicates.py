"""Predicates: a comparison says the same wherever it is read."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from typing import Any

import numpy as np

from jaxprgen._jax import ClosedJaxpr, JaxprEqn, Var
from jaxprgen.ir import Atom, Builder, primitives as lax
from jaxprgen.ir.rewriting import each_program, with_equations
from jaxprgen.passes.places import is_inexact

_COMPARISONS = frozenset({"lt", "le", "gt", "ge", "eq"})
_SUMS = frozenset({"add", "sub"})
_PRODUCTS = frozenset({"mul", "square", "integer_pow"})
_CHEAP = _SUMS | _PRODUCTS
_CHEAP |= {"broadcast_in_dim", "reshape", "squeeze", "transpose", "convert_element_type"}
_CHEAP |= {"neg", "abs", "max", "min", "clamp", "select_n"}
_DEEPEST = 6


def settled(closed: ClosedJaxpr) -> ClosedJaxpr:
    """Return a program that compares each sum of products once, see `may_cancel`."""
    return each_program(closed, _settled)


def _settled(closed: ClosedJaxpr) -> ClosedJaxpr:
    makers = {v: eqn for eqn in closed.jaxpr.eqns for v in eqn.outvars}
    b = Builder([v.aval for v in closed.jaxpr.invars])
    held: dict[Any, Any] = {}
    equations: list[JaxprEqn] = []

    def read(atoms: Sequence[Any]) -> list[Any]:
        return [held.get(x, x) if type(x) is Var else x for x in atoms]

    for eqn in closed.jaxpr.eqns:
        equations.append(eqn.replace(invars=read(eqn.invars)))
        is_comparison = eqn.primitive.name in _COMPARISONS
        if is_comparison and any(may_cancel(x, makers) for x in eqn.invars):
            b.source_info = eqn.source_info
            (v,) = eqn.outvars
            held[v] = computed_once(b, v)
            equations += b.take()
    if not held:
        return closed
    return with_equations(closed, equations, read(closed.jaxpr.outvars))


def may_cancel(x: Any, makers: Mapping[Any, JaxprEqn]) -> bool:
    """Return whether an array depends on sums with products among their terms.

    XLA computes a cheap array again in each kernel that reads it, and fuses some of the products
    with the sum, which rounds otherwise. Where the sum cancels, as the squared distance of a point
    from itself, it is then positive in one kernel and negative in another. Terms of a gradient that
    cancel, each as large as the slope of ``sqrt(max(x, 0) + 1e-12)``, would no longer do.

    Parameters
    ----------
    x : atom
        The array.
    makers : mapping of Var to JaxprEqn
        The equation of each variable.
    """
    return bool(x.aval.shape) and is_inexact(x) and _has(x, makers, _SUMS, _DEEPEST)


def _has(x: Any, makers: Mapping[Any, JaxprEqn], names: Container[str], depth: int) -> bool:
    """Return whether cheap equations lead from an equation of this kind to an atom.

    A sum must have a product among what leads to it.
    """
    eqn = makers.get(x) if type(x) is Var else None
    if eqn is None or not depth or eqn.primitive.name not in _CHEAP:
        return False
    is_found = eqn.primitive.name in names
    if is_found and names is _SUMS:
        is_found = any(_has(y, makers, _PRODUCTS, depth) for y in eqn.invars)
    return is_found or any(_has(y, makers, names, depth - 1) for y in eqn.invars)


def computed_once(b: Builder, predicate: Atom) -> Atom:
    """Return a boolean array that XLA keeps, and does not compute again where it is read.

    XLA repeats cheap operations, and an optimization barrier does not keep it from that. It repeats
    no square roots.
    """
    number = lax.convert_element_type(b, predicate, np.dtype(np.float32))
    return lax.gt(b, lax.sqrt(b, number), b.literal(np.asarray(0.5, np.float32)))
