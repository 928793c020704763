"""What follows from a graph's constants alone is computed once, before any argument is known."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from jaxprgen.errors import JaxprGenError
from jaxprgen.frontend.graph import Plan, Step
from jaxprgen.frontend.known import is_known
from jaxprgen.frontend.lowering import Lowering, ValueNeededError
from jaxprgen.ir import Builder


def fold_constants(plan: Plan) -> Plan:
    """The plan without the steps whose results follow from constants alone.

    What they give is the same for every kind of arguments; a step that makes equations, or
    fails, stays.
    """
    values = plan.values.copy()
    steps: list[Step] = []
    for step in plan.steps:
        inputs = [values[place] for place in step.inputs]
        results = None
        if all(map(is_known, inputs)):
            results = _results_without_equations(plan, step, inputs)
        if results is None:
            steps.append(step)
        else:
            for place, value in zip(step.outputs, results, strict=True):
                values[place] = value
    kept = {id(step.node) for step in steps}
    folded = tuple(step.node for step in plan.steps if id(step.node) not in kept)
    return replace(plan, values=values, steps=tuple(steps), folded=folded)


def _results_without_equations(plan: Plan, step: Step, inputs: list[Any]) -> list[Any] | None:
    builder = Builder()
    count, size = len(inputs), len(inputs) + len(step.outputs)
    alone = step._replace(inputs=tuple(range(count)), outputs=tuple(range(count, size)))
    part = Plan(
        library=plan.library,
        inputs=(),
        input_places=(),
        output_places=alone.outputs,
        shared=(),
        values=inputs + [None] * len(step.outputs),
        steps=(alone,),
    )
    try:
        results = Lowering(part, builder, (), {}, False, lambda *_: None, wide=True).run()
    except (JaxprGenError, ValueNeededError):
        return None
    return results if not len(builder) and all(map(is_known, results)) else None
