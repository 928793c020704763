"""Drawings: their structure, and how Graphviz renders them."""

import re
import shutil
import subprocess
from xml.etree import ElementTree

import aesara.tensor as at
import hypothesis.strategies as st
import jax
import numpy as np
import pytest
from hypothesis import example, given
from jax import lax
from pages import ONES, power

import jaxprgen
from jaxprgen.errors import DrawingError
from jaxprgen.inspect import dot, draw

HOSTILE = [
    'a"b',
    "a\\",
    '\\"; } evil [label="',
    "<b>bold</b>",
    "<",
    "\\N \\G \\l",
    "&amp; &lt;",
    "}",
    "// #",
    "αβγ",
]
needs_graphviz = pytest.mark.skipif(
    shutil.which("dot") is None, reason="Graphviz's program dot is not installed"
)


def model():
    x, mu, sigma = at.dvector("x"), at.dscalar("mu"), at.dscalar("sigma")
    eta = (x - mu) / sigma
    eta.name = "eta"
    return jaxprgen.compile([x, mu, sigma], at.sum(eta * eta)), ONES, 0.0, 1.0


def test_equations_are_nodes_and_operands_are_edges():
    lines = [line.strip() for line in dot(*model()).splitlines() if re.match(r"\s+n\d", line)]
    found = [re.sub(r", (tooltip|shape|style).*\]", "]", line) for line in lines]
    assert found == [
        'n0 [label="x:f64[3]"];',
        'n1 [label="mu:f64[]"];',
        'n2 [label="sigma:f64[]"];',
        'n3 [label="x.1:f64[3]\\nsub x mu"];',
        "n0 -> n3;",
        "n1 -> n3;",
        'n4 [label="eta:f64[3]\\ndiv x.1 sigma"];',
        "n3 -> n4;",
        "n2 -> n4;",
        'n5 [label="eta.1:f64[3]\\nmul eta eta"];',
        "n4 -> n5;",
        "n4 -> n5;",
        'n6 [label="eta.2:f64[]\\nreduce_sum eta.1"];',
        "n5 -> n6;",
        'n7 [label="eta.2"];',
        "n6 -> n7;",
    ]


def test_lines_are_tooltips():
    (eta,) = re.findall(r'label="eta:.*tooltip="(.*?)"', dot(*model()))
    assert re.fullmatch(r".*test_dot\.py:\d+", eta)


def test_inputs_constants_and_outputs_differ():
    x = at.dvector("x")
    drawing = dot(jaxprgen.compile([x], at.constant(np.arange(3.0)) * x), ONES)
    shapes = re.findall(r'shape="(\w+)".*fillcolor="(#\w+)"', drawing)
    assert [shape for shape, _ in shapes] == ["note", "ellipse", "ellipse"]
    assert len(set(shapes)) == 3


@pytest.mark.parametrize(
    ("f", "args", "clusters"),
    [
        (power()[0], power()[1:], ["while", "cond_jaxpr", "body_jaxpr"]),
        (lambda x: lax.scan(lambda c, y: (c + y, c), 0.0, x), (ONES,), ["scan", "jaxpr"]),
        (
            lambda p, x: lax.cond(p, lax.sin, lax.cos, x),
            (True, ONES),
            ["cond", "branches[0]", "branches[1]"],
        ),
        (
            lambda x: jax.jit(jax.jit(lambda y: y + 1, inline=False))(x),
            (ONES,),
            ["jit <lambda>", "jaxpr", "jit <lambda>", "jaxpr"],
        ),
    ],
    ids=["while", "scan", "cond", "jit"],
)
def test_inner_programs_are_clusters(f, args, clusters):
    drawing = dot(f, *args)
    labels = re.findall(r'subgraph cluster\d+ \{\s+label="(.*?)"', drawing)
    labels = [label.replace("pjit", "jit") for label in labels]  # As it was called once.
    assert labels == clusters
    assert drawing.count("{") == drawing.count("}")
    # Into each inner program, a dashed edge to one of its nodes.
    heads = re.findall(r'-> (n\d+) \[lhead="(cluster\d+)"', drawing)
    inner = [label for label in labels if "jaxpr" in label or "branch" in label]
    assert len(heads) == len(inner)
    for node, cluster in heads:
        body = drawing[drawing.index(f"subgraph {cluster} ") :]
        assert re.search(rf"\s{node} \[label", body)


