"""One program per kind of arguments: types, values that decide shapes, JAX's settings."""

from __future__ import annotations

import functools
import inspect
import keyword
import re
import threading
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import jax
import numpy as np

from jaxprgen import _jax
from jaxprgen._jax import ClosedJaxpr, Tracer
from jaxprgen.emit.random import end_of
from jaxprgen.emit.values import Array
from jaxprgen.errors import PrecisionWarning, RuntimeCheckWarning
from jaxprgen.ir import Atom, Builder
from jaxprgen.ir.rewriting import without_values
from jaxprgen.lowering.decisions import Decisions, ValueNeededError
from jaxprgen.lowering.driver import Lowering, Observer
from jaxprgen.lowering.graph import Plan
from jaxprgen.runtime.data import is_small, narrow, to_device, types_of
from jaxprgen.runtime.deciding import MOST_VALUES, hindrance_of, values_key
from jaxprgen.runtime.options import Options


class Specialization:
    """The program for one kind of arguments.

    Attributes
    ----------
    closed_jaxpr
        The program. Its inputs are the arguments, its constants data known while emitting.
    values
        What stands for each of the plan's variables, by place; kept for observing alone.
    seconds
        How long emitting it took, and the passes: by these names.
    decided
        Whether it is of certain values of arguments, not only of their types.
    constants
        Data that the program takes as hidden arguments, but for shared variables: what is not
        small enough to be part of the program when JAX lowers it.
    """

    def __init__(
        self,
        closed: ClosedJaxpr,
        shared: Sequence[Array],
        values: Sequence[Any] | None,
        options: Options,
        seconds: Mapping[str, float],
        decided: bool,
        donated: Sequence[int] = (),
    ) -> None:
        self.closed_jaxpr = closed
        self.decided = decided
        self.values = values
        self.seconds = seconds
        position = {id(array): i for i, array in enumerate(shared)}
        # Shared variables last, as where calls are dispatched: both are one program for caches.
        hoisted, constants = _jax.hoist_constants(closed, lambda c: position.get(id(c), -1))
        self.constants = [c for c in constants if id(c) not in position and not is_small(c)]
        # What each hidden argument is: a shared variable's place, data, or None for the next of
        # `constants`.
        self._sources: list[Any] = [
            position[id(c)] if id(c) in position else narrow(c) if is_small(c) else None
            for c in constants
        ]
        self.arg_names = hoisted.jaxpr.debug_info.arg_names[len(constants) :]
        self._inside = _jax.jit_params(hoisted, options.name)
        self._alone = _jax.jit_params(hoisted, options.name, options.compiler_options)
        self._on_device: list[Any] | None = None
        self._options = options
        self._donated = donated
        self._ends = len(self.constants), len(self.constants) + len(shared)

    @functools.cached_property
    def _jitted(self) -> Any:
        return jitted(self._run, self._options, self._ends, self.arg_names, self._donated)

    def hidden(self, constants: Sequence[Any], shared: Sequence[Any]) -> list[Any]:
        """The hidden arguments, and small data: of the constants and all shared variables."""
        rest = iter(constants)
        return [
            next(rest) if s is None else shared[s] if isinstance(s, int) else s
            for s in self._sources
        ]

    def run(self, hidden: Sequence[Any], operands: Sequence[Any]) -> list[Any]:
        """What JAX calls to trace the program, and otherwise to debug it: with ``jax_debug_nans``,
        which asks for the equation that makes a NaN, or under `jax.disable_jit`.
        """
        if _jax.trace_state_clean():
            return _jax.eval_jaxpr(self._inside["jaxpr"], [*hidden, *operands])
        return self._bind([*hidden, *operands], self._inside)

    def _run(self, *given: Any) -> list[Any]:
        first, second = self._ends
        return self.run(self.hidden(given[:first], given[first:second]), given[second:])

    def _bind(self, operands: Sequence[Any], params: Mapping[str, Any]) -> list[Any]:
        """The program as one ``jit`` equation; hidden arguments come first."""
        try:
            return _jax.jit_p.bind(*operands, **params)
        except _jax.NonFiniteError:  # Ask for the equation, as `jax.jit` does.
            return _jax.eval_jaxpr(params["jaxpr"], operands)

    def __call__(self, operands: Sequence[Any], shared: Sequence[Any]) -> list[Any]:
        """Run on arguments, or record the program where one of them is a tracer."""
        if self._on_device is None:
            self._on_device = to_device(self.constants)
        if not any(isinstance(x, Tracer) for x in operands):
            return as_listed(self._jitted(*self._on_device, *shared, *operands))
        return self._bind([*self.hidden(self._on_device, shared), *operands], self._alone)

    def lower(self, operands: Sequence[Any], shared: Sequence[Any]) -> jax.stages.Lowered:
        """JAX's lowered form of the program; operands may be `jax.ShapeDtypeStruct`."""
        return self._jitted.lower(*types_of([*self.constants, *shared]), *operands)


