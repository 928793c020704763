"""Ops made of a graph: programs inside of programs, and derivatives of their own."""

from functools import partial

import aesara
import aesara.tensor as at
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from aesara.compile.builders import OpFromGraph
from aesara.compile.ops import as_op
from aesara.gradient import DisconnectedType
from aesara.graph.basic import Apply
from aesara.graph.null_type import NullType
from aesara.graph.op import Op
from aesara.raise_op import Assert
from aesara.tensor.basic import default
from hypothesis import given, strategies as st
from laws import (
    assert_agrees,
    assert_same,
    equations,
    failures,
    inputs_among,
    refusal,
    without_x64,
)
from profiles import examples

import jaxprgen
from jaxprgen import _jax
from jaxprgen.errors import (
    LoweringError,
    PrecisionWarning,
    RuntimeCheckWarning,
    ShapeMismatchError,
    StaticShapeError,
    UndefinedGradientError,
    UnsupportedOpError,
)

x, y, z = at.dvectors("x", "y", "z")
X = at.dmatrix("X")
n = at.lscalar("n")
A, B, C = np.array([1.0, 2, 3]), np.array([0.5, -1, 4]), np.array([2.0, 2, 1])
LARGE = np.linspace(0.0, 1, 5000)


def inner_programs(f, *args):
    return [e for e in f.jaxpr(*args).jaxpr.eqns if e.primitive is _jax.jit_p]


# --- Values -------------------------------------------------------------------------------

held = aesara.shared(np.array([10.0, 20, 30]), name="held")
fma = OpFromGraph([x, y, z], [x + y * z], name="fma")
pair = OpFromGraph([x, y], [x / y, at.exp(x), y], inline=True, name="pair")
capturing = OpFromGraph([x], [x * held + at.as_tensor(LARGE).sum()])
deep = OpFromGraph([x, y], [fma(x, y, fma(x, x, y)), *pair(y, x)[1:]], name="deep")
twofold = OpFromGraph([x, y], [fma(x, y, at.exp(fma(y, x, x)))], name="twofold")
fixed = OpFromGraph([x], [at.as_tensor([1.0, 2.0]), x, at.zeros_like(x)])
sized = OpFromGraph([n, x], [at.arange(n) + x.shape[0], x.reshape((n, -1))], name="sized")
lengths = OpFromGraph([n, x], [n + x.shape[0], x * 2.0], name="lengths")

GRAPHS = {
    "one": fma(x, y, z),
    "twice": fma(x, y, z) + fma(z, x, y),
    "a constant": fma(x, at.as_tensor(A), at.as_tensor(B)),
    "constants alone": fma(A, B, C) + x,
    "what is repeated": fma(x, at.zeros_like(x), at.fill(x, n * 1.0)),
    "several outputs": pair(x, y),
    "an output that nobody reads": pair(x, y)[1],
    "a shared variable": capturing(x),
    "inside of one another": deep(x, y),
    "what does not depend on inputs": fixed(x),
    "shapes inside": sized(n, x),
    "shapes of results": at.arange(lengths(n, x)[0]),
    "of a sum": at.arange(at.cast(fma(x, x, x).sum(), "int64")),
    "derivatives": aesara.grad(twofold(x, y).sum(), [x, y]),
    "pushforward": aesara.gradient.Rop(fma(x, y, z), [x, y], [z, y]),
    "a default": default(x, y),
}


@pytest.mark.parametrize("name", GRAPHS)
def test_as_in_aesara(name):
    outputs = GRAPHS[name] if isinstance(GRAPHS[name], list) else [GRAPHS[name]]
    inputs = inputs_among([x, y, z, n], *outputs)
    values = {x: A, y: B, z: C, n: 3}
    assert_agrees(inputs, outputs, [values[v] for v in inputs])


def test_large_constants_and_nothing():
    assert_agrees([x], [fma(x, at.as_tensor(LARGE), x)], [LARGE])
    assert_agrees([x, y, z], [fma(x, y, z)], [A[:0], B[:0], C[:0]])


