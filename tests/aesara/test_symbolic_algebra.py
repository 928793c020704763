"""Linear algebra, order, diagonals and draws of symbolic sizes: one program for all of them."""

import aesara.tensor as at
import jax
import numpy as np
import pytest
from aesara.tensor import extra_ops, nlinalg, slinalg
from aesara.tensor.random import basic as aer
from aesara.tensor.sort import TopKOp
from catalogue.draws import CONTINUOUS, DISCRETE, Case, generator, variable
from laws import assert_same, reference
from profiles import sample

import jaxprgen
from jaxprgen.errors import StaticShapeError, SymbolicSizeError

pytestmark = pytest.mark.filterwarnings("ignore::jaxprgen.errors.RuntimeCheckWarning")

KEY = jax.random.key(5)
SHAPES = {"m": "n,n", "x": "n,k", "y": "n"}
CALLS = [(4, 6), (6, 3), (1, 2)]
"""The sizes n and k of each call."""


def exported(f, *specs, constraints=()):
    """The program for arguments of these dtypes and shapes, such as "n,k"."""
    scope = jax.export.SymbolicScope(constraints)
    avals = [
        jax.ShapeDtypeStruct(jax.export.symbolic_shape(shape, scope=scope), dtype)
        for dtype, shape in specs
    ]
    return jax.export.export(jax.jit(f))(*avals)


def matrix_of(name):
    return at.dvector(name) if name == "y" else at.dmatrix(name)


def numbers(n, k):
    draw = np.random.default_rng(n)
    shapes = {"m": (n, n), "x": (n, k), "y": (n,)}
    return {name: draw.standard_normal(shape) for name, shape in shapes.items()}


# --- Values -------------------------------------------------------------------------------


def of_square_matrices(m, y):
    symmetric = m + m.T
    return [
        nlinalg.det(m),
        nlinalg.matrix_inverse(m),
        slinalg.solve(m, y),
        slinalg.cholesky(at.dot(m, m.T)),
        slinalg.expm(m),
        slinalg.solve_continuous_lyapunov(m, symmetric),
        nlinalg.eigh(symmetric)[0],
    ]


def of_wide_and_tall_matrices(x):
    """Factors as far as they have no signs."""
    found = [nlinalg.pinv(x), nlinalg.svd(x, compute_uv=False)]
    for mode in ("reduced", "complete"):
        q, r = nlinalg.qr(x, mode)
        found += [at.dot(q, r), at.abs(r)]
    return found


def diagonals(x, y, m):
    return [
        *(at.basic.ExtractDiag(offset)(x) for offset in (0, 1, -2)),
        *(at.basic.AllocDiag(offset)(y) for offset in (0, 1, -2)),
        extra_ops.fill_diagonal(x, 7.0),
        extra_ops.fill_diagonal(m + y[:, None, None], 7.0),
        extra_ops.fill_diagonal_offset(x, 7.0, -1),
        at.eye(x.shape[0], x.shape[1], 1),
        at.tri(x.shape[1], y.shape[0], -1),
        extra_ops.bartlett(y.shape[0]),
    ]


