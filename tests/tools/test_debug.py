"""The debugger: its results, findings, watches and breakpoints."""

import inspect
import runpy
import sys
from pathlib import Path

import aesara
import aesara.tensor as at
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from aesara.graph.basic import Apply, applys_between
from aesara.graph.op import Op
from aesara.raise_op import Assert
from aesara.tensor.subtensor import inc_subtensor, set_subtensor
from catalogue.growing import Graph
from hypothesis import HealthCheck, given, strategies as st
from laws import assert_same
from messages import built, line_of, lines as message
from profiles import examples

import jaxprgen
from jaxprgen import errors
from jaxprgen.emit import elementwise as ew
from jaxprgen.emit.control import while_loop
from jaxprgen.lowering import registry
from jaxprgen.lowering.registry import lowers
from jaxprgen.tools.debugging import debug
from jaxprgen.tools.debugging.faults import out_of_bounds

ROOT = Path(__file__).parents[2]
ONES = np.ones(3)
COLLECT = (
    "To collect all findings instead of stopping at the first, use jaxprgen.debug(f, stop=False); "
    "`find` selects their kinds."
)
IN_DOMAIN = "Keep the operands within the domain of the operation."
FINITE = "Keep the operands where the result is finite."
IN_AXIS = "Correct the index: JAX would silently clip it, or drop the element."

x = at.dvector("x")
m = at.dmatrix("m")
z = at.zvector("z")
n = at.lscalar("n")


def found(f, *args, **options):
    """All findings, as pairs of kind and name."""
    debugger = debug(f, stop=False, **options)
    debugger(*args)
    return [(finding.kind, finding.variable) for finding in debugger.findings]


def named(variable, name):
    variable.name = name
    return variable


# --- The law ------------------------------------------------------------------------------


@examples(0.3, quick=0.2, suppress_health_check=list(HealthCheck))
@given(st.sampled_from(range(6)))
def test_results_equal_those_of_the_function(seed):
    graph = Graph(seed, 12)
    f = jaxprgen.compile(graph.inputs, [x.variable for x in graph.ends])
    outputs = f(*graph.args)
    seen = debug(f, stop=False)(*graph.args)
    assert type(seen) is type(outputs)
    # XLA fuses and reorders the equations of one program.
    jax.tree.map(lambda ours, theirs: assert_same(ours, theirs, rtol=1e-6), seen, outputs)


def test_results_of_an_example_equal_those_of_the_function():
    example = runpy.run_path(str(ROOT / "examples" / "model.py"))
    f = jaxprgen.compile(*example["graph"])
    features, labels = example["load_data"]()
    args = np.linspace(-1, 1, 1 + features.shape[1]), features, labels, 0.5
    for ours, theirs in zip(debug(f)(*args), f(*args), strict=True):
        assert_same(ours, theirs)


@pytest.mark.parametrize("dtype", ["float64", "int64", "bool", "complex128"])
def test_outputs_are_arrays_of_the_declared_dtypes(dtype):
    v = at.vector("v", dtype=dtype)
    f = jaxprgen.compile([v], [v, v[::-1], at.zeros_like(v), at.constant(2.5)])
    value = np.array([1, 0, 1], dtype)
    for ours, theirs in zip(debug(f)(value), f(value), strict=True):
        assert isinstance(ours, jax.Array)
        assert_same(ours, theirs)


def test_the_debugger_follows_jax_enable_x64():
    home = jax if hasattr(jax, "enable_x64") else jax.experimental
    w = aesara.shared(np.array([1.0, 2.0, 4.0]), "w")
    f = jaxprgen.compile([x], at.exp(x) * w)
    with home.enable_x64(False), pytest.warns(errors.PrecisionWarning):
        assert_same(debug(f)(ONES), f(ONES))


# --- NaN and infinities -------------------------------------------------------------------


