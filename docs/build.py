"""Run the code of the README and of the documentation, and write its output into the pages.

Run this from the root of the repository: ``python docs/build.py``, for all pages or for those that
are named after it. A block of text that follows a
block of code holds the output of that code. A block that still matches the output is kept; ``...``
in it matches anything, for output that differs from run to run. In a table with the heading
``| code | answer |``, each answer is what the code in its row does.
"""

import contextlib
import doctest
import importlib.util
import io
import os
import re
import subprocess
import sys
import warnings
from pathlib import Path

os.environ.setdefault("XLA_FLAGS", "--xla_force_host_platform_device_count=8")  # For scale.md.
NAMES = (
    "tutorial",
    "semantics",
    "models",
    "loops",
    "shared",
    "sparse",
    "versions",
    "deploy",
    "scale",
    "reading",
)
NAMES += ("cost", "ops", "rewriting", "repeats", "interpreters")
if getattr(importlib.util.find_spec("pymc"), "origin", None):  # Not a folder of that name.
    NAMES += ("pymc",)
PAGES = ("README.md", *(f"docs/{name}.md" for name in NAMES))
BLOCKS = re.compile(
    r"^```(python|sh|text)\n(.*?)^```"
    r"|^\| code \| answer \|\n\|---\|---\|\n(?P<rows>(?:\|[^\n]*\n)+)",
    re.DOTALL | re.MULTILINE,
)
ROW = re.compile(r"^\| `(.*?)` \|.*$", re.MULTILINE)
ALIKE = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
SETS_UP = re.compile(r"^(make|pip) ", re.MULTILINE)
"""Marks a block of commands that only a reader runs."""


def build(page: str) -> str:
    """Return the page with the current output of its code."""
    source = Path(page).read_text("utf-8")
    namespace, printed = {}, ""

    def fresh(match: re.Match[str]) -> str:
        nonlocal printed
        language, text, rows = match.groups()
        if rows:
            answered = ROW.sub(lambda row: answer(row, page, namespace), rows)
            return match[0].removesuffix(rows) + answered
        if language != "text":
            printed = ""
        if language == "python":
            printed = run_python(text, page, source.count("\n", 0, match.start(2)), namespace)
        elif language == "sh" and not SETS_UP.search(text):
            printed = run_shell(text)
        elif language == "text" and not doctest.OutputChecker().check_output(text, printed, ALIKE):
            return f"```text\n{printed.rstrip()}\n```"
        return match[0]

    return BLOCKS.sub(fresh, source)


def run_python(text: str, page: str, line: int, namespace: dict[str, object]) -> str:
    """Return the output of Python code, compiled with its line numbers in the page."""
    with contextlib.redirect_stdout(io.StringIO()) as out:
        exec(compile("\n" * line + text, page, "exec"), namespace)
    return out.getvalue()


def answer(row: re.Match[str], page: str, namespace: dict[str, object]) -> str:
    """Return a row of a table with what its code shows, warns of or raises."""
    shown = io.StringIO()
    with warnings.catch_warnings(record=True) as caught, contextlib.redirect_stdout(shown):
        warnings.simplefilter("always")
        try:
            exec(compile(row[1], page, "single"), namespace)
        except Exception as error:
            print(message(error))
    texts = [*(message(warning.message) for warning in caught), shown.getvalue().strip()]
    answers = ", ".join(f"`{' '.join(text.split())}`" for text in texts if text)
    return f"| `{row[1]}` | {answers} |"


def message(error: BaseException) -> str:
    """Return the class and the text of an error, with an ellipsis for indented lines."""
    text = re.sub(r"(\n  .*)+", " …", str(error)).replace("\n", " ")
    return f"{type(error).__name__}: {text}"


def run_shell(text: str) -> str:
    """Return the output of shell commands, for which `python` is the one that runs this."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        ["sh", "-ec", text], stdout=subprocess.PIPE, text=True, env={**os.environ, "PATH": path}
    )
    done.check_returncode()
    return done.stdout


if __name__ == "__main__":
    for page in sys.argv[1:] or PAGES:
        Path(page).write_text(build(page), "utf-8")
