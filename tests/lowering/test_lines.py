"""Every equation carries a name and a line of the user's, as far as XLA and back."""

import importlib.util
import inspect
import linecache
import re
import traceback
from pathlib import Path

import aesara
import aesara.tensor as at
import hypothesis.strategies as st
import jax
import numpy as np
import pytest
from aesara.configdefaults import config
from hypothesis import given
from laws import equations
from profiles import examples

import jaxprgen
from jaxprgen._jax import Frame, frame_of, scope_of, sub_jaxprs
from jaxprgen.errors import UndefinedGradientError
from jaxprgen.lowering.origin import Origins
from jaxprgen.passes import DistributeScan

EXAMPLE = Path(__file__).parents[2] / "examples" / "model.py"
ONES = np.ones(3)


@pytest.fixture(scope="module")
def model():
    spec = importlib.util.spec_from_file_location("model", EXAMPLE)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


ARGS = np.full(31, 0.1), np.ones((5, 30)), np.ones(5), 1.0


def line_of(text):
    """The number of the line of the example that starts like this."""
    lines = EXAMPLE.read_text().splitlines()
    return next(i for i, line in enumerate(lines, 1) if line.startswith(text))


def origins_of(f, *args):
    """The name and the text of the line of each equation of a program."""
    eqns = f.jaxpr(*args).jaxpr.eqns
    frames = [frame_of(eqn.source_info) for eqn in eqns]
    texts = [linecache.getline(f.file, f.line).strip() if f else "" for f in frames]
    return [(scope_of(e.source_info), text) for e, text in zip(eqns, texts, strict=True)]


def names_in(hlo):
    """What instructions of an HLO text are called, without what is in front and behind."""
    return {part for name in re.findall(r'op_name="([^"]*)"', hlo) for part in name.split("/")}


def lines_in(hlo):
    """The lines of the example that an HLO text mentions: XLA writes them in one of two ways."""
    name = re.escape(str(EXAMPLE))
    beside = re.findall(rf'source_file="{name}" source_line=(\d+)', hlo)
    files = {path: i for i, path in re.findall(r'^(\d+) "(.*)"$', hlo, re.MULTILINE)}
    table = re.findall(rf"file_name_id={files.get(str(EXAMPLE))} .*?line=(\d+)", hlo)
    return {int(line) for line in [*beside, *table]}


# --- Down to XLA --------------------------------------------------------------------------


@pytest.mark.parametrize("gradient_by", ["Aesara", "JAX", "JAX, mapped"])
def test_compiled_programs_hold_names_and_lines(model, gradient_by):
    if gradient_by == "Aesara":
        f = jaxprgen.compile(model.inputs, [model.log_posterior, model.gradient])
        lowered = f.lower(*ARGS)
    else:
        f = jax.grad(jaxprgen.compile(model.inputs, model.log_posterior))
        if gradient_by == "JAX, mapped":
            f = jax.vmap(f, in_axes=(None, None, None, 0))
        lowered = jax.jit(f).lower(*ARGS[:3], np.ones(4) if "mapped" in gradient_by else 1.0)
    hlo = lowered.compile().as_text()
    assert {"eta", "beta", "y"} <= names_in(hlo)
    assert {line_of("eta ="), line_of("log_likelihood =")} <= lines_in(hlo)
    if gradient_by == "Aesara":
        assert "(dlog_posterior" in names_in(hlo)
        assert line_of("gradient =") in lines_in(hlo)


def test_stablehlo_holds_names_and_lines(model):
    f = jaxprgen.compile(model.inputs, model.log_posterior)
    text = f.lower(*ARGS).as_text(debug_info=True)
    assert 'loc("eta/add"' in text
    assert f'loc("{EXAMPLE}":{line_of("eta =")}:' in text
    assert re.search(r'%arg0: tensor<31xf64> loc\("beta"', text)


def test_the_derivative_and_the_map_of_an_equation_carry_its_name_and_line(model):
    f = jaxprgen.compile(model.inputs, model.log_posterior)
    program = jax.make_jaxpr(jax.vmap(jax.grad(f), (None, None, None, 0)))(*ARGS[:3], np.ones(4))
    (*_, backward) = [e for e in program.eqns if e.primitive.name in ("jit", "pjit")]
    eqns = backward.params["jaxpr"].eqns
    assert {"eta", "beta", "X"} <= {scope_of(e.source_info) for e in eqns}
    assert {frame_of(e.source_info).file for e in eqns} == {str(EXAMPLE)}


def test_a_program_printed_with_its_sources_shows_them(model):
    f = jaxprgen.compile(model.inputs, model.log_posterior)
    text = f.jaxpr(*ARGS).jaxpr.pretty_print(source_info=True, name_stack=True, use_color=False)
    assert f"{EXAMPLE}:{line_of('eta =')} (<module>)" in text
    assert "[eta]" in text


