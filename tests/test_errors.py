"""Errors name the variable, the Op, the user's line, the cause and the remedy."""

from __future__ import annotations

import inspect

import aesara
import aesara.sparse
import aesara.tensor as at
import jax
import numpy as np
import pytest
from aesara.graph.basic import Apply
from aesara.graph.fg import FunctionGraph
from aesara.graph.op import Op
from aesara.raise_op import Assert
from aesara.tensor.type_other import NoneConst
from messages import built, message

import jaxprgen
from jaxprgen import errors
from jaxprgen.ir import primitives
from jaxprgen.lowering import registry

ONES = np.ones(3)

x, y = at.dvectors("x", "y")
m = at.dmatrix("m")
n = at.lscalar("n")


class Opaque(Op):
    """An unknown Op, with any number of vectors as inputs and outputs."""

    __props__ = ("count",)

    def __init__(self, count=1):
        self.count = count

    def make_node(self, *inputs):
        return Apply(self, list(inputs), [at.dvector() for _ in range(self.count)])

    def perform(self, node, inputs, outputs):
        raise NotImplementedError


# --- Graphs -------------------------------------------------------------------------------


def test_all_unsupported_nodes_are_listed_with_their_lines():
    first = Opaque()(x)
    first.name = "first"
    doubled = 2 * first
    second = Opaque()(doubled)
    text = message(
        errors.UnsupportedOpError, jaxprgen.compile, [x], second + 1, also=NotImplementedError
    )
    assert text.splitlines() == [
        "2 node(s) of this graph have no rule:",
        "  Opaque{count=1}(x) -> first",
        f"    {built('first = Opaque')}",
        "  Opaque{count=1}(result of Elemwise{mul,no_inplace})",
        f"    {built('second = Opaque')}",
        "Register a JAX function with @jaxprgen.implements(OpClass), a rule with "
        "@jaxprgen.lowers(OpClass), or run its Python implementation on the host: "
        'pass fallback="callback" to this function, or to the linker of mode "JAXPR".',
        "jaxprgen.check lists other remedies, and the part of the graph that compiles.",
    ]


def test_all_missing_inputs_are_listed():
    inner = x * at.exp(m[0])
    text = message(errors.InvalidGraphError, jaxprgen.compile, [y], [inner, n], also=ValueError)
    assert text.splitlines() == [
        "The outputs depend on variables that are not among the inputs:",
        "  m, a TensorType(float64, (?, ?)), used in Subtensor{int64}(m, 0)",
        f"    {built('inner = x * at.exp')}",
        "  x, a TensorType(float64, (?,)), used in Elemwise{mul,no_inplace}(x, result of "
        "Elemwise{exp,no_inplace})",
        f"    {built('inner = x * at.exp')}",
        "  n, a TensorType(int64, ()), an output itself",
        "Add them to the inputs, or replace them by constants or shared variables.",
    ]


def not_variables(what, given):
    return (
        "Pass a FunctionGraph, or variables of a graph as inputs and outputs; the "
        f"{what} contain {given}."
    )


GENERATOR = aesara.shared(np.random.default_rng(0), "rng")
NO_ARRAY = "which is not an array; jaxprgen takes and returns tensors and scalars."


@pytest.mark.parametrize(
    ("graph", "text"),
    [
        (([x, y, x], x), "x is given as an input twice."),
        (([x, at.constant(2.5)], x), "2.5 is a constant, not an input."),
        (([x], []), "The graph has no outputs: there is nothing to compute."),
        ((None, x), not_variables("inputs", None)),
        (([x],), not_variables("outputs", None)),
        (([x, 1.5], x), not_variables("inputs", 1.5)),
        (([x], ["x"]), not_variables("outputs", "'x'")),
        (
            (FunctionGraph([x], [x + 1], clone=True), x),
            "A FunctionGraph has outputs of its own; do not pass others.",
        ),
        (
            ([x], [x, GENERATOR]),
            f"Output rng has type RandomGeneratorType, {NO_ARRAY}\n  {built('GENERATOR = ae')}",
        ),
        (([x], [x, NoneConst]), f"Output NoneConst has type NoneTypeT, {NO_ARRAY}"),
    ],
)
def test_invalid_graphs_are_refused(graph, text):
    assert message(errors.InvalidGraphError, jaxprgen.compile, *graph, also=ValueError) == text


def test_inputs_and_outputs_may_be_any_iterable():
    f = jaxprgen.compile((v for v in (x, y)), (v for v in [x * y]))
    np.testing.assert_array_equal(f(ONES, 2 * ONES), [2 * ONES])


