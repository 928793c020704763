"""`IfElse` is lazy: what only one branch needs is computed if it is taken."""

import aesara
import aesara.tensor as at
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from aesara.compile.builders import OpFromGraph
from aesara.compile.mode import Mode
from aesara.ifelse import ifelse
from hypothesis import given, strategies as st
from laws import (
    DTYPES,
    assert_agrees,
    assert_derivatives,
    assert_same,
    inputs_among,
    reference,
    refusal,
)
from profiles import examples

import jaxprgen
from jaxprgen import errors

x, y, X = at.dvector("x"), at.dvector("y"), at.dmatrix("X")
a, b = at.dscalar("a"), at.dscalar("b")
n = at.lscalar("n")
ONES = np.array([0.5, 1.0, 2.0])
held = aesara.shared(3.0, name="held")


def branches_of(closed):
    """The primitives in the branches of the only branching of a program, and outside of it."""
    (eqn,) = (e for e in closed.jaxpr.eqns if e.primitive.name == "cond")
    inside = [[e.primitive.name for e in p.jaxpr.eqns] for p in eqn.params["branches"]]
    return inside, [e.primitive.name for e in closed.jaxpr.eqns if e is not eqn]


shared_part = at.tanh(x)
chosen = a > 0
looped = lambda step, *states: aesara.scan(step, x, [*states] or None)[0]  # noqa: E731
GRAPHS = {
    "two": ifelse(a > 0, at.exp(x), at.log(x) * a),
    "of what both need": ifelse(a > 0, shared_part * 2, at.sin(shared_part)),
    "of its condition": ifelse(chosen, x * chosen, at.exp(x) + chosen),
    "as it is": ifelse(a > 0, x, -x),
    "of constants": ifelse(a > 0, at.constant([1.0, 2.0]), at.zeros(2)),
    "of a number": ifelse(a, x * 2, x),
    "of a shared variable": ifelse(a > 0, x * held, x),
    "several": ifelse(a > 0, [x + 1, x.sum()], [at.exp(x), x.prod()]),
    "in a branch": ifelse(
        at.eq(n, 0), at.exp(x), ifelse(at.eq(n, 1), at.sin(at.exp(x)), at.cos(x))
    ),
    "on a branch": at.sqrt(ifelse(a > 0, at.exp(x), x * x)) + ifelse(a > 1, x, x / 3),
    "in a graph": OpFromGraph([x, a], [ifelse(a > 0, at.exp(x), x) * 2])(x, a),
    "of graphs": ifelse(a > 0, OpFromGraph([y], [at.exp(y)])(x), x),
    "in a loop": looped(lambda p, c: ifelse(c > 1.5, c - p, at.exp(p) + c), a),
    "of loops": ifelse(a > 0, looped(lambda p, c: c * p, a)[-1], looped(lambda p: p * 2).sum()),
    "a size": at.arange(ifelse(n > 0, n * 2, n + 2)),
    "as a condition": ifelse(ifelse(a > 0, a, a + 2) > 1, x, x * 2),
}


@pytest.mark.parametrize("name", GRAPHS)
def test_branches(name):
    outputs = GRAPHS[name] if isinstance(GRAPHS[name], list) else [GRAPHS[name]]
    inputs = inputs_among([x, a, n], *outputs)
    f = jaxprgen.compile(inputs, outputs)
    for choice in (0, 1, -1.5, 2):
        args = [v.type.filter(np.asarray({x: ONES}.get(v, choice), v.dtype)) for v in inputs]
        jax.tree.map(assert_same, list(f(*args)), reference(inputs, outputs, args))


def test_dtypes():
    inputs = [at.vector(dtype=dtype) for dtype in DTYPES]
    c = at.scalar("c", dtype="bool")
    outputs = [ifelse(c, v, at.zeros_like(v)) for v in inputs]
    assert_agrees([c, *inputs], outputs, [True, *(np.array([1, 0, 2]).astype(d) for d in DTYPES)])


def test_each_branch_holds_what_only_it_needs():
    f = jaxprgen.compile([x, a], GRAPHS["of what both need"])
    inside, outside = branches_of(f.jaxpr(ONES, 1.0))
    assert inside == [["sin"], ["mul"]]
    assert sorted(outside) == ["convert_element_type", "gt", "tanh"]
    f = jaxprgen.compile([x, n], GRAPHS["in a branch"])
    inside, outside = branches_of(f.jaxpr(ONES, 1))
    assert [names[-1] for names in inside] == ["cond", "exp"]
    assert outside == ["eq", "convert_element_type"]
    # What an output needs as well is in no branch.
    part = at.exp(x)
    f = jaxprgen.compile([x, a], [ifelse(a > 0, part * 2, x), part])
    inside, outside = branches_of(f.jaxpr(ONES, 1.0))
    assert inside == [[], ["mul"]]
    assert "exp" in outside


