"""Elemwise: broadcasting, fusion, folding, and what differentiation makes of it."""

import warnings
from itertools import chain, product

import aesara
import aesara.scalar as aes
import aesara.tensor as at
import jax
import numpy as np
import pytest
from aesara.graph.fg import FunctionGraph
from aesara.tensor import inplace
from aesara.tensor.elemwise import Elemwise
from aesara.tensor.rewriting.elemwise import FusionOptimizer, local_elemwise_fusion
from hypothesis import given
from hypothesis import strategies as st
from laws import DTYPES, assert_agrees, assert_same, at_once, equations, reference
from operands import values
from profiles import examples, sample

import jaxprgen
from jaxprgen._jax import check_jaxpr
from jaxprgen.errors import ShapeMismatchError


def numbers(dtype, shape, start=0):
    """An array of the values that a dtype is tried on, cycled from one of them."""
    return np.resize(np.roll(values(dtype), -start), shape).astype(dtype)


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


def test_sizes_that_do_not_broadcast():
    x, y = at.vector("x"), at.vector("y")
    f = jaxprgen.compile([x, y], x + y)
    with pytest.raises(ShapeMismatchError, match=r"Shapes \(2,\) and \(3,\) do not broadcast"):
        f(np.zeros(2), np.zeros(3))


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
    (x.dimshuffle(0, "x").dimshuffle(0), ["broadcast_in_dim", "squeeze"]),
    (at.clip(x, 0, 1), ["max", "min"]),
    (x**2, ["square"]),
    (x**3, ["integer_pow"]),
    (at.cast(x, "float64"), []),
    (at.cast(at.cast(x, "float32"), "float64"), ["convert_element_type"] * 2),
]


@pytest.mark.parametrize(("out", "expected"), EQUATIONS, ids=[str(o) for o, _ in EQUATIONS])
def test_no_equation_too_many(out, expected):
    args = [np.linspace(0.1, 1, 3) * i for i in range(1, 5)]
    assert_agrees([x, y, z, w], [out], args)
    assert equations(jaxprgen.compile([x, y, z, w], [out], passes=()), *args) == expected


def test_known_views_of_read_only_arrays_are_repeated():
    base = np.ones(1)
    view = base[:]
    base.flags.writeable = False
    known = at.TensorConstant(at.TensorType("float64", shape=(1,)), view)
    assert known.data is view
    assert_agrees([x], [x + at.eq(known, [1.0, 2.0, 3.0])], [np.ones(3)])


def test_mixed_dtypes_convert_each_operand_once():
    xs = vectors("abc", ["int8", "float32", "bool"])
    args = [
        np.array([1, -2, 3], "int8"),
        np.array([0.5, 1, 2], "float32"),
        np.array([1, 0, 1], bool),
    ]
    f = assert_agrees(xs, [at.add(*xs)], args)
    assert sorted(equations(f, *args)) == [
        "add",
        "add",
        "convert_element_type",
        "convert_element_type",
    ]


# --- Fusion and work in place ------------------------------------------------------------


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


@pytest.mark.parametrize("op", [*composites()], ids=str)
def test_composite(op):
    kinds = [kind.dtype for kind in op.inputs_type]
    finite = {d: np.nan_to_num(values(d), posinf=9, neginf=-9)[:6] for d in kinds}
    x, y = at.tensor(kinds[0], shape=(None, 1)), at.tensor(kinds[1], shape=(None,))
    args = [finite[kinds[0]][:, None], finite[kinds[1]]]
    if kinds[0] == "int8" and kinds[1] == "float64":
        args[1] = args[1] + 0.25  # The divisor.
    results = Elemwise(op)(x, y, return_list=True)
    assert_agrees([x, y], results, args)


PAIRS = [("float32", "complex128"), ("int8", "float16"), ("float16", "float64"), ("bool", "int8")]


