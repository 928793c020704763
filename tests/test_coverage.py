"""docs/coverage.md is what it would be written as, and its examples agree with Aesara."""

import importlib.util
import zlib
from pathlib import Path

import aesara.tensor as at
import pytest
from aesara.tensor.special import Softmax
from catalogue import FAMILIES
from catalogue.example import example, vector
from catalogue.outcome import case_of, compare, outcome_of

ROOT = Path(__file__).parents[1]
SPEC = importlib.util.spec_from_file_location("docs_coverage", ROOT / "docs" / "coverage.py")
COVERAGE = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(COVERAGE)


NOT_BUILT = {"ConnectionistTemporalClassification", "CorrMM"}
"""Of which Aesara makes no node: it fails itself."""
WITHOUT_PYTHON = {"GradTodo", "JAXShapeTuple", "SymPyCCode"}
"""Whose Python implementation fails or is none, and which no other Op means the same as."""


@pytest.fixture(scope="module")
def rows():
    """Every Op has an example, or is of a later family: else this fails."""
    return COVERAGE.rows()


def test_the_page_is_what_it_would_be_written_as(rows):
    assert COVERAGE.page(rows) == COVERAGE.PAGE.read_text("utf-8")


def test_examples_are_of_their_ops_and_have_values(rows):
    """One that lacks its Op, or that Aesara computes nothing of, would say nothing."""
    found = {row.op.__name__: row for family in FAMILIES for row in rows[family]}
    assert {name for name, row in found.items() if row.hows == ["not built"]} == NOT_BUILT
    without = {
        name for name, row in found.items() for _, each in row.found if not any(each.values())
    }
    assert without - NOT_BUILT == WITHOUT_PYTHON


def test_an_op_without_an_example_is_noticed(monkeypatch):
    monkeypatch.setattr(COVERAGE, "every_op", lambda: {Softmax})
    monkeypatch.setattr(COVERAGE, "FAMILIES", {})
    with pytest.raises(LookupError, match=r"no example of aesara\.tensor\.special\.Softmax"):
        COVERAGE.rows()


def sample(item):
    """Double precision, where an Op takes it, and another dtype that the Op's name decides."""
    names = [d for d in item.dtypes if d != "float64"]
    start = zlib.crc32(item.op.__name__.encode()) % max(len(names), 1)
    other = (case_of(item, d) for d in [*names[start:], *names[:start]])
    other = next((case for case in other if case and case.wanted), None)
    return [case for case in (case_of(item, "float64"), other) if case and case.wanted]


@pytest.mark.parametrize("family", FAMILIES)
def test_examples_agree_with_aesara(family):
    cases = [case for item in FAMILIES[family] for case in sample(item)]
    for case in cases:
        if outcome_of(case).how != "refused":
            compare(case)


def test_a_wrong_value_is_noticed():
    wrong = example(Softmax, Softmax(-1), vector, meaning=at.exp)
    with pytest.raises(AssertionError, match="Softmax of float32"):
        compare(case_of(wrong, "float32"))
