"""Sink zeros: a zero that a choice put stays zero in the products that it is part of."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any

import numpy as np

from jaxprgen._jax import ClosedJaxpr, JaxprEqn, Literal, Var
from jaxprgen.ir import Atom, Builder, primitives as lax
from jaxprgen.ir.rewriting import each_program, with_equations
from jaxprgen.passes.conditions import (
    ALWAYS,
    NEVER,
    Choices,
    Condition,
    Conditions,
    both,
    either,
    moved,
)
from jaxprgen.passes.inlining import Inline
from jaxprgen.passes.meaning import Meaning
from jaxprgen.passes.places import is_complex, is_inexact, is_linear, result_axes

_PRODUCTS = frozenset({"mul", "div"})
_CHAIN = frozenset({*_PRODUCTS, "neg", "convert_element_type"})


@dataclass(frozen=True)
class SinkZeros:
    """Let a zero that a choice put win over whatever it multiplies.

    The gradient that Aesara or PyTensor writes for ``switch(x > 0, log(x), 0)`` is
    ``switch(x > 0, g, 0) / x``, which is NaN at ``x = 0``. Their default modes take the quotient
    into the choice, so that it is zero. This pass does the same at the end of each chain of
    products.

    A literal zero, or one that a choice put, times or over anything is zero, even if the other
    factor is NaN or infinite. Other values stay as they are. In programs of complex numbers,
    literal zeros may be parts of such numbers, and do not count.
    """

    meaning = Meaning.BETTER

    def __call__(self, closed: ClosedJaxpr) -> ClosedJaxpr:
        """Return the program with these choices, or the given one if it needs none.

        Parameters
        ----------
        closed : ClosedJaxpr
            The program. It is not changed.
        """
        inlined = Inline()(closed)  # `jax.numpy.where` is a call.
        found = each_program(inlined, _sunk)
        return closed if found is inlined else found


def _sunk(closed: ClosedJaxpr) -> ClosedJaxpr:
    jaxpr = closed.jaxpr
    if not any(eqn.primitive.name in _PRODUCTS for eqn in jaxpr.eqns):
        return closed
    b = Builder([v.aval for v in jaxpr.invars])  # Sets `plain` by the types.
    if not b.plain:
        return closed
    nonzero, wanted = _analyzed(jaxpr.eqns, jaxpr.outvars)
    if not wanted:
        return closed
    renamed: dict[Any, Any] = {}
    equations: list[JaxprEqn] = []
    conditions = Conditions(b, lambda v: renamed.get(v, v))
    for eqn in jaxpr.eqns:
        operands = [renamed.get(x, x) if type(x) is Var else x for x in eqn.invars]
        equations.append(eqn.replace(invars=operands))
        v = eqn.outvars[0] if len(eqn.outvars) == 1 else None
        if v in wanted:
            b.source_info = eqn.source_info
            renamed[v] = _cleared(b, v, nonzero[v], conditions)
            equations += b.take()
    outputs = [renamed.get(x, x) if type(x) is Var else x for x in jaxpr.outvars]
    return with_equations(closed, equations, outputs, dict(b.constants))


def _cleared(b: Builder, v: Any, nonzero: Condition, conditions: Conditions) -> Atom:
    shape = v.aval.shape
    zero = lax.full(b, 0, shape, v.aval.dtype)
    if nonzero == NEVER:  # A factor is the number zero: the product has a sign, or is NaN.
        return lax.select_n(b, lax.ne(b, v, v), v, zero)
    return lax.select_n(b, conditions(nonzero, shape), zero, v)


def _analyzed(eqns: Any, outputs: Any) -> tuple[dict[Any, Condition], set[Any]]:
    """Return where values are not zeros of a choice, and the products that must be cleared."""
    choices = Choices(eqns)
    nonzero: dict[Any, Condition] = {}
    is_product: dict[Any, bool] = {}
    wanted: set[Any] = set()

    of_zero = ALWAYS if any(is_complex(v) for eqn in eqns for v in eqn.outvars) else NEVER

    def of(x: Any, is_factor: bool) -> Condition:
        if isinstance(x, Literal):
            # A product with the number -0 keeps its sign where it is no NaN; a choice would not.
            is_zero = np.ndim(x.val) == 0 and x.val == 0
            return of_zero if is_zero and (is_factor or not np.signbit(x.val.real)) else ALWAYS
        return nonzero.get(x, ALWAYS)

    def read(x: Any) -> None:
        if type(x) is Var and is_product.get(x):
            wanted.add(x)

    for eqn in eqns:
        name = eqn.primitive.name
        if len(eqn.outvars) == 1 and is_inexact(eqn.outvars[0]):
            v = eqn.outvars[0]
            found = _nonzero(eqn, [of(x, name in _PRODUCTS) for x in eqn.invars], choices)
            if found != ALWAYS:
                nonzero[v] = found
                is_product[v] = name in _PRODUCTS or (
                    name in _CHAIN and any(is_product.get(x) for x in eqn.invars if type(x) is Var)
                )
        for x in eqn.invars:
            if name not in _CHAIN or (name == "div" and x is not eqn.invars[0]):
                read(x)
    for x in outputs:
        read(x)
    return nonzero, wanted


def _nonzero(eqn: JaxprEqn, operands: list[Condition], choices: Choices) -> Condition:
    """Return where the result of an equation is not a zero of a choice."""
    name = eqn.primitive.name
    if name == "select_n":
        cases = enumerate(operands[1:])
        own = [both(found, choices.case(eqn.invars[0], case)) for case, found in cases]
        return functools.reduce(either, own, NEVER)
    own = [moved(r, result_axes(eqn, i)) for i, r in enumerate(operands)]
    if name == "mul":
        return both(*own)
    if name == "div":
        return own[0]
    if name in ("add", "sub", "add_any", "neg", "convert_element_type", "concatenate", "pad") or (
        len(own) == 1 and is_linear(eqn)
    ):
        return functools.reduce(either, own, NEVER)
    return ALWAYS
