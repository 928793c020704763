"""A default pass that fails leaves the program as it was, with one warning; other passes raise."""

import copy
import dataclasses
import gc
import pickle
import threading
import warnings

import aesara
import aesara.tensor as at
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from aesara.compile.mode import Mode
from messages import built
from subprocesses import python

import jaxprgen
from jaxprgen import _jax
from jaxprgen.errors import PassError, PassWarning, SymbolicSizeError
from jaxprgen.passes import DEFAULT, EliminateDeadCode, Pipeline, Stabilize, defaults
from jaxprgen.passes.pipeline import require_valid
from jaxprgen.passes.repeat_notes import listener, listening

x = np.linspace(0, 1, 3)


def model(x):
    jax.debug.print("here")
    inner = jnp.sin(x)
    return jnp.cos(inner)


def changed(closed, **parts):
    return type(closed)(closed.jaxpr.replace(**parts), closed.consts)


def place(closed, name):
    return next(i for i, e in enumerate(closed.jaxpr.eqns) if e.primitive.name == name)


# --- Passes that fail ---------------------------------------------------------------------


def a_key_error(closed):
    eqn = closed.jaxpr.eqns[place(closed, "cos")]
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
    i = place(closed, "sin")
    return changed(closed, eqns=closed.jaxpr.eqns[:i] + closed.jaxpr.eqns[i + 1 :])


def one_less(closed):
    return changed(closed, eqns=closed.jaxpr.eqns[:-1])


def returns_unbound(closed):
    return changed(closed, eqns=[eqn for eqn in closed.jaxpr.eqns if eqn.effects])


def bound_twice(closed):
    return changed(closed, eqns=[*closed.jaxpr.eqns, closed.jaxpr.eqns[-1]])


def ill_typed(closed):
    eqns, i = [*closed.jaxpr.eqns], place(closed, "cos")
    eqns[i] = eqns[i].replace(primitive=_jax.primitive("is_finite"))
    return changed(closed, eqns=eqns)


def without_effect(closed):
    eqns = [eqn for eqn in closed.jaxpr.eqns if not eqn.effects]
    return changed(closed, eqns=eqns, effects=frozenset())


def effect_twice(closed):
    effects = [eqn for eqn in closed.jaxpr.eqns if eqn.effects]
    return changed(closed, eqns=[*effects, *closed.jaxpr.eqns])


