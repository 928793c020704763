"""The vocabulary of rules computes what NumPy and SciPy compute, in the same dtypes."""

from __future__ import annotations

import inspect
import re
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import jax
import numpy as np
import pytest
import scipy.linalg
import scipy.special
from laws import difference, in_one_program

from jaxprgen import numpy as jp
from jaxprgen._jax import check_jaxpr, eval_jaxpr
from jaxprgen.emit.values import Value
from jaxprgen.errors import (
    LinearAlgebraError,
    ParameterError,
    ShapeMismatchError,
    UnknownNameError,
)
from jaxprgen.ir import Builder
from jaxprgen.numpy import arrays, fft, linalg, products, quantiles, reductions, special, ufuncs


class Case(NamedTuple):
    """A call of a function: of values, where arguments are arrays."""

    ours: Any
    theirs: Any
    args: tuple[Any, ...]
    options: dict[str, Any]

    def __str__(self):
        dtypes = [getattr(x, "dtype", x) for x in jax.tree.leaves(self.args)]
        return f"{self.ours.__name__}{(*map(str, dtypes),)} {self.options or ''}"

    def arrays(self):
        return [x for x in jax.tree.leaves(self.args) if isinstance(x, np.ndarray)]

    def emitted(self, *operands):
        """The results of our function, as a program of its arrays."""
        with Builder([jax.typeof(x) for x in operands]) as b:
            inputs = iter(b.inputs)
            args = jax.tree.map(
                lambda x: Value(next(inputs)) if isinstance(x, np.ndarray) else x, self.args
            )
            found = jax.tree.leaves(
                self.ours(*args, **self.options), is_leaf=lambda x: isinstance(x, Value)
            )
            closed = b.build([x.atom() for x in found])
        check_jaxpr(closed.jaxpr)
        return eval_jaxpr(closed, operands)


def assert_alike(cases, rtol=None):
    """Every case gives NumPy's values and dtypes; all are compiled as one program."""
    operands = [case.arrays() for case in cases]
    functions = [lambda xs, i=i, case=case: case.emitted(*xs[i]) for i, case in enumerate(cases)]
    wrong = []
    for case, ours in zip(cases, in_one_program(functions, operands), strict=True):
        with np.errstate(all="ignore"):
            theirs = jax.tree.leaves(case.theirs(*case.args, **case.options))
        assert len(ours) == len(theirs)
        for mine, yours in zip(ours, theirs, strict=True):
            found = difference(mine, yours, rtol)
            wrong += [f"{case}: {found}"] if found else []
    assert not wrong, "\n".join(wrong)


def case(name, *args, namespace: ModuleType = np, **options):
    module = {
        "numpy.fft": fft,
        "numpy.linalg": linalg,
        "scipy.linalg": linalg,
        "scipy.special": special,
    }
    ours = getattr(module.get(namespace.__name__, jp), name)
    return Case(ours, getattr(namespace, name), args, options)


# --- Elementwise functions -------------------------------------------------------------------

NUMBERS = {
    "b": [False, True, True],
    "i": [-3, 0, 5],
    "u": [7, 0, 2],
    "f": [-2.5, -0.0, 0.4],
    "c": [-1.5 + 2j, 0.3 - 1j, 2j],
}
POSITIVE = ("floor_divide", "mod", "remainder", "power", "reciprocal")
"""Functions that NumPy does not define for zeros or negative integers as last operand."""


def sample(dtype, right=False, positive=False):
    dtype = np.dtype(dtype)
    numbers = np.array(NUMBERS[dtype.kind])
    if right:
        numbers = np.roll(numbers, 1)[:, None]
    if positive and dtype.kind in "biu":
        numbers = numbers**2 % 4 + 1
    return numbers.astype(dtype)


DTYPES = ("bool", "int8", "uint16", "int64", "uint64", "float32", "float64", "complex128")


PAIRS = [
    *(("int8", "uint16"), ("uint64", "int64"), ("bool", "int8"), ("int64", "float32")),
    *(("float64", "float32"), ("float32", "complex128"), ("uint16", "float32")),
]
"""Pairs of different dtypes."""


def accepts(ufunc, *dtypes):
    try:
        ufunc.resolve_dtypes((*map(np.dtype, dtypes), *[None] * ufunc.nout))
    except TypeError:
        return False
    return True


