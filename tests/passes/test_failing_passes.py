"""A default pass that fails leaves the program as it was, with one warning; other passes raise."""

import copy
import dataclasses
import gc
import pickle
import subprocess
import sys
import threading
import warnings
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxprgen
from jaxprgen import _jax
from jaxprgen.errors import PassError, PassWarning, SymbolicSizeError
from jaxprgen.passes import DEFAULT, EliminateDeadCode, Pipeline, Stabilize, defaults
from jaxprgen.passes.repeat_notes import listener, listening

x = np.linspace(0, 1, 3)


def model(x):
    jax.debug.print("here")
    inner = jnp.sin(x)
    return jnp.cos(inner)


def changed(closed, **parts):
    return type(closed)(closed.jaxpr.replace(**parts), closed.consts)


def at(closed, name):
    return next(i for i, e in enumerate(closed.jaxpr.eqns) if e.primitive.name == name)


# --- Passes that fail ---------------------------------------------------------------------


def a_key_error(closed):
    eqn = closed.jaxpr.eqns[at(closed, "cos")]
    return {}[eqn.primitive.name]


def a_recursion_error(closed):
    return a_recursion_error(closed)


def a_memory_error(closed):
    raise MemoryError("no memory")


def an_own_error(closed):
    raise SymbolicSizeError("A size has to be a number here.")


def nothing(closed):
    pass


def other_types(closed):
    return jax.make_jaxpr(lambda x: jnp.float32(x))(*closed.in_avals)


def fewer_results(closed):
    return changed(closed, outvars=[])


def unbound(closed):
    i = at(closed, "sin")
    return changed(closed, eqns=closed.jaxpr.eqns[:i] + closed.jaxpr.eqns[i + 1 :])


def bound_twice(closed):
    return changed(closed, eqns=[*closed.jaxpr.eqns, closed.jaxpr.eqns[-1]])


def ill_typed(closed):
    eqns, i = [*closed.jaxpr.eqns], at(closed, "cos")
    eqns[i] = eqns[i].replace(primitive=_jax.primitive("is_finite"))
    return changed(closed, eqns=eqns)


def without_effect(closed):
    eqns = [eqn for eqn in closed.jaxpr.eqns if not eqn.effects]
    return changed(closed, eqns=eqns, effects=frozenset())


def effect_twice(closed):
    effects = [eqn for eqn in closed.jaxpr.eqns if eqn.effects]
    return changed(closed, eqns=[*effects, *closed.jaxpr.eqns])


FAILING = {
    a_key_error: "failed: KeyError: 'cos'",
    a_recursion_error: "failed: RecursionError: maximum recursion depth exceeded",
    a_memory_error: "failed: MemoryError: no memory",
    an_own_error: "failed: SymbolicSizeError: A size has to be a number here.",
    nothing: "returned NoneType instead of a program.",
    other_types: "changed the types of the program's results. Before: float64[3]. After: float32",
    fewer_results: "changed the types of the program's results. Before: float64[3]. After: none.",
    unbound: "returned a program that is ill-formed. cos reads a variable that is not bound",
    bound_twice: "returned a program that is ill-formed. cos binds a variable a second time",
    ill_typed: "returned a program that JAX rejects.",
    without_effect: "changed the effects of the program. Before: 1 debug_",
    effect_twice: "changed the effects of the program. Before: 1 debug_",
}
AT_COS = (a_key_error, unbound, bound_twice, ill_typed)
"""Passes that fail at an equation, or make one that is rejected."""


def built_in(f):
    """Return a pass that seems to be of this package, and does what another one does."""

    def rewrite(closed):
        return f(closed)

    rewrite.__name__, rewrite.__module__ = f.__name__, "jaxprgen.passes.broken"
    return rewrite


@pytest.fixture
def default(monkeypatch):
    """Make passes of `DEFAULT` of functions."""

    def add(f):
        rewrite = built_in(f)
        monkeypatch.setitem(defaults._made, id(rewrite), rewrite)
        return rewrite

    return add


def line_of(text):
    lines = Path(__file__).read_text().splitlines()
    return next(f"{__file__}:{i}" for i, line in enumerate(lines, 1) if text in line)


