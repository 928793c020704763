"""Run-time checks: what is said of those left out, and what is raised by those that fail."""

import pickle
import warnings
from pathlib import Path

import aesara
import aesara.ifelse
import aesara.tensor as at
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from aesara.graph.basic import Apply
from aesara.graph.op import Op
from aesara.raise_op import Assert, CheckAndRaise
from aesara.tensor import nlinalg, slinalg
from jax.experimental import checkify

import jaxprgen
from jaxprgen import errors
from jaxprgen.emit.staged import staged
from tests.laws import assert_same, reference

x, m, s = at.dvector("x"), at.dmatrix("m"), at.dscalar("s")
i, n, mask = at.lvector("i"), at.lscalar("n"), at.bvector("mask")
ONES = np.ones(3)
FILE = Path(__file__).name


class OutsideError(ValueError):
    """An exception of a user's own."""


class StrictError(KeyError):
    """Another one, whose text Python writes in another way."""


def truths(*values):
    return np.array(values, np.int8)


def row_of_a_loop(count):
    steps, _ = aesara.scan(lambda v: v * 2, outputs_info=[s], n_steps=count)
    return steps[2]


# The inputs and the output; arguments that pass and that fail; how the error's message begins, and
# the warning's text.
CHECKS = {
    "an index": (
        ([x, n], x[n] * 2),
        ((ONES, 2), (ONES, -4)),
        "Index -4 is out of bounds for axis 0 of size 3.",
        "whether every index is within axis 0 of size 3.",
    ),
    "indices": (
        ([m, i], m[:, i] * 2),
        ((np.ones((2, 3)), np.array([0, -3])), (np.ones((2, 3)), np.array([0, 3, 7]))),
        "Index 3 is out of bounds for axis 1 of size 3.",
        "whether every index is within axis 1 of size 3.",
    ),
    "indices to write at": (
        ([x, i], at.inc_subtensor(x[i], 1.0)),
        ((ONES, np.array([0, 0])), (ONES, np.array([0, 9]))),
        "Index 9 is out of bounds for axis 0 of size 3.",
        "whether every index is within axis 0 of size 3.",
    ),
    "an assertion": (
        ([x, s], Assert("s is positive")(x, s > 0)),
        ((ONES, 1.0), (ONES, -1.0)),
        "s is positive. The condition is false.",
        "whether the condition of Assert{msg=s is positive} is true.",
    ),
    "an exception of one's own": (
        ([x, s], CheckAndRaise(OutsideError, "s > 0")(x, s > 0, s < 9)),
        ((ONES, 1.0), (ONES, 10.0)),
        "s > 0. The condition is false.",
        "OutsideError, and this program goes on.",
    ),
    "an exception that quotes its text": (
        ([x, s], CheckAndRaise(StrictError, "s > 0")(x, s > 0)),
        ((ONES, 1.0), (ONES, -1.0)),
        "s > 0. The condition is false.",
        "StrictError, and this program goes on.",
    ),
    "a count": (
        ([x, mask], at.set_subtensor(x[mask.astype("bool")], np.array([1.0, 2.0]))),
        ((ONES, truths(1, 0, 1)), (ONES, truths(1, 1, 1))),
        "There are 2 values to write where ",
        "has 2 true elements, as many as there are values to write.",
    ),
    "an extremum": (
        ([x, mask], x[mask.astype("bool")].max()),
        ((ONES, truths(1, 0, 1)), (ONES, truths(0, 0, 0))),
        "A mask selects no element, and none is an extremum.",
        "whether a mask selects any element to take an extremum of.",
    ),
    "a choice": (
        ([i, x], at.choose(i, [x, 2 * x])),
        ((np.array([0, 1, 1]), ONES), (np.array([0, 2, 1]), ONES)),
        "There are 2 arrays to choose from, and none has the number 2.",
        "whether all numbers are below 2,",
    ),
    "a position": (
        ([i], at.unravel_index(i, (2, 3))[1]),
        ((np.array([0, 5]),), (np.array([0, 6]),)),
        "Position 6 is out of bounds.",
        "whether positions are within bounds.",
    ),
    "an index of two": (
        ([i], at.ravel_multi_index((i, i), (3, 2))),
        ((np.array([0, 1]),), (np.array([0, 2]),)),
        "Index 2 is out of bounds for axis 1.",
        "whether every index is within axis 0.",
    ),
    "a factorization": (
        ([m], slinalg.cholesky(m)),
        ((np.eye(2),), (-np.eye(2),)),
        "The matrix is not positive definite.",
        "whether the matrix is positive definite.",
    ),
    "an inverse": (
        ([m], nlinalg.matrix_inverse(m)),
        ((np.eye(2),), (np.zeros((2, 2)),)),
        "The matrix is singular.",
        None,  # The result shows it.
    ),
    "a step of a loop": (
        ([x, i], aesara.scan(lambda k, v: v[k], sequences=[i], non_sequences=[x])[0]),
        ((ONES, np.array([0, 1])), (ONES, np.array([1, 5]))),
        "Index 5 is out of bounds for axis 0 of size 3.",
        "whether every index is within axis 0 of size 3.",
    ),
    "a branch": (
        ([x, n], aesara.ifelse.ifelse(n > 1, x[n], x[0])),
        ((ONES, 0), (ONES, 4)),
        "Index 4 is out of bounds for axis 0 of size 3.",
        "whether every index is within axis 0 of size 3.",
    ),
}


