"""Functions and derivatives that XLA compiles to fewer kernels."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from jaxprgen import _jax
from jaxprgen._jax import ClosedJaxpr, JaxprEqn, Literal, ShapedArray
from jaxprgen.emit import small_systems
from jaxprgen.emit.custom_derivatives import with_derivatives
from jaxprgen.emit.values import Value
from jaxprgen.ir import Atom, Builder, primitives as lax
from jaxprgen.ir.rewriting import rewritten
from jaxprgen.passes.inlining import bound_to
from jaxprgen.passes.meaning import Meaning
from jaxprgen.special import gamma_functions

_MANY = 8
"""Fewer rows are left to XLA, which can fuse their slices with other work."""


@dataclass(frozen=True)
class FewerKernels:
    """Write some primitives and derivatives so that XLA compiles fewer kernels.

    XLA computes ``lgamma`` and ``digamma`` by sums of eight quotients, each of which it keeps as an
    array, and by its sine and cosine. `jaxprgen.special.gamma_functions` has them as polynomials
    and one or two logarithms. A value with its gradient takes half of the time. The largest error,
    in machine epsilons of the result or of one, if that is larger, falls from 16 to 5 (`lgamma`)
    and from 9 to 5 (`digamma`) by mpmath; that of ``digamma`` of positive numbers below 0.001 rises
    from 1.5 to 2.6. Their derivatives are accurate where XLA's polygamma functions are not.

    XLA calls LAPACK for each Cholesky factor, and each triangular system, of a batch. Those of real
    matrices with two or three rows are written out, by the same algorithm, and take a tenth of the
    time. They are programs of their own, so that they print as one equation.

    Where many rows are joined, such as separate scalars, JAX slices their cotangents. XLA compiles
    one kernel per slice. `_jax.split_rows_p` takes all of them by one.

    This comes last, because other passes look into joins, and batch ``lgamma``.
    """

    meaning = Meaning.BETTER

    def __call__(self, closed: ClosedJaxpr) -> ClosedJaxpr:
        """Return the program with such equations, or the given one if it needs none.

        Parameters
        ----------
        closed : ClosedJaxpr
            The program. It is not changed.
        """
        return rewritten(closed, {*_WRITTEN, *_OF_FEW_ROWS, "concatenate"}, _replaced)


def _replaced(eqn: JaxprEqn) -> Sequence[JaxprEqn] | None:
    operands: list[Any] = eqn.invars
    if all(isinstance(x, Literal) for x in operands):
        return None
    b = Builder([x.aval for x in operands])  # Sets `plain` by the types.
    b.source_info = eqn.source_info
    if eqn.primitive.name in _WRITTEN:
        (result,) = b.inline(_written(eqn.primitive.name, operands[0].aval), operands)
    elif eqn.primitive.name in _OF_FEW_ROWS:
        if not _has_few_rows(eqn):
            return None
        program = _of_few_rows(eqn.primitive.name, tuple(x.aval for x in operands), **eqn.params)
        params = _jax.jit_params(program, f"small_{eqn.primitive.name}")
        (result,) = b.call(_jax.jit_p, program, operands, params)
    elif b.plain and _joins_many_rows(eqn):
        result = _joined(b, operands)
    else:
        return None
    return bound_to(b, [result], eqn.outvars)


# --- Gamma functions --------------------------------------------------------------------------

_trigamma = with_derivatives(gamma_functions.trigamma, lambda x: gamma_functions.polygamma(2, x))
_digamma = with_derivatives(gamma_functions.written_digamma, _trigamma)
_WRITTEN = {
    "lgamma": with_derivatives(gamma_functions.written_lgamma, _digamma),
    "digamma": _digamma,
}


@functools.lru_cache(256)
def _written(name: str, x: ShapedArray) -> ClosedJaxpr:
    """Return the program of a gamma function; its derivatives are written once, too."""
    with Builder([x]) as b:
        return b.build([_WRITTEN[name](Value(b.inputs[0])).atom()], name=name)


# --- Small matrices ---------------------------------------------------------------------------

_OF_FEW_ROWS = ("cholesky", "triangular_solve")


def _has_few_rows(eqn: JaxprEqn) -> bool:
    matrix: Any = eqn.invars[0].aval
    return matrix.shape[-1] in small_systems.ROWS and matrix.dtype.kind == "f"


@functools.lru_cache(256)
def _of_few_rows(name: str, types: Sequence[ShapedArray], **params: Any) -> ClosedJaxpr:
    with Builder(types) as b:
        operands = map(Value, b.inputs)
        if name == "cholesky":
            result = small_systems.cholesky(*operands)
        else:
            del params["conjugate_a"]  # Of real numbers.
            transpose = params.pop("transpose_a")
            result = small_systems.triangular_solve(*operands, transpose=transpose, **params)
        return b.build([result.atom()], name=name)


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
                moved = [lax.full(inner, 0, aval.shape, aval.dtype)] * len(types)
                for i, tangent in zip(moving, tangents, strict=True):
                    moved[i] = tangent
                outputs.append(inner.bind(_jax.join_rows_p, moved, {}))
            return inner.build(outputs, name="join"), (not moving,)

    with b.nested(types) as inner:
        program = inner.build([lax.concatenate(inner, inner.inputs, 0)], name="join")
    return lax.custom_jvp_call(b, program, derivative, rows)[0]
