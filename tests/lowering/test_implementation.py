"""A user's own Op, computed by a user's own JAX function."""

from __future__ import annotations

import gc
import weakref

import aesara
import aesara.tensor as at
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from aesara.graph.basic import Apply
from aesara.graph.op import Op
from aesara.scalar.basic import BinaryScalarOp, UnaryScalarOp, upgrade_to_float
from aesara.tensor.elemwise import Elemwise
from equal import Equal
from jax import lax
from laws import assert_agrees, equations

import jaxprgen
from jaxprgen.errors import DuplicateRuleError, LoweringError, StaticShapeError
from jaxprgen.lowering import registry

x, y = at.dvectors("x", "y")
n = at.lscalar("n")
POINTS = np.array([-1.0, 0.5, 2.0])


@pytest.fixture(autouse=True)
def registered_for_one_test(monkeypatch):
    monkeypatch.setattr(registry, "_rules", registry._rules.copy())


class Softclip(Op):
    """``limit * tanh(x / limit)``."""

    __props__ = ("limit",)

    def __init__(self, limit=1.0):
        self.limit = limit

    def make_node(self, x):
        x = at.as_tensor(x)
        return Apply(self, [x], [x.type()])

    def perform(self, node, inputs, outputs):
        outputs[0][0] = self.limit * np.tanh(inputs[0] / self.limit)


class Extremes(Op):
    """The smallest element, and the position of the largest."""

    __props__ = ()

    def make_node(self, x):
        return Apply(self, [x], [at.dscalar(), at.lscalar()])

    def perform(self, node, inputs, outputs):
        outputs[0][0], outputs[1][0] = inputs[0].min(), inputs[0].argmax()


class Padded(Op):
    """A vector, with zeros before and after it, as many as a pair of integers says."""

    __props__ = ()

    def make_node(self, counts, x):
        return Apply(self, [at.as_tensor(counts), at.as_tensor(x)], [at.dvector()])

    def perform(self, node, inputs, outputs):
        outputs[0][0] = np.pad(inputs[1], tuple(inputs[0]))


def softclip(x, *, limit):
    return limit * jnp.tanh(x / limit)


def test_a_function_gets_the_attributes_of_the_op():
    assert jaxprgen.implements(Softclip)(softclip) is softclip
    f = assert_agrees([x], [Softclip(2.0)(x), Softclip(3.0)(at.exp(x))], [POINTS])
    assert equations(f, POINTS).count("tanh") == 2


def test_a_function_of_jax_needs_no_wrapper():
    class Sinc(Softclip):
        def perform(self, node, inputs, outputs):
            outputs[0][0] = np.sinc(inputs[0])

    jaxprgen.implements(Sinc)(jnp.sinc)
    assert_agrees([x], [Sinc()(x)], [POINTS])


def test_derivatives_are_those_of_jax():
    @jaxprgen.implements(Softclip)
    @jax.custom_jvp
    def sevenfold(x):
        return 7 * x

    sevenfold.defjvps(lambda t, _, x: 5 * t)
    f = jaxprgen.compile([x], Softclip()(x).sum())
    np.testing.assert_array_equal(jax.grad(f)(POINTS), np.full(3, 5.0))
    jaxprgen.implements(Softclip, override=True)(softclip)
    g = jaxprgen.compile([x], Softclip(2.0)(x).sum())
    np.testing.assert_allclose(jax.grad(g)(POINTS), np.cosh(POINTS / 2) ** -2)
    rows = np.stack([POINTS, 2 * POINTS])
    np.testing.assert_allclose(jax.vmap(jax.jit(g))(rows), 2 * np.tanh(rows / 2).sum(1))


class Decayed(Softclip):
    """A running sum of a vector, which decays by another, of three elements."""

    def make_node(self, x, rates):
        return Apply(self, [x, rates], [x.type()])