def elementwise(name):
    """Calls of an elementwise function with all dtypes, or pairs of dtypes, that NumPy takes."""
    ufunc = getattr(np, name)
    combinations = [*zip(*[DTYPES] * ufunc.nin, strict=True), *(PAIRS if ufunc.nin == 2 else ())]
    if name == "sign" and np.lib.NumpyVersion(np.__version__) < "2.0.0":
        combinations.remove(("complex128",))  # NumPy 2 changed its meaning.
    for dtypes in combinations:
        if accepts(ufunc, *dtypes):
            last = len(dtypes) - 1
            operands = (
                sample(d, i > 0, name in POSITIVE and i == last) for i, d in enumerate(dtypes)
            )
            yield case(name, *operands)


COUNTS = np.array([[0], [3], [8], [64], [-1]], "int8")
SHIFTS = [
    case(name, sample(dtype), counts)
    for name in ("left_shift", "right_shift")
    for dtypes, counts in (
        (("bool", "int8", "int64"), COUNTS),
        (("uint8", "uint64"), COUNTS[:-1].astype("uint8")),
    )
    for dtype in dtypes
]
"""By more bits than there are, and by negative counts."""


UFUNCS = [name for name in ufuncs.__all__ if isinstance(getattr(np, name), np.ufunc)]


@pytest.mark.parametrize("part", range(4))
def test_elementwise_functions(part):
    unary = [name for name in UFUNCS if getattr(np, name).nin == 1]
    binary = [name for name in UFUNCS if name not in unary]
    names = [*unary, *binary][part::4]
    assert_alike([each for name in names for each in elementwise(name)])


def test_shifts_of_bits():
    assert_alike(SHIFTS)


# --- Other functions ---------------------------------------------------------------------------

generator = np.random.default_rng(0)
MATRIX = generator.normal(size=(3, 4))
CUBE = generator.normal(size=(2, 3, 4))
SQUARE = generator.normal(size=(3, 3)) + 4 * np.eye(3)
COMPLEX = SQUARE + 1j * generator.normal(size=(3, 3))
POSITIVE_DEFINITE = SQUARE @ SQUARE.T
HERMITIAN = COMPLEX @ COMPLEX.conj().T
WHOLE = generator.integers(-5, 5, size=(3, 4)).astype("int32")
BYTES = WHOLE.astype("int8")
FLAGS = WHOLE > 0
VECTOR = MATRIX[0]
WITH_NAN = np.array([1.0, np.nan, -2.0, 1.0, np.inf], "float32")
UNIT = np.linspace(0.1, 0.9, 5)
SINGLE = MATRIX.astype("float32")
HALF = MATRIX.astype("float16")
HYPERCUBE = generator.normal(size=(3, 2, 4, 2, 2))


def stacked(function):
    """A function of matrices, for each along the leading axes."""

    def over_leading_axes(*xs, **options):
        xs = [x if x.ndim > 1 else x[:, None] for x in xs]
        batch = np.broadcast_shapes(*(x.shape[:-2] for x in xs))
        xs = [np.broadcast_to(x, (*batch, *x.shape[-2:])).copy() for x in xs]
        found = [function(*(x[i] for x in xs), **options) for i in np.ndindex(*batch)]
        return np.stack(found).reshape(*batch, *found[0].shape)

    return over_leading_axes


def along(name, *xs, axes=(None, 0, (0, 1)), **options):
    """Calls over several axes."""
    for x in xs:
        for axis in axes:
            yield case(name, x, axis=axis, **options)


REDUCTIONS = [
    *(c for name in ("sum", "prod") for c in along(name, MATRIX, SINGLE, BYTES, FLAGS, COMPLEX)),
    *(
        c
        for name in ("mean", "var", "std")
        for c in along(name, MATRIX, HALF, BYTES, FLAGS, COMPLEX)
    ),
    *(c for name in ("max", "min") for c in along(name, MATRIX, WITH_NAN, BYTES, FLAGS, axes=(0,))),
    *(c for name in ("all", "any") for c in along(name, MATRIX, BYTES, FLAGS)),
    *along("ptp", MATRIX, BYTES),
    *along("sum", CUBE, BYTES, keepdims=True, axes=(-1, (0, 1), None)),
    *along("var", CUBE, keepdims=True, ddof=1, axes=(-1, (0, 2), None)),
    *(
        c
        for name in ("argmax", "argmin")
        for c in along(name, MATRIX, BYTES, FLAGS, axes=(None, 1))
    ),
    *(c for name in ("argmax", "argmin") for c in along(name, WITH_NAN, axes=(None,))),
    *(
        c
        for name in ("cumsum", "cumprod")
        for c in along(name, MATRIX, BYTES, FLAGS, axes=(None, 1))
    ),
    *along("diff", MATRIX, BYTES, FLAGS, axes=(-1, 0)),
    *along("sort", MATRIX, WITH_NAN, BYTES, COMPLEX, axes=(-1, 0)),
    case("argsort", WITH_NAN[[0, 1, 2, 4]]),
    case("argsort", MATRIX, axis=0),
    *(case("searchsorted", np.sort(VECTOR), MATRIX, side=side) for side in ("left", "right")),
    case("searchsorted", np.arange(4), MATRIX),
]

