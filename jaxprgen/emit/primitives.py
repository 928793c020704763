"""The constructors of `jaxprgen.ir.primitives`, for values and the current builder.

A function here takes values, arrays and atoms where its namesake in `jaxprgen.ir.primitives` takes
atoms, and returns values. Elementwise primitives also take numbers, broadcast their operands as
NumPy does, and take parameters by name.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from jaxprgen._jax import Var
from jaxprgen.emit.values import Construct, Value, elementwise, full_rank, lift
from jaxprgen.ir import current_builder, primitives


def __getattr__(name: str) -> Callable[..., Any]:
    construct = getattr(primitives, name)
    emit = globals()[name] = emitter(construct.__name__, construct)  # Found at once from now on.
    return functools.update_wrapper(emit, construct)


def emitter(name: str, construct: Construct) -> Callable[..., Any]:
    """Return the constructor of a primitive of this name as a function of values."""
    if name in primitives.OF_ONE_SHAPE:
        broadcast = full_rank
    elif name in primitives.ELEMENTWISE or name in ("clamp", "stop_gradient"):
        broadcast = elementwise
    else:
        return functools.partial(_lifted, construct)

    def emit(*operands: Any, **params: Any) -> Value:
        own = functools.partial(construct, **params) if params else construct
        return broadcast(own, *lift(*operands))

    return emit


def _lifted(construct: Callable[..., Any], *args: Any, **params: Any) -> Any:
    b = current_builder()
    made = construct(b, *map(_atoms, args), **{k: _atoms(x) for k, x in params.items()})
    return Value(made) if type(made) is Var else [Value(v) for v in made]


def _atoms(x: Any) -> Any:
    """Replace the values and arrays in an argument by atoms."""
    if type(x) is Value:
        return x.atom()
    if isinstance(x, np.ndarray):
        return Value(x).atom()
    if isinstance(x, (list, tuple)) and any(type(y) is Value for y in x):  # pyright: ignore[reportUnknownVariableType]
        return [_atoms(y) for y in x]  # pyright: ignore[reportUnknownVariableType]
    return x
