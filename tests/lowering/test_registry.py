"""A user's own Op, lowered by a user's own rule."""

from __future__ import annotations

import aesara.tensor as at
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from aesara.graph.basic import Apply
from aesara.graph.op import Op
from aesara.raise_op import Assert
from aesara.scalar.basic import UnaryScalarOp, same_out, upgrade_to_float
from aesara.tensor.elemwise import Elemwise
from aesara.tensor.math import Dot
from jax.experimental import checkify
from laws import assert_agrees, equations

import jaxprgen
from jaxprgen.emit import reduce
from jaxprgen.emit.values import broadcast_to
from jaxprgen.errors import LoweringError, RuntimeCheckWarning, StaticShapeError, UnsupportedOpError
from jaxprgen.ir import Builder
from jaxprgen.lowering import registry
from jaxprgen.lowering.static import FOLD_LIMIT

x, y = at.dvectors("x", "y")
n = at.lscalar("n")
ONES = np.ones(3)


@pytest.fixture(autouse=True)
def registered_for_one_test(monkeypatch):
    monkeypatch.setattr(registry, "_rules", registry._rules.copy())


class Doubled(Op):
    """``2 x``."""

    __props__ = ()

    def make_node(self, x):
        x = at.as_tensor(x)
        return Apply(self, [x], [x.type()])

    def perform(self, node, inputs, outputs):
        outputs[0][0] = 2 * inputs[0]


class DoubledAgain(Doubled):
    """The same, and a subclass."""


class SumAndDifference(Op):
    """``x + y`` and ``x - y``."""

    __props__ = ("scale",)

    def __init__(self, scale=1.0):
        self.scale = scale

    def make_node(self, x, y):
        return Apply(self, [x, y], [x.type(), x.type()])

    def perform(self, node, inputs, outputs):
        x, y = inputs
        outputs[0][0], outputs[1][0] = self.scale * (x + y), self.scale * (x - y)


class Repeated(Op):
    """A number, ``n`` times."""

    __props__ = ()

    def make_node(self, x, n):
        x, n = at.as_tensor(x), at.as_tensor(n)
        return Apply(self, [x, n], [at.dvector()])

    def perform(self, node, inputs, outputs):
        outputs[0][0] = np.full(int(inputs[1]), inputs[0], "float64")


def double(ctx, x):
    return x + x


def repeat(ctx, x, n):
    return broadcast_to(x, (ctx.static_int(1),))


def test_an_op_of_one_output():
    jaxprgen.lowers(Doubled)(double)
    f = assert_agrees([x], Doubled()(at.exp(x)) + 1, [ONES])
    assert equations(f, ONES) == ["exp", "add", "add"]
    np.testing.assert_allclose(jax.grad(lambda v: f(v).sum())(ONES), 2 * np.exp(ONES))


def test_an_op_of_two_outputs():
    @jaxprgen.lowers(SumAndDifference)
    def rule(ctx, x, y):
        return [r * ctx.op.scale for r in (x + y, x - y)]

    outputs = SumAndDifference(scale=3.0)(x, y)
    assert_agrees([x, y], outputs, [ONES, 2 * ONES])
    assert_agrees([x, y], outputs[1:], [ONES, 2 * ONES])


def test_outputs_may_come_as_a_tuple():
    @jaxprgen.lowers(SumAndDifference)
    def rule(ctx, x, y):
        return x + y, x - y

    f = jaxprgen.compile([x, y], SumAndDifference(scale=1.0)(x, y))
    np.testing.assert_array_equal(f(ONES, 2 * ONES)[1], -ONES)


class Tripled(UnaryScalarOp):
    def impl(self, value):
        return 3 * value


def test_a_scalar_op_of_ones_own_works_through_elemwise():
    output = Elemwise(Tripled(same_out, name="tripled"))(x)

    @jaxprgen.lowers(Tripled)
    def rule(ctx, value):
        return 3 * value

    f = assert_agrees([x], [output], [ONES])
    assert equations(f, ONES) == ["mul"]