def test_a_condition_that_is_known_decides_while_emitting():
    """Then the shapes of the branches may differ."""
    outputs = [ifelse(at.gt(x.shape[0], 2), x[1:], x), ifelse(at.constant(0), at.exp(x), x + 1)]
    f = assert_agrees([x], outputs, [ONES])
    assert [e.primitive.name for e in f.jaxpr(ONES).jaxpr.eqns] == ["slice", "add"]
    assert_agrees([x], outputs, [ONES[:2]])


@pytest.mark.parametrize("choice", [1.0, -1.0])
def test_gradients(choice):
    inputs, cost = [x, a], ifelse(a > 0, at.exp(x).sum() * a, at.log(x).sum() * a**2)
    t = aesara.scan(lambda p, c: ifelse(c > 1.5, c * p, at.exp(p) + c), x, [a])[0]
    assert_derivatives(inputs, [cost, (t**2).sum()], [ONES, choice])
    f = jaxprgen.compile(inputs, cost)
    _, tangent = jax.jvp(f, (jnp.asarray(ONES), choice), (jnp.ones(3), 1.0))
    slopes = jax.grad(f, (0, 1))(ONES, choice)
    np.testing.assert_allclose(tangent, slopes[0].sum() + slopes[1], rtol=1e-12)
    batch = jax.vmap(f, (None, 0))(ONES, jnp.array([1.0, -1.0]))
    np.testing.assert_allclose(batch, [f(ONES, 1.0), f(ONES, -1.0)])


def test_draws_in_branches():
    rng = aesara.shared(np.random.default_rng(1), name="rng")
    drawn = at.random.normal(size=3, rng=rng)
    f = jaxprgen.compile([a], ifelse(a > 0, at.exp(drawn), at.zeros(3)))
    key = jax.random.key(1)
    expected = jaxprgen.compile([], at.exp(drawn))(key)
    np.testing.assert_array_equal(f(key, 1.0), expected)
    np.testing.assert_array_equal(f(key, -1.0), np.zeros(3))
    names = [e.primitive.name for e in f.jaxpr(key, 1.0).jaxpr.eqns]
    assert "random_bits" not in names


# --- Branches of different shapes -------------------------------------------------------------

differing = ifelse(a > 0, x, x[1:] * 2)
several = ifelse(x.sum() > a, [x, x.sum(), X], [x[::2], x.prod(), X.T])
nested = ifelse(a > 0, ifelse(n > 0, x, x[1:]), at.concatenate([x, x]))
in_loops = aesara.scan(lambda p, k, y: p * ifelse(k > 0, y, y[1:]).sum(), x, None, [a, x])[0]
DIFFERING = {
    "two": [differing],
    "several": several,
    "nested": [nested],
    "of reductions": [ifelse(a > 0, ifelse(n > 0, x, x[1:]).sum(), x.sum())],
    "in a graph": [OpFromGraph([x, a], [differing])(y, a) for y in (x, x + 1)],
    "in a loop": [in_loops],
    "of what decides shapes": [at.zeros(differing.shape), at.arange(differing.shape[0])],
    "gradient": [aesara.grad((differing**2).sum(), x)],
}
sizes = st.integers(1, 3).map(lambda size: np.arange(size) - 0.5)


@pytest.mark.parametrize("name", DIFFERING)
def test_arguments_decide_between_branches_of_different_shapes(name):
    """There is one program for each size and each way that is taken."""
    outputs = DIFFERING[name]
    inputs = inputs_among([x, X, a, n], *outputs)
    f = jaxprgen.compile(inputs, outputs)
    theirs = aesara.function(inputs, outputs, mode=Mode(linker="py", optimizer=None))
    drawn = {x: sizes, X: st.just(np.ones((2, 3))), n: st.integers(-1, 1)}
    choices = st.sampled_from([-1.0, -0.5, 0.0, 0.25, 2.0, np.nan, np.inf])

    @given(st.tuples(*(drawn.get(v, choices) for v in inputs)))
    @examples(0.6)
    def law(args):
        found = f(*args)
        for p, q in zip(found, theirs(*args), strict=True):
            assert_same(p, q, where=name)

    law()
    assert f.cache_info().currsize <= 3 * (3 if n in inputs else 2)


def test_a_program_for_each_branch_that_is_taken():
    f = jaxprgen.compile([x, a], differing)
    for choice in (1.0, 2.0, -1.0, np.nan, 3.0):
        assert_same(f(ONES, choice), ONES if choice > 0 else 2 * ONES[1:])
    assert f.cache_info().misses == f.cache_info().currsize == 2
    assert [e.primitive.name for e in f.jaxpr(ONES, 1.0).jaxpr.eqns] == []
    which = aesara.shared(3.0, name="which")
    f = jaxprgen.compile([x], ifelse(which > 2, x, x[1:]))
    for value, size in ((3.0, 3), (1.0, 2), (4.0, 3)):
        which.set_value(value)
        assert f(ONES).shape == (size,)