@pytest.mark.parametrize("transform", [lambda f: f, jax.jit, jax.vmap])
def test_the_nan_that_jax_finds_shows_the_line(transform):
    x = at.dvector("x")
    f = jaxprgen.compile([x], at.exp(at.log(x)))  # The line.
    with jax.debug_nans(True), pytest.raises(FloatingPointError) as error:
        transform(f)(-ONES if transform is not jax.vmap else -np.ones((2, 3)))
    assert "at.exp(at.log(x)))  # The line." in shown(error.value)


def test_an_error_of_jax_shows_the_line():
    x = at.dscalar("x")
    y = at.exp(aesara.gradient.undefined_grad(x))  # The line.
    with pytest.raises(UndefinedGradientError) as error:
        jax.grad(jaxprgen.compile([x], y))(1.0)
    assert "at.exp(aesara.gradient.undefined_grad(x))  # The line." in shown(error.value)


def shown(error):
    return "".join(traceback.format_exception(error))


def test_where_a_program_is_called_is_the_users_line():
    f = jaxprgen.compile([x := at.dvector("x")], at.exp(x))
    (eqn,) = jax.make_jaxpr(lambda v: f(v))(ONES).eqns  # Called here.
    assert linecache.getline(*frame_of(eqn.source_info)[:2]).endswith("# Called here.\n")


def test_the_text_does_not_depend_on_who_asks():
    x = at.dvector("x")
    y = at.exp(x)

    def deeper(depth):
        return deeper(depth - 1) if depth else jaxprgen.compile([x], y).jaxpr(ONES)

    (shallow,), (deep,) = deeper(0).eqns, deeper(7).eqns
    assert shallow.source_info.traceback is deep.source_info.traceback
    frames = shallow.source_info.traceback.frames
    assert [f.function_name for f in frames if f.file_name == __file__] == [
        "test_the_text_does_not_depend_on_who_asks"
    ]


# --- Which name and which line ------------------------------------------------------------


def test_equations_have_the_name_of_their_variable_or_of_the_nearest_ancestor_with_one():
    x, y = at.dvectors("x", "y")
    eta = x * y + 1.0
    eta.name = "eta"
    total = at.sum(at.exp(eta) - y)
    f = jaxprgen.compile([x, y], total)
    assert origins_of(f, ONES, ONES) == [
        ("x", "eta = x * y + 1.0"),
        ("eta", "eta = x * y + 1.0"),
        ("eta", "total = at.sum(at.exp(eta) - y)"),
        ("y", "total = at.sum(at.exp(eta) - y)"),
        ("y", "total = at.sum(at.exp(eta) - y)"),
    ]


def test_lines_of_the_dispatch_of_functions_are_not_the_users():
    a, b = at.dscalars("a", "b")
    pair = at.as_tensor_variable([a, b])
    assert origins_of(jaxprgen.compile([a, b], pair), 1.0, 2.0)[-1] == (
        "a",
        "pair = at.as_tensor_variable([a, b])",
    )


def test_what_is_done_to_arguments_and_results_carries_their_names():
    v = at.fvector("v")
    ones = at.alloc(at.exp(v[0]), 3)
    ones.name = "ones"
    f = jaxprgen.compile([v], [ones])
    program = f.jaxpr(np.ones(2, "float16")).jaxpr
    assert [(e.primitive.name, scope_of(e.source_info)) for e in program.eqns] == [
        ("convert_element_type", "v"),
        ("slice", "v"),
        ("squeeze", "v"),
        ("exp", "v"),
        ("broadcast_in_dim", "ones"),
    ]


def test_traced_routines_are_on_the_users_line():
    x, y = at.dvectors("x", "y")
    beta = at.betainc(x, y, 0.5)
    beta.name = "beta"
    clipped = aesara.gradient.grad_clip(beta, 0, 1)
    f = jaxprgen.compile([x, y], clipped)
    eqns = f.jaxpr(ONES, ONES).jaxpr.eqns
    assert set(origins_of(f, ONES, ONES)) == {
        ("beta", "beta = at.betainc(x, y, 0.5)"),
        ("beta", "clipped = aesara.gradient.grad_clip(beta, 0, 1)"),
    }
    assert "custom_vjp" in eqns[-1].primitive.name


def test_equations_inside_traced_routines_do_not_have_the_line_that_called():
    x = at.dvector("x")
    draws = at.random.RandomStream(1).poisson(x)  # The model.
    eqns = jaxprgen.compile([x], draws).jaxpr(jax.random.key(0), ONES).jaxpr.eqns
    inner = [e for eqn in eqns for _, jaxpr in sub_jaxprs(eqn) for e in jaxpr.eqns]
    frames = {frame_of(e.source_info) for e in inner}
    assert None in frames
    assert {f.text.partition("#")[2] for f in frames if f} == {" The model."}