ARRAYS = [
    *(case("arange", *args) for args in ((4,), (1, 7, 2), (0.0, 1.0, 0.25), (3, 0, -1))),
    case("arange", 3, dtype="float32"),
    case("asarray", SINGLE, dtype="int64"),
    case("asarray", WHOLE),
    case("broadcast_to", VECTOR, (2, 4)),
    case("concatenate", [MATRIX, WHOLE]),
    case("concatenate", [SINGLE, BYTES, FLAGS], axis=-1),
    case("diag", VECTOR, k=1),
    case("diag", MATRIX, k=-1),
    case("diagonal", CUBE, offset=1, axis1=1, axis2=2),
    case("expand_dims", MATRIX, (0, -1)),
    case("expand_dims", MATRIX, 1),
    case("eye", 3, 4, k=1),
    case("eye", 2, dtype="int32"),
    case("flip", CUBE),
    case("flip", CUBE, axis=(0, 2)),
    case("full", (2, 3), 7),
    case("full", 2, 1.5, dtype="float32"),
    case("full", (2, 4), VECTOR),
    case("full_like", BYTES, 3),
    case("identity", 3),
    case("linspace", 0.0, 2.0, num=7),
    case("linspace", 1, 2, num=1),
    case("moveaxis", CUBE, 0, -1),
    case("moveaxis", CUBE, (0, 1), (2, 0)),
    case("ones", (2, 3)),
    case("ones_like", MATRIX, dtype=bool),
    case("pad", MATRIX, ((1, 0), (2, 3)), constant_values=5),
    case("pad", BYTES, 2),
    case("ravel", CUBE),
    case("repeat", MATRIX, 2),
    case("repeat", MATRIX, (1, 0, 3), axis=0),
    case("reshape", CUBE, (4, -1)),
    case("roll", MATRIX, 2),
    case("roll", MATRIX, -1, axis=1),
    case("split", MATRIX, 2, axis=1),
    case("split", MATRIX, (1, 3), axis=1),
    case("squeeze", CUBE[:1, :, :1]),
    case("squeeze", CUBE[:1, :, :1], axis=-1),
    case("stack", [MATRIX, WHOLE], axis=1),
    case("stack", [SINGLE, SINGLE], axis=-1),
    case("swapaxes", CUBE, 0, -1),
    case("take", MATRIX, np.array([3, -1, 0])),
    case("take", MATRIX, np.array([[0, 2], [1, -3]]), axis=0),
    case("take_along_axis", MATRIX, np.array([[1, 0, 3], [0, 0, -1], [2, 2, 2]]), axis=1),
    case("take_along_axis", MATRIX, np.array([[1, 0, 2, 2]]), axis=0),
    case("tile", MATRIX, 2),
    case("tile", VECTOR, (2, 1, 3)),
    case("trace", BYTES, offset=1),
    case("trace", CUBE, axis1=1, axis2=2),
    case("transpose", CUBE),
    case("transpose", CUBE, (1, 0, -1)),
    case("tri", 3, 4, k=-1),
    *(case(name, x, k=k) for name in ("tril", "triu") for x in (CUBE, BYTES) for k in (-1, 0, 1)),
    case("zeros", 3, dtype="int8"),
    case("zeros_like", BYTES),
    case("angle", COMPLEX),
    case("angle", WHOLE),
    case("clip", MATRIX, -0.5, 0.5),
    case("clip", BYTES, BYTES[::-1], None),
    case("clip", WITH_NAN, None, VECTOR[:1]),
    *(case(name, x) for name in ("real", "imag") for x in (COMPLEX, WHOLE)),
    case("nan_to_num", WITH_NAN),
    case("nan_to_num", WHOLE),
    case("round", 10 * MATRIX),
    *(case("round", 10 * MATRIX, decimals=n) for n in (1, -1)),
    case("where", FLAGS, MATRIX, BYTES),
    case("where", WHOLE, SINGLE, FLAGS),
]

