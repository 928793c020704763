"""aehmc's samplers, as one program each, find what is known."""

import pytest
from test_sampling import assert_means

# NUTS writes to the rows of a tree's ends, at depths that only the program knows.
pytestmark = pytest.mark.filterwarnings("ignore::jaxprgen.errors.RuntimeCheckWarning")


def test_eight_schools_by_kernels_of_aehmc(kernels, capsys):
    found = kernels.main()
    assert list(found) == ["HMC", "NUTS"]
    for draws in found.values():
        for i, mean in enumerate(kernels.exact_means()):
            assert_means(draws[..., i], mean)
    assert "NUTS: one program of" in capsys.readouterr().out