def test_the_origin_of_a_nan_in_a_large_model_is_found():
    names = [f"layer{i}" for i in range(10)]
    h = x
    for name in names[:5]:
        h = named(at.tanh(h * 0.5 + x) * at.sigmoid(h) + 1.25, name)
    shifted = named(h - 1, "shifted")
    eta = named(at.log(shifted), "eta")
    out = eta
    for name in names[5:]:
        out = named(at.exp(-at.square(out)) + at.cos(out) / 2, name)
    output = out.sum()
    assert len(list(applys_between([x], [output]))) >= 60
    f = jaxprgen.compile([x], output)
    assert_same(debug(f)(np.array([0.5, 1.0, 2.0])), f(np.array([0.5, 1.0, 2.0])))
    value = np.array([0.5, -3.0, 1.0])
    (shifted_at,) = (v for v in debug(f, stop=False).steps(value) if v.name == "shifted")
    assert message(errors.NonFiniteValueError, debug(f), value, also=FloatingPointError) == [
        "NaN in 'eta': 1 of 3 elements, the first at [1].",
        "  in Elemwise{log,no_inplace}",
        f"    shifted: float64[3] = {shifted_at.value.tolist()}",
        "  as eta:f64[3] = log shifted",
        "  " + built("eta = named(at.log"),
        IN_DOMAIN,
        COLLECT,
    ]
    assert found(f, value) == [("nan", "eta")]  # Later NaNs only follow from it.


def test_an_infinity_is_found_with_the_element_it_comes_from():
    rate = named(1 / x, "rate")
    f = jaxprgen.compile([x], at.exp(rate).sum())
    value = np.array([1.0, -2.0, 4.0, 0.0, 0.5])
    assert message(errors.NonFiniteValueError, debug(f), value) == [
        "Infinity in 'rate': 1 of 5 elements, the first at [3].",
        f"  in {rate.owner.op}",
        "    x: float64[5], -2.0 to 4.0; 0.0 at [3]",
        "  as rate:f64[5] = div 1.0 x",
        "  " + built("rate = named"),
        FINITE,
        COLLECT,
    ]


def test_operands_of_another_shape_are_summarized():
    product = named(at.dot(m, x), "product")
    f = jaxprgen.compile([m, x], product)
    value = np.array([1.0, 2.0, np.inf, 3.0, 4.0])
    text = message(errors.NonFiniteValueError, debug(f), np.eye(5)[1:3], value)
    assert text[0] == "NaN in 'product': 1 of 2 elements, the first at [0]."
    assert text[2:4] == [
        "    m: float64[2, 5], 0.0 to 1.0",
        "    x: float64[5], 1.0 to 4.0, 1 infinity",
    ]


def test_all_origins_are_listed_in_order():
    root = named(at.sqrt(x), "root")
    inverse = named(1 / (x + 1), "inverse")
    big = named(at.exp(1000 * x), "big")
    difference = named(big - big, "difference")
    f = jaxprgen.compile([x], [root * 2, inverse, difference])
    value = np.array([-1.0, 1.0, 0.0])
    names = [("nan", "root"), ("inf", "inverse"), ("inf", "big"), ("nan", "difference")]
    debugger = debug(f, stop=False)
    debugger(value)
    findings = {v.variable: v for v in debugger.findings}
    assert sorted((v.kind, v.variable) for v in debugger.findings) == sorted(names)
    assert list(findings).index("big") < list(findings).index("difference")
    assert sorted(found(f, value, find="inf")) == [("inf", "big"), ("inf", "inverse")]
    assert found(f, value, find=[]) == []
    wrong = findings["root"]
    assert (wrong.op, wrong.position) == ("Elemwise{sqrt,no_inplace}", (0,))
    assert (wrong.operands[0].name, wrong.operands[0].value.tolist()) == ("x", value.tolist())
    assert wrong.frame.file == __file__
    debugger(np.array([0.25, 0.5, 0.5]))
    assert debugger.findings == ()  # The last call has none.


def test_the_finding_that_stops_the_debugger_is_kept():
    debugger = debug(jaxprgen.compile([x], at.log(x)))
    with pytest.raises(errors.NonFiniteValueError):
        debugger(-ONES)
    (finding,) = debugger.findings
    assert finding.operands[0].value.tolist() == [-1.0, -1.0, -1.0]