@pytest.mark.parametrize("name", CHECKS)
def test_a_check_says_that_it_is_left_out_or_raises_what_aesara_raises(name):
    (inputs, output), (good, bad), message, unchecked = CHECKS[name]
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        plain = jaxprgen.compile(inputs, output)
        expected = plain(*good)
        plain(*bad)  # Nothing is raised.
    said = [str(w.message) for w in caught]
    assert all(text.startswith("Not checked: whether ") for text in said)
    assert all("Nothing has failed" in text and "checks=True" in text for text in said)
    assert any(unchecked in text for text in said) if unchecked else said == []

    with pytest.raises(Exception) as theirs:
        reference(inputs, [output], bad)
    f = jaxprgen.compile(inputs, output, checks=True)
    linked = aesara.function(inputs, output, mode="JAXPR")
    for run in (f, linked):
        assert_same(run(*good), expected)
        with pytest.raises(errors.JaxprGenError) as ours:
            run(*bad)
        assert isinstance(ours.value, type(theirs.value))
        assert str(ours.value).startswith(message)
        assert FILE in str(ours.value)
        assert_same(run(*good), expected)
    jitted = jax.jit(f)
    for run in (checkify.checkify(f), jax.jit(checkify.checkify(f)), checkify.checkify(jitted)):
        error, found = run(*good)
        assert error.get() is None
        assert_same(found, expected)
        assert run(*bad)[0].get() == f"{type(ours.value).__name__}: {ours.value}"


def test_a_message_in_full():
    f = jaxprgen.compile([x, n], x[n], checks=True)
    with pytest.raises(errors.IndexOutOfBoundsError) as caught:
        f(ONES, 7)
    *rows, line = str(caught.value).splitlines()
    assert rows == [
        "Index 7 is out of bounds for axis 0 of size 3.",
        "  in Subtensor{int64}(x, n)",
        "    x: float64[3]",
        "    n: int64[]",
    ]
    assert line.startswith("  built at ")
    assert line.endswith("f = jaxprgen.compile([x, n], x[n], checks=True)")


def test_the_first_check_that_fails_is_raised():
    positive = Assert("s is positive")(x, s > 0)
    outputs = [positive * 2, x[n]]
    for given in (outputs, outputs[::-1]):
        f = jaxprgen.compile([x, s, n], given, checks=True)
        with pytest.raises(AssertionError):
            f(ONES, -1.0, 0)
        with pytest.raises(IndexError):
            f(ONES, 1.0, 3)
    with pytest.raises(AssertionError):
        jaxprgen.compile([x, s, n], outputs, checks=True)(ONES, -1.0, 3)