PRODUCTS = [
    *(
        case(name, x, y)
        for name in ("matmul", "dot")
        for x, y in ((MATRIX, CUBE[0].T), (BYTES, VECTOR))
    ),
    case("dot", CUBE, MATRIX.T),
    case("dot", MATRIX, WHOLE[0, 0]),
    case("matmul", CUBE, MATRIX.T),
    case("matmul", FLAGS, FLAGS.T),
    case("inner", CUBE, MATRIX),
    case("kron", MATRIX, BYTES),
    case("outer", VECTOR, WHOLE),
    case("tensordot", CUBE, CUBE.transpose(1, 2, 0)),
    case("tensordot", CUBE, MATRIX, axes=([1, -1], [0, 1])),
    case("vdot", COMPLEX, COMPLEX.T),
    *(
        case("einsum", subscripts, *operands)
        for subscripts, *operands in (
            ("ij->ji", MATRIX),
            ("ii", SQUARE),
            ("ii->i", SQUARE),
            ("ij,jk", MATRIX, MATRIX.T),
            ("ij,jk->ki", MATRIX, WHOLE.T),
            ("...ij,kj->...ik", CUBE, MATRIX),
            ("...ij,...j", CUBE, VECTOR),
            ("bij,bij->b", CUBE, CUBE),
            ("ij,j,i->", MATRIX, VECTOR, VECTOR[:3]),
            ("ij,ij->ij", MATRIX, MATRIX[:1]),
            ("i,j,k->kij", VECTOR, VECTOR, VECTOR),
            ("ij,kl,lm->ijkm", MATRIX, SQUARE, SQUARE),
            ("ij,kl->", MATRIX, SQUARE),
        )
    ),
]

SQUARES = np.stack([SQUARE, -SQUARE, SQUARE.T, SQUARE[::-1], 2 * SQUARE, SQUARE**2]).reshape(
    2, 3, 3, 3
)
DEFINITE = SQUARES @ SQUARES.swapaxes(-1, -2)
SINGULAR = np.array([[1.0, 2.0], [2.0, 4.0]])
NOTHING = np.ones((2, 0, 0))

STACKS = [
    *(
        case(name, x, namespace=np.linalg)
        for name in ("det", "inv", "slogdet")
        for x in (SQUARES, SQUARES[0] + 1j * SQUARES[1], NOTHING)
    ),
    *(case("slogdet", x, namespace=np.linalg) for x in (SINGULAR, SINGULAR.astype(complex))),
    *(case(name, DEFINITE, namespace=np.linalg) for name in ("cholesky", "eigvalsh")),
    case("pinv", CUBE, namespace=np.linalg),
    case("pinv", CUBE[:, :0], namespace=np.linalg),
    *(
        Case(linalg.solve, stacked(np.linalg.solve), (x, y), {})
        for x, y in (
            (SQUARES, SQUARES[0] @ MATRIX),
            (SQUARE, SQUARES @ MATRIX),
            (SQUARES[:, :1], SQUARES @ MATRIX),
            (SQUARES, SQUARES[..., :0]),
        )
    ),
    Case(
        linalg.solve, lambda a, y: stacked(np.linalg.solve)(a, y)[..., 0], (SQUARES, UNIT[:3]), {}
    ),
    *(
        Case(
            linalg.solve_triangular,
            stacked(scipy.linalg.solve_triangular),
            (a, y),
            {"lower": lower},
        )
        for a, y in ((SQUARES, MATRIX), (SQUARE, SQUARES))
        for lower in (True, False)
    ),
    Case(linalg.expm, stacked(scipy.linalg.expm), (SQUARES / 4,), {}),
    *(
        case("lstsq", x, y, rcond=rcond, namespace=np.linalg)
        for x, y, rcond in (
            (MATRIX.T, VECTOR, None),
            (MATRIX.T, MATRIX.T, None),
            (MATRIX, VECTOR[:3], -1),
            (COMPLEX[:, :2], COMPLEX, 0.1),
            (SINGULAR, SINGULAR, None),
            (WHOLE, WHOLE, None),
        )
    ),
]