TYPES = "changed the types of the program's results. Before: float64[3]. After: "
ILL_FORMED = "returned a program that is ill-formed. "
CORRECT = "Correct the pass, or leave it out."
KEEP_TYPES = "A pass must keep these types: correct the pass, or leave it out."
RETURN = "A pass must return a ClosedJaxpr: the given one if it changes nothing."
FAILING = {  # How the text goes on after the name of the pass, and its last line.
    a_key_error: ("failed: KeyError: 'cos'", CORRECT),
    a_recursion_error: ("failed: RecursionError: maximum recursion depth exceeded", CORRECT),
    a_memory_error: ("failed: MemoryError: no memory", CORRECT),
    an_own_error: ("failed: SymbolicSizeError: A size has to be a number here.", CORRECT),
    nothing: ("returned NoneType instead of a program.", RETURN),
    (lambda closed: "text"): ("returned str instead of a program.", RETURN),
    other_types: (f"{TYPES}float32[3].", KEEP_TYPES),
    fewer_results: (f"{TYPES}none.", KEEP_TYPES),
    unbound: (f"{ILL_FORMED}cos reads a variable that is not bound before it: ", CORRECT),
    bound_twice: (f"{ILL_FORMED}cos binds a variable a second time", CORRECT),
    returns_unbound: (
        f"{ILL_FORMED}The program returns a variable that it does not bind.",
        CORRECT,
    ),
    ill_typed: ("returned a program that JAX rejects.", CORRECT),
    without_effect: ("changed the effects of the program. Before: 1 debug_", ""),
    effect_twice: ("changed the effects of the program. Before: 1 debug_", ""),
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
    assert first.startswith(f"The default pass {f.__name__} {FAILING[f][0]}")
    text = built("return jnp.cos(inner)" if f in AT_COS else 'jax.debug.print("here")', "model")
    assert where.startswith(f"  in a program {text.partition(': ')[0]}: ")
    assert "python -m jaxprgen info" in rest and "make_jaxpr" in rest and "PassWarning" in rest


@pytest.mark.parametrize("f", FAILING)
def test_any_other_pass_that_fails_raises(f):
    """Also in a pipeline inside another one."""
    closed, (text, remedy) = jax.make_jaxpr(model)(x), FAILING[f]
    kind, start = PassError, f"The pass {f.__name__} {text}"
    if f is an_own_error:  # It says what to do.
        kind, start, remedy = SymbolicSizeError, "A size has to be a number here.", ""
    for own in ((built_in(f),), (Pipeline((EliminateDeadCode(), built_in(f))),)):
        with pytest.raises(kind) as error:
            Pipeline((EliminateDeadCode(), *own), lambda r: require_valid(r.rewrite, r.after))(
                closed
            )
        lines = str(error.value).splitlines()
        assert " ".join(lines).startswith(start)
        assert lines[-1].endswith(remedy)
        assert f is not ill_typed or "is_finite" in str(error.value)


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


v = at.dvector("v")


def by_mode(passes=DEFAULT):
    mode = Mode(linker=jaxprgen.JaxprLinker(passes=passes), optimizer=None)
    return aesara.function([v], at.log1p(v), mode=mode)


def by_transform(passes=DEFAULT):
    return jaxprgen.transform(jnp.log1p, *passes)


WAYS = {
    "compile": lambda **options: jaxprgen.compile([v], at.log1p(v), **options),
    "function": lambda **options: jaxprgen.function([v], at.log1p(v), **options),
    "mode": by_mode,
    "transform": by_transform,
    "jit": lambda **options: jax.jit(by_transform(**options)),
}


@pytest.mark.parametrize("way", WAYS)
def test_the_program_of_every_way_is_kept(way, monkeypatch):
    failing_stabilize(monkeypatch)
    with pytest.warns(
        PassWarning, match="The default pass Stabilize failed: KeyError: 'c'"
    ) as caught:
        found = WAYS[way]()(x)
    np.testing.assert_array_equal(found, np.log1p(x))
    assert len(caught) == 1 and caught[0].filename == __file__


@pytest.mark.parametrize("way", WAYS)
def test_a_pass_that_the_user_names_raises_in_every_way(way, monkeypatch):
    failing_stabilize(monkeypatch)
    for own, text in (
        (Stabilize(), "Stabilize failed: KeyError: 'c'"),  # Equal to the one of DEFAULT.
        (fewer_results, "fewer_results changed the types of the program's results"),
        (nothing, "nothing returned NoneType instead of a program"),
        (Pipeline((one_less,)), "one_less returned a program that is ill-formed"),
    ):
        with pytest.raises(PassError, match=f"The pass {text}"):
            WAYS[way](passes=(EliminateDeadCode(), own))(x)


@pytest.mark.parametrize("travel", [lambda p: pickle.loads(pickle.dumps(p)), copy.deepcopy])
def test_default_passes_stay_default_where_a_pipeline_travels(travel):
    found = travel(Pipeline((Stabilize(), *DEFAULT), validate=True))
    assert found == Pipeline((Stabilize(), *DEFAULT), validate=True)
    own, *others = found.passes
    assert own is not DEFAULT[2] and all(p is q for p, q in zip(others, DEFAULT, strict=True))
    replaced = dataclasses.replace(found, observer=print).passes
    assert all(p is q for p, q in zip(replaced[1:], DEFAULT, strict=True))


def test_a_pickled_function_keeps_its_program(monkeypatch):
    f = pickle.loads(pickle.dumps(WAYS["compile"]()))
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


def test_a_failing_default_pass_fails_a_process_that_a_test_starts():
    code = (
        "import sys, jaxprgen, jax, jax.numpy as jnp\n"
        "def fail(self, closed): raise KeyError('c')\n"
        "jaxprgen.passes.Stabilize.__call__ = fail\n"
        "f = jaxprgen.transform(jnp.log1p, *jaxprgen.passes.DEFAULT)\n"
        "try: f(0.0)\n"
        "except jaxprgen.errors.PassWarning: print('raised')\n"
        "import warnings; warnings.resetwarnings()\n"  # As in other processes.
        "print(f(1.0))\n"
    )
    done = python("-c", code)
    assert "PassWarning: The default pass Stabilize failed: KeyError: 'c'" in done.stderr
    assert done.stdout == "raised\n0.6931472\n"


def test_the_warning_is_silenced_like_any_other(default):
    rewrite = default(a_key_error)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PassWarning)
        np.testing.assert_array_equal(jaxprgen.transform(jnp.cos, rewrite)(x), jnp.cos(x))
