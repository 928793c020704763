"""Loop distribution: move work out of ``scan`` loops and batch it."""

from __future__ import annotations

import functools
from dataclasses import dataclass

from jaxprgen._jax import ClosedJaxpr
from jaxprgen.ir.loops import pure_loop
from jaxprgen.ir.rewriting import rewritten
from jaxprgen.passes.batching import NotBatchableError
from jaxprgen.passes.costs import CostModel
from jaxprgen.passes.meaning import Meaning, if_reassociated
from jaxprgen.passes.scan_batching import ScanBatching, in_place_of


@dataclass(frozen=True)
class MapToVmap:
    """Replace a ``scan`` without a recurrence by equations on all of its steps at once.

    A loop is replaced if no carry depends on itself. Two kinds of carries are allowed:

    - A carry that only hands a value from one step to the next.
    - A carry that is read only after the loop, and to which every step only adds: a sum. The same
      holds for maxima and minima, and for products and bitwise operations of integers. Products of
      floating-point numbers stay loops, because a partial product may overflow where the whole
      product does not.

    Inner loops are replaced first. Every equation of the body must be one that can be batched; see
    `jaxprgen.passes.batching`.

    Attributes
    ----------
    memory : int
        The number of bytes that the values of all steps may take. Intermediate values count as
        well, although a compiler that fuses does not store all of them. Loops that would need more
        stay.
    reassociate : bool
        Whether whole steps may be added in another order, which changes rounding. What one step
        contributes to a sum is combined first.
        Otherwise, matrix products, sums over axes and the like stay in the loop.
    """

    memory: int = 2**26
    reassociate: bool = False

    meaning = if_reassociated(Meaning.SAME_TERMS)

    def __call__(self, closed: ClosedJaxpr) -> ClosedJaxpr:
        """Return the program without these loops, or the given one if it has none.

        Parameters
        ----------
        closed : ClosedJaxpr
            The program. It is not changed.
        """
        options = self.memory, self.reassociate, _batched
        return rewritten(closed, ("scan",), lambda e: in_place_of(e, pure_loop(e), *options))


@dataclass(frozen=True)
class DistributeScan:
    """Move work that is not part of a recurrence out of a ``scan``, and batch it.

    This is loop distribution. Work that does not depend on the previous step, such as functions of
    the sequences alone, is computed for all steps before the loop. Work on which no later step
    depends, such as the terms of a likelihood or sums over all steps, is computed after it. A loop
    stays as it is if fewer equations would leave it than arrays would have to pass between the
    parts, or if calls would take longer.

    Attributes
    ----------
    memory : int
        The number of bytes that the values of all steps may take outside of the loop. If they do
        not fit into the processor's caches, the loop is faster.
    reassociate : bool
        Whether whole steps may be added in another order, which changes rounding. What one step
        contributes to a sum is combined first.
        Otherwise, matrix products, sums over axes and the like stay in the loop.
    cost : CostModel, optional
        By which what leaves a loop must save more time in its steps than it takes outside.
        `jaxprgen.passes.default` sets it.
    """

    memory: int = 2**22
    reassociate: bool = False
    cost: CostModel | None = None

    meaning = if_reassociated(Meaning.SAME_TERMS)

    def __call__(self, closed: ClosedJaxpr) -> ClosedJaxpr:
        """Return the program with smaller loops, or the given one if no loop changes.

        Parameters
        ----------
        closed : ClosedJaxpr
            The program. It is not changed.
        """
        distribute = functools.partial(_distributed, cost=self.cost)
        options = self.memory, self.reassociate, distribute
        return rewritten(closed, ("scan",), lambda e: in_place_of(e, pure_loop(e), *options))


def _batched(batching: ScanBatching) -> None:
    batching.batch_ready()
    if batching.is_pending:
        raise NotBatchableError("A carry depends on itself.")


def _distributed(batching: ScanBatching, cost: CostModel | None) -> None:
    batching.batch_ready()
    if not batching.is_pending:
        raise NotBatchableError("The loop has no recurrence.")
    batching.keep_residual_loop(cost)
    batching.batch_ready()
