"""Rules for `aesara.tensor.nnet.ctc`."""

from __future__ import annotations

from aesara.tensor.nnet.ctc import ConnectionistTemporalClassification

from jaxprgen.emit import ctc
from jaxprgen.emit.values import Value
from jaxprgen.errors import IndexOutOfBoundsError, ShapeMismatchError
from jaxprgen.lowering.context import RuleContext
from jaxprgen.lowering.registry import lowers


@lowers(ConnectionistTemporalClassification, folds=False)
def lower_ctc(ctx: RuleContext, x: Value, labels: Value, lengths: Value) -> list[Value]:
    """The costs of labels, which `jax.grad` differentiates, and their slopes if asked for.

    They are those of the library that Aesara calls, without it. (Aesara's class has no
    ``perform``, without which no Op of it can be made: subclasses have one.)
    """
    times, batch, classes = x.shape
    if labels.shape[0] != batch or lengths.shape != (batch,):
        raise ShapeMismatchError(
            f"Labels of shape {labels.shape} and lengths of shape {lengths.shape} are not "
            f"one for each of {batch} sequences."
        )
    ctx.require(
        lambda: ctc.are_possible(x, labels, lengths),
        IndexOutOfBoundsError,
        f"{ctx.op} has a label not below {classes}, or a length above {times}. What Aesara calls "
        "then reads beyond its arrays; the emitted program takes the nearest",
    )
    return list(ctc.ctc(x, labels, lengths)[: len(ctx.node.outputs)])
