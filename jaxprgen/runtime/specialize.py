"""One program per kind of arguments: their types, values that decide shapes, JAX's settings."""

from __future__ import annotations

import functools
import hashlib
import threading
import time
from collections.abc import Hashable, Sequence
from typing import Any, NamedTuple

import jax
import numpy as np

from jaxprgen import _jax, collector
from jaxprgen._jax import Tracer, is_key
from jaxprgen.emit.random import end_of
from jaxprgen.emit.values import Array
from jaxprgen.ir import Atom, Builder
from jaxprgen.ir.rewriting import without_values
from jaxprgen.ir.shardings import with_shardings
from jaxprgen.lowering.driver import Lowering, Observer
from jaxprgen.lowering.graph import Plan
from jaxprgen.lowering.static import Guards, ValueNeededError
from jaxprgen.runtime.announcements import Announcements
from jaxprgen.runtime.program import Options, Program
from jaxprgen.runtime.shardings import (
    constrain_leaves,
    constrained_output,
    explicit_mesh,
    types_of_held,
)

STATIC_LIMIT = 64
"""Elements up to which an argument can be static: a program is emitted for each of its values."""
DECIDING_LIMIT = 1 << 20
"""Elements up to which an argument can decide something, such as a number of elements.

A program is emitted for each decision. To tell a million elements from others takes 10 ms."""
MOST_VALUES = 4096
"""How many values of arguments a function remembers the decisions of."""


MOST_PROGRAMS = 1024
"""How many programs a compiled function keeps.

A program is emitted for each combination of argument types and of values that decide shapes. The
bound is there for functions that meet ever new ones, such as batches of every size; nobody should
meet it otherwise. It is a constant because a smaller number would save little memory beside what
JAX keeps, and `CompiledFunction.cache_clear` drops all programs at once.
"""


class CacheInfo(NamedTuple):
    """Statistics of a compiled function's programs.

    Attributes
    ----------
    misses
        How many programs were emitted since all of them were dropped.
    maxsize
        How many programs are kept. When there are as many, all are dropped.
    currsize
        How many programs there are now.
    """

    misses: int
    maxsize: int
    currsize: int


class Needs(NamedTuple):
    """The inputs whose values programs for one list of types depend on.

    Attributes
    ----------
    static
        The positions of inputs whose values are part of the program.
    deciding
        Those of inputs whose values only decide something, such as the number of elements that a
        mask selects.
    nodes
        The nodes that decide.
    decisions
        What they decided, by the values of all these inputs.
    """

    static: tuple[int, ...]
    deciding: tuple[int, ...]
    nodes: frozenset[Any]
    decisions: dict[Hashable, tuple[Any, ...]]

    def of(self, needed: ValueNeededError) -> Needs:
        """Return what is needed with a further need. No decision is known of it."""
        static, deciding, nodes = self.static, self.deciding, self.nodes
        if needed.node is None:
            static = tuple(sorted({*static, *needed.inputs}))
        else:
            deciding = tuple(sorted({*deciding, *needed.inputs}))
            nodes |= {needed.node}
        return Needs(static, deciding, nodes, {})

    def values(self, arguments: Sequence[Any]) -> Hashable:
        """Return a key of the values of all these inputs."""
        return _values_key((*self.static, *self.deciding), arguments)


