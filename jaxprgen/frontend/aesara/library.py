"""Aesara behind the walk's protocol: reference evaluation, and what to call things."""

from __future__ import annotations

import linecache
from collections.abc import Sequence
from typing import Any

import numpy as np
from aesara.graph.basic import Apply, NoParams, Variable
from aesara.scalar.basic import ScalarType
from aesara.tensor.type import TensorType

from jaxprgen._jax import Var
from jaxprgen.emit.values import Broadcast, dtype_of, shape_of


class AesaraLibrary:
    """The `jaxprgen.frontend.graph.Library` of Aesara graphs."""

    def evaluate(self, node: Apply, inputs: Sequence[Any]) -> list[Any]:
        """The node's outputs by its Op's ``perform``: Aesara's own meaning, by definition.

        It works on a copy of the node, because ``perform`` may leave notes in the node's tag,
        and on copies of inputs that the Op would overwrite.
        """
        node = node.clone()
        arrays = [np.array(x) if isinstance(x, np.ndarray) else x for x in inputs]
        outputs: list[list[Any]] = [[None] for _ in node.outputs]
        params = node.run_params()
        with np.errstate(all="ignore"):
            if params is NoParams:
                node.op.perform(node, arrays, outputs)
            else:
                params = node.op.params_type.filter(params)  # type: ignore[union-attr]
                node.op.perform(node, arrays, outputs, params)
        return [
            np.asarray(cell[0], v.type.dtype)
            if isinstance(v.type, (TensorType, ScalarType))
            else cell[0]
            for cell, v in zip(outputs, node.outputs, strict=True)
        ]

    def describe(self, node: Apply, inputs: Sequence[Any]) -> str:
        """The node, its inputs with their types and shapes, and the user's line."""
        rows = [f"  in {describe_op(node)}"]
        for variable, value in zip(node.inputs, inputs, strict=True):
            rows.append(f"    {name_of(variable)}: {_describe_value(variable, value)}")
        rows.append(f"  {origin(node)}")
        return "\n".join(rows)


LIBRARY = AesaraLibrary()


def _describe_value(variable: Variable, value: Any) -> str:
    if isinstance(value, (Var, np.ndarray, Broadcast)):
        kind = f"{dtype_of(value)}{list(shape_of(value))}"
        if isinstance(value, np.ndarray) and value.size <= 4:
            return f"{kind} = {value.tolist()}"
        return kind
    return str(variable.type)


def name_of(variable: Variable) -> str:
    """The user's name of a variable, or what computes it."""
    if variable.name:
        return variable.name
    if variable.owner is not None:
        return f"result of {variable.owner.op}"
    return f"<{variable.type}>"


def describe_op(node: Apply) -> str:
    """The Op applied to its inputs' names."""
    inputs = ", ".join(name_of(v) for v in node.inputs)
    named = ", ".join(v.name for v in node.outputs if v.name)
    return f"{node.op}({inputs})" + (f" -> {named}" if named else "")


def origin(node: Apply) -> str:
    """Where the user built a node: file, line and text, as Aesara recorded it."""
    for variable in node.outputs:
        trace = getattr(variable.tag, "trace", None)
        if trace and trace[0]:
            file, line, function, text = trace[0][-1]
            text = text or linecache.getline(file, line).strip()
            return f"built at {file}:{line}, in {function}: {text}"
    return "built at a line that was not recorded (see Aesara's traceback__limit)"
