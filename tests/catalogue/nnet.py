"""Neural networks: activations with their losses, convolutions, pooling, normalization."""

import aesara.tensor as at
import numpy as np
from aesara.tensor import math, special
from aesara.tensor.nnet import (
    abstract_conv,
    basic,
    batchnorm,
    blocksparse,
    conv,
    corr,
    corr3d,
    ctc,
    neighbours,
)
from aesara.tensor.signal import pool

from catalogue.example import INEXACT, example, matrix, numbers, scalar, vector

targets = np.array([2, 0])
images, kernels = numbers(2, 3, 5, 4), numbers(2, 3, 2, 2)
volumes, blocks = numbers(1, 2, 3, 4, 3), numbers(2, 2, 2, 2, 2)
of_image, of_volume = numbers(2, 2, 4, 3), numbers(1, 2, 2, 3, 2)
pooled = numbers(2, 3, 2, 2)
row = numbers(1, 3)

SOFTMAX = [
    example(special.LogSoftmax, special.LogSoftmax(-1), matrix, dtypes=INEXACT),
    example(special.Softmax, special.Softmax(0), matrix, dtypes=INEXACT),
    example(special.SoftmaxGrad, special.SoftmaxGrad(-1), matrix, numbers(2, 3), dtypes=INEXACT),
    example(basic.SoftmaxWithBias, basic.SoftmaxWithBias(), matrix, vector),
    example(
        basic.CrossentropySoftmaxArgmax1HotWithBias,
        basic.CrossentropySoftmaxArgmax1HotWithBias(),
        matrix,
        vector,
        targets,
    ),
    example(
        basic.CrossentropySoftmax1HotWithBiasDx,
        basic.CrossentropySoftmax1HotWithBiasDx(),
        numbers(2),
        matrix,
        targets,
    ),
    example(
        basic.CrossentropyCategorical1Hot,
        lambda x, i: basic.CrossentropyCategorical1Hot()(at.abs(x), i),
        matrix,
        targets,
        dtypes=INEXACT,
    ),
    example(
        basic.CrossentropyCategorical1HotGrad,
        basic.CrossentropyCategorical1HotGrad(),
        numbers(2),
        matrix,
        targets,
        dtypes=INEXACT,
    ),
    example(
        basic.Prepend_scalar_constant_to_each_row,
        basic.Prepend_scalar_constant_to_each_row(2.0),
        matrix,
    ),
    example(basic.Prepend_scalar_to_each_row, basic.Prepend_scalar_to_each_row(), scalar, matrix),
    example(
        ctc.ConnectionistTemporalClassification,
        lambda x: ctc.ConnectionistTemporalClassification()(x, [[1]], [2])[0],
        numbers(2, 1, 3),
        meaning=lambda x: of_alignments(special.softmax(x[:, 0], axis=-1)),
    ),
]


def of_alignments(p):
    """The loss of the label 1 in two steps, the blank being 0."""
    paths = p[0, 1] * p[1, 1] + p[0, 1] * p[1, 0] + p[0, 0] * p[1, 1]
    return -at.log(paths)[None]


def flipped(kernel):
    """A correlation is the convolution with the kernel backwards."""
    return kernel[(slice(None), slice(None), *(slice(None, None, -1),) * (kernel.ndim - 2))]


RANKS = {
    2: (images, kernels, of_image, (5, 4), (2, 2)),
    3: (volumes, blocks, of_volume, (3, 4, 3), (2, 2, 2)),
}
KINDS = "", "_gradInputs", "_gradWeights"
ABSTRACT = {n: [getattr(abstract_conv, f"AbstractConv{n}d{kind}") for kind in KINDS] for n in RANKS}


def convolutions(rank, ops, meant=(None,) * 3):
    """Examples of a convolution, and of its gradients with respect to inputs and weights."""
    x, k, g, of_inputs, of_weights = RANKS[rank]
    cases = [(x, k), (k, g, of_inputs), (x, g, of_weights)]
    for op, meaning, (one, other, *size) in zip(ops, meant, cases, strict=True):

        def applied(op, size=size, **options):
            return lambda *xs: op(**options)(*xs, *size)

        same = meaning and applied(meaning, filter_flip=False)
        yield example(op, applied(op), one, other, meaning=same)


