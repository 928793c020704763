"""Functions of PyTensor's shared variables, in threads: `tests/runtime` says the rest."""

import numpy as np
import pytest
from profiles import amount
from transactions import assert_calls_are_one_after_the_other

import jaxprgen

pytensor = pytest.importorskip("pytensor")
pt = pytest.importorskip("pytensor.tensor")

from pytensor.compile.mode import Mode  # noqa: E402


@pytest.mark.parametrize("seed", range(amount(quick=1, deep=20)))
def test_random_functions_in_threads_run_one_after_the_other(seed):
    calls = amount(quick=40, deep=400)
    assert_calls_are_one_after_the_other(pytensor, seed, threads=4, calls=calls)


MODES = {
    "py": Mode(linker="py", optimizer="fast_run"),
    "numba": "NUMBA",
    "not in place": Mode(linker="py", optimizer="fast_compile"),
}


@pytest.mark.parametrize("mode", MODES.values(), ids=MODES)
@pytest.mark.parametrize("first", ["theirs", "ours", "ours runs"])
def test_functions_of_pytensor_go_on_after_updates(mode, first):
    shared = pytensor.shared(np.zeros(3), name="w")

    def theirs():
        new = pt.inc_subtensor(shared[0], 1)
        return pytensor.function([], None, updates={shared: new}, mode=mode)

    step = theirs() if first == "theirs" else None
    add = jaxprgen.function([], shared[0], updates={shared: shared + 10})
    if first == "ours runs":
        add()
        shared.set_value(np.zeros(3))
    step, kind, expected = step or theirs(), type(shared.container), 0.0
    for call, more in ((step, 1), (add, 10), (add, 10), (step, 1), (step, 1), (add, 10)):
        call()
        expected += more
        assert shared.get_value()[0] == expected
    assert type(shared.container) is kind
