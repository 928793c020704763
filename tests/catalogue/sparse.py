"""Sparse matrices. Operands and results are dense: conversions stand around every Op."""

import aesara.sparse as sparse
import aesara.tensor as at
import numpy as np
from aesara.sparse import basic, rewriting
from aesara.sparse.basic import (
    CSM,
    csc_from_dense,
    csm_data,
    csm_indices,
    csm_indptr,
    csm_properties,
    csm_shape,
    csr_from_dense,
    dense_from_sparse,
)
from aesara.sparse.sandbox import sp, sp2

from catalogue.example import example, numbers

KINDS = ("int32", "float32", "float64", "complex128")
FLOATS = ("float32", "float64")
x, y, z = numbers(4, 3), numbers(4, 3), numbers(3, 2)
square, row, column = numbers(3, 3), numbers(3), numbers(4)


def with_zeros(x):
    """A matrix with zeros, some of them in a whole row."""
    mask = np.array([[1, 0, 1], [0, 0, 0], [1, 1, 0], [0, 1, 1]], "int8")
    return x * mask


def csr(x):
    """An array as a CSR matrix."""
    return csr_from_dense(with_zeros(x))


def csc(x):
    """An array as a CSC matrix."""
    return csc_from_dense(with_zeros(x))


def one(op, build, *operands, dtypes=KINDS, **options):
    """An entry for an Op that takes one matrix, and gives one or an array."""

    def graph(x, *others):
        found = build(csr(x), *others)
        return (
            dense_from_sparse(found) if isinstance(found.type, sparse.SparseTensorType) else found
        )

    return example(op, graph, x, *operands, dtypes=dtypes, **options)


def two(op, build, dtypes=KINDS):
    """An entry for an Op of two matrices."""
    return one(op, lambda a, b: build(a, csr(b)), y, dtypes=dtypes)


def _csc(matrix):
    return csc_from_dense(dense_from_sparse(matrix))


def compared(name):
    """Entries for the comparisons of one kind."""
    function = getattr(sparse, {"NotEqual": "neq", "Equal": "eq"}.get(name, _short(name)))
    real = ("int32", "float32", "float64")
    return [
        two(getattr(basic, f"{name}SS"), function, real),
        one(getattr(basic, f"{name}SD"), function, y, dtypes=real),
    ]


def _short(name):
    return {"Less": "l", "Greater": "g"}.get(
        name.removesuffix("Than").removesuffix("Equal"), ""
    ) + ("t" if name.endswith("Than") else "e")


def arrays(m):
    """The arrays of a matrix, without its shape."""
    return csm_data(m), csm_indices(m), csm_indptr(m)


def entries(op, build, meaning, *operands, matrix=csr):
    """An entry for an Op of the arrays of a matrix that only C code runs."""
    return example(
        op,
        lambda x, *others: build(*arrays(matrix(x)), *others),
        x,
        *operands,
        meaning=lambda x, *others: meaning(matrix(x), *others),
        dtypes=FLOATS,
    )


def csm_grad(x, y):
    """What the derivative of `CSM` is."""
    a, b = csr(x), csr(y)
    return basic.CSMGrad()(*csm_properties(a), *csm_properties(b))


def abs_of(m):
    """Rates made of the entries of a matrix."""
    return m * m


def chances(m):
    """Probabilities with the entries of a matrix, by row."""
    squares = dense_from_sparse(m * m)
    totals = at.maximum(squares.sum(axis=1, keepdims=True), 1e-6)
    return csr_from_dense(squares / totals)