@pytest.mark.parametrize("f", FAILING)
def test_a_default_pass_that_fails_leaves_the_program(f, default):
    closed = jax.make_jaxpr(model)(x)
    seen = []
    with pytest.warns(PassWarning) as caught:
        found = Pipeline((EliminateDeadCode(), default(f), EliminateDeadCode()), seen.append)(
            closed
        )
    assert found is closed and [r.after is closed for r in seen] == [True] * 3
    (warning,) = caught
    assert warning.filename == __file__
    first, where, rest = str(warning.message).splitlines()
    assert first.startswith(f"The default pass {f.__name__} {FAILING[f]}")
    text = "jnp.cos(inner)" if f in AT_COS else 'print("here")'
    assert where.startswith(f"  in a program built at {line_of(text)}, in model: ")
    assert "python -m jaxprgen info" in rest and "make_jaxpr" in rest and "PassWarning" in rest


@pytest.mark.parametrize("f", FAILING)
def test_any_other_pass_that_fails_raises(f):
    closed = jax.make_jaxpr(model)(x)
    with pytest.raises(jaxprgen.JaxprGenError):
        Pipeline((EliminateDeadCode(), built_in(f)))(closed)


@pytest.mark.parametrize("f", FAILING)
def test_the_warning_can_be_an_error(f, default):
    rewrite = default(f)  # As in all of these tests.
    with pytest.raises(PassWarning, match=f"The default pass {f.__name__} "):
        jaxprgen.transform(model, rewrite)(x)


@pytest.mark.parametrize("kind", [KeyboardInterrupt, SystemExit])
def test_an_interrupt_is_no_failure(kind, default):
    def interrupted(closed):
        raise kind

    with pytest.raises(kind):
        Pipeline([default(interrupted)])(jax.make_jaxpr(jnp.sin)(x))


def failing_stabilize(monkeypatch):
    def fail(self, closed):
        raise KeyError("c")

    monkeypatch.setattr(Stabilize, "__call__", fail)


def by_compile(**options):
    import aesara.tensor as at

    v = at.dvector("v")
    return jaxprgen.compile([v], at.log1p(v), **options)


def by_function(**options):
    import aesara.tensor as at

    v = at.dvector("v")
    return jaxprgen.function([v], at.log1p(v), **options)


def by_mode(passes=DEFAULT):
    import aesara
    import aesara.tensor as at

    v = at.dvector("v")
    mode = aesara.compile.mode.Mode(linker=jaxprgen.JaxprLinker(passes=passes), optimizer=None)
    return aesara.function([v], at.log1p(v), mode=mode)


def by_transform(passes=DEFAULT):
    return jaxprgen.transform(jnp.log1p, *passes)


def by_jit(passes=DEFAULT):
    return jax.jit(by_transform(passes))


@pytest.mark.parametrize("made", [by_compile, by_function, by_mode, by_transform, by_jit])
def test_the_program_of_every_way_is_kept(made, monkeypatch):
    failing_stabilize(monkeypatch)
    with pytest.warns(
        PassWarning, match="The default pass Stabilize failed: KeyError: 'c'"
    ) as caught:
        found = made()(x)
    np.testing.assert_array_equal(found, np.log1p(x))
    assert len(caught) == 1 and caught[0].filename == __file__


@pytest.mark.parametrize("made", [by_compile, by_function, by_mode, by_transform, by_jit])
def test_a_pass_that_the_user_names_raises_in_every_way(made, monkeypatch):
    failing_stabilize(monkeypatch)
    passes = (EliminateDeadCode(), Stabilize())  # Equal to the one of DEFAULT.
    with pytest.raises(PassError, match="The pass Stabilize failed: KeyError: 'c'"):
        made(passes=passes)(x)


@pytest.mark.parametrize("travel", [lambda p: pickle.loads(pickle.dumps(p)), copy.deepcopy])
def test_default_passes_stay_default_where_a_pipeline_travels(travel):
    found = travel(Pipeline((Stabilize(), *DEFAULT), validate=True))
    assert found == Pipeline((Stabilize(), *DEFAULT), validate=True)
    own, *others = found.passes
    assert own is not DEFAULT[2] and all(p is q for p, q in zip(others, DEFAULT, strict=True))
    replaced = dataclasses.replace(found, observer=print).passes
    assert all(p is q for p, q in zip(replaced[1:], DEFAULT, strict=True))


