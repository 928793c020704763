"""aehmc's samplers, as one program each, find what is known, and what BlackJAX finds."""

import aesara.tensor as at
import jax
import numpy as np
import pytest
from test_sampling import assert_alike, assert_means

import jaxprgen

# NUTS writes to the rows of a tree's ends, at depths that only the program knows.
pytestmark = pytest.mark.filterwarnings("ignore::jaxprgen.errors.RuntimeCheckWarning")


@pytest.mark.deep
def test_eight_schools_by_kernels_of_aehmc(kernels, capsys):
    found = kernels.main()
    assert list(found) == ["HMC", "NUTS"]
    for draws in found.values():
        for i, mean in enumerate(kernels.exact_means()):
            assert_means(draws[..., i], mean)
    assert "NUTS: one program of" in capsys.readouterr().out
    others = by_blackjax(kernels)
    assert others.shape == found["NUTS"].shape
    for i in range(len(kernels.NAMES)):
        assert_alike(found["NUTS"][..., i], others[..., i])


def by_blackjax(kernels):
    """As many draws of the same model, by BlackJAX's NUTS with the same size of steps."""
    import blackjax  # By now; what else it warns of is ignored where the examples are imported.

    q = at.dvector("q")
    logdensity = jaxprgen.compile([q], kernels.log_density(q))
    kernel = blackjax.nuts.build_kernel()

    def step(key, q, size):
        state = blackjax.nuts.init(q, logdensity)
        return kernel(key, state, logdensity, size, np.ones(10))[0].position

    return kernels.quantities(kernels.sample(step, kernels.SIZES["NUTS"], jax.random.key(9)))
