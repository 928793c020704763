"""PyMC's models as JAX functions of points, and PyMC's samplers on programs of this package.

Import this module by itself: ``import jaxprgen.pymc``. It imports PyMC.
"""

from jaxprgen.pymc import random as random, rules as rules
from jaxprgen.pymc.functions import (
    ModelFunction as ModelFunction,
    RandomModelFunction as RandomModelFunction,
    dlogp as dlogp,
    logp as logp,
    posterior_predictive as posterior_predictive,
    prior as prior,
)
from jaxprgen.pymc.many import over_draws as over_draws
from jaxprgen.pymc.sampling import sampling as sampling

__all__ = [
    "ModelFunction",
    "RandomModelFunction",
    "dlogp",
    "logp",
    "over_draws",
    "posterior_predictive",
    "prior",
    "sampling",
]
