"""The page's HTML."""

import functools
import re
from html.parser import HTMLParser
from importlib.resources import files

import aesara
import aesara.tensor as at
import hypothesis.strategies as st
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import example, given
from jax import lax
from pages import HOSTILE, ONES, chain, model, page_of_model, power
from profiles import examples

import jaxprgen
from jaxprgen import inspect
from jaxprgen._jax import Frame
from jaxprgen.inspect import dot
from jaxprgen.tools.page.elements import metric, tag

KEY = jax.random.key(0)


class Structure(HTMLParser):
    """The elements of a page in order, with their attributes' names, and its texts."""

    def __init__(self, page):
        super().__init__()
        self.elements, self.texts = [], []
        self.feed(page)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, *(name for name, _ in attrs)))

    def handle_endtag(self, tag):
        self.elements.append(f"/{tag}")

    def handle_comment(self, data):
        self.elements.append(f"<!--{data}")

    def handle_data(self, data):
        self.texts.append(data)


def elements(page, element, **attributes):
    """The number of elements whose attributes start with these values."""
    opened = [
        dict(re.findall(r'([\w-]+)="([^"]*)"', tag))
        for tag in re.findall(f"<{element} [^>]*>", page)
    ]
    return sum(all(t.get(k, "").startswith(v) for k, v in attributes.items()) for t in opened)


def hostile_examples(test):
    for name in HOSTILE:
        test = example(name=name)(test)
    return test


plain_elements = functools.cache(lambda: Structure(page_of_model()).elements)


@examples(3, quick=0.3)
@hostile_examples
@given(name=st.text(min_size=1))
def test_names_cannot_change_the_structure(name):
    function = name.encode(errors="replace").decode()  # JAX takes no halves of surrogate pairs.
    page = page_of_model(name, function=function)
    assert Structure(page).elements == plain_elements()
    assert page.encode()


@examples(3, quick=0.3)
@hostile_examples
@given(name=st.text(min_size=1))
def test_no_text_can_change_the_structure(name):
    plain = jaxprgen.compile(*model()).observe(np.ones((4, 3)), ONES)
    hostile = plain._replace(
        nodes=[
            node._replace(op=name, name=name, frame=Frame(name, 1, name)) for node in plain.nodes
        ],
        labels=[name] * len(plain.labels),
        types=[name] * len(plain.types),
        names=dict.fromkeys(plain.names, name),
    )
    expected = plain._replace(
        nodes=[node._replace(frame=Frame("f", 1, "")) for node in plain.nodes]
    )
    page = inspect.html(hostile)
    assert Structure(page).elements == Structure(inspect.html(expected)).elements
    assert page.encode()


def test_attributes_are_escaped():
    assert tag("a", "b", title="\"<&'") == '<a title="&quot;&lt;&amp;&#x27;">b</a>'


@pytest.mark.parametrize(
    ("n", "text", "with_unit"),
    [
        (None, "?", "?"),
        (0, "0", "0 B"),
        (999, "999", "999 B"),
        (1000, "1.0k", "1.0 kB"),
        (99_949, "99.9k", "99.9 kB"),
        (99_950, "100k", "100 kB"),
        (999_499, "999k", "999 kB"),
        (999_500, "1.0M", "1.0 MB"),
        (10**15, "1.0P", "1.0 PB"),
    ],
)
def test_numbers_have_three_digits(n, text, with_unit):
    assert (metric(n), metric(n, "B")) == (text, with_unit)


def test_the_policy_allows_only_the_own_script_and_style():
    (policy,) = re.findall('(default-src[^"]*)"', page_of_model())
    assert policy.startswith("default-src 'none'; ")
    assert "unsafe" not in policy
    assert policy.count("'sha256-") == 2


def test_assets_are_package_data():
    assert {"page.html", "page.css", "page.js"} <= {
        file.name for file in files("jaxprgen.tools.page").iterdir()
    }


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_colors_have_contrast(scheme):
    """The Web Content Accessibility Guidelines require a ratio of 4.5 for text."""
    style = files("jaxprgen.tools.page").joinpath("page.css").read_text()
    colours = re.findall(r"--(\w+): #(\w+);", style)
    half = len(colours) // 2
    palette = dict(colours[:half] if scheme == "light" else colours[half:])

    def luminance(colour):
        digits = colour if len(colour) == 6 else "".join(2 * c for c in colour)
        parts = np.array([int(digits[i : i + 2], 16) for i in (0, 2, 4)]) / 255
        linear = np.where(parts <= 0.04045, parts / 12.92, ((parts + 0.055) / 1.055) ** 2.4)
        return linear @ [0.2126, 0.7152, 0.0722]

    grounds = [palette[name] for name in ("paper", "lit", "near", "added", "removed")]
    marks = ("emitted", "staged", "free", "folded", "called")
    for name in ("ink", "dim", "link", *marks):
        for ground in grounds:
            low, high = sorted([luminance(palette[name]), luminance(ground)])
            assert (high + 0.05) / (low + 0.05) >= 4.5, (name, ground)


def test_a_graph_is_beside_its_program():
    page = page_of_model()
    text = " ".join(Structure(page).texts)
    for part in ("emitted", "pages.py:", "eta = at.dot(X, beta)", "5 equations"):
        assert part in text
    assert f"jax {jax.__version__}" in text
    assert f"jaxprgen {jaxprgen.__version__}" in text


