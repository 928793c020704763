"""Puts into the README and the documentation what their code prints.

Run it from the repository's root: ``python docs/build.py``. A block of text behind a block of
code is what that prints; one that still matches, where ``...`` stands for anything, is kept. (Put
it where what is printed is another each time.)
"""

import contextlib
import doctest
import io
import os
import re
import subprocess
import sys
from pathlib import Path

NAMES = ("reading", "rewriting", "cost", "interpreters")
PAGES = ("README.md", *(f"docs/{name}.md" for name in NAMES))
BLOCKS = re.compile(r"^```(python|sh|text)\n(.*?)^```", re.DOTALL | re.MULTILINE)
ALIKE = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
SETS_UP = re.compile(r"^make ", re.MULTILINE)
"""Commands that are for a reader alone."""


def build(page: str) -> str:
    """The page with the text that its code prints now."""
    source = Path(page).read_text("utf-8")
    namespace, printed = {}, ""

    def fresh(match: re.Match[str]) -> str:
        nonlocal printed
        language, text = match.groups()
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
    """What the code prints. It stands on its own lines of the page: programs mention them."""
    with contextlib.redirect_stdout(io.StringIO()) as out:
        exec(compile("\n" * line + text, page, "exec"), namespace)
    return out.getvalue()


def run_shell(text: str) -> str:
    """What the commands print, with the Python that runs this."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        ["sh", "-ec", text], stdout=subprocess.PIPE, text=True, env={**os.environ, "PATH": path}
    )
    done.check_returncode()
    return done.stdout


if __name__ == "__main__":
    for page in PAGES:
        Path(page).write_text(build(page), "utf-8")
