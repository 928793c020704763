"""Write pages and examples as notebooks: ``python docs/notebooks.py FOLDER``. It needs Jupytext."""

import re
import sys
from pathlib import Path

import jupytext

ROOT = Path(__file__).parents[1]
SOURCES = {"tutorial": "docs/tutorial.md", "nile": "examples/nile.py"}
"""The file that each notebook is made of."""
OUTPUT = re.compile(r"^```text\n.*?^```\n", re.DOTALL | re.MULTILINE)


def notebook(name: str) -> str:
    """Return a notebook, not yet executed, as JSON."""
    path = ROOT / SOURCES[name]
    text = path.read_text("utf-8")
    if path.suffix == ".md":
        # Running it shows the output anew. The commands of a shell are for a terminal.
        text = OUTPUT.sub("", text).replace("```sh\n", "```console\n")
    made = jupytext.reads(text, fmt="md" if path.suffix == ".md" else "py:percent")
    kernel = {"name": "python3", "display_name": "Python 3", "language": "python"}
    made.metadata["kernelspec"] = kernel
    for number, cell in enumerate(made.cells):
        cell["id"] = f"cell-{number}"  # Jupytext draws them at random.
    return jupytext.writes(made, fmt="ipynb")


def write(folder: Path) -> None:
    """Write all notebooks to a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in SOURCES:
        (folder / f"{name}.ipynb").write_text(notebook(name), "utf-8")


if __name__ == "__main__":
    write(Path(sys.argv[1]))
