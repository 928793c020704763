"""Elemwise: broadcasting, fusion, folding, and what differentiation makes of it."""

import warnings
from itertools import chain, product

import aesara.scalar as aes
import aesara.tensor as at
import jax
import numpy as np
import pytest
from aesara.graph.fg import FunctionGraph
from aesara.tensor import inplace
from aesara.tensor.elemwise import Elemwise
from aesara.tensor.rewriting.elemwise import FusionOptimizer, local_elemwise_fusion
from hypothesis import given, strategies as st
from laws import (
    DTYPES,
    assert_agrees,
    assert_derivatives,
    assert_same,
    at_once,
    equations,
    reference,
)
from operands import values
from profiles import examples, sample

import jaxprgen
from jaxprgen._jax import check_jaxpr


def numbers(dtype, shape, start=0):
    """An array of the values that a dtype is tried on, cycled from one of them."""
    return np.resize(np.roll(values(dtype), -start), shape).astype(dtype)


# --- Known booleans ----------------------------------------------------------------------

CHOICES = {
    "everywhere": np.arange(3) >= 0,
    "nowhere": np.arange(3) < 0,
    "somewhere": np.arange(3) > 1,
}


@pytest.mark.parametrize("where", CHOICES)
def test_what_is_known_everywhere_is_not_chosen(where):
    x, known = at.dvector("x"), at.constant(CHOICES[where])
    mixed = at.switch(at.and_(x > 0, known), x, at.switch(at.or_(known, x < 1), at.log(x), 2 * x))
    outputs = [at.switch(known, x, at.exp(x)), mixed, known * (x > 0)]
    given = np.array([0.5, -1.0, 2.0])
    with np.errstate(invalid="ignore"):
        assert_agrees([x], outputs, [given])
    found = equations(jaxprgen.compile([x], outputs[0]), given)
    assert ("select_n" in found) == (where == "somewhere")
    assert ("exp" in found) == (where != "everywhere")


# --- Broadcasting ------------------------------------------------------------------------

KINDS = ["input", "open input", "constant", "splat", "filled", "shuffled"]


@st.composite
def operands(draw, shape):
    """One operand that broadcasts to a shape: its variable, the inputs it needs, their values."""
    kept = shape[draw(st.integers(0, len(shape))) :]
    own = tuple(draw(st.sampled_from([n, n, 1])) for n in kept)
    dtype = draw(st.sampled_from(["float64", "float32", "int8", "bool"]))
    kind = draw(st.sampled_from(KINDS))
    array = numbers(dtype, own, draw(st.integers(0, 5)))
    if kind == "constant":
        return at.as_tensor(array), [], []
    if kind == "splat":
        return at.alloc(np.asarray(2, dtype), *own), [], []
    # A size of one must be declared, or else it does not broadcast.
    declared = own if kind != "open input" else tuple(1 if n == 1 else None for n in own)
    if kind == "shuffled":
        order = draw(st.permutations(range(len(own))))
        x = at.tensor(dtype, shape=[own[d] for d in order])
        back = [order.index(d) for d in range(len(own))]
        return x.dimshuffle(back), [x], [array.transpose(order)]
    x = at.tensor(dtype, shape=declared)
    return (at.second(x, np.asarray(3, dtype)) if kind == "filled" else x), [x], [array]


def is_masked(x, y):
    """Whether a boolean and a float: to XLA their product is a choice, ``False * inf`` 0."""
    return {np.dtype(v.dtype).kind for v in (x, y)} == {"b", "f"}


@examples(2, quick=1)
@given(st.data())
def test_broadcasting(data):
    shape = tuple(data.draw(st.lists(st.sampled_from([0, 1, 2, 3]), max_size=4)))
    drawn = [data.draw(operands(shape)) for _ in range(3)]
    (x, y, z), inputs, args = zip(*drawn, strict=True)
    outputs = [
        at.add(x, y, z),
        at.mul(x, x if is_masked(x, y) else y),
        at.maximum(x, z),
        at.lt(y, z),
        at.second(x, y),
        at.switch(x, y, z),
        at.clip(x, -1, 1) + y,
        at.exp(at.cast(x, "float64")) * at.square(at.second(y, at.cast(z, "float64"))),
    ]
    assert_agrees([*chain(*inputs)], outputs, [*chain(*args)])


@pytest.mark.parametrize("number", [np.inf, np.nan, 300.0])
def test_a_known_number_out_of_range_is_converted_as_an_array_of_it(number):
    x = at.vector("x")
    f = jaxprgen.compile([x], at.cast(at.second(x, number), "int8"))
    with np.errstate(invalid="ignore"):
        np.testing.assert_array_equal(f(np.ones(2)), np.full(2, number).astype("int8"))
    assert (f(np.ones(0)).dtype, f(np.ones(0)).shape) == (np.int8, (0,))


