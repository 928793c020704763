"""Callbacks into Python from a running program."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from jaxprgen import _jax
from jaxprgen._jax import ClosedJaxpr, ShapedArray
from jaxprgen.emit.values import Array, Dtype, Shape, Value, atoms
from jaxprgen.ir import current_builder, primitives


def call_back(
    function: Callable[..., Sequence[Array]],
    types: Sequence[tuple[Shape, Dtype]],
    operands: Sequence[Value],
    refuse: Callable[[], Exception],
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
    refuse
        Returns the error to raise if JAX differentiates a result.
    """
    b, given = current_builder(), atoms(operands)
    avals = [b.array_type(shape, dtype) for shape, dtype in types]
    params = _jax.callback_params(function, len(operands), avals)
    operand_types = [x.aval for x in given]

    def program(*tangents: ShapedArray) -> ClosedJaxpr:
        with b.nested([*operand_types, *tangents]) as inner:
            arrays = inner.inputs[: len(given)]
            results = inner.bind_multiple(_jax.pure_callback_p, arrays, params)
            return inner.build(results, name="callback")

    def derivative(*zeros: bool) -> tuple[ClosedJaxpr, list[bool]]:
        moving = [t for t, zero in zip(operand_types, zeros, strict=True) if not zero]
        if moving and any(aval.dtype.kind in "fc" for aval in avals):
            raise refuse()
        return program(*map(_jax.tangent_type, moving)), [True] * len(avals)

    return [Value(v) for v in primitives.custom_jvp_call(b, program(), derivative, given)]


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