@pytest.mark.parametrize("whole", [True, False], ids=["a replicated operand", "split operands"])
def test_on_several_devices(whole):
    """Under `shard_map`, with and without devices that share an operand; also derivatives."""

    @jaxprgen.implements(Decayed)
    def decayed(x, rates):
        def step(total, row):
            total = jnp.where(row > 0, total * jnp.exp(-rates[:1].sum()) + row, total)
            return total, total

        return lax.scan(step, 0 * (x[0] + rates[0]), x)[1]

    @jaxprgen.implements(Softclip)
    @jax.custom_jvp
    def custom(x):
        return softclip(x, limit=1.0)

    custom.defjvps(lambda t, _, x: 5 * t)
    f = jaxprgen.compile([x, y], Decayed()(Softclip()(x), y) * 2)
    mesh = jax.sharding.Mesh(np.array(jax.devices()[:2]), ("i",))
    split, replicated = jax.sharding.PartitionSpec("i"), jax.sharding.PartitionSpec()
    rates = np.array([0.5, 0.1, 0.2, 0.3])
    specs = split, replicated if whole else split
    mapped = jax.shard_map(f, mesh=mesh, in_specs=specs, out_specs=split)

    def apart(rows, rates):
        parts = [rates] * 2 if whole else jnp.split(rates, 2)
        return jnp.concatenate([f(*each) for each in zip(jnp.split(rows, 2), parts, strict=True)])

    rows = np.array([0.5, -1.0, 2.0, 0.1])
    np.testing.assert_allclose(jax.jit(mapped)(rows, rates), apart(rows, rates))
    for i in (0, 1):
        ours, theirs = (jax.jacobian(g, i)(rows, rates) for g in (mapped, apart))
        np.testing.assert_allclose(ours, theirs)
        assert np.any(theirs)


def test_a_function_may_combine_devices():
    jaxprgen.implements(Softclip)(lambda x: x - lax.pmean(x, "i"))
    mesh = jax.sharding.Mesh(np.array(jax.devices()[:2]), ("i",))
    split = jax.sharding.PartitionSpec("i")
    f = jaxprgen.compile([x], Softclip()(x))
    mapped = jax.jit(jax.shard_map(f, mesh=mesh, in_specs=split, out_specs=split))
    np.testing.assert_array_equal(mapped(np.array([1.0, 2.0, 3.0, 6.0])), [-1, -2, 1, 2])


def test_several_outputs_and_an_op_inside_a_loop():
    @jaxprgen.implements(Extremes)
    def extremes(x):
        return jnp.min(x), jnp.argmax(x)

    f = assert_agrees([x], Extremes()(x), [POINTS])
    assert f.report(POINTS).nodes[0].how == "staged"
    jaxprgen.implements(Softclip)(softclip)
    states, _ = aesara.scan(lambda h: Softclip(2.0)(h), outputs_info=x, n_steps=3)
    assert_agrees([x], [states], [POINTS])


def test_jax_traces_once_for_each_op_and_types_of_a_program():
    calls = []

    @jaxprgen.implements(Softclip)
    def counted(x, *, limit):
        calls.append((x.shape, limit))
        return softclip(x, limit=limit)

    two, four = Softclip(2.0), Softclip(4.0)
    f = jaxprgen.compile([x, y], two(x).sum() + two(at.exp(y)).sum() + four(x).sum())
    f.jaxpr(POINTS, POINTS)
    assert calls == [((3,), 2.0), ((3,), 4.0)]
    f.jaxpr(POINTS, POINTS[:2])
    assert calls[2:] == [((3,), 2.0), ((2,), 2.0), ((3,), 4.0)]


class Applied(Softclip):
    """Ops that compare equal, whatever their attribute is."""

    __props__ = ()

    def __init__(self, value):
        self.value = value


class OddScale(UnaryScalarOp):
    """A scalar Op whose factor does not count when Ops are compared."""

    def __init__(self, factor):
        super().__init__(upgrade_to_float, name="scale")
        self.factor = factor

    def impl(self, x):
        return self.factor * x


def computed(x, value):
    """Return what an Op computes with an attribute of any kind."""
    if callable(value):
        return value(x)
    if isinstance(value, dict):
        return x * value["factor"]
    return x / jnp.asarray(value, x.dtype).sum()


PAIRS = {
    "numbers": (2.0, 3.0),
    "numbers of two types": (True, 1),
    "zeros of both signs": (0.0, -0.0),
    "NaN": (float("nan"), 1.0),
    "arrays": (np.array([1.0, 2.0]), np.array([1.0, 3.0])),
    "scalars of NumPy": (np.float32(2), np.float64(3)),
    "functions": (lambda x: 2 * x, lambda x: 3 * x),
    "functions that compare equal": (Equal(2.0), Equal(3.0)),
    "unhashable lists": ([1, 2], [1, 3]),
    "dictionaries": ({"factor": 2.0}, {"factor": 3.0}),
}