def test_what_is_repeated_is_computed_once():
    x = at.vector("x")
    f = assert_agrees([x], [at.exp(at.alloc(x, 1000, 3)) + 1], [np.arange(3.0)])
    sizes = [(eqn.primitive.name, eqn.outvars[0].aval.size) for eqn in f.jaxpr(np.ones(3)).eqns]
    assert sizes == [("broadcast_in_dim", 3), ("exp", 3), ("add", 3), ("broadcast_in_dim", 3000)]


# --- Equations ---------------------------------------------------------------------------


def vectors(names, dtypes=None):
    kinds = dtypes or ["float64"] * len(names)
    return [at.vector(name, dtype=dtype) for name, dtype in zip(names, kinds, strict=True)]


x, y, z, w = vectors("xyzw")


def composites():
    """Scalar graphs in one Op: constants and several dtypes inside, one and several outputs."""
    a, b = aes.float64("a"), aes.float64("b")
    i, c = aes.int8("i"), aes.complex128("c")
    half = aes.constant(0.5)
    yield aes.Composite([a, b], [aes.exp(a * half) + b - aes.neg(a * half)])
    yield aes.Composite([a, b], [a + b, aes.lt(a, b), aes.cast(a * b, "int16")])
    yield aes.Composite([a, i], [aes.switch(aes.gt(i, aes.constant(0)), a, i), aes.second(a, half)])
    yield aes.Composite(
        [i, b], [aes.floor_divide(i, aes.constant(np.int8(3))) % b, aes.add(i, i, b)]
    )
    yield aes.Composite([c, a], [c * a, aes.eq(c, a), c - a])
    yield aes.Composite([a, b], [aes.Composite([a, b], [aes.tanh(a) * b])(b, a)])


small, single, flag = vectors("abc", ["int8", "float32", "bool"])
EQUATIONS = [
    (at.add(x, y), ["add"]),
    (at.add(x, y, z, w), ["add"] * 3),
    (at.mul(x, y, z), ["mul"] * 2),
    (Elemwise(aes.add)(x), []),
    (Elemwise(aes.mul)(x), []),
    (x + 1.5, ["add"]),
    (x + np.arange(3.0), ["add"]),
    (x + (np.arange(3.0) + np.ones(3)) * 2, ["add"]),
    (x * at.ones_like(y), []),
    (x + at.zeros_like(y), ["add"]),  # -0 + 0 is 0.
    (at.second(x, y), []),
    (at.second(x, at.second(y, z)), []),
    (at.switch(at.ones_like(x), y, z), []),
    (at.exp(at.zeros_like(x)) + y, ["add"]),
    (Elemwise(next(composites()))(np.arange(3.0), 2.0) + x, ["add"]),
    (x.dimshuffle(0, "x").dimshuffle(0), ["broadcast_in_dim", "squeeze"]),
    (at.clip(x, 0, 1), ["max", "min"]),
    (x**2, ["square"]),
    (x**3, ["integer_pow"]),
    (at.cast(x, "float64"), []),
    (at.cast(at.cast(x, "float32"), "float64"), ["convert_element_type"] * 2),
    (at.add(small, single, flag), ["convert_element_type"] * 2 + ["add"] * 2),
]


@pytest.mark.parametrize(("out", "expected"), EQUATIONS, ids=[str(o) for o, _ in EQUATIONS])
def test_no_equation_too_many(out, expected):
    inputs = [x, y, z, w, small, single, flag]
    args = [np.linspace(0.1, 1, 3) * i for i in range(1, 5)]
    args += [
        np.array([1, -2, 3], "int8"),
        np.array([0.5, 1, 2], "float32"),
        np.array([1, 0, 1]) > 0,
    ]
    assert_agrees(inputs, [out], args)
    found = equations(jaxprgen.compile(inputs, [out], passes=()), *args)
    assert found == expected


def test_known_views_of_read_only_arrays_are_repeated():
    base = np.ones(1)
    view = base[:]
    base.flags.writeable = False
    known = at.TensorConstant(at.TensorType("float64", shape=(1,)), view)
    assert known.data is view
    assert_agrees([x], [x + at.eq(known, [1.0, 2.0, 3.0])], [np.ones(3)])


# --- Fusion and work in place ------------------------------------------------------------


OTHER = [("float32", "complex128"), ("int8", "float16"), ("float16", "float64"), ("bool", "int8")]


