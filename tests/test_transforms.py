"""A compiled graph under every transformation of JAX is what a handwritten function is."""

from __future__ import annotations

import itertools

import aesara
import aesara.tensor as at
import jax
import jax.export
import jax.numpy as jnp
import numpy as np
import pytest
from aesara.tensor.type import TensorType
from jax import lax
from jax.sharding import AxisType, NamedSharding, PartitionSpec as P
from laws import assert_same
from profiles import is_deep

import jaxprgen

rng = np.random.default_rng(0)
X, W, S = rng.normal(size=(8, 3)), rng.normal(size=3), 0.3
OFFSETS = rng.normal(size=3)


def graph():
    """Inputs and outputs with literals, a range, a constant array, and a product."""
    x, w, s = at.dmatrix("x"), at.dvector("w"), at.dscalar("s")
    rows = at.tanh(at.dot(x, w) + s) * 2.0 + at.mean(x, axis=1)
    return [x, w, s], rows + at.arange(x.shape[0]) / 10 + at.dot(x, at.constant(OFFSETS))


def rows_by_hand(x, w, s):
    rows = jnp.tanh(x @ w + s) * 2.0 + x.mean(1)
    return rows + jnp.arange(x.shape[0]) / 10 + x @ OFFSETS


def loss_by_hand(x, w, s):
    return jnp.sum(rows_by_hand(x, w, s) ** 3)


inputs, output = graph()
ROWS = jaxprgen.compile(inputs, output, name="rows")
LOSS = jaxprgen.compile(inputs, at.sum(output**3), name="loss")
LINEAR = jaxprgen.compile(inputs[1:2], at.dot(at.constant(X), inputs[1]) * 2.0)


def assert_alike(ours, theirs):
    """Two pytrees have equal leaves."""
    assert jax.tree.structure(ours) == jax.tree.structure(theirs)
    jax.tree.map(lambda a, b: assert_same(a, b, rtol=1e-11), ours, theirs)


def transformed_together(transforms, f, *options):
    """What the transformations make of a function, by name. XLA compiles one program for all."""
    return jax.jit(lambda: {name: each(f, *options) for name, each in transforms.items()})()


# --- Transformations of one function ------------------------------------------------------


def custom_jvp(f):
    wrapped = jax.custom_jvp(f)
    wrapped.defjvp(lambda xs, ts: (f(*xs), 3.0 * jax.jvp(f, xs, ts)[1]))
    return wrapped


def custom_vjp(f):
    wrapped = jax.custom_vjp(f)
    wrapped.defvjp(lambda *xs: jax.vjp(f, *xs), lambda pull, ct: pull(2.0 * ct))
    return wrapped


def without_jit(f):
    with jax.disable_jit():
        return f(X, W, S), jax.grad(f, 1)(X, W, S)


def linearized(f):
    value, push = jax.linearize(lambda w: f(X, w, S), W)
    return value, push(np.ones(3)), push(OFFSETS)


def pulled_back(f):
    value, pull = jax.vjp(f, X, W, S)
    return value, pull(jnp.ones_like(value))


def exported(f):
    return jax.export.export(jax.jit(f))(X, W, S).call(X, W, S)


def exported_for_any_size(f):
    (n,) = jax.export.symbolic_shape("n")
    struct = jax.ShapeDtypeStruct((n, 3), X.dtype)
    return jax.export.export(jax.jit(f))(struct, W, S).call(X[:5], W, S)


