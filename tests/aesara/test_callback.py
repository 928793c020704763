"""Ops without a rule, called back on request."""

import aesara
import aesara.tensor as at
import hypothesis.extra.numpy as hnp
import hypothesis.strategies as st
import jax
import numpy as np
import pytest
from aesara.compile.sharedvalue import generic
from aesara.graph.basic import Apply
from aesara.graph.op import Op
from aesara.scalar.basic import UnaryScalarOp, same_out
from aesara.tensor.elemwise import Elemwise
from aesara.tensor.exceptions import ShapeError
from aesara.tensor.random.op import RandomVariable
from catalogue import FAMILIES
from catalogue.outcome import case_of, compare
from hypothesis import given
from laws import DTYPES, assert_same, reference, refusal
from profiles import examples, sample

import jaxprgen
from jaxprgen import errors
from jaxprgen.emit.callback import call_back
from jaxprgen.emit.values import Value
from jaxprgen.graphs import plan
from jaxprgen.ir import Builder

ONES = np.ones(3)
x = at.dvector("x")
m = at.dmatrix("m")
n = at.lscalar("n")


class Own(Op):
    """An Op of the user's: ``function`` of its inputs, of ``types``."""

    __props__ = ("function", "types")

    def __init__(self, function, *types):
        self.function, self.types = function, types

    def make_node(self, *inputs):
        inputs = [at.as_tensor_variable(v) for v in inputs]
        return Apply(self, inputs, [kind() for kind in self.types])

    def perform(self, node, inputs, outputs):
        results = self.function(*inputs)
        for cell, result in zip(
            outputs, results if type(results) is tuple else (results,), strict=True
        ):
            cell[0] = result


class Inferring(Own):
    """One that tells its shape, and so is not tried."""

    def infer_shape(self, fgraph, node, shapes):
        (rows, columns), *_ = shapes
        return [(columns, rows * 2)]


class Counting(Own):
    """One whose shape is decided by a value."""

    def infer_shape(self, fgraph, node, shapes):
        return [(node.inputs[0] + 1,)]


class Cube(UnaryScalarOp):
    def impl(self, v):
        return v**3


def called_back(inputs, outputs):
    return jaxprgen.compile(inputs, outputs, fallback="callback")


def assert_agrees(inputs, outputs, args):
    f = called_back(inputs, outputs)
    for mine, yours in zip(f(*args), reference(inputs, outputs, args), strict=True):
        assert_same(mine, yours)
    return f


@examples(3, quick=1)
@given(st.sampled_from(DTYPES), hnp.array_shapes(min_dims=2, max_dims=2, min_side=0, max_side=3))
def test_it_computes_what_perform_does(dtype, shape):
    kind = at.TensorType(dtype, (None, None))
    v = kind("v")
    transposed = Own(lambda a: a.T.copy(), kind)(v)
    args = [np.arange(np.prod(shape)).reshape(shape).astype(dtype)]
    f = assert_agrees([v], [transposed], args)
    assert [node.how for node in f.observe(*args).nodes] == ["called back"]


def test_several_results_and_scalar_ops():
    op = Own(lambda a, b: (a.sum(), a * b, np.int8(b > 0)), at.dscalar, at.dvector, at.bscalar)
    f = assert_agrees([x, n], [*op(x, n), Elemwise(Cube(same_out))(x) + 1.0], [2 * ONES, 2])
    hows = [node.how for node in f.observe(ONES, 2).nodes]
    assert hows.count("called back") == 2 and "emitted" in hows
    with pytest.raises(errors.ArgumentTypeError, match="got 'loop'"):
        jaxprgen.compile([x], x, fallback="loop")


def test_the_equation_is_the_one_that_jax_makes():
    def function(a):
        return [a]

    theirs = jax.make_jaxpr(
        lambda a: jax.pure_callback(
            function, [jax.ShapeDtypeStruct((3,), "float64")], a, vmap_method="sequential"
        )
    )(ONES).eqns[0]
    builder = Builder([theirs.invars[0].aval])
    with builder:
        given = [Value(v) for v in builder.inputs]
        (out,) = call_back(function, [((3,), np.dtype("float64"))], given, RuntimeError)
    (call,) = builder.build([out.source]).eqns
    (ours,) = call.params["call_jaxpr"].eqns
    assert ours.primitive is theirs.primitive
    assert ours.params == theirs.params
    assert [v.aval for v in ours.outvars] == [v.aval for v in theirs.outvars]


def test_a_shape_comes_from_infer_shape():
    def function(a):
        assert a.any(), "It was tried."
        return np.zeros((a.shape[1], a.shape[0] * 2))

    op = Inferring(function, at.dmatrix)
    assert_agrees([m], [op(m)], [np.full((2, 3), 5.0)])
    types = called_back([m], op(m)).jaxpr(np.ones((2, 3))).out_avals
    assert [t.shape for t in types] == [(3, 4)]