TRANSFORMS = [
    *(
        case(name, x, *args, norm=norm, namespace=np.fft)
        for name in ("fft", "ifft", "hfft", "irfft")
        for x in (CUBE, SINGLE, BYTES, COMPLEX, COMPLEX.astype("complex64"))
        for args, norm in (((), None), ((5, 0), "ortho"), ((2,), "forward"), ((3,), "backward"))
    ),
    *(
        case(name, x, *args, norm=norm, namespace=np.fft)
        for name in ("rfft", "ihfft")
        for x in (CUBE, SINGLE, BYTES)
        for args, norm in (((), None), ((5, 0), "ortho"), ((2,), "forward"))
    ),
    *(
        case(name, x, namespace=np.fft)
        for name in ("fft2", "ifft2", "irfft2", "rfft2", "fftn", "ifftn", "irfftn", "rfftn")
        for x in (CUBE, HYPERCUBE)
    ),
    *(
        case(name, HYPERCUBE, (3, 2, 4), (1, 3, 0), norm="ortho", namespace=np.fft)
        for name in ("fftn", "ifftn", "irfftn", "rfftn")
    ),
    *(case(name, n, 0.5, namespace=np.fft) for name in ("fftfreq", "rfftfreq") for n in (4, 5)),
    *(
        case(name, x, axes=axes, namespace=np.fft)
        for name in ("fftshift", "ifftshift")
        for x, axes in ((CUBE, None), (CUBE, 1), (VECTOR, 0), (CUBE, (0, -1)))
    ),
]

METHODS = (
    *("linear", "lower", "higher", "nearest", "midpoint", "hazen", "weibull"),
    *("interpolated_inverted_cdf", "median_unbiased", "normal_unbiased"),
)
QUANTILES = [
    *(
        case("quantile", x, q, method=method)
        for method in METHODS
        for x in (MATRIX, SINGLE, BYTES)
        for q in (0.4, UNIT)
    ),
    *(case("quantile", MATRIX[0, :3], q) for q in (0.0, 0.5, 1.0, np.float32([[0.25], [1.0]]))),
    *along("quantile", CUBE, q=0.3, keepdims=True, axes=(-1, (0, 2), None)),
    case("quantile", CUBE, UNIT, axis=(2, 0), keepdims=True),
    case("quantile", np.stack([WITH_NAN, WITH_NAN[::-1], UNIT.astype("float32")]), UNIT, axis=1),
    *(case("percentile", x, q) for x in (MATRIX, SINGLE, BYTES) for q in (30, 62.5, 100 * UNIT)),
    *along("median", CUBE, SINGLE, BYTES, FLAGS, keepdims=True, axes=(-1, (0, 1), None)),
]

LINEAR_ALGEBRA = [
    case("cholesky", POSITIVE_DEFINITE, namespace=np.linalg),
    *(case("det", x, namespace=np.linalg) for x in (SQUARE, COMPLEX)),
    *(case("slogdet", x, namespace=np.linalg) for x in (SQUARE, -SQUARE, COMPLEX)),
    *(case("eigvalsh", x, namespace=np.linalg) for x in (POSITIVE_DEFINITE, HERMITIAN)),
    *(case("inv", x, namespace=np.linalg) for x in (SQUARE, COMPLEX)),
    *along("norm", MATRIX, WHOLE, COMPLEX, namespace=np.linalg, axes=(None, 0, -1)),
    case("norm", MATRIX, axis=0, keepdims=True, namespace=np.linalg),
    case("pinv", MATRIX, namespace=np.linalg),
    *(case("solve", SQUARE, y, namespace=np.linalg) for y in (VECTOR[:3], MATRIX, WHOLE)),
    *(
        case("solve_triangular", SQUARE, VECTOR[:3], lower=lower, namespace=scipy.linalg)
        for lower in (True, False)
    ),
    case("expm", SQUARE / 4, namespace=scipy.linalg),
]

SPECIAL = [
    *(
        case(name, x, namespace=scipy.special)
        for name in ("erf", "erfc", "erfcx", "expit", "gammaln", "gamma", "i0", "i1", "j0", "j1")
        for x in (UNIT, UNIT.astype("float32"), np.arange(1, 4))
    ),
    *(case(name, UNIT, namespace=scipy.special) for name in ("digamma", "psi", "logit", "entr")),
    *(case(name, UNIT, namespace=scipy.special) for name in ("erfinv", "erfcinv")),
    *(
        case(name, UNIT[:, None], UNIT + 1, namespace=scipy.special)
        for name in ("gammainc", "gammaincc", "jv", "iv", "xlogy", "xlog1py", "betaln")
    ),
    case("betainc", UNIT, UNIT[::-1], UNIT[:, None], namespace=scipy.special),
    *(
        c
        for name in ("logsumexp", "softmax", "log_softmax")
        for c in along(name, MATRIX, WHOLE, axes=(None, 0), namespace=scipy.special)
    ),
    case("logsumexp", MATRIX, axis=1, keepdims=True, namespace=scipy.special),
]