@examples(0.6)
@given(st.integers(0, 2**16))
def test_nesting_makes_no_difference(seed):
    """A graph cut into Ops at random, to any depth, is the graph."""

    def expression(depth, is_cut, seed, *leaves):
        rng, found = np.random.default_rng(seed), list(leaves)
        for _ in range(3):
            a, b = (found[i] for i in rng.integers(0, len(found), 2))
            found.append([a + b, a * at.tanh(b), a - b.sum(), at.maximum(a, b)][rng.integers(4)])
        if depth and rng.integers(3):
            a, b = (found[i] for i in rng.integers(0, len(found), 2))
            inside = partial(expression, depth - 1, is_cut, rng.integers(2**32))
            u, v = at.dvectors("u", "v")
            op = OpFromGraph([u, v], inside(u, v)) if is_cut else inside
            found += [*op(a, b), op(b, a)[1]]
        return [found[-1], found[-2]]

    cut, whole = (jaxprgen.compile([x, y], expression(4, k, seed, x, y)) for k in (True, False))
    _jax.check_jaxpr(cut.jaxpr(A, B).jaxpr)
    jax.tree.map(assert_same, cut(A, B), whole(A, B))


# --- The program --------------------------------------------------------------------------


def test_each_is_one_equation_under_its_name_and_equal_ones_share_their_program():
    f = jaxprgen.compile([x, y, z], fma(x, y, z) + fma(z, y, x))
    assert equations(f, A, B, C) == ["jit", "jit", "add"]
    first, second = inner_programs(f, A, B, C)
    assert first.params["name"] == "fma"
    assert first.params["jaxpr"] is second.params["jaxpr"]
    assert f.lower(A, B, C).as_text().count("func.func private @fma(") == 1


def test_what_is_known_is_known_inside_and_outside():
    assert equations(jaxprgen.compile([x], fma(A, B, C) * x), A) == ["mul"]
    f = jaxprgen.compile([x], fma(x, at.zeros_like(x), B) + fma(x, at.ones_like(x), B))
    zero, one = inner_programs(f, A)
    assert zero.params["jaxpr"] is not one.params["jaxpr"]
    assert [e.primitive.name for e in zero.params["jaxpr"].jaxpr.eqns] == ["add"]
    assert equations(jaxprgen.compile([x], fixed(x)[:2]), A) == []


def test_names_and_lines_inside():
    u = at.dvector("u")
    doubled = at.exp(u)
    doubled.name = "grown"
    line = doubled.tag.trace[0][-1][1]
    f = jaxprgen.compile([x], OpFromGraph([u], [doubled * 2.0], name="outside")(x))
    (eqn,) = inner_programs(f, A)
    first = eqn.params["jaxpr"].jaxpr.eqns[0]
    assert first.primitive.name == "exp"
    assert _jax.scope_of(first.source_info) == "grown"
    assert _jax.frame_of(first.source_info).line == line
    (row,) = f.report(A).nodes
    assert (row.how, row.equations, row.op) == ("emitted", 1, "outside{inline=False}")
    assert "outside" in jaxprgen.pretty(f, A)


def test_shared_variables_inside_of_what_is_inside():
    """Aesara's own linkers do not compile these, for what they do about updates."""
    variable = aesara.shared(A, name="variable")
    inner = OpFromGraph([x], [x * variable])
    f = jaxprgen.compile([x], OpFromGraph([x], [inner(x) - x])(x))
    assert_same(f(B), B * A - B)
    variable.set_value(C)
    assert_same(f(B), B * C - B)
    assert f.cache_info().currsize == 1


def test_in_32_bits():
    f = jaxprgen.compile([x, y], deep(x, y)[0])
    with without_x64(), pytest.warns(PrecisionWarning):
        found = f(A.astype("f"), B.astype("f"))
    assert_same(found, f(A, B).astype("f"), rtol=1e-5)


# --- Shapes that values decide ------------------------------------------------------------


