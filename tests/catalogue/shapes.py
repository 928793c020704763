"""Shapes; making, joining and splitting arrays; diagonals; repetition."""

import aesara.tensor as at
import numpy as np
from aesara.link.jax.dispatch.shape import JAXShapeTuple
from aesara.tensor import basic, extra_ops
from aesara.tensor.elemwise import DimShuffle
from aesara.tensor.shape import Reshape, Shape, Shape_i, SpecifyShape, Unbroadcast, specify_shape
from aesara.tensor.type_other import MakeSlice, make_slice

from catalogue.example import among, example, matrix, numbers, scalar, tensor, vector

two, three, large = np.array(2), np.array(3), np.array(1200)

SHAPE = [
    example(DimShuffle, lambda x: x.dimshuffle(1, "x", 0), matrix),
    example(JAXShapeTuple, lambda x: JAXShapeTuple()(x), scalar, meaning=lambda x: at.stack([x])),
    example(Reshape, lambda x: at.reshape(x, (3, -1)), matrix),
    example(Reshape, lambda x, n: at.reshape(x, (n, 2), ndim=2), matrix, three),
    example(Shape, at.shape, matrix),
    example(Shape_i, lambda x: Shape_i(1)(x), matrix),
    example(SpecifyShape, lambda x: specify_shape(x, (2, None)), matrix),
    example(Unbroadcast, lambda x: Unbroadcast(0)(x), matrix),
]


def with_default(x):
    """The second operand would be what there is if there were no first."""
    return basic.Default()(x, x + x)


CREATION = [
    example(basic.ARange, lambda x, n: at.arange(0, n, 2, dtype=x.dtype), scalar, large),
    example(basic.ARange, lambda x: at.arange(x.shape[0]), matrix),
    example(basic.Alloc, lambda x, n: at.alloc(x, n, 3), vector, two),
    example(basic.AllocDiag, lambda x: basic.AllocDiag(1)(x), vector),
    example(
        basic.AllocEmpty, lambda x, n: at.second(basic.AllocEmpty(x.dtype)(n, 2), x), scalar, large
    ),
    example(basic.Choose, lambda i, x: at.choose(i, x), np.array([0, 1, 1]), matrix),
    example(basic.Default, with_default, vector),
    example(basic.ExtractDiag, lambda x: basic.ExtractDiag(-1, 0, 2)(x), tensor),
    example(basic.Eye, lambda x, n: at.eye(n, 4, 1, dtype=x.dtype), scalar, large),
    example(basic.Join, lambda x, y: at.concatenate([x, y], 1), matrix, numbers(2, 1)),
    example(MakeSlice, lambda x, n: x[make_slice(1, n, None)], vector, three),
    example(basic.MakeVector, lambda x, y: basic.MakeVector(x.dtype)(x, y), scalar, scalar),
    example(basic.Nonzero, lambda x: basic.Nonzero()(x.shape), matrix),
    example(basic.Nonzero, basic.Nonzero(), matrix, what="of values that arguments decide"),
    example(
        basic.PermuteRowElements,
        lambda x, y: basic.PermuteRowElements()(x, y, 0),
        matrix,
        np.array([[2, 0, 1], [1, 2, 0]]),
    ),
    example(
        basic.ScalarFromTensor, lambda x: at.tensor_from_scalar(at.scalar_from_tensor(x)), scalar
    ),
    example(basic.Split, lambda x: at.split(x, [1, 2], 2, axis=1), matrix),
    example(
        basic.TensorFromScalar, lambda x: at.tensor_from_scalar(at.scalar_from_tensor(x)), scalar
    ),
    example(basic.Tri, lambda x, n: basic.Tri(x.dtype)(n, 4, 1), scalar, large),
]

counts = np.array([2, 0, 1])
positions = among(2, 0, 1)
EXTRA = [
    example(extra_ops.Bartlett, extra_ops.bartlett, large),
    example(extra_ops.BroadcastTo, lambda x: at.broadcast_to(x, (2, 3)), vector),
    example(extra_ops.CpuContiguous, extra_ops.cpu_contiguous, matrix),
    example(extra_ops.CumOp, lambda x: extra_ops.CumOp(1, "mul")(x), matrix),
    example(extra_ops.CumOp, lambda x: extra_ops.CumOp(None, "add")(x), matrix),
    example(extra_ops.FillDiagonal, extra_ops.fill_diagonal, matrix, scalar),
    example(
        extra_ops.FillDiagonalOffset,
        lambda x, y: extra_ops.fill_diagonal_offset(x, y, 1),
        matrix,
        scalar,
    ),
    example(
        extra_ops.RavelMultiIndex, lambda i: extra_ops.ravel_multi_index((i, i), (3, 4)), positions
    ),
    example(extra_ops.Repeat, lambda x, n: extra_ops.Repeat(1)(x, n), matrix, counts),
    example(
        extra_ops.SearchsortedOp, lambda x, y: extra_ops.searchsorted(at.sort(x), y), vector, matrix
    ),
    example(extra_ops.Unique, lambda x: extra_ops.unique(at.cast(x.shape, x.dtype)), matrix),
    example(extra_ops.Unique, extra_ops.Unique(), vector, what="of values that arguments decide"),
    example(extra_ops.UnravelIndex, lambda i: extra_ops.unravel_index(i, (3, 4)), positions),
]
