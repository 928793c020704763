"""How constructors append equations."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias, TypeVar

import numpy as np

from jaxprgen import _jax
from jaxprgen._jax import ShapedArray, Var
from jaxprgen.ir.builder import Atom, Builder

Dtype: TypeAlias = np.dtype[Any]
Shape: TypeAlias = tuple[int, ...]
Construct = TypeVar("Construct", bound=Callable[..., Var])


def append(
    b: Builder,
    name: str,
    operands: Sequence[Atom],
    aval: ShapedArray | None = None,
    /,
    **params: Any,
) -> Var:
    """Append an equation and return its result, whose type is ``aval`` or what JAX infers.

    Options of the installed JAX that this package never sets are added to the parameters.
    """
    return b.bind(_jax.primitive(name), operands, {**params, **_jax.default_params(name)}, aval)


def append_multiple(b: Builder, name: str, operands: Sequence[Atom], /, **params: Any) -> list[Var]:
    """Append an equation with any number of results, and return them."""
    return b.bind_multiple(_jax.primitive(name), operands, params)


def named(construct: Construct, name: str, doc: str) -> Construct:
    """Return a constructor that a factory made, with a name and a docstring."""
    construct.__name__ = construct.__qualname__ = name
    construct.__doc__ = doc
    return construct