def _listed(f, *args):
    debugger = debug(f, stop=False)
    debugger(*args)
    return debugger.findings


def test_nan_in_arguments_shared_variables_and_constants_is_found_first():
    w = aesara.shared(np.array([1.0, np.nan]), "w")
    c = at.constant(np.array([np.nan, 1.0]), "c")
    d = at.constant(np.nan, "d")
    m = at.dmatrix("m")  # Here.
    f = jaxprgen.compile([m], at.log(m) * w + c * 2 + d)
    value = np.array([[1.0, np.nan], [2.0, -1.0]])
    assert message(errors.NonFiniteValueError, debug(f), value) == [
        "NaN in 'm': 1 of 4 elements, the first at [0, 1].",
        "  given as argument",
        "    m: float64[2, 2] = [[1.0, nan], [2.0, -1.0]]",
        "  " + built('m = at.dmatrix("m")  # Here.'),
        "Pass an array without NaN. If its NaN are meant, use allow='m'.",
        COLLECT,
    ]
    assert message(errors.NonFiniteValueError, debug(f), np.ones((2, 2)))[:3] == [
        "NaN in 'w': 1 of 2 elements, the first at [1].",
        "  given as constant",
        "    w: float64[2] = [1.0, nan]",
    ]
    kinds = found(f, value)
    assert kinds[0] == ("nan", "m")
    assert {name for _, name in kinds} == {"m", "w", "c", "d"}
    w.set_value(np.array([1.0, 2.0]))
    assert "w" not in {name for _, name in found(f, value)}


def test_infinite_arguments_and_constants_are_accepted():
    f = jaxprgen.compile([x], at.max(at.switch(x > 0, x, -np.inf)) + at.constant(np.inf))
    assert found(f, ONES) == []
    assert found(f, np.array([np.inf, 1.0, -1.0])) == []


def test_folded_nodes_are_checked():
    one = at.constant(np.array(-1.0), "one")
    bad = named(at.log(one), "bad")
    f = jaxprgen.compile([x], bad * x)
    assert message(errors.NonFiniteValueError, debug(f), ONES) == [
        "NaN in 'bad'.",
        "  in Elemwise{log,no_inplace}",
        "    one: float64[] = -1.0",
        "  " + built("bad = named"),
        IN_DOMAIN,
        COLLECT,
    ]
    assert found(f, ONES) == [("nan", "bad")]
    k = at.dscalar("k")
    by_value = named(at.log(k), "by_value")  # Static, because a shape depends on it.
    g = jaxprgen.compile([k], at.arange(at.cast(at.switch(by_value < 0, 2, 3), "int64")))
    assert found(g, 0.0) == [("inf", "by_value")]


def test_a_nan_that_another_node_masks_is_found():
    f = jaxprgen.compile([x], at.switch(x > 0, at.log(x), 0.0))
    assert [what for what, _ in found(f, -ONES)] == ["nan"]


class Special(Op):
    """An Op of one operand, whose rule each test registers."""

    __props__ = ()

    def make_node(self, v):
        return Apply(self, [v], [v.type()])

    def perform(self, node, inputs, outputs):
        raise NotImplementedError


@pytest.fixture
def rules(monkeypatch):
    monkeypatch.setattr(registry, "_rules", registry._rules.copy())


@pytest.mark.usefixtures("rules")
def test_a_nan_that_its_own_node_masks_is_ignored():
    @lowers(Special)
    def lower(ctx, v):
        return ew.where(v > 0, ew.log(v), -np.inf)

    f = jaxprgen.compile([x], Special()(x) + 1)
    assert any(np.isnan(computed.value).any() for computed in debug(f, stop=False).steps(-ONES))
    assert found(f, -ONES, find=["nan"]) == []
    assert [what for what, _ in found(f, -ONES)] == ["inf"]