@pytest.mark.parametrize("dtypes", PAIRS, ids="-".join)
def test_composite_of_operands_of_other_dtypes(dtypes):
    """That of batch normalization is made for those of one operand, and takes others."""
    a, b = (aes.get_scalar_type(dtypes[0])() for _ in range(2))
    op = aes.Composite([a, b], [aes.Composite([a, b], [a * b + a])(b, a)])
    x, y = (at.vector(dtype=dtype) for dtype in dtypes)
    args = [np.arange(3).astype(x.dtype), np.arange(1, 4).astype(y.dtype)]
    assert_agrees([x, y], [Elemwise(op)(x, y)], args)


def test_composite_of_known_operands():
    op = next(composites())
    x = at.vector("x")
    out = Elemwise(op)(np.arange(3.0), 2.0) + x
    f = assert_agrees([x], [out], [np.ones(3)])
    assert equations(f, np.ones(3)) == ["add"]


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
    for mine, yours in zip(ours, theirs, strict=True):
        assert_same(mine, yours)
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


@pytest.mark.parametrize("known", [False, True])
@pytest.mark.parametrize(("low", "high"), [(-1, 1), (1, -1), (np.nan, 1), (-1, np.nan), (0, 0)])
def test_clip(known, low, high):
    x, lo, hi = at.vector("x"), at.scalar("lo"), at.scalar("hi")
    array = np.array([-np.inf, -2, -1, 0.5, 1, 3, np.inf, np.nan])
    if known:
        assert_agrees([x], [at.clip(x, low, high)], [array])
    else:
        assert_agrees([x, lo, hi], [at.clip(x, lo, hi)], [array, float(low), float(high)])


@pytest.mark.parametrize("dtype", ["int8", "bool", "uint64", "float16"])
def test_clip_converts_to_the_declared_dtype(dtype):
    x = at.vector(dtype=dtype)
    array = np.array([0, 1, 2, 7], dtype)
    assert_agrees([x], [at.clip(x, np.int8(1), np.int8(3)), at.clip(x, 0.5, 1.5)], [array])


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


@pytest.mark.parametrize("dtype", ["bool", "int8", "uint8", "int16", "uint16"])
def test_known_integers_are_computed_with_in_the_declared_dtype(dtype):
    """NumPy by itself takes the logarithm of an int8 in float16."""
    functions = (at.log, at.exp, at.sqrt, at.tanh, at.sin, at.arctan, at.expm1, at.log2)
    for kind in ("float64", dtype):  # An Op that was used before has notes of its own.
        outputs = [f(at.constant(np.array([1, 0, 1], kind))) for f in functions]
        assert_agrees([], outputs, [])


def test_dimshuffles_between():
    x, y = at.matrix("x"), at.vector("y")
    outputs = [
        x.T + y[:, None],
        x.dimshuffle(1, "x", 0) * y.dimshuffle(0, "x", "x"),
        (x.dimshuffle("x", 0, 1) + y).dimshuffle(2, 0, 1),
        at.exp(y.dimshuffle("x", 0)).dimshuffle(1),
        x.dimshuffle(0, 1, "x", "x") - x.dimshuffle("x", 1, 0, "x"),
        at.constant(np.arange(6.0).reshape(2, 3)).T + x.T,
    ]
    assert_agrees([x, y], outputs[1:], [np.arange(6.0).reshape(2, 3), np.arange(3.0)])
    assert_agrees([x, y], outputs[:1], [np.arange(6.0).reshape(2, 3), np.arange(3.0)])


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
    x, y, s = at.matrix("x"), at.vector("y"), at.scalar("s")
    inputs = [x, y, s]
    cost = data.draw(expressions(inputs)).sum()
    gradients = aesara.grad(cost, inputs, disconnected_inputs="ignore")
    args = [np.linspace(-1, 0.9, 6).reshape(2, 3), np.array([0.3, -0.2, 0.7]), np.float64(0.4)]
    f = assert_agrees(inputs, gradients, args)
    theirs = jax.grad(jaxprgen.compile(inputs, cost), (0, 1, 2))(*args)
    for mine, yours in zip(f(*args), theirs, strict=True):
        assert_same(mine, yours, 1e-9)


def test_whole_powers_of_a_known_scalar():
    n = at.lscalar("n")
    assert_agrees(
        [n], [at.constant(2, dtype="int64") ** n, n ** at.constant(3, dtype="int64")], [5]
    )
