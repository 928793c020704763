"""Programs as text, with the names of their graphs."""

import itertools
import re
import sys
from html.parser import HTMLParser

import aesara.tensor as at
import hypothesis.strategies as st
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from profiles import examples

import jaxprgen
from jaxprgen._jax import ClosedJaxpr, Var, sub_jaxprs
from jaxprgen.errors import ArgumentTypeError
from jaxprgen.inspect import diff, pretty
from jaxprgen.ir.describe import variable_names
from jaxprgen.texts import visible

ONES = np.ones(3)
mu, sigma = at.dscalars("mu", "sigma")
x = at.dvector("x")


def model():
    eta = (x - mu) / sigma
    eta.name = "eta"
    return [x, mu, sigma], at.exp(eta) + at.sum(eta**2)


def squeezed(text):
    return re.sub(r"\s+", " ", text)


def test_variables_have_the_names_of_the_graph():
    f = jaxprgen.compile(*model())
    assert squeezed(pretty(f, ONES, 0.0, 1.0)) == squeezed("""
        { lambda ; x:f64[3] mu:f64[] sigma:f64[]. let
            x.1:f64[3] = sub x mu
            eta:f64[3] = div x.1 sigma
            eta.1:f64[3] = exp eta
            eta.2:f64[3] = square eta
            eta.3:f64[] = REDUCE eta.2
            eta.4:f64[3] = add eta.1 eta.3
          in (eta.4,) }""").strip().replace("REDUCE", reduce_sum())


def reduce_sum():
    """How this version of JAX prints the sum over the only axis."""
    text = str(jax.make_jaxpr(jnp.sum)(ONES))
    return re.search(r"reduce_sum\[.*?\]", text)[0]


def test_without_names_the_text_is_that_of_jax():
    f = jaxprgen.compile(*model())
    args = ONES, 0.0, 1.0
    assert squeezed(pretty(f, *args, names=False)) == squeezed(str(f.jaxpr(*args)))


def test_shapes_and_sources_are_options():
    f = jaxprgen.compile(*model())
    text = pretty(f, ONES, 0.0, 1.0, shapes=False, source=True)
    assert "{ lambda ; x mu sigma. let" in text
    assert re.search(r"eta = div x\.1 sigma +# \S*test_text\.py:\d+ \(model\)", text)


def test_programs_inside_programs_have_names():
    base, exponent = at.lvectors("base", "exponent")
    f = jaxprgen.compile([base, exponent], base**exponent)
    loop = pretty(f, np.arange(3), np.arange(3))
    assert re.search(r"body_jaxpr=\{ lambda ; (base|exponent|argument)\.\d+:i64\[3\]", loop)

    def loop(n, start):
        return jax.lax.while_loop(lambda c: c[0] < n, lambda c: (c[0] + 1, c[1] * 2), (0, start))

    text = pretty(loop, 3, 1.0)
    assert "body_jaxpr={ lambda ; c.0.1:i64[] c.1.1:f64[]. let" in text
    inner = pretty(jax.jit(lambda rate: jnp.exp(rate)), 1.0)
    assert re.search(r"lambda ; rate(\.1)?:f64\[\]", inner)


def test_gradients_keep_the_names():
    inputs, y = model()
    gradient = jax.grad(jaxprgen.compile(inputs, y.sum()), argnums=1)
    text = pretty(gradient, ONES, 0.0, 1.0)
    assert text.startswith("{ lambda ; x:f64[3] mu:f64[] sigma:f64[]. let")
    assert re.search(r"eta\.\d+:f64\[3\] = exp eta", text)
    assert text == pretty(jax.make_jaxpr(gradient)(ONES, 0.0, 1.0))


def test_constants_and_shared_variables_have_names():
    import aesara

    counts = at.constant(np.arange(3.0), name="counts")
    rates = aesara.shared(np.ones(3), name="rates")
    f = jaxprgen.compile([x], x * counts + rates + at.constant(np.ones(3)))
    (binders,) = re.findall(r"lambda (.*?);", pretty(f, ONES))
    assert {b.split(":")[0] for b in binders.split()} == {"counts", "rates", "const.1"}


# --- Color --------------------------------------------------------------------------------

ESCAPE = "\033["


@pytest.mark.parametrize(
    ("terminal", "no_color", "color", "colored"),
    [
        (True, None, None, True),
        (True, "", None, True),
        (True, "1", None, False),
        (False, None, None, False),
        (False, None, True, True),
        (True, None, False, False),
        (True, "1", True, True),
    ],
)
def test_color_is_for_terminals(monkeypatch, terminal, no_color, color, colored):
    monkeypatch.setattr(sys.stdout, "isatty", lambda: terminal)
    monkeypatch.delenv("NO_COLOR", raising=False)
    if no_color is not None:
        monkeypatch.setenv("NO_COLOR", no_color)
    text = pretty(jaxprgen.compile(*model()), ONES, 0.0, 1.0, color=color)
    assert (ESCAPE in text) is colored


# --- Names --------------------------------------------------------------------------------


def variables(jaxpr):
    found = [*jaxpr.constvars, *jaxpr.invars, *(v for eqn in jaxpr.eqns for v in eqn.outvars)]
    for eqn in jaxpr.eqns:
        for _, inner in sub_jaxprs(eqn):
            found += variables(inner)
    return [v for v in found if type(v) is Var]


