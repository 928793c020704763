"""Which loops need not know how many steps there are.

It mirrors `jaxprgen.aesara.deferred`, by constants alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from aesara.graph.basic import Apply, Constant, Variable
from aesara.scan.op import Scan
from aesara.tensor.basic import AllocEmpty
from aesara.tensor.subtensor import IncSubtensor, Subtensor, get_idx_list

from jaxprgen.aesara.scan import layout_of


def deciding_steps(node: Apply) -> list[int]:
    """The inputs that decide how many steps a loop takes, if it ends by a condition."""
    is_open = isinstance(node.op, Scan) and node.op.info.as_while
    return layout_of(node).read if is_open else []


def part_of_rows(node: Apply) -> str:
    """What of the rows of a trace a node takes: "end", the "rest" behind some, or "" otherwise."""
    if not isinstance(node.op, Subtensor) or not node.op.idx_list:
        return ""
    first, *others = get_idx_list(node.inputs, node.op.idx_list)
    if not isinstance(first, slice):
        value = _value(first)
        return "end" if value is not None and value < 0 else ""
    start, stop, step = (_value(x) for x in (first.start, first.stop, first.step))
    fits = (start or 0) >= 0 and (stop or 0) <= 0 and step in (None, 1) and not others
    known = all(x is None or _value(x) is not None for x in (first.start, first.stop, first.step))
    return "rest" if fits and known else ""


def _value(x: Any) -> int | None:
    if isinstance(x, Variable) and x.owner is not None and len(x.owner.inputs) == 1:
        x = x.owner.inputs[0]  # A scalar of a tensor, or the other way round.
    return int(x.data) if isinstance(x, Constant) else None


def ends_alone(nodes: Sequence[Apply], wanted: Sequence[Variable]) -> dict[Apply, list[int]]:
    """Loops of whose traces no more than last rows are used, and what is allocated for them.

    With the inputs of each of these nodes whose values decide nothing then.
    """
    whole = set(wanted)
    found: dict[Apply, list[int]] = {}
    for node in reversed(nodes):
        if isinstance(node.op, Scan):
            layout, count = layout_of(node), len(node.outputs) - node.op.info.n_shared_outs
            if not layout.windows and whole.isdisjoint(node.outputs[:count]):
                found[node] = [0, *(i for i, _, _ in layout.stacks)]
            read = [i for i, _ in layout.states] if node in found else []
            whole.update(v for i, v in enumerate(node.inputs) if i not in read)
        elif isinstance(node.op, IncSubtensor) and node.op.set_instead_of_inc:
            starts = node.outputs[0] not in whole
            whole.update(node.inputs[1:] if starts else node.inputs)
        elif isinstance(node.op, AllocEmpty):
            if node.outputs[0] not in whole:
                found[node] = [0]
            whole.update(node.inputs)
        else:
            part = part_of_rows(node)
            is_kept = part == "end" or (part == "rest" and node.outputs[0] not in whole)
            whole.update(node.inputs[1:] if is_kept else node.inputs)
    return found