def test_a_shape_inside_asks_the_argument_outside():
    f = jaxprgen.compile([n, x], sized(n * 2, x)[1])
    assert f(1, np.arange(6.0)).shape == (2, 3)
    assert f(3, np.arange(6.0)).shape == (6, 1)
    assert f.cache_info().currsize == 2
    lines = refusal(StaticShapeError, jax.jit(f), 1, np.arange(6.0))
    assert lines[0] == (
        "A shape depends on the value of input 'n', which is a tracer (DynamicJaxprTracer) under "
        "a JAX transformation."
    )
    assert lines[2].startswith("  in ARange{dtype='int64'}(0, <TensorType(int64, ())>, 1)")
    assert "  in sized{inline=False}(result of Elemwise{mul,no_inplace}, x)" in lines
    assert lines[-2] == "    x: float64[6]"
    assert "f = jaxprgen.compile([n, x], sized(n * 2, x)[1])" in lines[-1]
    # It asks for what an output needs and no more.
    f = jaxprgen.compile([n, x], at.arange(lengths(n, x)[0]))
    assert jax.jit(f, static_argnums=0)(2, LARGE).shape == (5002,)
    folded = jaxprgen.compile([x], at.arange(lengths(3, x)[0]))
    assert jax.jit(folded)(A).shape == (6,)


def test_values_that_are_emitted_are_derived_inside():
    """One that is too large to fold decides a shape inside; programs with others are others."""
    total = OpFromGraph([x], [at.arange(at.cast(x.sum(), "int64"))])
    ones = [at.as_tensor(np.ones(2000)) * k for k in (1.0, 2.0)]
    f = jaxprgen.compile([y], [total(v) + y.sum() for v in ones])
    assert [v.shape for v in f(A)] == [(2000,), (4000,)]


# --- Errors -------------------------------------------------------------------------------


def test_an_error_tells_both_nodes():
    f = jaxprgen.compile([x, y, z], fma(x, y, z))
    lines = refusal(ShapeMismatchError, f, A, B[:2], C)
    assert lines[0] == "Shapes (2,) and (3,) do not broadcast together."
    assert lines[1].startswith("  in Elemwise{mul,no_inplace}(")
    assert "  in fma{inline=False}(x, y, z)" in lines
    assert lines[-1].endswith("f = jaxprgen.compile([x, y, z], fma(x, y, z))")


class Opaque(Op):
    __props__ = ()

    def make_node(self, v):
        return Apply(self, [v], [v.type()])

    def perform(self, node, inputs, outputs):
        outputs[0][0] = inputs[0] + 1


def test_ops_without_a_rule_inside_are_listed():
    inner = OpFromGraph([x], [Opaque()(x)], name="holder")
    outer = OpFromGraph([x], [inner(x) * 2.0])
    lines = refusal(UnsupportedOpError, jaxprgen.compile, [x], outer(x) + Opaque()(x))
    assert lines[0] == "2 node(s) of this graph have no rule:"
    assert lines[1].startswith("  Opaque(")
    assert lines[3].startswith("    inside of holder{inline=False}(")
    assert lines[4] == "  Opaque(x)"
    found = jaxprgen.check([x], outer(x))
    assert [node.verdict for node in found.nodes] == ["callback"]
    assert found.nodes[0].reason == (
        "inside of it, Opaque has no rule; its `perform` can run instead"
    )
    f = jaxprgen.compile([x], outer(x), fallback="callback")
    assert f.report(A).nodes[0].how == "called back"
    assert_same(f(A), 2 * (A + 1))


@as_op(itypes=[at.dvector], otypes=[at.dvector])
def tripled(v):
    return 3 * v


@as_op(itypes=[at.dvector], otypes=[at.dmatrix], infer_shape=lambda _, node, s: [(s[0][0], 2)])
def doubled_rows(v):
    assert v.size != 1 or v[0] != 1.0  # Not on ones: its shape is inferred, and not tried.
    return np.stack([v, v], 1)