EXAMPLES = [
    one(CSM, lambda m: CSM("csr")(*arrays(m), csm_shape(m))),
    one(basic.CSMProperties, lambda m: csm_indptr(m)),
    example(basic.CSMGrad, csm_grad, x, y, dtypes=FLOATS),
    example(
        rewriting.CSMGradC,
        lambda x, y: rewriting.CSMGradC()(*csm_properties(csr(x)), *csm_properties(csr(y))),
        x,
        y,
        meaning=csm_grad,
        dtypes=FLOATS,
    ),
    one(basic.Cast, lambda m: basic.cast(m, "float64"), dtypes=FLOATS),
    one(basic.DenseFromSparse, lambda m: m),
    one(basic.SparseFromDense, lambda m: m),
    one(basic.GetItemList, lambda m: basic.get_item_list(m, [2, 0, 2])),
    two(basic.GetItemListGrad, lambda a, b: basic.get_item_list_grad(a, [2, 0, 3, 1], b), FLOATS),
    one(basic.GetItem2Lists, lambda m: basic.get_item_2lists(m, [2, 0], [1, 2]), dtypes=FLOATS),
    one(
        basic.GetItem2ListsGrad,
        lambda m, g: basic.get_item_2lists_grad(
            m, at.constant([2, 0, 3]), at.constant([1, 2, 0]), g
        ),
        row,
        dtypes=FLOATS,
    ),
    one(basic.GetItem2d, lambda m: m[1:4, ::2]),
    one(basic.GetItemScalar, lambda m: m[2, 1]),
    one(basic.Transpose, lambda m: m.T),
    one(basic.Neg, lambda m: -m),
    one(basic.ColScaleCSC, lambda m, s: basic.ColScaleCSC()(_csc(m), s), row, dtypes=FLOATS),
    one(basic.RowScaleCSC, lambda m, s: basic.RowScaleCSC()(_csc(m), s), column, dtypes=FLOATS),
    one(basic.SpSum, lambda m: sparse.sp_sum(m, 0)),
    example(basic.Diag, lambda x: basic.diag(csr_from_dense(x)), square, dtypes=KINDS),
    example(
        basic.SquareDiagonal,
        lambda x: dense_from_sparse(basic.square_diagonal(x)),
        row,
        dtypes=KINDS,
    ),
    one(basic.EnsureSortedIndices, basic.ensure_sorted_indices),
    two(basic.AddSS, lambda a, b: a + b),
    two(basic.AddSSData, lambda a, b: basic.add_s_s_data(a, -a)),
    one(basic.AddSD, lambda m, y: m + y, y),
    one(basic.StructuredAddSV, sparse.structured_add_s_v, row, dtypes=FLOATS),
    two(basic.MulSS, lambda a, b: a * b),
    one(basic.MulSD, lambda m, y: m * y, y),
    one(basic.MulSV, sparse.mul_s_v, row, dtypes=FLOATS),
    *(
        entry
        for name in ("Equal", "NotEqual", "LessThan", "GreaterThan", "LessEqual", "GreaterEqual")
        for entry in compared(name)
    ),
    two(basic.HStack, lambda a, b: sparse.hstack([a, b], format="csr")),
    two(basic.VStack, lambda a, b: sparse.vstack([a, b], format="csr")),
    one(basic.Remove0, basic.remove0),
    one(basic.TrueDot, sparse.true_dot, z, dtypes=FLOATS),
    one(basic.StructuredDot, sparse.structured_dot, z),
    one(basic.Dot, sparse.dot, z),
    one(
        basic.SamplingDot,
        lambda m, a, b: sparse.sampling_dot(a, b, m),
        numbers(4, 2),
        z,
        dtypes=FLOATS,
    ),
    one(
        basic.Usmm,
        lambda m, y, z: basic.usmm(at.constant(np.float32(2)), m, y, z),
        z,
        numbers(4, 2),
        dtypes=FLOATS,
    ),
    example(
        basic.ConstructSparseFromList,
        lambda x, v: dense_from_sparse(
            basic.construct_sparse_from_list(
                at.zeros((6, 3), x.dtype), v, at.constant([4, 0, 2, 5])
            )
        ),
        x,
        y,
        dtypes=FLOATS,
    ),
    entries(
        rewriting.StructuredDotCSR,
        lambda d, i, p, z: rewriting.StructuredDotCSR()(d, i, p, z),
        sparse.dot,
        z,
    ),
    entries(
        rewriting.StructuredDotCSC,
        lambda d, i, p, z: rewriting.StructuredDotCSC()(d, i, p, at.constant(np.int32(4)), z),
        sparse.dot,
        z,
        matrix=csc,
    ),
    *(
        example(
            getattr(basic, f"StructuredDotGrad{kind.upper()}"),
            lambda x, z, g, kind=kind, make=make: getattr(
                basic, f"StructuredDotGrad{kind.upper()}"
            )()(*arrays(make(x))[1:], z, g),
            x,
            z,
            numbers(4, 2),
            dtypes=FLOATS,
        )
        for kind, make in (("csr", csr), ("csc", csc))
    ),
    entries(
        rewriting.UsmmCscDense,
        lambda d, i, p, y, z: rewriting.UsmmCscDense(False)(
            at.constant(np.full((1, 1), 2, "float32")), d, i, p, at.constant(np.int32(4)), y, z
        ),
        lambda m, y, z: 2 * sparse.dot(m, y) + z,
        z,
        numbers(4, 2),
        matrix=csc,
    ),
    entries(rewriting.MulSDCSR, rewriting.MulSDCSR(), lambda m, y: csm_data(m * y), y),
    entries(rewriting.MulSDCSC, rewriting.MulSDCSC(), lambda m, y: csm_data(m * y), y, matrix=csc),
    entries(
        rewriting.MulSVCSR, rewriting.MulSVCSR(), lambda m, v: csm_data(sparse.col_scale(m, v)), row
    ),
    entries(
        rewriting.StructuredAddSVCSR,
        rewriting.StructuredAddSVCSR(),
        lambda m, v: csm_data(m) + v[csm_indices(m)],
        row,
    ),
    entries(
        rewriting.AddSD_ccode,
        lambda d, i, p, y: _add_sd(d, i, p, y),
        lambda m, y: dense_from_sparse(m) + y,
        y,
    ),
    one(sp2.Poisson, lambda m: sp2.poisson(abs_of(m)), dtypes=FLOATS, is_drawn=True),
    example(
        sp2.Binomial,
        lambda p: dense_from_sparse(
            sp2.csr_dbinomial(at.constant(4), at.mean(p * p) / 20, at.constant([3, 2]))
        ),
        row,
        dtypes=FLOATS,
        is_drawn=True,
    ),
    one(
        sp2.Multinomial,
        lambda m: sp2.multinomial(at.constant(3), chances(m)),
        dtypes=FLOATS,
        is_drawn=True,
    ),
    example(sp.ConvolutionIndices, lambda x: sp.convolution_indices(x, x), row),
    example(
        rewriting.SamplingDotCSR,
        lambda x, a, b: rewriting.SamplingDotCSR()(a, b, *arrays(csr(x)), at.constant(np.int32(3)))[
            0
        ],
        x,
        numbers(4, 2),
        z,
        meaning=lambda x, a, b: csm_data(sparse.sampling_dot(a, b, csr(x))),
        dtypes=FLOATS,
    ),
]


def _add_sd(data, indices, pointers, y):
    """`AddSD_ccode` of arrays; its ``make_node`` takes them out of a matrix itself."""
    matrix = CSM("csr")(data, indices, pointers, at.stack([4, 3]).astype("int32"))
    return rewriting.AddSD_ccode("csr")(matrix, y)
