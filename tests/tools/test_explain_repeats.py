"""Explanations say what repeats, what became of it, and why the rest was left alone."""

import aesara.tensor as at
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental import io_callback
from jax.sharding import PartitionSpec as P

import jaxprgen
from jaxprgen import _jax
from jaxprgen.inspect import explain_repeats
from jaxprgen.passes import DEFAULT, ScanRepeats, VmapRepeats, default

X = np.linspace(0.1, 1.0, 60)


def sines(x):
    return sum(jnp.sin(x[i]) for i in range(40))


def recurrence(x):
    h = 0.1
    for i in range(len(x)):
        h = jnp.tanh(0.5 * h + x[i])
    return h


def test_batches_have_their_size_their_primitives_and_their_line():
    found, left = explain_repeats(sines, X)
    sine, total = [next(r for r in found if p in r.primitives) for p in ("sin", "add")]
    assert (sine.how, sine.times, total.times) == ("batched", 40, 41)
    assert sine.line.endswith(f"test_explain_repeats.py:{sines.__code__.co_firstlineno + 1}")
    assert left == ()


def test_loops_have_their_steps_and_what_they_carry():
    repeats = explain_repeats(recurrence, np.linspace(0.1, 1.0, 300, dtype="float32"))
    (loop,) = [r for r in repeats.found if r.how == "looped"]
    assert 295 < loop.times <= 300
    assert "tanh" in loop.primitives
    assert loop.carried == ("f32[]",)
    assert f"× {loop.times}  " in str(repeats) and "  carries f32[]  " in str(repeats)
    assert f"1 loop of {loop.times} steps" in repeats.summary


@pytest.mark.parametrize("function", [sines, recurrence])
def test_what_is_found_has_a_price(function):
    for calls in (1, 100_000):
        repeats = explain_repeats(function, X, passes=default(calls=calls))
        chosen = [r for r in (*repeats.found, *repeats.left) if r.times and r.reason]
        assert chosen
        for r in chosen:
            take = "would take" if r.how == "left alone" else "take"
            assert r.reason.startswith(f"{calls} calls {take} ")
    assert all(not r.reason for r in explain_repeats(function, X, passes=[VmapRepeats()]).found)


def test_compiled_functions_and_observations_are_explained_by_their_own_passes():
    x = at.dvector("x")
    total = sum(at.sin(x[i]) for i in range(20))
    f = jaxprgen.compile([x], total, name="model")
    assert explain_repeats(f, np.ones(20)) == explain_repeats(f.observe(np.ones(20)))
    assert explain_repeats(f, np.ones(20)).found[0].times == 20
    assert explain_repeats(jaxprgen.compile([x], total, passes=()), np.ones(20)) == ((), ())


def test_a_program_that_repeats_nothing_says_so():
    assert str(explain_repeats(jnp.sin, X, passes=())) == "Nothing repeats."


# --- Reasons -----------------------------------------------------------------------------------


def few_and_many(x):
    return sines(x) + sum(jnp.exp(x[i]) for i in range(5))


def short_chain(x):
    for _ in range(60):
        x = jnp.tanh(0.5 * x)
    return x


def effects(x):
    for i in range(12):
        io_callback(lambda v: None, None, x[i])
    return sines(x)


def branches(x):
    return sum(jax.lax.cond(x[i] < 1, jnp.sin, jnp.cos, x[i]) for i in range(12))


def split(x):
    mesh = jax.make_mesh((1,), ("rows",))
    return jax.shard_map(sines, mesh=mesh, in_specs=P(), out_specs=P())(x)


def layers(*weights):
    h = jnp.ones(4)
    for w in weights:
        h = jax.lax.tanh(jax.lax.sin(jax.lax.cos(jax.lax.dot(w, h))))
    return h


def products(*weights):
    return sum(jax.lax.tanh(jax.lax.dot(w, jnp.ones(4))) for w in weights)


@pytest.mark.parametrize(("function", "rewrite"), [(products, VmapRepeats), (layers, ScanRepeats)])
def test_copies_of_separate_inputs_keep_within_the_bound(function, rewrite):
    weights = [np.full((4, 4), 0.1)] * 30
    for memory in (4000, 2000):
        passes = [rewrite(memory=memory, reassociate=True)]
        repeats = explain_repeats(function, *weights, passes=passes)
        found = {p for each in repeats.found for p in each.primitives}
        left = [each.reason for each in repeats.left if "dot_general" in each.primitives]
        assert ("dot_general" in found) == (memory == 4000)
        assert any(r.endswith(" bytes, more than 2000") for r in left) == (memory == 2000)