def test_composites():
    """And one of operands of other dtypes: that of batch normalization takes such."""
    inputs, args, outputs = [], [], []
    for op in composites():
        kinds = [kind.dtype for kind in op.inputs_type]
        finite = {d: np.nan_to_num(values(d), posinf=9, neginf=-9)[:6] for d in kinds}
        x, y = at.tensor(kinds[0], shape=(None, 1)), at.tensor(kinds[1], shape=(None,))
        inputs += [x, y]
        args += [finite[kinds[0]][:, None], finite[kinds[1]]]
        if kinds == ["int8", "float64"]:
            args[-1] = args[-1] + 0.25  # The divisor.
        outputs += Elemwise(op)(x, y, return_list=True)
    for dtypes in OTHER:
        a, b = (aes.get_scalar_type(dtypes[0])() for _ in range(2))
        op = aes.Composite([a, b], [aes.Composite([a, b], [a * b + a])(b, a)])
        x, y = (at.vector(dtype=dtype) for dtype in dtypes)
        inputs += [x, y]
        args += [np.arange(3).astype(x.dtype), np.arange(1, 4).astype(y.dtype)]
        outputs.append(Elemwise(op)(x, y))
    assert_agrees(inputs, outputs, args)


def test_what_aesara_fuses():
    x, y = at.dmatrix("x"), at.fvector("y")
    a = at.exp(x) + y
    outputs = [at.tanh(a) * x, at.switch(a > 1, a / 2, at.cast(y, "float64") - a).sum(axis=0)]
    fgraph = FunctionGraph([x, y], outputs, clone=True)
    FusionOptimizer(local_elemwise_fusion).rewrite(fgraph)
    fused = [n for n in fgraph.apply_nodes if "Composite" in str(n.op)]
    assert fused
    args = [np.linspace(-1, 1, 6).reshape(2, 3), np.array([1, 2, 3], "float32")]
    ours = jaxprgen.compile(fgraph)(*args)
    theirs = jaxprgen.compile([x, y], outputs)(*args)
    for mine, yours in zip(ours, theirs, strict=True):
        assert_same(mine, yours)
    assert_agrees(fgraph.inputs, fgraph.outputs, args)


def test_composite_in_composite_of_several_outputs():
    # Aesara's Python mode hands both inner outputs the same array, so NumPy is asked.
    a, b = aes.float64("a"), aes.float64("b")
    first, second = aes.Composite([a, b], [aes.tanh(a) * b, a - b])(b, a)
    op = aes.Composite([a, b], [first + second, first])
    x, y = at.vector("x"), at.vector("y")
    p, q = np.array([0.0, 1, -2]), np.array([3.0, 0.5, 1])
    ours = jaxprgen.compile([x, y], Elemwise(op)(x, y))(p, q)
    for mine, yours in zip(ours, [np.tanh(q) * p + q - p, np.tanh(q) * p], strict=True):
        assert_same(mine, yours)


def test_work_in_place_leaves_the_arguments_alone():
    x, y = at.matrix("x"), at.row("y")
    here = [
        inplace.add_inplace(x, y),
        inplace.exp_inplace(x),
        inplace.maximum_inplace(x, y),
        Elemwise(aes.Sub(aes.transfer_type(1)), {0: 1})(y, x),
    ]
    args = [np.linspace(-1, 1, 6).reshape(2, 3), np.array([[0.5, 0, 2]])]
    before = [arg.copy() for arg in args]
    ours = jaxprgen.compile([x, y], here)(*args)
    theirs = reference([x, y], [x + y, at.exp(x), at.maximum(x, y), y - x], args)
    jax.tree.map(assert_same, list(ours), theirs)
    np.testing.assert_equal(args, before)


def test_work_in_place_rounds_the_result_and_not_the_operands():
    """In place of integers stand integers, of what is computed with floats."""
    operations = [
        *(inplace.add_inplace, inplace.sub_inplace, inplace.mul_inplace),
        *(inplace.mod_inplace, inplace.floor_divide_inplace, inplace.true_divide_inplace),
    ]
    numbers = [np.array([7, 2, 5, 100]), np.array([2.75, 1.3, 1.5, 300])]
    inputs, outputs, args = [], [], []
    for kinds in ("int64 float64", "float32 float64", "int8 int32", "uint8 int16"):
        xs = [at.vector(dtype=kind) for kind in kinds.split()]
        # Aesara does not let these overwrite an argument: the same without doing so.
        outputs += [Elemwise(op.scalar_op)(*xs) for op in operations]
        args += [n.astype(kind) for n, kind in zip(numbers, kinds.split(), strict=True)]
        inputs += xs
    assert {v.dtype for v in outputs} >= {"int64", "float32", "int8", "uint8"}
    assert_agrees(inputs, outputs, args)


# --- NaN, and what is known --------------------------------------------------------------


