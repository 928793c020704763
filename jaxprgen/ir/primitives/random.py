"""Random bits from keys: the counter-based generators of `jax.random`."""

from __future__ import annotations

from typing import Any

from jaxprgen import _jax
from jaxprgen._jax import Var
from jaxprgen.ir.builder import Atom, Builder
from jaxprgen.ir.primitives.kinds import Shape


def random_wrap(b: Builder, data: Atom, impl: Any) -> Var:
    """The key that the unsigned integers of a legacy key stand for."""
    return b.bind(_jax.primitive("random_wrap"), (data,), {"impl": impl})


def random_seed(b: Builder, seed: Atom, impl: Any) -> Var:
    """The key of an integer."""
    return b.bind(_jax.primitive("random_seed"), (seed,), {"impl": impl})


def random_fold_in(b: Builder, key: Atom, data: Atom) -> Var:
    """The key that a key and a ``uint32`` make; another one for every number."""
    return b.bind(_jax.primitive("random_fold_in"), (key, data), {})


def random_split(b: Builder, key: Atom, shape: Shape) -> Var:
    """An array of keys from one."""
    return b.bind(_jax.primitive("random_split"), (key,), {"shape": shape})


def random_bits(b: Builder, key: Atom, bit_width: int, shape: Shape) -> Var:
    """An array of unsigned integers of 8, 16, 32 or 64 bits, each bit of which is drawn."""
    params = {"bit_width": bit_width, "shape": shape}
    return b.bind(_jax.primitive("random_bits"), (key,), params)


def random_gamma(b: Builder, key: Atom, shape_parameter: Atom, log_space: bool) -> Var:
    """Draws from gamma distributions of scale 1, or their logarithms; one for each parameter."""
    params = {"log_space": log_space}
    return b.bind(_jax.primitive("random_gamma"), (key, shape_parameter), params)