STACK = np.stack([W, 2 * W, W - 1])
SINGLE = {
    "jit": lambda f: jax.jit(f)(X, W, S),
    "jit of jit": lambda f: jax.jit(lambda *a: 2 * jax.jit(f)(*a))(X, W, S),
    "static": lambda f: jax.jit(f, static_argnums=2)(X, W, S),
    "vmap": lambda f: jax.vmap(f, (None, 0, None))(X, STACK, S),
    "vmap of all": lambda f: jax.vmap(f, (2, 1, 0))(
        X[..., None] * STACK[0], STACK.T, np.arange(3.0)
    ),
    "vmap of vmap": lambda f: jax.vmap(jax.vmap(f, (None, 0, None)), (None, None, 0), 1)(
        X, STACK, np.arange(4.0)
    ),
    "jvp": lambda f: jax.jvp(f, (X, W, S), (X + 1, OFFSETS, 2.0)),
    "linearize": linearized,
    "vjp": pulled_back,
    "jacfwd": lambda f: jax.jacfwd(f, (1, 2))(X, W, S),
    "jacrev": lambda f: jax.jacrev(f, (0, 1, 2))(X, W, S),
    "checkpoint": lambda f: jax.jacrev(jax.checkpoint(f), (1, 2))(X, W, S),
    "checkpoint by policy": lambda f: jax.jacrev(
        jax.checkpoint(f, policy=jax.checkpoint_policies.dots_saveable), 1
    )(X, W, S),
    "custom_jvp": lambda f: jax.jvp(custom_jvp(f), (X, W, S), (X, W, S)),
    "custom_vjp": lambda f: jax.jacrev(custom_vjp(f), 1)(X, W, S),
    "disable_jit": lambda f: without_jit(lambda *a: f(*a).sum()),
    "lower": lambda f: jax.jit(f).lower(X, W, S).compile()(X, W, S),
    "export": exported,
    "eval_shape": lambda f: jax.tree.map(
        lambda t: np.zeros(t.shape, t.dtype), jax.eval_shape(f, X, W, S)
    ),
    "scan": lambda f: lax.scan(lambda c, w: (c + f(X, w, c.sum()), c), jnp.zeros(8), STACK),
    "scan, differentiated": lambda f: jax.grad(
        lambda w: lax.scan(lambda c, v: (c + f(X, v * w, c.sum()), None), jnp.zeros(8), STACK)[0][0]
    )(W),
    "map": lambda f: lax.map(lambda w: f(X, w, S), STACK),
    "while_loop": lambda f: lax.while_loop(
        lambda c: c[0] < 3, lambda c: (c[0] + 1, f(X, W, c[1].sum())), (0, jnp.zeros(8))
    ),
    "fori_loop": lambda f: lax.fori_loop(0, 3, lambda i, c: f(X, W * i, c.sum()), jnp.zeros(8)),
    "cond": lambda f: jax.jit(lambda p: lax.cond(p, f, lambda *a: 2 * f(*a), X, W, S))(False),
    "associative_scan": lambda f: lax.associative_scan(
        jax.vmap(lambda a, b: f(X[:3], a, S) * b), STACK
    ),
}


@pytest.fixture(scope="module")
def arrays_by_hand():
    return transformed_together(SINGLE, rows_by_hand)


@pytest.mark.parametrize("name", SINGLE)
def test_a_function_to_an_array(name, arrays_by_hand):
    assert_alike(SINGLE[name](ROWS), arrays_by_hand[name])


SCALAR = {
    "grad": lambda f: jax.grad(f, (0, 1, 2))(X, W, S),
    "jit of grad": lambda f: jax.jit(jax.grad(f, (0, 1, 2)))(X, W, S),
    "grad of jit": lambda f: jax.grad(jax.jit(f), (0, 1, 2))(X, W, S),
    "value_and_grad": lambda f: jax.value_and_grad(f, 1)(X, W, S),
    "vmap of grad": lambda f: jax.vmap(jax.grad(f, 1), (None, 0, None))(X, STACK, S),
    "grad of vmap": lambda f: jax.grad(lambda v: jax.vmap(f, (None, 0, None))(X, v, S).sum())(
        STACK
    ),
    "hessian": lambda f: jax.hessian(f, (1, 2))(X, W, S),
    "grad of grad": lambda f: jax.grad(lambda w: jax.grad(f, 1)(X, w, S).sum())(W),
    "third derivative": lambda f: jax.grad(jax.grad(jax.grad(f, 2), 2), 2)(X, W, S),
    "hessian times vector": lambda f: jax.jvp(jax.grad(f, 1), (X, W, S), (X, W, S))[1],
    "grad of checkpoint": lambda f: jax.grad(jax.checkpoint(f), 1)(X, W, S),
    "disable_jit": without_jit,
}


@pytest.fixture(scope="module")
def numbers_by_hand():
    return transformed_together(SCALAR, loss_by_hand)


@pytest.mark.parametrize("name", SCALAR)
def test_a_function_to_a_number(name, numbers_by_hand):
    assert_alike(SCALAR[name](LOSS), numbers_by_hand[name])


