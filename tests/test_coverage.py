"""docs/coverage.md is what it would be written as, and its examples agree with Aesara."""

import importlib.util
import itertools
import zlib
from pathlib import Path

import aesara.tensor as at
import pytest
from aesara.tensor.special import Softmax
from catalogue import FAMILIES
from catalogue.example import example, vector
from catalogue.outcome import case_of, compare, compare_together, outcome_of
from profiles import is_deep, sample

ROOT = Path(__file__).parents[1]
SPEC = importlib.util.spec_from_file_location("docs_coverage", ROOT / "docs" / "coverage.py")
COVERAGE = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(COVERAGE)


NOT_BUILT = {"ConnectionistTemporalClassification", "ConvolutionIndices", "CorrMM"}
"""Of which Aesara makes no node: it fails itself."""
WITHOUT_PYTHON = {"GradTodo", "MPIRecv", "MPIRecvWait", "MPISend", "MPISendWait", "SymPyCCode"}
"""Whose Python implementation fails or is none, and which no other Op means the same as."""


@pytest.fixture(scope="module")
def rows():
    """Every Op has an example: else this fails.

    In a quick run, the rows are those of a few Ops of each family.
    """
    tried = {op for some in FAMILIES.values() for op in sample({item.op: None for item in some}, 2)}
    return COVERAGE.rows(tried.__contains__)


def test_the_page_is_what_it_would_be_written_as(rows):
    page = COVERAGE.PAGE.read_text("utf-8")
    for row in itertools.chain(*rows.values()):
        assert COVERAGE.table(row.cells(), []).splitlines()[0] in page.splitlines()
    if is_deep():
        assert COVERAGE.page(rows) == page


def test_every_op_is_answered():
    """Every Op without a rule states a reason and a remedy, or runs in Python on the host."""
    table = COVERAGE.PAGE.read_text("utf-8").split("\n## Scalar functions")[1]
    cells = [line.split(" | ") for line in table.splitlines() if line.startswith("| `")]
    assert len(cells) == len({(op, module) for op, module, *_ in cells})
    for op, _, handled, _, why in cells:
        if handled == "refused":
            assert "; instead: " in why, op
        else:
            assert "no rule" not in why or handled == "called back", op


def test_examples_are_of_their_ops_and_have_values(rows):
    """One that lacks its Op, or that Aesara computes nothing of, would say nothing."""
    found = {row.op.__name__: row for family in FAMILIES for row in rows[family]}
    not_built = {name for name, row in found.items() if row.hows == ["not built"]}
    without = {
        name for name, row in found.items() for _, each in row.found if not any(each.values())
    }
    assert not_built == NOT_BUILT & set(found)
    assert without - NOT_BUILT == WITHOUT_PYTHON & set(found)


def test_an_op_without_an_example_is_noticed(monkeypatch):
    monkeypatch.setattr(COVERAGE, "every_op", lambda: {Softmax})
    monkeypatch.setattr(COVERAGE, "FAMILIES", {})
    with pytest.raises(LookupError, match=r"no example of aesara\.tensor\.special\.Softmax"):
        COVERAGE.rows()


def cases_of(item):
    """Double precision, where an Op takes it, and another dtype that the Op's name decides.

    A quick run tries one of the two.
    """
    names = [d for d in item.dtypes if d != "float64"]
    number = zlib.crc32(item.op.__name__.encode())
    start = number % max(len(names), 1)
    other = (case_of(item, d) for d in [*names[start:], *names[:start]])
    other = next((case for case in other if case and case.wanted), None)
    both = [case for case in (case_of(item, "float64"), other) if case and case.wanted]
    return both if is_deep() or not both else [both[number % len(both)]]


@pytest.mark.parametrize("family", FAMILIES)
def test_examples_agree_with_aesara(family):
    cases = [case for item in FAMILIES[family] for case in cases_of(item)]
    if is_deep():
        for case in cases:
            if outcome_of(case).how != "refused":
                compare(case)
    else:
        compare_together(cases)


@pytest.mark.parametrize("check", [compare, lambda case: compare_together([case])])
def test_a_wrong_value_is_noticed(check):
    wrong = example(Softmax, Softmax(-1), vector, meaning=at.exp)
    with pytest.raises(AssertionError, match="Softmax of float32"):
        check(case_of(wrong, "float32"))
