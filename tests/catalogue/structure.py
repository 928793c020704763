"""Marks, copies and checks; printing; Ops of graphs and of functions; lists."""

import aesara
import aesara.tensor as at
import aesara.typed_list as tl
import numpy as np
from aesara import gradient, printing, raise_op
from aesara.breakpoint import PdbBreakpoint
from aesara.compile import builders, ops
from aesara.ifelse import IfElse, ifelse
from aesara.sandbox.minimal import Minimal
from aesara.scan.op import Scan
from aesara.scan.utils import until

from catalogue.example import example, numbers, vector

others = numbers(3)
one = np.array(1)


def silent(op, value):
    """What `Print` calls."""


def of_graph(x, y):
    """A graph as an Op."""
    a, b = x.type(), y.type()
    return builders.OpFromGraph([a, b], [a * b + a])(x, y)


def of_function(x):
    """A function as an Op."""
    op = ops.FromFunctionOp(lambda v: v + v, [x.type], [x.type], lambda _, node, shapes: shapes)
    return op(x)


MARKS = [
    example(raise_op.Assert, lambda x: raise_op.Assert()(x, at.gt(x.shape[0], 1)), vector),
    example(
        raise_op.CheckAndRaise,
        lambda x: raise_op.CheckAndRaise(ValueError, "few")(x, at.gt(x.shape[0], 1)),
        vector,
    ),
    example(gradient.ConsiderConstant, gradient.consider_constant_, vector),
    example(ops.DeepCopyOp, ops.deep_copy_op, vector),
    example(gradient.DisconnectedGrad, gradient.disconnected_grad, vector),
    example(gradient.GradClip, lambda x: gradient.grad_clip(x, -1, 1), vector),
    example(gradient.GradScale, lambda x: gradient.grad_scale(x, 2), vector),
    example(Minimal, Minimal(), np.array([1.5, 2.0])),
    example(ops.OutputGuard, ops.OutputGuard(), vector, meaning=lambda x: x),
    example(PdbBreakpoint, lambda x, c: PdbBreakpoint("stop")(c, x), vector, np.array(0)),
    example(printing.Print, printing.Print(global_fn=silent), vector),
    example(gradient.UndefinedGrad, gradient.undefined_grad, vector),
    example(ops.UpdatePlaceholder, ops.UpdatePlaceholder(), vector),
    example(ops.ViewOp, ops.view_op, vector),
    example(gradient.ZeroGrad, gradient.zero_grad, vector),
]
BUILDERS = [
    example(ops.FromFunctionOp, of_function, vector),
    example(builders.OpFromGraph, of_graph, vector, others),
]


def decaying(x, y):
    """A loop with two sequences and what it carries."""
    return aesara.scan(lambda a, b, c: c * b + a, [x, y], [at.ones_like(x[0])])[0]


def doubling(x):
    """A loop that ends by a condition."""
    return aesara.scan(lambda c: (c * 2, until(c > 20)), None, [x[0]], n_steps=9)[0][-1]


CONTROL = [
    example(IfElse, lambda x, y: ifelse(at.gt(x.sum(), y.sum()), x * y, x + y), vector, others),
    example(Scan, decaying, vector, others),
    example(Scan, doubling, vector, what="with `until`", dtypes=("float32", "float64")),
]


def pair(x, y):
    """A list."""
    return tl.make_list([x, y])


LISTS = [
    example(tl.basic.Append, lambda x, y: tl.append(pair(x, y), x)[2], vector, others),
    example(tl.basic.Count, lambda x, y: tl.count(pair(x, y), x), vector, numbers(2)),
    example(tl.basic.Extend, lambda x, y: tl.extend(pair(x, y), pair(y, x))[3], vector, numbers(2)),
    example(tl.basic.GetItem, lambda x, y, i: pair(x, y)[i], vector, numbers(2), one),
    example(tl.basic.Index, lambda x, y: tl.index_(pair(x, y), y), vector, numbers(2)),
    example(tl.basic.Insert, lambda x, y: tl.insert(pair(x, y), 1, x)[1], vector, numbers(2)),
    example(tl.basic.Length, lambda x, y: tl.length(pair(x, y)), vector, numbers(2)),
    example(tl.basic.MakeList, lambda x, y: pair(x, y)[0], vector, numbers(2)),
    example(
        tl.basic.Remove,
        lambda x, y: tl.remove(tl.make_list([x.shape, y.shape]), x.shape)[0],
        vector,
        others,
    ),
    example(
        tl.basic.Remove,
        lambda x, y: tl.remove(pair(x, y), x)[0],
        vector,
        others,
        what="of values that arguments decide",
    ),
    example(tl.basic.Reverse, lambda x, y: tl.reverse(pair(x, y))[0], vector, numbers(2)),
]
