"""Pipelines of passes: errors, records and observers."""

import io

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxprgen
from jaxprgen.errors import ArgumentTypeError, PassError
from jaxprgen.ir.programs import count_equations
from jaxprgen.passes import (
    DEFAULT,
    EliminateCommonSubexpressions,
    EliminateDeadCode,
    Pipeline,
    Stabilize,
)
from jaxprgen.passes.observers import Diff, Print, Time, Verify, every

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


def test_print_and_diff_write_each_pass():
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


def test_observers_print_to_standard_output_by_default(capsys):
    Pipeline((untouched,), every(Print(), Diff()))(closed)
    assert capsys.readouterr().out.startswith("untouched: 6 → 6 equations")


def ill_typed(closed):
    jaxpr = closed.jaxpr
    wrong = jaxpr.eqns[0].replace(primitive=jaxprgen._jax.primitive("is_finite"))
    return type(closed)(jaxpr.replace(eqns=[wrong, *jaxpr.eqns[1:]]), closed.consts)


def one_result_less(closed):
    return type(closed)(closed.jaxpr.replace(outvars=[]), closed.consts)


def single_precision(closed):
    return jax.make_jaxpr(lambda x: jnp.float32(x))(*closed.in_avals)


def nothing(closed):
    pass


def test_verify_reports_the_pass_that_returns_an_ill_typed_program():
    good = Pipeline((EliminateCommonSubexpressions(),), Verify())
    assert count_equations(good(closed)) == 5
    with pytest.raises(PassError) as error:
        Pipeline((untouched, ill_typed), Verify())(closed)
    first, *_, last = str(error.value).splitlines()
    assert first == "The pass ill_typed returned a program that JAX rejects."
    assert last == "Correct the pass, or leave it out."


def applied_by_a_pipeline(*passes):
    return Pipeline(passes)(jax.make_jaxpr(lambda x: jnp.cos(jnp.sin(x)))(x))


def applied_by_transform(*passes):
    return jaxprgen.transform(lambda x: jnp.cos(jnp.sin(x)), *passes)(x)


def applied_by_compile(*passes):
    import aesara.tensor as at

    v = at.dvector("v")
    return jaxprgen.compile([v], at.cos(at.sin(v)), passes=passes)(x)


applications = [applied_by_a_pipeline, applied_by_transform, applied_by_compile]


@pytest.mark.parametrize("applied", applications)
@pytest.mark.parametrize(
    ("rewrite", "lines"),
    [
        (
            one_result_less,
            [
                "The pass one_result_less changed the types of the program's results.",
                "Before: float64[3]. After: none.",
                "A pass must keep these types: correct the pass, or leave it out.",
            ],
        ),
        (
            single_precision,
            [
                "The pass single_precision changed the types of the program's results.",
                "Before: float64[3]. After: float32[3].",
                "A pass must keep these types: correct the pass, or leave it out.",
            ],
        ),
        (
            nothing,
            [
                "The pass nothing returned NoneType instead of a program.",
                "A pass must return a ClosedJaxpr: the given one if it changes nothing.",
            ],
        ),
        (
            lambda closed: "text",
            [
                "The pass <lambda> returned str instead of a program.",
                "A pass must return a ClosedJaxpr: the given one if it changes nothing.",
            ],
        ),
    ],
)
def test_a_pass_must_return_a_program_of_the_same_type(applied, rewrite, lines):
    with pytest.raises(PassError) as error:
        applied(EliminateDeadCode(), rewrite)
    assert str(error.value).splitlines() == lines


def reads_unbound(closed):
    return type(closed)(closed.jaxpr.replace(eqns=closed.jaxpr.eqns[1:]), closed.consts)


def returns_unbound(closed):
    return type(closed)(closed.jaxpr.replace(eqns=[]), closed.consts)


def failing(closed):
    return {}["c"]


@pytest.mark.parametrize("applied", applications)
@pytest.mark.parametrize(
    ("rewrite", "first", "detail"),
    [
        (
            reads_unbound,
            "The pass reads_unbound returned a program that is ill-formed.",
            "cos reads a variable that is not bound before it: ",
        ),
        (
            returns_unbound,
            "The pass returns_unbound returned a program that is ill-formed.",
            "The program returns a variable that it does not bind.",
        ),
        (ill_typed, "The pass ill_typed returned a program that JAX rejects.", "is_finite"),
        (failing, "The pass failing failed: KeyError: 'c'", ""),
    ],
)
def test_a_pass_of_ones_own_is_verified(applied, rewrite, first, detail):
    """Without an observer, and in a pipeline inside another one, too."""
    with pytest.raises(PassError) as error:
        applied(EliminateDeadCode(), Pipeline((untouched, rewrite)))
    lines = str(error.value).splitlines()
    assert lines[0] == first and lines[-1] == "Correct the pass, or leave it out."
    assert detail in str(error.value)


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
