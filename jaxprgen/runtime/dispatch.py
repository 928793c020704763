"""Calls through one ``jax.jit`` for each function, whose C++ finds the program of a call."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import jax

from jaxprgen import _jax
from jaxprgen.arguments.inputs import KEY, signature
from jaxprgen.emit.values import Array, Value
from jaxprgen.graphs.cells import to_device
from jaxprgen.lowering.graph import Plan
from jaxprgen.runtime.program import Options, Program, error_of_check
from jaxprgen.runtime.specialize import Specializer


class Dispatch:
    """Runs the programs of one function.

    All of them are one function for ``jax.jit``. It takes a program, or None where the types of the
    arguments decide which one it is, then large constants, shared values and the arguments. For
    types that JAX has met before, its C++ finds the compiled program. Otherwise JAX traces the
    function, and then `Specializer` finds or emits the program.

    Parameters
    ----------
    specializer : Specializer
        Finds and emits the programs.
    options : Options
        The options of the compiled function.
    plan : Plan
        The plan of the programs.
    accept : callable
        Checks arguments, and returns them as programs take them.
    """

    def __init__(
        self,
        specializer: Specializer,
        options: Options,
        plan: Plan,
        accept: Callable[[Sequence[Any]], Sequence[Any]],
    ) -> None:
        self._specializer = specializer
        self._options = options
        self._plan = plan
        self._accept = accept
        self._carried = {o: i for o, i in plan.carried.items() if plan.inputs[i].dtype is not KEY}
        self._lock = threading.RLock()
        self._now = threading.local()
        self._constants = [x.source if type(x) is Value else x for x in plan.values]
        self._place_of = {id(x): place for place, x in enumerate(self._constants)}
        specializer.when_full = self._start
        self._start()

    def clear(self) -> None:
        """Forget all programs. JAX frees what it compiled of them."""
        self._specializer.cache_clear()
        self._start()

    def _start(self) -> None:
        """Begin with a function that JAX has compiled nothing of."""
        self._by_types = True
        self._places: list[int] = []
        self._large: tuple[Any, ...] = ()  # The constants at these places of the plan.
        self._on_device: dict[Any, tuple[Array, Any]] = {}
        self._jits = [
            _jitted(self._options, self._plan, self._of_this_call, reused)
            for reused in ((), self._carried.values())
        ]

    def __call__(
        self,
        operands: Sequence[Any],
        on_device: Sequence[Any],
        shared: Sequence[Any],
        into: list[Any] | None = None,
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
        while self._by_types:
            self._now.call = operands, shared, into is not None
            try:
                return self._run(into, None, self._large, on_device, *operands)
            except _AnotherWayError:
                pass
            finally:
                self._now.call = None
        operands = self._accept(operands)
        program = self._specializer(operands, shared)
        large = self._stored(program.large)
        into = into if _can_reuse(program, self._carried) else None
        try:
            found = self._run(into, program, large, on_device, *operands)
        except _jax.NonFiniteError:  # JAX cannot look for the equation that made it.
            return program.step_through(large, on_device, operands)
        if not program.has_checks:
            return found
        error, results = found
        failed = error.get_exception()
        if failed is not None:
            raise error_of_check(failed)
        return results

    def _run(self, into: list[Any] | None, *arguments: Any) -> Any:
        if into is None:
            return self._jits[0](*arguments)
        # No bytecode comes between the end of the program and the list.
        into.extend(itertools.starmap(self._jits[1], [arguments]))
        return into[0]

    def lower(self, operands: Sequence[Any], shared: Sequence[Any]) -> jax.stages.Lowered:
        """Return JAX's lowered form of a call; operands may be `jax.ShapeDtypeStruct`.

        If the program has checks, its results are those of `jax.experimental.checkify.checkify`.
        """
        while self._by_types:
            self._now.call = operands, shared, False
            try:
                return self._jits[0].lower(
                    None, _types_of(self._large), _types_of(shared), *operands
                )
            except _AnotherWayError:
                pass
            finally:
                self._now.call = None
        program = self._specializer(operands, shared)
        large = _types_of(program.large)
        return self._jits[0].lower(program, large, _types_of(shared), *operands)

    def _of_this_call(self) -> tuple[Program, list[int]]:
        """Return the program of this thread's call, and which of the large constants it takes.

        Raises
        ------
        _AnotherWayError
            JAX must trace a call with more constants, or with another memory, or with the program.
        """
        operands, shared, reuses = self._now.call
        program = self._specializer(self._accept(operands), shared)
        places = [self._place_of.get(id(x)) for x in program.large]
        with self._lock:
            can_reuse = not reuses or self._jits[0] is self._jits[1]
            if not (can_reuse or _can_reuse(program, self._carried)):
                self._jits[1] = self._jits[0]
                raise _AnotherWayError
            if not program.by_types or None in places:
                self._by_types = False
                raise _AnotherWayError
            known = sorted({*self._places, *places})  # type: ignore[type-var]
            if known != self._places:
                self._large = self._stored([self._constants[place] for place in known])
                self._places = known
                raise _AnotherWayError
        return program, [known.index(place) for place in places]

    def _stored(self, arrays: Sequence[Array]) -> tuple[Any, ...]:
        """Return arrays on the device, where each is put once."""
        keys = [(id(x), _jax.canonicalize_dtype(x.dtype)) for x in arrays]
        missing = {k: x for k, x in zip(keys, arrays, strict=True) if k not in self._on_device}
        for (key, x), copy in zip(missing.items(), to_device([*missing.values()]), strict=True):
            self._on_device[key] = x, copy
        return tuple(self._on_device[key][1] for key in keys)


class _AnotherWayError(Exception):
    """A call is to be made in another way."""


_FIRST = 3
"""How many arguments of a jitted function come before those of a call."""


def _jitted(
    options: Options,
    plan: Plan,
    find: Callable[[], tuple[Program, list[int]]] | None,
    reused: Collection[int] = (),
) -> Any:
    """Return all programs as one function of ``jax.jit``.

    Parameters
    ----------
    options, plan
        Those of the programs.
    find
        Returns the program to trace, and which of the large constants it takes, if the first
        argument is None.
    reused
        The positions of arguments whose memory may be reused.
    """

    def run(program: Program | None, large: Any, shared: Any, *operands: Any) -> Any:
        if program is None:
            assert find is not None
            program, places = find()
            large = [large[i] for i in places]
        return program.call(large, shared, operands)

    run.__name__ = run.__qualname__ = options.name
    names = ["program", "large", "shared", *(i.name for i in plan.inputs)]
    run.__signature__ = signature(names)  # type: ignore[attr-defined]
    return options.jit(run, static_argnums=0, donate_argnums=[_FIRST + i for i in reused])


def lowered(
    program: Program, options: Options, plan: Plan, operands: Sequence[Any], shared: Sequence[Any]
) -> jax.stages.Lowered:
    """Return JAX's lowered form of a program that is not one of a `Dispatch`."""
    jitted = _jitted(options, plan, None)
    return jitted.lower(program, _types_of(program.large), _types_of(shared), *operands)


def _types_of(arrays: Sequence[Any]) -> tuple[jax.ShapeDtypeStruct, ...]:
    return tuple(
        jax.ShapeDtypeStruct(
            x.shape,
            _jax.canonicalize_dtype(x.dtype),
            sharding=x.sharding if _jax.is_spread(x) else None,
        )
        for x in arrays
    )


def _can_reuse(program: Program, carried: Mapping[int, int]) -> bool:
    """Return whether a program may compute in the memory of the inputs that it carries."""
    closed = program.closed_jaxpr
    return program.runs_through and all(
        closed.out_avals[o] == closed.in_avals[i] for o, i in carried.items()
    )
