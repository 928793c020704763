"""What an entry of the catalogue is, and the operands that entries are made of."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import aesara.tensor as at
import numpy as np
from aesara.graph.basic import Variable
from laws import DTYPES

Operand = np.ndarray | Callable[[np.dtype], np.ndarray]
"""An array, or what makes one of a dtype."""


INEXACT = ("float16", "float32", "float64", "complex64", "complex128")
"""Floats and complex numbers. (What is declared to be whole cuts off what rounding did.)"""
NAMES = "xyzuvw"
"""What the inputs are called."""


class Example(NamedTuple):
    """One application of an Op.

    Attributes
    ----------
    op
        The class of the Op; of scalar Ops, that of the scalar Op.
    build
        Makes the output, or a sequence of outputs, of variables, one per operand. An Op whose
        results are not unique, such as eigenvectors, is followed by what makes them so.
    operands
        The inputs' values.
    meaning
        Makes what the outputs should be: other Ops, where this one has no Python implementation.
    rtol
        The relative tolerance in double precision.
    dtypes
        Those that the operands may be of: as many as the results make sense of.
    what
        What is particular about this application, if another one of the Op has none of it.
    is_drawn
        Whether the results are random: they are compared by dtype and shape alone.
    """

    op: type
    build: Callable[..., Any]
    operands: tuple[Operand, ...]
    meaning: Callable[..., Any] | None = None
    rtol: float | None = None
    dtypes: Sequence[str] = DTYPES
    what: str = ""
    is_drawn: bool = False

    def arrays(self, dtype: str) -> list[np.ndarray]:
        """The operands; those that are of no dtype of their own are of this one."""
        return [x(np.dtype(dtype)) if callable(x) else np.asarray(x) for x in self.operands]

    def graph(self, dtype: str) -> tuple[list[Variable], list[Variable]]:
        """The inputs and the outputs, where the operands are of a dtype."""
        inputs = [variable_of(x, name) for x, name in zip(self.arrays(dtype), NAMES, strict=False)]
        return inputs, outputs_of(self.build, inputs)


def example(
    op: type,
    build: Callable[..., Any],
    *operands: Operand,
    meaning: Callable[..., Any] | None = None,
    rtol: float | None = None,
    dtypes: Sequence[str] = DTYPES,
    what: str = "",
    is_drawn: bool = False,
) -> Example:
    """An entry of the catalogue; see `Example`."""
    if not any(map(callable, operands)):
        dtypes = ("float64",)
    return Example(op, build, operands, meaning, rtol, dtypes, what, is_drawn)


def variable_of(array: np.ndarray, name: str) -> Variable:
    """A variable for arrays of that dtype and rank."""
    return at.tensor(array.dtype.name, shape=(None,) * array.ndim, name=name)


def outputs_of(build: Callable[..., Any], inputs: list[Variable]) -> list[Variable]:
    """The outputs as a list."""
    outputs = build(*inputs)
    return list(outputs) if isinstance(outputs, (list, tuple)) else [outputs]


# --- Operands ----------------------------------------------------------------------------


def as_dtype(x: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """Numbers in a dtype: whole ones for integers, none negative for unsigned ones."""
    if dtype.kind == "b":
        return np.ceil(x).astype(int) % 2 == 1
    if dtype.kind in "iu":
        x = np.ceil(x)
    if dtype.kind == "u":
        x = np.abs(x)
    return (x + 0.25j * x[..., ::-1] if dtype.kind == "c" and x.ndim else x).astype(dtype)


def numbers(*shape: int) -> Operand:
    """Numbers from -2 to 4, none of which is zero."""
    x = np.resize([1.5, -2, 3, 0.5, 4, -0.75, 2], shape)
    return lambda dtype: as_dtype(x, dtype)


def among(*values: Any) -> Operand:
    """These numbers."""
    return lambda dtype: as_dtype(np.array(values, float), dtype)


scalar, vector, matrix, tensor = numbers(), numbers(3), numbers(2, 3), numbers(2, 3, 4)
unit = among(0.1, 0.35, 0.5, 0.8, 1)
"""Numbers between zero and one."""
symmetric = among(-1, -0.4, 0, 0.3, 0.9)
"""Numbers between minus one and one."""
positives = among(0.25, 1, 1.5, 3, 6)
"""Numbers above zero."""
square = among([2, 0.5, 1], [-1, 3, 0.5], [0, 1, 4])
"""A matrix that has an inverse."""
definite = among([4, 1, 0.5], [1, 3, 1], [0.5, 1, 5])
"""A symmetric matrix whose eigenvalues are positive."""
lower = among([2, 0, 0], [-1, 3, 0], [0.5, 1, 4])
"""A triangular matrix."""