class Specializer:
    """Emits the programs of one plan and keeps those used most recently. Thread-safe.

    Parameters
    ----------
    observer
        Called after each step of the plan. With an observer, programs keep the values of the
        plan's variables, and warnings are left to another specializer of the same plan.

    Attributes
    ----------
    clears : int
        How often all programs were dropped.
    """

    def __init__(self, plan: Plan, options: Options, observer: Observer | None = None) -> None:
        self._plan = plan
        self._options = options
        self._observer = observer
        self._programs: dict[Any, Program] = {}
        self._needs: dict[Hashable, Needs] = {}
        self._emitted = self.clears = 0
        self._emitting = threading.RLock()
        self._announcements = Announcements(plan, options.name)
        # Whether programs under a transformation differ from those that are called directly.
        self._tells_traces = False

    def __call__(self, operands: Sequence[Any], shared: Sequence[Array]) -> Program:
        """Return the program for these arguments, emitted if it is not in the cache.

        Raises
        ------
        StaticShapeError
            A shape depends on the value of an argument that has none, such as a tracer.
        """
        types = tuple(map(_jax.type_of, operands))
        kind, arguments = self._kind(types, shared, operands), [*operands, *shared]
        found = self._find(kind, arguments)
        if found is not None:
            return found
        with self._emitting:
            # Another thread may have emitted it by now.
            return self._find(kind, arguments) or self._emit(kind, types, arguments, shared)

    def fixed(self, operands: Sequence[Any], shared: Sequence[Array]) -> tuple[int, ...]:
        """Return the positions of arguments whose values the program for them depends on.

        Shared variables count after all arguments.
        """
        kind = self._kind(tuple(map(_jax.type_of, operands)), shared, operands)
        needs = self._needs.get(kind)
        return () if needs is None else (*needs.static, *needs.deciding)

    def cache_info(self) -> CacheInfo:
        """Return statistics of the programs."""
        return CacheInfo(self._emitted, MOST_PROGRAMS, len(self._programs))

    def cache_clear(self) -> None:
        """Drop all programs."""
        with self._emitting:
            self._programs.clear()
            self._needs.clear()
            self._emitted = 0
            self.clears += 1

    def _kind(
        self, types: Sequence[Any], shared: Sequence[Array], arguments: Sequence[Any]
    ) -> tuple[Hashable, ...]:
        held = (
            _jax.type_of(x) if _jax.is_on_several_devices(x) else (x.shape, x.dtype) for x in shared
        )
        in_trace = ["in a trace"] * (self._tells_traces and _any_tracer(arguments))
        return _jax.trace_context(), *types, *held, *self._carried(arguments), *in_trace

    def _find(self, kind: tuple[Hashable, ...], arguments: Sequence[Any]) -> Program | None:
        found = self._programs.get(kind)
        if found is not None:
            return found
        needs = self._needs.get(kind)
        if needs is None:
            return None
        decided = needs.decisions.get(needs.values(arguments)) if needs.deciding else ()
        if decided is None:
            return None
        return self._programs.get((kind, _values_key(needs.static, arguments), decided))

    def _emit(
        self,
        kind: tuple[Hashable, ...],
        types: Sequence[Any],
        arguments: Sequence[Any],
        shared: Sequence[Array],
    ) -> Program:
        if len(self._programs) >= MOST_PROGRAMS:
            self.cache_clear()
        needs = self._needs.get(kind) or Needs((), (), frozenset(), {})
        while True:
            try:
                program, decided = self._lower(types, needs, arguments, shared)
                break
            except ValueNeededError as needed:
                needs = needs.of(needed)
        key = kind = self._kind(types, shared, arguments)
        if needs.static or needs.deciding:
            if needs is not self._needs.get(kind):  # Programs were found by fewer values until now.
                for stale in [k for k in self._programs if k[0] == kind]:
                    del self._programs[stale]
                self._needs[kind] = needs
            if len(needs.decisions) >= MOST_VALUES:
                needs.decisions.clear()
            needs.decisions[needs.values(arguments)] = decided
            key = kind, _values_key(needs.static, arguments), decided
        found = self._programs.get(key)  # Emitted before for other values that decide the same.
        if found is None:
            self._programs[key] = program
            self._emitted += 1
            for i in {*needs.static, *needs.deciding}:
                (value,) = _values_key([i], arguments)
                self._announcements.value(i, value, i in needs.static)
        if not self._observer:
            self._announcements.issue()
        return found or program

    @collector.paused()
    def _lower(
        self, types: Sequence[Any], needs: Needs, arguments: Sequence[Any], shared: Sequence[Array]
    ) -> tuple[Program, tuple[Any, ...]]:
        """Emit a program; also return what nodes decided while it was emitted."""
        start = time.perf_counter()
        plan = self._plan
        if not _jax.x64_enabled():
            self._announcements.narrowing()
        hindrance = functools.partial(_hindrance, plan, arguments)
        declared = [*plan.inputs, *plan.shared]

        def usable(positions: Sequence[int], decides: bool) -> dict[int, Array]:
            found = (i for i in positions if not hindrance(i, decides))
            return {i: np.asarray(arguments[i], declared[i].dtype) for i in found}

        deciding = usable(needs.deciding, True)
        guards = Guards(needs.nodes, deciding, hindrance, _any_tracer(arguments))
        # A constant of the program is known by the identity of its array, and one array may be the
        # value of two variables. Programs are for all values, so they keep none.
        given = shared
        shared = [array.view() if self._observer else _placeholder(array) for array in given]
        outputs: list[Atom] = []
        mesh = explicit_mesh(plan, types, given)
        with _jax.partitioned(mesh), Builder(_jax.unsharded(types, mesh)) as builder:
            static, checks = usable(needs.static, False), self._options.checks
            announce, observer = self._announcements.of_node, self._observer
            lowering = Lowering(
                plan, builder, shared, static, checks, announce, guards=guards, observer=observer
            )
            constrain_leaves(lowering)
            for i, value in enumerate(lowering.run()):
                place = plan.output_places[i]
                builder.source_info = plan.source_infos[place]
                atom = end_of(value).atom()
                outputs.append(constrained_output(plan, i, atom, arguments))
            names = [plan.variables[place].name or "" for place in plan.input_places]
            results = [f"result[{i}]" for i in range(len(outputs))]
            name = self._options.name
            closed = builder.build(outputs, name=name, arg_names=names, result_names=results)
            emitted = time.perf_counter()
            closed = without_values(closed, shared, self._options.passes)
        if mesh is not None:
            values = {id(x): array for x, array in zip(shared, given, strict=True)}
            held = types_of_held([values.get(id(x), x) for x in closed.consts])
            closed = with_shardings(closed, types, mesh, held)
        seconds = {"emit": emitted - start, "passes": time.perf_counter() - emitted}
        kept = lowering.values if self._observer else None
        self._tells_traces |= guards.tells_traces
        deciding.clear()  # Derivatives that are made later serve all values that decide alike.
        by_types = not (needs.static or needs.deciding or any(self._carried(arguments)))
        # Devices would have to agree on how values are split that calls hand over.
        data = plan.data if mesh is None else None
        how = self._options, kept, seconds
        program = Program(closed, shared, *how, by_types=by_types, data=data)
        return program, tuple(guards.decided)

    def _carried(self, arguments: Sequence[Any]) -> list[Any]:
        """Return how the arguments are split whose next values the program returns."""
        return [_jax.sharding_of(arguments[i]) for i in self._plan.carried.values()]


