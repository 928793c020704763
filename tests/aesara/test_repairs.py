"""Graphs that Aesara's rewrites repair; see `tests/repairs.py`."""

import aesara
import aesara.tensor as at
import pytest
import repairs
from aesara.compile.mode import Mode, optdb


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("repair", repairs.repairs_of("aesara"), ids=lambda each: each.formula)
def test_what_aesara_repairs(repair):
    repairs.check(repair, aesara, at, Mode)


def test_every_rewrite_is_classified():
    assert not repairs.unclassified(optdb)
