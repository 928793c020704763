"""Faults in an equation's values: non-finite numbers and indices out of bounds."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

import jax
import numpy as np

from jaxprgen import _jax
from jaxprgen._jax import JaxprEqn

NUMERIC: Mapping[str, Callable[[Any], Any]] = {"nan": np.isnan, "inf": np.isinf}
"""The kinds of non-finite numbers, each with its elementwise test."""


def contains(kind: str, x: Any) -> bool:
    """Return whether an array contains a "nan" or an "inf"; integers and keys contain none."""
    return _is_inexact(x) and bool(NUMERIC[kind](np.asarray(x)).any())


def locate(kind: str, x: Any) -> tuple[tuple[int, ...], int]:
    """Return the position of the first "nan" or "inf" in an array, and how many there are."""
    positions = np.argwhere(NUMERIC[kind](np.asarray(x)))
    return tuple(map(int, positions[0])), len(positions)


_PRODUCTS = {"mul", "div", "dot_general", "conv_general_dilated", "triangular_solve"}
_NUMBERS = (-1e4, 0.3, 1e4)


def loses_a_mask(eqn: JaxprEqn, operands: Sequence[Any], result: Any) -> bool:
    """Return whether a product has a NaN that a zero should have masked: 0 × NaN is NaN.

    An element of the product then is NaN, although it would be the same for any number in the place
    of the operands' NaN. Gradients of masked data have such products: the gradient is zero where
    the data are masked, but the derivative that it is multiplied by is NaN there.
    """
    if eqn.primitive.name not in _PRODUCTS:
        return False
    first, *others = (
        np.asarray(_jax.eval_eqn(eqn, [_filled(x, number) for x in operands])[0])
        for number in _NUMBERS
    )
    same = np.all([other == first for other in others], axis=0)
    return bool((same & np.isnan(np.asarray(result))).any())


def _filled(x: Any, number: float) -> Any:
    """Replace the NaN of an array by a number."""
    if not contains("nan", x):
        return x
    array = np.asarray(x)
    return np.where(np.isnan(array), array.dtype.type(number), array)


def _is_inexact(x: Any) -> bool:
    dtype = x.dtype if hasattr(x, "dtype") else np.asarray(x).dtype
    return jax.numpy.issubdtype(dtype, np.inexact)


class OutOfBounds(NamedTuple):
    """An index out of bounds.

    Attributes
    ----------
    value
        The index as the user wrote it: negative ones count from the end.
    axis, size
        The axis that it indexes, and the size of that axis.
    extent
        The number of consecutive elements that are read or written from the index on.
    position
        The position of the index in the array of indices.
    """

    value: int
    axis: int
    size: int
    extent: int
    position: tuple[int, ...]


def out_of_bounds(
    eqn: JaxprEqn, operands: Sequence[Any], *, emitted: bool = False
) -> OutOfBounds | None:
    """Return the first index with which an equation reads or writes outside of its operand.

    JAX clips such an index, or drops the element. Negative indices are wrapped by an earlier
    equation, which adds the size of the axis: one that is negative here was below ``-size``.
    JAX does not wrap in mode "clip"; rules of this package (``emitted``) always do.
    """
    name = eqn.primitive.name
    windows_of = _scatter_windows if name.startswith("scatter") else _WINDOWS.get(name)
    if windows_of is None:
        return None
    starts, extents = windows_of(eqn, operands)
    starts = np.asarray(starts).astype(np.int64)
    shape, axes = np.shape(operands[0]), list(extents)
    limits = np.array([shape[axis] - extent for axis, extent in extents.items()], np.int64)
    wrong = np.argwhere((starts < 0) | (starts > limits))
    if not len(wrong):
        return None
    *position, k = map(int, wrong[0])
    start, size = int(starts[(*position, k)]), shape[axes[k]]
    wrapped = start < 0 and (emitted or not str(eqn.params.get("mode")).endswith("CLIP"))
    value = start - size if wrapped else start
    return OutOfBounds(value, axes[k], size, extents[axes[k]], tuple(position))


# Start indices, whose last axis runs over axes of the operand, and the extent along each of these.
Windows: TypeAlias = tuple[Any, dict[int, int]]


def _gather_windows(eqn: JaxprEqn, operands: Sequence[Any]) -> Windows:
    sizes = eqn.params["slice_sizes"]
    axes = eqn.params["dimension_numbers"].start_index_map
    return operands[1], {axis: sizes[axis] for axis in axes}


def _scatter_windows(eqn: JaxprEqn, operands: Sequence[Any]) -> Windows:
    numbers = eqn.params["dimension_numbers"]
    single = {*numbers.inserted_window_dims, *numbers.operand_batching_dims}
    window = iter(numbers.update_window_dims)
    updates = np.shape(operands[2])
    sizes = [1 if d in single else updates[next(window)] for d in range(np.ndim(operands[0]))]
    return operands[1], {axis: sizes[axis] for axis in numbers.scatter_dims_to_operand_dims}


_WINDOWS: dict[str, Callable[[JaxprEqn, Sequence[Any]], Windows]] = {
    "dynamic_slice": lambda eqn, xs: (np.array(xs[1:]), dict(enumerate(eqn.params["slice_sizes"]))),
    "dynamic_update_slice": lambda eqn, xs: (np.array(xs[2:]), dict(enumerate(np.shape(xs[1])))),
    "gather": _gather_windows,
}
