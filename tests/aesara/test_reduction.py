"""Reductions: over any axes, in exactly the dtypes that are asked for."""

import itertools

import aesara
import aesara.scalar as aes
import aesara.tensor as at
import numpy as np
import pytest
from aesara.tensor.elemwise import CAReduce
from aesara.tensor.math import (
    All,
    Any,
    Argmax,
    Max,
    MaxAndArgmax,
    Mean,
    Min,
    Prod,
    ProdWithoutZeros,
    Sum,
)
from hypothesis import given, strategies as st
from laws import DTYPES, assert_agrees, assert_same, at_once, equations, reference
from operands import values
from profiles import amount, examples, sample

import jaxprgen
from jaxprgen._jax import check_jaxpr
from jaxprgen.errors import JaxprGenError, ShapeMismatchError

REDUCTIONS = {
    "sum": Sum,
    "prod": Prod,
    "prod_without_zeros": ProdWithoutZeros,
    "max": Max,
    "min": Min,
    "any": Any,
    "all": All,
    "argmax": lambda axis: Argmax((0, 1) if axis is None else axis),
    "max_and_argmax": lambda axis: MaxAndArgmax([0, 1] if axis is None else list(axis)),
    **{
        f"reduce_{op}": lambda axis, op=op: CAReduce(op, axis)
        for op in (
            aes.add,
            aes.mul,
            aes.scalar_maximum,
            aes.scalar_minimum,
            aes.and_,
            aes.or_,
            aes.xor,
        )
    },
}


def apply(op, x):
    """The outputs, or none where Aesara has no such node."""
    try:
        return op(x, return_list=True)
    except (TypeError, NotImplementedError):
        return []


def compare(cases):
    """One program for many (input, output, argument); what Aesara cannot compute is left out."""
    kept = []
    for x, out, arg in cases:
        try:
            kept.append((x, out, arg, reference([x], [out], [arg])[0]))
        except (TypeError, ValueError, OverflowError):
            continue  # NumPy has no such reduction.
    inputs = {x: arg for x, _, arg, _ in kept}
    f = jaxprgen.compile(list(inputs), [out for _, out, _, _ in kept])
    args = list(inputs.values())
    check_jaxpr(f.jaxpr(*args).jaxpr)
    for ours, (_, out, _, theirs) in zip(at_once(f, *args), kept, strict=True):
        assert_same(ours, theirs, where=str(out.owner))
    return len(kept)


def matrices(dtype):
    """Two inputs of a dtype: with infinities and NaN, if it has them, and without."""
    every = values(dtype).reshape(2, 7)
    finite = np.nan_to_num(every, posinf=4, neginf=-4)[:, :5]
    return [(at.matrix(dtype=dtype), every), (at.matrix(dtype=dtype), finite)]


@pytest.mark.parametrize("name", REDUCTIONS)
def test_every_dtype(name):
    cases = []
    for dtype in DTYPES:
        special, finite = matrices(dtype)
        for (x, arg), axis in [(special, None), (finite, None), (special, (0,)), (finite, (1,))]:
            cases += [(x, out, arg) for out in apply(REDUCTIONS[name](axis), x)]
    # At least all integers.
    assert compare(sample(cases, 19)) >= amount(quick=9, deep=4 * 9)


@pytest.mark.parametrize("kind", [Sum, Prod, ProdWithoutZeros])
def test_result_and_accumulator_dtypes(kind):
    cases = []
    for dtype, other in itertools.product(DTYPES, DTYPES):
        x, arg = matrices(dtype)[1]
        if arg.dtype.kind in "if":  # What unsigned numbers make of others is the hardware's choice.
            arg = np.abs(arg)
        elif arg.dtype.kind == "c" and other.startswith("uint"):
            continue
        cases += [(x, out, arg) for out in apply(kind(0, dtype=other), x)]
        cases += [(x, out, arg) for out in apply(kind(0, acc_dtype=other), x)]
        cases += [(x, out, arg) for out in apply(kind(0, dtype="float32", acc_dtype=other), x)]
    assert compare(sample(cases, 61)) > amount(quick=20, deep=200)


