"""Sparse matrices as arguments and results: taken apart into arrays, and put together again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import jax
import numpy as np
import scipy.sparse
from jax.sharding import NamedSharding, PartitionSpec

from jaxprgen import _jax
from jaxprgen.arguments.refusals import a
from jaxprgen.arguments.shardings import parts_along, placed, require_even
from jaxprgen.errors import ArgumentTypeError, ShardingError

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


class SplitMatrix(MatrixParts):
    """The arrays of a matrix in the format CSR that is cut into equal parts of its rows.

    Each array holds those of the parts, one after the other. All parts have as many places for
    entries; what is in the places after a part's last pointer is not stored. See `split_rows`.
    """


def split_rows(matrix: Any, sharding: NamedSharding) -> SplitMatrix:
    """Return a sparse matrix whose rows are split over the devices of a mesh.

    Each device holds the entries of its own rows. A compiled function takes such a matrix for an
    input in the format CSR. Products with it, and their derivatives, exchange no entries.

    Parameters
    ----------
    matrix : (n, m) matrix of `scipy.sparse`
        The matrix, in any format.
    sharding : NamedSharding
        The mesh, and the axes of it along which to split the rows, as in ``P("rows")``.

    Returns
    -------
    SplitMatrix
        The arrays of the matrix: a pytree. Shorter parts are padded to as many entries as the
        longest one has.

    Raises
    ------
    ArgumentTypeError
        It is not a matrix of SciPy's.
    ShardingError
        The sharding splits the rows unevenly, or splits the columns.
    """
    if not scipy.sparse.issparse(matrix):
        raise ArgumentTypeError(
            f"split_rows got {a(type(matrix).__name__)}, not a matrix of scipy.sparse.\n"
            "Pass one, such as scipy.sparse.csr_matrix(x)."
        )
    spec = (*sharding.spec, None)
    if any(spec[1:]):
        raise ShardingError(f"split_rows splits rows alone, got {sharding.spec}.")
    require_even(matrix.shape, sharding, "The matrix")
    (rows, columns), whole, parts = matrix.shape, matrix.tocsr(), parts_along(sharding, 0)
    size = rows // parts
    pointers = np.stack([whole.indptr[i * size : (i + 1) * size + 1] for i in range(parts)])
    counts = pointers[:, -1] - pointers[:, 0]
    data = np.zeros((parts, counts.max()), whole.dtype)
    indices = np.full(data.shape, columns)  # The index of an entry that is not stored.
    is_stored = np.arange(data.shape[1]) < counts[:, None]
    data[is_stored], indices[is_stored] = whole.data, whole.indices
    split, copied = (NamedSharding(sharding.mesh, PartitionSpec(*axes)) for axes in (spec[:1], ()))
    positions = (x.astype(np.int32) for x in (indices, pointers - pointers[:, :1]))
    entries, columns, ends = (
        placed(x.reshape(-1), split, "The matrix") for x in (data, *positions)
    )
    return SplitMatrix(entries, columns, ends, placed(_like(matrix.shape), copied, "The matrix"))


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
        elif isinstance(x, SplitMatrix) and formats[i] != "csr":
            raise ArgumentTypeError(
                f"Input {names[i]!r} is a sparse matrix in the format {formats[i]}, but the "
                "argument is split by rows.\nDeclare the input in the format csr."
            )
        elif isinstance(x, MatrixParts):
            found += x
        else:
            found += _opened(x, formats[i], names[i])
    return found


def _opened(x: Any, format: str, name: str) -> MatrixParts:
    if scipy.sparse.issparse(x):
        return parts_of(x.asformat(format))
    if _is_jaxs(x) and x.ndim == 2 and not _other_axes(x):
        return _of_jax(x, format)
    what, remedy = _refused(x, format)
    raise ArgumentTypeError(
        f"Input {name!r} is a sparse matrix in the format {format}, but the argument is {what}.\n"
        f"{remedy}"
    )


def _is_jaxs(x: Any) -> bool:
    return type(x).__module__.startswith("jax.experimental.sparse")


def _other_axes(x: Any) -> dict[str, int]:
    """Return how many axes of one of JAX's arrays are not sparse, by JAX's names for them."""
    found = {name: getattr(x, name, 0) for name in ("n_batch", "n_dense")}
    return {name: count for name, count in found.items() if count}


def _refused(x: Any, format: str) -> tuple[str, str]:
    """Return what an argument is that is no matrix, and what to pass instead."""
    kind = a(type(x).__name__)
    if isinstance(x, _jax.Tracer):
        return f"an array of shape {x.shape} that JAX traces", (
            "Transformations of JAX make such an array of a matrix A of scipy.sparse. Pass "
            "jax.experimental.sparse.BCSR.from_scipy_sparse(A), or let the function that JAX "
            "transforms close over A."
        )
    if _is_jaxs(x):
        axes = "".join(f", {name}={count}" for name, count in _other_axes(x).items())
        return f"{kind} of shape {x.shape}{axes}", (
            "Pass a matrix whose two axes are sparse, such as BCSR.fromdense(x), and map over a "
            "batch of them by jax.vmap."
        )
    return kind, (
        f"Pass a matrix of scipy.sparse, such as scipy.sparse.{format}_matrix(x), or of "
        "jax.experimental.sparse, such as BCSR.fromdense(x)."
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


def scipy_matrix(parts: MatrixParts, declared: Any) -> Any:
    """Return one of SciPy's matrices of a declared type, without what is not stored."""
    data, indices, pointers, like = (np.array(x) for x in parts)
    count = pointers[-1]
    kind = getattr(scipy.sparse, f"{row_or_column(declared)}_matrix")
    made = kind((data[:count], indices[:count], pointers), like.shape[:2])
    return made.asformat(declared.format).astype(declared.dtype, copy=False)


def row_or_column(declared: Any) -> str:
    """Return the format in which programs hold matrices of a type; that of BSR is CSR."""
    return "csr" if declared.format == "bsr" else declared.format