@pytest.mark.parametrize(
    "cases", [REDUCTIONS, ARRAYS, PRODUCTS], ids=["reductions", "arrays", "products"]
)
def test_functions_of_arrays(cases):
    assert_alike(cases)


def test_quantiles():
    assert_alike(QUANTILES, 1e-6)  # NumPy subtracts in single precision.


def test_linear_algebra():
    assert_alike(LINEAR_ALGEBRA, 1e-9)


def test_stacks_of_matrices_and_least_squares():
    assert_alike(STACKS, 1e-9)


def test_fourier_transforms():
    assert_alike(TRANSFORMS)


def test_special_functions():
    assert_alike(SPECIAL, 2e-6)


def test_factorizations():
    def products(a):
        if isinstance(a, np.ndarray):
            return a, a, a @ a.conj().swapaxes(-1, -2)
        (q, r), (u, s, vh) = linalg.qr(a), linalg.svd(a, full_matrices=False)
        w, v = linalg.eigh(a @ jp.swapaxes(jp.conj(a), -1, -2))
        scaled = (x * jp.expand_dims(y, -2) for x, y in ((u, s), (v, w)))
        right = vh, jp.swapaxes(jp.conj(v), -1, -2)
        return q @ r, *(x @ y for x, y in zip(scaled, right, strict=True))

    matrices = (SQUARE, COMPLEX, CUBE, SQUARES)
    assert_alike([Case(products, products, (a,), {}) for a in matrices], 1e-9)


def test_every_function_is_compared():
    cases = [*REDUCTIONS, *QUANTILES, *ARRAYS, *PRODUCTS]
    cases += [*LINEAR_ALGEBRA, *STACKS, *TRANSFORMS, *SPECIAL]
    compared = {c.ours for c in cases} | {getattr(jp, name) for name in UFUNCS}
    compared |= {linalg.qr, linalg.svd, linalg.eigh}
    modules = (ufuncs, reductions, quantiles, arrays, products, linalg, fft, special)
    public = {getattr(m, name): name for m in modules for name in m.__all__}
    assert {name for f, name in public.items() if f not in compared} == set()


def test_every_function_is_documented():
    """By a docstring, and in the table of docs/ops.md."""
    names = [
        *(name for m in (ufuncs, reductions, quantiles, arrays, products) for name in m.__all__),
        *(f"linalg.{name}" for name in linalg.__all__),
        *(f"fft.{name}" for name in fft.__all__),
        *(f"special.{name}" for name in special.__all__),
    ]
    page = (Path(__file__).parents[2] / "docs" / "ops.md").read_text("utf-8")
    (table,) = re.findall(r"^\| \| \|\n\|---\|---\|\n(?:\|.*\n)+", page, re.MULTILINE)
    assert re.findall(r"`([\w.]+)`", table) == names
    for module in (ufuncs, arrays, reductions, quantiles, products, linalg, fft, special):
        for name in module.__all__:
            doc = inspect.getdoc(getattr(module, name))
            assert doc and doc.splitlines()[0].endswith(".")


# --- Numbers, operators, errors ----------------------------------------------------------------


def emitted(function, *arrays):
    """What a function of values computes."""
    return [*map(np.asarray, Case(function, None, arrays, {}).emitted(*arrays))]


@pytest.mark.parametrize(
    ("dtype", "number", "expected"),
    [
        ("float32", 2, "float32"),
        ("float32", 0.5, "float32"),
        ("int8", 2, "int8"),
        ("int8", 0.5, "float64"),
        ("bool", 2, "int64"),
        ("bool", True, "bool"),
        ("float32", 2j, "complex64"),
        ("int64", 2j, "complex128"),
    ],
)
def test_a_python_number_raises_the_kind_at_most(dtype, number, expected):
    """In functions and in operators, on either side; as NumPy 2 does."""
    x = sample(dtype)
    wanted = x.astype(expected) * np.asarray(number, expected)

    def products(x):
        return x * number, number * x, jp.multiply(x, number), jp.multiply(number, x)

    for found in emitted(products, x):
        assert not difference(found, wanted)


