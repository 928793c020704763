"""Graphs that PyTensor's rewrites repair; see `tests/repairs.py`."""

import pytensor
import pytensor.tensor as pt
import pytest
import repairs
from pytensor.compile.mode import Mode, optdb


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("repair", repairs.repairs_of("pytensor"), ids=lambda each: each.formula)
def test_what_pytensor_repairs(repair):
    repairs.check(repair, pytensor, pt, Mode)


def test_every_rewrite_is_classified():
    assert not repairs.unclassified(optdb)
