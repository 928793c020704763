"""Integers as sums of multiples of others: how far apart two of them are."""

from __future__ import annotations

from typing import Any

import numpy as np
from aesara.graph.basic import Constant, Variable
from aesara.scalar import basic as aes
from aesara.tensor.basic import ScalarFromTensor, TensorFromScalar
from aesara.tensor.elemwise import DimShuffle, Elemwise

Form = dict[Variable | None, int]
"""The factor of each variable; that of None is what is added."""

_DEPTH = 8
"""Nodes on the way to a variable up to which it is taken apart."""
_SMALLEST = np.dtype(np.int32).itemsize
"""Bytes of an integer whose sums are not expected to wrap."""


def linear_form(variable: Variable, depth: int = _DEPTH) -> Form:
    """An integer scalar as a sum, as far as additions, subtractions and factors tell."""
    if variable.type.ndim:  # type: ignore[attr-defined]
        return {variable: 1}
    if isinstance(variable, Constant):
        return {None: int(variable.data)}
    node = variable.owner
    if node is None or not depth or np.dtype(variable.type.dtype).itemsize < _SMALLEST:
        return {variable: 1}
    inputs = [linear_form(v, depth - 1) for v in node.inputs]
    if isinstance(node.op, (ScalarFromTensor, TensorFromScalar, DimShuffle)):
        return inputs[0]
    op: Any = node.op.scalar_op if isinstance(node.op, Elemwise) else node.op
    if isinstance(op, aes.Add):
        return _sum(inputs)
    if isinstance(op, aes.Sub):
        return _sum([inputs[0], _scaled(inputs[1], -1)])
    if isinstance(op, aes.Mul):
        factors = [f for f in inputs if set(f) <= {None}]
        others = [f for f in inputs if not set(f) <= {None}]
        if len(others) == 1:
            return _scaled(others[0], int(np.prod([f.get(None, 0) for f in factors], dtype=object)))
    return {variable: 1}


def _sum(forms: list[Form]) -> Form:
    variables = dict.fromkeys(v for form in forms for v in form)
    total = {v: sum(form.get(v, 0) for form in forms) for v in variables}
    return {v: n for v, n in total.items() if n}


def _scaled(form: Form, factor: int) -> Form:
    return {v: n * factor for v, n in form.items() if n * factor}