def test_the_equation_that_makes_a_nan_is_found():
    v = at.dvector("v")
    f = jaxprgen.compile([v], at.exp(at.log(v)))
    with jax.debug_nans(True), pytest.raises(FloatingPointError, match=r"nan.* encountered in log"):
        f(-W)


def test_strict_settings_are_kept():
    """Nothing is left to promotion: ranks and dtypes that meet are equal."""
    with jax.numpy_rank_promotion("raise"), jax.numpy_dtype_promotion("strict"):
        for transform in (lambda f: f, jax.jit, jax.grad, jax.hessian):
            transform(LOSS)(X, W, S)


def test_a_linear_function_is_transposed():
    def by_hand(w):
        return X @ w * 2.0

    def transposed(f):
        return jax.linear_transpose(f, W)(np.ones(8))

    assert_alike(transposed(LINEAR), transposed(by_hand))


def test_the_gradient_of_a_graph_is_the_gradient_of_its_program():
    gradient = jaxprgen.compile(inputs, tuple(at.grad(at.sum(output**3), inputs)))
    assert_alike(gradient(X, W, S), jax.grad(LOSS, (0, 1, 2))(X, W, S))


def test_sizes_can_be_symbols_where_no_value_depends_on_them():
    v = at.dvector("v")
    f = jaxprgen.compile([v], at.tanh(v) * 2.0 + v.sum())
    (n,) = jax.export.symbolic_shape("n")
    program = jax.export.export(jax.jit(f))(jax.ShapeDtypeStruct((n,), np.dtype("float64")))
    assert_alike(program.call(W), np.tanh(W) * 2.0 + W.sum())


def test_a_program_is_a_function():
    f = jaxprgen.jaxpr_as_fun(ROWS.jaxpr(X, W, S))
    g = jax.tree_util.Partial(lambda *args: f(*args)[0])
    assert_alike(jax.jit(g)(X, W, S), rows_by_hand(X, W, S))
    assert_alike(jax.jacrev(g, 1)(X, W, S), jax.jacrev(rows_by_hand, 1)(X, W, S))
    assert len(jax.make_jaxpr(f)(X, W, S).jaxpr.eqns) == 1
    with pytest.raises(jaxprgen.JaxprGenError, match="takes 3 arguments, but 2 were given"):
        f(X, W)


# --- Gradients where operands broadcast inside a primitive --------------------------------

SHAPES = [(), (1, 3), (2, 1), (2, 3)]
BROADCASTING = [((), (2, 3)), ((2, 3), ()), ((1, 3), (2, 1)), ((2, 3), (1, 3)), ((2, 1), (2, 3))]
"""Pairs of shapes: each operand is broadcast along every axis. A quick run tries half."""
BINARY = {
    "add": (at.add, jnp.add),
    "mul": (at.mul, jnp.multiply),
    "div": (at.true_divide, jnp.divide),
    "pow": (at.power, jnp.power),
    "max": (at.maximum, jnp.maximum),
    "arctan2": (at.arctan2, jnp.arctan2),
    "mod": (at.mod, jnp.mod),
    "switch": (
        lambda a, b: at.switch(at.gt(a, 0.7), a, at.sin(b)),
        lambda a, b: jnp.where(a > 0.7, a, jnp.sin(b)),
    ),
    "clip": (lambda a, b: at.clip(a, b, 2 * b), lambda a, b: jnp.clip(a, b, 2 * b)),
    "logaddexp": (at.logaddexp, jnp.logaddexp),
}


def everything(functions):
    """Values, tangents, gradients and batches of functions of two arrays, for all shapes."""
    results = {}
    for (left, right), f in functions.items():
        n, m = np.prod(left, dtype=int), np.prod(right, dtype=int)
        a, b = 0.5 + np.arange(n).reshape(left) / 7, 0.9 - np.arange(m).reshape(right) / 9

        def weighted(a, b, f=f):
            value = f(a, b)
            return jnp.sum(value * (1 + jnp.arange(value.size).reshape(value.shape)))

        batches = np.stack([a, a + 0.1, a + 0.2]), np.stack([b, b - 0.1, b - 0.2])
        results[left, right] = (
            f(a, b),
            jax.jvp(f, (a, b), (np.ones(left), np.full(right, 2.0))),
            jax.grad(weighted, (0, 1))(a, b),
            jax.vmap(f)(*batches),
            jax.vmap(f, (0, None))(batches[0], b),
            jax.vmap(f, (None, 0))(a, batches[1]),
            jax.vmap(jax.grad(weighted, (0, 1)), (0, None))(batches[0], b),
        )
    return list(results.values())


