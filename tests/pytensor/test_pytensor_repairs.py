"""Graphs that PyTensor's rewrites repair; see `tests/repairs.py`."""

import pytest
import repairs

pt = pytest.importorskip("pytensor.tensor")  # Not "pytensor", the name of this folder.

import pytensor  # noqa: E402
from pytensor.compile.mode import Mode, optdb  # noqa: E402

release = tuple(map(int, pytensor.__version__.split(".")[:2]))
pytestmark = pytest.mark.skipif(release < (3, 3), reason="PyTensor 3.3 added some of them")


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("repair", repairs.repairs_of("pytensor"), ids=lambda each: each.formula)
def test_what_pytensor_repairs(repair):
    repairs.check(repair, pytensor, pt, Mode)


def test_every_rewrite_is_classified():
    assert not repairs.unclassified(optdb)
