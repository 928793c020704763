"""Random bits from PRNG keys: the counter-based generators of `jax.random`."""

from __future__ import annotations

from typing import Any

from jaxprgen._jax import Var
from jaxprgen.ir.builder import Atom, Builder
from jaxprgen.ir.primitives.appending import Shape, append


def random_wrap(b: Builder, data: Atom, impl: Any) -> Var:
    """Return the typed key of a legacy key's ``uint32`` data.

    ``impl`` is JAX's description of a generator, as in `random_seed`.
    """
    return append(b, "random_wrap", (data,), impl=impl)


def random_seed(b: Builder, seed: Atom, impl: Any) -> Var:
    """Return the key of an integer scalar."""
    return append(b, "random_seed", (seed,), impl=impl)


def random_fold_in(b: Builder, key: Atom, data: Atom) -> Var:
    """Return the key derived from a key and a ``uint32`` scalar."""
    return append(b, "random_fold_in", (key, data))


def random_split(b: Builder, key: Atom, shape: Shape) -> Var:
    """Return an array of independent keys, derived from one."""
    return append(b, "random_split", (key,), shape=shape)


def random_bits(b: Builder, key: Atom, bit_width: int, shape: Shape) -> Var:
    """Draw uniform unsigned integers of 8, 16, 32 or 64 bits."""
    return append(b, "random_bits", (key,), bit_width=bit_width, shape=shape)


def random_gamma(b: Builder, key: Atom, shape_parameter: Atom, log_space: bool) -> Var:
    """Draw from the gamma distribution with scale 1.

    Parameters
    ----------
    b : Builder
    key : atom, scalar key
    shape_parameter : atom, float
        The shape parameter of each draw.
    log_space : bool
        Whether to return the logarithms of the draws.
    """
    return append(b, "random_gamma", (key, shape_parameter), log_space=log_space)
