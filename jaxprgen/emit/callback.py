"""Callbacks into Python from a running program."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from jaxprgen import _jax
from jaxprgen.emit.values import Array, Dtype, Shape, Value, atoms
from jaxprgen.ir import current_builder


def call_back(
    function: Callable[..., Sequence[Array]],
    types: Sequence[tuple[Shape, Dtype]],
    operands: Sequence[Value],
) -> list[Value]:
    """Call a pure Python function of arrays from the program, as `jax.pure_callback` does.

    Under ``vmap`` it is called once per element.

    Parameters
    ----------
    function
        Takes NumPy arrays and returns one array per entry of ``types``.
    types
        The shapes and dtypes of the results as JAX computes them.
    operands
        The arguments.
    """
    b = current_builder()
    avals = [b.array_type(shape, dtype) for shape, dtype in types]
    params = _jax.callback_params(function, len(operands), avals)
    return [Value(v) for v in b.bind_multiple(_jax.pure_callback_p, atoms(operands), params)]


def call_for_effect(function: Callable[..., Any], *operands: Value) -> None:
    """Call a function with NumPy arrays for its side effects, in the order of the program.

    This is `jax.debug.callback`: under ``vmap`` it is called once per element, and
    `jax.effects_barrier` waits for it. Differentiation does not call it again.
    """
    b = current_builder()

    def on_arrays(*arrays: Any) -> None:
        function(*map(np.asarray, arrays))

    params = _jax.debug_callback_params(on_arrays)
    b.bind_multiple(_jax.debug_callback_p, atoms(operands), params)