def test_a_subclass_has_the_rule_of_its_nearest_base():
    with pytest.raises(UnsupportedOpError):
        jaxprgen.compile([x], DoubledAgain()(x))
    jaxprgen.lowers(Doubled)(double)
    assert equations(jaxprgen.compile([x], DoubledAgain()(x)), ONES) == ["add"]

    @jaxprgen.lowers(DoubledAgain)
    def own(ctx, x):
        return x * 2

    assert equations(jaxprgen.compile([x], DoubledAgain()(x)), ONES) == ["mul"]
    assert equations(jaxprgen.compile([x], Doubled()(x)), ONES) == ["add"]


def test_one_rule_for_several_ops():
    class Other(Doubled):
        pass

    jaxprgen.lowers(Doubled, Other)(double)
    assert {registry.find_rule(op) for op in (Doubled, Other)} == {double}


def test_what_is_declared_of_a_rule_is_declared_for_a_class():
    jaxprgen.lowers(Doubled, folds=False)(double)
    jaxprgen.lowers(DoubledAgain, ranked=False)(double)
    found = [registry.find_registration(op) for op in (Doubled, DoubledAgain)]
    assert [(f.folds, f.ranked) for f in found] == [(False, True), (True, False)]


def test_the_decorator_returns_the_rule():
    assert jaxprgen.lowers(Doubled)(double) is double


def test_a_rule_can_be_replaced():
    """That of this package too; what is compiled already keeps its rule."""
    dot = at.dot(x, y)
    before = jaxprgen.compile([x, y], dot)

    @jaxprgen.lowers(Dot, override=True)
    def rule(ctx, x, y):
        return reduce.sum(x * y, (0,))

    assert equations(jaxprgen.compile([x, y], dot), ONES, ONES) == ["mul", "reduce_sum"]
    assert equations(before, ONES, ONES) == ["dot_general"]


@pytest.mark.parametrize(
    "function",
    [jnp.sin, jnp.sum, np.sin, np.sum, np.asarray, lambda x: divmod(x, 2)],
    ids=["jnp.sin", "jnp.sum", "np.sin", "np.sum", "np.asarray", "divmod"],
)
def test_a_rule_is_told_which_functions_take_values(function):
    jaxprgen.lowers(Doubled)(lambda ctx, x: function(x))
    with pytest.raises(LoweringError) as caught:
        jaxprgen.compile([x], Doubled()(x)).jaxpr(ONES)
    assert str(caught.value).startswith("Lowering failed: TypeError: ")
    assert (
        "\nRules compute with operators of values and functions of jaxprgen.emit. To compute an "
        "Op by a JAX function, register that with @jaxprgen.implements.\n  in Doubled"
    ) in str(caught.value)


# --- The context --------------------------------------------------------------------------


def test_the_context_describes_the_node():
    seen = []

    @jaxprgen.lowers(SumAndDifference)
    def rule(ctx, x, y):
        seen.append(ctx)
        return [x, y]

    outputs = SumAndDifference()(x, y)
    jaxprgen.compile([x, y], outputs).jaxpr(ONES, ONES)
    (ctx,) = seen
    assert ctx.node is outputs[0].owner
    assert ctx.op is outputs[0].owner.op
    assert ctx.dtype == np.float64
    assert isinstance(ctx.builder, Builder)
    with pytest.raises(AttributeError):
        ctx.builder = None


def test_operands_are_variables_or_what_is_known_of_them():
    seen = []

    @jaxprgen.lowers(Repeated, folds=False)
    def rule(ctx, x, n):
        seen.append((x, n))
        return broadcast_to(x, (ctx.static_int(1),))

    f = jaxprgen.compile([x], Repeated()(x[0], x.shape[0]))
    np.testing.assert_array_equal(f(2 * ONES), 2 * ONES)
    ((value, size),) = seen
    assert value.static is None
    assert size.static == 3


