"""The declared types of inputs."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import numpy as np

KEY: Any = jax.dtypes.prng_key
"""The dtype of the input from which a program draws random numbers."""


class Input(NamedTuple):
    """The name and the declared type of an input; open sizes are None."""

    name: str
    dtype: np.dtype[Any]
    shape: tuple[int | None, ...]

    def type_text(self) -> str:
        """Return the declared type, as in ``float64[3, ?]``."""
        if self.dtype is KEY:
            return "PRNG key"
        sizes = ", ".join("?" if n is None else str(n) for n in self.shape)
        return f"{self.dtype}[{sizes}]"