@pytest.mark.usefixtures("rules")
@pytest.mark.parametrize("literal", [np.nan, np.inf])
def test_a_literal_in_a_rule_can_be_the_origin(literal):
    @lowers(Special)
    def lower(ctx, v):
        return ew.where(v < 0, literal, v)

    f = jaxprgen.compile([x], named(Special()(x), "masked") + 1)
    assert found(f, ONES) == []
    (finding,) = _listed(f, -ONES)
    assert (finding.kind, finding.variable) == (str(literal), "masked")
    assert " = select_n " in finding.equation  # Not the broadcast of the literal.


def test_complex_numbers_and_integers():
    f = jaxprgen.compile([z], named(at.log(z - z), "logarithm"))
    assert found(f, np.ones(2, complex)) == [("inf", "logarithm")]
    assert found(jaxprgen.compile([z], z + 1), np.array([1j, complex(0, np.nan)])) == [("nan", "z")]
    v = at.lvector("v")
    assert found(jaxprgen.compile([v], v // 0 + v % 0), np.arange(3)) == []


def test_gradients_can_be_debugged():
    f = jaxprgen.compile([x], named(at.sqrt(x), "root").sum())
    assert found(f, np.zeros(3)) == []
    text = message(errors.NonFiniteValueError, debug(jax.grad(f)), np.zeros(3))
    assert text[0].startswith("Infinity in 'root.")
    assert text[-3] == "  " + built("f = jaxprgen.compile([x], named(at.sqrt")
    np.testing.assert_allclose(debug(jax.grad(f))(ONES), jax.grad(f)(ONES), rtol=1e-12)
    value, gradient = debug(jax.value_and_grad(f))(ONES)
    assert (value, gradient.shape) == (3, (3,))


# --- Indices and checks -------------------------------------------------------------------


@pytest.mark.parametrize("i", [3, 40, -4, -40])
def test_an_index_out_of_bounds_is_found(i):
    picked = named(x[n], "picked")
    f = jaxprgen.compile([x, n], picked * 2)
    for inside in (0, 2, -1, -3):
        assert debug(f)(np.arange(3.0), inside) == 2 * np.arange(3.0)[inside]
    *text, equation, line, hint, collect = message(
        errors.IndexOutOfBoundsError, debug(f), ONES, i, also=IndexError
    )
    assert equation.startswith("  as picked:f64[] = gather[")
    assert equation.endswith("] x picked.4")
    assert [*text, line, hint, collect] == [
        f"Index {i} is out of bounds for axis 0 of size 3, in 'picked'.",
        "  in Subtensor{int64}",
        "    x: float64[3] = [1.0, 1.0, 1.0]",
        f"    picked.4: int64[1] = [{i if i > 0 else i + 3}]",
        "  " + built("picked = named"),
        IN_AXIS,
        COLLECT,
    ]
    assert found(f, ONES, i, find=["nan", "inf"]) == []


@pytest.mark.parametrize("write", [set_subtensor, inc_subtensor])
def test_an_index_to_write_at_is_checked(write):
    f = jaxprgen.compile([m, n], write(m[1:, n], 1.0))
    assert found(f, np.ones((2, 3)), -3) == []
    for i in (3, -4):
        (finding,) = _listed(f, np.ones((2, 3)), i)
        assert finding.message.startswith(f"Index {i} is out of bounds for axis 1 of size 3")
        assert finding.op.startswith("IncSubtensor")


ROWS = np.array([[0, 1], [3, -5]])


@pytest.mark.parametrize(
    ("f", "index", "axis"),
    [
        (lambda a: a[ROWS], 3, 0),
        (lambda a: jnp.take(a, ROWS, axis=1, mode="fill", fill_value=0), -5, 1),
        (lambda a: jnp.take(a, ROWS - 1, axis=1, mode="clip"), -1, 1),
        (lambda a: a.at[ROWS].set(1.0), 3, 0),
        (lambda a: a.at[:, ROWS].add(1.0, mode="drop"), -5, 1),
        (lambda a: a.at[1:, ROWS - 3].mul(1.0, unique_indices=True), -8, 1),
        (lambda a: jax.lax.dynamic_update_slice(a, a[:1], (3, 0)), 3, 0),
        (lambda a: jax.vmap(lambda row, i: row[i])(a, jnp.array([0, 3, 4])), 4, 1),
    ],
)
def test_indices_of_gather_and_scatter_are_checked(f, index, axis):
    (finding,) = _listed(f, np.ones((3, 4)))
    size = (3, 4)[axis]
    assert f"Index {index} is out of bounds for axis {axis} of size {size}, in " in str(finding)


def test_gather_and_scatter_in_bounds_have_no_finding():
    def f(a):
        rows = jnp.array([0, 2, -3])
        picked = jax.vmap(lambda row, i: row[i])(a, jnp.array([0, 3, -4]))
        return a[rows], a.at[rows, 1:].add(1.0), jnp.take(a, abs(rows), axis=1, mode="clip"), picked

    assert _listed(f, np.ones((3, 4))) == ()


def test_a_window_out_of_bounds_is_reported_with_its_size():
    (finding,) = _listed(lambda a, i: jax.lax.dynamic_slice(a, (i, 0), (2, 4)), np.ones((3, 4)), 2)
    assert finding.message.startswith(
        "Index 2 of a window of 2 elements is out of bounds for axis 0 of size 3, in "
    )


def test_other_equations_have_no_indices():
    (eqn,) = jax.make_jaxpr(jnp.sin)(1.0).jaxpr.eqns
    assert out_of_bounds(eqn, [np.asarray(1.0)]) is None


def test_checks_are_evaluated():
    positive = Assert("x must be positive")(x, at.all(x > 0))
    f = jaxprgen.compile([x], positive * 2, checks=True)
    np.testing.assert_array_equal(debug(f)(ONES), 2 * ONES)
    text = message(errors.FailedAssertionError, debug(f), -ONES, also=AssertionError)
    assert text[:2] == [
        "x must be positive. The condition is false.",
        "  in Assert{msg=x must be positive}",
    ]
    assert text[-3:] == [
        "  " + built("positive = Assert"),
        "Pass arguments for which the check holds.",
        COLLECT,
    ]
    assert found(f, -ONES, find=["nan"]) == []


def test_a_checked_index_is_found_once():
    f = jaxprgen.compile([x, n], x[n], checks=True)
    assert [what for what, _ in found(f, ONES, 3)] == ["index"]
    assert [what for what, _ in found(f, ONES, 3, find=["check"])] == ["check"]


# --- Programs inside of equations ---------------------------------------------------------


def loop(v):
    return jax.lax.while_loop(lambda c: c[1] < 5, lambda c: (jnp.log(c[0]), c[1] + 1), (v, 0))[0]


def scan(v):
    return jax.lax.scan(lambda c, y: (c - 1.0, (jnp.log(c) * y, c)), 1.5, v)


def scan_backwards(v):
    return jax.lax.scan(lambda c, y: (c + y, c * y), 0.0, v, reverse=True)


def empty_scan(v):
    return jax.lax.scan(lambda c, y: (c + y, c * y), 0.0, v[:0])


def branch(v):
    return jax.lax.cond(v[0] > 0, jnp.log, lambda v: jnp.sqrt(v - 5), v)


@jax.custom_vjp
def own_gradient(v):
    return jnp.log(v)


own_gradient.defvjp(lambda v: (jnp.log(v), v), lambda v, g: (g / v,))


@pytest.mark.parametrize(
    "f",
    [
        loop,
        scan,
        scan_backwards,
        empty_scan,
        branch,
        own_gradient,
        jax.nn.relu,
        jax.jit(jnp.tanh),
        jax.checkpoint(jnp.cos),
        jax.grad(lambda v: scan(v)[1][1].sum()),
        jax.vmap(lambda v: jax.lax.while_loop(lambda c: c < 4, lambda c: c * 2, v)),
    ],
)
def test_inner_programs_give_the_results_of_jax(f):
    value = np.array([3.0, 2.0, 1.0])
    debugger = debug(f, stop=False)
    ours, theirs = debugger(value), f(value)
    assert jax.tree.structure(ours) == jax.tree.structure(theirs)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-12), ours, theirs)


