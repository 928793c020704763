"""Passes one after the other, and what observers see."""

import io

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxprgen
from jaxprgen.errors import PassError
from jaxprgen.ir.programs import count_equations
from jaxprgen.passes import (
    DEFAULT,
    EliminateCommonSubexpressions,
    EliminateDeadCode,
    Pipeline,
)
from jaxprgen.passes.observers import Diff, Print, Time, Verify, every

x = np.linspace(0, 1, 3)
closed = jax.make_jaxpr(lambda x: jnp.cos(jnp.exp(jnp.tanh(jnp.sin(x) + jnp.sin(x)))))(x)


def untouched(closed):
    return closed


def test_records():
    seen = []
    passes = (EliminateCommonSubexpressions(), untouched)
    found = Pipeline(passes, seen.append)(closed)
    first, second = seen
    assert (first.name, second.name) == ("EliminateCommonSubexpressions", "untouched")
    assert first.rewrite is passes[0] and first.before is closed and first.after is second.before
    assert second.before is second.after is found
    assert all(record.seconds >= 0 for record in seen)
    assert Pipeline(())(closed) is closed


def test_as_a_pass_and_within_another():
    inner = Pipeline((EliminateDeadCode(), untouched))
    assert Pipeline((inner, inner))(closed) is closed
    assert hash(inner) == hash(Pipeline((EliminateDeadCode(), untouched)))
    np.testing.assert_array_equal(jaxprgen.transform(jnp.sin, inner)(x), jnp.sin(x))


def test_of_a_compiled_graph():
    import aesara.tensor as at

    times = Time()
    v = at.dvector("v")
    f = jaxprgen.compile([v], at.exp(v).sum(), passes=(Pipeline(DEFAULT, times),))
    assert f(x) == pytest.approx(np.exp(x).sum())
    assert list(times.seconds) == [type(p).__name__ for p in DEFAULT]
    rows = str(times).splitlines()
    assert len(rows) == len(DEFAULT) and all(row.endswith(" ms") for row in rows)


def test_print_and_diff():
    printed, text = io.StringIO(), io.StringIO()
    observer = every(Print(printed), Diff(text))
    Pipeline((EliminateCommonSubexpressions(), untouched), observer)(closed)
    first, second = printed.getvalue().splitlines()
    assert first.startswith("EliminateCommonSubexpressions: 6 → 5 equations, ")
    assert second.startswith("untouched: 5 → 5 equations, ") and second.endswith(" ms")
    assert text.getvalue() == (
        "--- before\n"
        "+++ after EliminateCommonSubexpressions\n"
        "@@ -1,7 +1,6 @@\n"
        " { lambda ; a:f64[3]. let\n"
        "     b:f64[3] = sin a\n"
        "-    c:f64[3] = sin a\n"
        "-    d:f64[3] = add b c\n"
        "+    d:f64[3] = add b b\n"
        "     e:f64[3] = tanh d\n"
        "     f:f64[3] = exp e\n"
        "     g:f64[3] = cos f\n"
    )


def test_standard_output_is_the_default(capsys):
    Pipeline((untouched,), every(Print(), Diff()))(closed)
    assert capsys.readouterr().out.startswith("untouched: 6 → 6 equations")


def ill_typed(closed):
    jaxpr = closed.jaxpr
    wrong = jaxpr.eqns[0].replace(primitive=jaxprgen._jax.primitive("is_finite"))
    return type(closed)(jaxpr.replace(eqns=[wrong, *jaxpr.eqns[1:]]), closed.consts)


def one_result_less(closed):
    return type(closed)(closed.jaxpr.replace(outvars=[]), closed.consts)


def test_verify_names_the_pass():
    good = Pipeline((EliminateCommonSubexpressions(),), Verify())
    assert count_equations(good(closed)) == 5
    with pytest.raises(PassError) as error:
        Pipeline((untouched, ill_typed), Verify())(closed)
    first, *_, last = str(error.value).splitlines()
    assert first.startswith("<function ill_typed at ")
    assert first.endswith("> gave a program that JAX refuses.")
    assert last == "A pass keeps to the program's meaning: leave this one out, or correct it."
    with pytest.raises(PassError) as error:
        Pipeline((one_result_less,), Verify())(closed)
    first, second, last = str(error.value).splitlines()
    assert first.endswith("> changed the types of the program's results.")
    assert second == "They were float64[3], and are nothing."
    assert last == "A pass keeps to the program's meaning: leave this one out, or correct it."


def test_equations_inside_are_counted():
    program = jax.make_jaxpr(lambda x: jax.lax.scan(lambda c, r: (c * r + 1, None), 0.0, x))(x)
    (loop,) = (e for e in program.jaxpr.eqns if e.primitive.name == "scan")
    inside = len(loop.params["jaxpr"].eqns)
    assert inside > 1 and count_equations(program) == len(program.jaxpr.eqns) + inside
