"""Values of variables that are emitted, not known, evaluated from what is known before them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from jaxprgen.emit.values import known
from jaxprgen.lowering.graph import Plan
from jaxprgen.lowering.known import known_or_ones
from jaxprgen.lowering.registry import needed_inputs


def derived(
    plan: Plan,
    values: Sequence[Any],
    targets: Sequence[int],
    arguments: Callable[[list[int]], dict[int, Any]],
) -> dict[int, Any]:
    """The values of the targets at least, by place.

    ``values`` are what stands for the plan's variables. ``arguments`` gives the values of those
    that no step computes, of which each target needs no more than its value depends on.
    """
    steps: set[int] = set()
    missing: list[int] = []
    seen: set[int] = set()
    pending = list(targets)
    while pending:
        place = pending.pop()
        if place in seen or known(values[place]) is not None:
            continue
        seen.add(place)
        if place not in plan.producers:
            if place in plan.leaves:  # Else it is a constant that is no array, as None or a slice.
                missing.append(place)
            continue
        step, output = plan.producers[place]
        steps.add(id(step))
        needed = needed_inputs(type(step.node.op), step.node, output)
        pending.extend(step.inputs[i] for i in needed)
    found: dict[int, Any] = arguments(sorted(missing)) if missing else {}
    for step in plan.steps:
        if id(step) in steps:
            inputs = [found[p] if p in found else known_or_ones(values[p]) for p in step.inputs]
            wanted = [i for i, place in enumerate(step.outputs) if place in seen]
            results = plan.library.evaluate(step.node, inputs, wanted)
            found.update({step.outputs[i]: results[i] for i in wanted})
    return found
