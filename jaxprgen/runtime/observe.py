"""A program beside the graph it was emitted from, for reports and views."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any, NamedTuple, Protocol, runtime_checkable

from jaxprgen import _jax
from jaxprgen._jax import ClosedJaxpr, Frame, Jaxpr, JaxprEqn, Var
from jaxprgen.emit.deferred import LoopRows
from jaxprgen.emit.values import Value
from jaxprgen.lowering.graph import Plan, Step
from jaxprgen.passes.repeat_notes import Found, Repeat, Repeats, listening
from jaxprgen.runtime.program import Options, Program, calls_python
from jaxprgen.runtime.specialize import Specializer


class Node(NamedTuple):
    """One node of the graph, and what became of it.

    Attributes
    ----------
    op
        The Op, as Aesara prints it.
    name
        The user's name of its output, or of the nearest ancestor that has one, or nothing.
    frame
        The user's line that made it, or the nearest ancestor that has one.
    how
        One of "folded" (evaluated while emitting), "free" (no equation: a view, a broadcast that no
        operation needs in full, or a result that nobody reads), "emitted" (equations), "batched"
        and "looped" (equations that it shares with other nodes, which do the same), "staged"
        (equations of a routine that JAX traced, see `jaxprgen.emit.staged`) and "called back"
        (Python runs while the program does).
    equations
        Its equations in the program. Shared equations are those of the first node.
    inputs, outputs
        The places of its variables, as in `Observation.labels`.
    nbytes
        The size of its equations' results, in bytes; infinite for symbolic sizes.
    seconds
        The time that lowering it took.
    repeat
        The repetition that it is part of, if it shares its equations.
    """

    op: str
    name: str
    frame: Frame | None
    how: str
    equations: tuple[JaxprEqn, ...]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    nbytes: float
    seconds: float
    repeat: Repeat | None = None


UNSEEN = frozenset({"folded", "free"})
"""What becomes of nodes that have no equation."""


def alike(nodes: Iterable[Node]) -> list[list[Node]]:
    """Return nodes in groups that have one outcome, Op, name and line.

    The nodes of one repetition may differ in their names, and so may nodes without equations.
    """
    firsts: dict[int, str] = {}
    groups: dict[Any, list[Node]] = {}
    for node in nodes:
        name = "" if node.how in UNSEEN else node.name
        if node.repeat is not None:
            name = firsts.setdefault(id(node.repeat), name)
        groups.setdefault((node.how, node.op, name, node.frame), []).append(node)
    return list(groups.values())


@runtime_checkable
class Observable(Protocol):
    """What has the methods of a compiled function, as functions of PyMC's models have."""

    observe: Callable[..., Observation]
    accepted: Callable[..., list[Any]]
    """Returns arguments as programs take them."""
    arranged: Callable[[Sequence[Any]], Any]
    """Returns a program's results as a call gives them."""


class Observation(NamedTuple):
    """The program for one kind of arguments, and the graph it came from.

    Attributes
    ----------
    name
        The function's name.
    closed_jaxpr
        The program.
    nodes
        The nodes of the graph in the order of computing.
    labels, types, frames
        The label of each variable of the graph, its dtype and shape, and its line, by place.
    values
        The value of each variable in the program, by place.
    inputs, outputs
        The places of the graph's inputs and outputs.
    names
        The user's names of the program's variables.
    program
        The program, and how it runs.
    repeats
        What the passes found repeated, and what they left alone.
    repeated
        The repetition that each variable of the program is computed for, if any.
    """

    name: str
    closed_jaxpr: ClosedJaxpr
    nodes: tuple[Node, ...]
    labels: tuple[str, ...]
    types: tuple[str, ...]
    frames: tuple[Frame | None, ...]
    values: tuple[Any, ...]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    names: dict[Var, str]
    program: Program
    repeats: Repeats
    repeated: dict[Var, Repeat]


def observe(
    plan: Plan, options: Options, operands: Sequence[Any], shared: Sequence[Any]
) -> Observation:
    """Emit a plan anew for these arguments, and note what becomes of each node."""
    watch = _Watch()
    with listening() as notes:
        program = Specializer(plan, options, observer=watch)(operands, shared)
    closed, values, variables = program.closed_jaxpr, program.values, plan.variables
    assert values is not None
    watch.finish(plan, closed, values, notes.found)
    parts = ((eqn, found.repeat) for found in notes.found for eqn in found.equations)
    repeated: dict[Any, Repeat] = {v: repeat for eqn, repeat in parts for v in eqn.outvars}
    return Observation(
        options.name,
        closed,
        tuple(watch.node(step, values) for step in plan.steps),
        tuple(plan.library.label(v) for v in variables),
        tuple(_type(value) for value in values),
        tuple(map(_jax.frame_of, plan.source_infos)),
        tuple(values),
        plan.input_places,
        plan.output_places,
        _names(plan, closed, values),
        program,
        notes.repeats(),
        repeated,
    )


class _Lowered(NamedTuple):
    """The equations that one step appended, and how."""

    equations: Sequence[JaxprEqn]
    staged: bool
    seconds: float