# --- Shapes that do not agree -------------------------------------------------------------


def test_the_location_of_an_error_has_fixed_lines():
    scaled = x * 2
    total = scaled + y
    f = jaxprgen.compile([x, y], total)
    text = message(errors.ShapeMismatchError, f, ONES, np.ones(2), also=ValueError)
    assert text.splitlines() == [
        "Shapes (3,) and (2,) do not broadcast together.",
        "  in Elemwise{add,no_inplace}(result of Elemwise{mul,no_inplace}, y)",
        "    result of Elemwise{mul,no_inplace}: float64[3]",
        "    y: float64[2]",
        f"  {built('total = scaled + y')}",
    ]
    for again in (f.jaxpr, f.lower, f.report, jax.jit(f), jax.grad(lambda *a: f(*a).sum())):
        assert message(errors.ShapeMismatchError, again, ONES, np.ones(2)) == text
    np.testing.assert_array_equal(f(ONES, ONES), 3 * ONES)


MISMATCHES = {
    "product": (
        lambda: at.dot(m, x),
        (np.ones((2, 3)), np.ones(2)),
        "Cannot multiply shapes (2, 3) and (2,): axis 1 of the first has size 3, axis 0 of the "
        "second 2.",
    ),
    "join": (
        lambda: at.concatenate([m, m.T], axis=0),
        (np.ones((2, 3)), ONES),
        "Cannot join shapes [(2, 3), (3, 2)] along axis 0.",
    ),
    "reshape": (
        lambda: x.reshape((2, -1)),
        (np.ones((1, 1)), ONES),
        "Cannot reshape (3,) (3 elements) to (2, -1).",
    ),
    "negative size": (
        lambda: at.alloc(x[0], x.shape[0] - 5),
        (np.ones((1, 1)), ONES),
        "Sizes must be >= 0, got (-2,).",
    ),
    "nothing to choose from": (
        lambda: m.max(axis=1),
        (np.ones((2, 0)), ONES),
        "The maximum over axes (1,) of shape (2, 0) has no elements to choose from.",
    ),
    "split": (
        lambda: at.split(x, [2, 2], 2)[0],
        (np.ones((1, 1)), ONES),
        "Cannot split axis 0 of shape (3,) into pieces of sizes [2, 2].",
    ),
}


@pytest.mark.parametrize(("build", "args", "first"), MISMATCHES.values(), ids=MISMATCHES)
def test_incompatible_shapes(build, args, first):
    f = jaxprgen.compile([m, x], build())
    lines = message(errors.ShapeMismatchError, f, *args).splitlines()
    assert lines[0] == first
    assert lines[1].startswith("  in ")
    assert lines[-1].startswith(f"  built at {__file__}:")


def test_a_known_index_out_of_bounds():
    third = x[2]
    f = jaxprgen.compile([x], third)
    text = message(errors.IndexOutOfBoundsError, f, np.ones(2), also=IndexError)
    assert text.splitlines() == [
        "Index 2 is out of bounds for axis 0 of size 2.",
        "  in Subtensor{int64}(x, 2)",
        "    x: float64[2]",
        f"  {built('third = x[2]')}",
    ]
    assert f(ONES) == 1


def test_a_known_index_of_a_known_array_out_of_bounds():
    """The node is evaluated by Aesara, whose error becomes one of ours."""
    picked = at.shape(m)[2]
    f = jaxprgen.compile([m], picked)
    text = message(errors.IndexOutOfBoundsError, f, np.ones((2, 3)), also=IndexError)
    assert text.splitlines() == [
        "index 2 is out of bounds for axis 0 with size 2.",
        "  in Subtensor{int64}(result of Shape, 2)",
        "    result of Shape: int64[2] = [2, 3]",
        f"  {built('picked = at.shape')}",
    ]


def test_an_assertion_that_fails_at_compile_time():
    checked = Assert("x has two elements")(x, at.eq(x.shape[0], 2))
    f = jaxprgen.compile([x], checked * 2)
    text = message(errors.FailedAssertionError, f, ONES, also=AssertionError)
    assert text.splitlines() == [
        "x has two elements. The condition is false.",
        "  in Assert{msg=x has two elements}(x, result of Elemwise{eq,no_inplace})",
        "    x: float64[3]",
        "    result of Elemwise{eq,no_inplace}: bool[] = False",
        f"  {built('checked = Assert')}",
    ]
    np.testing.assert_array_equal(f(np.ones(2)), np.full(2, 2.0))


