"""Loops whose steps do not all wait for each other."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from jaxprgen import _jax
from jaxprgen._jax import ClosedJaxpr, JaxprEqn
from jaxprgen.ir.rewriting import rewritten
from jaxprgen.passes.batching import NotBatchableError
from jaxprgen.passes.steps import Steps


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
        return rewritten(closed, ("scan",), lambda eqn: _attempt(eqn, self, _all_at_once))


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
        return rewritten(closed, ("scan",), lambda eqn: _attempt(eqn, self, _around_a_loop))


def _attempt(
    eqn: JaxprEqn,
    options: MapToVmap | DistributeScan,
    equations: Callable[[Steps], list[JaxprEqn]],
) -> list[JaxprEqn] | None:
    """What stands for an equation, if it is a loop that can be rewritten."""
    if eqn.effects or not eqn.params["length"]:
        return None
    steps = Steps(eqn, options.memory, options.reassociate)
    if not steps.b.plain or _jax.close(eqn.params["jaxpr"]).consts:
        return None
    try:
        return equations(steps)
    except NotBatchableError:
        return None


def _all_at_once(steps: Steps) -> list[JaxprEqn]:
    steps.advance()
    if steps.left or steps.waiting:
        raise NotBatchableError("A carry depends on itself.")
    return steps.finish()


def _around_a_loop(steps: Steps) -> list[JaxprEqn]:
    steps.advance()
    if not steps.left and not steps.waiting:
        raise NotBatchableError("No step waits for another one.")
    steps.recur()
    steps.advance()
    assert not steps.left and not steps.waiting
    return steps.finish()
