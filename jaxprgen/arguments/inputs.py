"""The declared types of inputs."""

from __future__ import annotations

import inspect
import keyword
import re
from collections.abc import Container, Mapping, Sequence
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

    @property
    def is_key(self) -> bool:
        """Whether it is the key from which a program draws random numbers."""
        return self.dtype is KEY

    def type_text(self) -> str:
        """Return the declared type, as in ``float64[3, ?]``."""
        if self.dtype is KEY:
            return "PRNG key"
        sizes = ", ".join("?" if n is None else str(n) for n in self.shape)
        return f"{self.dtype}[{sizes}]"


def signature(names: Sequence[str], defaults: Mapping[int, Any] | None = None) -> inspect.Signature:
    """Return the signature of arguments with these names, where Python allows them.

    An argument whose name is not usable, such as one of a variable without a name, is called
    ``argument_i`` by its position. All arguments after the first of the ``defaults``, which are by
    position, have a default.
    """
    taken: dict[str, None] = {}  # In order.
    for i, given in enumerate(names):
        name = re.sub(r"\W", "_", given)
        usable = name.isidentifier() and not keyword.iskeyword(name) and name not in taken
        usable = usable and not given.startswith("<")  # As `name_of` writes unnamed variables.
        taken[name if usable else free_name(f"argument_{i}", taken)] = None
    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    defaults = defaults or {}
    first = min(defaults, default=len(names))
    given = [defaults.get(i) if i >= first else inspect.Parameter.empty for i in range(len(names))]
    parameters = zip(taken, given, strict=True)
    return inspect.Signature([inspect.Parameter(n, kind, default=x) for n, x in parameters])


def free_name(name: str, taken: Container[str], number: int = 1) -> str:
    """Return a name that is not taken: this one, or it with the first free number from one on."""
    free = name
    while free in taken:
        free, number = f"{name}_{number}", number + 1
    return free
