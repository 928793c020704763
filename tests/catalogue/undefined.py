"""What of an Op's operands decides whether there is one result: where libraries do not differ."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from aesara.graph.basic import Variable
from aesara.sandbox.multinomial import MultinomialFromUniform
from aesara.scalar.basic import Pow
from aesara.tensor import nlinalg, slinalg
from aesara.tensor.math import Convolve, Dot, MatMul
from aesara.tensor.sort import ArgSortOp
from aesara.tensor.subtensor import AdvancedIncSubtensor, AdvancedIncSubtensor1

from catalogue.fitting import FITTING
from jaxprgen.graphs.library import is_array

SPREADING = (
    *("tensor.nlinalg", "tensor.slinalg", "tensor.nnet.abstract_conv", "tensor.nnet.conv"),
    *("tensor.blas", "tensor.blas_c", "tensor.blas_scipy", "tensor.fft"),
)
"""Modules of Ops by whose algorithms it is decided which elements infinities and NaN reach.

Those of matrices; products, of which BLAS leaves out some zero factors; convolutions: XLA
multiplies by the zeros around an operand; and Fourier transforms.
"""


def kind_of(node: Any) -> type:
    """The class of the Op, of `Elemwise` that of the scalar Op."""
    return type(getattr(node.op, "scalar_op", node.op))


def dtypes_of(variables: Sequence[Variable]) -> list[np.dtype[Any]]:
    """Those of arrays."""
    return [np.dtype(v.type.dtype) for v in variables if is_array(v)]


def is_undefined(node: Any, inputs: Sequence[Any]) -> bool:
    """Whether hardware or libraries choose the result, or operands do not fit each other."""
    if type(node.op) in FITTING and not FITTING[type(node.op)](node.op, *inputs):
        return True
    kind = kind_of(node)
    if kind.__name__ in ("Index", "Count", "Remove") and any(map(_has_nan, inputs)):
        return True  # Aesara takes for equal what has its NaN in the same places.
    arrays = [x for x in inputs if isinstance(x, np.ndarray)]
    if kind.__name__.startswith("Crossentropy") and any(x.dtype.kind == "c" for x in arrays):
        return True  # Aesara takes the real parts in the middle of it.
    if kind is Pow and _is_nearly_whole(*arrays):
        return True
    if kind.__module__ == "aesara.scalar.math" and _is_singular(kind.__name__, arrays):
        return True
    if type(node.op) in OPEN and OPEN[type(node.op)](node.op, *arrays):
        return True
    outputs = dtypes_of(node.outputs)
    return _spreads(node, arrays, outputs) or _wraps(kind.__name__, arrays, outputs)


def _is_nearly_whole(base: Any, exponent: Any) -> bool:
    """Whether rounding decides if a power of a negative number is one."""
    if base.dtype.kind == "c" or exponent.dtype.kind != "f":
        return False
    off = np.abs(exponent - np.round(exponent))
    near = (off > 0) & (off <= 1e-3 * np.abs(exponent))
    return bool(np.any((base < 0) & near))


def _has_nan(x: Any) -> bool:
    if isinstance(x, list):
        return any(map(_has_nan, x))
    return isinstance(x, np.ndarray) and x.dtype.kind in "fc" and bool(np.isnan(x).any())


def _reads_beyond(op: Any, x: Any, y: Any, *index: Any) -> bool:
    """Whether NumPy, adding a vector that broadcasts, reads what is behind it in memory.

    `numpy.add.at` takes one element of it for each of an index with several axes.
    """
    if op.set_instead_of_inc or op.ignore_duplicates or len(index) != 1:
        return False
    return x.ndim == y.ndim == 1 < index[0].ndim and 1 < y.size < index[0].size


def _passes_through_floats(op: Any, x: Any, y: Any, *index: Any) -> bool:
    """Whether NumPy adds integers as floats, for want of an integer dtype, and sums may not fit.

    `numpy.add.at` makes each sum an integer again; floats hold those up to 2**53, and an unsigned
    one none below zero.
    """
    if op.set_instead_of_inc or x.dtype.kind not in "iu" or y.dtype.kind not in "iu":
        return False
    if np.result_type(x, y).kind != "f" or not x.size or not y.size:
        return False
    most = math.prod(i.size for i in index)  # That an element is increased.
    low = int(x.min()) + most * min(int(y.min()), 0)
    high = int(x.max()) + most * max(int(y.max()), 0)
    return low < max(np.iinfo(x.dtype).min, -(2**53)) or high > 2**53


def _has_equal_eigenvalues(_: Any, matrix: Any, *others: Any) -> bool:
    """Whether rounding may make eigenvalues equal.

    Their eigenvectors are then any of a space, and may as well all be nearly the same; and what
    divides by the differences of eigenvalues is NaN, as Aesara's gradient of the exponential.
    """
    if matrix.dtype.kind not in "fc" or not np.isfinite(matrix).all():
        return False
    values = np.linalg.eigvals(matrix.astype(complex))
    gaps = np.abs(values - values[:, None])[~np.eye(len(values), dtype=bool)]
    precision = np.sqrt(np.finfo(matrix.dtype).eps)
    return bool(np.any(gaps <= precision * np.max(np.abs(values), initial=0)))


def _is_degenerate(op: Any, matrix: Any) -> bool:
    """Whether Lyapunov's equation with this matrix has none or several solutions.

    LAPACK then solves that of a matrix nearby.
    """
    if not np.isfinite(matrix).all():
        return False
    values = np.linalg.eigvals(matrix.astype(complex))
    others = values.conj()[:, None]
    continuous = isinstance(op, slinalg.SolveContinuousLyapunov)
    gaps = values + others if continuous else values * others - 1
    return bool(np.any(np.abs(gaps) <= 1e-6 * np.max(np.abs(values), initial=1)))


def _is_misread(matrix: Any, q: Any) -> bool:
    """Whether SciPy's solution of Lyapunov's equation with this matrix solves another.

    It lets LAPACK solve equations of a triangle where the matrix is real, ``q`` complex, and the
    real Schur form, because of complex eigenvalues, no triangle.
    """
    if matrix.dtype.kind == "c" or q.dtype.kind != "c" or not np.isfinite(matrix).all():
        return False
    return bool(np.iscomplex(np.linalg.eigvals(matrix)).any())


def _spreads(node: Any, arrays: Sequence[Any], outputs: Sequence[np.dtype[Any]]) -> bool:
    """Whether it is open where infinities and NaN among the operands are seen."""
    infinite = [x for x in arrays if x.dtype.kind in "fc" and not np.isfinite(x).all()]
    if not infinite:
        return False
    if isinstance(node.op, (Convolve, Dot, MatMul)) or type(node.op).__module__[7:] in SPREADING:
        return True
    if all(x.dtype.kind != "c" for x in arrays):
        return False
    # Complex numbers that are not finite are so as a whole: their parts do not matter.
    return any(x.dtype.kind == "c" for x in infinite) or any(d.kind != "c" for d in outputs)


def _is_singular(kind: str, arrays: Sequence[Any]) -> bool:
    """Whether a special function has no limit there, or versions of SciPy differ."""
    if kind == "Gamma":
        return bool(np.any((arrays[0] <= 0) & (arrays[0] == np.floor(arrays[0].real))))
    if kind == "Iv":
        order, x = arrays
        if np.any((order < 0) & (order % 2 > 0) & (order % 2 < 1) & (x == 0)):
            return True  # SciPy says inf where the limit is -inf.
    if kind in ("BetaInc", "BetaIncDer") and any(np.any(x <= 0) for x in arrays[:2]):
        return True
    if kind == "BetaIncDer" and np.any((arrays[2] == 0) | (arrays[2] == 1)):
        return True  # Aesara's series has no logarithm there; the limit is 0.
    return len(arrays) > 1 and any(np.isinf(x).any() for x in arrays)


def _wraps(kind: str, arrays: Sequence[Any], outputs: Sequence[np.dtype[Any]]) -> bool:
    """Whether integers are divided by zero, or made of floats that are none of them."""
    if kind in ("FloorDivide", "Mod") and all(x.dtype.kind in "biu" for x in arrays):
        return not np.all(arrays[-1])
    declared = (*outputs, np.dtype(bool))[0]
    if declared.kind == "b" and "IncSubtensor" in kind:
        return arrays[1].dtype.kind != "b"  # They are true or false after each of several terms.
    if declared.kind not in "iu" or kind.startswith("Arg"):
        return False
    if kind.startswith("AbstractBatchNorm"):  # Computes with floats, NaN among them, of integers.
        return True
    if "Advanced" in kind:  # Sums are cut off after each of several terms, not after all.
        return any(x.dtype.kind in "fc" for x in arrays)
    limits = np.iinfo(declared)
    floats = [x.real for x in arrays if x.dtype.kind in "fc"]
    return not all(np.all((x > limits.min - 1) & (x < limits.max)) for x in floats)


def _has_other_solutions(op: Any, matrix: Any, q: Any) -> bool:
    return _is_degenerate(op, matrix) or _is_misread(matrix, q)


OPEN: dict[type, Callable[..., bool]] = {
    AdvancedIncSubtensor: lambda *xs: _reads_beyond(*xs) or _passes_through_floats(*xs),
    AdvancedIncSubtensor1: _passes_through_floats,
    # NumPy's quicksort takes equal elements in any order.
    ArgSortOp: lambda _, x, *__: len(np.unique(x)) < x.size,
    # Aesara searches the sums of probabilities, which fall at one below zero.
    MultinomialFromUniform: lambda p, *_: bool((p < 0).any()),
    nlinalg.Eig: _has_equal_eigenvalues,
    slinalg.ExpmGrad: _has_equal_eigenvalues,
    slinalg.BilinearSolveDiscreteLyapunov: _has_other_solutions,
    slinalg.SolveContinuousLyapunov: _has_other_solutions,
}
"""Whether the arrays among an Op's inputs leave its result open, by the Op's class."""
