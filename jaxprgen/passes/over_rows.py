"""Whole programs on rows, as `jax.vmap` makes them while tracing; here it is done on equations."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from jaxprgen import _jax
from jaxprgen._jax import ClosedJaxpr, JaxprEqn, ShapedArray, Var
from jaxprgen.ir import Atom, Builder
from jaxprgen.ir import primitives as lax
from jaxprgen.passes.batching import (
    MaybeBatched,
    NotBatchableError,
    batch,
    batch_program,
    with_batch_axis,
)


def over_rows(
    program: ClosedJaxpr, types: Sequence[ShapedArray], batched: Sequence[bool], n: int
) -> ClosedJaxpr:
    """Return the program that applies another one to each of ``n`` rows.

    Equations without a batching rule are put into loops.

    Parameters
    ----------
    program : ClosedJaxpr
        The program on one row.
    types : sequence of ShapedArray
        The types of the new program's inputs.
    batched : sequence of bool
        Which of them have rows along their first axis. All rows share the others.
    n : int
        The number of rows.

    Returns
    -------
    ClosedJaxpr
        All its outputs have rows.
    """
    jaxpr: Any = program.jaxpr
    with Builder(types) as b:
        constants = [MaybeBatched(b.constant(x), False) for x in program.consts]
        rows = map(MaybeBatched, b.inputs, batched)
        found = batch_program(b, jaxpr, [*constants, *rows], n, _batched_or_looped)
        outputs = [with_batch_axis(b, x, n) for x in found]
    return b.build(outputs)


def _batched_or_looped(
    b: Builder, eqn: JaxprEqn, operands: Sequence[MaybeBatched], n: int
) -> list[MaybeBatched]:
    try:
        return batch(b, eqn, operands, n)
    except NotBatchableError:
        return _looped(b, eqn, operands, n)


def _looped(
    b: Builder, eqn: JaxprEqn, operands: Sequence[MaybeBatched], n: int
) -> list[MaybeBatched]:
    """Emit a loop that runs an equation on one row after the other."""
    b.source_info = _jax.within(b.source_info, eqn.source_info)
    shared = [x.atom for x in operands if not x.is_batched]
    rows = [x.atom for x in operands if x.is_batched]
    inner = b.nested([*(x.aval for x in shared), *(_jax.slice_type(x.aval) for x in rows)])
    given, slices = iter(inner.inputs), iter(inner.inputs[len(shared) :])
    own = [next(slices if x.is_batched else given) for x in operands]
    atoms: dict[Any, Atom] = {x: v for x, v in zip(eqn.invars, own, strict=True) if type(x) is Var}
    results = inner.copy(eqn, atoms)
    body = inner.build([*results.values()], name=eqn.primitive.name)
    return [MaybeBatched(v, True) for v in lax.scan(b, body, shared, [], rows, n)]
