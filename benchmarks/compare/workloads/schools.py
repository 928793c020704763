"""Eight schools (Rubin, 1981), the non-centred model: the log-density and its gradient.

The parameters are mu, log(tau) and z; the density is that of the logarithm. Data are constants.
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from compare.workloads.densities import half_cauchy, normal, standard_normal

EFFECTS = np.array([28.0, 8, -3, 7, -1, 1, 18, 12])
ERRORS = np.array([15.0, 10, 16, 11, 9, 11, 10, 18])
NAMES = ["mu", "tau", "z"]
"""The parameters, as NumPyro names them."""


def density(lib: Any, mu: Any, log_tau: Any, z: Any) -> Any:
    """Return the log-density of the parameters and the data."""
    tau = lib.exp(log_tau)
    return (
        normal(lib, mu, 0.0, 5.0)
        + half_cauchy(lib, tau, 5.0)
        + log_tau
        + lib.sum(standard_normal(lib, z))
        + lib.sum(normal(lib, EFFECTS, mu + tau * z, ERRORS))
    )


def graph(library: Any) -> tuple[list[Any], list[Any]]:
    """Return the log-density, and its gradient with respect to all parameters."""
    lib = library.tensor
    inputs = [lib.dscalar("mu"), lib.dscalar("log_tau"), lib.dvector("z")]
    value = density(lib, *inputs)
    return inputs, [value, *library.grad(value, inputs)]


by_hand = jax.value_and_grad(lambda *parameters: density(jnp, *parameters), (0, 1, 2))


def numpyro_model() -> None:
    """Make the model in NumPyro."""
    import numpyro.distributions as dist
    from numpyro import sample

    mu = sample("mu", dist.Normal(0, 5))
    tau = sample("tau", dist.HalfCauchy(5))
    z = sample("z", dist.Normal(0, 1).expand([8]))
    sample("y", dist.Normal(mu + tau * z, ERRORS), obs=EFFECTS)


def numpyro() -> Callable[..., Any]:
    """Return NumPyro's negative log-density, with its gradient."""
    from compare.numpyro_models import potential

    return potential(numpyro_model, NAMES)


def arguments() -> tuple[Any, ...]:
    """Return a point."""
    return np.asarray(4.0), np.asarray(1.2), np.linspace(-1.0, 1.0, 8)
