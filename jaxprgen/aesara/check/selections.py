"""Which of what masks select and loops stack needs not be counted before the program runs.

It mirrors `jaxprgen.aesara.selection`, by types alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from aesara.compile.ops import DeepCopyOp, ViewOp
from aesara.graph.basic import Apply, Variable
from aesara.raise_op import CheckAndRaise
from aesara.scalar.basic import ScalarMaximum, ScalarMinimum
from aesara.scan.op import Scan
from aesara.tensor.basic import Nonzero
from aesara.tensor.elemwise import CAReduce, DimShuffle, Elemwise
from aesara.tensor.math import Argmax, MaxAndArgmax, Mean
from aesara.tensor.shape import Shape, Shape_i
from aesara.tensor.subtensor import (
    AdvancedIncSubtensor,
    AdvancedIncSubtensor1,
    AdvancedSubtensor,
    AdvancedSubtensor1,
    Subtensor,
)

from jaxprgen.aesara.advanced_subtensor import indices_of_one, lone_mask
from jaxprgen.aesara.check.traces import part_of_rows
from jaxprgen.aesara.math import axes_of


class _Selection(NamedTuple):
    """The nodes that select, the mask, and the axis on which the elements are."""

    makers: frozenset[Apply]
    mask: Variable
    axis: int


def uncounted(
    nodes: Sequence[Apply],
    unknown: set[Apply],
    wanted: Iterable[Variable],
    deciding: Iterable[Variable],
) -> set[Apply]:
    """Those of the ``unknown`` nodes, which select by values, that nobody refuses.

    ``deciding`` are the variables whose values decide shapes or sizes.
    """
    found: dict[Variable, _Selection] = {}
    counted: dict[Variable, frozenset[Apply]] = {}
    free: set[Apply] = set()
    for node in nodes:
        is_indexed = isinstance(node.op, AdvancedSubtensor)
        mask = 0 if isinstance(node.op, Nonzero) else lone_mask(node, 1) if is_indexed else None
        given = {i: found[v] for i, v in enumerate(node.inputs) if v in found}
        makers = frozenset[Apply]().union(*(s.makers for s in given.values()))
        if not given and node in unknown and isinstance(node.op, Scan):
            free.add(node)
            own = _Selection(frozenset([node]), node.inputs[0], 0)
            found.update(dict.fromkeys(node.outputs, own))
        elif not given and node in unknown and mask is not None:
            free.add(node)
            own = _Selection(frozenset([node]), node.inputs[mask], max(mask - 1, 0))
            found.update(dict.fromkeys(node.outputs, own))
        elif given:
            axis = _axis_of_results(node, given)
            if axis is None:
                free -= makers
            elif axis >= 0:
                mask_variable = next(iter(given.values())).mask
                for output in node.outputs:
                    found[output] = _Selection(makers, mask_variable, axis)
            elif isinstance(node.op, (Shape, Shape_i)):
                counted[node.outputs[0]] = makers
    for variable in wanted:
        free -= found[variable].makers if variable in found else frozenset()
    for variable in deciding:
        free -= counted.get(variable, frozenset())
    return free


def _axis_of_results(node: Apply, given: dict[int, _Selection]) -> int | None:
    """The axis of what is selected in a node's results: -1 if there is none, None if it refuses."""
    op, first = node.op, next(iter(given.values()))
    axis = first.axis
    if any(s.mask is not first.mask or s.axis != axis for s in given.values()):
        return None
    x = node.inputs[next(iter(given))]
    if isinstance(op, Elemwise):
        others = (v for i, v in enumerate(node.inputs) if i not in given)
        return axis if all(v.type.shape[axis] == 1 for v in others) else None
    if isinstance(op, (ViewOp, DeepCopyOp, CheckAndRaise)):
        return axis if list(given) == [0] else None
    if isinstance(op, (AdvancedSubtensor, AdvancedSubtensor1)):
        return axis if list(given) == list(range(1, len(node.inputs))) and not axis else None
    if isinstance(op, (AdvancedIncSubtensor, AdvancedIncSubtensor1)) and indices_of_one(node, 2):
        target, y = node.inputs[:2]
        behind = target.type.ndim - len(node.inputs[2:])
        is_one = y.type.ndim <= behind or y.type.shape[-behind - 1] == 1
        return -1 if 0 not in given and (1 in given or is_one) else None
    if isinstance(op, DimShuffle):
        return op.new_order.index(axis) if axis in op.new_order else None
    if isinstance(op, (Shape, Shape_i)):
        return -1
    if isinstance(op, Subtensor) and all(isinstance(n.op, Scan) for n in first.makers):
        is_row = bool(op.idx_list) and not isinstance(op.idx_list[0], slice)
        return -1 if is_row else axis if part_of_rows(node) == "rest" else None
    if isinstance(op, AdvancedIncSubtensor):
        mask = lone_mask(node, 2)
        if mask is None or list(given) != [1] or node.inputs[mask] is not first.mask:
            return None
        rank = node.inputs[0].type.ndim - node.inputs[mask].type.ndim + 1  # Of what is written to.
        return -1 if axis == mask - 2 - (rank - x.type.ndim) else None
    if not isinstance(op, (CAReduce, MaxAndArgmax, Argmax)):
        return None
    axes = axes_of(op.axis, x.type.ndim)
    if isinstance(op, (MaxAndArgmax, Argmax)):
        return -1 if axis in axes and "complex" not in x.type.dtype else None
    if axis in axes:
        extremum = isinstance(op.scalar_op, (ScalarMaximum, ScalarMinimum))
        return None if extremum and "complex" in x.type.dtype else -1
    return None if isinstance(op, Mean) else axis - sum(d < axis for d in axes)
