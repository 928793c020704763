"""Which blocks of arrays equations read and write, at places that are known."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from jaxprgen._jax import Literal, Var
from jaxprgen.ir import primitives as lax
from jaxprgen.passes.repeats import is_known

Place = tuple[int, ...]
Index = Callable[[Sequence[Any]], "list[int] | None"]
COMBINING: Mapping[str, Callable[..., Var]] = MappingProxyType(
    {
        "scatter-add": lax.add,
        "scatter-mul": lax.mul,
        "add": lax.add,
        "add_any": lax.add,
    }
)
"""How primitives combine a block with what is there; others replace it."""
READING = ("slice", "dynamic_slice", "gather")
_SCATTERS = {"scatter", *(name for name in COMBINING if name.startswith("scatter"))}
WRITING = {"dynamic_update_slice", *_SCATTERS}


class Block(NamedTuple):
    """A part of an array that an equation reads or writes. No size of them is symbolic.

    Attributes
    ----------
    array : Atom or None
        The array; None for an equation that makes one of a block and zeros around it.
    start, sizes : tuple of int
        The place of the first element, and the size along each axis.
    value : Atom or None
        What is written.
    """

    array: Any
    start: Place
    sizes: Place
    value: Any = None


def written(eqn: Any, index: Index) -> Block | None:
    """Return the block that an equation writes, or None if it does not write one known block.

    Parameters
    ----------
    eqn : JaxprEqn
        The equation.
    index : callable
        Returns the value of an atom as a list of int, or None if it is not known.
    """
    name, operands = eqn.primitive.name, eqn.invars
    if name == "pad":
        if not pads_with_zeros(eqn):
            return None
        start = tuple(int(low) for low, _, _ in eqn.params["padding_config"])
        return Block(None, start, operands[0].aval.shape, operands[0])
    if name not in WRITING or not _has_known_sizes(operands[0]):
        return None
    if name == "dynamic_update_slice":
        sizes = operands[1].aval.shape
        return _clipped(operands[0], index(operands[2:]), sizes, operands[1])
    if name == "scatter" and eqn.params["update_jaxpr"] is not None:
        return None  # It applies a function to what is there.
    numbers = eqn.params["dimension_numbers"]
    axes = numbers.scatter_dims_to_operand_dims
    if len(operands[1].aval.shape) != 1 or numbers.operand_batching_dims:
        return None
    window = iter(operands[2].aval.shape)
    rank = range(len(operands[0].aval.shape))
    sizes = tuple(1 if d in numbers.inserted_window_dims else next(window) for d in rank)
    return _in_bounds(operands[0], axes, index(operands[1:2]), sizes, operands[2])


def read(eqn: Any, index: Index) -> Block | None:
    """Return the block that an equation reads, or None if it does not read one known block."""
    name, operands, params = eqn.primitive.name, eqn.invars, eqn.params
    if name not in READING or not _has_known_sizes(operands[0]):
        return None
    if name == "slice":
        start, stop, steps = params["start_indices"], params["limit_indices"], params["strides"]
        if not all(map(is_known, (*start, *stop))) or any(k != 1 for k in steps or ()):
            return None
        return Block(operands[0], start, tuple(j - i for i, j in zip(start, stop, strict=True)))
    if name == "dynamic_slice":
        return _clipped(operands[0], index(operands[1:]), params["slice_sizes"])
    if len(operands[1].aval.shape) != 1:
        return None
    numbers = params["dimension_numbers"]
    if numbers.operand_batching_dims:
        return None
    return _in_bounds(
        operands[0], numbers.start_index_map, index(operands[1:]), params["slice_sizes"]
    )


def _has_known_sizes(x: Any) -> bool:
    return all(map(is_known, x.aval.shape))


def _clipped(x: Any, at: Sequence[int] | None, sizes: Place, value: Any = None) -> Block | None:
    if at is None:
        return None
    bounds = zip(at, sizes, x.aval.shape, strict=True)
    return Block(x, tuple(min(max(i, 0), n - k) for i, k, n in bounds), sizes, value)


def _in_bounds(
    x: Any, axes: Sequence[int], at: Sequence[int] | None, sizes: Place, value: Any = None
) -> Block | None:
    if at is None:
        return None
    start = [0] * len(sizes)
    for d, i in zip(axes, at, strict=True):
        start[d] = i
    bounds = zip(start, sizes, x.aval.shape, strict=True)
    is_inside = all(0 <= i <= n - k for i, k, n in bounds)
    return Block(x, tuple(start), sizes, value) if is_inside else None


def pads_with_zeros(eqn: Any) -> bool:
    """Return whether an equation pads a block of known size with a known number of zeros."""
    if eqn.primitive.name != "pad" or not isinstance(eqn.invars[1], Literal):
        return False
    config = eqn.params["padding_config"]
    if not all(is_known(n) and n >= 0 for sizes in config for n in sizes):
        return False
    if not _has_known_sizes(eqn.invars[0]):
        return False
    return not any(between for _, _, between in config) and not np.any(eqn.invars[1].val)