def test_a_finding_in_a_loop_names_the_iteration():
    (finding,) = _listed(scan, np.ones(4))
    assert (finding.kind, finding.op, finding.iterations) == ("nan", "log", (("scan", 2),))
    assert str(finding).splitlines()[1] == "  in log, in iteration 2 of scan"
    assert finding.operands[0].value == -0.5
    assert finding.frame.line == line_of(__file__, "return jax.lax.scan(lambda c, y: (c - 1.0, ")[0]
    (finding,) = _listed(loop, np.array([3.0]))
    assert finding.iterations == (("while", 3),)
    nested = _listed(jax.jit(lambda v: jax.lax.map(loop, v)), np.array([9.9e9, 3.0]))
    assert nested[0].iterations == (("scan", 1), ("while", 3))


def test_only_the_taken_branch_is_checked():
    assert _listed(branch, ONES) == ()
    (finding,) = _listed(branch, -ONES)
    assert finding.op == "sqrt"


@pytest.mark.usefixtures("rules")
def test_a_loop_in_a_rule_is_entered():
    @lowers(Special)
    def lower(ctx, v):
        return while_loop(lambda c: c > -9, lambda c: [ew.log(c)], [v])[0]

    k = at.dscalar("k")
    halved = named(Special()(k), "halved")
    f = jaxprgen.compile([k], halved * 2)
    (finding,) = _listed(f, 3.0)
    assert (finding.variable, finding.iterations) == ("halved", (("while", 3),))
    assert str(finding).splitlines()[-1] == "  " + built("halved = named")


