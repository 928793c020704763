"""Pipelines of passes: errors, records and observers."""

import io

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxprgen
from jaxprgen.errors import ArgumentTypeError
from jaxprgen.ir.programs import count_equations
from jaxprgen.passes import (
    DEFAULT,
    EliminateCommonSubexpressions,
    EliminateDeadCode,
    Pipeline,
    Stabilize,
)
from jaxprgen.passes.observers import Print, Time

x = np.linspace(0, 1, 3)
closed = jax.make_jaxpr(lambda x: jnp.cos(jnp.exp(jnp.tanh(jnp.sin(x) + jnp.sin(x)))))(x)


def untouched(closed):
    return closed


def test_one_record_per_pass():
    seen = []
    passes = (EliminateCommonSubexpressions(), untouched)
    found = Pipeline(passes, seen.append)(closed)
    first, second = seen
    assert (first.name, second.name) == ("EliminateCommonSubexpressions", "untouched")
    assert first.rewrite is passes[0] and first.before is closed and first.after is second.before
    assert second.before is second.after is found
    assert all(record.seconds >= 0 for record in seen)
    assert Pipeline(())(closed) is closed


def test_pipelines_are_passes():
    inner = Pipeline((EliminateDeadCode(), untouched))
    assert Pipeline((inner, inner))(closed) is closed
    assert hash(inner) == hash(Pipeline((EliminateDeadCode(), untouched)))
    np.testing.assert_array_equal(jaxprgen.transform(jnp.sin, inner)(x), jnp.sin(x))


def test_observing_the_passes_of_a_compiled_graph():
    import aesara.tensor as at

    times = Time()
    v = at.dvector("v")
    f = jaxprgen.compile([v], at.exp(v).sum(), passes=(Pipeline(DEFAULT, times),))
    assert f(x) == pytest.approx(np.exp(x).sum())
    assert list(times.seconds) == [type(p).__name__ for p in DEFAULT]
    rows = str(times).splitlines()
    assert len(rows) == len(DEFAULT) and all(row.endswith(" ms") for row in rows)


def test_print_writes_each_pass():
    printed = io.StringIO()
    Pipeline((EliminateCommonSubexpressions(), untouched), Print(printed))(closed)
    first, second = printed.getvalue().splitlines()
    assert first.startswith("EliminateCommonSubexpressions: 6 → 5 equations, ")
    assert second.startswith("untouched: 5 → 5 equations, ") and second.endswith(" ms")


def test_print_writes_to_standard_output_by_default(capsys):
    Pipeline((untouched,), Print())(closed)
    assert capsys.readouterr().out.startswith("untouched: 6 → 6 equations")


@pytest.mark.parametrize(
    ("passes", "message"),
    [
        (
            EliminateDeadCode(),
            "passes must be a sequence of passes, got EliminateDeadCode(). "
            "Put it in a tuple: (EliminateDeadCode(),).",
        ),
        (
            untouched,
            "passes must be a sequence of passes, got untouched. Put it in a tuple: (untouched,).",
        ),
        (1, "passes must be a sequence of passes, got 1."),
        (
            [Stabilize],
            "passes must contain instances of passes, got the class Stabilize. "
            "Write Stabilize() instead.",
        ),
        ("Stabilize", "passes must contain functions of a program, got 'S'."),
    ],
)
def test_passes_must_be_a_sequence_of_passes(passes, message):
    import aesara.tensor as at

    v = at.dvector("v")
    for made in (
        lambda: Pipeline(passes),
        lambda: jaxprgen.compile([v], at.exp(v), passes=passes),
        lambda: jaxprgen.function([v], at.exp(v), passes=passes),
        lambda: jaxprgen.JaxprLinker(passes=passes),
    ):
        with pytest.raises(ArgumentTypeError) as error:
            made()
        assert str(error.value) == message


def test_transform_rejects_what_is_not_a_pass():
    with pytest.raises(ArgumentTypeError, match="got the class Stabilize"):
        jaxprgen.transform(jnp.sin, Stabilize)


def test_equations_inside_loops_are_counted():
    program = jax.make_jaxpr(lambda x: jax.lax.scan(lambda c, r: (c * r + 1, None), 0.0, x))(x)
    (loop,) = (e for e in program.jaxpr.eqns if e.primitive.name == "scan")
    inside = len(loop.params["jaxpr"].eqns)
    assert inside > 1 and count_equations(program) == len(program.jaxpr.eqns) + inside
