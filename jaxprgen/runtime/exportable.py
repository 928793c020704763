"""Prepare a compiled function for export: its program, data and types."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np

from jaxprgen import _jax
from jaxprgen._jax import Jaxpr
from jaxprgen.arguments.accept import accept_each
from jaxprgen.arguments.inputs import Input, free_name
from jaxprgen.arguments.specs import in_scope, parse_type, scope_with
from jaxprgen.emit.sizes import asserted
from jaxprgen.errors import ArgumentTypeError, ExportError
from jaxprgen.export.exporting import Exportable
from jaxprgen.ir.describe import place_text
from jaxprgen.lowering.graph import Plan
from jaxprgen.runtime.program import CALLBACKS, Options, Program, is_small
from jaxprgen.runtime.specialize import Specializer


def exportable(
    plan: Plan,
    options: Options,
    specializer: Specializer,
    given: Sequence[Any],
    constraints: Sequence[str],
    shared: Sequence[Any],
) -> Exportable:
    """Return what there is to export of a compiled function.

    An argument whose value decides a shape is part of the program, and no argument of it.

    Parameters
    ----------
    plan, options, specializer
        The parts of the function.
    given
        What to export it for, by input: arrays, `jax.ShapeDtypeStruct` or types as text.
    constraints
        Constraints between symbolic sizes.
    shared
        The values of the shared variables.
    """
    specs = specs_of(plan.inputs, given, constraints)
    # The exported program need not run where these devices are.
    shared = [_as_data(x) if _jax.is_on_several_devices(x) else x for x in shared]
    program, specs = with_assumptions(specs, lambda specs: specializer(specs, shared))
    refuse_callbacks(plan, options.name, program.closed_jaxpr.jaxpr)
    constants, function = program.flat()
    fixed = set(specializer.fixed(specs, shared))
    count = len(specs)
    open_places = [i for i in range(count) if i not in fixed]
    # All that the function takes, by place: arguments, then constants, then shared variables.
    values = [*specs, *constants, *shared]
    names = [i.name for i in plan.inputs]
    names += [*(f"constant_{i}" for i in range(len(constants))), *(s.name for s in plan.shared)]
    is_fixed = {i if i < count else i + len(constants) for i in fixed}
    small = {i: values[i] for i in is_fixed if is_small(values[i])}
    places = [i for i in range(len(values)) if i not in open_places and i not in small]
    data = sorted(zip(named_apart([names[i] for i in places]), places, strict=True))

    def flat(*passed: Any) -> list[Any]:
        found = dict(zip([*open_places, *(i for _, i in data)], passed, strict=True)) | small
        return function(*(found[i] for i in range(len(values))))

    inputs = tuple(plan.inputs[i] for i in open_places)
    types = tuple(_type_of(specs[i]) for i in open_places)
    held = {name: _as_data(values[i]) for name, i in data}
    tree = options.results_tree(len(plan.output_places))
    known = {plan.inputs[i].name: specs[i] for i in sorted(fixed) if i < count}
    return Exportable(options.name, inputs, types, held, flat, tree, known)


def _type_of(x: Any) -> jax.ShapeDtypeStruct:
    """Return the type of an argument, in the dtype that JAX's settings give it."""
    dtype = x.dtype if _jax.is_key(x) else _jax.canonicalize_dtype(x.dtype)
    return jax.ShapeDtypeStruct(x.shape, dtype)


def _as_data(x: Any) -> np.ndarray[Any, Any]:
    if isinstance(x, jax.Array) and not _jax.is_complete(x):
        raise ExportError(
            f"An array of shape {x.shape} cannot be exported: other processes hold parts of it.\n"
            "Make it an input of the graph, and pass it to the exported program."
        )
    x = np.asarray(x)
    return np.asarray(x, _jax.canonicalize_dtype(x.dtype))


def specs_of(
    inputs: Sequence[Input], given: Sequence[Any], constraints: Sequence[str]
) -> list[Any]:
    """Return the types and values to export a function for, in the order of its inputs.

    Parameters
    ----------
    inputs
        The inputs.
    given
        For each input an array, a `jax.ShapeDtypeStruct` or a type as text.
    constraints
        Constraints between symbolic sizes.

    Raises
    ------
    ArgumentTypeError, ArgumentShapeError
        A type does not fit its input.
    """
    scope = _jax.symbolic_scope([x.shape for x in given if isinstance(x, jax.ShapeDtypeStruct)])
    if scope is None or constraints:
        listed = [*_jax.constraints_of(scope), *constraints]
        given = in_scope(given, listed)
        scope = _jax.symbolic_scope([x.shape for x in given if isinstance(x, jax.ShapeDtypeStruct)])
        scope = scope_with(listed) if scope is None else scope
    parsed = [parse_type(x, scope) if isinstance(x, str) else x for x in given]
    return accept_each(parsed, inputs)


def with_assumptions(specs: Sequence[Any], emit: Callable[[Sequence[Any]], Program]) -> Any:
    """Return what a program is emitted as, and the specs with the constraints that it assumes.

    A program asserts what the graph demands of sizes, as a sum demands that two are equal. As a
    constraint, it is part of the types of arguments, and calls check it before they compute. An
    assertion that JAX does not take for a constraint stays one.
    """
    specs, refused = list(specs), set[str]()
    while True:
        program = emit(specs)
        shapes = [x.shape for x in specs if isinstance(x, jax.ShapeDtypeStruct)]
        known = _jax.constraints_of(_jax.symbolic_scope(shapes))
        equations = _jax.every_equation(program.closed_jaxpr.jaxpr)
        checks = (eqn for eqn in equations if eqn.primitive is _jax.shape_assertion_p)
        found = (asserted(eqn.params["error_message"]) for eqn in checks)
        condition = next((x for x in found if x and x not in {*known, *refused}), None)
        if condition is None:
            return program, specs
        symbol, _, other = condition.partition(" == ")
        if symbol in re.findall(r"\w+", other):  # JAX would replace it without end.
            refused.add(condition)
            continue
        try:
            specs = in_scope(specs, [*known, condition])
        except ArgumentTypeError:
            refused.add(condition)


def refuse_callbacks(plan: Plan, name: str, jaxpr: Jaxpr) -> None:
    """Raise an `ExportError` if a program calls back into Python, or has run-time checks."""
    ops: dict[int, dict[str, None]] = {}  # By the line that made them.
    for step in plan.steps:
        ops.setdefault(id(step.source_info.traceback), {})[str(step.node.op)] = None
    for eqn in _jax.every_equation(jaxpr):
        frame = _jax.frame_of(eqn.source_info)
        where = f"\n{place_text(frame.place)}" if frame else ""
        if eqn.primitive.name in CALLBACKS:
            found = ops.get(id(eqn.source_info.traceback), {"an Op of an inner graph": None})
            raise ExportError(
                f"{name} cannot be exported: {' or '.join(found)} runs in Python while the program "
                f"runs, and a program elsewhere has no Python.{where}\n"
                "Give the Op a rule (jaxprgen.lowers), or compile the graph without it."
            )
        if _jax.is_check(eqn):
            raise ExportError(
                f"{name} cannot be exported: it was compiled with checks=True, and a program "
                f"elsewhere cannot raise errors.{where}\nCompile it without checks."
            )


def named_apart(names: Sequence[str]) -> list[str]:
    """Return names that all differ, by numbers after those that are taken."""
    taken: dict[str, None] = {}
    for name in names:
        taken[free_name(name, taken)] = None
    return list(taken)