def test_programs_can_be_debugged():
    f = jaxprgen.compile([x], [at.log(x), x * 2])
    closed = f.jaxpr(ONES)
    for ours, theirs in zip(debug(closed)(ONES), f(ONES), strict=True):
        np.testing.assert_array_equal(ours, theirs)
    assert [what for what, _ in found(closed, -ONES)] == ["nan"]
    assert message(errors.ArgumentCountError, debug(closed)) == [
        "The jaxpr takes 1 argument, but 0 were given."
    ]


# --- Looking at values --------------------------------------------------------------------


def test_a_watch_receives_a_variable_and_all_values_so_far():
    eta = named(x * 2, "eta")
    named(at.exp(eta), "later")
    f = jaxprgen.compile([x], at.exp(eta).sum())
    seen = []
    debug(f, watch={"eta": seen.append, "x": seen.append, "eta.1": seen.append})(ONES)
    assert [computed.name for computed in seen] == ["x", "eta", "eta.1"]
    _, computed, _ = seen
    assert isinstance(computed.value, jax.Array)
    assert computed.value.tolist() == [2.0, 2.0, 2.0]
    assert computed.values["x"].tolist() == [1.0, 1.0, 1.0]
    assert computed.op == "Elemwise{mul,no_inplace}"
    assert computed.equation == "eta:f64[3] = mul x 2.0"
    assert f"built at {computed.frame.file}:{computed.frame.line}, in " in built(
        "eta = named(x * 2"
    )
    with pytest.raises(TypeError):
        computed.values["x"] = None


def test_variables_without_an_equation_can_be_watched():
    k = at.dscalar("k")
    flat = named(at.zeros_like(x) + k, "flat")
    two = named(at.constant(1.0) + 1.0, "two")
    c = at.constant(3.0, "c")
    f = jaxprgen.compile([x, k], flat.sum() * two * c)
    seen = {}
    watch = {
        name: lambda v: seen.update({v.name: v.value.tolist()}) for name in ("flat", "two", "c")
    }
    debug(f, watch=watch)(ONES, 4.0)
    assert seen == {"flat": [4.0, 4.0, 4.0], "two": 2.0, "c": 3.0}


