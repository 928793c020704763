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
from aesara.graph.basic import Apply, NoParams, Variable
from aesara.raise_op import Assert, CheckAndRaise
from aesara.scalar import basic as aes
from aesara.tensor.basic import Alloc, Join, MakeVector, ScalarFromTensor, TensorFromScalar
from aesara.tensor.elemwise import CAReduce, DimShuffle, Elemwise
from aesara.tensor.shape import Reshape, Shape, Shape_i, SpecifyShape, Unbroadcast
from aesara.tensor.subtensor import (
    AdvancedSubtensor1,
    IncSubtensor,
    Subtensor,
    indices_from_subtensor,
)
from aesara.tensor.type_other import MakeSlice

from jaxprgen import _jax
from jaxprgen.emit.values import Array, Value
from jaxprgen.errors import SymbolicSizeError


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


_SCALARS: dict[type, Callable[..., Any]] = {
    aes.Abs: lambda x: _jax.max_size(x, -x),
    aes.Add: lambda *xs: sum(xs),
    aes.AND: lambda *xs: functools.reduce(operator.and_, xs),
    aes.Cast: lambda x: x,
    aes.Ceil: lambda x: x,
    aes.Clip: lambda x, low, high: _jax.min_size(_jax.max_size(x, low), high),
    aes.EQ: lambda x, y: bool(x == y),
    aes.Floor: lambda x: x,
    aes.GE: lambda x, y: bool(x >= y),
    aes.GT: lambda x, y: bool(x > y),
    aes.Identity: lambda x: x,
    aes.FloorDivide: operator.floordiv,
    aes.Invert: operator.not_,
    aes.LE: lambda x, y: bool(x <= y),
    aes.LT: lambda x, y: bool(x < y),
    aes.Mod: operator.mod,
    aes.Mul: lambda *xs: math.prod(xs),
    aes.Neg: operator.neg,
    aes.NEQ: lambda x, y: bool(x != y),
    aes.OR: lambda *xs: functools.reduce(operator.or_, xs),
    aes.ScalarMaximum: lambda *xs: functools.reduce(_jax.max_size, xs),
    aes.ScalarMinimum: lambda *xs: functools.reduce(_jax.min_size, xs),
    aes.Second: lambda x, y: y,
    aes.Sgn: lambda x: (x > 0) - (x < 0),
    aes.Sqr: lambda x: x * x,
    aes.Sub: operator.sub,
    aes.Switch: _switch,
    aes.TrueDivide: _true_divide,
}
"""What scalar Ops make of integers and symbolic dimensions."""

_MOVES = (AdvancedSubtensor1, DimShuffle, MakeSlice, Subtensor)
"""Ops that move elements, whose ``perform`` takes any objects."""
_SAME = (Assert, CheckAndRaise, ScalarFromTensor, SpecifyShape, TensorFromScalar, Unbroadcast)
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
    found: Any = None
    if isinstance(op, Shape):
        found = np.array(inputs[0].shape, object)
    elif isinstance(op, Shape_i):
        found = inputs[0].shape[op.i]
    elif isinstance(op, _SAME):
        found = inputs[0]
    elif isinstance(op, (Elemwise, aes.ScalarOp)):
        found = _elementwise(op.scalar_op if isinstance(op, Elemwise) else op, inputs)
    elif isinstance(op, CAReduce):
        found = _reduced(op, np.asarray(inputs[0], object))
    elif isinstance(op, MakeVector):
        found = np.array([_scalar(x) for x in inputs], object)
    elif isinstance(op, Join):
        found = np.concatenate([np.asarray(x, object) for x in inputs[1:]], int(inputs[0]))
    elif isinstance(op, Alloc):
        found = np.broadcast_to(inputs[0], tuple(int(n) for n in inputs[1:]))
    elif isinstance(op, Reshape):
        found = np.reshape(inputs[0], tuple(inputs[1]))
    elif isinstance(op, IncSubtensor):
        found = _written(op, *inputs)
    elif isinstance(op, _MOVES):
        cell = [None]
        arrays = [np.array(x) if isinstance(x, np.ndarray) else x for x in inputs]
        params = node.run_params()
        op.perform(node, arrays, [cell], *([] if params is NoParams else [params]))
        found = cell[0]
    if found is None:
        raise SymbolicSizeError(
            f"A shape depends on {op} of symbolic sizes, which symbolic dimensions cannot express."
        )
    return [_plain(found, node.outputs[0])]


def _written(op: IncSubtensor, x: Any, y: Any, *index: Any) -> Any:
    x, y = np.array(x, object), np.asarray(y, object)
    place = indices_from_subtensor([*map(_scalar, index)], op.idx_list)
    written = y if op.set_instead_of_inc else np.add(x[place], y)
    x[place] = _scalar(written) if np.ndim(written) == 0 else written
    return x


def _scalar(x: Any) -> Any:
    return x.item() if isinstance(x, (np.ndarray, np.generic)) else x


def _elementwise(op: Any, inputs: Sequence[Any]) -> Any:
    function = next((_SCALARS[base] for base in type(op).__mro__ if base in _SCALARS), None)
    if function is None:
        return None
    shapes = [x.shape for x in inputs if isinstance(x, (np.ndarray, Value))]
    inputs = [None if isinstance(x, Value) else np.asarray(x, object) for x in inputs]
    computed = np.frompyfunc(function, len(inputs), 1)(*inputs)
    return np.broadcast_to(np.asarray(computed, object), np.broadcast_shapes(*shapes))


def _reduced(op: CAReduce, x: Array) -> Any:
    function = _SCALARS.get(type(op.scalar_op))
    if function is None:
        return None
    if op.axis is None:
        return functools.reduce(function, x.ravel().tolist())
    for axis in sorted(op.axis, reverse=True):
        x = np.asarray(np.frompyfunc(function, 2, 1).reduce(x, axis), object)
    return x


def _plain(x: Any, variable: Variable) -> Any:
    """Return a result as numbers of its declared dtype, if no symbolic size is left in it."""
    if isinstance(x, slice):
        return x
    array = np.asarray(x, object)
    if any(map(_jax.is_symbolic, array.flat)):
        return array
    return array.astype(variable.type.dtype)