WITHOUT = ("Unique", "IfElse", "AddSD_ccode", "Corr")
"""Unique asks the graph for shapes; the others, by their first letters, have no ``perform``."""
INFERRING = [
    item
    for name, family in FAMILIES.items()
    for item in family
    if hasattr(item.op, "infer_shape") and not item.op.__name__.startswith(WITHOUT)
    if name != "Sparse matrices" and not item.is_drawn
]


@pytest.mark.parametrize("item", sample(INFERRING, 20), ids=lambda item: item.op.__name__)
def test_the_shape_of_each_op_that_has_infer_shape_is_right(item, monkeypatch):
    case = case_of(item, "float64")
    if case is None or case.wanted is None:
        pytest.skip("Aesara computes nothing in this dtype.")
    real = plan.supported
    monkeypatch.setattr(plan, "supported", lambda op: None if type(op) is item.op else real(op))
    try:
        compare(case, fallback="callback")
    except jax.errors.JaxRuntimeError as error:  # As of a mask.
        assert "the size of the result depends on their values" in str(error)


@pytest.mark.parametrize("error", [NotImplementedError, ShapeError])
def test_an_op_that_cannot_tell_its_shape_is_tried(error):
    class Silent(Own):
        def infer_shape(self, *_):
            raise error

    assert_agrees([x], [Silent(np.sin, at.dvector)(x)], [ONES])


def test_a_value_that_decides_the_shape_is_asked_for():
    op = Counting(lambda k: np.arange(int(k) + 1.0), at.dvector)
    f = assert_agrees([n], [op(n)], [3])
    assert f(5)[0].shape == (6,)
    with pytest.raises(errors.StaticShapeError, match="'n', which is a tracer"):
        jax.jit(f)(3)


def test_what_is_known_is_not_called_back():
    op = Own(np.sin, at.dvector)
    f = called_back([x], op(np.ones(3)) + op(at.ones(x.shape)) + x)
    assert [e.primitive.name for e in f.jaxpr(ONES).eqns] == ["add"]


def test_it_works_under_jit_and_vmap():
    op = Own(lambda a: np.sort(a)[::-1].copy(), at.dvector)
    f = called_back([x, n], op(x * 2) + n)
    batch = np.random.default_rng(0).normal(size=(4, 3))
    expected = np.sort(2 * batch)[:, ::-1] + 1
    np.testing.assert_allclose(jax.jit(jax.vmap(f, in_axes=(0, None)))(batch, 1), expected)
    np.testing.assert_allclose(jax.vmap(f, in_axes=(0, None))(batch, 1), expected)


def test_derivatives_are_refused():
    class Known(Own):
        def L_op(self, inputs, outputs, gradients):
            return [at.cos(inputs[0]) * gradients[0]]

    unknown, known = (op(np.sin, at.dvector) for op in (Own, Known))
    ways = {
        unknown: "Register a rule with @jaxprgen.lowers(Own); ",
        known: "Register a rule with @jaxprgen.lowers(Known), or take the gradient by aesara.grad, "
        "which knows that of this Op; ",
    }
    for op, way in ways.items():
        f = called_back([x], op(2 * x).sum())  # Here.
        for transform in (jax.grad(f), jax.jit(jax.grad(f)), lambda v, f=f: jax.jvp(f, [v], [v])):
            with pytest.raises(errors.UndefinedGradientError) as caught:
                transform(ONES)
            first, second, *_, last = str(caught.value).splitlines()
            assert first == f"JAX cannot differentiate {op}, which runs in Python as a callback."
            assert second == way + "aesara.gradient.disconnected_grad stops gradients."
            assert last.endswith("# Here.")
    gradient = called_back([x], aesara.grad(known(2 * x).sum(), x))
    np.testing.assert_allclose(gradient(ONES), 2 * np.cos(2 * ONES))


def test_derivatives_that_are_zero():
    sign = Own(lambda a: np.sign(a).astype(int), at.lvector)
    f = called_back([x, n], (sign(x) * x + Own(np.float64, at.dscalar)(n)).sum())
    np.testing.assert_array_equal(jax.grad(f)(-2 * ONES, 1), -ONES)


def test_without_x64_it_computes_in_the_declared_dtypes_and_returns_32_bits():
    seen = []

    def function(a):
        seen.append(a.dtype)
        return a * 2

    f = called_back([x], Own(function, at.dvector)(x))
    jax.config.update("jax_enable_x64", False)  # Also of the thread that calls back.
    try:
        with pytest.warns(errors.PrecisionWarning):
            assert f(ONES).dtype == "float32"
    finally:
        jax.config.update("jax_enable_x64", True)
    assert set(seen) == {np.dtype("float64")}