def test_two_variables_of_one_name_are_both_watched():
    first, second = named(x + 1, "v"), named(x * 2, "v")
    seen = []
    f = jaxprgen.compile([x], first * second)
    debug(f, watch={"v": lambda computed: seen.append(computed.value.tolist())})(ONES)
    assert seen == [[2.0, 2.0, 2.0], [2.0, 2.0, 2.0]]


def test_a_breakpoint_calls_the_breakpoint_of_python(monkeypatch):
    eta = named(at.exp(x), "eta")
    f = jaxprgen.compile([x], eta.sum())
    stops = []
    monkeypatch.setattr(sys, "breakpointhook", lambda: stops.append(sys._getframe(1).f_locals))
    debug(f, breakpoints=["eta"])(np.zeros(3))
    (at_eta,) = stops
    assert at_eta["name"] == "eta"
    assert at_eta["value"].tolist() == [1.0, 1.0, 1.0]
    assert at_eta["values"]["x"].tolist() == [0.0, 0.0, 0.0]
    assert at_eta["frame"].line == inspect.currentframe().f_lineno - 9


def test_a_program_can_be_stepped_through():
    f = jaxprgen.compile([x], named(at.exp(x), "eta").sum())
    steps = debug(f).steps(np.zeros(3))
    assert [next(steps).name for _ in range(2)] == ["x", "eta"]
    next(steps)
    with pytest.raises(StopIteration) as end:
        next(steps)
    assert end.value.value == 3.0


def test_an_unknown_name_lists_the_known_ones():
    eta = named(at.exp(x), "eta")
    f = jaxprgen.compile([x], eta.sum())
    unknown = [
        "No variable of this program is called 'etaa'.",
        "Did you mean 'eta' or 'eta.1'?",
        "Its variables are x, eta; jaxprgen.pretty shows all.",
    ]
    for options in ({"watch": {"etaa": print}}, {"breakpoints": ["etaa"]}):
        debugger = debug(f, **options)
        assert message(errors.UnknownNameError, debugger, ONES, also=LookupError) == unknown
    far = debug(f, breakpoints=["completely"])
    assert message(errors.UnknownNameError, far, ONES)[1] == unknown[2]
    assert message(errors.UnknownNameError, lambda: debug(f, find=["nans", "inf"])) == [
        "find takes 'nan', 'inf', 'index', 'check', not 'nans'."
    ]


# --- Arguments ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "call",
    [
        lambda f: jax.jit(debug(f))(ONES),
        lambda f: jax.grad(debug(f))(ONES),
        lambda f: debug(f)(jax.ShapeDtypeStruct((3,), "float64")),
        lambda f: debug(jax.grad(f))(jax.ShapeDtypeStruct((3,), "float64")),
    ],
)
def test_abstract_arguments_are_refused(call):
    f = jaxprgen.compile([x], x.sum())
    first, *rest = message(errors.ArgumentTypeError, call, f, also=TypeError)
    assert first.startswith("debug needs concrete arguments, got a ")
    assert rest == [
        "Call the debugger outside of JAX's transformations. To debug a transformed function, "
        "transform it first: jaxprgen.debug(jax.grad(f))(x)."
    ]


def test_the_debugger_works_under_a_trace_and_jax_debug_nans():
    f = jaxprgen.compile([x], at.log(x).sum())

    @jax.jit
    def traced(v):
        return v + float(debug(f)(ONES))

    assert traced(1.0) == 1.0
    with jax.debug_nans(True):
        text = message(errors.NonFiniteValueError, debug(f), -ONES)
    assert text[0] == "NaN in 'x.1': 3 of 3 elements, the first at [0]."


def test_random_keys_and_bfloat16_are_supported():
    def f(seed, v):
        return jax.random.normal(jax.random.key(seed), (2,)) * jnp.log(v)

    (finding,) = _listed(f, 0, jnp.array([-1.0, 1.0], "bfloat16"))
    assert finding.kind == "nan"
    keys = [v for v in debug(f).steps(0, jnp.ones(2)) if "key" in str(v.value.dtype)]
    assert keys
