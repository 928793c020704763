"""Derivatives that XLA compiles to fewer kernels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from jaxprgen import _jax
from jaxprgen._jax import ClosedJaxpr, JaxprEqn, Literal
from jaxprgen.emit import primitives as emit
from jaxprgen.emit.custom_derivatives import with_derivatives
from jaxprgen.emit.values import Value
from jaxprgen.ir import Atom, Builder
from jaxprgen.ir import primitives as lax
from jaxprgen.ir.rewriting import rewritten
from jaxprgen.passes.inlining import bound_to
from jaxprgen.passes.meaning import Meaning

_MANY = 8
"""Fewer rows are left to XLA, which can fuse their slices with other work."""


@dataclass(frozen=True)
class FewerKernels:
    """Give two primitives derivatives that compile sooner, with the same values.

    ``lgamma`` and its derivative are series that have eight quotients in common. XLA keeps each of
    these as an array of its own: a value with its gradient takes 11 kernels, and two if an
    optimization barrier is between them. That is done for single numbers. Of arrays the quotients
    would be computed twice, which takes up to half as long again in each call.

    Where many rows are joined, such as separate scalars, JAX slices their cotangents. XLA compiles
    one kernel per slice. `_jax.split_rows_p` takes all of them by one.

    This comes last, because other passes look into joins, and batch ``lgamma``.
    """

    meaning = Meaning.SAME_BITS

    def __call__(self, closed: ClosedJaxpr) -> ClosedJaxpr:
        """Return the program with such derivatives, or the given one if it needs none.

        Parameters
        ----------
        closed : ClosedJaxpr
            The program. It is not changed.
        """
        return rewritten(closed, {"lgamma", "concatenate"}, _replaced)


def _replaced(eqn: JaxprEqn) -> Sequence[JaxprEqn] | None:
    operands: list[Any] = eqn.invars
    if all(isinstance(x, Literal) for x in operands):
        return None
    b = Builder([x.aval for x in operands])  # Sets `plain` by the types.
    b.source_info = eqn.source_info
    if eqn.primitive.name == "lgamma":
        if operands[0].aval.shape:
            return None
        with b:
            result = _lgamma(Value(operands[0])).atom()
    elif b.plain and _joins_many_rows(eqn):
        result = _joined(b, operands)
    else:
        return None
    return bound_to(b, [result], eqn.outvars)


# --- lgamma -----------------------------------------------------------------------------------


def _alone(x: Value) -> Value:
    # Otherwise XLA computes parts of the series apart, for a loop that reads it.
    return emit.optimization_barrier(emit.lgamma(x))


_lgamma = with_derivatives(_alone, lambda x: emit.digamma(emit.optimization_barrier(x)))


# --- Joins ------------------------------------------------------------------------------------


def _joins_many_rows(eqn: JaxprEqn) -> bool:
    rows: list[Any] = eqn.invars
    first = rows[0].aval
    return (
        len(rows) >= _MANY
        and eqn.params["dimension"] == 0
        and first.dtype.kind in "fc"
        and all(type(n) is int for n in first.shape)
        and all(x.aval.shape == (1, *first.shape[1:]) for x in rows)
    )


def _joined(b: Builder, rows: Sequence[Atom]) -> Atom:
    aval: Any = rows[0].aval
    types = [aval] * len(rows)

    def derivative(*zeros: bool) -> tuple[ClosedJaxpr, tuple[bool]]:
        moving = [i for i, zero in enumerate(zeros) if not zero]
        with b.nested([*types, *[aval] * len(moving)]) as inner:
            values, tangents = inner.inputs[: len(types)], inner.inputs[len(types) :]
            outputs = [inner.bind(_jax.join_rows_p, values, {})]
            if moving:
                zero = inner.literal(np.zeros((), aval.dtype))
                moved: list[Atom] = [lax.broadcast_in_dim(inner, zero, aval.shape, ())] * len(types)
                for i, tangent in zip(moving, tangents, strict=True):
                    moved[i] = tangent
                outputs.append(inner.bind(_jax.join_rows_p, moved, {}))
            return inner.build(outputs, name="join"), (not moving,)

    with b.nested(types) as inner:
        program = inner.build([lax.concatenate(inner, inner.inputs, 0)], name="join")
    return lax.custom_jvp_call(b, program, derivative, rows)[0]