def test_an_assertion_about_a_static_input_fails_at_compile_time():
    """The node is evaluated by Aesara, whose error becomes one of ours."""
    positive = Assert("n is positive")(n, at.gt(n, 0))
    f = jaxprgen.compile([n], at.arange(positive))
    with pytest.warns(errors.RuntimeCheckWarning):
        np.testing.assert_array_equal(f(2), [0, 1])
    text = message(errors.FailedAssertionError, f, -1, also=AssertionError)
    assert text.splitlines()[:3] == [
        "n is positive. The condition is false.",
        "  in Assert{msg=n is positive}(n, result of Elemwise{gt,no_inplace})",
        "    n: int64[] = -1",
    ]


# --- Shapes that depend on values ---------------------------------------------------------


def test_a_shape_that_depends_on_a_tracer():
    double = n * 2
    steps = at.arange(double)
    f = jaxprgen.compile([x, n], x.sum() * steps)
    where = [
        "  in ARange{dtype='int64'}(0, result of Elemwise{mul,no_inplace}, 1)",
        "    result of Elemwise{mul,no_inplace}: int64[]",
        f"  {built('steps = at.arange')}",
    ]
    for _ in range(2):  # Before and after a call that succeeds.
        text = message(errors.StaticShapeError, jax.jit(f), ONES, 3, also=TypeError)
        first, remedy, *rest = text.splitlines()
        tracer = first.removeprefix(
            "A shape depends on the value of input 'n', which is a tracer ("
        ).removesuffix(") under a JAX transformation.")
        assert tracer.isidentifier()
        assert remedy == (
            "Pass 'n' as a concrete number: mark it with jax.jit(..., static_argnums=1), "
            "close over it, or give the array a size that does not depend on it."
        )
        assert rest == where
        for mapped in (jax.vmap(f), jax.jit(jax.vmap(f))):
            text = message(errors.StaticShapeError, mapped, ONES[None], np.array([3]))
            assert text.splitlines() == [
                "A shape depends on the value of input 'n', which is batched by jax.vmap: its "
                "values may differ, and the shapes with them.",
                "Map over other arguments only, with None in in_axes for 'n' at position 1; call "
                "this once for each value; or give the array a size that does not depend on it.",
                *where,
            ]
        text = message(errors.StaticShapeError, f.jaxpr, ONES, jax.ShapeDtypeStruct((), np.int64))
        assert text.splitlines() == [
            "A shape depends on the value of input 'n', which is a ShapeDtypeStruct, which has "
            "none.",
            "Pass 'n' as a concrete number.",
            *where,
        ]
        np.testing.assert_array_equal(f(ONES, 2), 3 * np.arange(4))
    np.testing.assert_array_equal(jax.jit(f, static_argnums=1)(ONES, 2), 3 * np.arange(4))
    np.testing.assert_array_equal(jax.vmap(f, (0, None))(ONES[None], 2), [3 * np.arange(4)])
    np.testing.assert_array_equal(jax.jit(lambda a: f(a, 2))(ONES), 3 * np.arange(4))


def test_a_shape_that_depends_on_a_large_array():
    length = at.cast(at.sum(x), "int64")
    zeros = at.zeros(length)
    f = jaxprgen.compile([x], zeros)
    text = message(errors.StaticShapeError, f, np.ones(65))
    assert text.splitlines() == [
        "A shape depends on the value of input 'x', which is an array of 65 elements.",
        "A program is compiled for each value that decides a shape; 64 elements are the most "
        "that is done for.",
        "  in Alloc(0.0, result of Elemwise{Cast{int64}})",
        "    result of Elemwise{Cast{int64}}: int64[]",
        f"  {built('zeros = at.zeros')}",
    ]
    assert f(np.ones(64)).shape == (64,)


# --- Rules of users -----------------------------------------------------------------------


@pytest.fixture
def rule(monkeypatch):
    """Register a rule for `Opaque` until the end of the test."""
    monkeypatch.setattr(registry, "_rules", registry._rules.copy())
    return lambda function: jaxprgen.lowers(Opaque, override=True)(function)


def failing(function, count=1):
    """The error message of a compiled function with this rule for `Opaque`."""
    outputs = Opaque(count)(x, y)
    f = jaxprgen.compile([x, y], outputs)
    text = message(errors.LoweringError, f, ONES, ONES, also=RuntimeError).splitlines()
    assert text[1:] == [
        f"  in Opaque{{count={count}}}(x, y)",
        "    x: float64[3]",
        "    y: float64[3]",
        f"  {built('outputs = Opaque')}",
    ]
    return text[0]


