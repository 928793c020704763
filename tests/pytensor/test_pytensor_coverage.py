"""docs/coverage-pytensor.md is what it would be written as, and every Op has a rule or a reason."""

import importlib.util
import re
from pathlib import Path

import pytest

pytensor = pytest.importorskip("pytensor")
pytest.importorskip("pytensor.tensor")

DOCS = Path(__file__).parents[2] / "docs"


@pytest.fixture(scope="module")
def coverage():
    spec = importlib.util.spec_from_file_location("coverage", DOCS / "coverage_pytensor.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.filterwarnings("ignore")
def test_the_page_is_what_it_would_be_written_as(coverage):
    rows = coverage.rows()  # Which raises if an Op has neither a rule nor a reason.
    text = coverage.PAGE.read_text("utf-8")
    version = re.search(r"PyTensor (\d+\.\d+\.\d+)", text)[1]
    if version != pytensor.__version__:
        pytest.skip(f"The page is about PyTensor {version}.")
    assert coverage.page(rows) == text


def test_an_op_without_a_rule_or_reason_is_noticed(coverage, monkeypatch):
    from pytensor.tensor.linalg.decomposition.schur import QZ

    assert coverage.row_of(QZ).reason
    monkeypatch.setattr(coverage, "REASONS", {})
    with pytest.raises(LookupError, match=r"schur\.QZ has no rule, and no reason"):
        coverage.row_of(QZ)
