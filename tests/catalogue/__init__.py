"""An example of every Op of Aesara, by family."""

from __future__ import annotations

import warnings

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # Several modules of Aesara's warn that they will go.
    from catalogue import (
        algebra,
        draws,
        files,
        indexing,
        nnet,
        scalars,
        shapes,
        sparse,
        special,
        structure,
    )

FAMILIES = {
    "Scalar functions": scalars.EXAMPLES,
    "Special functions": special.EXAMPLES,
    "Shapes": shapes.SHAPE,
    "Making and joining": shapes.CREATION,
    "Repetition, search and positions": shapes.EXTRA,
    "Indexing": indexing.INDEXING,
    "Sorting": indexing.SORTING,
    "Reductions": indexing.REDUCTIONS,
    "Products": algebra.PRODUCTS,
    "Linear algebra of NumPy": algebra.NLINALG,
    "Linear algebra of SciPy": algebra.SLINALG,
    "Fourier transforms": algebra.FOURIER,
    "Softmax and losses": nnet.SOFTMAX,
    "Convolution": nnet.CONVOLUTION,
    "Pooling": nnet.POOLING,
    "Normalization and blocks": nnet.BLOCKS,
    "Marks, copies and checks": structure.MARKS,
    "Ops of graphs and functions": structure.BUILDERS,
    "Lists": structure.LISTS,
    "Sparse matrices": sparse.EXAMPLES,
    "Loops and branches": structure.CONTROL,
    "Random numbers": [*draws.EXAMPLES, *draws.SANDBOX],
    "Files and messages": files.EXAMPLES,
}

BASES = {
    "aesara.graph.op": ("_NoPythonOp",),
    "aesara.link.c.op": ("COp", "ExternalCOp", "OpenMPOp", "_NoPythonCOp", "_NoPythonExternalCOp"),
    "aesara.sandbox.rng_mrg": ("mrg_uniform_base",),
    "aesara.scalar.basic": (
        "BinaryBitOp",
        "BinaryScalarOp",
        "FixedLogicalComparison",
        "LogicalComparison",
        "ScalarOp",
        "UnaryBitOp",
        "UnaryScalarOp",
    ),
    "aesara.sparse.basic": ("__ComparisonOpSD", "__ComparisonOpSS"),
    "aesara.tensor.blas": ("GemmRelated",),
    "aesara.tensor.blas_c": ("BaseBLAS",),
    "aesara.tensor.extra_ops": ("CumprodOp", "CumsumOp"),
    "aesara.tensor.math": ("NonZeroCAReduce",),
    "aesara.tensor.nnet.abstract_conv": (
        "AbstractConv",
        "AbstractConv_gradInputs",
        "AbstractConv_gradWeights",
        "BaseAbstractConv",
    ),
    "aesara.tensor.nnet.corr": ("BaseCorrMM",),
    "aesara.tensor.nnet.corr3d": ("BaseCorr3dMM",),
    "aesara.tensor.random.basic": ("ScipyRandomVariable",),
    "aesara.tensor.random.op": ("AbstractRNGConstructor", "RandomVariable"),
    "aesara.tensor.signal.pool": ("PoolGrad",),
    "aesara.tensor.slinalg": ("SolveBase",),
}
"""Classes that no node has: others derive from them, or they make instances of others."""
