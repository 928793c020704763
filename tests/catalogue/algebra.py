"""Products, linear algebra and Fourier transforms."""

import aesara.tensor as at
import numpy as np
from aesara.sandbox import fourier as sandbox
from aesara.tensor import blas, blas_c, blas_scipy, fft, math, nlinalg, slinalg
from aesara.tensor.fourier import Fourier

from catalogue.example import (
    INEXACT,
    among,
    definite,
    example,
    lower,
    matrix,
    numbers,
    scalar,
    square,
    vector,
)

three = np.array(3)
four = among([3, 1, 0, 0], [0, 3, 1, 0], [1, 0, 4, 0], [0, 0, 1, 2])
tall = numbers(3, 2)
stack = numbers(2, 3, 4)


def inexact(*args, **options):
    """An entry of a function whose results are not whole."""
    return example(*args, dtypes=INEXACT, **options)


PRODUCTS = [
    example(blas.BatchedDot, blas.BatchedDot(), stack, numbers(2, 4, 2)),
    example(
        blas_c.CGemv,
        lambda y, a, x, s: blas_c.CGemv(False)(y, s, a, x, s),
        numbers(2),
        matrix,
        vector,
        scalar,
    ),
    example(
        blas_c.CGer,
        lambda a, x, y, s: blas_c.CGer(False)(a, s, x, y),
        matrix,
        numbers(2),
        vector,
        scalar,
    ),
    example(math.Dot, math.Dot(), matrix, vector),
    example(blas.Dot22, blas.Dot22(), matrix, tall),
    example(blas.Dot22Scalar, blas.Dot22Scalar(), matrix, tall, scalar),
    example(
        blas.Gemm,
        lambda z, x, y, a: blas.gemm_no_inplace(z, a, x, y, a),
        numbers(2, 2),
        matrix,
        tall,
        scalar,
    ),
    example(
        blas.Gemv,
        lambda y, a, x, s: blas.gemv_no_inplace(y, s, a, x, s),
        numbers(2),
        matrix,
        vector,
        scalar,
    ),
    example(blas.Ger, lambda a, x, y, s: blas.ger(a, s, x, y), matrix, numbers(2), vector, scalar),
    example(math.MatMul, lambda x, y: math.MatMul(x.dtype)(x, y), stack, numbers(4, 2)),
    example(
        blas_scipy.ScipyGer,
        lambda a, x, y, s: blas_scipy.ScipyGer(False)(a, s, x, y),
        matrix,
        numbers(2),
        vector,
        scalar,
    ),
]


def rebuilt_by_eig(x):
    """The matrix of its eigenvalues and eigenvectors, which have no order, sign or length."""
    w, v = nlinalg.Eig()(x)
    return at.dot(at.dot(v, at.diag(w)), nlinalg.matrix_inverse(v))


def rebuilt_by_eigh(x):
    """The eigenvalues, and the matrix of them and their vectors, which have no sign."""
    w, v = nlinalg.Eigh()(x)
    return w, at.dot(v * w, v.T)


def rebuilt_by_qr(x):
    """The matrix of its factors, which have no signs."""
    q, r = nlinalg.QRFull("reduced")(x)
    return at.dot(q, r), at.abs(r)


def rebuilt_by_svd(x):
    """The singular values, and the matrix of its factors, which have no signs."""
    u, s, v = nlinalg.SVD(full_matrices=False)(x)
    return s, at.dot(u * s, v)


def eigh_grad(x, gw, gv):
    """The gradient of a sum over absolute eigenvectors, which has no sign."""
    w, v = nlinalg.Eigh()(x)
    return nlinalg.EighGrad()(x, w, v, gw, gv * at.sgn(v))


def of_tensors(a, y):
    """A matrix of equations."""
    return nlinalg.TensorSolve()(a.reshape((2, 2, 2, 2)), y)


NLINALG = [
    inexact(nlinalg.Det, nlinalg.det, lower),
    inexact(nlinalg.Eig, rebuilt_by_eig, square),
    inexact(nlinalg.Eigh, rebuilt_by_eigh, definite),
    inexact(nlinalg.EighGrad, eigh_grad, definite, vector, square),
    inexact(nlinalg.Inv, nlinalg.inv, square),
    inexact(nlinalg.Lstsq, lambda a, y: nlinalg.Lstsq()(a, y, 1e-6)[0], square, tall),
    inexact(nlinalg.MatrixInverse, nlinalg.matrix_inverse, square),
    inexact(nlinalg.MatrixPinv, nlinalg.pinv, matrix),
    inexact(nlinalg.QRFull, rebuilt_by_qr, square),
    inexact(nlinalg.SVD, rebuilt_by_svd, matrix),
    inexact(nlinalg.TensorInv, nlinalg.TensorInv(1), square),
    inexact(nlinalg.TensorSolve, of_tensors, four, numbers(2, 2)),
]
SLINALG = [
    inexact(
        slinalg.BilinearSolveDiscreteLyapunov,
        lambda a, q: slinalg.BilinearSolveDiscreteLyapunov()(a / 8, q),
        square,
        definite,
    ),
    inexact(slinalg.Cholesky, slinalg.Cholesky(), definite),
    inexact(slinalg.CholeskySolve, slinalg.CholeskySolve(), lower, vector),
    inexact(slinalg.Eigvalsh, slinalg.Eigvalsh(), square, definite),
    inexact(slinalg.EigvalshGrad, slinalg.EigvalshGrad(), square, definite, vector),
    inexact(slinalg.Expm, slinalg.Expm(), square),
    inexact(slinalg.ExpmGrad, slinalg.ExpmGrad(), square, definite),
    inexact(slinalg.Solve, slinalg.Solve(), square, vector),
    inexact(slinalg.SolveContinuousLyapunov, slinalg.SolveContinuousLyapunov(), square, definite),
    inexact(slinalg.SolveTriangular, slinalg.SolveTriangular(lower=True), lower, vector),
]
FOURIER = [
    inexact(sandbox.FFT, lambda x: sandbox.FFT()(x, 4, 1), matrix),
    inexact(Fourier, lambda x: Fourier()(x, 4, 1), matrix),
    inexact(sandbox.GradTodo, sandbox.grad_todo, matrix),
    inexact(fft.IRFFTOp, lambda x: fft.IRFFTOp()(x, [4]), numbers(2, 3, 2)),
    # NumPy 1.26 takes the real part of complex numbers, NumPy 2 none of them.
    example(
        fft.RFFTOp, lambda x, n: fft.RFFTOp()(x, at.stack([n])), matrix, three, dtypes=INEXACT[:3]
    ),
]