CONVOLUTION = [
    example(
        abstract_conv.AbstractConv2d,
        abstract_conv.AbstractConv2d(border_mode="half", subsample=(2, 1)),
        images,
        kernels,
    ),
    *[*convolutions(2, ABSTRACT[2])][1:],
    *convolutions(3, ABSTRACT[3]),
    *convolutions(2, [corr.CorrMM, corr.CorrMM_gradInputs, corr.CorrMM_gradWeights], ABSTRACT[2]),
    *convolutions(
        3, [corr3d.Corr3dMM, corr3d.Corr3dMMGradInputs, corr3d.Corr3dMMGradWeights], ABSTRACT[3]
    ),
    example(
        conv.ConvOp,
        lambda x, k: conv.ConvOp(imshp=(3, 5, 4), kshp=(2, 2), nkern=2, bsize=2)(x, k),
        images,
        kernels,
    ),
    example(math.Convolve, lambda x, y: math.Convolve("full")(x, y), vector, numbers(2)),
]

POOLING = [
    example(pool.Pool, lambda x: pool.Pool(True)(x, (2, 2)), images),
    example(
        pool.MaxPoolGrad,
        lambda x, z, g: pool.MaxPoolGrad(True)(x, z, g, (2, 2)),
        images,
        pooled,
        pooled,
    ),
    example(
        pool.AveragePoolGrad, lambda x, g: pool.AveragePoolGrad(True)(x, g, (2, 2)), images, pooled
    ),
    example(
        pool.DownsampleFactorMaxGradGrad,
        lambda x, z, g: pool.DownsampleFactorMaxGradGrad(True)(x, z, g, (2, 2)),
        images,
        pooled,
        images,
    ),
    # Its Python implementation fails with NumPy 1.23 and newer; of one maximum it is the other's.
    example(
        pool.MaxPoolRop,
        lambda x, v: pool.MaxPoolRop(True)(x, v, (2, 2)),
        images,
        numbers(2, 3, 5, 4),
        meaning=lambda x, v: pool.DownsampleFactorMaxGradGrad(True)(
            x, pool.Pool(True)(x, (2, 2)), v, (2, 2)
        ),
    ),
    example(neighbours.Images2Neibs, lambda x: neighbours.Images2Neibs("valid")(x, (1, 2)), images),
]

Inference, Train, TrainGrad = (
    batchnorm.AbstractBatchNormInference,
    batchnorm.AbstractBatchNormTrain,
    batchnorm.AbstractBatchNormTrainGrad,
)
BLOCKS = [
    example(
        Inference,
        lambda x, w, b, m: Inference((0,))(x, w, b, m, at.abs(w)),
        matrix,
        row,
        row,
        row,
        dtypes=INEXACT,
    ),
    example(Train, Train((0,)), matrix, row, row),
    example(
        TrainGrad,
        lambda x, g, w, m: TrainGrad((0,))(x, g, w, m, at.abs(w)),
        matrix,
        matrix,
        row,
        row,
        dtypes=INEXACT,
    ),
    example(
        batchnorm.BNComposite,
        lambda *xs: batchnorm.batch_normalization(*xs, mode="low_mem"),
        matrix,
        row,
        row,
        row,
        row,
        dtypes=INEXACT,
    ),
    example(
        blocksparse.SparseBlockGemv,
        lambda *xs: blocksparse.sparse_block_gemv(*xs, *map(at.constant, ([[0]], [[1]]))),
        numbers(1, 1, 2),
        numbers(2, 2, 3, 2),
        numbers(1, 1, 3),
    ),
    example(
        blocksparse.SparseBlockOuter,
        lambda *xs: blocksparse.sparse_block_outer(*xs, *map(at.constant, ([[0]], [[1]]))),
        numbers(2, 2, 3, 2),
        numbers(1, 1, 3),
        numbers(1, 1, 2),
    ),
]
