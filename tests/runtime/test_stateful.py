"""Functions that keep state: shared variables, updates, givens, and the pure form."""

from __future__ import annotations

import aesara
import aesara.tensor as at
import jax
import numpy as np
import pytest
from aesara.compile.io import In
from aesara.raise_op import Assert
from laws import assert_same

import jaxprgen
from jaxprgen.errors import ArgumentCountError, InvalidGraphError, RuntimeCheckWarning, StateError

x = at.dvector("x")
n = at.lscalar("n")


def counter():
    return aesara.shared(np.zeros(3), name="total")


def by_aesara(inputs, outputs, **options):
    from aesara.compile.mode import Mode

    return aesara.function(inputs, outputs, mode=Mode(linker="py", optimizer=None), **options)


def test_updates_are_seen_by_the_next_call_and_by_get_value():
    ours, theirs = counter(), counter()
    f = jaxprgen.function([x], at.sum(ours), updates={ours: ours + x})
    g = by_aesara([x], at.sum(theirs), updates={theirs: theirs + x})
    for _ in range(3):
        assert_same(f(np.arange(3.0)), g(np.arange(3.0)))
        assert_same(ours.get_value(), theirs.get_value())
    ours.set_value(np.ones(3))
    assert_same(f(np.arange(3.0)), np.asarray(3.0))
    assert_same(ours.get_value(), np.arange(3.0) + 1)


def test_functions_share_what_they_update():
    total = counter()
    add = jaxprgen.function([x], None, updates=[(total, total + x)])
    read = jaxprgen.function([], total * 2)
    add(np.ones(3))
    assert_same(read(), np.full(3, 2.0))
    add(np.ones(3))
    assert_same(read(), np.full(3, 4.0))
    assert_same(by_aesara([], total * 2)(), np.full(3, 4.0))


def test_results_come_as_outputs_are_asked_for():
    y = x * 2
    assert_same(jaxprgen.function([x], y)(np.ones(3)), np.full(3, 2.0))
    assert isinstance(jaxprgen.function([x], [y])(np.ones(3)), list)
    found = jaxprgen.function([x], {"double": y, "sum": at.sum(x)})(np.ones(3))
    assert list(found) == ["double", "sum"]
    assert_same(found["sum"], np.asarray(3.0))
    total = counter()
    assert jaxprgen.function([x], None, {total: x})(np.ones(3)) is None
    assert jaxprgen.function([x], [], {total: x})(np.ones(3)) == []
    with pytest.raises(InvalidGraphError, match="there is nothing to compute"):
        jaxprgen.function([x], None)


def test_arguments_by_name_and_by_default():
    a, b = at.dscalars("a", "b")
    f = jaxprgen.function([a, In(b, name="other", value=2.0)], a - b)
    assert f(3.0) == f(a=3.0) == f(3.0, 2.0) == f(other=2.0, a=3.0) == 1
    for call, text in (
        (lambda: f(), "no value for input 'a'"),
        (lambda: f(1.0, c=2.0), "no input named 'c'"),
        (lambda: f(1.0, a=2.0), "two values for input 'a'"),
        (lambda: f(1.0, 2.0, 3.0), "takes 2 arguments, but 3 were given"),
    ):
        with pytest.raises(ArgumentCountError, match=text):
            call()
    g = jaxprgen.function([In(a, name="the first", value=2.0), b], a - b)
    assert g(b=1.0) == g(2.0, 1.0) == 1


@pytest.mark.filterwarnings("ignore::jaxprgen.errors.SharedValueWarning")
def test_what_is_read_under_a_trace_outlives_it():
    total, u = counter(), at.random.RandomStream(7).uniform()
    f = jaxprgen.function([x], at.sum(x + total) + u, no_default_updates=True)
    assert_same(jax.jit(f)(np.ones(3)), f(np.ones(3)))


def test_a_value_that_moves_from_one_variable_to_another():
    now, before = counter(), aesara.shared(np.zeros(3), name="before")
    f = jaxprgen.function([x], None, updates={before: now, now: x})
    g = jaxprgen.function([], None, updates={before: now})
    for i in range(3):
        f(np.full(3, float(i)))
        g()
        g()
        assert_same(before.get_value(), np.full(3, float(i)))
        assert_same(now.get_value(), np.full(3, float(i)))


def test_givens():
    a, b = at.dscalars("a", "b")
    f = jaxprgen.function([b], a**2, givens={a: b + 1})
    assert f(2.0) == 9
    data = aesara.shared(np.arange(6.0))
    i = at.lscalar("i")
    batch = jaxprgen.function([i], at.sum(x), givens=[(x, data[i * 2 : i * 2 + 2])])
    with pytest.warns(RuntimeCheckWarning, match="whether 2 adjacent elements are"):
        assert [float(batch(k)) for k in range(3)] == [1, 5, 9]
    total = counter()
    f = jaxprgen.function([b], None, givens={a: b}, updates={total: total + a})
    f(3.0)
    assert_same(total.get_value(), np.full(3, 3.0))


def test_shapes_that_arguments_and_states_decide():
    size = aesara.shared(np.int64(2), name="size")
    f = jaxprgen.function([n], at.zeros((n, size)), updates={size: size + 1})
    assert [f(1).shape, f(3).shape] == [(1, 2), (3, 3)]


