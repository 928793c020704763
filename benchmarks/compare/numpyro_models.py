"""What NumPyro's samplers compute of a model."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any


def potential(model: Callable[[], None], names: Sequence[str]) -> Callable[..., Any]:
    """The negative log-density of unconstrained parameters, in order, and its gradient."""
    import jax
    from numpyro.infer.util import initialize_model

    found = initialize_model(jax.random.key(0), model)

    def energy(parameters: Sequence[Any]) -> Any:
        return found.potential_fn(dict(zip(names, parameters, strict=True)))

    return lambda *parameters: jax.value_and_grad(energy)(parameters)
