"""Radon in houses: 919 observations in 85 counties, whose intercepts have a common prior.

The model is the hierarchical one of Gelman and Hill, Data Analysis Using Regression and
Multilevel/Hierarchical Models (2007), chapter 12, non-centred, of synthetic data of that size. The
parameters are the mean of the intercepts, the slope, the logarithms of both deviations, and the
standardized intercepts. Data are constants.
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from compare.workloads.densities import half_normal, normal, standard_normal

HOUSES, COUNTIES = 919, 85


def data() -> tuple[Any, Any, Any]:
    """Return counties, floors, and logarithms of the measurements."""
    rng = np.random.default_rng(1)
    counties = np.concatenate([np.arange(COUNTIES), rng.integers(0, COUNTIES, HOUSES - COUNTIES)])
    floors = rng.integers(0, 2, HOUSES) * 1.0
    intercepts = rng.normal(1.5, 0.3, COUNTIES)
    return counties, floors, intercepts[counties] - 0.7 * floors + rng.normal(0, 0.8, HOUSES)


COUNTY, FLOOR, RADON = data()
NAMES = ["mean", "slope", "between", "within", "z"]
"""The parameters, as NumPyro names them."""


def density(
    lib: Any, mean: Any, slope: Any, log_between: Any, log_within: Any, intercepts: Any
) -> Any:
    """Return the log-density of the parameters and the data."""
    between, within = lib.exp(log_between), lib.exp(log_within)
    return (
        normal(lib, mean, 0.0, 10.0)
        + normal(lib, slope, 0.0, 10.0)
        + half_normal(lib, between, 5.0)
        + log_between
        + half_normal(lib, within, 5.0)
        + log_within
        + lib.sum(standard_normal(lib, intercepts))
        + lib.sum(normal(lib, RADON, (mean + between * intercepts)[COUNTY] + slope * FLOOR, within))
    )


def graph(library: Any) -> tuple[list[Any], list[Any]]:
    """Return the log-density, and its gradient with respect to all parameters."""
    lib = library.tensor
    names = "mean", "slope", "log_between", "log_within"
    inputs = [*map(lib.dscalar, names), lib.dvector("intercepts")]
    value = density(lib, *inputs)
    return inputs, [value, *library.grad(value, inputs)]


by_hand = jax.value_and_grad(lambda *parameters: density(jnp, *parameters), (0, 1, 2, 3, 4))


def numpyro_model() -> None:
    """Make the model in NumPyro."""
    import numpyro.distributions as dist
    from numpyro import sample

    mean, slope = sample("mean", dist.Normal(0, 10)), sample("slope", dist.Normal(0, 10))
    between, within = (
        sample("between", dist.HalfNormal(5)),
        sample("within", dist.HalfNormal(5)),
    )
    z = sample("z", dist.Normal(0, 1).expand([COUNTIES]))
    expected = (mean + between * z)[COUNTY] + slope * FLOOR
    sample("radon", dist.Normal(expected, within), obs=RADON)


def numpyro() -> Callable[..., Any]:
    """Return NumPyro's negative log-density, with its gradient."""
    from compare.numpyro_models import potential

    return potential(numpyro_model, NAMES)


def arguments() -> tuple[Any, ...]:
    """Return a point."""
    return *map(np.asarray, (1.4, -0.6, -1.1, -0.2)), np.linspace(-1.5, 1.5, COUNTIES)
