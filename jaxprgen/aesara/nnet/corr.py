"""Rules for `aesara.tensor.nnet.corr`, which does not flip filters.

Aesara has C code for these Ops and no other; its rules for sizes that are not given are here.
Both gradients take sizes as scalars behind their operands, or none.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from aesara.tensor.nnet.corr import CorrMM, CorrMM_gradInputs, CorrMM_gradWeights

from jaxprgen.aesara.nnet.abstract_conv import in_common_dtype, layout_of
from jaxprgen.emit import convolution
from jaxprgen.emit.convolution import span
from jaxprgen.emit.values import Value
from jaxprgen.lowering.context import RuleContext
from jaxprgen.lowering.registry import lowers


def given_sizes(node: Any) -> Sequence[int]:
    """The inputs of a gradient that are sizes."""
    return range(2, len(node.inputs))


@lowers(CorrMM, folds=False)
def lower_correlation(ctx: RuleContext, x: Value, w: Value) -> Value:
    """What comes out where filters slide along images; Aesara gave both one dtype."""
    x, w = in_common_dtype(ctx, x, w)
    layout = layout_of(ctx.op, w.shape[2 - x.ndim :])
    return convolution.correlate(x, w, layout)


@lowers(CorrMM_gradWeights, folds=False, static=given_sizes)
def lower_filter_gradient(ctx: RuleContext, x: Value, y: Value, *sizes: Value) -> Value:
    """The gradient with respect to filters of the given sizes, or of those there can be."""
    x, y = in_common_dtype(ctx, x, y)
    op, known = ctx.op, [ctx.static_int(i) for i in given_sizes(ctx.node)]
    known = known or _filter_sizes(op, x.shape[2:], y.shape[2:])
    return convolution.filter_gradient(x, y, known, layout_of(op, known))


def _filter_sizes(op: Any, sizes: Sequence[int], places: Sequence[int]) -> list[int]:
    """The largest filters that fit. Aesara asks for sizes where the border is "half"."""
    steps = op.subsample, op.filter_dilation, layout_of(op, [1] * len(sizes)).padding
    found: list[int] = []
    for n, m, s, d, (low, high) in zip(sizes, places, *steps, strict=True):
        last = span(m, s) - n if op.border_mode == "full" else low + n + high - span(m, s)
        found.append(last // d + 1)
    return found


@lowers(CorrMM_gradInputs, folds=False, static=given_sizes)
def lower_image_gradient(ctx: RuleContext, w: Value, y: Value, *sizes: Value) -> Value:
    """The gradient with respect to images of the given sizes, or of the least there can be."""
    w, y = in_common_dtype(ctx, w, y)
    _, _, *places = y.shape
    own = w.shape[-len(places) :]
    layout = layout_of(ctx.op, own)
    known = [ctx.static_int(i) for i in given_sizes(ctx.node)] or [
        span(m, s) + span(k, d) - 1 - low - high
        for m, s, k, d, (low, high) in zip(
            places, layout.strides, own, layout.dilation, layout.padding, strict=True
        )
    ]
    return convolution.image_gradient(w, y, known, layout)
