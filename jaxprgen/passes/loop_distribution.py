"""Loops whose steps do not all wait for each other."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from jaxprgen import _jax
from jaxprgen._jax import ClosedJaxpr, JaxprEqn
from jaxprgen.ir.rewriting import rewritten
from jaxprgen.passes.batching import NotBatchableError
from jaxprgen.passes.scan_batching import ScanBatching


@dataclass(frozen=True)
class MapToVmap:
    """A ``scan`` without a recurrence becomes equations on all its steps at once.

    No carry may depend on itself. One that hands something over from the step before is no
    obstacle. Neither is one that nobody sees before the end, and that all steps do no more than
    add to: that is a sum. Likewise for maxima and minima, and for products and bits of integers;
    a product of floating-point numbers stays, as a part of it may overflow where the whole does
    not. Loops within loops come first. What bodies may consist of is what has a rule in
    `jaxprgen.passes.batching`.

    Attributes
    ----------
    memory
        The most bytes that the values of all steps may take up, those between included, although
        a compiler that fuses will not hold them all. Loops that would need more stay.
    reassociate
        Whether floating-point numbers may be reduced in another order, which rounds otherwise.
    """

    memory: int = 2**26
    reassociate: bool = False

    def __call__(self, closed: ClosedJaxpr) -> ClosedJaxpr:
        """The program without these loops."""
        return rewritten(closed, ("scan",), lambda eqn: _replacement(eqn, self, _batched))


@dataclass(frozen=True)
class DistributeScan:
    """What a step of a ``scan`` computes before and behind its recurrence leaves the loop.

    A compiler would call it *loop distribution*: what no other step is waited for, as functions
    of the sequences alone, is done for all steps before the loop; what no other step waits for, as
    the terms of a likelihood, or sums over all steps, behind it. A loop stays as it is if it would
    lose fewer equations than it takes to hand values from one part to another.

    Attributes
    ----------
    memory
        The most bytes that the values of all steps outside of the loop may take up. Where they
        leave the processor's caches the loop is faster.
    reassociate
        As for `MapToVmap`.
    """

    memory: int = 2**22
    reassociate: bool = False

    def __call__(self, closed: ClosedJaxpr) -> ClosedJaxpr:
        """The program with smaller loops."""
        return rewritten(closed, ("scan",), lambda eqn: _replacement(eqn, self, _distributed))


def _replacement(
    eqn: JaxprEqn,
    options: MapToVmap | DistributeScan,
    equations_of: Callable[[ScanBatching], list[JaxprEqn]],
) -> list[JaxprEqn] | None:
    """What stands for an equation, if it is a loop that can be rewritten."""
    if eqn.effects or not eqn.params["length"]:
        return None
    batching = ScanBatching(eqn, options.memory, options.reassociate)
    if not batching.b.plain or _jax.close(eqn.params["jaxpr"]).consts:
        return None
    try:
        return equations_of(batching)
    except NotBatchableError:
        return None


def _batched(batching: ScanBatching) -> list[JaxprEqn]:
    batching.batch_ready()
    if batching.pending_carries or batching.pending_equations:
        raise NotBatchableError("A carry depends on itself.")
    return batching.finish()


def _distributed(batching: ScanBatching) -> list[JaxprEqn]:
    batching.batch_ready()
    if not batching.pending_carries and not batching.pending_equations:
        raise NotBatchableError("No step waits for another one.")
    batching.emit_residual_loop()
    batching.batch_ready()
    assert not batching.pending_carries and not batching.pending_equations
    return batching.finish()