@pytest.mark.parametrize("pair", PAIRS.values(), ids=PAIRS)
@pytest.mark.parametrize("together", [True, False], ids=["one program", "two programs"])
def test_each_op_has_its_own_result_though_ops_compare_equal(pair, together):
    jaxprgen.implements(Applied)(lambda x, *, value: computed(x, value))
    ops = [Applied(value) for value in pair]
    assert ops[0] == ops[1] and hash(ops[0]) == hash(ops[1])
    wanted = [np.asarray(computed(jnp.asarray(POINTS), value)) for value in pair]
    if together:
        found = jaxprgen.compile([x], [op(x) for op in ops])(POINTS)
    else:
        found = [jaxprgen.compile([x], op(x))(POINTS) for op in ops]
    for ours, theirs in zip(found, wanted, strict=True):
        np.testing.assert_array_equal(ours, theirs)
        np.testing.assert_array_equal(np.signbit(ours), np.signbit(theirs))


def test_a_changed_attribute_counts_in_the_next_program():
    jaxprgen.implements(Applied)(lambda x, *, value: computed(x, value))
    op = Applied({"factor": 2.0})
    f = jaxprgen.compile([x], op(x))
    np.testing.assert_array_equal(f(POINTS), 2 * POINTS)
    op.value["factor"] = 3.0
    np.testing.assert_array_equal(jaxprgen.compile([x], op(x))(POINTS), 3 * POINTS)
    np.testing.assert_array_equal(f(POINTS), 2 * POINTS)  # Its program is made.
    op.value = lambda x: x + 1
    np.testing.assert_array_equal(jaxprgen.compile([x], op(x))(POINTS), POINTS + 1)


def test_functions_that_compare_equal_are_not_exchanged():
    jaxprgen.implements(Applied)(Equal(2.0))
    f = jaxprgen.compile([x], Applied(None)(x))
    np.testing.assert_array_equal(f(POINTS), 2 * POINTS)
    jaxprgen.implements(Applied, override=True)(Equal(3.0))
    f = jaxprgen.compile([x], Applied(None)(x))
    np.testing.assert_array_equal(f(POINTS), 3 * POINTS)


@pytest.mark.parametrize("values", [(1, 1.0), (0.0, -0.0)], ids=str)
def test_static_inputs_of_equal_value_are_told_apart(values):
    class Described(Softclip):
        def make_node(self, x, number):
            return Apply(self, [x, at.as_tensor(number)], [x.type()])

    @jaxprgen.implements(Described, static_argnums=(1,))
    def described(x, number):
        return x + (2 if isinstance(number, int) else np.copysign(3.0, number))

    op = Described()
    found = jaxprgen.compile([x], [op(x, number) for number in values])(POINTS)
    for ours, number in zip(found, values, strict=True):
        np.testing.assert_array_equal(ours, described(POINTS, number))


def test_scalar_ops_that_compare_equal_are_evaluated_apart():
    """Known operands are computed when the program is made; functions are no part of it."""
    ops = [Elemwise(OddScale(factor)) for factor in (2.0, 3.0)]
    assert ops[0] == ops[1]
    jaxprgen.lowers(OddScale)(lambda ctx, x: x * ctx.op.scalar_op.factor)
    known = at.constant(POINTS)
    found = jaxprgen.compile([x], [x * 0 + op(known) for op in ops])(POINTS)
    np.testing.assert_array_equal(found, [2 * POINTS, 3 * POINTS])


def test_callbacks_of_ops_that_compare_equal_are_apart():
    class Host(Op):
        __props__ = ()

        def __init__(self, factor):
            self.factor = factor

        def make_node(self, x):
            return Apply(self, [x], [x.type()])

        def infer_shape(self, fgraph, node, shapes):
            return shapes

        def perform(self, node, inputs, outputs):
            outputs[0][0] = self.factor * inputs[0]

    found = jaxprgen.compile([x], [Host(n)(x) for n in (2, 3)], fallback="callback")(POINTS)
    np.testing.assert_array_equal(found, [2 * POINTS, 3 * POINTS])


def test_an_op_and_its_attributes_die_with_their_functions():
    gc.collect(1)  # Of young objects: of all, it would take seconds.
    jaxprgen.implements(Applied)(lambda x, *, value: value(x))
    op = Applied(Equal(2.0))
    f = jaxprgen.compile([x], op(x))
    f(POINTS)
    kept = weakref.ref(op), weakref.ref(op.value)
    del f, op
    gc.collect(1)
    assert [ref() for ref in kept] == [None, None]