def raises(error):
    def function(ctx, x, y):
        raise error

    return function


WRONG = {
    "KeyError": (raises(KeyError("spam")), 1, "Lowering failed: KeyError: 'spam'"),
    "AttributeError": (
        lambda ctx, x, y: x.spam,
        1,
        "Lowering failed: AttributeError: 'Value' object has no attribute 'spam'",
    ),
    "arguments": (
        lambda ctx, x: x,
        1,
        "Lowering failed: TypeError: <lambda>() takes 2 positional arguments but 3 were given",
    ),
    "dtype": (
        lambda ctx, x, y: np.ones(3, np.float32),
        1,
        "The rule returned float32 of rank 1, but the node declares float64 of rank 1.",
    ),
    "rank": (
        lambda ctx, x, y: np.ones((3, 3)),
        1,
        "The rule returned float64 of rank 2, but the node declares float64 of rank 1.",
    ),
    "too many": (lambda ctx, x, y: [x, y], 1, "The rule returned 2 values for 1 outputs."),
    "too few": (lambda ctx, x, y: x, 2, "The rule returned 1 values for 2 outputs."),
}


@pytest.mark.parametrize(("function", "count", "text"), WRONG.values(), ids=WRONG)
def test_rules_with_wrong_results(rule, function, count, text):
    rule(function)
    assert failing(function, count) == text


def test_a_rule_that_returns_something_else(rule):
    rule(lambda ctx, x, y: None)
    assert "The rule returned None, which is not a value of a program." in failing(None)


def test_an_ill_formed_equation_is_located(rule):
    rule(lambda ctx, x, y: primitives.bitwise_and(ctx.builder, x.atom(), y.atom()))
    f = jaxprgen.compile([x, y], Opaque()(x, y))
    text = message(errors.EquationError, f, ONES, ONES, also=TypeError).splitlines()
    assert text[0].startswith(
        "JAX refuses and on (float64[3], float64[3]): and does not accept dtype"
    )
    assert text[1] == "  in Opaque{count=1}(x, y)"


def test_an_exception_in_a_rule_is_the_cause(rule):
    error = KeyError("spam")
    rule(raises(error))
    f = jaxprgen.compile([x, y], Opaque()(x, y))
    with pytest.raises(errors.LoweringError) as caught:
        f(ONES, ONES)
    assert caught.value.__cause__ is error


def test_our_own_errors_in_rules_keep_their_class_and_are_located_once(rule):
    def function(ctx, x, y):
        raise errors.ShapeMismatchError("These shapes will not do.")

    rule(function)
    f = jaxprgen.compile([x, y], Opaque()(x, y))
    text = message(errors.ShapeMismatchError, f, ONES, ONES)
    assert text.count("These shapes will not do.") == text.count("  in Opaque") == 1


# --- The classes --------------------------------------------------------------------------


def test_every_error_also_derives_from_a_builtin_or_numpy_error():
    own = [
        value
        for value in vars(errors).values()
        if inspect.isclass(value) and issubclass(value, Exception)
    ]
    for kind in own:
        if issubclass(kind, Warning):
            assert issubclass(kind, UserWarning)
        elif kind is not jaxprgen.JaxprGenError:
            first, second = kind.__bases__
            assert issubclass(first, jaxprgen.JaxprGenError)
            assert second.__module__ in ("builtins", "numpy.linalg")
            assert second is not Exception


def test_warnings_name_the_line_of_the_caller():
    f = jaxprgen.compile([x, n], x[n])
    with pytest.warns(errors.RuntimeCheckWarning) as caught:
        f(ONES, 1)
    (warning,) = caught
    assert warning.filename == __file__
    assert str(warning.message) == (
        "Not checked: whether every index is within axis 0 of size 3. If one is not, the Op raises "
        "IndexError, and this program uses the nearest element.\n"
        "Nothing has failed: this is said once, when the program is made. To have it checked in "
        "every call, compile with checks=True.\n"
        "  in Subtensor{int64}(x, n)\n"
        "    x: float64[3]\n"
        "    n: int64[]\n"
        f"  {built('f = jaxprgen.compile([x, n], x[n])')}"
    )
    f(np.ones(4), 1)  # Emitted anew, and warnings are errors here.
    f.report(ONES, 1)
