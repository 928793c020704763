"""One program per kind of arguments: types, values that decide shapes, JAX's settings."""

from __future__ import annotations

import threading
import time
import warnings
from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import numpy as np

from jaxprgen import _jax
from jaxprgen._jax import ClosedJaxpr, Tracer
from jaxprgen.emit.values import Array, atoms
from jaxprgen.errors import RuntimeCheckWarning, StaticShapeError
from jaxprgen.frontend.graph import Plan
from jaxprgen.frontend.lowering import Lowering, ValueNeededError
from jaxprgen.ir import Builder


class CacheInfo(NamedTuple):
    """Statistics of a compiled function's specializations, as `functools.lru_cache` has them."""

    hits: int
    misses: int
    currsize: int


class Specialization:
    """The program for one kind of arguments.

    Attributes
    ----------
    closed_jaxpr
        The program. Its inputs are the arguments, its constants data known while emitting.
    seconds
        How long emitting it took.
    """

    def __init__(
        self,
        closed: ClosedJaxpr,
        shared: Sequence[Array],
        name: str,
        seconds: float,
    ) -> None:
        self.closed_jaxpr = closed
        self.seconds = seconds
        hoisted, constants = _jax.hoist_constants(closed)
        position = {id(array): i for i, array in enumerate(shared)}
        # Where each hidden argument comes from: a shared variable's place, or an array.
        self._sources = [position.get(id(c), c) for c in constants]
        self._params = _jax.jit_params(hoisted, name)
        self._on_device: list[Any] | None = None
        self._jitted = jax.jit(_named(self.bind, name))

    def bind(self, *operands: Any) -> list[Any]:
        """The program as one ``jit`` equation; hidden arguments come first."""
        return _jax.jit_p.bind(*operands, **self._params)

    def __call__(self, operands: Sequence[Any], shared: Sequence[Any]) -> list[Any]:
        """Run on arguments, or record the program where one of them is a tracer."""
        if self._on_device is None:
            # Outside of any trace that is going on, so that no tracer is kept.
            with jax.ensure_compile_time_eval():
                self._on_device = [
                    s if isinstance(s, int) else jax.device_put(s) for s in self._sources
                ]
        hidden = [shared[s] if isinstance(s, int) else s for s in self._on_device]
        traced = any(isinstance(x, Tracer) for x in operands)
        return self.bind(*hidden, *operands) if traced else self._jitted(*hidden, *operands)

    def lower(self, operands: Sequence[Any], shared: Sequence[Any]) -> jax.stages.Lowered:
        """JAX's lowered form of the program; operands may be `jax.ShapeDtypeStruct`."""
        hidden = [shared[s] if isinstance(s, int) else s for s in self._sources]
        types = [jax.ShapeDtypeStruct(x.shape, x.dtype) for x in hidden]
        return self._jitted.lower(*types, *operands)


def _named(function: Any, name: str) -> Any:
    def program(*operands: Any) -> Any:
        return function(*operands)

    program.__name__ = program.__qualname__ = name
    return program


class _Family(NamedTuple):
    """The specializations for one list of types: by the values of inputs that decide shapes."""

    deciding: tuple[int, ...]
    members: dict[Any, Specialization]


class Specializer:
    """A cache of the programs of one plan. Safe to use from several threads."""

    def __init__(self, plan: Plan, name: str, checks: bool) -> None:
        self.plan = plan
        self.name = name
        self._checks = checks
        self._families: dict[Any, _Family] = {}
        self._lock = threading.RLock()
        self._hits = self._misses = 0
        self._announced: set[Any] = set()

    def __call__(self, operands: Sequence[Any], shared: Sequence[Array]) -> Specialization:
        """The program for these arguments, emitted if it was not before.

        Raises
        ------
        StaticShapeError
            A shape depends on the value of an argument that has none: a tracer.
        """
        types = tuple(_jax.type_of(x) for x in operands)
        kind = (types, tuple((a.shape, a.dtype) for a in shared), _jax.trace_context())
        family = self._families.get(kind)
        if family is not None:
            found = family.members.get(_values_key(family.deciding, operands))
            if found is not None:
                self._hits += 1
                return found
        with self._lock:
            return self._emit(kind, types, operands, shared)

    def _emit(
        self, kind: Any, types: Sequence[Any], operands: Sequence[Any], shared: Sequence[Array]
    ) -> Specialization:
        family = self._families.get(kind, _Family((), {}))
        while True:
            key = _values_key(family.deciding, operands)
            found = family.members.get(key)
            if found is not None:  # Another thread was first.
                self._hits += 1
                return found
            try:
                values = {i: np.asarray(operands[i]) for i in family.deciding}
                made = self._lower(types, values, shared)
            except ValueNeededError as needed:
                self._require_values(needed, operands)
                deciding = tuple(sorted({*family.deciding, *needed.inputs}))
                family = _Family(deciding, {})
                continue
            self._misses += 1
            family.members[key] = made
            self._families[kind] = family
            return made

    def _lower(
        self, types: Sequence[Any], values: dict[int, Array], shared: Sequence[Array]
    ) -> Specialization:
        start = time.perf_counter()
        builder = Builder(types)
        lowering = Lowering(self.plan, builder, shared, values, self._checks, self._announce)
        outputs = atoms(builder, lowering.run())
        closed = builder.build(
            outputs,
            name=self.name,
            arg_names=[i.name for i in self.plan.inputs],
            result_names=[f"result[{i}]" for i in range(len(outputs))],
        )
        seconds = time.perf_counter() - start
        return Specialization(closed, shared, self.name, seconds)

    def _require_values(self, needed: ValueNeededError, operands: Sequence[Any]) -> None:
        for i in needed.inputs:
            x, declared = operands[i], self.plan.inputs[i]
            what = ""
            if isinstance(x, Tracer):
                what = f"a tracer ({type(x).__name__}) under a JAX transformation"
            elif isinstance(x, jax.ShapeDtypeStruct):
                what = "a ShapeDtypeStruct, which has no value"
            elif np.size(x) > DECIDING_LIMIT:
                what = (
                    f"an array of {np.size(x)} elements, too many to compile a program for each "
                    "value"
                )
            if what:
                raise StaticShapeError(
                    f"A shape depends on the value of input {declared.name!r}, which is {what}.\n"
                    f"Pass {declared.name!r} as a concrete number: mark it with "
                    f"jax.jit(..., static_argnums={i}), close over it, or give the array a size "
                    "that does not depend on it.\n" + needed.where
                )

    def _announce(self, node: Any, message: str) -> None:
        if node not in self._announced:
            self._announced.add(node)
            warnings.warn(message, RuntimeCheckWarning, stacklevel=2)

    def info(self) -> CacheInfo:
        """How often a program was found, was emitted, and how many there are."""
        size = sum(len(family.members) for family in self._families.values())
        return CacheInfo(self._hits, self._misses, size)

    def clear(self) -> None:
        """Forget all programs and statistics."""
        with self._lock:
            self._families = {}
            self._hits = self._misses = 0


DECIDING_LIMIT = 64
"""Elements up to which an argument may decide a shape by its value."""


def _values_key(deciding: tuple[int, ...], operands: Sequence[Any]) -> Any:
    return tuple(
        None
        if isinstance(operands[i], (Tracer, jax.ShapeDtypeStruct))
        else np.asarray(operands[i]).tobytes()
        for i in deciding
    )