def as_given(results: Sequence[Any]) -> Any:
    """Results as a call gives them: one alone, or a tuple."""
    return results[0] if len(results) == 1 else tuple(results)


def as_listed(given: Any) -> list[Any]:
    """What a call gives as a list, however many results there are."""
    return list(given) if isinstance(given, tuple) else [given]


def jitted(
    function: Callable[..., list[Any]],
    options: Options,
    ends: tuple[int, int],
    arg_names: Sequence[str],
    donated: Sequence[int],
) -> Any:
    """JAX's compiled form of a function of constants, shared variables and arguments, in order.

    The first two end at ``ends``; arguments are counted where memory is donated. It gives results
    as users get them.
    """

    def program(*given: Any) -> Any:
        return as_given(function(*given))

    first, second = ends
    before = [f"constant_{i}" for i in range(first)]
    before += [f"shared_{i}" for i in range(second - first)]
    program.__name__ = program.__qualname__ = options.name
    program.__signature__ = signature([*before, *arg_names])  # type: ignore[attr-defined]
    return options.jit(program, [second + i for i in donated])


def signature(names: Sequence[str]) -> inspect.Signature:
    """A function of arguments by position that are called like this, as far as Python can."""
    taken: dict[str, None] = {}  # In order.
    for i, name in enumerate(names):
        name = re.sub(r"\W", "_", name)
        usable = name.isidentifier() and not keyword.iskeyword(name) and name not in taken
        taken[name if usable else f"argument_{i}"] = None
    positional = inspect.Parameter.POSITIONAL_ONLY
    return inspect.Signature([inspect.Parameter(name, positional) for name in taken])


class _Family(NamedTuple):
    """The specializations for one list of types: by values of inputs.

    Attributes
    ----------
    deciding
        The inputs that decide shapes, whose values are part of programs.
    asked, nodes
        The inputs of whose values no more matters than what these nodes decide by them.
    members
        The programs by the values of all these inputs.
    programs
        The same by the values of the first and by what was decided.
    """

    deciding: tuple[int, ...]
    asked: tuple[int, ...]
    nodes: frozenset[Any]
    members: dict[Any, Specialization]
    programs: dict[Any, Specialization]

    def with_need(self, needed: ValueNeededError) -> _Family:
        """A family, without programs yet, that also depends on what is needed."""
        if needed.node is None:
            deciding = tuple(sorted({*self.deciding, *needed.inputs}))
            return _Family(deciding, self.asked, self.nodes, {}, {})
        asked = tuple(sorted({*self.asked, *needed.inputs}))
        return _Family(self.deciding, asked, self.nodes | {needed.node}, {}, {})

    def key(self, arguments: Sequence[Any]) -> Any:
        """What members are found by."""
        return values_key((*self.deciding, *self.asked), arguments)