def test_results_of_one_equation_are_distinguished():
    drawing = dot(lambda x: lax.top_k(x, 2), ONES)
    assert re.findall(r"-> n\d+ \[label=\"(.*?)\"", drawing) == ["top_k.1", "top_k.2"]


def test_equal_programs_give_equal_text():
    assert dot(*model()) == dot(*model())
    assert dot(*power()) == dot(*power())


def graphviz(text, kind):
    drawn = subprocess.run(
        ["dot", f"-T{kind}"], input=text, capture_output=True, encoding="utf-8", check=False
    )
    assert (drawn.returncode, drawn.stderr) == (0, "")
    return drawn.stdout


def named(name):
    """A program that contains this name."""

    def f(x):
        return x + 1

    f.__name__ = name
    inner = jax.jit(f)
    return jax.make_jaxpr(lambda x: inner(x) * 2)(ONES)


def hostile_examples(test):
    for name in HOSTILE:
        test = example(name=name)(test)
    return test


@needs_graphviz
@hostile_examples
@given(name=st.text(st.characters(codec="utf-8", exclude_categories=["Cc", "Cn"]), min_size=1))
def test_names_cannot_change_the_structure(name):
    def structure(text):
        return [line.split()[0:2] for line in graphviz(text, "plain").splitlines()[1:]]

    kinds = [kind for kind, *_ in structure(dot(named(name)))]
    assert kinds == [kind for kind, *_ in structure(dot(named("f")))]


@needs_graphviz
@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_names_are_shown_as_text(name):
    svg = ElementTree.fromstring(graphviz(dot(named(name)), "svg"))
    texts = {text.text for text in svg.iter("{http://www.w3.org/2000/svg}text")}
    assert {f"jit {name}", f"pjit {name}"} & {text.replace("\xa0", " ") for text in texts}


@needs_graphviz
@pytest.mark.parametrize("make", [model, power])
def test_graphviz_draws_every_node(make):
    text = dot(*make())
    plain = graphviz(text, "plain").splitlines()
    assert sum(line.startswith("node ") for line in plain) == len(
        re.findall(r"^ +n\d+ \[label", text, re.MULTILINE)
    )


@needs_graphviz
@pytest.mark.parametrize(("suffix", "magic"), [(".svg", b"<?xml"), (".png", b"\x89PNG")])
def test_drawings_are_written_to_files(tmp_path, suffix, magic):
    path = tmp_path / f"a drawing{suffix}"
    draw(*model(), path=path)
    assert path.read_bytes().startswith(magic)
    draw(*model(), path=str(path))


@needs_graphviz
def test_an_unknown_format_is_refused(tmp_path):
    path = tmp_path / "drawing.strange"
    with pytest.raises(DrawingError) as refused:
        draw(*model(), path=path)
    first, second, *_ = str(refused.value).splitlines()
    assert first == f"Graphviz cannot draw {path}."
    assert 'Format: "strange" not recognized' in second
    assert not path.exists()


def test_without_graphviz_the_error_says_how_to_install_it(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(DrawingError) as missing:
        draw(*model(), path=tmp_path / "drawing.svg")
    assert str(missing.value) == (
        "Drawing needs Graphviz, whose program `dot` is not on the PATH.\n"
        "Install Graphviz (apt install graphviz, brew install graphviz, conda install graphviz), "
        "or open the text of jaxprgen.inspect.dot in another viewer."
    )
