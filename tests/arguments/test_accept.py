"""What a compiled function takes for its inputs, and what it does with it."""

from __future__ import annotations

import datetime
import inspect
import re
from decimal import Decimal
from fractions import Fraction

import aesara
import aesara.tensor as at
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from aesara.graph.fg import FunctionGraph
from aesara.tensor.type import TensorType
from hypothesis import given, strategies as st
from hypothesis.extra import numpy as hnp
from laws import DTYPES, assert_same
from profiles import examples, is_deep

import jaxprgen
from jaxprgen.errors import (
    ArgumentCountError,
    ArgumentShapeError,
    ArgumentTypeError,
    IntegerRangeError,
)


def identity(dtype, shape=()):
    """The function that returns its input ``x``, and the input's type."""
    kind = TensorType(dtype, shape)
    variable = kind("x")
    return jaxprgen.compile([variable], variable), kind


def aesara_takes(kind, x):
    """What Aesara makes of an argument, or None."""
    try:
        return kind.filter(x, strict=False, allow_downcast=None)
    except (TypeError, OverflowError):
        return None


def ours_takes(f, x):
    try:
        return f(x)
    except ArgumentTypeError:
        return None


def refused(x, dtype, shape=()):
    """The message with which an argument is refused."""
    f, _ = identity(dtype, shape)
    fits = np.ones([n or 1 for n in shape], dtype)
    messages = set()
    # Whatever JAX's cache may know, and then take for the same.
    for known in (None, fits, jnp.asarray(fits), *([] if shape else [fits.item()])):
        if known is not None:
            assert_same(f(known), fits)
            assert_same(f(jnp.asarray(known)), fits)
        for takes in (f, f.jaxpr, f.lower, f.report):
            with pytest.raises((ArgumentTypeError, ArgumentShapeError)) as caught:
                takes(x)
            messages.add(str(caught.value))
    (message,) = messages
    return message


# --- Arrays -------------------------------------------------------------------------------


@pytest.mark.parametrize("declared", DTYPES)
def test_arrays_of_a_dtype_are_taken_where_aesara_takes_them(declared):
    f, kind = identity(declared, (None,))
    half = DTYPES[DTYPES.index(declared) % 2 :: 2]
    for dtype in DTYPES if is_deep() else half:
        x = np.array([0, 1, 1]).astype(dtype)
        theirs = aesara_takes(kind, x)
        for argument in (x, jnp.asarray(x)):
            ours = ours_takes(f, argument)
            assert (ours is None) == (theirs is None), dtype
            if theirs is not None:
                assert_same(ours, theirs, where=dtype)
        # The type alone decides.
        struct = jax.ShapeDtypeStruct(x.shape, x.dtype)
        for abstractly in (f.jaxpr, lambda s: jax.eval_shape(f, s)):
            assert (ours_takes(abstractly, struct) is None) == (theirs is None), dtype


@examples(3)
@given(
    st.tuples(st.sampled_from(DTYPES), st.sampled_from(DTYPES)).flatmap(
        lambda ds: st.tuples(st.just(ds[0]), hnp.arrays(ds[1], ()))
    )
)
def test_scalars_of_numpy_are_arrays(case):
    declared, x = case
    f, kind = identity(declared)
    scalar = x[()]
    assert isinstance(scalar, np.generic)
    theirs = aesara_takes(kind, x)
    assert (ours_takes(f.jaxpr, scalar) is None) == (theirs is None)
    f(np.ones((), declared))  # Calls after the first one go another way.
    for argument in (x, scalar, x, scalar):
        ours = ours_takes(f, argument)
        assert (ours is None) == (theirs is None)
        if theirs is not None:
            assert_same(ours, theirs)


@pytest.mark.parametrize(
    "x",
    [
        np.arange(8.0)[::-2],
        np.arange(4.0, dtype=">f8"),
        np.arange(4.0, dtype=">f4"),
        np.asfortranarray(np.arange(8.0).reshape(4, 2))[:, 1],
        np.arange(4.0).view(type("Own", (np.ndarray,), {})),
        np.frombuffer(b"\0" * 33, np.uint8)[1:].view(np.float64),
    ],
    ids=["backwards", "big-endian", "big-endian float32", "column", "subclass", "unaligned"],
)
def test_the_layout_of_an_array_does_not_matter(x):
    f, _ = identity("float64", (None,))
    assert_same(f(x), np.array(x, np.float64))
    f.jaxpr(x)


