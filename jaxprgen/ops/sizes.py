"""Arithmetic of sizes: what nodes make of symbolic dimensions, which NumPy cannot compute with.

A symbolic value is a NumPy array of objects: integers, booleans and JAX's symbolic dimensions.
"""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from jaxprgen import _jax
from jaxprgen.emit.values import Value
from jaxprgen.errors import SymbolicSizeError
from jaxprgen.lowering.names import Apply, Variable, entry_of, is_a
from jaxprgen.ops.subtensor import index_with


def is_symbolic_value(x: Any) -> bool:
    """Return whether a value holds symbolic sizes, or is an array of symbolic shape."""
    if isinstance(x, np.ndarray):
        return x.dtype == object
    return isinstance(x, Value) or _jax.is_symbolic(x)


def _switch(condition: Any, x: Any, y: Any) -> Any:
    return x if condition else y


def _true_divide(x: Any, y: Any) -> Any:
    quotient, rest = divmod(x, y)
    if rest != 0:
        raise SymbolicSizeError(f"{x} / {y} is not known to be whole. Divide by // instead.")
    return quotient


_SCALARS: dict[str, Callable[..., Any]] = {
    "scalar.Abs": lambda x: _jax.max_size(x, -x),
    "scalar.Add": lambda *xs: sum(xs),
    "scalar.AND": lambda *xs: functools.reduce(operator.and_, xs),
    "scalar.Cast": lambda x: x,
    "scalar.Ceil": lambda x: x,
    "scalar.Clip": lambda x, low, high: _jax.min_size(_jax.max_size(x, low), high),
    "scalar.EQ": lambda x, y: bool(x == y),
    "scalar.Floor": lambda x: x,
    "scalar.GE": lambda x, y: bool(x >= y),
    "scalar.GT": lambda x, y: bool(x > y),
    "scalar.Identity": lambda x: x,
    "scalar.FloorDivide": operator.floordiv,
    "scalar.IntDiv": operator.floordiv,
    "scalar.Invert": operator.not_,
    "scalar.LE": lambda x, y: bool(x <= y),
    "scalar.LT": lambda x, y: bool(x < y),
    "scalar.Mod": operator.mod,
    "scalar.Mul": lambda *xs: math.prod(xs),
    "scalar.Neg": operator.neg,
    "scalar.NEQ": lambda x, y: bool(x != y),
    "scalar.OR": lambda *xs: functools.reduce(operator.or_, xs),
    "scalar.Maximum": lambda *xs: functools.reduce(_jax.max_size, xs),
    "scalar.ScalarMaximum": lambda *xs: functools.reduce(_jax.max_size, xs),
    "scalar.Minimum": lambda *xs: functools.reduce(_jax.min_size, xs),
    "scalar.ScalarMinimum": lambda *xs: functools.reduce(_jax.min_size, xs),
    "scalar.Second": lambda x, y: y,
    "scalar.Sign": lambda x: (x > 0) - (x < 0),
    "scalar.Sgn": lambda x: (x > 0) - (x < 0),
    "scalar.Sqr": lambda x: x * x,
    "scalar.Sub": operator.sub,
    "scalar.Switch": _switch,
    "scalar.TrueDiv": _true_divide,
    "scalar.TrueDivide": _true_divide,
}
"""What scalar Ops make of integers and symbolic dimensions."""

_MOVES = ("tensor.AdvancedSubtensor1", "tensor.DimShuffle", "tensor.MakeSlice", "tensor.Subtensor")
"""Ops that move elements, whose ``perform`` takes any objects."""
_SAME = (
    "raise_op.Assert",
    "raise_op.CheckAndRaise",
    "tensor.ScalarFromTensor",
    "tensor.SpecifyShape",
    "tensor.TensorFromScalar",
    "tensor.Unbroadcast",
)
"""Ops whose first input is their value."""


