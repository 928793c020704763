"""The function that NumPyro's samplers evaluate."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any


def potential(model: Callable[[], None], names: Sequence[str]) -> Callable[..., Any]:
    """Return the negative log-density of unconstrained parameters, with its gradient."""
    import jax
    from numpyro.infer.util import initialize_model

    found = initialize_model(jax.random.key(0), model)

    def energy(parameters: Sequence[Any]) -> Any:
        return found.potential_fn(dict(zip(names, parameters, strict=True)))

    return lambda *parameters: jax.value_and_grad(energy)(parameters)