def test_clip():
    """By numbers that are known, and by arguments; in the declared dtype."""
    x, array = at.vector("x"), np.array([-np.inf, -2, -1, 0.5, 1, 3, np.inf, np.nan])
    inputs, args, outputs = [x], [array], []
    for low, high in [(-1, 1), (1, -1), (np.nan, 1), (-1, np.nan), (0, 0)]:
        inputs += at.scalars("low", "high")
        args += [float(low), float(high)]
        outputs += [at.clip(x, low, high), at.clip(x, *inputs[-2:])]
    for dtype in ["int8", "bool", "uint64", "float16"]:
        v = at.vector(dtype=dtype)
        inputs.append(v)
        args.append(np.array([0, 1, 2, 7], dtype))
        outputs += [at.clip(v, np.int8(1), np.int8(3)), at.clip(v, 0.5, 1.5)]
    assert_agrees(inputs, outputs, args)


@pytest.mark.parametrize("size", [0, 1, 3, 5000])
def test_known_arrays(size):
    """Small ones are computed while emitting, large ones by the program; both agree."""
    x = at.vector("x")
    a, b = at.constant(np.linspace(-2, 2, size)), at.constant(np.arange(size, dtype="int8"))
    outputs = [
        x + at.exp(a) * b,
        at.switch(b > 2, a, b),
        a + b,
        at.maximum(a, 0),
        at.cast(a, "bool"),
    ]
    f = assert_agrees([x], outputs, [np.ones(size)])
    if size <= 3:
        assert set(equations(f, np.ones(size))) <= {"add"}


# --- Casts -----------------------------------------------------------------------------

# What each dtype holds of every other one. What overflows is the hardware's choice.
CASTS = {
    "b": [True, False],
    "u": [0, 1, 2, 100],
    "i": [0, 1, 2, 100, -1, -100],
    "f": [0, -0.0, 1, 2, 100, 0.75, 1.5, -1, -99.5, np.inf, -np.inf, np.nan],
    "c": [0, 1, 2, 100, 0.75, 1.5, 1j, 2 + 3j, -1, -1j],
}


def fits(number, target):
    kind = np.dtype(target).kind
    if kind in "bc":
        return True
    number = np.real(number)
    return kind == "f" or (bool(np.isfinite(number)) and (kind == "i" or number >= 0))


def test_casts():
    inputs, args, outputs, wanted = [], [], [], []
    for source, target in sample(product(DTYPES, DTYPES), 45):
        numbers = [v for v in CASTS[np.dtype(source).kind] if fits(v, target)]
        x = at.vector(dtype=source)
        arg = np.array(numbers, source)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # That the imaginary part is dropped.
            wanted.append(arg.astype(target))
        inputs.append(x)
        args.append(arg)
        # Aesara's `cast` refuses complex to real numbers, its Op does not.
        outputs.append(Elemwise(aes.Cast(aes.get_scalar_type(target)))(x))
    f = jaxprgen.compile(inputs, outputs)
    check_jaxpr(f.jaxpr(*args).jaxpr)
    for ours, theirs, out in zip(at_once(f, *args), wanted, outputs, strict=True):
        assert_same(ours, theirs, rtol=0, where=str(out.owner))


# --- Gradients ---------------------------------------------------------------------------

SMOOTH = [at.exp, at.tanh, at.sin, at.square, at.neg, at.softplus, at.arctan, at.sigmoid]
JOINING = [
    at.add,
    at.mul,
    at.sub,
    lambda a, b: at.maximum(a, b - 0.0123),  # Of equals, every library has its own derivative.
    lambda a, b: a / (2 + at.square(b)),
]


@st.composite
def expressions(draw, leaves):
    """A variable that some smooth functions compute of the leaves."""
    pool = list(leaves)
    for _ in range(draw(st.integers(1, 8))):
        a, b = draw(st.sampled_from(pool)), draw(st.sampled_from(pool))
        if draw(st.booleans()):
            pool.append(draw(st.sampled_from(SMOOTH))(at.tanh(a)))
        else:
            pool.append(draw(st.sampled_from(JOINING))(a, b))
    return pool[-1]


@examples(1, quick=0.5)
@given(st.data())
def test_gradients(data):
    """The gradient that Aesara writes agrees with its Python mode and with JAX's own gradient."""
    inputs = at.matrix("x"), at.vector("y"), at.scalar("s")
    cost = data.draw(expressions(inputs)).sum()
    args = [np.linspace(-1, 0.9, 6).reshape(2, 3), np.array([0.3, -0.2, 0.7]), np.float64(0.4)]
    assert_derivatives(inputs, cost, args, rtol=1e-9)