def test_costs_are_shown():
    page = page_of_model()
    assert "<small>24</small>" in page  # dot: 2 · 4 · 3
    assert '<rect width="100%">' in page


def test_known_and_unknown_costs_are_told_apart():
    def f(x):
        return lax.sort(x * 2) + 1

    assert "at least 6 FLOPs and 1 equation of unknown cost" in inspect.html(f, ONES)
    assert "about 6 FLOPs" in inspect.html(lambda x: x * 2 + 1, ONES)


def test_nodes_without_equations_are_hidden_at_first():
    page = inspect.html(chain(8), ONES, ONES)
    assert elements(page, "article", **{"class": "graph no-folded no-free"}) == 1
    for how, pressed in (("emitted", "true"), ("folded", "false")):
        assert elements(page, "button", **{"data-how": how, "aria-pressed": pressed}) == 1


def test_a_check_without_trouble_is_a_word_in_the_head():
    graph = model()
    f = jaxprgen.compile(*graph)
    page = inspect.html(f, np.ones((4, 3)), ONES, check=jaxprgen.check(*graph))
    assert "all nodes run under jax.jit" in page
    assert '<section id="check">' not in page
    n = at.lscalar("n")
    page = inspect.html(f, np.ones((4, 3)), ONES, check=jaxprgen.check([n], at.arange(n)))
    assert '<section id="check">' in page


def test_a_function_without_a_graph_has_a_page():
    f = jaxprgen.compile(*model())
    page = inspect.html(jax.grad(lambda *args: f(*args)[0]), np.ones((4, 3)), ONES)
    assert '<article class="graph' not in page
    assert "eta" in page
    assert '<article class="graph' not in inspect.html(f.jaxpr(np.ones((4, 3)), ONES))


def test_an_observation_gives_the_same_page():
    f = jaxprgen.compile(*model())
    args = np.ones((4, 3)), ONES
    assert inspect.html(f.observe(*args)) == inspect.html(f, *args)


def test_constants_and_shared_variables_are_leaves():
    data = at.constant(np.ones((2, 3)), name="data")
    weights = aesara.shared(np.ones(2), name="weights")
    x = at.dvector("x")
    page = inspect.html(jaxprgen.compile([x], weights * at.dot(data, x)), ONES)
    assert elements(page, "p", **{"class": "leaf"}) == 3
    assert "64 B of constants" in page


@pytest.mark.parametrize(
    "f",
    [
        lambda x: jax.lax.scan(lambda c, y: (c + y, None), 0.0, x)[0],
        lambda x: jax.lax.cond(x[0] > 0, jnp.sin, jnp.cos, x),
        lambda x: jnp.where(x > 0, jax.random.normal(jax.random.key(0), (3,)), jax.nn.relu(x)),
        lambda x: jax.pure_callback(lambda x: x, x, x),
        lambda x: (jax.debug.print("{x}", x=x), x)[1],
        lambda x: (),
        lambda x: jax.random.normal(KEY, (3,)) * x,
        lambda x: jnp.stack([x] * 3) @ jnp.linalg.inv(jnp.diag(x)),
    ],
)
def test_any_traceable_function_has_a_page(f):
    found = Structure(inspect.html(f, np.ones(3))).elements
    for element in ("p", "details", "a"):
        assert found.count(f"/{element}") == sum(each[0] == element for each in found)
    assert dot(f, np.ones(3)).startswith("digraph {")


def test_a_pass_without_changes_is_mentioned():
    f, *args = power()
    observation = f.observe(*args)
    assert "changed nothing" in inspect.html(observation, before=observation.closed_jaxpr)


def test_a_page_of_two_thousand_equations_is_small():
    page = inspect.html(chain(1600), ONES, ONES)
    assert len(page.encode()) <= 2_000_000
    assert elements(page, "p", id="e") == 2000
    assert elements(page, "p", id="n") == 2400


def test_many_alike_nodes_are_one_row_and_their_equations_say_how_many():
    x, mu = at.dvector("x"), at.dscalar("mu")
    total = sum(at.sin(x[i] - mu) ** 2 for i in range(40))
    total += at.exp(mu)
    page = inspect.html(jaxprgen.compile([x, mu], total), np.ones(40), 0.5)
    program, graph = page.split('<article class="graph')
    sine = next(row for row in re.findall("<p.*?</p>", program) if "<strong>sin<" in row)
    assert "<em> × 40</em>" in sine
    exponential = next(row for row in re.findall("<p.*?</p>", program) if "<strong>exp<" in row)
    assert "×" not in exponential
    rows = re.findall(r"<details.*?</details>|<p.*?</p>", graph, re.DOTALL)
    first, folded, *_ = (row for row in rows if "Elemwise{sin,no_inplace}</a>" in row)
    assert "<em> × 40</em>" in first and "1 equation, 320 B" in first
    assert folded.startswith('<details class="copies batched"><summary>39 more</summary>')
    assert folded.count("<p") == 39
    assert len(re.findall("<p ", page.partition('id="lines"')[0])) > 200 > 2 * len(rows)
    assert re.search(r" · \d+ batches of 40 to \d+ · ", page.partition("<main>")[0])
    (box,) = re.findall(r"<g [^>]*><title>total = sum.*?</g>", page, re.DOTALL)
    assert re.search(" · × 4[01] · ", box)
