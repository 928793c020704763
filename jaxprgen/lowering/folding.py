"""What follows from a graph's constants alone is computed once, before any argument is known."""

from __future__ import annotations

from dataclasses import replace

from jaxprgen.errors import JaxprGenError
from jaxprgen.ir import Builder
from jaxprgen.lowering.decisions import ValueNeededError
from jaxprgen.lowering.driver import Lowering
from jaxprgen.lowering.graph import Plan, Step
from jaxprgen.lowering.known import is_known


def fold_constants(plan: Plan) -> Plan:
    """The plan without the steps whose results follow from constants alone.

    What they give is the same for every kind of arguments; a step that makes equations, or
    fails, stays.
    """
    part = replace(plan, inputs=(), input_places=(), shared=(), generators=(), steps=())
    lowering = Lowering(part, Builder(), (), {}, False, lambda *_: None, wide=True)
    values = lowering.values
    steps: list[Step] = []
    folded: list[Step] = []
    for step in plan.steps:
        is_constant = all(values[p] is not None and is_known(values[p]) for p in step.inputs)
        if is_constant and _is_folded(lowering, step):
            folded.append(step)
            continue
        steps.append(step)
        for place in step.outputs:
            values[place] = plan.values[place]
    return replace(plan, values=values, steps=tuple(steps), folded=tuple(folded))


def _is_folded(lowering: Lowering, step: Step) -> bool:
    """Whether a step gives known values, which are then among those of the lowering."""
    try:
        lowering.lower_steps([step])
    except (JaxprGenError, ValueNeededError):
        pass
    else:
        if not len(lowering.builder):
            return all(is_known(lowering.values[place]) for place in step.outputs)
    lowering.builder = Builder()
    return False