def test_an_argument_is_asked_for_where_a_shape_needs_it():
    @jaxprgen.lowers(Repeated)
    def rule(ctx, x, n):
        size = ctx.static(1)
        assert isinstance(size, np.ndarray)
        assert int(size) == ctx.static_int(1)
        return broadcast_to(x, (int(size),))

    f = jaxprgen.compile([x, n], Repeated()(x.sum(), n * 2))
    np.testing.assert_array_equal(f(ONES, 2), np.full(4, 3.0))
    np.testing.assert_array_equal(jax.vmap(f, (0, None))(np.ones((2, 3)), 1), np.full((2, 2), 3.0))
    with pytest.raises(StaticShapeError, match="input 'n', which is a tracer"):
        jax.jit(f)(ONES, 2)


def test_what_follows_from_the_asked_argument_follows_emitted_nodes_too():
    """Aesara's own implementation computes it, where the nodes between were emitted."""
    jaxprgen.lowers(Repeated)(repeat)
    size = at.cast(at.round(at.exp(n * 1.0)), "int64")
    assert_agrees([x, n], [Repeated()(x[0], size), size + 1], [ONES, np.int64(2)])


def repeat_or_not(ctx, value, size):
    count = ctx.static_or_none(1)
    return broadcast_to(value, (0 if count is None else int(count),))


def test_a_rule_may_ask_for_what_follows_from_shapes():
    """It is told where no argument is needed for it, and then what was emitted is computed."""
    jaxprgen.lowers(Repeated)(repeat_or_not)
    f = jaxprgen.compile([x], Repeated()(x[0], at.arange(x.shape[0]).sum()))
    assert f(ONES).shape == (3,)
    assert f(np.ones(2000)).shape == (1999000,)
    assert jaxprgen.compile([x, n], Repeated()(x[0], n))(ONES, 3).shape == (0,)


def test_rules_are_imported_with_the_first_op_that_needs_them(monkeypatch, tmp_path):
    (tmp_path / "rules_of_repeated.py").write_text("raise LookupError('imported')")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(registry, "_modules", {})
    registry.lowers_package(Repeated.__module__, "rules_of_repeated")
    registry.find_rule(Dot)
    with pytest.raises(LookupError, match="imported"):
        registry.find_rule(Repeated)


def test_what_a_rule_declares_is_inherited_and_overridden_with_it():
    class RepeatedToo(Repeated):
        pass

    node = RepeatedToo()(x[0], n).owner
    jaxprgen.lowers(Repeated, shape_only=lambda node: [len(node.inputs) - 2])(repeat)
    assert registry.needed_inputs(RepeatedToo, node, 0) == [1]
    jaxprgen.lowers(RepeatedToo, shape_only=(0, 1))(repeat)
    assert registry.needed_inputs(RepeatedToo, node, 0) == []
    assert registry.needed_inputs(Repeated, node, 0) == [1]
    jaxprgen.lowers(Repeated, override=True)(repeat)
    assert registry.needed_inputs(Repeated, node, 0) == [0, 1]
    assert registry.needed_inputs(Doubled, node, 0) == [0, 1]


def test_a_compiled_function_keeps_its_rule_with_what_that_declared():
    jaxprgen.lowers(Repeated)(repeat)
    f = jaxprgen.compile([x, n], Repeated()(x[0], n))
    jaxprgen.lowers(Repeated, override=True)(lambda ctx, x, n: x)
    assert f(ONES, 2).shape == (2,)


def test_a_users_rule_for_a_scalar_op_may_ask_too():
    @jaxprgen.lowers(Tripled)
    def rule(ctx, value):
        return np.asarray(3 * ctx.static(0))

    tripled = Elemwise(Tripled(same_out, name="tripled"))(n)
    assert jaxprgen.check([n], tripled).static == ("n",)
    assert jaxprgen.compile([n], tripled)(2) == 6


