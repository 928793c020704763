"""What rules and nodes declare, and errors where it does not hold."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from jaxprgen._jax import Var
from jaxprgen.emit.deferred import Deferred
from jaxprgen.emit.selection import Selected
from jaxprgen.emit.values import Broadcast, dtype_of, shape_of
from jaxprgen.errors import LoweringError
from jaxprgen.lowering.graph import OutputType, Step
from jaxprgen.lowering.registry import find_rule


def require_declared(
    step: Step, position: int, how: str, inputs: Callable[[type, Any], Sequence[int]]
) -> None:
    """Raise `LoweringError` for an input whose value the rule of a step does not declare to read.

    ``inputs`` gives those that the rule of an Op class declares, ``how`` is what that is called.
    """
    op_type = type(step.node.op)
    if find_rule(op_type) is step.rule and position not in inputs(op_type, step.node):
        raise LoweringError(
            f"The rule asks for the value of input {position}, which it does not declare: "
            f"register it by @lowers({op_type.__name__}, {how}=({position},))."
        )


def checked(value: Any, declared: OutputType) -> Any:
    """The value, if it is what the node declares of its output."""
    if type(value) is Var:
        shape, dtype = value.aval.shape, value.aval.dtype
    elif isinstance(value, (np.ndarray, Broadcast)):  # pyright: ignore[reportUnnecessaryIsInstance]
        shape, dtype = shape_of(value), dtype_of(value)
    elif isinstance(value, Deferred):
        shape, dtype = value.shape, value.dtype
    elif type(value) is Selected:
        shape, dtype = (0,) * value.rank, dtype_of(value.values)
    else:
        raise LoweringError(f"The rule returned {value!r}, which is no value of a program.")
    if (dtype is not declared.dtype and dtype != declared.dtype) or len(shape) != declared.rank:
        raise LoweringError(
            f"The rule returned {dtype} of rank {len(shape)}, but the node declares "
            f"{declared.dtype} of rank {declared.rank}."
        )
    return value