@examples(3)
@given(st.lists(st.none() | st.sampled_from(["a", "a.1", "a.2", "b"]) | st.text(), min_size=6))
def test_every_variable_has_a_unique_readable_name(names):
    a, b = at.dvectors(2)
    steps = [a, b]
    operations = itertools.cycle([at.exp, at.gammaln, at.tanh, at.log, at.abs])
    for name, operation in zip(names, operations, strict=False):
        steps.append(operation(steps[-1] + steps[-2]))
        steps[-1].name = name
    a.name, b.name = names[:2]
    observation = jaxprgen.compile([a, b], steps[-1]).observe(ONES, ONES)
    jaxpr = observation.closed_jaxpr.jaxpr
    named = variable_names(jaxpr, observation.names)
    bound = set(variables(jaxpr))
    assert set(named) >= bound
    assert len({named[v] for v in bound}) == len(bound)
    assert all(re.fullmatch(r"[^\s:;,={}\[\]]+", name) for name in named.values())


# --- Differences --------------------------------------------------------------------------


def test_a_diff_uses_the_names_of_the_first_program():
    observation = jaxprgen.compile(*model()).observe(ONES, 0.0, 1.0)
    before = observation.closed_jaxpr
    eqns = list(before.jaxpr.eqns)
    assert diff(before, before, observation.names) == ""
    exp = next(i for i, e in enumerate(eqns) if e.primitive.name == "exp")
    expm1 = jax.make_jaxpr(jnp.expm1)(ONES).eqns[0]
    eqns[exp] = eqns[exp].replace(primitive=expm1.primitive, params=expm1.params)
    after = ClosedJaxpr(before.jaxpr.replace(eqns=eqns), before.consts)
    lines = diff(before, after, observation.names).splitlines()
    assert lines[:2] == ["--- before", "+++ after"]
    assert [line.replace(" ", "") for line in lines[2:] if line[0] in "+-"] == [
        "-eta.1:f64[3]=expeta",
        "+eta.1:f64[3]=expm1eta",
    ]


def test_a_variable_added_by_a_pass_has_a_new_name():
    before = jax.make_jaxpr(lambda a: jnp.tanh(jnp.log(jnp.exp(a) + 1)))(1.0)
    eqns = list(before.jaxpr.eqns)
    v = Var(eqns[0].outvars[0].aval)
    eqns[1:2] = [
        eqns[0].replace(invars=eqns[0].outvars, outvars=[v]),
        eqns[1].replace(invars=[v, eqns[1].invars[1]]),
    ]
    after = ClosedJaxpr(before.jaxpr.replace(eqns=eqns), before.consts)
    lines = [line.replace(" ", "") for line in diff(before, after).splitlines()[2:]]
    assert [line for line in lines if line[0] in "+-"] == [
        "-add.1:f64[]=addexp.11.0:f64[]",
        "+exp.2:f64[]=expexp.1",
        "+add.1:f64[]=addexp.21.0:f64[]",
    ]


def test_programs_that_share_no_variable_are_matched_by_their_equations():
    f = jaxprgen.compile(*model())
    seen = f.observe(ONES, 0.0, 1.0)
    for names in (seen.names, None):
        assert diff(f.jaxpr(ONES, 0.0, 1.0), seen.closed_jaxpr, names) == ""
        assert diff(seen.closed_jaxpr, f.jaxpr(ONES, 0.0, 1.0), names) == ""
    inputs, y = model()
    other = jaxprgen.compile(inputs, at.log(y)).jaxpr(ONES, 0.0, 1.0)
    changed = diff(seen.closed_jaxpr, other, seen.names).splitlines()[2:]
    assert [line[0] for line in changed if line[0] in "+-"] == ["-", "+", "+"]
    assert any("log eta.4" in line for line in changed)


def test_non_ascii_names_are_kept():
    v = at.dvector("∇logp")
    assert "lambda ; ∇logp:f64[3]. let" in pretty(jaxprgen.compile([v], v + 1), ONES)


def test_the_operand_of_a_broadcast_keeps_its_name():
    s = at.dscalar("s")
    y = at.alloc(r := at.log(s), 4)
    y.name = "y"
    text = pretty(jaxprgen.compile([s], [y, r + 1]), 1.0)
    assert "y:f64[4] = broadcast_in_dim" in text
    assert "s.1:f64[] = log s" in text


def test_other_objects_are_refused():
    with pytest.raises(ArgumentTypeError, match="Compile a graph first"):
        pretty(model())


# --- The function -------------------------------------------------------------------------


def test_a_function_shows_its_signature():
    f = jaxprgen.compile(*model(), name="density")
    assert repr(f) == (
        "<jaxprgen function density(x: float64[?], mu: float64[], sigma: float64[]) -> "
        "result of Elemwise{add,no_inplace}>"
    )


class Cells(HTMLParser):
    def __init__(self, text):
        super().__init__()
        self.tags, self.text = set(), []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.add(tag)
        assert not attrs

    def handle_data(self, data):
        self.text.append(data)


@examples(3)
@given(st.text(min_size=1))
def test_a_function_shows_its_signature_in_a_notebook(name):
    v, (w,) = at.dmatrix(name), [at.dvector("<script>alert(1)</script>")]
    y = at.dot(v, w)
    y.name = name
    cells = Cells(jaxprgen.compile([v, w], y, name="<b>")._repr_html_())
    assert cells.tags == {"table", "caption", "code", "tr", "td"}
    assert "<script>alert(1)</script>" in cells.text
    assert visible(name, None) in cells.text
    assert "float64[?, ?]" in cells.text
