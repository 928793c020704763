"""Tests of the pause of Python's garbage collector."""

import gc

import aesara.tensor as at
import jax.numpy as jnp
import pytest

import jaxprgen
from jaxprgen import collector


def test_the_pause_ends_with_an_error():
    with pytest.raises(ZeroDivisionError), collector.paused():
        assert not gc.isenabled()
        1 / 0  # noqa: B018
    assert gc.isenabled()


def test_a_pause_inside_of_another_does_not_end_it():
    with collector.paused():
        with collector.paused():
            pass
        assert not gc.isenabled()


def test_who_turned_the_collector_off_finds_it_off():
    gc.disable()
    try:
        with collector.paused():
            pass
        assert not gc.isenabled()
    finally:
        gc.enable()


def test_rules_and_passes_run_in_a_pause_and_calls_do_not():
    seen = []

    def watch(closed):
        seen.append(gc.isenabled())
        return closed

    x = at.dvector("x")
    f = jaxprgen.compile([x], x + 1, passes=[watch])
    f(jnp.ones(2))
    jaxprgen.transform(jnp.sin, watch)(1.0)
    assert seen == [False, False]
    assert gc.isenabled()
