"""Calls through one ``jax.jit`` for each function, whose C++ finds the program of a call."""

from __future__ import annotations

import inspect
import itertools
import threading
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeAlias

import jax

from jaxprgen import _jax
from jaxprgen.arguments.accept import accept_each
from jaxprgen.arguments.inputs import KEY, signature
from jaxprgen.emit.values import Array, Value
from jaxprgen.graphs.shardings import to_device
from jaxprgen.lowering.graph import Plan
from jaxprgen.runtime.program import Options, Program, error_of_check
from jaxprgen.runtime.specialize import Specializer

_Held: TypeAlias = tuple[tuple[int, ...], tuple[Any, ...], tuple[Program, ...]]


class Dispatch:
    """Runs the programs of one function.

    All of them are one function for ``jax.jit``. It takes a program, or None where the types of the
    arguments decide which one it is, then the arguments, shared values, large constants, and what
    data decide. For types that JAX has met before, its C++ finds the compiled program. Otherwise
    JAX traces the function, and then `Specializer` finds or emits the program.

    Parameters
    ----------
    specializer : Specializer
        Finds and emits the programs.
    options : Options
        The options of the compiled function.
    plan : Plan
        The plan of the programs.
    """

    def __init__(self, specializer: Specializer, options: Options, plan: Plan) -> None:
        self._specializer = specializer
        self._options = options
        self._plan = plan
        self._carried = {o: i for o, i in plan.carried.items() if plan.inputs[i].dtype is not KEY}
        self._lock = threading.RLock()
        self._now = threading.local()
        self._constants = [x.source if type(x) is Value else x for x in plan.values]
        self._place_of = {id(x): place for place, x in enumerate(self._constants)}
        self._start()

    def clear(self) -> None:
        """Forget all programs. JAX frees what it compiled of them."""
        self._specializer.cache_clear()
        self._start()

    def _start(self) -> None:
        """Begin with a function that JAX has compiled nothing of."""
        with self._lock:
            self._by_types, self._is_new = True, True
            # The places in the plan of the large constants that calls take, the constants, and the
            # programs in two stages. They are one tuple, so that no thread reads them while another
            # one changes them.
            self._held: _Held = (), (), ()
            self._on_device: dict[Any, tuple[Array, Any]] = {}
            # The large constants of programs that calls find by more than types.
            self._large: dict[Program, tuple[Any, ...]] = {}
            self._clears = self._specializer.clears
            self._jits = [self._jitted({}), self._jitted(self._carried)]

    def _jitted(self, carried: Mapping[int, int]) -> Any:
        """Return the function that computes in the memory of the inputs that it carries."""
        # It holds no reference to this object, which is freed with its last reference.
        now, specializer, inputs = self._now, self._specializer, self._plan.inputs
        place_of, clears = self._place_of, self._clears

        count, end = len(inputs), len(inputs) + len(self._plan.shared)

        def run(program: Program | None, *arguments: Any) -> Any:
            operands, shared, rest = arguments[:count], arguments[count:end], arguments[end:]
            if program is not None:
                large = len(program.large)
                return program.call(rest[:large], shared, operands, *rest[large:])
            given, values, known, staged = now.call
            program = specializer(accept_each(given, inputs), values)
            places = [place_of.get(id(x)) for x in program.large]
            is_ready = program.by_types and {*places} <= {*known}
            is_ready = is_ready and (program.prepared is None or program in staged)
            is_ready = is_ready and specializer.clears == clears
            if not is_ready or (carried and not _can_reuse(program, carried)):
                raise _AnotherWayError(program)
            large = [rest[known.index(place)] for place in places]
            decided = [x for p, x in zip(staged, rest[len(known) :], strict=True) if p is program]
            return program.call(large, shared, operands, *decided)

        return _jit_of(run, self._options, self._plan, carried.values())

    def __call__(
        self, operands: Sequence[Any], on_device: Any, shared: Any, into: list[Any] | None = None
    ) -> Any:
        """Return the results as a call gives them.

        Parameters
        ----------
        operands
            The arguments.
        on_device, shared
            The values of shared variables, on the device and as they are stored.
        into
            A list to add the results to. The program may then compute in the memory of arguments
            whose next values it returns. An interrupt of the user's that comes as soon as the
            program has run finds the results there.

        Raises
        ------
        JaxprGenError
            A check fails; the class is that of the check.
        """
        if self._is_new:  # JAX would trace the first call twice otherwise.
            self._prepare(self._specializer(accept_each(operands, self._plan.inputs), shared))
        while self._by_types:
            places, large, staged = self._held
            self._now.call = operands, shared, places, staged
            decided = [p.values_of(on_device, operands) for p in staged] if staged else ()
            try:
                return self._run(into, (None, *operands, *on_device, *large, *decided))
            except _AnotherWayError as error:
                self._prepare(*error.args)
            finally:
                self._now.call = None
        operands = accept_each(operands, self._plan.inputs)
        program = self._specializer(operands, shared)
        large = self._large.get(program)
        if large is None:
            large = self._prepare(program)
        into = into if _can_reuse(program, self._carried) else None
        try:
            decided = [program.values_of(on_device, operands)] if program.prepared else []
            found = self._run(into, (program, *operands, *on_device, *large, *decided))
        except _jax.NonFiniteError:  # JAX cannot look for the equation that made it.
            return program.step_through(large, on_device, operands)
        if not program.has_checks:
            return found
        error, results = found
        failed = error.get_exception()
        if failed is not None:
            raise error_of_check(failed)
        return results

    def _run(self, into: list[Any] | None, arguments: tuple[Any, ...]) -> Any:
        if into is None:
            return self._jits[0](*arguments)
        # No bytecode comes between the end of the program and the list.
        into.extend(itertools.starmap(self._jits[1], [arguments]))
        return into[0]

    def lower(self, operands: Sequence[Any], shared: Sequence[Any]) -> jax.stages.Lowered:
        """Return JAX's lowered form of a call; operands may be `jax.ShapeDtypeStruct`.

        If the program has checks, its results are those of `jax.experimental.checkify.checkify`.
        """
        program = self._specializer(operands, shared)
        self._prepare(program)
        places, large, staged = self._held
        own = None if self._by_types else program
        hidden = _types_of([*shared, *(program.large if own else large)])
        self._now.call = operands, shared, places, staged
        decided = [p.types_decided() for p in ([own] if own else staged) if p.prepared]
        try:
            return self._jits[0].lower(own, *operands, *hidden, *decided)
        finally:
            self._now.call = None

    def _prepare(self, program: Program) -> tuple[Any, ...]:
        """Get ready for calls of a program: with its constants, its memory, or by itself.

        Return the large constants that these calls take.
        """
        with self._lock:
            if self._clears != self._specializer.clears:
                self._start()
            self._is_new = False
            if not _can_reuse(program, self._carried):
                self._jits[1] = self._jits[0]
            places = [self._place_of.get(id(x)) for x in program.large]
            if not program.by_types or None in places:
                self._by_types = False
            if not self._by_types:
                self._large[program] = found = self._stored(program.large)
                return found
            known, large, staged = self._held
            if not {*places} <= {*known}:
                known = tuple(sorted({*known, *places}))  # type: ignore[type-var]
                large = self._stored([self._constants[place] for place in known])
            if program.prepared is not None and program not in staged:
                staged = *staged, program
            self._held = known, large, staged
            return large

    def _stored(self, arrays: Sequence[Array]) -> tuple[Any, ...]:
        """Return arrays on the device, where each is put once."""
        keys = [(id(x), _jax.canonicalize_dtype(x.dtype)) for x in arrays]
        missing = {k: x for k, x in zip(keys, arrays, strict=True) if k not in self._on_device}
        for (key, x), copy in zip(missing.items(), to_device([*missing.values()]), strict=True):
            self._on_device[key] = x, copy
        return tuple(self._on_device[key][1] for key in keys)