class _Watch:
    """Notes what the steps of a plan do. If lowering starts anew, the last time counts."""

    def __init__(self) -> None:
        self._lowered: dict[int, _Lowered] = {}
        self._equations: dict[int, list[JaxprEqn]] = {}
        self._repeats: dict[int, Repeat] = {}

    def __call__(
        self, step: Step, equations: Sequence[JaxprEqn], staged: bool, seconds: float
    ) -> None:
        """Note what a step did: see `jaxprgen.lowering.driver.Observer`."""
        self._lowered[id(step.node)] = _Lowered(equations, staged, seconds)

    def finish(
        self, plan: Plan, closed: ClosedJaxpr, values: Sequence[Any], repeats: Iterable[Found]
    ) -> None:
        """Find the node of each equation that is left in the program.

        An equation that spells out an output, which was a broadcast, belongs to the output's node;
        one that computes repetitions together, to the first of their nodes; another one that a pass
        made belongs to the node that reads it; one that converts an argument belongs to no node.
        """
        made = ((key, e) for key, lowered in self._lowered.items() for e in lowered.equations)
        # A pass may replace a loop and keep its results.
        makers = {id(x): key for key, e in made for x in (e, *e.outvars)}
        for found in repeats:
            nodes = dict.fromkeys(makers[id(v)] for v in found.results if id(v) in makers)
            for key in nodes:
                self._repeats.setdefault(key, found.repeat)
            for x in (x for e in found.equations if nodes for x in (e, *e.outvars)):
                makers.setdefault(id(x), next(iter(nodes)))
        by_place = {place: id(step.node) for step in plan.steps for place in step.outputs}
        outputs = zip(closed.jaxpr.outvars, plan.output_places, strict=True)
        ends = dict.fromkeys(id(operand_of(values[place])) for place in plan.input_places)
        ends.update((id(x), by_place.get(place)) for x, place in outputs)
        for eqn in reversed(closed.jaxpr.eqns):
            known = next((id(x) for x in (eqn, *eqn.outvars) if id(x) in makers), None)
            first = next((ends[id(v)] for v in eqn.outvars if id(v) in ends), None)
            maker = first if known is None else makers[known]
            if maker is None:
                continue
            self._equations.setdefault(maker, []).insert(0, eqn)
            for x in eqn.invars:
                ends.setdefault(id(x), maker)

    def node(self, step: Step, values: Sequence[Any]) -> Node:
        """Return what became of a step."""
        lowered = self._lowered.get(id(step.node), _Lowered((), False, 0.0))
        equations = tuple(self._equations.get(id(step.node), ()))
        repeat = self._repeats.get(id(step.node))
        if any(map(calls_python, equations)):
            how = "called back"
        elif repeat is not None:
            how = repeat.how
        elif equations:
            how = "staged" if lowered.staged else "emitted"
        else:
            made = [operand_of(values[place]) for place in step.outputs]
            computed = any(type(x) in (Var, LoopRows) for x in made)
            how = "free" if computed else "folded"
        scope, frame = _jax.scope_of(step.source_info), _jax.frame_of(step.source_info)
        nbytes = sum(_jax.nbytes(v.aval) for eqn in equations for v in eqn.outvars)
        ends = step.inputs, step.outputs
        costs = nbytes, lowered.seconds
        return Node(str(step.node.op), scope, frame, how, equations, *ends, *costs, repeat)


def scopes_of(jaxpr: Jaxpr) -> set[str]:
    """Return the names of variables that the equations of a program, and inside it, carry."""
    return {_jax.scope_of(eqn.source_info) for eqn in _jax.every_equation(jaxpr)} - {""}


def constant_bytes(closed: ClosedJaxpr) -> float:
    """Return the size of the data beside a program, in bytes."""
    return sum(_jax.nbytes(v.aval) for v in closed.jaxpr.constvars)


def operand_of(value: Any) -> Any:
    """The variable or the array that a value consists of; what is no array as it is."""
    return value.source if isinstance(value, Value) else value


def _type(value: Any) -> str:
    """Write a value's type as JAX does; nothing for values that are not arrays."""
    if not isinstance(value, Value):
        return ""
    return f"{value.dtype}{list(value.shape)}".replace(" ", "")


def _names(plan: Plan, closed: ClosedJaxpr, values: Sequence[Any]) -> dict[Var, str]:
    """Return the user's names of variables of the program; the first of several.

    The operand of a broadcast has the name of the broadcast, unless another variable has it.
    """
    names: dict[Var, str] = {}
    constants = {id(c): v for v, c in zip(closed.jaxpr.constvars, closed.consts, strict=True)}
    whole = [x.source if isinstance(x, Value) and not x.is_repeated else None for x in values]

    def add(pairs: Iterable[tuple[int, Any]], taken: Collection[str] = ()) -> None:
        for place, value in pairs:
            x = value if type(value) is Var else constants.get(id(value))
            name = plan.variables[place].name
            if x is not None and name and name not in taken:
                names.setdefault(x, name)

    add(zip(plan.input_places, closed.jaxpr.invars, strict=True))
    add(enumerate(whole))
    add(zip(plan.output_places, closed.jaxpr.outvars, strict=True))
    add(enumerate(map(operand_of, values)), taken=set(names.values()))
    return names