def test_functions_as_ops_are_called_back():
    lines = refusal(UnsupportedOpError, jaxprgen.compile, [x], tripled(x))
    assert lines[1].startswith("  FromFunctionOp{tripled}(x)")
    assert lines[3] == (
        "Register a JAX function with @jaxprgen.implements(OpClass), a rule with "
        "@jaxprgen.lowers(OpClass), or run its Python implementation on the host: "
        'pass fallback="callback" to this function, or to the linker of mode "JAXPR".'
    )
    f = jaxprgen.compile([x], [tripled(x), doubled_rows(x)], fallback="callback")
    jax.tree.map(assert_same, list(jax.jit(f)(A)), [3 * A, np.stack([A, A], 1)])


def test_checks_inside():
    op = OpFromGraph([x], [Assert("no positive sum")(x, x.sum() > 0)])
    with pytest.warns(RuntimeCheckWarning, match="no positive sum"):
        jaxprgen.compile([x], op(x))(A)
    right, wrong = failures([x], op(x), [A], [-A])
    assert right is None and "no positive sum" in wrong


# --- Derivatives of their own -------------------------------------------------------------


def wrong(inputs, output_grads):
    """No derivative of anything, so that it can be told from one."""
    _, v = inputs
    (g,) = output_grads
    return [g * 10 * v, g * 7]


weights = at.as_tensor([1.0, 2.0, 3.0])
by_grad = OpFromGraph([x, y], [x * y + weights], grad_overrides=wrong, name="by_grad")
by_lop = OpFromGraph(
    [x, y], [x * y], lop_overrides=lambda i, o, g: [o[0] * g[0] * weights, i[0] + g[0]]
)
by_list = OpFromGraph([x, y], [x * y], grad_overrides=["default", lambda i, g: g[0] * 5])
by_op = OpFromGraph(
    [x, y],
    [x * y],
    lop_overrides=OpFromGraph([x, y, z, X[0].type()], [x + z, y * 3], on_unused_input="ignore"),
)
unconnected = OpFromGraph([x, y], [x * y], lop_overrides=["default", DisconnectedType()()])


@pytest.mark.parametrize("op", [by_grad, by_lop, by_list, by_op], ids=str)
def test_pullbacks_are_those_of_aesara(op):
    cost = (op(x, y) * z).sum() + fma(x, y, z).sum()
    f = jaxprgen.compile([x, y, z], cost)
    slopes = aesara.grad(cost, [x, y])
    theirs = assert_agrees([x, y, z], slopes, [A, B, C])(A, B, C)
    ours, rows = jax.grad(f, (0, 1)), np.stack([A, B, C])
    mapped = jax.vmap(ours, (0, None, None))(rows, B, C)
    each = [ours(row, B, C) for row in rows]
    for i in range(2):
        assert_same(ours(A, B, C)[i], theirs[i])
        assert_same(jax.jit(ours)(A, B, C)[i], theirs[i])
        assert_same(mapped[i], [pair[i] for pair in each])
    assert "custom_vjp_call" in equations(f, A, B, C)
    with pytest.raises(TypeError, match="forward-mode"):
        jax.jvp(lambda u: f(u, B, C), (A,), (B,))


def test_a_pullback_of_inputs_that_have_no_tangents_or_are_known():
    u, k = at.fvector("u"), at.lscalar("k")
    op = OpFromGraph(
        [u, k, x],
        [u * k, k + 1, x],
        lop_overrides=lambda i, o, g: [g[0] * i[1] * 2 + g[2], DisconnectedType()(), g[2] * 3],
    )
    first, second, third = op(u, k, at.as_tensor(A))
    f = jaxprgen.compile([u, k], [first, second, third])
    small = A.astype("f")
    assert_same(f(small, 2)[1], np.int64(3))
    found = jax.grad(lambda u: f(u, 2)[0].sum())(small)
    assert_same(found, np.full(3, 4, "f"))
    assert_same(jax.grad(lambda u: f(u, 2)[2].sum())(small), np.ones(3, "f"))


