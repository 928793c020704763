"""Loops whose bodies are emitted by functions: `jaxprgen.emit.control`."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import Mesh, PartitionSpec

import jaxprgen
from jaxprgen import errors
from jaxprgen._jax import check_jaxpr
from jaxprgen.emit import control, elementwise as ew, recurrence, reduce
from jaxprgen.emit.values import Value, atoms
from jaxprgen.ir import Builder


def running(x, scale):
    """Return the sum of all rows, and their running sum times ``scale``, from a static zero."""

    def step(scale, total, row):
        total = total + row
        return [total], [total * scale], None

    with Builder([jax.typeof(x), jax.typeof(scale)]) as b:
        rows, constant = map(Value, b.inputs)
        zero = Value(np.zeros(x.shape[1:]))
        ended = control.scan(step, [constant], [zero], [rows], x.shape[0])
        closed = b.build(atoms([*ended.carries, *ended.stacked]))
    check_jaxpr(closed.jaxpr)
    (body,) = (eqn.params["jaxpr"].jaxpr for eqn in closed.jaxpr.eqns if "jaxpr" in eqn.params)
    assert body.outvars[0].aval == body.invars[1].aval
    return tuple(jaxprgen.jaxpr_as_fun(closed)(x, scale))


@pytest.mark.parametrize("length", [0, 1, 4])
def test_scan(length):
    x, scale = np.arange(6.0 * length).reshape(length, 6), np.full(6, 2.0)
    last, sums = running(x, scale)
    np.testing.assert_allclose(last, x.sum(0))
    np.testing.assert_allclose(sums, 2 * x.cumsum(0))
    slope = jax.grad(lambda x: jnp.sum(running(x, scale)[1]))(x)
    np.testing.assert_allclose(slope, 2.0 * np.arange(length, 0, -1)[:, None] * np.ones(6))
    mapped = jax.vmap(running, (1, 0), (0, 1))(x, scale)
    np.testing.assert_allclose(mapped[1], 2 * x.cumsum(0))


def test_a_replicated_carry_may_become_one_that_varies_over_devices():
    mesh, split = Mesh(jax.devices()[:2], ("i",)), PartitionSpec(None, "i")
    x, scale = np.arange(24.0).reshape(4, 6), np.full(3, 2.0)
    out = (PartitionSpec("i"), split)
    specs = {"mesh": mesh, "in_specs": (split, PartitionSpec()), "out_specs": out}
    last, sums = jax.jit(jax.shard_map(running, **specs))(x, scale)
    np.testing.assert_allclose(last, x.sum(0))
    np.testing.assert_allclose(sums, 2 * x.cumsum(0))


def test_a_loop_that_ends_by_a_condition_cannot_overwrite_rows():
    b = Builder([jax.typeof(np.zeros(4))])
    window = recurrence.RowWindow(Value(b.inputs[0]), [0, 1], [1], 0)
    refuse = NotImplementedError
    steps = Value(np.asarray(3))
    loop = recurrence.Loop(steps, 3, [], [window], [], [], [], [], True, refuse, refuse)
    with pytest.raises(errors.UnsupportedOpError) as caught:
        recurrence.run(loop, lambda *_: None)
    assert str(caught.value) == (
        "A loop that overwrites rows of an array, as the loop of a gradient does, cannot end by a "
        "condition. Differentiate with jax.jvp, or give the loop only a number of steps."
    )


def repeated(x, limit):
    """Double ``x`` until its sum exceeds a limit; return it with the step count and all sums."""

    def step(limit, x):
        x = x + x
        total = reduce.sum(x, [0])
        return [x], [total], total > limit

    with Builder([jax.typeof(x), jax.typeof(limit)]) as b:
        start, most = map(Value, b.inputs)
        bound = Value(np.asarray(9))
        ended = control.until(step, [most], [start], [], bound, 9, NotImplementedError)
        results = [*ended.carries, ended.steps, *ended.last, *ended.stacked]
        closed = b.build(atoms(results))
    check_jaxpr(closed.jaxpr)
    return tuple(jaxprgen.jaxpr_as_fun(closed)(x, limit))


def test_until():
    x = np.array([1.0, 2.0])
    doubled, steps, last, sums = repeated(x, 20.0)
    np.testing.assert_array_equal(doubled, 8 * x)
    assert (steps, last) == (3, 24)
    np.testing.assert_array_equal(sums, [6, 12, 24, *[0] * 6])
    mapped = jax.vmap(repeated, (None, 0))(x, np.array([20.0, 5.0, 1e9]))
    np.testing.assert_array_equal(mapped[1], [3, 1, 9])
    mesh, split = Mesh(jax.devices()[:2], ("i",)), PartitionSpec("i")
    rows = jax.shard_map(
        lambda k: repeated(x, k[0])[0], mesh=mesh, in_specs=split, out_specs=split
    )(np.array([20.0, 5.0]))
    np.testing.assert_array_equal(rows, [*8 * x, *2 * x])
    slopes = jax.shard_map(
        lambda k: jax.jvp(lambda y: repeated(y, k[0])[0], (x,), (x,))[1],
        mesh=mesh,
        in_specs=split,
        out_specs=split,
    )
    np.testing.assert_array_equal(slopes(np.array([20.0, 5.0])), rows)
    with pytest.raises(NotImplementedError):
        jax.grad(lambda y: repeated(y, 20.0)[2])(x)


@pytest.mark.parametrize("is_first", [True, False])
def test_the_limit_of_a_loop_may_be_a_constant_of_its_steps(is_first):
    def step(n, m, total):
        total = total + n * m
        return [total], [], total > 40

    with Builder([jax.typeof(np.asarray(5)), jax.typeof(np.asarray(2))]) as b:
        n, m = map(Value, b.inputs)
        constants = [n, m] if is_first else [m, n]
        zero = Value(np.asarray(0))
        ended = control.until(step, constants, [zero], [], n, None, NotImplementedError)
        closed = b.build(atoms([*ended.carries, ended.steps]))
    check_jaxpr(closed.jaxpr)
    assert jaxprgen.jaxpr_as_fun(closed)(5, 2) == [50, 5]
    assert jaxprgen.jaxpr_as_fun(closed)(3, 2) == [18, 3]


def test_unused_carries_and_operands_are_removed_from_nested_loops():
    """Carries that only update themselves are unused, too."""

    def inner(k, used, idle, row):
        return [used + row, idle * k], [ew.sin(idle)], None

    def outer(x, k, used, idle):
        ended = control.scan(inner, [k], [used, idle], [x], 3)
        return ended.carries, ended.stacked, None

    zero = Value(np.asarray(0.0))
    with Builder([jax.typeof(np.ones(3)), jax.typeof(1.0)]) as b:
        ended = control.scan(outer, [Value(v) for v in b.inputs], [zero, zero], [], 2)
        closed = b.build(atoms(ended.carries[:1]))
    check_jaxpr(closed.jaxpr)
    (eqn,) = closed.jaxpr.eqns
    (nested,) = eqn.params["jaxpr"].jaxpr.eqns
    assert [len(e.invars) for e in (eqn, nested)] == [2, 2]
    assert [e.primitive.name for e in nested.params["jaxpr"].jaxpr.eqns] == ["add"]
    (total,) = jaxprgen.jaxpr_as_fun(closed)(np.ones(3), 1.0)
    assert total == 6