def test_of_what_only_the_shape_matters_no_value_is_asked_for():
    """Also where Aesara's own implementation computes the value, of things that are emitted."""
    emitted = at.arange(FOLD_LIMIT + 1).sum() // FOLD_LIMIT - FOLD_LIMIT // 2 + n
    for size in (at.fill(x, emitted)[1], Assert("x is large")(emitted, x.sum() > 0)):
        f = jaxprgen.compile([x, n], at.arange(size), checks=True)
        checked = jax.jit(checkify.checkify(f), static_argnums=1)
        assert checked(ONES, 2)[1].shape == (2,)


def test_nodes_of_known_inputs_are_evaluated():
    """By the Op's own ``perform``, and not by the rule, unless it asks for that."""
    calls = []

    def rule(ctx, x):
        calls.append(x)
        return double(ctx, x)

    jaxprgen.lowers(Doubled)(rule)
    f = jaxprgen.compile([x], x + Doubled()(at.constant(ONES)))
    np.testing.assert_array_equal(f(ONES), 3 * ONES)
    assert calls == []
    large = at.constant(np.ones(FOLD_LIMIT + 1))
    assert len(jaxprgen.compile([x], Doubled()(large)).jaxpr(ONES).jaxpr.eqns) == 1
    assert len(calls) > 0


@pytest.mark.parametrize(("size", "folded"), [(FOLD_LIMIT, True), (FOLD_LIMIT + 1, False)])
def test_a_rule_folds_what_is_small(size, folded):
    results = []

    @jaxprgen.lowers(Repeated, folds=False)
    def rule(ctx, x, n):
        result = ctx.fold((x, n), (ctx.static_int(1),))
        results.append(result)
        return broadcast_to(x, (size,)) if result is None else list(result)

    f = jaxprgen.compile([x], Repeated()(at.constant(2.0, dtype="float64"), size) * x.sum())
    np.testing.assert_array_equal(f(ONES), np.full(size, 6.0))
    assert (results[-1] is not None) == folded


def test_a_rule_may_return_known_arrays_and_its_operands():
    @jaxprgen.lowers(SumAndDifference)
    def rule(ctx, x, y):
        return [np.arange(float(x.shape[0])), y]

    f = jaxprgen.compile([x, y], SumAndDifference()(x, y))
    for ours, expected in zip(f(ONES, ONES), (np.arange(3.0), ONES), strict=True):
        np.testing.assert_array_equal(ours, expected)
    assert len(f.jaxpr(ONES, ONES).jaxpr.eqns) == 0


class Cube(UnaryScalarOp):
    """``x ** 3`` of a scalar."""

    def impl(self, x):
        return x**3


def test_a_scalar_op_without_a_rule_is_unsupported_within_elemwise():
    cube = Elemwise(Cube(upgrade_to_float, name="cube"))
    with pytest.raises(UnsupportedOpError, match=r"Elemwise\{cube"):
        jaxprgen.compile([x], cube(x))


# --- Run-time checks ----------------------------------------------------------------------


def test_every_node_announces_its_own_check_once():
    x, i, j = at.dvector("x"), at.lscalar("i"), at.lscalar("j")
    f = jaxprgen.compile([x, i, j], [x[i], x[j]])
    with pytest.warns(RuntimeCheckWarning) as caught:
        f.jaxpr(np.ones(3), 0, 1)
    assert len(caught) == 2
    f.cache_clear()
    f.jaxpr(np.ones(3), 0, 1)  # Warnings are errors in tests.


def test_every_node_emits_its_own_check():
    x, i, j = at.dvector("x"), at.lscalar("i"), at.lscalar("j")
    f = jaxprgen.compile([x, i, j], [x[i], x[j]], checks=True, passes=())
    primitives = [str(eqn.primitive) for eqn in f.jaxpr(np.ones(3), 0, 1).jaxpr.eqns]
    assert primitives.count("check") == 2
