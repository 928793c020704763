"""The pages of the site: figures come from where they say, and examples draw their pictures."""

import re
import runpy
from pathlib import Path

import pytest
from subprocesses import python

ROOT = Path(__file__).parents[1]
DOCS, EXAMPLES = ROOT / "docs", ROOT / "examples"
GALLERY = sorted(path.stem for path in (DOCS / "gallery").glob("*.md") if path.stem != "index")
TABLE = re.compile(r"(?:^\|.*\n)+", re.MULTILINE)
LINK = re.compile(r"\]\(([^)#]+\.md)")


def rows(text):
    """The rows of tables in Markdown, as sets of cells by their first cell, without the heads."""
    found = {}
    for table in TABLE.findall(text):
        for line in table.splitlines()[2:]:
            label, *cells = (cell.strip() for cell in line.strip("|").split(" | "))
            found[label] = {cell.split(":")[0].strip() for cell in cells}
    return found


def test_figures_of_the_page_why_are_those_of_the_pages_that_it_names():
    text = (DOCS / "why.md").read_text("utf-8")
    tables = TABLE.findall(text)
    assert len(tables) == 4
    for table in tables:
        after = text.split(table)[1]
        source = rows((DOCS / LINK.search(after)[1]).read_text("utf-8"))
        for label, cells in rows(table).items():
            assert cells <= source[label], label


def test_each_page_of_the_gallery_has_its_script_its_picture_and_its_entry():
    index = (DOCS / "gallery" / "index.md").read_text("utf-8")
    assert len(GALLERY) >= 8
    for name in GALLERY:
        assert (EXAMPLES / f"{name}.py").exists()
        assert 0 < (DOCS / "gallery" / f"{name}.png").stat().st_size < 60_000
        assert f"({name}.md)" in index and f"\n{name}\n" in index


@pytest.mark.deep
@pytest.mark.parametrize("name", GALLERY)
def test_an_example_draws_its_picture(name, tmp_path):
    pytest.importorskip("matplotlib")
    picture = tmp_path / "picture.png"
    printed = python("-W", "ignore", f"{name}.py", "--plot", picture, cwd=EXAMPLES).stdout
    assert picture.stat().st_size < 60_000
    assert picture.read_bytes().startswith(b"\x89PNG")
    for published in FOUND.get(name, ()):
        assert re.search(published, printed), printed


FOUND = {
    # Durbin and Koopman report 1469.1, 15099 and -632.5.
    "nile": [r"walk and noise: \[ *1469\.\d 1509[89]\.\d\]", r"log-likelihood: -632\.5"],
    # Carpenter reports 0.55, 0.028, 0.80 and 0.024.
    "lynx": [
        r"0\.550 +0\.5[345]",
        r"0\.028 +0\.02[789]",
        r"0\.800 +0\.[78]",
        r"0\.024 +0\.02[345]",
    ],
    "mining": [r"1891:\n.*0\.2[34]\d, exactly 0\.238"],
}


@pytest.mark.deep
@pytest.mark.parametrize("name", ["nile", "tutorial"])
def test_a_notebook_runs(name, tmp_path, monkeypatch):
    nbclient, nbformat = pytest.importorskip("nbclient"), pytest.importorskip("nbformat")
    pytest.importorskip("ipykernel")
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    made = runpy.run_path(str(DOCS / "notebooks.py"))["notebook"](name)
    folder = EXAMPLES if name == "nile" else tmp_path
    executed = nbclient.NotebookClient(
        nbformat.reads(made, 4), timeout=600, resources={"metadata": {"path": str(folder)}}
    ).execute()
    outputs = [output for cell in executed.cells for output in cell.get("outputs", ())]
    text = "".join(output.get("text", "") for output in outputs)
    assert {"nile": "walk and noise: [ 1469", "tutorial": "R-hat 1.0"}[name] in text
    if name == "nile":
        assert any("image/png" in output.get("data", ()) for output in outputs)


def test_what_leads_nowhere_or_loads_from_elsewhere_is_found(tmp_path):
    faults = runpy.run_path(str(DOCS / "check_site.py"))["faults"]
    (tmp_path / "a.html").write_text(
        '<h1 id="here">A</h1><a href="#here"></a><a href="b.html#there"></a><a href="c.html"></a>'
        '<a href="https://example.org"></a><a href="b.html#here"></a>'
        '<script src="//example.org/x.js"></script><img src="b.html">'
    )
    (tmp_path / "b.html").write_text('<p id="there">')
    (tmp_path / "c.css").write_text(
        "@import 'https://example.org/x.css'; a {background: url(b.png)}"
    )
    assert sorted(faults(tmp_path)) == [
        "a.html loads //example.org/x.js",
        "a.html: no anchor b.html#here",
        "a.html: no file c.html",
        "c.css loads https://example.org/x.css",
    ]