OPERATORS = [
    lambda x, y: x**y,
    lambda x, y: (x + 1) ** 3,
    lambda x, y: x**0.5,
    lambda x, y: (x + 0.5) ** -2,
    lambda x, y: 2**x,
    lambda x, y: 2.5**y,
    lambda x, y: x // y,
    lambda x, y: 7 // y,
    lambda x, y: x % y,
    lambda x, y: 7.5 % y,
    lambda x, y: x @ y.T if isinstance(y, np.ndarray) else x @ jp.transpose(y),
    lambda x, y: x / y,
    lambda x, y: 1 / y,
    lambda x, y: y + (x > 1),
    lambda x, y: (x > 1) << (y > 1),
    lambda x, y: (x > 1) >> (y > 1),
    lambda x, y: abs(-x),
    lambda x, y: x[0],
    lambda x, y: x[-1, 1:],
    lambda x, y: x[..., None, ::2],
    lambda x, y: x[:, [0, -1]],
    lambda x, y: x[x.shape[0] - 1 :, ..., 0],
    lambda x, y: x[np.array([[True, False, True]]).repeat(2, 0)],
    lambda x, y: x[..., np.array([True, False, True])],
]


@pytest.mark.parametrize(
    "dtypes",
    [("float64", "float64"), ("float32", "int8"), ("int64", "int64"), ("uint8", "float32")],
    ids=str,
)
def test_operators_of_values(dtypes):
    x = np.array([[1, 2, 3], [3, 1, 2]], dtypes[0])
    y = np.array([[2, 1, 3], [1, 1, 2]], dtypes[1])
    assert_alike([Case(f, f, (x, y), {}) for f in OPERATORS])


def test_functions_of_known_values_and_without_x64():
    def known(x):
        return [jp.exp(Value(np.arange(3))) + x, jp.sum(jp.ones(3)) * x, jp.arange(3) + x]

    x = np.arange(3.0)
    for ours, theirs in zip(
        emitted(known, x), (np.exp(x) + x, 3 * x, np.arange(3) + x), strict=True
    ):
        assert not difference(ours, theirs)
    with jax.enable_x64(False) if hasattr(jax, "enable_x64") else jax.experimental.disable_x64():
        assert emitted(jp.exp, np.arange(3, dtype="int32"))[0].dtype == np.float32


@pytest.mark.parametrize(
    ("function", "error", "text"),
    [
        (lambda x: jp.invert(x), TypeError, "ufunc 'invert'"),
        (lambda x: jp.einsum("ij", x), ShapeMismatchError, "einsum: 'ij' does not name 1 axes."),
        (lambda x: jp.einsum("i,i", x), ShapeMismatchError, "names 2 operands, but 1 were given"),
        (lambda x: jp.dot(x, x[:2]), ShapeMismatchError, "Cannot multiply shapes (3,) and (2,)"),
        (lambda x: jp.sum(x, axis=1), ShapeMismatchError, "Axis 1 is out of bounds"),
        (lambda x: x + x[:2], ShapeMismatchError, "Shapes (3,) and (2,) do not broadcast"),
        (lambda x: jp.reshape(x, (2, -1)), ShapeMismatchError, "Cannot reshape (3,)"),
        (lambda x: jp.quantile(x, 1.5), ParameterError, "q must be in [0, 1], got 1.5."),
        (lambda x: jp.quantile(x, 0.5, method="x"), UnknownNameError, "must be one of linear, mid"),
        (lambda x: jp.fft.fft(x, norm="x"), UnknownNameError, "must be one of backward, ortho,"),
        (lambda x: jp.fft.fftn(x, axes=(0, -1)), ShapeMismatchError, "needs different axes"),
        (lambda x: jp.linalg.solve(jp.eye(3), x[:2]), ShapeMismatchError, "of shape (2,)."),
        (lambda x: jp.linalg.det(x), LinearAlgebraError, "Only square matrices"),
        (lambda x: jp.linalg.lstsq(jp.eye(2), x), LinearAlgebraError, "of shape (2,)"),
    ],
)
def test_mistakes_are_named(function, error, text):
    with pytest.raises(error) as caught:
        emitted(function, np.ones(3))
    assert text in str(caught.value)
