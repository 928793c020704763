"""No name, file or value reaches a text as anything but visible characters on its own line."""

import sys
import unicodedata
import warnings

import aesara.tensor as at
import numpy as np
import pytest
from hypothesis import example, given, strategies as st
from profiles import examples

import jaxprgen
from jaxprgen.errors import JaxprGenError
from jaxprgen.texts import LONGEST, visible, visible_lines

CONTROLS = [chr(i) for i in range(sys.maxunicode + 1) if unicodedata.category(chr(i))[0] in "CZ"]
HOSTILE = "\x1b]0;t\x07\u202e\u061c\u2066\n\u2028\x85\r\t\ud800faked 1 2 3"
FACES = "é中😀 \\x1b"


def test_every_character_shows():
    for c in CONTROLS:
        shown = visible(f"a{c}b")
        assert shown.isprintable() and (c == " ") == (shown == f"a{c}b")
    assert visible(FACES) == FACES


@given(text=st.text(), longest=st.integers(1, 100) | st.none())
@examples(50, quick=20)
def test_a_text_becomes_a_line(text, longest):
    shown = visible(text, longest)
    assert shown.isprintable()
    assert longest is None or len(text) <= longest or shown.endswith("…")
    assert visible_lines(text).count("\n") == text.count("\n")
    assert visible_lines(text).replace("\n", "").isprintable()


def test_long_names_are_short():
    assert len(visible("x" * 10_000)) == LONGEST
    assert visible("x" * 10_000, None) == "x" * 10_000


def built(folder, name):
    """A graph of which everything that a user names has one name, built in a file of that name."""
    file = str(folder / f"m{name}.py").encode(errors="replace").decode()  # Python's own limit.
    code = "z = at.tanh(x); y = at.exp(z) + c; w = y[x > 0]\n"
    x, c = at.dvector(f"x{name}"), at.constant(np.arange(3.0), name=f"c{name}")
    scope = {"at": at, "x": x, "c": c}
    exec(compile(code, file, "exec"), scope)
    scope["y"].name = f"y{name}"
    return scope


def texts(folder, name):
    """What this package writes about such a graph, as labels and texts."""
    scope = built(folder, name)
    x, y, w = scope["x"], scope["y"], scope["w"]
    f = jaxprgen.compile([x], {f"out{name}": y}, name=f"f{name}")
    ones = np.ones(3)
    yield "report", f.report(ones)
    yield "repr", repr(f)
    yield "check", jaxprgen.check([x], w)
    yield "pretty", jaxprgen.pretty(f, ones, source=True, color=False)
    yield "repeats", jaxprgen.inspect.explain_repeats(f, ones)
    yield "guards", jaxprgen.inspect.explain_guards(f, ones)
    yield "dot", jaxprgen.inspect.dot(f, ones)
    jaxprgen.save(folder / "f.jxg", f, "f64[3]")
    yield "loaded", repr(jaxprgen.load(folder / "f.jxg"))
    other = at.dvector(f"other{name}")
    for label, wrong in {
        "debug": lambda: jaxprgen.debug(f)(ones * np.nan),
        "shape": lambda: f(np.ones((2, 2))),
        "dtype": lambda: f(ones * 1j),
        "count": lambda: f(),
        "size": lambda: f(np.ones(4)),
        "named": lambda: f(**{f"no{name}": 1}),
        "missing": lambda: jaxprgen.compile([other], y),
        "twice": lambda: jaxprgen.compile([x, x], y),
        "static": lambda: jaxprgen.compile([x], w)(ones),
        "saved": lambda: jaxprgen.save(folder / "g", f, f"f64[{name}]"),
        "path": lambda: jaxprgen.save(f"{folder}/no{name}/f", f, "f64[3]"),
        "load": lambda: jaxprgen.load(f"{folder}/no{name}"),
    }.items():
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            try:
                wrong()
            except JaxprGenError as error:
                yield label, error
        yield from ((f"warning of {label}", each.message) for each in caught)


@examples(3, quick=0.3)
@given(name=st.text(st.sampled_from([*CONTROLS[:70], *HOSTILE, *FACES]), min_size=1, max_size=12))
@example(name=HOSTILE)
def test_what_users_name_is_shown_on_its_line(name, tmp_path_factory):
    folder = tmp_path_factory.getbasetemp()
    name = name.replace("\0", "\1").replace("/", "")  # No file has these in its name.
    found = {label: str(text) for label, text in texts(folder, name)}
    for label, text in found.items():
        assert text.replace("\n", "").isprintable(), label
        assert not [line for line in text.split("\n") if line.startswith("faked")], label
    harmless = {label: str(text) for label, text in texts(folder, "_" * len(name))}
    for label in found.keys() & harmless.keys() - {"saved", "load"}:
        assert found[label].count("\n") == harmless[label].count("\n"), label


def test_messages_are_visible_whatever_they_are_made_of():
    for kind in (JaxprGenError, *JaxprGenError.__subclasses__()):
        with pytest.raises(JaxprGenError) as caught:
            raise kind(f"a{HOSTILE}\nremedy").at(f"in {HOSTILE}")
        assert str(caught.value).replace("\n", "").isprintable()