def test_a_pickled_function_keeps_its_program(monkeypatch):
    f = pickle.loads(pickle.dumps(by_compile()))
    failing_stabilize(monkeypatch)
    with pytest.warns(PassWarning):
        np.testing.assert_array_equal(f(x), np.log1p(x))


def test_what_a_failing_pass_noted_is_forgotten(default):
    def noting(closed):
        notes = listener()
        notes.leave(closed.jaxpr.eqns, 2, "noted")
        notes.leave_all("noting", "noted")
        notes.found.append("noted")
        raise KeyError("c")

    closed = jax.make_jaxpr(model)(x)
    with listening() as notes, pytest.warns(PassWarning):
        notes.leave(closed.jaxpr.eqns, 8, "before")
        Pipeline([default(noting)])(closed)
    assert "before" in str(notes.repeats())
    assert "noted" not in str(notes.repeats())
    assert not notes.found and listener() is None


def test_the_garbage_collector_is_left_as_it_was(default):
    with pytest.warns(PassWarning):
        Pipeline([default(a_key_error)])(jax.make_jaxpr(model)(x))
    assert gc.isenabled()


def test_a_pass_of_ones_own_may_drop_an_effect():
    for passes in ((without_effect,), (Pipeline((without_effect,)),)):
        assert not Pipeline(passes)(jax.make_jaxpr(model)(x)).effects


def test_one_equation_of_each_new_kind_is_checked(monkeypatch):
    """JAX takes longer to check a program than this package to emit it."""
    closed = jax.make_jaxpr(lambda x: jnp.log(1 + jnp.exp(jnp.sin(x))))(x)
    checked = []
    monkeypatch.setattr(_jax, "check_jaxpr", lambda jaxpr: checked.extend(jaxpr.eqns))
    found = Pipeline(DEFAULT)(closed)

    def kind(e):
        return f"{e.primitive} {e.params} {[x.aval for x in [*e.invars, *e.outvars]]}"

    kinds = [{kind(e) for e in eqns} for eqns in (closed.jaxpr.eqns, found.jaxpr.eqns, checked)]
    assert kinds[1] - kinds[0] <= kinds[2] <= kinds[1]
    assert len(checked) < len(found.jaxpr.eqns)


def test_a_program_that_jax_rejects_as_a_whole_is_not_the_fault_of_a_pass():
    """Only what a pass of this package makes is checked."""
    closed = ill_typed(jax.make_jaxpr(lambda x: (jnp.cos(jnp.sin(x)), jnp.log(1 + jnp.exp(x))))(x))
    assert Pipeline((Stabilize(),))(closed) is not closed


# --- In these tests -------------------------------------------------------------------------


def test_a_failing_default_pass_fails_a_test_in_a_thread_too(monkeypatch):
    failing_stabilize(monkeypatch)
    errors = []

    def run():
        try:
            by_transform()(x)
        except PassWarning as error:
            errors.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    assert len(errors) == 1


@pytest.mark.parametrize("is_strict", [True, False])
def test_a_failing_default_pass_fails_a_process_that_a_test_starts(is_strict, monkeypatch):
    if not is_strict:
        monkeypatch.delenv("PYTHONWARNINGS")
    code = (
        "import jax, jaxprgen, jax.numpy as jnp\n"
        "def fail(self, closed): raise KeyError('c')\n"
        "jaxprgen.passes.Stabilize.__call__ = fail\n"
        "print(jaxprgen.transform(jnp.log1p, *jaxprgen.passes.DEFAULT)(0.0))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert "PassWarning: The default pass Stabilize failed: KeyError: 'c'" in done.stderr
    assert (done.returncode != 0) == is_strict and ("0.0" in done.stdout) != is_strict


def test_the_warning_is_silenced_like_any_other(default):
    rewrite = default(a_key_error)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PassWarning)
        np.testing.assert_array_equal(jaxprgen.transform(jnp.cos, rewrite)(x), jnp.cos(x))