def test_the_report_the_check_and_the_error_without_it_name_it():
    output = Own(np.sin, at.dvector)(x)
    assert called_back([x], output).report(ONES).nodes[0].how == "called back"
    (node,) = jaxprgen.check([x], output).nodes
    assert (node.verdict, node.reason) == ("callback", "no rule; its `perform` can run instead")
    assert 'fallback="callback"' in node.remedy
    with pytest.raises(errors.UnsupportedOpError, match="fallback="):
        jaxprgen.compile([x], output)


def test_what_cannot_be_called_back_is_refused():
    by_list = Apply(Own(np.asarray, at.dvector), [Own(list, generic)(x)], [at.dvector()]).out
    text = " ".join(refusal(errors.UnsupportedOpError, called_back, [x], by_list))
    assert "; these cannot be called back: they have no Python implementation, or take or " in text
    text = " ".join(refusal(errors.JaxprGenError, called_back, [x], [Own(list, generic)(x), x]))
    assert "not an array" in text


def test_a_shape_that_is_not_as_promised_is_told():
    def positive(a):
        return a[a > 0]

    f = called_back([x], Own(positive, at.dvector)(x))
    np.testing.assert_array_equal(f(ONES), ONES)
    with pytest.raises(Exception, match=r"returns a result of shape \(2,\).*promise \(3,\)"):
        jax.block_until_ready(f(np.array([1.0, -1.0, 1.0])))


def test_a_shape_that_cannot_be_told_is_told():
    def needs_zeros(a):
        if a.any():
            raise ValueError("Give me zeros.")
        return a

    f = called_back([x], Own(needs_zeros, at.dvector)(x))  # Here.
    lines = refusal(errors.CallbackError, f.jaxpr, ONES)
    assert lines[0].startswith("The shape of the result of Own{")
    assert lines[0].endswith("fails on arrays of ones: Give me zeros.")
    assert lines[1].startswith("Give the Op an infer_shape method, or register a rule with")
    assert lines[-1].endswith("# Here.")


class Pair(RandomVariable):
    """A number and its double, as the user's function draws them."""

    name = "pair"
    ndim_supp = 1
    ndims_params = (0, 0)
    dtype = "floatX"

    def _supp_shape_from_params(self, dist_params, **others):
        return (2,)

    @classmethod
    def rng_fn(cls, rng, low, scale, size):
        assert low.dtype == np.int64
        drawn = low + scale * rng.random(size=size or np.broadcast_shapes(low.shape, scale.shape))
        return np.stack([drawn, 2 * drawn], -1)


def test_draws_by_a_random_variable_of_the_user():
    """Keys decide them, and batches of keys make other draws."""
    rng = aesara.shared(np.random.default_rng(0))
    pairs = [Pair()(n, x, rng=rng), Pair()(n, 1.0, size=(500, 2), rng=rng)]
    with pytest.raises(errors.UnsupportedOpError, match='pass fallback="callback"'):
        jaxprgen.compile([n, x], pairs)
    f = called_back([n, x], pairs)
    keys = jax.random.split(jax.random.key(0), 2)
    first, again = f(keys[0], 5, ONES), f(keys[0], 5, ONES)
    batch = jax.jit(jax.vmap(f, (0, None, None)))(keys, 5, ONES)
    for one, same, several in zip(first, again, batch, strict=True):
        np.testing.assert_array_equal(one, same)
        np.testing.assert_array_equal(one, several[0])
        np.testing.assert_array_equal(one[..., 1], 2 * one[..., 0])
        assert len(np.unique(np.asarray(several))) == several.size
    assert first[0].shape == (3, 2) and first[1].shape == (500, 2, 2)
    assert abs(first[1][..., 0].mean() - 5.5) < 0.05
    with pytest.raises(errors.UndefinedGradientError, match=r"@jaxprgen.samples\(Pair\)"):
        jax.grad(lambda x: f(keys[0], 5, x)[0].sum())(ONES)


class Fixed(RandomVariable):
    """Vectors of two, without parameters."""

    name = "fixed"
    ndim_supp, ndims_params, dtype = 1, (), "floatX"

    def _supp_shape_from_params(self, dist_params, **others):
        assert not dist_params
        return (2,)

    @classmethod
    def rng_fn(cls, rng, size):
        return rng.random((*(size or ()), 2))


class Performed(Fixed):
    def perform(self, node, inputs, outputs):
        raise AssertionError


def test_draws_without_parameters_and_those_of_perform():
    rng, key = aesara.shared(np.random.default_rng(0)), jax.random.key(0)
    found = called_back([], [Fixed()(rng=rng), Fixed()(size=(3,), rng=rng)])(key)
    assert [x.shape for x in found] == [(2,), (3, 2)]
    with pytest.raises(errors.UnsupportedOpError, match="cannot be called back"):
        called_back([], Performed()(rng=rng))
