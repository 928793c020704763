"""The code of the README and of the documentation runs and prints the output shown there."""

import runpy
from pathlib import Path

import pytest
from subprocesses import python

ROOT = Path(__file__).parents[1]
DOCS = runpy.run_path(str(ROOT / "docs" / "build.py"))
# The commands of one start processes, and the other two compile for many seconds.
SLOW = ["docs/cost.md", "docs/deploy.md", "docs/scale.md"]
PAGES = [pytest.param(p, marks=[pytest.mark.deep] * (p in SLOW)) for p in DOCS["PAGES"]]


# aeppl asserts that scales are positive and probabilities are between 0 and 1.
@pytest.mark.filterwarnings("ignore::jaxprgen.errors.RuntimeCheckWarning")
@pytest.mark.parametrize("page", PAGES)
def test_a_page_shows_the_output_of_its_code(page, monkeypatch):
    monkeypatch.chdir(ROOT)
    assert DOCS["build"](page) == (ROOT / page).read_text("utf-8")


def test_building_a_page_replaces_outdated_output(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    page = "```python\nfor i in range(3): print(i, i)\n```\n\n```text\n{}\n```\n"
    for shown, right in [("0 0\n1 1\n2 2", True), ("0 0\n...\n2 2", True), ("0 0\n1 1", False)]:
        Path("page.md").write_text(page.format(shown))
        assert DOCS["build"]("page.md") == page.format(shown if right else "0 0\n1 1\n2 2")


def test_building_a_page_answers_the_code_in_its_tables(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    page = (
        "```python\nimport warnings\nx = [1, 2]\n```\n\n| code | answer |\n|---|---|\n{}\nText.\n"
        "```python\nprint(x)\n```\n\n```text\n[3, 2, 0]\n```\n\n| other |\n|---|\n| `x` |\n"
    )
    rows = {
        "x": "`[1, 2]`",
        "x[0] = 3; x": "`[3, 2]`",
        "x.append(0)": "",
        "x[5]": "`IndexError: list index out of range`",
        "raise ValueError('One.\\n  Two.\\n    Three.\\nFour.')": "`ValueError: One. … Four.`",
        "warnings.warn('Mind.'); x": "`UserWarning: Mind.`, `[3, 2, 0]`",
    }
    before = "".join(f"| `{code}` | `old` |\n" for code in rows)
    after = "".join(f"| `{code}` | {answer} |\n" for code, answer in rows.items())
    Path("page.md").write_text(page.format(before))
    assert DOCS["build"]("page.md") == page.format(after)
    Path("page.md").write_text(page.format(before).replace("[3, 2, 0]", "[]"))
    assert DOCS["build"]("page.md") == page.format(after)  # Code after a table runs.


@pytest.mark.parametrize(
    ("script", "shown"),
    [
        ("logistic_regression", "Fit by jax.grad: relative difference from scikit-learn"),
        pytest.param(
            *("regularization_path", "64 fits of 31 parameters in one call"), marks=pytest.mark.deep
        ),
    ],
)
def test_an_example_runs(script, shown):
    """In another process, because it sets JAX's configuration."""
    assert shown in python(f"{script}.py", cwd=ROOT / "examples").stdout
