"""Aesara behind the walk's protocol: reference evaluation, and what to call things."""

from __future__ import annotations

import itertools
import linecache
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeGuard

import aesara
import numpy as np
from aesara.graph.basic import Apply, Constant, NoParams, Variable
from aesara.scalar.basic import ScalarType
from aesara.tensor.type import TensorType

from jaxprgen._jax import Var
from jaxprgen.emit.values import Broadcast, dtype_of, shape_of
from jaxprgen.errors import IndexOutOfBoundsError


class AesaraLibrary:
    """The `jaxprgen.frontend.graph.Library` of Aesara graphs."""

    def evaluate(self, node: Apply, inputs: Sequence[Any]) -> list[Any]:
        """The node's outputs by its Op's ``perform``: Aesara's own meaning, by definition.

        It works on a copy of the node, because ``perform`` may leave notes in the node's tag,
        and on copies of inputs that the Op would overwrite.
        """
        node = node.clone()
        arrays = [_own(v, x) for v, x in zip(node.inputs, inputs, strict=True)]
        outputs: list[list[Any]] = [[None] for _ in node.outputs]
        params = node.run_params()
        try:
            with np.errstate(all="ignore"):
                if params is NoParams:
                    node.op.perform(node, arrays, outputs)
                else:
                    params = node.op.params_type.filter(params)  # type: ignore[union-attr]
                    node.op.perform(node, arrays, outputs, params)
        except IndexError as error:
            raise IndexOutOfBoundsError(f"{error}.") from error
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
            if not _is_small_constant(variable):  # Whose name is its value.
                rows.append(f"    {name_of(variable)}: {_describe_value(variable, value)}")
        rows.append(f"  {origin(node)}")
        return "\n".join(rows)


def _own(variable: Variable, value: Any) -> Any:
    """A known input as ``perform`` takes it: a copy, or a NumPy scalar for a scalar type.

    (An index that is an array without axes would copy what NumPy otherwise writes into.)
    """
    if not isinstance(value, np.ndarray):
        return value
    return value[()] if isinstance(variable.type, ScalarType) else np.array(value)


LIBRARY = AesaraLibrary()
SMALL = 4
"""Elements up to which messages show an array's values."""
_AESARA = str(Path(aesara.__file__).parent)


def _describe_value(variable: Variable, value: Any) -> str:
    if isinstance(value, (Var, np.ndarray, Broadcast)):
        kind = f"{dtype_of(value)}{list(shape_of(value))}"
        if isinstance(value, np.ndarray) and value.size <= SMALL:
            return f"{kind} = {value.tolist()}"
        return kind
    return str(variable.type)


def name_of(variable: Variable) -> str:
    """The user's name of a variable, or what computes it, or its value."""
    if variable.name:
        return variable.name
    if _is_small_constant(variable):
        return str(np.asarray(variable.data).tolist())
    if variable.owner is not None:
        return f"result of {variable.owner.op}"
    return f"<{variable.type}>"


def _is_small_constant(variable: Variable) -> TypeGuard[Constant]:
    return isinstance(variable, Constant) and np.size(variable.data) <= SMALL and not variable.name


def describe_op(node: Apply) -> str:
    """The Op applied to its inputs' names."""
    inputs = ", ".join(name_of(v) for v in node.inputs)
    named = ", ".join(v.name for v in node.outputs if v.name)
    return f"{node.op}({inputs})" + (f" -> {named}" if named else "")


def origin(node: Apply) -> str:
    """Where the user built a node: file, line and text, as Aesara recorded it.

    That is the innermost line outside of Aesara and, if there is one, outside of an Op.
    """
    for variable in node.outputs:
        trace = getattr(variable.tag, "trace", None)
        if trace and trace[0]:
            lines = [frame for frame in trace[0] if not frame[0].startswith(_AESARA)] or trace[0]
            outside = list(itertools.takewhile(lambda frame: frame[2] != "make_node", lines))
            file, line, function, text = (outside or lines)[-1]
            text = text or linecache.getline(file, line).strip()
            return f"built at {file}:{line}, in {function}: {text}"
    return "built at a line that was not recorded (see Aesara's traceback__limit)"
