"""Sparse matrices as arguments and results: taken apart into arrays, and put together again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import jax
import numpy as np
import scipy.sparse

from jaxprgen.arguments.refusals import a
from jaxprgen.errors import ArgumentTypeError

PARTS = ("data", "indices", "indptr", "shape")
"""The names of the arrays of a matrix. The last one is empty; its type holds the shape."""
FORMATS = ("csr", "csc")
"""The formats of matrices, by the axis that they compress."""


class MatrixParts(NamedTuple):
    """The arrays of a matrix in the format CSR or CSC.

    Attributes
    ----------
    data, indices
        The entries, and their indices along the axis that is not compressed.
    indptr
        Where the entries of each row or column begin, and the last ones end. Entries after these
        are not stored.
    like
        An array of the matrix's shape and a third axis of size zero.
    """

    data: Any
    indices: Any
    indptr: Any
    like: Any


def opened(args: Sequence[Any], formats: Mapping[int, str], names: Sequence[str]) -> list[Any]:
    """Return arguments with the arrays of each matrix in its place.

    Parameters
    ----------
    args
        The arguments.
    formats
        The formats of those that are to be matrices, by position.
    names
        The names of all arguments.

    Raises
    ------
    ArgumentTypeError
        One of these is not a sparse matrix.
    """
    found: list[Any] = []
    for i, x in enumerate(args):
        if i not in formats:
            found.append(x)
        elif isinstance(x, MatrixParts):
            found += x
        else:
            found += _opened(x, formats[i], names[i])
    return found


def _opened(x: Any, format: str, name: str) -> MatrixParts:
    if scipy.sparse.issparse(x):
        return parts_of(x.asformat(format))
    if type(x).__module__.startswith("jax.experimental.sparse") and x.ndim == 2:
        return _of_jax(x, format)
    raise ArgumentTypeError(
        f"Input {name!r} is a sparse matrix in the format {format}, but the argument is "
        f"{a(type(x).__name__)}.\nPass a matrix of scipy.sparse, such as "
        f"scipy.sparse.{format}_matrix(x), or of jax.experimental.sparse, such as "
        "BCSR.fromdense(x)."
    )


def parts_of(x: Any) -> MatrixParts:
    """Return the arrays of one of SciPy's matrices in the format CSR or CSC."""
    indices, pointers = (np.asarray(i, np.int32) for i in (x.indices, x.indptr))
    return MatrixParts(x.data, indices, pointers, _like(x.shape))


def _like(shape: Sequence[int]) -> Any:
    return np.empty((*shape, 0), np.bool_)


def _of_jax(x: Any, format: str) -> MatrixParts:
    from jax.experimental.sparse import BCOO, BCSR

    like = _like(x.shape)
    if format == "csc":
        x = (x if isinstance(x, BCOO) else x.to_bcoo()).T
    if isinstance(x, BCOO):
        x = BCSR.from_bcoo(x.sort_indices())
    indices, pointers = (
        i if i.dtype == np.int32 else i.astype("int32") for i in (x.indices, x.indptr)
    )
    return MatrixParts(x.data, indices, pointers, like)


def grouped(results: Sequence[Any], formats: Mapping[int, str]) -> list[Any]:
    """Return results with `MatrixParts` for the matrices among them.

    ``formats`` has their formats by their positions in what is returned.
    """
    left, found = iter(results), []
    for x in left:
        is_matrix = len(found) in formats
        found.append(MatrixParts(x, next(left), next(left), next(left)) if is_matrix else x)
    return found


def as_dictionaries(tree: Any) -> Any:
    """Return a pytree with dictionaries in place of `MatrixParts`; their leaves are the same."""

    def is_matrix(x: Any) -> bool:
        return isinstance(x, MatrixParts)

    return jax.tree.map(
        lambda x: dict(zip(PARTS, x, strict=True)) if is_matrix(x) else x, tree, is_leaf=is_matrix
    )


def jax_matrix(parts: MatrixParts, format: str) -> Any:
    """Return a matrix of `jax.experimental.sparse`: a ``BCSR``, or of the format CSC a ``BCOO``."""
    from jax.experimental.sparse import BCSR

    *arrays, like = parts
    shape = like.shape[:2]
    if format == "csr":
        return BCSR(tuple(arrays), shape=shape)
    return BCSR(tuple(arrays), shape=shape[::-1]).to_bcoo().T


def scipy_matrix(parts: MatrixParts, format: str) -> Any:
    """Return one of SciPy's matrices, without what is not stored."""
    data, indices, pointers, like = (np.array(x) for x in parts)
    count = pointers[-1]
    kind = getattr(scipy.sparse, f"{format}_matrix")
    return kind((data[:count], indices[:count], pointers), like.shape[:2])