class Specializer:
    """A cache of the programs of one plan. Safe to use from several threads.

    An ``observer`` is called after each step of the plan. With one, programs keep what stands for
    the plan's variables, and warnings are left to another specializer of the same plan. The
    memory of arguments that are ``donated`` is reused for results.
    """

    def __init__(
        self,
        plan: Plan,
        options: Options,
        *,
        observer: Observer | None = None,
        donated: Sequence[int] = (),
    ) -> None:
        self._observer = observer
        self._donated = donated
        self.plan = plan
        self._options = options
        self._families: dict[Any, _Family] = {}
        self._lock = threading.RLock()
        self.misses = 0
        # What there is to warn of, by what it is about, and about what that was done.
        self._warnings: dict[Any, tuple[str, type[Warning]]] = {}
        self._said: set[Any] = set()

    def __call__(self, operands: Sequence[Any], shared: Sequence[Array]) -> Specialization:
        """The program for these arguments, emitted if it was not before.

        Raises
        ------
        StaticShapeError
            A shape depends on the value of an argument that has none: a tracer.
        """
        types = _jax.types_of(operands)
        kind = (types, tuple((a.shape, a.dtype) for a in shared), _jax.trace_context())
        arguments = [*operands, *shared]
        family = self._families.get(kind)
        if family is not None:
            found = family.members.get(family.key(arguments))
            if found is not None:
                return found
        with self._lock:
            return self._emit(kind, types, arguments, shared)

    def _emit(
        self, kind: Any, types: Sequence[Any], arguments: Sequence[Any], shared: Sequence[Array]
    ) -> Specialization:
        family = self._families.get(kind, _Family((), (), frozenset(), {}, {}))
        while True:
            key = family.key(arguments)
            found = family.members.get(key)
            if found is not None:  # Another thread was first.
                return found
            try:
                made, decided = self._lower(types, family, arguments, shared)
            except ValueNeededError as needed:
                family = family.with_need(needed)
                continue
            alike = values_key(family.deciding, arguments), decided
            self.misses += alike not in family.programs
            if len(family.members) >= MOST_VALUES:
                family.members.clear()  # The programs stay.
            family.members[key] = family.programs.setdefault(alike, made)
            self._families[kind] = family
            self._warn()
            return family.members[key]

    def _lower(
        self,
        types: Sequence[Any],
        family: _Family,
        arguments: Sequence[Any],
        shared: Sequence[Array],
    ) -> tuple[Specialization, tuple[Any, ...]]:
        """A program, and what nodes decided of it."""
        start = time.perf_counter()
        if not _jax.x64_enabled():
            self._announce_narrowing()
        declared = [*self.plan.inputs, *self.plan.shared]

        def hindrance(i: int, decides: bool) -> str:
            kind = "input" if i < len(self.plan.inputs) else "shared variable"
            return hindrance_of(arguments[i], kind, declared[i].name, i, decides)

        def values_of(positions: Sequence[int], decides: bool) -> dict[int, Array]:
            """The arguments there, in their inputs' dtypes, as far as they can decide."""
            found = (i for i in positions if not hindrance(i, decides))
            return {i: np.asarray(arguments[i], declared[i].dtype) for i in found}

        values = values_of(family.deciding, False)
        asked = values_of(family.asked, True)
        decisions = Decisions(family.nodes, asked, [])
        # Views, because a constant of the program is known by the identity of its array, and
        # one array may be the value of two variables.
        shared = [array.view() for array in shared]
        builder = Builder(types)
        lowering = Lowering(
            self.plan,
            builder,
            shared,
            values,
            self._options.checks,
            self._announce,
            hindrance=hindrance,
            decisions=decisions,
            observer=self._observer,
        )
        outputs: list[Atom] = []
        for value, place in zip(lowering.run(), self.plan.output_places, strict=True):
            builder.source_info = self.plan.source_infos[place]
            outputs.append(end_of(builder, value))
        closed = builder.build(
            outputs,
            name=self._options.name,
            arg_names=[
                self.plan.library.name(self.plan.variables[place])
                for place in self.plan.input_places
            ],
            result_names=[f"result[{i}]" for i in range(len(outputs))],
        )
        emitted = time.perf_counter()
        closed = without_values(closed, shared, self._options.passes)
        seconds = {"emit": emitted - start, "passes": time.perf_counter() - emitted}
        kept = lowering.values if self._observer else None
        decided = tuple(decisions.found)
        asked.clear()  # Derivatives that are made later are those of all that decide alike.
        made = Specialization(
            closed, shared, kept, self._options, seconds, bool(values or decided), self._donated
        )
        return made, decided

    def _announce(self, node: Any, message: str) -> None:
        self._warnings[node] = message, RuntimeCheckWarning

    def _announce_narrowing(self) -> None:
        wide = _first_wide(self.plan)
        if wide:
            text = (
                "jax_enable_x64 is off: what this graph declares with 64 bits, first of all "
                f"{wide}, is computed with 32.\nRun jax.config.update('jax_enable_x64', True) "
                "before anything else of JAX to compute as declared."
            )
            self._warnings[PrecisionWarning] = text, PrecisionWarning

    def _warn(self) -> None:
        """Say what there is to say, each thing once; here, where it cannot disturb a rule."""
        news = [about for about in self._warnings if about not in self._said]
        self._said.update(news)
        for about in [] if self._observer else news:
            message, category = self._warnings[about]
            warnings.warn(message, category, stacklevel=_levels_to_user())

    def __len__(self) -> int:
        """How many programs there are."""
        return sum(len(family.programs) for family in self._families.values())

    def clear(self) -> None:
        """Forget all programs."""
        with self._lock:
            self._families = {}
            self.misses = 0


def _first_wide(plan: Plan) -> str:
    """The first 64-bit input, floating-point result or output that a graph declares, if any.

    Integers between are left out: every graph that asks for a shape has them.
    """
    for declared in plan.inputs:
        if declared.dtype in _jax.NARROW:
            return f"{declared.name!r} ({declared.dtype})"
    for step in plan.steps:
        for declared, place in zip(step.types, step.outputs, strict=True):
            if declared is None or declared.dtype not in _jax.NARROW:
                continue
            if declared.dtype.kind in "fc" or place in plan.output_places:
                return f"the result of {step.node.op} ({declared.dtype})"
    return ""


def _levels_to_user() -> int:
    """The ``stacklevel`` with which a warning of the caller shows the user's line."""
    level, frame = 0, inspect.currentframe()
    while frame and frame.f_globals.get("__name__", "").startswith(("jaxprgen.", "jax.")):
        level, frame = level + 1, frame.f_back
    return level