@pytest.mark.parametrize("name", BINARY)
def test_operands_broadcast_under_transformations(name):
    ours, theirs = BINARY[name]

    def compiled(left, right):
        a, b = (
            TensorType("float64", [1 if n == 1 else None for n in shape])()
            for shape in (left, right)
        )
        return jaxprgen.compile([a, b], ours(a, b))

    half = BROADCASTING[list(BINARY).index(name) % 2 :: 2]
    pairs = list(itertools.product(SHAPES, repeat=2)) if is_deep() else half
    by_graph = jax.jit(lambda: everything({p: compiled(*p) for p in pairs}))()
    by_hand = jax.jit(lambda: everything(dict.fromkeys(pairs, theirs)))()
    assert_alike(by_graph, by_hand)


# --- Several devices ----------------------------------------------------------------------


def mesh_of(kind, *shape):
    names = ("i", "j")[: len(shape)]
    return jax.make_mesh(shape, names, axis_types=(kind,) * len(shape))


AUTO = mesh_of(AxisType.Auto, 8)


def sharded(f, mesh=AUTO, **options):
    """The function with the rows of its first argument spread over devices."""
    specs = {"in_specs": (P("i"), P(), P()), "out_specs": P("i"), **options}
    return jax.shard_map(f, mesh=mesh, **specs)


MAPPED = {
    "rows": lambda f, o: sharded(f, **o)(X, W, S),
    "jit": lambda f, o: jax.jit(sharded(f, **o))(X, W, S),
    "jit inside": lambda f, o: sharded(jax.jit(f), **o)(X, W, S),
    "grad": lambda f, o: jax.grad(lambda w: sharded(f, **o)(X, w, S).sum())(W),
    "grad inside": lambda f, o: sharded(jax.grad(lambda x, w, s: f(x, w, s).sum()), **o)(X, W, S),
    "jvp inside": lambda f, o: sharded(lambda x, w, s: jax.jvp(f, (x, w, s), (x, w, s))[1], **o)(
        X, W, S
    ),
    "vmap inside": lambda f, o: sharded(
        lambda x, w, s: jax.vmap(f, (None, 0, None))(x, jnp.stack([w, 2 * w]), s).sum(0), **o
    )(X, W, S),
    "psum": lambda f, o: sharded(
        lambda x, w, s: lax.psum(f(x, w, s).sum(), "i"), out_specs=P(), **o
    )(X, W, S),
    "loop": lambda f, o: sharded(
        lambda x, w, s: lax.fori_loop(0, 3, lambda _, c: c + f(x, w, s + c.sum()), f(x, w, s)), **o
    )(X, W, S),
    "vmap": lambda f, o: jax.vmap(sharded(f, **o), (None, 0, None))(X, STACK, S),
}


@pytest.fixture(scope="module", params=[True, False])
def check_vma(request):
    return {"check_vma": request.param}


@pytest.fixture(scope="module")
def mapped_by_hand(check_vma):
    return transformed_together(MAPPED, rows_by_hand, check_vma)


@pytest.mark.parametrize("name", MAPPED)
def test_shard_map(name, check_vma, mapped_by_hand):
    assert_alike(MAPPED[name](ROWS, check_vma), mapped_by_hand[name])


def test_shard_map_of_powers_whose_program_loops():
    v, n = at.lvectors("v", "n")
    f = jaxprgen.compile([v, n], v**n)
    specs = {"mesh": AUTO, "in_specs": (P("i"), P()), "out_specs": P("i")}
    mapped = jax.shard_map(f, **specs)
    assert_alike(mapped(np.arange(8), np.array([3])), np.arange(8) ** 3)


def test_shard_map_over_two_axes():
    mesh = mesh_of(AxisType.Auto, 4, 2)
    x, y = at.dmatrices("x", "y")
    f = jaxprgen.compile([x, y], x * y + at.sum(x, axis=0) + at.eye(2)[0, 1])
    by_hand = lambda x, y: x * y + x.sum(0)  # noqa: E731
    specs = {"mesh": mesh, "in_specs": (P("i", "j"), P(None, "j")), "out_specs": P("i", "j")}
    wide, row = rng.normal(size=(8, 4)), rng.normal(size=(1, 4))
    row = np.broadcast_to(row, (2, 4))
    assert_alike(jax.shard_map(f, **specs)(wide, row), jax.shard_map(by_hand, **specs)(wide, row))


