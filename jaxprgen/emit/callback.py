"""Python that runs while the program does."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from jaxprgen import _jax
from jaxprgen._jax import Var
from jaxprgen.emit.values import Array, Dtype, Shape, Value, atoms
from jaxprgen.ir import Builder


def call_back(
    b: Builder,
    function: Callable[..., Sequence[Array]],
    types: Sequence[tuple[Shape, Dtype]],
    operands: Sequence[Value],
) -> list[Var]:
    """The results of a pure Python function of arrays, as `jax.pure_callback` gets them.

    ``types`` are the results' shapes and dtypes as JAX computes them. Under ``vmap`` it is
    called once per element.
    """
    avals = [b.array_type(shape, dtype) for shape, dtype in types]
    params = _jax.callback_params(function, len(operands), avals)
    return b.bind_multiple(_jax.pure_callback_p, atoms(b, operands), params)