def test_small_floats_of_jax_are_taken_where_they_fit():
    assert_same(identity("float32")[0](jnp.ones((), "bfloat16")), np.float32(1))
    assert "cannot hold all values of the argument's bfloat16" in refused(
        jnp.ones((), "bfloat16"), "float16"
    )


# --- Python scalars -----------------------------------------------------------------------

INTEGERS = [d for d in DTYPES if np.dtype(d).kind in "iu"]
python_scalars = (
    st.booleans()
    | st.integers(-(2**65), 2**65)
    | st.integers(-300, 300)
    | st.floats()
    | st.complex_numbers()
)


def python_scalar_fits(x, dtype):
    """The rule: a number fits a dtype of its kind or a wider one; integers are range-checked.

    Aesara asks for more of floats, that the dtype hold them exactly unless it is floatX, and
    for less of integers, for which 2.0 will do.
    """
    kind = np.dtype(dtype).kind
    if kind in "iu":
        return isinstance(x, int) and np.iinfo(dtype).min <= x <= np.iinfo(dtype).max
    return isinstance(x, {"b": bool, "f": (int, float), "c": (int, float, complex)}[kind])


@examples(3)
@pytest.mark.filterwarnings("ignore:overflow encountered:RuntimeWarning")
@given(python_scalars, st.sampled_from(DTYPES))
def test_python_scalars_are_taken_where_they_fit(x, dtype):
    f, kind = identity(dtype)
    taken = ours_takes(f.jaxpr, x) is not None
    assert taken == python_scalar_fits(x, dtype)
    exact = aesara_takes(kind, x) if not isinstance(x, complex) else None
    if exact is not None and not (isinstance(x, float) and kind.dtype in (*INTEGERS, "bool")):
        assert taken or (kind.dtype == "bool" and x in (0, 1))


@pytest.mark.parametrize(
    ("x", "dtype"),
    [(True, "bool"), (3, "int8"), (2, "float16"), (0.1, "float32"), (1j, "complex64")],
)
def test_python_scalars_have_the_dtype_of_their_input(x, dtype):
    assert_same(identity(dtype)[0](x), np.asarray(x, dtype))


home = jax if hasattr(jax, "enable_x64") else jax.experimental


def does_not_fit(x, dtype, narrow):
    return (
        f"jax_enable_x64 is off: input 'x', declared {dtype}, is computed as {narrow}, which "
        f"cannot hold {x}.\nRun jax.config.update('jax_enable_x64', True) before anything else of "
        "JAX."
    )


@pytest.mark.filterwarnings("ignore::jaxprgen.errors.PrecisionWarning")
@pytest.mark.parametrize(("dtype", "narrow"), [("int64", "int32"), ("uint64", "uint32")])
def test_integers_are_checked_against_the_dtype_jax_computes_in(dtype, narrow):
    f, _ = identity(dtype)
    limits = np.iinfo(narrow)
    largest, larger = int(limits.max), int(limits.max) + 1
    with home.enable_x64(False):
        f(0)  # Calls after the first one go another way.
        for kind in (int, np.dtype(dtype).type, lambda x: np.array(x, dtype)):
            assert_same(f(kind(largest)), np.dtype(narrow).type(largest))
            assert_same(f(kind(limits.min)), np.dtype(narrow).type(limits.min))
            for takes in (f, f.jaxpr, f.lower):
                with pytest.raises(ArgumentTypeError) as caught:
                    takes(kind(larger))
                assert str(caught.value) == does_not_fit(larger, dtype, narrow)
        many, _ = identity(dtype, (None,))
        assert many(np.zeros(0, dtype)).shape == (0,)
        with pytest.raises(ArgumentTypeError, match=f"cannot hold {larger}"):
            many(np.array([1, larger, 2], dtype))
    assert_same(f(larger), np.dtype(dtype).type(larger))