# --- Random numbers -----------------------------------------------------------------------


def test_streams_advance_as_they_do_in_aesara():
    stream = at.random.RandomStream(7)
    u = stream.uniform(size=(3,))
    f = jaxprgen.function([], u)
    first, second = f(), f()
    assert not np.allclose(first, second)
    stream.seed(7)
    assert_same(f(), first)
    fixed = jaxprgen.function([], u, no_default_updates=True)
    assert_same(fixed(), fixed())


def test_equal_seeds_give_equal_draws():
    one, two = (
        jaxprgen.function([], at.random.RandomStream(seed).normal(size=(3,))) for seed in (3, 3)
    )
    assert_same(one(), two())
    other = jaxprgen.function([], at.random.RandomStream(4).normal(size=(3,)))
    assert not np.allclose(one(), other())
    old = aesara.shared(np.random.RandomState(3))
    assert jaxprgen.function([], at.random.randint(0, 9, size=(3,), rng=old))().shape == (3,)


# --- The pure form ------------------------------------------------------------------------


def test_the_pure_form_changes_nothing_and_is_transformed():
    total = counter()
    stream = at.random.RandomStream(7)
    noise = stream.normal(size=(3,))
    f = jaxprgen.function([x], at.sum(total * x + noise), updates={total: total + x})
    state = f.state()
    assert "total" in state
    assert len(state) == 2
    out, after = jax.jit(f.pure)(state, np.arange(3.0))
    again, _ = f.pure(state, np.arange(3.0))
    assert_same(out, again)
    assert_same(after["total"], np.arange(3.0))
    assert_same(total.get_value(), np.zeros(3))
    gradient = jax.grad(lambda s, v: f.pure({**state, "total": s}, v)[0])(
        np.ones(3), np.arange(3.0)
    )
    assert_same(gradient, np.arange(3.0))
    _, carried = jax.lax.scan(lambda s, v: f.pure(s, v)[::-1], state, np.ones((4, 3)))
    assert carried.shape == (4,)
    assert_same(f(np.arange(3.0)), out)
    assert_same(total.get_value(), after["total"])
    np.testing.assert_array_equal(
        *(jax.random.key_data(s[next(k for k in s if k != "total")]) for s in (f.state(), after))
    )


def test_shared_variables_of_one_name_are_numbered():
    values = [aesara.shared(float(i), name=name) for i, name in enumerate(("a", "a_2", "a"))]
    f = jaxprgen.function([], sum(values))
    assert f.state() == {"a": 0, "a_2": 1, "a_3": 2}
    assert f() == 3


def test_the_stateful_form_under_a_transform():
    total = counter()
    f = jaxprgen.function([x], total, updates={total: total + x}, name="step")
    for run in (lambda: jax.jit(f)(np.ones(3)), lambda: jax.jit(lambda: f(np.ones(3)))()):
        with pytest.raises(StateError) as error:
            run()
        assert str(error.value) == (
            "step updates total, which is not possible inside a function that JAX transforms.\n"
            "Call outputs, state = step.pure(state, ...) there, and start with the state that "
            "step.state() returns."
        )
    assert_same(total.get_value(), np.zeros(3))
    read = jaxprgen.function([x], at.sum(total * x))
    assert_same(jax.grad(read)(np.ones(3)), np.zeros(3))


def test_a_state_of_something_else():
    total = counter()
    f = jaxprgen.function([], total, updates={total: total + 1})
    with pytest.raises(StateError, match="must have the entries total, but has sum"):
        f.pure({"sum": np.ones(3)})


# --- Errors -------------------------------------------------------------------------------


def test_updates_that_cannot_be():
    total = counter()
    with pytest.raises(InvalidGraphError, match="x cannot be updated: it is not a shared variable"):
        jaxprgen.function([x], None, updates={x: x + 1})
    with pytest.raises(InvalidGraphError, match="total is updated twice"):
        jaxprgen.function([], None, updates=[(total, total), (total, total + 1)])
    with pytest.raises(InvalidGraphError, match=r"total is a TensorType.*Cast the update"):
        jaxprgen.function([], None, updates={total: at.zeros((2, 2))})
    with pytest.raises(InvalidGraphError, match="cannot replace it"):
        jaxprgen.function([], x, givens={x: at.zeros((2, 2))})


def test_a_failed_check_is_raised_and_updates_nothing():
    total = counter()
    positive = Assert("must be positive")(x, at.all(x > 0))
    cases = [
        (x.sum(), {total: total + positive}, AssertionError, "must be positive"),
        (x[n], {total: total + x}, IndexError, "out of bounds for axis 0 of size 3"),
    ]
    for output, updates, kind, text in cases:
        f = jaxprgen.function([x, n], output, updates=updates, checks=True)
        mode = jaxprgen.JaxprMode(jaxprgen.JaxprLinker(checks=True), "None")
        g = aesara.function([x, n], output, updates=updates, mode=mode, on_unused_input="ignore")
        for run in (f, g):
            before = np.asarray(total.get_value())
            with pytest.raises(kind, match=text):
                run(-np.ones(3), 7)
            assert_same(total.get_value(), before)
            run(np.ones(3), 2)
            assert_same(total.get_value(), before + 1)