@examples(2, quick=0.8)
@given(st.data())
def test_any_shape_and_axes(data):
    shape = tuple(data.draw(st.lists(st.sampled_from([0, 1, 2, 3]), max_size=4)))
    axes = data.draw(
        st.none() | st.sets(st.integers(-len(shape), len(shape) - 1)) if shape else st.none()
    )
    if axes is not None:
        axes = tuple({d % len(shape): d for d in axes}.values())
    x = at.tensor("float64", shape=[n if data.draw(st.booleans()) else None for n in shape])
    arg = np.resize(np.array([0.5, -1, 0, 2, np.inf, np.nan, -np.inf, 3]), shape)
    reduced = range(len(shape)) if axes is None else [d % len(shape) for d in axes]
    outputs = [
        at.sum(x, axes),
        at.prod(x, axes),
        at.any(x, axes),
        at.all(x, axes),
        at.mean(x, axes),
    ]
    outputs += [at.sum(x, axes, keepdims=True), ProdWithoutZeros(axes)(x), at.var(x, axes)]
    if all(shape[d] for d in reduced):
        outputs += [Max(axes)(x), Min(axes)(x)]
        outputs += [at.ptp(x, axes), *at.max_and_argmax(x, axes)] if reduced else []
    known = at.constant(arg)
    outputs += [at.sum(known, axes), at.prod(known, axes)]
    assert_agrees([x], outputs, [arg])


@pytest.mark.filterwarnings("ignore:Mean of empty slice")  # NumPy's.
def test_mean():
    """The Op, which only Aesara's rewriting makes, and the sum and quotient that users build."""
    nothing = at.matrix()
    inputs, args = [nothing], [np.zeros((0, 2))]
    outputs = [Mean(0)(nothing), Mean()(nothing), at.mean(nothing, 1)]
    for dtype in ["bool", "uint8", "int64", "float16", "float32", "float64"]:
        x, arg = matrices(dtype)[0]
        inputs.append(x)
        args.append(arg)
        for axis in (None, 0, 1):
            outputs += [Mean(axis)(x), at.mean(x, axis), at.mean(x, axis, keepdims=True)]
    assert_agrees(inputs, outputs, args)


def test_nothing_has_no_maximum():
    x = at.matrix("x")
    for reduction in (at.max, at.min, at.argmax, at.argmin, CAReduce(aes.scalar_maximum)):
        with pytest.raises(ShapeMismatchError, match=r"shape \(0, 3\)"):
            jaxprgen.compile([x], reduction(x))(np.zeros((0, 3)))
    assert issubclass(ShapeMismatchError, JaxprGenError)
    assert issubclass(ShapeMismatchError, ValueError)


@examples(3, quick=1)
@given(st.lists(st.sampled_from([0.0, 1.0, -1.0, np.nan, np.inf]), min_size=1, max_size=6))
def test_nan_counts_as_largest_and_the_first_counts(row):
    x = at.vector("x")
    assert_agrees([x], [at.argmax(x), at.max(x), at.min(x), at.argmin(x)], [np.array(row)])


def test_the_first_largest_complex_number():
    x = at.tensor("complex128", shape=(None, None))
    rows = [[1, 2j, 1 + 1j, 1 + 1j], [0, complex(1, np.nan), complex(np.nan, 0), 9]]
    outputs = [Argmax((1,))(x), *MaxAndArgmax([1])(x)]
    assert_agrees([x], outputs, [np.array([*rows, [-1, -1, -2, -1]])])


def test_equations():
    x, y = at.vector("x"), at.vector("y", dtype="float32")
    convert = "convert_element_type"  # Aesara accumulates float32 in float64.
    for out, expected in [
        (at.sum(x), ["reduce_sum"]),
        (at.sum(y), [convert, "reduce_sum", convert]),
        (x + at.ones((3, 4)).sum(), ["add"]),  # What is filled needs no array.
        (x + at.zeros(7).max(), ["add"]),
    ]:
        f = assert_agrees([x, y], [out], [np.ones(2), np.ones(3, "float32")])
        assert equations(f, np.ones(2), np.ones(3, "float32")) == expected


def test_a_scalar_has_an_axis_to_reduce():
    x = at.scalar("x")  # Of which Aesara declares the result, but NumPy 2 refuses it.
    f = jaxprgen.compile([x], [Sum(0)(x), Prod(0)(x), Max(0)(x), Sum()(x)])
    assert [float(v) for v in f(2.5)] == [2.5] * 4


def test_gradients():
    x = at.matrix("x")
    arg = np.array([[1.0, 2, -3], [0.5, 4, 0]])
    outputs = [at.sum(x, 0), at.prod(x, 1), at.max(x, 1), at.min(x), at.mean(x), at.std(x, 1)]
    gradients = [aesara.grad((out**2).sum(), x) for out in outputs]
    assert_agrees([x], gradients, [arg])
