"""Write docs/repairs.md, the graphs that rewrites of Aesara and PyTensor repair.

``python docs/repairs.py`` needs neither library: the tests check what the table says.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parents[1] / "tests")]

from repairs import REPAIRS, Repair  # noqa: E402

PAGE = Path(__file__).with_name("repairs.md")
HEAD = """\
# Repairs

The default modes of Aesara and PyTensor rewrite graphs, and so repair formulas that overflow or
cancel as they are written. jaxprgen applies none of these rewrites. Its passes `Stabilize`,
`SinkZeros` and `GuardBranches` do the same on programs.

This page lists a small graph for each rewrite that repairs one. As written, in the library's Python
mode, it is NaN, infinite or inaccurate at a point shown. The tests check that, and that the
library's mode `FAST_RUN` and jaxprgen compute the right number. `D` is the gradient with respect to
`x`, as the library writes it. For other graphs, `jax.grad` is right as well. `tests/repairs.py`
also names all other rewrites that canonicalize, stabilize or specialize graphs;
`python docs/repairs.py` writes this page from it.

A repair is left out if it makes the result of other numbers worse, or hides a NaN.

"""


def row(repair: Repair) -> str:
    """Return the row of a repair."""
    at = "x = " + ", ".join(f"{v:g}" for v in repair.x)
    at += "; y = " + ", ".join(f"{v:g}" for v in repair.y) if repair.y else ""
    names = ", ".join(f"`{name}`" for name in repair.rewrites.split())
    library = {"aesara": "Aesara", "pytensor": "PyTensor"}.get(repair.only, "both")
    right = ", ".join(f"{v:.6g}" for v in repair.right)
    ours = f"as written: {repair.refused}" if repair.refused else "right"
    return f"| `{repair.formula}` | {at} | {right} | {names} | {library} | {ours} |\n"


def page() -> str:
    """Write the page."""
    left = sum(bool(repair.refused) for repair in REPAIRS)
    count = f"Of {len(REPAIRS)} graphs, jaxprgen repairs {len(REPAIRS) - left}.\n\n"
    head = "| Formula | At | Right | Rewrites | Repaired by | jaxprgen |\n" + "| --- " * 6 + "|\n"
    return HEAD + count + head + "".join(map(row, REPAIRS))


if __name__ == "__main__":
    PAGE.write_text(page(), "utf-8")