def test_equations_that_leave_a_loop_keep_the_line_of_the_step():
    x, a = at.dvector("x"), at.dscalar("a")

    def step(x_i, total, a):
        scale = at.exp(a)  # Depends on no step.
        term = at.tanh(x_i) * scale
        return total + term

    totals, _ = aesara.scan(step, x, [at.as_tensor(np.float64(0.0))], [a])
    f = jaxprgen.compile([x, a], totals, passes=[DistributeScan()])
    lines = dict(zip(equations(f, ONES, 1.0), origins_of(f, ONES, 1.0), strict=True))
    assert lines["exp"][1] == "scale = at.exp(a)  # Depends on no step."
    assert lines["tanh"][1] == "term = at.tanh(x_i) * scale"


def test_names_and_lines_in_a_loop_are_those_of_the_loop_once():
    x, y = at.lvectors("x", "y")
    power = x**y  # A loop.
    f = jaxprgen.compile([x, y], power)
    args = np.arange(3), np.arange(3)
    (loop,) = [e for e in f.jaxpr(*args).eqns if e.primitive.name == "while"]
    (frame,) = {frame_of(e.source_info) for e in loop.params["body_jaxpr"].eqns}
    assert frame.text == "power = x**y  # A loop."
    hlo = f.lower(*args).compile().as_text()
    assert "/x/while/body/mul" in hlo
    assert not re.search(r'op_name="[^"]*\bx/[^"]*/x/', hlo)


def test_results_have_names_of_their_own():
    m = at.dmatrix("m")
    largest, where = at.max_and_argmax(m, axis=0)
    largest.name, where.name = None, "where"
    f = jaxprgen.compile([m], [at.exp(largest), where + 1])
    names = dict(zip(equations(f, np.ones((2, 2))), origins_of(f, np.ones((2, 2))), strict=True))
    assert names["exp"][0] == "m"
    assert names["add"][0] == "where"


def test_a_graph_without_names_and_lines_has_none(monkeypatch):
    limit = config.traceback__limit
    config.traceback__limit = 0
    try:
        x = at.dvector()
        f = jaxprgen.compile([x], at.exp(x) + 1.0)
    finally:
        config.traceback__limit = limit
    assert origins_of(f, ONES) == [("", ""), ("", "")]
    assert f.lower(ONES).compile().as_text()


@pytest.mark.parametrize(
    "name",
    [
        '"quoted"',
        "a\\b",
        "new\nline",
        "nul\0",
        "a/b",
        "loc(",
        "\ud800",
        "</script>",
        "Σ",
        "😀",
        "%s{}",
        "x" * 5000,
    ],
)
def test_any_name_reaches_xla(name):
    x = at.dvector(name)
    y = at.exp(x)
    y.name = name
    f = jaxprgen.compile([x], y)
    assert origins_of(f, ONES)[0][0] == name.replace("\ud800", "?")
    assert f.lower(ONES).as_text(debug_info=True)
    np.testing.assert_allclose(f(ONES), np.e)


def test_arguments_have_the_names_of_inputs():
    x, n = at.dvector("x"), at.lscalar("the count")
    f = jaxprgen.compile([x, n, at.dscalar("x"), at.dscalar("class")], x * n)
    assert list(inspect.signature(f).parameters) == ["x", "the_count", "argument_2", "argument_3"]
    assert f(ONES, 2, 0.0, 0.0).shape == (3,)
    assert "x" in names_in(f.lower(ONES, 2, 0.0, 0.0).compile().as_text())


def nearest(inputs, own, target, is_last_resort=lambda v: False):
    """Breadth first from a variable through the inputs of what computes it."""
    level, seen = [target], set()
    last = None
    while level:
        following = []
        for v in level:
            if own[v] is not None:
                if not is_last_resort(v):
                    return own[v]
                last = last or own[v]
            following += [u for u in inputs[v] if u not in seen]
            seen.update(inputs[v])
        level = following
    return last


@st.composite
def graphs(draw):
    """Variables in an order of computing: each one's inputs, name and line."""
    count = draw(st.integers(1, 12))
    inputs, names, frames = [], [], []
    for i in range(count):
        inputs.append(draw(st.lists(st.integers(0, i - 1), max_size=3)) if i else [])
        names.append(draw(st.none() | st.just(f"v{i}")))
        frames.append(draw(st.none() | st.just(Frame("file", i + 1, "function"))))
    return inputs, names, frames


@examples(3)
@given(graphs())
def test_the_nearest_is_the_first_that_a_search_by_breadth_finds(graph):
    inputs, names, frames = graph
    origins = Origins()
    for sources, name, frame in zip(inputs, names, frames, strict=True):
        if sources:
            origins.add_node(sources, [name], frame)
        else:
            origins.add_leaf(name, frame)
    for v, info in enumerate(origins.source_infos()):
        assert scope_of(info) == (nearest(inputs, names, v) or "")
        assert frame_of(info) == nearest(inputs, frames, v, lambda u: not inputs[u])