def test_no_derivative_and_none_at_all():
    f = jaxprgen.compile([x, y], unconnected(x, y).sum())
    jax.tree.map(assert_same, jax.grad(f, (0, 1))(A, B), (B, np.zeros(3)))
    missing = ["default", NullType("none")()]
    undefined = OpFromGraph([x, y], [x * y], lop_overrides=missing, name="half")
    f = jaxprgen.compile([x, y], undefined(x, y).sum())
    assert_same(jax.grad(f, 0)(A, B), B)
    assert refusal(UndefinedGradientError, jax.grad(f, 1), A, B) == [
        "half says that it has no derivative with respect to one of its inputs. Differentiate "
        "with respect to something else, or stop the gradient with disconnected_grad."
    ]


def test_a_pullback_of_another_shape_is_refused():
    op = OpFromGraph([x], [x * 2], grad_overrides=lambda i, g: [g[0][:1]], name="short")
    with pytest.raises(LoweringError, match=r"of short has shape \(1,\), not \(3,\)"):
        jax.grad(jaxprgen.compile([x], op(x).sum()))(A)


def test_pushforwards_are_those_of_aesara():
    op = OpFromGraph(
        [x, n, y],
        [x * n + y, n + 1, at.exp(x)],
        rop_overrides=lambda i, e: [e[0] * 100 * i[1] + weights * e[2], e[1], e[0]],
        name="pushed",
    )
    first, second, third = op(x, n, y)
    f = jaxprgen.compile([x, n, y], [first, second, third])
    jax.tree.map(assert_same, list(f(A, 2, B)), [A * 2 + B, np.int64(3), np.exp(A)])
    both, w = lambda u, v: f(u, 2, v)[::2], np.array([1.0, 2, 3])
    tangents = jax.jvp(both, (A, B), (C, B))[1]
    jax.tree.map(assert_same, list(tangents), [C * 200 + w * B, C])
    assert_same(jax.jvp(both, (A, B), (C, 0 * B))[1][0], C * 200)
    assert_same(jax.grad(lambda v: both(A, v)[0].sum())(B), w)
    assert_same(jax.jit(jax.grad(lambda u: both(u, B)[0].sum()))(A), np.full(3, 200.0))
    by_aesara = jaxprgen.compile([x, n, y, z], aesara.gradient.Rop(first, [x, y], [z, y]))
    assert_same(by_aesara(A, 2, B, C), C * 200 + w * B)


def test_equations_with_rules_are_those_of_jax():
    by_pullback, by_pushforward = jax.custom_vjp(jnp.sin), jax.custom_jvp(jnp.sin)
    by_pullback.defvjp(lambda u: (u, u), lambda u, g: (g,))
    by_pushforward.defjvp(lambda u, t: (u[0], t[0]))
    pushed = OpFromGraph([x], [at.sin(x)], rop_overrides=lambda i, e: [e[0]])
    for op, theirs in ((by_list(x, x), by_pullback), (pushed(x), by_pushforward)):
        (mine,) = jaxprgen.compile([x], op).jaxpr(A).jaxpr.eqns
        (yours,) = jax.make_jaxpr(theirs)(A).jaxpr.eqns
        assert mine.primitive is yours.primitive
        assert list(mine.params) == list(yours.params)
        for name, value in yours.params.items():
            assert type(mine.params[name]) is type(value), name


def test_under_shard_map():
    """Programs inside, and rules of derivatives, are typed as what is around them."""
    pushed = OpFromGraph([x], [x * 2], rop_overrides=lambda i, e: [e[0] * 5])
    f = jaxprgen.compile([x, y], pushed(by_grad(fma(x, y, y), y)).sum())
    auto = jax.sharding.AxisType.Auto
    mesh = jax.make_mesh((1,), ("i",), axis_types=(auto,))
    split, whole = jax.sharding.PartitionSpec("i"), jax.sharding.PartitionSpec()
    mapped = jax.shard_map(
        lambda u, v: jax.lax.psum(f(u, v), "i"), mesh=mesh, in_specs=(split, whole), out_specs=whole
    )
    assert_same(jax.jit(mapped)(A, B), f(A, B))
    assert_same(jax.grad(mapped)(A, B), jax.grad(f)(A, B))