def test_parameters_of_draws():
    f = jaxprgen.compile([x], at.random.RandomStream().normal(0.0, x), checks=True)
    with pytest.raises(errors.ParameterError) as caught:
        f(jax.random.key(0), np.array([1.0, -2.0, -3.0]))
    assert str(caught.value).startswith("normal: scale >= 0 must hold, got scale = -2.0.\n")


def test_a_program_without_checks_is_an_ordinary_one():
    f = jaxprgen.compile([x], at.exp(x), checks=True)
    plain = jaxprgen.compile([x], at.exp(x))
    assert f.lower(ONES).as_text() == plain.lower(ONES).as_text()
    assert_same(jax.jit(f)(ONES), np.exp(ONES))


def test_a_checked_program_is_lowered_as_it_is_called():
    f = jaxprgen.compile([x, n], x[n], checks=True)
    f.lower(ONES, 1).compile()
    with jax.log_compiles():
        assert f(ONES, 1) == 1


def test_the_text_of_a_program_depends_on_its_graph_alone():
    def text():
        shown = CheckAndRaise(OutsideError, "s > 0")(x[n] + x[n + 1], s > 0)
        f = jaxprgen.compile([x, n, s], shown, checks=True)
        return f.lower(ONES, 1, 1.0).as_text()

    before = text()
    jaxprgen.compile([x, n], x[n], checks=True)(ONES, 0)
    assert text() == before


def test_shared_variables_and_large_constants():
    table, rows = aesara.shared(np.arange(3.0), name="table"), at.constant(np.arange(4000.0))
    f = jaxprgen.compile([n], table[n] + rows[n], checks=True)
    assert f(2) == 4
    with pytest.raises(errors.IndexOutOfBoundsError, match="Index 3 is out of bounds"):
        f(3)
    table.set_value(np.arange(10.0))
    assert f(3) == 6


def test_steps_of_a_loop_are_checked_after_it():
    """So passes rearrange the loop as if nothing was checked; here they remove it."""
    rows, _ = aesara.scan(lambda k, v: at.exp(v[k]), sequences=[i], non_sequences=[x])
    inner, _ = aesara.scan(
        lambda k, v: aesara.scan(lambda j, w: w[j], sequences=[k], non_sequences=[v])[0],
        sequences=[at.stack([i, i + 1])],
        non_sequences=[x],
    )
    for output in (rows, inner):
        f = jaxprgen.compile([x, i], output, checks=True)
        names = [e.primitive.name for e in f.jaxpr(ONES, np.array([0, 1])).jaxpr.eqns]
        assert "scan" not in names
        assert names.count("check") == 1
        with pytest.raises(errors.IndexOutOfBoundsError, match="Index 3 is out of bounds"):
            f(ONES, np.array([0, 1, 3, 5]))
        good = ONES, np.array([0, 1])
        assert_same(f(*good), reference([x, i], [output], good)[0])


def test_a_loop_without_steps_checks_nothing():
    rows, _ = aesara.scan(lambda k, v: v[k], sequences=[i], non_sequences=[x])
    f = jaxprgen.compile([x, i], rows, checks=True)
    assert f(ONES, np.zeros(0, int)).shape == (0,)


def test_arguments_that_decide_a_shape():
    f = jaxprgen.compile([x, n, i], x[:n][i], checks=True)
    assert_same(f(ONES, 2, np.array([1])), np.ones(1))
    with pytest.raises(IndexError, match="of size 2"):
        f(ONES, 2, np.array([2]))


def test_a_call_inside_a_function_that_jax_traces_is_for_checkify():
    f = jaxprgen.compile([x, n], x[n], checks=True)
    error, _ = checkify.checkify(jax.jit(lambda: f(ONES, 7)))()
    assert "Index 7 is out of bounds" in error.get()
    for transformed in (jax.vmap(f, (None, 0)), jax.vmap(jax.grad(f), (None, 0))):
        error, _ = checkify.checkify(transformed)(ONES, np.array([0, 7, 1]))
        assert "Index 7 is out of bounds" in error.get()


