"""Shapes of operands that say the same more than once: which of them fit each other.

Aesara's Python implementations of these Ops read no more of an operand than they need, or let it
broadcast, and so compute something of shapes that make no sense together. What that is, no
document says; the rules refuse them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from aesara.tensor import blas, blas_c, blas_scipy, fft, nlinalg, slinalg
from aesara.tensor.nnet import abstract_conv as conv, blocksparse
from aesara.tensor.signal import pool


def _convolved(op: Any, image: tuple[int, ...], kernel: tuple[int, ...]) -> tuple[int, ...]:
    return conv.get_conv_output_shape(
        image, kernel, op.border_mode, op.subsample, op.filter_dilation
    )


def _inputs(op: Any, kernel: Any, y: Any, sizes: Any) -> bool:
    image = (y.shape[0], kernel.shape[1], *map(int, sizes))
    return y.shape == _convolved(op, image, kernel.shape)


def _weights(op: Any, image: Any, y: Any, sizes: Any) -> bool:
    kernel = (y.shape[1], image.shape[1], *map(int, sizes))
    return y.shape == _convolved(op, image.shape, kernel)


def _blocks(left: Any, matrix: Any, right: Any, rows: Any, columns: Any) -> bool:
    fits = left.shape[:2] == rows.shape and right.shape[:2] == columns.shape
    return fits and len(left) == len(right) and matrix.shape[2:] == (left.shape[2], right.shape[2])


def _pooled(op: Any, x: Any, *rest: Any) -> tuple[int, ...]:
    size, stride, pad = rest[-3:]
    border = getattr(op, "ignore_border", True)
    return tuple(pool.Pool.out_shape(x.shape, size, border, stride, pad, op.ndim))


def _are_square(*xs: Any) -> bool:
    return {x.shape for x in xs} == {xs[0].shape[:1] * 2}


def _of_eigenvalues(x: Any, gw: Any) -> bool:
    return gw.shape == x.shape[:1]


FITTING: dict[type, Callable[..., bool]] = {
    **{
        op: lambda _, x, __, left, right: x.shape == (*left.shape, *right.shape)
        for op in (blas.Ger, blas_c.CGer, blas_scipy.ScipyGer)
    },
    **{
        op: lambda _, y, alpha, a, x, beta: a.shape == (*y.shape, *x.shape)
        for op in (blas.Gemv, blas_c.CGemv)
    },
    fft.IRFFTOp: lambda _, x, __: x.size > 0,  # Else NumPy 2 returns what is in memory.
    blas.BatchedDot: lambda _, x, y: x.shape[-1] == y.shape[1],
    conv.AbstractConv2d_gradInputs: _inputs,
    conv.AbstractConv3d_gradInputs: _inputs,
    conv.AbstractConv2d_gradWeights: _weights,
    conv.AbstractConv3d_gradWeights: _weights,
    blocksparse.SparseBlockGemv: lambda _, y, w, x, rows, columns: _blocks(x, w, y, rows, columns),
    blocksparse.SparseBlockOuter: lambda _, w, x, y, rows, columns, *__: _blocks(
        x, w, y, rows, columns
    ),
    pool.AveragePoolGrad: lambda op, x, y, *rest: y.shape == _pooled(op, x, *rest),
    pool.MaxPoolGrad: lambda op, x, z, y, *rest: (
        z.shape == y.shape == _pooled(op, x, *rest)  #
    ),
    pool.DownsampleFactorMaxGradGrad: lambda op, x, z, y, *rest: (
        y.shape == x.shape and z.shape == _pooled(op, x, *rest)
    ),
    pool.MaxPoolRop: lambda op, x, y, *rest: x.shape == y.shape,
    nlinalg.EighGrad: lambda _, x, w, v, gw, gv: _of_eigenvalues(x, gw) and _are_square(x, v, gv),
    slinalg.Eigvalsh: lambda _, *xs: _are_square(*(x for x in xs if x is not None)),
    slinalg.EigvalshGrad: lambda _, x, y, gw: _of_eigenvalues(x, gw) and _are_square(x, y),
    slinalg.BilinearSolveDiscreteLyapunov: lambda _, x, y: _are_square(x, y),
    slinalg.SolveContinuousLyapunov: lambda _, x, y: _are_square(x, y),
    **{
        op: lambda _, x, y: _are_square(x) and len(x) == len(y)
        for op in (slinalg.Solve, slinalg.SolveTriangular, slinalg.CholeskySolve)
    },
}
"""Whether the values of an Op's inputs are of shapes that fit, by the Op's class."""
