"""The constructors of `jaxprgen.ir.primitives`, for values and the current builder.

A function here takes values, arrays and atoms where its namesake in `jaxprgen.ir.primitives` takes
atoms, and returns values. Elementwise primitives also take numbers, and broadcast their operands
as NumPy does.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

import numpy as np

from jaxprgen._jax import Var
from jaxprgen.emit.values import Value, elementwise, full_rank, lift
from jaxprgen.ir import current_builder, primitives
from jaxprgen.ir.primitives import elementwise as elementwise_primitives


def __getattr__(name: str) -> Callable[..., Any]:
    construct = getattr(primitives, name)
    if name in ("select_n", "complex"):  # Their operands must have one shape.
        emit = functools.partial(full_rank, construct)
    elif construct.__module__ == elementwise_primitives.__name__:
        emit = _elementwise(construct)
    else:
        emit = _lifted(construct)
    globals()[name] = emit  # Later look-ups do not reach this function.
    return emit


def _elementwise(construct: Callable[..., Var]) -> Callable[..., Value]:
    _, *parameters = inspect.signature(construct).parameters.values()  # Without the builder.
    operands = [p for p in parameters if p.annotation == "Atom"]
    count = None if operands[0].kind is inspect.Parameter.VAR_POSITIONAL else len(operands)

    @functools.wraps(construct)
    def emit(*args: Any, **params: Any) -> Value:
        rest = () if count is None else args[count:]

        def of_atoms(b: Any, *atoms: Any) -> Var:
            return construct(b, *atoms, *rest, **params)

        own = construct if not (rest or params) else of_atoms
        return elementwise(own, *lift(*args[:count]))

    return emit


def _lifted(construct: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(construct)
    def emit(*args: Any, **params: Any) -> Any:
        b = current_builder()
        made = construct(b, *map(_atoms, args), **{k: _atoms(x) for k, x in params.items()})
        return Value(made) if type(made) is Var else [Value(v) for v in made]

    return emit


def _atoms(x: Any) -> Any:
    """Replace the values and arrays in an argument by atoms."""
    if type(x) is Value:
        return x.atom()
    if isinstance(x, np.ndarray):
        return Value(x).atom()
    if isinstance(x, (list, tuple)) and any(type(y) is Value for y in x):  # pyright: ignore[reportUnknownVariableType]
        return [_atoms(y) for y in x]  # pyright: ignore[reportUnknownVariableType]
    return x