def test_a_transformation_without_checkify_is_refused():
    f = jaxprgen.compile([x, n], x[n], checks=True)
    for transformed in (
        jax.grad(f),
        jax.jit(f),
        jax.jit(jax.grad(f)),
        lambda v, at: jax.jvp(lambda v: f(v, at), (v,), (v,)),
        lambda v, at: jax.vmap(f, (0, None))(v[None], at),
        lambda v, at: jax.lax.map(lambda row: f(row, at), v[None]),
    ):
        with pytest.raises(errors.UncollectedCheckError) as caught:
            transformed(ONES, 1)
        problem, remedy, node, *_, line = str(caught.value).splitlines()
        assert "cannot raise inside jax.jit, jax.grad, jax.vmap or another" in problem
        assert "checkify.checkify(jax.grad(f))(...), then error.throw()" in remedy
        assert node.startswith("  in Subtensor{int64}(x, n)")
        assert line.endswith("f = jaxprgen.compile([x, n], x[n], checks=True)")


def test_finding_nans_goes_on():
    f = jaxprgen.compile([x, n], at.log(x[n]), checks=True)
    with jax.debug_nans(True), pytest.raises(FloatingPointError):
        f(-ONES, 0)
    with jax.disable_jit():
        assert f(ONES, 0) == 0
        with pytest.raises(IndexError, match="Index 3 is out"):
            f(ONES, 3)


def test_a_check_in_a_jax_function_that_a_rule_traces():
    class Root(Op):
        def make_node(self, v):
            return Apply(self, [v], [v.type()])

        perform = None

    def root(v):
        checkify.check(v >= 0, "no root of {v}", v=v)
        return jnp.sqrt(v)

    @jaxprgen.lowers(Root)
    def lower_root(ctx, v):
        return staged(root, v)

    f = jaxprgen.compile([s], Root()(s))
    assert f(4.0) == 2
    with pytest.raises(errors.FailedAssertionError, match=r"no root of -4\.0"):
        f(-4.0)


def test_errors_of_ones_own_classes_can_be_pickled():
    f = jaxprgen.compile([s], CheckAndRaise(OutsideError, "s > 0")(s, s > 0), checks=True)
    with pytest.raises(OutsideError) as caught:
        f(-1.0)
    again = pickle.loads(pickle.dumps(caught.value))
    assert type(again) is type(caught.value)
    assert str(again) == str(caught.value)
    assert isinstance(again, errors.ParameterError)


# --- Mode "JAXPR" -------------------------------------------------------------------------


def test_in_aesaras_mode_only_direct_calls_are_checked():
    f = aesara.function([x, n], x[n], mode="JAXPR")
    with pytest.raises(IndexError):
        f(ONES, 7)
    with pytest.warns(errors.RuntimeCheckWarning, match="Not checked"):
        assert jax.jit(f)(jnp.asarray(ONES), 7) == 1
    assert jax.jit(lambda: f(jnp.asarray(ONES), 7))() == 1
    assert f.pure({}, ONES, 7)[0] == 1
    with pytest.raises(IndexError):
        f(ONES, 7)


def test_an_option_of_the_linker_turns_checks_off():
    mode = jaxprgen.JaxprMode(jaxprgen.JaxprLinker(checks=False), None)
    f = aesara.function([x, n], x[n], mode=mode)
    with pytest.warns(errors.RuntimeCheckWarning, match="Not checked"):
        assert f(ONES, 7) == 1


def test_nothing_is_checked_of_empty_arrays():
    none = np.zeros(0)
    steps, _ = aesara.scan(lambda v: at.log(Assert("positive")(v, v > 0)), sequences=[x])
    for outputs in (at.random.poisson(x), at.random.normal(0.0, x), steps, x[at.arange(x.size)]):
        assert_same(aesara.function([x], outputs.sum(), mode="JAXPR")(none) * 1.0, np.array(0.0))
