"""Options for XLA reach it by every way to a program, and are refused where JAX refuses them."""

from __future__ import annotations

import aesara
import aesara.tensor as at
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from laws import assert_same

import jaxprgen
from jaxprgen.errors import ArgumentTypeError

pytestmark = pytest.mark.compiles

x = at.dvector("x")
ONES = np.ones(3)
UNFUSED = {"xla_disable_all_hlo_passes": True}


def compiled(options=None, **more):
    shared = aesara.shared(2 * ONES, name="s")
    return jaxprgen.compile([x], at.exp(x) * shared + x, compiler_options=options, **more)


def by_hand(options=None):
    return jax.jit(lambda v: jnp.exp(v) * 2 + v, compiler_options=options)


def outcome(way, f):
    """What it gives, or how JAX's error begins."""
    try:
        return np.asarray(way(f))
    except (ValueError, RuntimeError) as error:
        return str(error).split(" specified on")[0]


WAYS = {
    "a call": lambda f: f(ONES),
    "lower": lambda f: f.lower(ONES).compile() and 0,
    "vmap": lambda f: jax.vmap(f)(ONES[None]),
    "vmap of vmap": lambda f: jax.vmap(jax.vmap(f))(ONES[None, None]),
    "jvp": lambda f: jax.jvp(f, (ONES,), (ONES,))[1],
    "grad": lambda f: jax.grad(lambda v: f(v).sum())(ONES),
    "jit": lambda f: jax.jit(f)(ONES),
    "jit, of a value": lambda f: jax.jit(lambda v: f(ONES) + v)(ONES),
    "scan": lambda f: jax.lax.scan(lambda c, _: (f(c), None), ONES, length=2)[0],
    "make_jaxpr": lambda f: jax.make_jaxpr(f)(ONES) and 0,
}
ALONE = ["a call", "lower", "vmap", "vmap of vmap", "jvp"]
"""The ways by which it is no part of another program."""


@pytest.mark.filterwarnings("ignore::jaxprgen.errors.SharedValueWarning")
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("options", [UNFUSED, {"xla_no_such_option": 1}], ids=["one", "none"])
def test_it_is_as_with_a_function_of_jax_s(way, options):
    ours, theirs = (outcome(WAYS[way], make(options)) for make in (compiled, by_hand))
    if isinstance(theirs, str):
        assert ours == theirs
    else:
        assert_same(ours, theirs, rtol=1e-14)
        assert_same(ours, outcome(WAYS[way], compiled()), rtol=1e-14)
    if way in ALONE:
        refused = "INVALID_ARGUMENT: No such compile option: 'xla_no_such_option'"
        assert (ours == refused) if isinstance(ours, str) else options is UNFUSED
    elif way != "grad":  # Which newer versions of JAX take for a program of its own.
        assert "can only be passed to top-level" in ours


@pytest.mark.parametrize("way", ALONE)
def test_options_change_what_xla_does(way, tmp_path):
    """It writes down what it compiles, once."""
    f = compiled({"xla_dump_to": str(tmp_path)}, name="model")
    for _ in range(2):
        WAYS[way](f)
        written = list(tmp_path.glob("*jit_model.before_optimizations.txt"))
        assert len(written) == 1
        assert "exponential" in written[0].read_text()


@pytest.mark.parametrize("argument", [ONES, jax.ShapeDtypeStruct((3,), np.float64)])
def test_a_call_finds_what_was_compiled_ahead(argument, tmp_path):
    f = compiled({"xla_dump_to": str(tmp_path)})
    f.lower(argument).compile()
    assert_same(f(ONES), 2 * np.exp(ONES) + 1, rtol=1e-14)
    assert_same(f(jnp.asarray(2 * ONES)), 2 * np.exp(2 * ONES) + 2, rtol=1e-14)
    assert len(list(tmp_path.glob("*.before_optimizations.txt"))) == 1


def test_of_values_it_is_compiled_ahead_as_well():
    n = at.lscalar("n")
    f = jaxprgen.compile([x, n], x.sum() * at.arange(n))
    for size in (3, 1):
        assert f.lower(ONES, size).out_info.shape == (size,)
        assert_same(f(ONES, size), 3.0 * np.arange(size))


def test_options_change_the_program_that_runs():
    fused, unfused = (compiled(o).lower(ONES).compile() for o in (None, UNFUSED))
    assert "multiply_add_fusion" in fused.as_text()
    assert "multiply_add_fusion" not in unfused.as_text()
    again = compiled(UNFUSED).lower(ONES).compile({"xla_disable_all_hlo_passes": False})
    assert "multiply_add_fusion" in again.as_text()


def test_functions_that_differ_in_nothing_else_are_told_apart(tmp_path):
    plain, dumping = compiled(), compiled({"xla_dump_to": str(tmp_path)})
    for f in (plain, dumping):
        jax.vmap(f)(ONES[None])
    assert list(tmp_path.iterdir())


def test_order_makes_no_difference():
    options = {"xla_disable_all_hlo_passes": True, "xla_backend_optimization_level": 0}
    turned = dict(reversed(options.items()))
    first, second = (compiled(o)._options.compiler_options for o in (options, turned))
    assert first == second


def programs():
    """What keeps state, with and without checks, and Aesara's mode, of the same options."""
    shared = aesara.shared(2 * ONES, name="s")
    updates = {shared: shared + x}

    def stateful(**options):
        return jaxprgen.function([x], at.exp(x) * shared, updates, **options)

    def linked(**options):
        mode = jaxprgen.JaxprMode(jaxprgen.JaxprLinker(**options), None)
        return aesara.function([x], at.exp(x) * shared, updates=updates, mode=mode)

    return {
        "function": stateful,
        "with checks": lambda **options: stateful(checks=True, **options),
        "mode": linked,
    }


@pytest.mark.parametrize("kind", programs())
def test_functions_that_keep_state_take_them(kind, tmp_path):
    make = programs()[kind]
    f = make(compiler_options={"xla_dump_to": str(tmp_path)})
    assert_same(f(ONES), np.exp(ONES) * 2)
    assert_same(f(ONES), np.exp(ONES) * 3)
    assert len(list(tmp_path.glob("*.before_optimizations.txt"))) == 1
    with pytest.raises(RuntimeError, match="No such compile option: 'xla_no_such_option'"):
        make(compiler_options={"xla_no_such_option": 1})(ONES)


def test_a_report_is_on_the_program_that_runs():
    reports = [compiled(options).report(ONES) for options in (None, UNFUSED)]
    assert reports[0].bytes_accessed < reports[1].bytes_accessed


@pytest.mark.parametrize(
    ("options", "shown"),
    [({"a": [1]}, "'a': [1]"), ({3: "b"}, "3: 'b'"), ({"a": None}, "'a': None")],
)
def test_what_is_no_option_by_its_type(options, shown):
    for make in (compiled, lambda options: jaxprgen.JaxprLinker(compiler_options=options)):
        with pytest.raises(ArgumentTypeError) as caught:
            make(options)
        assert str(caught.value) == (
            "compiler_options maps names of XLA options to strings, numbers or booleans; got "
            f"{shown}."
        )