def test_values_of_static_inputs_are_given_to_the_function():
    seen = []

    @jaxprgen.implements(Padded, static_argnums=(0,))
    def pad(counts, x):
        seen.append(counts)
        return jnp.pad(x, counts)

    assert_agrees([x], [Padded()([1, 2], x), Padded()([x.shape[0], 0], x)], [POINTS])
    f = assert_agrees([n, x], [Padded()(at.stack([n, n]), x)], [np.int64(2), POINTS])
    assert seen == [(1, 2), (3, 0), (2, 2)]
    assert jaxprgen.check([n, x], Padded()(at.stack([n, n]), x)).static == ("n",)
    with pytest.raises(StaticShapeError, match="input 'n', which is a tracer"):
        jax.jit(f)(2, POINTS)


def test_an_op_of_constants_needs_no_perform():
    class Abstract(Softclip):
        def perform(self, node, inputs, outputs):
            raise NotImplementedError

    jaxprgen.implements(Abstract)(softclip)
    f = jaxprgen.compile([x], x + Abstract(2.0)(at.constant(POINTS)))
    np.testing.assert_allclose(f(POINTS), POINTS + 2 * np.tanh(POINTS / 2))


def test_a_scalar_op_is_computed_on_arrays():
    class First(BinaryScalarOp):
        def __init__(self, *args, factor, **kwargs):
            super().__init__(*args, **kwargs)
            self.factor = factor

        def impl(self, x, y):
            return self.factor * x

    @jaxprgen.implements(First)
    def first(x, y, *, factor):
        return factor * x

    op = Elemwise(First(upgrade_to_float, name="first", factor=3.0))
    column, row = at.dcol("column"), at.drow("row")
    assert_agrees([column, row], [op(column, row)], [POINTS[:, None], POINTS[None]])


def test_weak_types_become_strong():
    @jaxprgen.implements(Extremes)
    def constants(x):
        return 1.5, 2

    f = jaxprgen.compile([x], Extremes()(x))
    assert [jax.typeof(y).weak_type for y in f(POINTS)] == [False, False]
    assert [v.aval.weak_type for v in f.jaxpr(POINTS).jaxpr.outvars] == [False, False]


def test_a_second_rule_is_an_error():
    jaxprgen.implements(Softclip)(softclip)
    with pytest.raises(DuplicateRuleError) as caught:
        jaxprgen.implements(Softclip)(jnp.sinc)
    assert str(caught.value) == (
        "Softclip is already lowered by softclip; pass override=True to replace that rule."
    )


def missing(x, *, depth):
    return x


def failing(x):
    raise ValueError("an even number is needed")


def branching(x):
    return x if x[0] > 0 else -x


SAYS = "The JAX function {}, which implements {}, "


@pytest.mark.parametrize(
    ("op", "function", "lines"),
    [
        (
            Softclip,
            lambda x: x.astype("float32"),
            [
                "returned float32 of shape (3,), but the Op declares float64 of rank 1.",
                "Convert the result with .astype and .reshape, or correct the type in the Op's "
                "make_node.",
            ],
        ),
        (
            Extremes,
            lambda x: (x.min(), x),
            [
                "returned float64 of shape (3,) for output 1, but the Op declares int64 of rank 0.",
                "Convert the result with .astype and .reshape, or correct the type in the Op's "
                "make_node.",
            ],
        ),
        (Extremes, jnp.sin, ["returned 1 array(s) for 2 output(s)."]),
        (
            Softclip,
            lambda x: None,
            ["returned None.", "It must return an array, or a tuple of one array per output."],
        ),
        (
            Softclip,
            missing,
            [
                "takes 'depth' by keyword only, but the Op has no such attribute.",
                "Keyword-only arguments are attributes of the Op. Set the attribute, or give the "
                "argument a default.",
            ],
        ),
        (Softclip, failing, ["failed: ValueError: an even number is needed"]),
    ],
)
def test_errors_name_the_function_and_the_op(op, function, lines):
    jaxprgen.implements(op)(function)
    with pytest.raises(LoweringError) as caught:
        jaxprgen.compile([x], op()(x)).jaxpr(POINTS)
    found = str(caught.value).splitlines()
    first = SAYS.format(function.__name__, op.__name__) + lines[0]
    assert found[: len(lines)] == [first, *lines[1:]]
    assert found[len(lines)].startswith(f"  in {op.__name__}") and "built at" in found[-1]


def test_a_function_that_needs_a_value_is_told_how_to_get_it():
    jaxprgen.implements(Softclip)(branching)
    with pytest.raises(LoweringError) as caught:
        jaxprgen.compile([x], Softclip()(x)).jaxpr(POINTS)
    assert "failed: TracerBoolConversionError: " in str(caught.value)
    assert (
        "If the function needs the value of an input, for example for a shape, declare its "
        "position: @jaxprgen.implements(Softclip, static_argnums=…)."
    ) in str(caught.value).splitlines()
