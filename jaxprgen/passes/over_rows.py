"""Whole programs on rows, as `jax.vmap` makes them while tracing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from jaxprgen._jax import ClosedJaxpr, ShapedArray
from jaxprgen.ir import Builder
from jaxprgen.ir.loops import Loop
from jaxprgen.passes.batching import MaybeBatched, batch, why_not_batched, with_batch_axis


def over_rows(
    program: ClosedJaxpr, types: Sequence[ShapedArray], batched: Sequence[bool], n: int
) -> ClosedJaxpr:
    """Return the program that applies another one to each of ``n`` rows.

    A program with equations that cannot be batched runs in a loop, on one row after the other.

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
        constants = {v: b.constant(x) for v, x in zip(jaxpr.constvars, program.consts, strict=True)}
        inputs = list(zip(jaxpr.invars, b.inputs, batched, strict=True))
        if any(map(why_not_batched, jaxpr.eqns)):
            shared = {v: x for v, x, own in inputs if not own}
            rows = {v: x for v, x, own in inputs if own}
            loop = Loop({**constants, **shared}, {}, rows, jaxpr.eqns, {}, jaxpr.outvars, n)
            return b.build(loop.emit(b))
        given = {v: MaybeBatched(x, False) for v, x in constants.items()}
        given |= {v: MaybeBatched(x, own) for v, x, own in inputs}
        found = batch(b, jaxpr.eqns, given, jaxpr.outvars)
        return b.build([with_batch_axis(b, x, n) for x in found])
