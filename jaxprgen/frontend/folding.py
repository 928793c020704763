"""What follows from a graph's constants alone is computed once, before any argument is known."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from jaxprgen.errors import JaxprGenError
from jaxprgen.frontend.decisions import ValueNeededError
from jaxprgen.frontend.graph import Plan, Step
from jaxprgen.frontend.known import is_known
from jaxprgen.frontend.lowering import Lowering
from jaxprgen.ir import Builder


def fold_constants(plan: Plan) -> Plan:
    """The plan without the steps whose results follow from constants alone.

    What they give is the same for every kind of arguments; a step that makes equations, or
    fails, stays.
    """
    values = plan.values.copy()
    steps: list[Step] = []
    folded: list[Step] = []
    builder = Builder()  # Stays empty: what makes an equation is not folded.
    for step in plan.steps:
        inputs = [values[place] for place in step.inputs]
        results = _results(plan, step, inputs, builder) if all(map(is_known, inputs)) else None
        if len(builder):
            builder, results = Builder(), None
        if results is None or not all(map(is_known, results)):
            steps.append(step)
            continue
        folded.append(step)
        for place, value in zip(step.outputs, results, strict=True):
            values[place] = value
    return replace(plan, values=values, steps=tuple(steps), folded=tuple(folded))


def _results(plan: Plan, step: Step, inputs: list[Any], builder: Builder) -> list[Any] | None:
    """What the step gives for these inputs, or None where it fails."""
    count, size = len(inputs), len(inputs) + len(step.outputs)
    alone = step._replace(inputs=tuple(range(count)), outputs=tuple(range(count, size)))
    part = Plan(
        library=plan.library,
        variables=(),
        source_infos=(),
        inputs=(),
        input_places=(),
        output_places=alone.outputs,
        shared=(),
        values=inputs + [None] * len(step.outputs),
        steps=(alone,),
        inner=plan.inner,
    )
    try:
        lowering = Lowering(part, builder, (), {}, False, lambda *_: None, wide=True)
        lowering.lower_steps()
    except (JaxprGenError, ValueNeededError):
        return None
    return [lowering.values[place] for place in alone.outputs]
