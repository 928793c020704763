"""Reading and writing by index; sorting; reductions."""

import aesara.scalar as aes
import aesara.tensor as at
import numpy as np
from aesara.tensor import math, subtensor
from aesara.tensor.elemwise import CAReduce
from aesara.tensor.nnet.conv3d2d import DiagonalSubtensor, IncDiagonalSubtensor
from aesara.tensor.sort import ArgSortOp, SortOp, TopKOp

from catalogue.example import among, example, matrix, numbers, scalar, square, vector

one = np.array(1)
rows, columns = np.array([1, 0, -1]), np.array([2, 0, 2])
mask = np.array([[True, False, True], [False, False, True]])

INDEXING = [
    example(subtensor.Subtensor, lambda x, i: x[i, ::-1], matrix, one),
    example(subtensor.IncSubtensor, lambda x, y, i: at.inc_subtensor(x[i], y), matrix, vector, one),
    example(subtensor.IncSubtensor, lambda x, y: at.set_subtensor(x[:, 1:], y), matrix, scalar),
    example(subtensor.AdvancedSubtensor, lambda x, i, j: x[i, j], matrix, rows, columns),
    example(
        subtensor.AdvancedSubtensor,
        lambda x, where: x[where],
        matrix,
        mask,
        what="by a mask that arguments decide",
    ),
    example(
        subtensor.AdvancedSubtensor1,
        lambda x, i: subtensor.AdvancedSubtensor1()(x, i),
        matrix,
        rows,
    ),
    example(
        subtensor.AdvancedIncSubtensor,
        lambda x, y, i, j: at.inc_subtensor(x[i, j], y),
        matrix,
        vector,
        rows,
        columns,
    ),
    example(
        subtensor.AdvancedIncSubtensor,
        lambda x, y, where: at.set_subtensor(x[where], y),
        matrix,
        scalar,
        mask,
    ),
    example(
        subtensor.AdvancedIncSubtensor,
        lambda x, y, where: at.set_subtensor(x[where], y),
        matrix,
        vector,
        mask,
        what="of several values by a mask that arguments decide",
    ),
    example(
        subtensor.AdvancedIncSubtensor1,
        lambda x, y, i: subtensor.AdvancedIncSubtensor1()(x, y, i),
        matrix,
        square,
        rows,
    ),
    example(DiagonalSubtensor, lambda x: DiagonalSubtensor()(x, 0, 1), numbers(4, 2, 3)),
    example(
        IncDiagonalSubtensor,
        lambda x, y: IncDiagonalSubtensor()(x, 0, 1, y),
        numbers(4, 2, 3),
        numbers(3, 2, 3),
    ),
]
SORTING = [
    example(ArgSortOp, lambda x: at.argsort(x, 0), square),
    example(SortOp, lambda x: at.sort(x, None), matrix),
    # Aesara leaves the order open; ours is descending.
    example(TopKOp, lambda x: at.sort(at.topk(x, 2, sorted=False), -1), matrix),
]
REDUCTIONS = [
    example(math.All, lambda x: at.all(x, 1), matrix),
    example(math.Any, lambda x: at.any(x, 0), matrix),
    example(math.Argmax, lambda x: math.Argmax((1,))(x), matrix),
    example(CAReduce, lambda x: CAReduce(aes.xor, (0,))(x), matrix),
    example(CAReduce, lambda x: CAReduce(aes.mul, None)(x), matrix),
    example(math.Max, lambda x: math.Max((0,))(x), matrix),
    example(math.MaxAndArgmax, lambda x: math.MaxAndArgmax([0, 1])(x), matrix),
    example(math.Mean, lambda x: math.Mean(1)(x), matrix),
    example(math.Min, lambda x: math.Min((1,))(x), matrix),
    example(math.Prod, lambda x: at.prod(x, 0), matrix),
    example(
        math.ProdWithoutZeros, lambda x: math.ProdWithoutZeros(1)(x), among([2, 0, 3], [-1, 5, 0])
    ),
    example(math.Sum, lambda x: at.sum(x, 1), matrix),
]