def _placeholder(array: Array) -> Array:
    """Return another array of the same shape and dtype, which takes no memory."""
    return np.broadcast_to(np.zeros((), array.dtype), array.shape)


def _any_tracer(arguments: Sequence[Any]) -> bool:
    return any(isinstance(x, Tracer) for x in arguments)


def _values_key(positions: Sequence[int], arguments: Sequence[Any]) -> tuple[Hashable, ...]:
    """Return a key of the values of these arguments; those without a value have None."""
    return tuple(
        _digest(np.asarray(arguments[i])) if _has_values(arguments[i]) else None for i in positions
    )


def _has_values(x: Any) -> bool:
    """Return whether an argument has numbers as values, all of which this process can read."""
    if isinstance(x, (Tracer, jax.ShapeDtypeStruct)) or is_key(x):
        return False
    return not isinstance(x, jax.Array) or _jax.is_complete(x)


def _digest(x: Array) -> bytes:
    """Return a short text that is the same for equal arrays of one type."""
    return x.tobytes() if x.size <= STATIC_LIMIT else hashlib.sha256(x.tobytes()).digest()


def _hindrance(plan: Plan, arguments: Sequence[Any], i: int, decides: bool) -> str:
    """Return why a shape cannot depend on the value of an argument; empty if it can.

    Parameters
    ----------
    plan, arguments
        The plan, and its arguments, with the values of shared variables after all others.
    i
        The position of the argument.
    decides
        Whether the value only decides something, and is not part of the program.
    """
    name = [*plan.inputs, *plan.shared][i].name
    kind = "input" if i < len(plan.inputs) else "shared variable"
    why = _why_not(arguments[i], name, i, decides)
    return why and f"A shape depends on the value of {kind} {name!r}, which is {why}"


def _why_not(x: Any, name: str, position: int, decides: bool) -> str:
    what = "array" if np.ndim(x) else "number"
    if is_key(x):
        return (
            "a PRNG key.\nDraw in a function of its own, and pass what it returns; or use no more "
            "of what the loop leaves than single rows and reductions."
        )
    if isinstance(x, _jax.BatchTracer):
        return (
            "batched by jax.vmap: its values may differ, and the shapes with them.\n"
            f"Map over other arguments only, with None in in_axes for {name!r} at position "
            f"{position}; call this once for each value; or give the array a size that does not "
            "depend on it."
        )
    if isinstance(x, Tracer):
        static = f"mark it with jax.jit(..., static_argnums={position})"
        way = "call this outside of the transformation" if np.ndim(x) else static
        return (
            f"a tracer ({type(x).__name__}) under a JAX transformation.\n"
            f"Pass {name!r} as a concrete {what}: {way}, close over it, or give the array a size "
            "that does not depend on it."
        )
    if isinstance(x, jax.ShapeDtypeStruct):
        return f"a ShapeDtypeStruct, which has none.\nPass {name!r} as a concrete {what}."
    if isinstance(x, jax.Array) and not _jax.is_complete(x):
        return (
            f"an array that other processes hold in parts.\nPass {name!r} as a NumPy array that is "
            "the same in all processes, or give the array a size that does not depend on it."
        )
    if decides and np.size(x) > DECIDING_LIMIT:
        return (
            f"an array of {np.size(x)} elements.\nUp to {DECIDING_LIMIT} elements decide how many "
            "elements there are, how many steps a loop takes, or which way a branching goes."
        )
    if not decides and np.size(x) > STATIC_LIMIT:
        return (
            f"an array of {np.size(x)} elements.\nA program is compiled for each value that "
            f"decides a shape; {STATIC_LIMIT} elements are the most that is done for."
        )
    return ""