@pytest.mark.filterwarnings("ignore::jaxprgen.errors.PrecisionWarning")
def test_types_that_fit_only_while_x64_is_on():
    """Programs are kept by the types of arrays; NumPy's values can be looked at, JAX's cannot."""
    f, _ = identity("int64")
    g, _ = identity("float64")
    with home.enable_x64(False):
        assert_same(f(np.uint32(3)), np.int32(3))
        with pytest.raises(ArgumentTypeError, match="cannot hold 2147483648"):
            f(np.uint32(2**31))
        for takes in (f, jax.jit(f)):
            with pytest.raises(ArgumentTypeError) as caught:
                takes(jnp.asarray(3, "uint32"))
            assert str(caught.value) == does_not_fit("all values of uint32", "int64", "int32")
        # JAX would wrap it before it is converted.
        assert_same(g(np.array(2**40)), np.float32(2**40))
    assert_same(f(jnp.asarray(2**31, "uint32")), np.int64(2**31))


@pytest.mark.filterwarnings("ignore::jaxprgen.errors.PrecisionWarning")
def test_integers_of_a_graph_are_checked_as_well():
    x = at.lscalar("x")
    held = aesara.shared(2**31 - 1, name="held")
    graphs = [x + 2**31, x + at.constant([1, -(2**31) - 1]), x * at.constant(2**31)]
    shared = jaxprgen.compile([x], x + held)
    with home.enable_x64(False):
        for graph, lost in zip(graphs, (2**31, -(2**31) - 1, 2**31), strict=True):
            with pytest.raises(IntegerRangeError) as caught:
                jaxprgen.compile([x], graph)(1)
            first, second, where, *_ = str(caught.value).splitlines()
            assert first == (
                f"jax_enable_x64 is off: int64 is computed as int32, which cannot hold {lost}."
            )
            assert second.startswith("Run jax.config.update('jax_enable_x64', True) ")
            assert where.startswith("  in Elemwise{")
        assert_same(shared(0), np.int32(2**31 - 1))
        held.set_value(2**31)
        with pytest.raises(IntegerRangeError, match="cannot hold 2147483648"):
            shared(0)
        # Known values are computed with 64 bits; only the result must fit into 32.
        assert_same(jaxprgen.compile([x], x + at.constant(2**40) // 2**38)(1), np.int32(5))
    assert_same(shared(0), np.int64(2**31))


# --- Weak types: Python scalars that JAX has got hold of ----------------------------------


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("x", [True, 2, 1.5, 1j])
def test_python_scalars_fit_under_jit_as_they_do_outside(x, dtype):
    f, _ = identity(dtype)
    assert (ours_takes(jax.jit(f), x) is None) == (not python_scalar_fits(x, dtype))
    if python_scalar_fits(x, dtype):
        assert_same(jax.jit(f)(x), np.asarray(x, dtype))


def test_a_weak_type_does_not_come_out():
    """Else JAX's promotion would do to results what Aesara did not declare."""
    f, _ = identity("float64")
    weak = jnp.asarray(1.5)
    assert weak.weak_type or jax.eval_shape(lambda: jnp.asarray(1.5)).weak_type
    for out in (jax.eval_shape(f, weak), jax.eval_shape(jax.jit(f), 1.5), f(weak)):
        assert not out.weak_type


# --- What is refused ----------------------------------------------------------------------


def cannot_hold(x, dtype, remedy=""):
    return f"Input 'x' has dtype {dtype}, which cannot hold {x}.{remedy}"


def got(what, remedy):
    return f"Input 'x' got {what}, not an array. {remedy}"


def holds(what, dtype, remedy):
    return f"Input 'x' has dtype float64; the argument holds {what} ({dtype}). {remedy}"


CONVERT = "Convert it with numpy.asarray."
NUMBERS = "convert those to numbers, and it with numpy.asarray."
SPELLED = (
    "Convert it with .astype('float64') if it spells numbers, or number its categories with "
    "numpy.unique(..., return_inverse=True)."
)
Frame = type("Frame", (), {"__array__": lambda self: np.ones(2)})
Sparse = type("Sparse", (), {"toarray": lambda self: np.ones(2)})

REFUSED = [
    (
        np.ones(()),
        "float32",
        cannot_hold(
            "all values of the argument's float64",
            "float32",
            " Convert it with .astype('float32') if the loss is meant.",
        ),
    ),
    (
        np.array(1j),
        "int64",
        cannot_hold(
            "all values of the argument's complex128",
            "int64",
            " Convert it with .real.astype('int64') if the loss is meant.",
        ),
    ),
    (300, "int8", cannot_hold(300, "int8")),
    (0.5, "int64", cannot_hold(0.5, "int64")),
    (float("nan"), "int64", cannot_hold("nan", "int64")),
    (1, "bool", cannot_hold(1, "bool")),
    (10**400, "float64", cannot_hold(10**400, "float64")),
    (1j, "float64", cannot_hold(1j, "float64", " Pass its .real if the loss is meant.")),
    (1j, "int64", cannot_hold(1j, "int64")),
    # What holds numbers, and what may.
    ([1.0, 2.0], "float64", got("a list", CONVERT)),
    ((1.0, True), "float64", got("a tuple", CONVERT)),
    (range(3), "float64", got("a range", CONVERT)),
    (Frame(), "float64", got("a Frame", CONVERT)),
    (
        [[1.0], [1.0, 2.0]],
        "float64",
        got("a list", "Its rows have different lengths; pad them to one length."),
    ),
    (["a"], "float64", got("a list", f"It holds text; {NUMBERS}")),
    ([None], "float64", got("a list", f"It holds Python objects; {NUMBERS}")),
    (Sparse(), "float64", got("a Sparse", "Convert it with .toarray().")),
    (iter([1.0]), "float64", got("a list_iterator", "Convert it with numpy.array(list(...)).")),
    ({1.0}, "float64", got("a set", "It has no order; convert it with numpy.array(sorted(...)).")),
    ({"x": 1.0}, "float64", got("a dict", "Unpack it, f(**values), to pass its values by name.")),
    (Decimal(1), "float64", got("a Decimal", "Convert it with float().")),
    (Fraction(1), "int64", got("a Fraction", "Convert it with int().")),
    ("1", "float64", got("a str", "If it spells a number, convert it with float().")),
    (b"1", "int64", got("a bytes", "If it spells a number, convert it with int().")),
    ("True", "bool", got("a str", "Pass True or False.")),
    (datetime.datetime(2000, 1, 1), "float64", got("a datetime", "Convert it with .timestamp().")),
    (datetime.date(2000, 1, 1), "int64", got("a date", "Convert it with .toordinal().")),
    (datetime.timedelta(1), "float64", got("a timedelta", "Convert it with .total_seconds().")),
    # What holds none.
    (None, "float64", "Input 'x' got None. Pass a number or an array."),
    (object(), "float64", got("an object", "Pass a number or an array.")),
    (
        np.exp.reduce,
        "float64",
        got("a builtin_function_or_method", "Call it, and pass its result."),
    ),
    (
        at.dscalar("y"),
        "float64",
        got("a TensorVariable", "Pass a value; to connect graphs, do so before compiling them."),
    ),
    (aesara.shared(1.0), "float64", got("a ScalarSharedVariable", "Pass its value, .get_value().")),
    (
        np.ma.array(1.0, mask=True),
        "float64",
        "Input 'x' got a masked array, whose mask would be lost. Fill it with .filled().",
    ),
    (
        np.array(None),
        "float64",
        holds(
            "Python objects",
            "object",
            "Convert them with .astype('float64') if all of them are numbers.",
        ),
    ),
    (np.array("a"), "float64", holds("text", "<U1", SPELLED)),
    (np.str_("a"), "float64", holds("text", "<U1", SPELLED)),
    (np.array(b"a"), "float64", holds("text", "|S1", SPELLED)),
    (
        np.array("2000-01-01", "M8[D]"),
        "float64",
        holds(
            "dates",
            "datetime64[D]",
            "Convert them to numbers, such as days: (x - x.min()) / numpy.timedelta64(1, 'D').",
        ),
    ),
    (
        np.array(3, "m8[s]"),
        "float64",
        holds(
            "durations",
            "timedelta64[s]",
            "Convert them to numbers, such as days: x / numpy.timedelta64(1, 'D').",
        ),
    ),
    (
        np.zeros((), [("a", "f8"), ("b", "i4")]),
        "float64",
        "Input 'x' has dtype float64; the argument has fields a, b. Pass one of them, such as "
        "x['a'].",
    ),
]


@pytest.mark.parametrize(("x", "dtype", "message"), REFUSED)
def test_what_would_be_lost_is_refused(x, dtype, message):
    assert refused(x, dtype) == message


def test_keys_are_no_numbers():
    message = (
        "Input 'x' has dtype uint32; the argument is of JAX's key<fry>, as typed PRNG keys are, "
        "and holds no numbers. Pass jax.random.key_data of it if its bits are meant."
    )
    assert refused(jax.random.key(0), "uint32") == message
    f, _ = identity("uint32")
    with pytest.raises(ArgumentTypeError, match=re.escape(message)):
        jax.jit(f)(jax.random.key(0))
    assert_same(
        identity("uint32", (2,))[0](jax.random.key_data(jax.random.key(7))), np.uint32([0, 7])
    )


def test_a_struct_has_no_values():
    f, _ = identity("float64")
    with pytest.raises(ArgumentTypeError) as caught:
        f(jax.ShapeDtypeStruct((), "float64"))
    assert str(caught.value) == (
        "main cannot be called with a ShapeDtypeStruct, which has no values; its methods jaxpr, "
        "lower and report can."
    )


@pytest.mark.parametrize(
    ("declared", "shape", "message"),
    [
        ((None,), (), "Input 'x' has 1 dimension, but the argument has 0: its shape is ()."),
        ((), (2, 3), "Input 'x' has 0 dimensions, but the argument has 2: its shape is (2, 3)."),
        (
            (None, 3),
            (3, 2),
            "Input 'x' is declared with size 3 along axis 1, but the argument's shape is (3, 2).",
        ),
        (
            (1, None),
            (2, 2),
            "Input 'x' is declared with size 1 along axis 0, but the argument's shape is (2, 2).",
        ),
    ],
)
def test_shapes_are_those_declared(declared, shape, message):
    assert refused(np.ones(shape), "float64", declared) == message
    f, kind = identity("float64", declared)
    assert aesara_takes(kind, np.ones(shape)) is None
    with pytest.raises(ArgumentShapeError, match=re.escape(message)):
        jax.jit(f)(np.ones(shape))


@examples(3)
@given(hnp.array_shapes(min_dims=0, min_side=0, max_side=3), st.data())
def test_shapes_are_taken_where_aesara_takes_them(shape, data):
    declared = data.draw(
        st.tuples(*[st.sampled_from([None, n, n + 1]) for n in shape])
        | st.lists(st.none() | st.integers(0, 3), max_size=3).map(tuple)
    )
    f, kind = identity("float64", declared)
    x = np.ones(shape)
    try:
        f.jaxpr(x)
    except ArgumentShapeError:
        assert aesara_takes(kind, x) is None
    else:
        assert aesara_takes(kind, x) is not None


def test_as_many_arguments_as_inputs():
    x, y = at.dscalars("x", "y")
    f = jaxprgen.compile([x, y], x + y, name="plus")
    for args, given_ in (((), "0 were"), ((1.0,), "1 was"), ((1.0, 2.0, 3.0), "3 were")):
        for takes in (f, f.jaxpr, f.lower, f.report):
            with pytest.raises(ArgumentCountError) as caught:
                takes(*args)
            assert str(caught.value) == f"plus(x, y) takes 2 arguments, but {given_} given."
    for all_in_one, stars in (([1.0, 2.0], "*"), ((1.0, 2.0), "*"), ({"x": 1.0, "y": 2.0}, "**")):
        with pytest.raises(ArgumentCountError) as caught:
            f(all_in_one)
        assert str(caught.value).splitlines()[1] == f"Pass them one by one: plus({stars}arguments)."


def test_errors_are_those_python_users_expect():
    f, _ = identity("int8", (2,))
    with pytest.raises(TypeError):
        f()
    with pytest.raises(TypeError):
        f(np.ones(2))
    with pytest.raises(ValueError):
        f(np.ones(3, "int8"))


# --- What comes out -----------------------------------------------------------------------


def test_an_output_that_is_an_input_or_a_constant_is_an_array():
    x = at.dvector("x")
    f = jaxprgen.compile([x], [x, at.constant(2.5), at.constant([1, 2], dtype="int8")])
    outputs = f(np.ones(2))
    assert all(isinstance(o, jax.Array) for o in outputs)
    for ours, theirs in zip(outputs, (np.ones(2), np.float32(2.5), np.int8([1, 2])), strict=True):
        assert_same(ours, theirs)


@pytest.mark.parametrize(
    "arrange",
    [
        lambda a, b: a,
        lambda a, b: [a],
        lambda a, b: (a, b),
        lambda a, b: {"sum": b, "own": [a, (b, a)]},
    ],
    ids=["variable", "list", "tuple", "nested"],
)
def test_results_are_arranged_as_the_outputs_were_given(arrange):
    x = at.dvector("x")
    f = jaxprgen.compile([x], arrange(x, x.sum()))
    value = jnp.arange(3.0)
    wanted = arrange(value, value.sum())
    for g in (f, jax.jit(f), jaxprgen.debug(f), lambda x: jax.vmap(f)(x[None])):
        found = g(value)
        assert jax.tree.structure(found) == jax.tree.structure(wanted)
    for ours, theirs in zip(jax.tree.leaves(f(value)), jax.tree.leaves(wanted), strict=True):
        assert_same(ours, theirs)


def test_outputs_that_are_no_pytree_are_a_list():
    x = at.dscalar("x")
    assert type(jaxprgen.compile([x], (v for v in [x, x]))(1.0)) is list


@pytest.mark.parametrize("count", [1, 2])
def test_a_graph_gives_one_array_or_a_tuple(count):
    x = at.dscalar("x")
    graph = FunctionGraph([x], [x + 1] * count, clone=False)
    assert isinstance(jaxprgen.compile(graph)(1.0), jax.Array if count == 1 else tuple)


def test_arguments_have_names():
    X, b = at.dmatrix("X"), at.dscalar("b")
    f = jaxprgen.compile([X, b], (X * b).sum())
    matrix = jnp.ones((2, 3))
    wanted = f(matrix, 2.0)
    compiled = lambda *a, **k: f.lower(*a, **k).compile()(matrix, 2.0)  # noqa: E731
    debugged = [jaxprgen.debug(f), jaxprgen.debug(lambda X, b: f(X, b))]
    for g in (f, jax.jit(f), compiled, *debugged):
        assert_same(g(matrix, b=2.0), wanted)
        assert_same(g(X=matrix, b=2.0), wanted)
    assert_same(jax.grad(f)(matrix, b=2.0), jax.grad(f)(matrix, 2.0))
    assert f(b=2.0, X=matrix) == wanted
    assert str(f.jaxpr(b=2.0, X=matrix)) == str(f.jaxpr(matrix, 2.0))
    assert f.report(matrix, b=2.0).equations == f.report(matrix, 2.0).equations


@pytest.mark.parametrize(
    ("args", "named", "text"),
    [
        ((1.0, 2.0), {"z": 3.0}, "main(a, b) has no input named 'z'."),
        ((1.0, 2.0), {"b": 3.0}, "main(a, b) got two values for input 'b'."),
        ((), {"b": 3.0}, "main(a, b) got no value for input 'a'."),
        ((1.0, 2.0, 3.0), {"b": 3.0}, "main(a, b) takes 2 arguments, but 3 were given."),
    ],
)
def test_wrong_names_are_refused(args, named, text):
    a, b = at.dscalars("a", "b")
    with pytest.raises(ArgumentCountError) as caught:
        jaxprgen.compile([a, b], a - b)(*args, **named)
    assert str(caught.value) == text


@pytest.mark.parametrize(
    ("given", "names"),
    [
        ((None, "lambda", "y[0]"), ["argument_0", "argument_1", "y_0_"]),
        (("x", "x", "argument_1"), ["x", "argument_1", "argument_2"]),
        (("argument_1", None, "argument_1_1"), ["argument_1", "argument_1_1", "argument_2"]),
    ],
)
def test_inputs_without_usable_names_are_named_by_position(given, names):
    x, y, z = map(at.dscalar, given)
    f = jaxprgen.compile([x, y, z], x + 2 * y + 3 * z)
    assert list(inspect.signature(f).parameters) == names
    assert f(**{names[2]: 3.0, names[0]: 1.0, names[1]: 2.0}) == 14


def test_inputs_that_nothing_reads_are_asked_for_nonetheless():
    x, y = at.dscalars("x", "y")
    f = jaxprgen.compile([x, y], y * 2)
    assert f(np.array(1.0), 3.0) == 6
    assert jax.grad(f)(1.0, 3.0) == 0


def test_arguments_are_not_changed():
    x = np.arange(3.0)
    v = at.dvector("v")
    jaxprgen.compile([v], at.inc_subtensor(v[0], 5.0))(x)
    np.testing.assert_array_equal(x, np.arange(3.0))