def test_branches_of_one_shape_depend_on_no_value():
    """Beside others that do, of the same condition, the program chooses from them."""
    f = jaxprgen.compile([x, a], [ifelse(a > 0, x, -x), differing])
    assert [e.primitive.name for e in f.jaxpr(ONES, -1.0).jaxpr.eqns].count("cond") == 1
    f = jaxprgen.compile([x, a], ifelse(a > 0, x, -x))
    for choice in (1.0, -1.0):
        f(ONES, choice)
    assert f.cache_info().misses == 1


@pytest.mark.parametrize("before", [False, True])
def test_tracers_do_not_decide_between_shapes(before):
    f = jaxprgen.compile([x, a], ifelse(a > 0, x, x[1:]))
    if before:
        f(ONES, np.float64(1.0))
    assert refusal(errors.StaticShapeError, jax.jit(f), ONES, np.float64(1.0)) == [
        "One branch gives shape (3,) and the other (2,), and only the program that runs knows "
        "which is taken.",
        "Make them of one shape, by padding, or choose outside of the graph.",
        "A shape depends on the value of input 'a', which is a tracer (DynamicJaxprTracer) under a "
        "JAX transformation.",
        "Pass 'a' as a concrete number: mark it with jax.jit(..., static_argnums=1), close over "
        "it, or give the array a size that does not depend on it.",
        "  in if{}(result of Elemwise{gt,no_inplace}, x)",
        "    result of Elemwise{gt,no_inplace}: bool[]",
        "    x: float64[3]",
        "  built at LINE: f = jaxprgen.compile([x, a], ifelse(a > 0, x, x[1:]))",
    ]


# --- Branches that cannot be built ------------------------------------------------------------

far = x[7]
DEAD = {
    "index": [ifelse(a > 0, x[3], x[0])],
    "index of rows": [ifelse(a > 0, x[[5]], x[[0]])],
    "write": [ifelse(a > 0, at.set_subtensor(x[5], 1.0), x)],
    "shapes": [ifelse(a > 0, x + y, x)],
    "product": [ifelse(a > 0, at.dot(x, y), x.sum())],
    "reshape": [ifelse(a > 0, x.reshape((2, 2)), at.zeros((2, 2)))],
    "join": [ifelse(a > 0, at.stack([x, y]), at.stack([x, x]))],
    "empty maximum": [ifelse(a > 0, y[2:].max(), x.sum())],
    "empty argmax": [ifelse(a > 0, at.argmax(y[2:]), at.argmax(x)) * x],
    "negative size": [ifelse(a > 0, at.eye(x.shape[0] - 4)[0], x)],
    "declared shape": [ifelse(a > 0, at.specify_shape(x, (5,)), x)],
    "solve": [ifelse(a > 0, at.slinalg.solve(X, y), x)],
    "inverse": [ifelse(a > 0, at.nlinalg.inv(X[:, :2]).sum(), x.sum())],
    "loop": [ifelse(a > 0, aesara.scan(lambda p, q: p * q, [x, y[1:]], n_steps=3)[0], x)],
    "in a loop": [aesara.scan(lambda p: ifelse(a > 0, x[5], p * a), x)[0]],
    "in a graph": [ifelse(a > 0, OpFromGraph([x, y], [x + y])(x, y), x)],
    "nested": [ifelse(a > 0, x[6], ifelse(a > -1, x[7], x[0]))],
    "of a dead one": [ifelse(a > 0, ifelse(a > 1, x[7], x[8]), x[1])],
    "another one": [ifelse(a > 0, x[1:], x) + ifelse(a > 0, x[9], x[0])],
    "one value in two": [ifelse(a > 0, far, x[0]), ifelse(a > 0, at.exp(far) + far, x[1])],
    "other branches": [ifelse(a > 0, far, x[0]), ifelse(a <= 0, x[1], far * 2)],
    "a size": [at.zeros(ifelse(a > 0, x.reshape((2, 2)).shape[0], x.shape[0])) + x],
}


@pytest.mark.parametrize("name", DEAD)
def test_a_branch_that_is_not_taken_need_not_be_right(name):
    inputs, values = [x, y, X, a], [ONES, ONES[:2], np.eye(3), -2.0]
    outputs = DEAD[name]
    wanted = aesara.function(inputs, outputs, mode="FAST_COMPILE", on_unused_input="ignore")
    wanted = wanted(*values)
    linked = aesara.function(inputs, outputs, mode="JAXPR", on_unused_input="ignore")
    f = jaxprgen.compile(inputs, outputs)
    for found in (linked(*values), f(*values), jaxprgen.function(inputs, outputs)(*values)):
        for p, q in zip(found, wanted, strict=True):
            assert_same(p, q, where=name)
    # The branch that is taken raises, and so does a program that may take it.
    for run in (lambda: f(*values[:3], 1.5), lambda: jax.jit(f)(*values)):
        with pytest.raises(errors.JaxprGenError, match=r"built at .*test_ifelse"):
            run()
    # Arguments that transform are no obstacle where the condition is concrete.
    slopes = jax.grad(lambda v: sum(r.sum() for r in f(v, *values[1:])))(ONES)
    assert slopes.shape == (3,)
    assert jax.jit(lambda v: f(v, *values[1:]))(ONES)[0].shape == wanted[0].shape
