"""Ops that talk to the user while the program runs."""

import sys

import aesara
import aesara.tensor as at
import jax
import numpy as np
from aesara.breakpoint import PdbBreakpoint
from aesara.printing import Print
from laws import assert_same, equations

import jaxprgen

x = at.dvector("x")
VALUE = np.array([0.5, 2.0])


def printed(capsys, run, *args):
    """What is printed until everything has run, and the result."""
    result = run(*args)
    jax.effects_barrier()
    return capsys.readouterr().out, result


def test_what_is_printed_is_what_aesara_prints(capsys):
    shown = Print("x is", attrs=["__str__", "shape"])(x) * 2
    wanted, value = printed(capsys, aesara.function([x], shown, mode="FAST_COMPILE"), VALUE)
    f = jaxprgen.compile([x], shown)
    assert equations(f, VALUE) == ["debug_callback", "mul"]
    for run in (f, jax.jit(f), jaxprgen.debug(f)):
        text, result = printed(capsys, run, VALUE)
        assert text == wanted == "x is __str__ = [0.5 2. ]\nx is shape = (2,)\n"
        assert_same(result, value)


def test_every_run_prints_in_the_order_of_the_graph(capsys):
    f = jaxprgen.compile([x], Print("second")(Print("first")(x).sum()))
    for run in (f, f, jax.jit(f)):
        assert printed(capsys, run, VALUE)[0] == (
            "first __str__ = [0.5 2. ]\nsecond __str__ = 2.5\n"
        )


def test_derivatives_and_batches(capsys):
    f = jaxprgen.compile([x], at.sum(Print("x")(x) ** 2))
    text, gradient = printed(capsys, jax.grad(f), VALUE)
    assert text == "x __str__ = [0.5 2. ]\n"
    assert_same(gradient, 2 * VALUE)
    text, _ = printed(capsys, jax.jit(jax.vmap(f)), np.stack([VALUE, VALUE + 1]))
    assert text == "x __str__ = [0.5 2. ]\nx __str__ = [1.5 3. ]\n"


def test_what_is_known_is_printed_when_the_program_runs_and_stays_known(capsys):
    n = Print("n")(at.constant(3))
    f = jaxprgen.compile([], at.zeros(n))
    assert f.jaxpr().out_avals[0].shape == (3,)
    assert capsys.readouterr().out == ""
    assert printed(capsys, f)[0] == "n __str__ = 3\n"


def test_an_own_function_is_called(capsys):
    seen = []
    f = jaxprgen.compile([x], Print("m", global_fn=lambda op, v: seen.append((op.message, v)))(x))
    printed(capsys, f, VALUE)
    ((message, value),) = seen
    assert message == "m"
    assert isinstance(value, np.ndarray)
    assert_same(value, VALUE)


def test_a_breakpoint_stops_where_its_condition_holds(capsys, monkeypatch):
    total = x.sum()
    first, second = PdbBreakpoint("too much")(total > 3, x * 2, total)
    kept, other = PdbBreakpoint("never")(at.constant(False), x, x.shape[0])
    f = jaxprgen.compile([x], [at.sum(first) + second, kept * at.arange(other)])
    stops = []
    monkeypatch.setattr(sys, "breakpointhook", lambda: stops.append(sys._getframe(1).f_locals))
    text, (result, same) = printed(capsys, f, VALUE)
    assert (text, stops) == ("", [])
    assert_same(result, 7.5)
    assert_same(same, VALUE * [0, 1])
    text, (result, _) = printed(capsys, f, VALUE + 1)
    assert (
        text == "Conditional breakpoint 'too much' activated: see the list variable 'monitored'.\n"
    )
    ((twice, one),) = [stop["monitored"] for stop in stops]
    assert_same(twice, 2 * VALUE + 2)
    assert_same(one, 4.5)
    assert_same(result, 13.5)
    assert_same(jax.grad(lambda v: f(v)[0])(VALUE), np.full(2, 3.0))