def order(x, y):
    """Sorted results, where Aesara leaves their order open."""
    found = [at.sort(x, 0), at.argsort(y)]
    for k, axis in ((2, 1), (-1, 0), (x.shape[0] // 2 + 1, 0)):
        top = TopKOp(axis, sorted=False)(x, k)
        found += [at.sort(part, axis) for part in top]
    ordered = at.sort(y)
    found += [
        at.searchsorted(part, x, side) for part, side in ((ordered, "left"), (ordered[1:], "right"))
    ]
    return [*found, at.searchsorted(y, x[0], "right", at.argsort(y))]


def repeated(x, y):
    return [at.repeat(x, 2, 1), at.repeat(y, x.shape[1]), at.repeat(x[:, :2], np.array([2, 3]), 1)]


@pytest.mark.parametrize(
    ("names", "build"),
    [
        ("my", of_square_matrices),
        ("x", of_wide_and_tall_matrices),
        ("xym", diagonals),
        ("xy", order),
        ("xy", repeated),
    ],
    ids=lambda x: getattr(x, "__name__", x),
)
def test_one_program_serves_every_size(names, build):
    inputs = [matrix_of(name) for name in names]
    outputs = build(*inputs)
    f = jaxprgen.compile(inputs, outputs)
    program = exported(f, *((np.float64, SHAPES[name]) for name in names))
    for n, k in CALLS:
        values = [numbers(n, k)[name] for name in names]
        theirs = reference(inputs, outputs, values)
        for output, ours, wanted in zip(outputs, program.call(*values), theirs, strict=True):
            assert_same(np.asarray(ours), wanted, 1e-9, where=f"{output.owner} of {n}, {k}")


# --- Draws --------------------------------------------------------------------------------

VECTORS = [
    Case(aer.multivariate_normal, (np.zeros(2), np.eye(2)), None),
    Case(aer.dirichlet, (np.ones(3),), None),
    Case(aer.multinomial, (5, [0.2, 0.5, 0.3]), None),
]


@pytest.mark.parametrize(
    "case", sample([*CONTINUOUS, *DISCRETE, *VECTORS], 3), ids=lambda c: getattr(c.op, "name", "")
)
def test_draws_of_symbolic_sizes_are_those_of_known_ones(case):
    """They have the dtypes and shapes of Aesara."""
    x, parameters = at.dvector("x"), [variable(p) for p in case.parameters]
    drawn = case.op(*parameters, size=(x.shape[0], 3), rng=generator(case.op))
    inputs, arrays = [x, *parameters], [np.asarray(p) for p in case.parameters]
    f = jaxprgen.compile(inputs, [drawn])
    shapes = [(a.dtype, ",".join(map(str, a.shape))) for a in arrays]
    program = exported(f, (KEY.dtype, ""), (np.float64, "n"), *shapes)
    args = [np.ones(5), *arrays]
    (ours,), (wanted,) = program.call(KEY, *args), reference(inputs, [drawn], args)
    assert (ours.shape, ours.dtype) == (wanted.shape, wanted.dtype)
    assert_same(np.asarray(ours), np.asarray(f(KEY, *args)[0]), 1e-12)


def test_permutations_and_choices_of_symbolic_sizes():
    """The number of rounds in which `jax.random.permutation` sorts depends on the size."""
    x, p = at.dmatrix("x"), at.dvector("p")
    y = x[:, 0]
    draws = [
        aer.permutation(y, rng=generator()),
        aer.permutation(x, rng=generator()),
        aer.permutation(x.shape[0], rng=generator()),
        aer.choice(y, size=(2,), replace=False, rng=generator()),
        aer.choice(y, size=(2,), p=p, replace=False, rng=generator()),
        aer.choice(y, size=(x.shape[1], 2), p=p, rng=generator()),
        aer.categorical(p, size=(2,), rng=generator()),
        aer.normal(size=x.shape[0], rng=generator()),
    ]
    f = jaxprgen.compile([x, p], draws)
    program = exported(f, (KEY.dtype, ""), (np.float64, "n,k"), (np.float64, "n"))
    for n, k in ((2, 3), (1625, 1), (1626, 1)):
        args = KEY, np.arange(1.0 * n * k).reshape(n, k), np.ones(n) / n
        for ours, wanted in zip(program.call(*args), f(*args), strict=True):
            assert_same(np.asarray(ours), np.asarray(wanted), 1e-12)


# --- What sizes have to be ----------------------------------------------------------------


def test_sizes_that_do_not_fit_fail_in_calls():
    x = at.dmatrix("x")
    program = exported(jaxprgen.compile([x], nlinalg.det(x)), (np.float64, "n,k"))
    assert_same(np.asarray(program.call(2 * np.eye(3))), np.asarray(8.0))
    with pytest.raises(ValueError, match="refining shapes") as caught:  # What JAX says.
        program.call(np.ones((2, 3)))
    assert "Only square matrices have determinants" in str(caught.value.__cause__)


def test_draws_of_negative_sizes_fail_in_calls():
    x = at.dvector("x")
    draws = aer.normal(size=(x.shape[0] - 2,), rng=generator())
    program = jaxprgen.compile([x], draws).export(KEY, "f64[n]")
    assert program.call(KEY, np.ones(2)).shape == (0,)
    with pytest.raises(ValueError, match=r"n - 2|-2\*|n >= 2"):
        program.call(KEY, np.ones(1))


def test_results_whose_shape_differs_by_size_name_the_constraint():
    a, y = at.dmatrix("a"), at.dvector("y")
    f = jaxprgen.compile([a, y], nlinalg.Lstsq()(a, y, 1e-9)[0])
    specs = (np.float64, "n,k"), (np.float64, "n")
    with pytest.raises(SymbolicSizeError, match=r"Lstsq(.|\n)*built at") as caught:
        exported(f, *specs)
    assert "n <= k" in str(caught.value)
    program = exported(f, *specs, constraints=["k <= n - 1"])
    data = numbers(5, 2)
    wanted = np.linalg.lstsq(data["x"], data["y"], rcond=None)[0]
    assert_same(np.asarray(program.call(data["x"], data["y"])), wanted, 1e-9)


def test_counts_that_only_calls_know_are_refused():
    x, counts = at.dvector("x"), at.lvector("counts")
    f = jaxprgen.compile([x, counts], at.repeat(x, counts))
    with pytest.raises(StaticShapeError, match="counts of repeat"):
        exported(f, (np.float64, "n"), (np.int64, "n"))
