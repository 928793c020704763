"""Let pages of the site link to files of the repository, as they do when they are read there.

A link to a file outside of ``docs``, such as ``../examples/gibbs.py``, becomes a link to a page
with that file. README, CONTRIBUTING and CHANGELOG are pages of the site themselves: a page of
``docs`` that consists of ``<!-- the text of ../FILE.md -->`` shows the file.
"""

import os
import re
from collections.abc import Iterator
from pathlib import Path

import notebooks
from sphinx.application import Sphinx

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = {
    "README.md": "index.md",
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changelog.md",
}
"""The pages that show files from outside of ``docs``."""
SHOWN = re.compile(r"^<!-- the text of \.\./(\w+\.md)(?:, up to (.+?))? -->$", re.MULTILINE)
CODE = re.compile(r"^(```+|~~~+).*?^\1", re.DOTALL | re.MULTILINE)
LINK = re.compile(r"(?P<image>!?)\[(?P<text>(?:[^\[\]]|\[[^\]]*\])*)\]\((?P<target>[^)\s]+)\)")
LEXERS = {".py": "python", ".md": "markdown", ".toml": "toml"}


def read(app: Sphinx, docname: str, source: list[str]) -> None:
    """Insert the files that a page shows, and mend its links."""
    place = Path(app.env.doc2path(docname))
    if place.suffix == ".md":
        text = mended(app, source[0] + download(f"docs/{docname}.md", docname), place, place)
        source[0] = SHOWN.sub(lambda shown: of_file(app, shown, place), text)


def download(file: str, docname: str) -> str:
    """Return a link to the notebook that a file is the source of, or nothing."""
    for name, source in notebooks.SOURCES.items():
        if source == file:
            up = "../" * docname.count("/")
            link = f'<a href="{up}notebooks/{name}.ipynb" download>Download as a notebook</a>'
            return f"\n<p>{link}</p>\n"
    return ""


def of_file(app: Sphinx, shown: re.Match[str], page: Path) -> str:
    """Return the text of a file that a page shows."""
    file = ROOT / shown[1]
    text = file.read_text("utf-8")
    if shown[2]:
        if shown[2] not in text:
            raise ValueError(f"{file} has no line {shown[2]}")
        text = text.split(shown[2])[0]
    return mended(app, text, file, page)


def mended(app: Sphinx, text: str, origin: Path, page: Path) -> str:
    """Return text of the file ``origin`` with links that work on a page of the site."""
    parts, end = [], 0
    for code in CODE.finditer(text):
        parts += [LINK.sub(lambda x: link(app, x, origin, page), text[end : code.start()]), code[0]]
        end = code.end()
    return "".join([*parts, LINK.sub(lambda x: link(app, x, origin, page), text[end:])])


def link(app: Sphinx, found: re.Match[str], origin: Path, page: Path) -> str:
    """Return a link as it is on a page of the site."""
    target, _, anchor = found["target"].partition("#")
    if not target or ":" in target:
        return found[0]
    path = Path(os.path.normpath(origin.parent / target))
    if not path.exists():
        return found[0]  # Sphinx warns.
    name = path.relative_to(ROOT).as_posix()
    path = DOCS / PAGES[name] if name in PAGES else path
    if path.is_relative_to(DOCS) and path.suffix != ".py":
        target = os.path.relpath(path, page.parent) + (f"#{anchor}" if anchor else "")
        return f"{found['image']}[{found['text']}]({target})"
    app.env.repository_files.add(name)
    place = os.path.relpath(DOCS / "source" / f"{name}.html", page.parent)
    return f'<a class="reference internal" href="{place}">{found["text"]}</a>'


def pages(app: Sphinx) -> Iterator[tuple[str, dict[str, str], str]]:
    """Yield a page for each file or folder that a page links to."""
    for name in sorted(app.env.repository_files):
        path = ROOT / name
        inside = path.iterdir() if path.is_dir() else [path]
        files = sorted(file for file in inside if file.suffix in LEXERS or file == path)
        body = f"<h1>{name}</h1>\n" + download(name, f"source/{name}")
        for file in files:
            if file != path:
                body += f'<h2 id="{file.name}">{file.name}</h2>\n'
            language = LEXERS.get(file.suffix, "text")
            body += app.builder.highlighter.highlight_block(file.read_text("utf-8"), language)
        yield f"source/{name}", {"title": name, "body": body}, "page.html"


def finish(app: Sphinx, exception: Exception | None) -> None:
    """Write the notebooks beside the pages."""
    if exception is None:
        notebooks.write(Path(app.outdir) / "notebooks")


def start(app: Sphinx) -> None:
    """Remember which files are linked to."""
    app.env.repository_files = set()


def setup(app: Sphinx) -> dict[str, bool]:
    """Connect to Sphinx."""
    app.connect("builder-inited", start)
    app.connect("source-read", read)
    app.connect("html-collect-pages", pages)
    app.connect("build-finished", finish)
    return {"parallel_read_safe": False}