class _AnotherWayError(Exception):
    """JAX is to trace the call of this program with more constants, or in another way."""


def _jit_of(run: Any, options: Options, plan: Plan, reused: Iterable[int] = ()) -> Any:
    """Return ``jax.jit`` of a function of a program, arguments, shared values and constants."""
    run.__name__ = run.__qualname__ = options.name
    names = ["program", *(i.name for i in plan.inputs), *(s.name for s in plan.shared)]
    named = [*signature(names).parameters.values()]
    rest = inspect.Parameter("constants", inspect.Parameter.VAR_POSITIONAL)
    positional = [p.replace(kind=inspect.Parameter.POSITIONAL_ONLY) for p in named]
    run.__signature__ = inspect.Signature([*positional, rest])
    return options.jit(run, static_argnums=0, donate_argnums=[1 + i for i in reused])


def lowered(
    program: Program, options: Options, plan: Plan, operands: Sequence[Any], shared: Sequence[Any]
) -> jax.stages.Lowered:
    """Return JAX's lowered form of a program that is not one of a `Dispatch`."""
    count, end = len(operands), len(operands) + len(shared)
    last = end + len(program.large)

    def run(program: Program, *given: Any) -> Any:
        return program.call(given[end:last], given[count:end], given[:count], *given[last:])

    decided = [program.types_decided()] if program.prepared else []
    jitted = _jit_of(run, options, plan)
    return jitted.lower(program, *operands, *_types_of([*shared, *program.large]), *decided)


def _types_of(arrays: Sequence[Any]) -> tuple[jax.ShapeDtypeStruct, ...]:
    dtypes = (_jax.canonicalize_dtype(x.dtype) for x in arrays)
    shardings = (x.sharding if _jax.is_on_several_devices(x) else None for x in arrays)
    return tuple(
        jax.ShapeDtypeStruct(x.shape, dtype, sharding=sharding)
        for x, dtype, sharding in zip(arrays, dtypes, shardings, strict=True)
    )


def _can_reuse(program: Program, carried: Mapping[int, int]) -> bool:
    """Return whether a program may compute in the memory of the inputs that it carries."""
    closed = program.closed_jaxpr
    return program.runs_through and all(
        closed.out_avals[o] == closed.in_avals[i] for o, i in carried.items()
    )
