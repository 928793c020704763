"""Rows for `jaxprgen.ir.primitives.linear_algebra`."""

from __future__ import annotations

import functools
from typing import Any

import jax
from constructor_law import SHAPES, Call, Row, array, dtypes, mixed
from hypothesis import strategies as st
from jax import lax
from jax.lax import linalg

from jaxprgen import _jax

small = st.integers(1, 3)
sizes = st.integers(0, 3)
flags = st.booleans()
# Mostly what LAPACK takes, because JAX refuses everything else.
lapack_dtypes = st.sampled_from(["float32", "float64", "complex64", "complex128"]) | dtypes


@st.composite
def contracted(draw: Any) -> Call:
    dtype = draw(dtypes)
    batch, summed, left, right = (draw(st.lists(st.integers(0, 3), max_size=2)) for _ in range(4))
    bx, cx = range(len(batch)), range(len(batch), len(batch) + len(summed))
    by = range(len(right), len(right) + len(batch))
    cy = range(by.stop, by.stop + len(summed))
    x, y = array(dtype, *batch, *summed, *left), array(dtype, *right, *batch, *summed)
    if draw(st.sampled_from([False, False, False, True])):
        y = array(draw(dtypes), *draw(st.permutations(y.shape)))
    return Call((x, y), {"contract": (cx, cy), "batch": (bx, by)})


@st.composite
def convolutions(draw: Any) -> Call:
    """Operands whose dtypes, channels and groups mostly fit."""
    rank = draw(st.integers(1, 3))
    groups, outer, inner = draw(small), draw(small), draw(small)
    kind = draw(st.sampled_from(["plain", "features", "batch"]))
    batch = groups * draw(small) if kind == "batch" else draw(st.integers(0, 2))
    sizes = [draw(st.integers(1, 6)) for _ in range(rank)]
    filters = [draw(small) for _ in range(rank)]
    channels = inner * groups if kind == "features" else inner
    off = draw(st.sampled_from([0, 0, 0, 1]))
    x, w = (batch, channels, *sizes), (outer * groups + off, inner, *filters)
    options: dict[str, Any] = {
        "strides": tuple(draw(small) for _ in range(rank)),
        "padding": tuple((draw(st.integers(-1, 2)), draw(st.integers(0, 2))) for _ in range(rank)),
    }
    for name, factor in [("x_dilation", small), ("w_dilation", small)]:
        if draw(st.booleans()):
            options[name] = tuple(draw(factor) for _ in range(rank))
    for name in ("x_axes", "w_axes", "out_axes"):
        if draw(st.booleans()):
            options[name] = tuple(draw(st.permutations(range(rank + 2))))
    x, w = (
        tuple(shape[options.get(name, range(rank + 2)).index(d)] for d in range(rank + 2))
        for name, shape in [("x_axes", x), ("w_axes", w)]
    )
    if kind != "plain":
        options["feature_groups" if kind == "features" else "batch_groups"] = groups
    dtype = draw(dtypes)
    other = draw(dtypes) if draw(st.sampled_from([False, False, False, True])) else dtype
    return Call((array(dtype, *x), array(other, *w)), options)


def lax_conv(
    x: Any,
    w: Any,
    strides: Any,
    padding: Any,
    x_dilation: Any = None,
    w_dilation: Any = None,
    x_axes: Any = None,
    w_axes: Any = None,
    out_axes: Any = None,
    feature_groups: int = 1,
    batch_groups: int = 1,
) -> Any:
    order = tuple(range(x.ndim))
    numbers = lax.ConvDimensionNumbers(x_axes or order, w_axes or order, out_axes or order)
    return lax.conv_general_dilated(
        x,
        w,
        strides,
        padding,
        lhs_dilation=x_dilation,
        rhs_dilation=w_dilation,
        dimension_numbers=numbers,
        feature_group_count=feature_groups,
        batch_group_count=batch_groups,
    )


@st.composite
def transformed(draw: Any) -> Call:
    shape = tuple(n + 1 for n in draw(SHAPES))
    rank = draw(st.integers(1, max(1, len(shape))))
    kind = draw(st.sampled_from(["FFT", "IFFT", "RFFT", "IRFFT"]))
    wanted = st.sampled_from(["float32", "float64"] if kind == "RFFT" else ["complex64"])
    lengths = shape[-rank:]
    if kind == "IRFFT" and shape:
        lengths = (*lengths[:-1], max(1, 2 * (lengths[-1] - 1)))
    if draw(st.sampled_from([False, False, False, True])):
        lengths = draw(st.lists(st.integers(1, 4), min_size=1, max_size=3).map(tuple))
    return Call((array(draw(wanted | dtypes), *shape),), {"kind": kind, "lengths": lengths})


