"""Tests of the pause of Python's garbage collector."""

import gc
import os
import threading

import aesara.tensor as at
import jax.numpy as jnp
import pytest

import jaxprgen
from jaxprgen import collector


def is_paused():
    return gc.get_threshold()[0] > 10**6


@pytest.fixture(autouse=True)
def as_before():
    before = gc.get_threshold(), gc.isenabled()
    yield
    assert (gc.get_threshold(), gc.isenabled()) == before


def test_the_pause_ends_with_an_error():
    with pytest.raises(ZeroDivisionError), collector.paused():
        assert is_paused()
        1 / 0  # noqa: B018
    assert not is_paused()


def test_a_pause_inside_of_another_does_not_end_it():
    with collector.paused():
        with collector.paused():
            pass
        assert is_paused()


def test_what_others_set_in_a_pause_stays():
    usual = gc.get_threshold()

    def in_a_thread(f):
        thread = threading.Thread(target=f)
        thread.start()
        thread.join()

    try:
        with collector.paused():
            in_a_thread(gc.disable)
        assert not gc.isenabled() and gc.get_threshold() == usual
        with collector.paused():
            in_a_thread(gc.enable)
        assert gc.isenabled() and gc.get_threshold() == usual
        with collector.paused():
            in_a_thread(lambda: gc.set_threshold(900, 7, 7))
        assert gc.get_threshold()[:2] == (900, 7)
    finally:
        gc.enable()
        gc.set_threshold(*usual)


def test_who_turned_the_collector_off_finds_it_off():
    usual = gc.get_threshold()
    gc.set_threshold(0)
    try:
        with collector.paused():
            assert gc.get_threshold()[0] == 0
        assert gc.get_threshold()[0] == 0
    finally:
        gc.set_threshold(*usual)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="The system has no fork.")
@pytest.mark.filterwarnings("ignore:.*fork.*")
def test_a_process_that_is_forked_in_a_pause_collects():
    with collector.paused():
        child = os.fork()
        if not child:
            os._exit(is_paused())
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert is_paused()


def test_rules_and_passes_run_in_a_pause_and_calls_do_not():
    seen = []

    def watch(closed):
        seen.append(is_paused())
        return closed

    x = at.dvector("x")
    f = jaxprgen.compile([x], x + 1, passes=[watch])
    f(jnp.ones(2))
    jaxprgen.transform(jnp.sin, watch)(1.0)
    assert seen == [True, True]
    assert not is_paused()