SMALL = VmapRepeats(reassociate=True, memory=100)
REASONS = [
    (few_and_many, DEFAULT, "exp", 5, "fewer than 8"),
    (sines, [SMALL], "sin", 40, "would take 320 bytes, more than 100"),
    (effects, DEFAULT, "io_callback", 12, "has an effect"),
    (branches, DEFAULT, "cond", 12, "all branches would run"),
    (short_chain, DEFAULT, "tanh", 60, "a chain so short that XLA fuses it by itself"),
]
WHOLE = [
    (
        lambda x: sum(jnp.sin(x[i]) for i in range(7)),
        DEFAULT,
        "VmapRepeats: no 8 copies can be batched",
    ),
    (
        lambda x: [jax.lax.sin(jax.lax.slice(x, (i,), (i + 1,))) for i in range(8)],
        [VmapRepeats()],
        "VmapRepeats: would save ",
    ),
    (
        lambda x: jnp.sin(x) + 1,
        DEFAULT,
        "ScanRepeats: no 12 equations wait for each other, only 1",
    ),
    (short_chain, DEFAULT, "VmapRepeats: no 8 copies can be batched"),
    (split, DEFAULT, "shard_map: values are split over a mesh"),
]


@pytest.mark.parametrize(("function", "passes", "primitive", "times", "reason"), REASONS)
def test_what_is_left_alone_has_a_reason(function, passes, primitive, times, reason):
    left = explain_repeats(function, X, passes=passes).left
    (found,) = [each for each in left if primitive in each.primitives]
    assert (abs(found.times - times) < 3, found.reason) == (True, reason)
    assert "test_explain_repeats.py:" in found.line and str(found).endswith(f"  {reason}")


@pytest.mark.parametrize(("function", "passes", "reason"), WHOLE)
def test_a_program_that_is_left_alone_has_a_reason(function, passes, reason):
    repeats = explain_repeats(function, X, passes=passes)
    assert repeats.found == ()
    assert f"    {reason}" in str(repeats)


def of_exponents(x):
    return sum(jax.lax.integer_pow(x[i], 2 + i % 4) for i in range(20))


def of_types(x):
    return sum(jnp.sin(x[i].astype(("float32", "float64")[i % 2])) for i in range(14))


def of_sources(x):
    return sum(jnp.sin((jnp.exp, jnp.cos)[i % 2](x[i])) for i in range(14))


@pytest.mark.parametrize(
    ("function", "primitive", "times", "reason"),
    [
        (of_exponents, "integer_pow", 20, "of 4 kinds, such as y=2 and y=3"),
        (of_types, "sin", 14, "of 2 kinds, such as f32[] and f64[]"),
        (of_sources, "sin", 14, "of 2 kinds, such as a result of exp and a result of cos"),
    ],
)
def test_what_keeps_apart_almost_alike_equations_is_named(function, primitive, times, reason):
    left = explain_repeats(function, X, passes=[VmapRepeats()]).left
    assert (times, reason) in [(r.times, r.reason) for r in left if primitive in r.primitives]


# --- Names and lines ---------------------------------------------------------------------------


def equations(closed):
    for eqn in closed.jaxpr.eqns:
        yield eqn
        for _, inner in _jax.sub_jaxprs(eqn):
            yield from equations(_jax.close(inner))


def test_batches_and_loops_keep_names_and_lines():
    n = 200
    y, rho = at.dvector("y"), at.dscalar("rho")
    h, terms = at.as_tensor(0.5), []
    for i in range(n):
        h = at.tanh(rho * h + y[i])
        h.name = f"h{i}"
        terms.append(at.exp(-h))
        terms[-1].name = f"term{i}"
    total = sum(terms)
    total.name = "total"
    closed = jaxprgen.compile([y, rho], [total, *terms[:2]]).jaxpr(np.ones(n), 0.5)
    found = [
        (_jax.scope_of(eqn.source_info), _jax.frame_of(eqn.source_info), eqn.primitive.name)
        for eqn in equations(closed)
    ]
    assert {frame.file for _, frame, _ in found} == {__file__}
    texts = {primitive: (name, frame.text) for name, frame, primitive in found}
    assert texts["exp"] == ("term0", "terms.append(at.exp(-h))")
    assert texts["reduce_sum"] == ("total", "total = sum(terms)")
    assert {frame.text for _, frame, p in found if p in ("scan", "tanh")} == {
        "h = at.tanh(rho * h + y[i])"
    }
    producers = {v: eqn for eqn in closed.jaxpr.eqns for v in eqn.outvars}
    made = [producers[v].source_info for v in closed.jaxpr.outvars]
    assert list(map(_jax.scope_of, made)) == ["total", "term0", "term1"]
