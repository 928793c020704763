"""Operators of values mean what NumPy's mean, in the same dtypes; the page for users names emit."""

import importlib
import inspect
import re
from pathlib import Path

import jax
import numpy as np
import pytest
import scipy.linalg
from laws import difference

from jaxprgen._jax import check_jaxpr, eval_jaxpr
from jaxprgen.emit import elementwise, matrix, reduce, shape, systems
from jaxprgen.emit.values import Value
from jaxprgen.errors import LinearAlgebraError, ShapeMismatchError
from jaxprgen.ir import Builder


def emitted(function, *arrays):
    """What a function of values computes, as a program of arrays."""
    with Builder([jax.typeof(x) for x in arrays]) as b:
        found = function(*map(Value, b.inputs))
        found = found if isinstance(found, (list, tuple)) else [found]
        closed = b.build([x.atom() for x in found])
    check_jaxpr(closed.jaxpr)
    return [*map(np.asarray, jax.jit(lambda *xs: eval_jaxpr(closed, xs))(*arrays))]


# --- Numbers and operators --------------------------------------------------------------------


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
    """On either side; as NumPy 2 does."""
    x = np.array([2.5, -0.0, 0.4] if "float" in dtype else [0, 1, 1]).astype(dtype)
    wanted = x.astype(expected) * np.asarray(number, expected)
    for found in emitted(lambda x: [x * number, number * x], x):
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
    lambda x, y: x @ (y.T if isinstance(y, np.ndarray) else shape.transpose(y, (1, 0))),
    lambda x, y: x / y,
    lambda x, y: 1 / y,
    lambda x, y: y + (x > 1),
    lambda x, y: (x > 1) << (y > 1),
    lambda x, y: (x > 1) >> (y > 1),
    lambda x, y: ((x > 1) & (y >= x)) | (x < y),
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
    found = emitted(lambda x, y: [operator(x, y) for operator in OPERATORS], x, y)
    for ours, operator in zip(found, OPERATORS, strict=True):
        assert not difference(ours, operator(x, y))


@pytest.mark.parametrize(
    "dtypes", [("int8", "int8"), ("int64", "int8"), ("uint8", "uint8"), ("uint64", "uint8")]
)
def test_shifts_by_more_bits_than_there_are_and_by_negative_counts(dtypes):
    x = np.array([-3, 0, 5]).astype(dtypes[0])
    counts = np.array([[0], [3], [8], [64], [-1]][: 4 if "u" in dtypes[0] else 5]).astype(dtypes[1])
    for ours, theirs in zip(
        emitted(lambda x, n: [x << n, x >> n], x, counts), (x << counts, x >> counts), strict=True
    ):
        assert not difference(ours, theirs)


def test_known_values_without_x64():
    with jax.enable_x64(False) if hasattr(jax, "enable_x64") else jax.experimental.disable_x64():
        x = np.arange(3, dtype="float32")
        found = emitted(lambda x: elementwise.exp(Value(np.arange(3.0))) + x, x)
    assert not difference(found[0], np.exp(x) + x)


def test_equal_known_arrays_are_one_constant():
    """Apart from their bits: zeros of different signs differ."""
    with Builder() as b:
        first, same, other = (Value(x * np.ones(3)).atom() for x in (0.0, 0.0, -0.0))
    assert first is same
    assert first is not other
    with b:
        large = [Value(np.zeros(10_000)).atom() for _ in range(2)]
    assert large[0] is not large[1]


@pytest.mark.parametrize(
    ("function", "error", "text"),
    [
        (lambda x: x + x[:2], ShapeMismatchError, "Shapes (3,) and (2,) do not broadcast"),
        (lambda x: x @ x[:2], ShapeMismatchError, "Cannot multiply shapes (3,) and (2,)"),
        (lambda x: shape.reshape(x, (2, -1)), ShapeMismatchError, "Cannot reshape (3,)"),
        (lambda x: shape.axis_of(1, x.ndim), ShapeMismatchError, "Axis 1 is out of bounds"),
        (lambda x: reduce.max(x[:0], [0]), ShapeMismatchError, "no elements to choose from"),
        (lambda x: matrix.det(x), LinearAlgebraError, "Only square matrices"),
        (lambda x: systems.solve(EYE, x[:2]), ShapeMismatchError, "of shape (2,)."),
        (lambda x: systems.lstsq(EYE, x[:2], x[0]), LinearAlgebraError, "of shape (3, 3)"),
    ],
)
def test_mistakes_are_named(function, error, text):
    with pytest.raises(error) as caught:
        emitted(function, np.ones(3))
    assert text in str(caught.value)


