"""The table of inner programs agrees with JAX about liveness and values."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.interpreters import partial_eval
from jax.sharding import Mesh, PartitionSpec

from jaxprgen import _jax
from jaxprgen._jax import Var
from jaxprgen.ir.evaluate import Evaluator
from jaxprgen.ir.inner import HOLDERS, inner_programs, with_programs
from jaxprgen.ir.liveness import live_equations
from jaxprgen.ir.programs import verify
from jaxprgen.ir.rewriting import each_program, with_equations

X = np.linspace(-1.0, 2.0, 4)


@jax.custom_jvp
def doubled(x, y):
    return 2 * x, jnp.sin(y)


@doubled.defjvp
def _(primals, tangents):
    return doubled(*primals), (2 * tangents[0], jnp.cos(primals[1]) * tangents[1])


@jax.custom_vjp
def halved(x, y):
    return x / 2, jnp.cos(y)


halved.defvjp(
    lambda x, y: (halved(x, y), y), lambda y, given: (given[0] / 2, -jnp.sin(y) * given[1])
)


def body(carry, row):
    a, b, unread = carry
    return (jnp.sin(a) + row[0], b * a, unread + row[1]), (a * b, jnp.exp(row[1]))


def scanned(x, y):
    return lax.scan(body, (1.0, 2.0, 3.0), (x, y))


def looped(x, y):
    def step(state):
        i, a, b, unread = state
        return i + 1, a + jnp.sin(x), b * a, unread + y

    return lax.while_loop(lambda s: (s[0] < 3) & (y.sum() > -9), step, (0, x, y, y))


def solved(x, y):
    a = jnp.diag(x + 3)
    return lax.custom_linear_solve(
        lambda v: a @ v, y, lambda mv, b: b / (x + 3), lambda mv, b: b / (x + 3)
    ), x


def sharded(x, y):
    mesh = Mesh(np.array(jax.devices()[:1]), ("i",))
    spec = PartitionSpec("i")
    both = jax.shard_map(
        lambda x, y: (x + 1, y * lax.psum(y, "i")),
        mesh=mesh,
        in_specs=(spec, spec),
        out_specs=(spec, spec),
    )
    return both(x, y)


FUNCTIONS = {
    "jit": jax.jit(lambda x, y: (jnp.sin(x), x + y, jnp.cos(y))),
    "remat2": jax.checkpoint(lambda x, y: (jnp.sin(jnp.sin(x)), jnp.cos(y))),
    "custom_jvp_call": doubled,
    "custom_vjp_call": halved,
    "custom_linear_solve": solved,
    "shard_map": sharded,
    "cond": lambda x, y: lax.switch(
        (x[0] > 0) * 1, [lambda x, y: (x, y + 1), lambda x, y: (x * 2, x + 3)], x, y
    ),
    "while": looped,
    "scan": scanned,
}


def flat(f):
    return lambda *args: jax.tree.leaves(f(*args))


def program_of(name):
    closed = jax.make_jaxpr(flat(FUNCTIONS[name]))(X, X + 1)
    (eqn,) = [e for e in closed.jaxpr.eqns if e.primitive.name == name]
    return closed, eqn


CASES = pytest.mark.parametrize("name", FUNCTIONS)


def test_every_primitive_of_the_table_is_tested():
    # JAX makes these two, which only evaluate a program, while it transforms others.
    assert HOLDERS.keys() - FUNCTIONS.keys() == {"closed_call", "eval_jaxpr"}


@CASES
def test_an_equation_with_its_own_programs_is_the_same_object(name):
    _, eqn = program_of(name)
    assert with_programs(eqn, [x.program for x in inner_programs(eqn)]) is eqn


@CASES
def test_inputs_and_outputs_belong_to_operands_and_results(name):
    closed, eqn = program_of(name)
    verify(closed)
    if HOLDERS[name].kind in ("call", "cond"):
        for inner in inner_programs(eqn):
            jaxpr = _jax.open_jaxpr(inner.program)
            for v, i in zip(jaxpr.invars, inner.operands, strict=True):
                assert v.aval.update(weak_type=False) == eqn.invars[i].aval.update(weak_type=False)
            for v, j in zip(jaxpr.outvars, inner.results, strict=True):
                assert v.aval.update(weak_type=False) == eqn.outvars[j].aval.update(weak_type=False)


@CASES
def test_programs_changed_inside_keep_their_values(name):
    """The change copies the equations of each program."""
    closed, _ = program_of(name)
    calls = []

    def copied(program):
        calls.append(program)
        return with_equations(program, [e.replace() for e in program.jaxpr.eqns])

    found = each_program(closed, copied)
    assert found is not closed
    inside = len(inner_programs(program_of(name)[1]))
    assert len(calls) >= 1 + inside - (name == "shard_map")
    assert_same_values(closed, found)


@CASES
def test_liveness_agrees_with_jax(name):
    """Each result needs the inputs that JAX says it needs; JAX has no rule for ``while``."""
    closed, _ = program_of(name)
    count = len(closed.jaxpr.outvars)
    for j in range(count):
        used = [i == j for i in range(count)]
        theirs, inputs = partial_eval.dce_jaxpr(closed.jaxpr, used)
        kept, live = live_equations(closed.jaxpr.eqns, [closed.jaxpr.outvars[j]])
        ours = [v in live for v in closed.jaxpr.invars]
        if name == "while":
            assert all(b or not a for a, b in zip(ours, inputs, strict=True))
        elif HOLDERS[name].restrict is not None:
            assert ours == list(inputs)
            assert len(kept) == len(theirs.eqns)
        found = with_equations(closed, kept, [closed.jaxpr.outvars[j]] * count)
        _jax.check_jaxpr(found.jaxpr)
        wanted = _jax.eval_jaxpr(closed, [X, X + 1])[j]
        np.testing.assert_array_equal(_jax.eval_jaxpr(found, [X, X + 1])[0], wanted)


@CASES
def test_values_by_equation_agree_with_jax(name):
    closed, eqn = program_of(name)
    seen = list(Evaluator().steps(closed, [X, X + 1]))
    entered = [done for done in seen if done.eqn is eqn]
    assert [done.entered for done in entered] == [HOLDERS[name].kind != "shard_map"]
    inside = [done for done in seen if done.within and done.within[0].eqn is eqn]
    assert bool(inside) == (name != "shard_map")
    for done in seen:
        for v, value in zip(done.eqn.outvars, done.results, strict=True):
            assert np.shape(value) == (v.aval.shape if type(v) is Var else np.shape(value))
    ours = Evaluator().run(closed, [X, X + 1])
    wanted = Evaluator(entered=()).run(closed, [X, X + 1])
    for a, b in zip(ours, wanted, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-15)


def assert_same_values(first, second):
    pairs = [_jax.eval_jaxpr(closed, [X, X + 1]) for closed in (first, second)]
    for a, b in zip(*pairs, strict=True):
        np.testing.assert_array_equal(a, b)