def lax_fft(x: Any, kind: str, lengths: Any) -> Any:
    """Bind the equation inside the program that `jax.lax.fft` calls."""
    whole = jax.make_jaxpr(lambda x: lax.fft(x, kind, lengths))(x)
    (eqn,) = whole.jaxpr.eqns
    inner = eqn.params["jaxpr"].jaxpr.eqns
    if len(inner) > 1:  # JAX converts the operand, which the constructor leaves to its caller.
        raise TypeError
    return _jax.primitive("fft").bind(x, **inner[0].params)


def factorization(function: Any, calls: st.SearchStrategy[Call]) -> Row:
    return Row(function, calls, among=True)


@st.composite
def matrix(draw: Any, **options: st.SearchStrategy[Any]) -> Call:
    """One matrix, mostly square; sometimes with a batch axis, or a vector."""
    m = draw(sizes)
    shape = draw(st.sampled_from([(m, m), (m, m), (m, 2), (2, m, m), (m,)]))
    return Call((array(draw(lapack_dtypes), *shape),), draw(st.fixed_dictionaries(options)))


@st.composite
def system(draw: Any) -> Call:
    m, n, dtype = draw(sizes), draw(sizes), draw(lapack_dtypes)
    left = draw(flags)
    right = draw(st.sampled_from([(m, n) if left else (n, m)] * 3 + [(m, m + 1)]))
    other = draw(st.sampled_from([dtype, dtype, dtype, "float32"]))
    names = ("lower", "transpose", "conjugate", "unit_diagonal")
    options = {"left_side": left, **{name: draw(flags) for name in names}}
    return Call((array(dtype, m, m), array(other, *right)), options)


def solve(a: Any, y: Any, transpose: bool, conjugate: bool, **options: Any) -> Any:
    return linalg.triangular_solve(a, y, transpose_a=transpose, conjugate_a=conjugate, **options)


@st.composite
def row_swaps(draw: Any) -> Call:
    shape = draw(st.sampled_from([(), (0,), (1,), (3,), (2, 3)]))
    return Call((array(draw(st.just("int32") | dtypes), *shape),))


def permutation(pivots: Any) -> Any:
    return linalg.lu_pivots_to_permutation(pivots, pivots.shape[-1])


def is_usual(call: Call) -> bool:
    """Return whether the operand is a batch of matrices of a dtype that LAPACK takes."""
    return len(call.types[0].shape) > 1 and call.types[0].dtype.char in "fdFD"


ROWS: dict[str, Row] = {
    # Products have the operands' dtype, as in `jax.numpy`.
    "dot_general": Row(
        lambda x, y, contract, batch: lax.dot_general(
            x, y, (contract, batch), preferred_element_type=x.dtype
        ),
        contracted(),
        outside=mixed,
    ),
    "conv_general_dilated": Row(lax_conv, convolutions()),
    "fft": Row(lax_fft, transformed(), outside=lambda call: not call.options["lengths"]),
    "cholesky": factorization(functools.partial(linalg.cholesky, symmetrize_input=False), matrix()),
    "lu": factorization(linalg.lu, matrix()),
    "lu_pivots_to_permutation": factorization(permutation, row_swaps()),
    "triangular_solve": factorization(solve, system()),
    "eig": factorization(functools.partial(linalg.eig, compute_left_eigenvectors=False), matrix()),
    "eigh": factorization(
        functools.partial(linalg.eigh, symmetrize_input=False), matrix(lower=flags)
    ),
    "qr": factorization(linalg.qr, matrix(full_matrices=flags)),
    "schur": factorization(linalg.schur, matrix()),
    # `jax.numpy` converts other dtypes, and checks the shape.
    "geqrf": factorization(
        functools.partial(jax.numpy.linalg.qr, mode="raw"), matrix().filter(is_usual)
    ),
    "svd": factorization(linalg.svd, matrix(full_matrices=flags, compute_uv=flags)),
}