EYE = Value(np.eye(3))

# --- Stacks of matrices ------------------------------------------------------------------------

generator = np.random.default_rng(0)
SQUARES = generator.normal(size=(2, 3, 3, 3)) + 2 * np.eye(3)
COLUMNS = generator.normal(size=(3, 3, 2))


def stacked(function):
    """A function of matrices, for each along leading axes that broadcast."""

    def over_leading_axes(*xs):
        batch = np.broadcast_shapes(*(x.shape[:-2] for x in xs))
        xs = [np.broadcast_to(x, (*batch, *x.shape[-2:])).copy() for x in xs]
        found = [function(*(x[i] for x in xs)) for i in np.ndindex(*batch)]
        return np.stack(found).reshape(*batch, *found[0].shape)

    return over_leading_axes


@pytest.mark.parametrize(
    ("ours", "theirs", "operands"),
    [
        (matrix.inverse, np.linalg.inv, [SQUARES]),
        (matrix.det, np.linalg.det, [SQUARES]),
        (matrix.slogdet, np.linalg.slogdet, [SQUARES]),
        (matrix.slogdet, np.linalg.slogdet, [SQUARES[0] + 1j * SQUARES[1]]),
        (matrix.det, np.linalg.det, [np.ones((2, 0, 0))]),
        (lambda x: matrix.pseudoinverse(x, is_hermitian=False), np.linalg.pinv, [COLUMNS]),
        (matrix.expm, stacked(scipy.linalg.expm), [SQUARES / 4]),
        (systems.solve, stacked(np.linalg.solve), [SQUARES, COLUMNS]),
        (systems.solve, stacked(np.linalg.solve), [SQUARES[0, 0], COLUMNS]),
        (systems.solve, stacked(np.linalg.solve), [SQUARES, COLUMNS[..., :0]]),
        (
            lambda a, y: systems.solve_triangular(a, y, lower=True),
            stacked(lambda a, y: scipy.linalg.solve_triangular(a, y, lower=True)),
            [SQUARES, COLUMNS],
        ),
    ],
)
def test_matrices_are_the_last_two_axes(ours, theirs, operands):
    wanted = theirs(*operands)
    wanted = wanted if isinstance(wanted, tuple) else [wanted]
    for found, expected in zip(emitted(ours, *operands), wanted, strict=True):
        assert not difference(found, expected, 1e-9)


# --- What docs/ops.md says ---------------------------------------------------------------------


def test_users_are_shown_functions_that_exist():
    page = (Path(__file__).parents[2] / "docs" / "ops.md").read_text("utf-8")
    (table,) = re.findall(r"^\| `jaxprgen\.emit\.` \|.*\n\|---\|---\|\n(?:\|.*\n)+", page, re.M)
    named = 0
    for modules, functions in re.findall(r"^\| (`.*?) \| (.*?) \|$", table, re.M)[1:]:
        (first, *_) = re.findall(r"`(\w+)`", modules)
        for home, name in re.findall(r"`(?:(\w+)\.)?(\w+)`", functions):
            module = importlib.import_module(f"jaxprgen.emit.{home or first}")
            assert callable(getattr(module, name)), (home or first, name)
            named += 1
    assert named > 60
    text = inspect.getdoc(importlib.import_module("jaxprgen.emit"))
    assert set(re.findall(r"^\| `(\w+)`", table, re.M)) - {"jaxprgen"} <= set(
        re.findall(r"`(\w+)`", text)
    )