def evaluate(node: Apply, inputs: Sequence[Any]) -> list[Any]:
    """Return the outputs of a node of which some inputs are symbolic.

    Parameters
    ----------
    node
        The node.
    inputs
        Arrays of numbers or of objects, and a `Value` for an input of which only the shape matters.

    Raises
    ------
    SymbolicSizeError
        The result cannot be written with symbolic dimensions.
    """
    op: Any = node.op
    rule, found = entry_of(_RULES, type(op)), None
    if rule is not None:
        found = rule(op, *inputs)
    elif is_a(op, *_MOVES):
        cell = [None]
        arrays = [np.array(x) if isinstance(x, np.ndarray) else x for x in inputs]
        op.perform(node, arrays, [cell], *params_of(node))
        found = cell[0]
    if found is None:
        raise SymbolicSizeError(
            f"A shape depends on {op} of symbolic sizes, which symbolic dimensions cannot express."
        )
    return [_plain(found, node.outputs[0])]


def takes_axis(op: Any) -> bool:
    """Return whether the axis of an Op is an input of its nodes, as in Aesara, not an attribute."""
    return not hasattr(op, "axis")


def params_of(node: Apply) -> list[Any]:
    """Return the parameters that ``perform`` takes besides inputs and outputs: Aesara's may."""
    kind = getattr(node.op, "params_type", None)
    if kind is None or not hasattr(node, "run_params"):  # In PyTensor, C code alone takes them.
        return []
    return [kind.filter(node.run_params())]


def _written(op: Any, x: Any, y: Any, *index: Any) -> Any:
    x, y = np.array(x, object), np.asarray(y, object)
    place = tuple(index_with(op, [*map(_scalar, index)]))
    written = y if op.set_instead_of_inc else np.add(x[place], y)
    x[place] = _scalar(written) if np.ndim(written) == 0 else written
    return x


def _scalar(x: Any) -> Any:
    return x.item() if isinstance(x, (np.ndarray, np.generic)) else x


def _joined(op: Any, *inputs: Any) -> Any:
    axis, *arrays = inputs if takes_axis(op) else (op.axis, *inputs)
    return np.concatenate([np.asarray(x, object) for x in arrays], int(axis))


def _elementwise(op: Any, *inputs: Any) -> Any:
    function = entry_of(_SCALARS, type(op))
    if function is None:
        return None
    shapes = [x.shape for x in inputs if isinstance(x, (np.ndarray, Value))]
    arrays: list[Any] = [None if isinstance(x, Value) else np.asarray(x, object) for x in inputs]
    computed = np.frompyfunc(function, len(inputs), 1)(*arrays)
    return np.broadcast_to(np.asarray(computed, object), np.broadcast_shapes(*shapes))


def _reduced(op: Any, x: Any) -> Any:
    function, x = entry_of(_SCALARS, type(op.scalar_op)), np.asarray(x, object)
    if function is None:
        return None
    if op.axis is None:
        return functools.reduce(function, x.ravel().tolist())
    for axis in sorted(op.axis, reverse=True):
        x = np.asarray(np.frompyfunc(function, 2, 1).reduce(x, axis), object)
    return x


_RULES: dict[str, Callable[..., Any]] = {
    "tensor.Shape": lambda op, x: np.array(x.shape, object),
    "tensor.Shape_i": lambda op, x: x.shape[op.i],
    **dict.fromkeys(_SAME, lambda op, x, *_: x),
    "tensor.Elemwise": lambda op, *xs: _elementwise(op.scalar_op, *xs),
    "scalar.ScalarOp": _elementwise,
    "tensor.CAReduce": _reduced,
    "tensor.MakeVector": lambda op, *xs: np.array([_scalar(x) for x in xs], object),
    "tensor.Join": _joined,
    "tensor.Alloc": lambda op, x, *sizes: np.broadcast_to(x, tuple(int(n) for n in sizes)),
    "tensor.Reshape": lambda op, x, shape: np.reshape(x, tuple(shape)),
    "tensor.IncSubtensor": _written,
}
"""What Ops make of their inputs."""


def _plain(x: Any, variable: Variable) -> Any:
    """Return a result as numbers of its declared dtype, if no symbolic size is left in it."""
    if isinstance(x, slice):
        return x
    array = np.asarray(x, object)
    if any(map(_jax.is_symbolic, array.flat)):
        return array
    return array.astype(variable.type.dtype)