def test_pmap():
    def mapped(f):
        return jax.pmap(f, in_axes=(0, None, None))(X[:, None], W, S)

    assert_alike(mapped(ROWS), mapped(rows_by_hand))


@pytest.mark.parametrize("kind", [AxisType.Auto, AxisType.Explicit], ids=str)
def test_sharded_arguments(kind):
    mesh = mesh_of(kind, 8)
    x = jax.device_put(X, NamedSharding(mesh, P("i")))
    transforms = {
        "call": lambda f: f(x, W, S),
        "jit": lambda f: jax.jit(f)(x, W, S),
        "grad": lambda f: jax.grad(lambda w: f(x, w, S).sum())(W),
        "vmap": lambda f: jax.jit(jax.vmap(f, (None, 0, None)))(x, STACK, S),
    }

    if kind == AxisType.Explicit and jax.__version_info__ < (0, 8):
        del transforms["grad"]  # JAX itself cannot transpose the product yet.

    def outcomes(f):
        return [t(f) for t in transforms.values()]

    with jax.set_mesh(mesh):
        by_hand = outcomes(rows_by_hand)
        assert_alike(outcomes(ROWS), by_hand)
    if kind == AxisType.Auto:  # Explicit meshes are for `jax.set_mesh`.
        assert_alike(outcomes(ROWS), by_hand)
    with jax.set_mesh(mesh):
        ours, theirs = ROWS(x, W, S), rows_by_hand(x, W, S)
        assert jax.typeof(ours).sharding == jax.typeof(theirs).sharding
        assert_alike(ROWS(X, W, S), theirs)  # An argument that is on one device only.


def test_programs_under_different_meshes_are_kept_apart():
    """A program knows the devices it was emitted for."""
    devices = jax.devices()
    x = np.arange(8.0)
    v = at.dvector("v")
    f = jaxprgen.compile([v], at.exp(v))
    for part in (devices[:4], devices[4:]):
        mesh = jax.make_mesh((4,), ("i",), axis_types=(AxisType.Explicit,), devices=part)
        with jax.set_mesh(mesh):
            y = f(jax.device_put(x, P("i")))
            assert y.devices() == set(part)
            assert_alike(y, np.exp(x))
            assert_alike(jax.jit(f)(jax.device_put(x, P("i"))), np.exp(x))
    assert_alike(f(x), np.exp(x))


# --- Where a function is first called -----------------------------------------------------

SHARED = at.dvector("v"), aesara.shared(OFFSETS, "offsets"), at.constant(np.arange(3.0))
FIRST = {
    "shard_map": lambda f: sharded(lambda x, w, s: f(w)[0] + x.sum(1))(X, W, S),
    "jit of shard_map": lambda f: jax.jit(sharded(lambda x, w, s: f(w)[0] + x.sum(1)))(X, W, S),
    "jit": lambda f: jax.jit(f)(W),
    "vmap": lambda f: jax.vmap(f)(STACK),
    "grad": lambda f: jax.grad(lambda w: f(w).sum())(W),
    "scan": lambda f: lax.scan(lambda c, w: (c + f(w), None), W, STACK),
    "pmap": lambda f: jax.pmap(f)(STACK),
    "set_mesh": lambda f: in_mesh(lambda: f(W)),
    "without jit": lambda f: in_mesh(lambda: jax.vmap(f)(STACK), jax.disable_jit()),
}


def in_mesh(call, context=None):
    with context or jax.set_mesh(mesh_of(AxisType.Explicit, 8)):
        return call()


@pytest.mark.filterwarnings("ignore::jaxprgen.errors.SharedValueWarning")
@pytest.mark.parametrize("call", FIRST.values(), ids=FIRST)
def test_data_put_on_the_device_by_one_call_serves_all(call):
    """Neither a tracer nor a sharding of the first call stays behind."""
    v, shared, constant = SHARED
    f = jaxprgen.compile([v], v * shared + constant)
    with jax.checking_leaks():
        call(f)
    for again in (lambda g: g(W), FIRST["jit of shard_map"]):
        assert_alike(again(f), again(lambda w: w * OFFSETS + jnp.arange(3.0)))
