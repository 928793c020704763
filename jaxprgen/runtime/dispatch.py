"""Calls with arrays alone: JAX's own cache finds the program, faster than one in Python can."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Sequence
from typing import Any

import jax

from jaxprgen._jax import jit_or_else
from jaxprgen.errors import JaxprGenError
from jaxprgen.runtime.arguments import are_own
from jaxprgen.runtime.data import to_device, types_of
from jaxprgen.runtime.options import Options
from jaxprgen.runtime.specialize import Specialization, as_listed, jitted


class OtherProgramError(JaxprGenError):
    """A program is of values, or has other constants than the first: its own `jax.jit` runs it."""


class Dispatcher:
    """All programs of a function that have the same constants, behind one `jax.jit`.

    The program for a kind of arguments that JAX's cache does not know is asked for with tracers
    in their place: it must be one that no argument's value decides.

    Parameters
    ----------
    find
        The program for arguments and values of shared variables like these, and the arguments
        as it takes them.
    first
        One of the programs.
    shared
        How many shared variables there are. Their values are all given, in order, so that
        JAX's cache sees their types.
    """

    def __init__(
        self,
        find: Callable[[Sequence[Any], Sequence[Any]], tuple[Specialization, list[Any]]],
        first: Specialization,
        shared: int,
        options: Options,
        donated: Sequence[int],
    ) -> None:
        self._find = find
        self._asking = threading.local()  # For JAX asks in the thread that calls.
        self._constants = first.constants
        self._on_device = to_device(first.constants)
        self._ends = len(first.constants), len(first.constants) + shared
        self._jitted = jitted(self._run, options, self._ends, first.arg_names, donated)
        # Where there are no shared variables: a call of it is one of JAX's.
        on_device = self._on_device
        self.run = functools.partial(self._jitted, *on_device) if on_device else self._jitted

    def __call__(
        self, operands: Sequence[Any], shared: Sequence[Any], on_device: Sequence[Any]
    ) -> list[Any]:
        """Run on arguments that are no tracers, and values of the shared variables."""
        self._asking.shared = shared
        return as_listed(self._jitted(*self._on_device, *on_device, *operands))

    def or_else(self, call: Callable[..., Any]) -> Callable[..., Any]:
        """`run` for JAX's own arrays, and another function where it cannot say what is wrong.

        That is asked about all else. For JAX takes arguments of one type alike, but of scalars
        the value may not fit, and a masked array is no NumPy array.
        """
        before = len(self._on_device)
        if not before:
            return jit_or_else(self._jitted, are_own, call, JaxprGenError)
        found = jit_or_else(
            self._jitted,
            lambda args: are_own(args[before:]),
            lambda *args, **named: call(*args[before:], **named),
            JaxprGenError,
        )
        return functools.partial(found, *self._on_device)

    def lower(self, operands: Sequence[Any], shared: Sequence[Any]) -> jax.stages.Lowered:
        """JAX's lowered form of what a call runs; operands may be `jax.ShapeDtypeStruct`."""
        self._asking.shared = shared
        return self._jitted.lower(*types_of([*self._constants, *shared]), *operands)

    def _run(self, *operands: Any) -> list[Any]:
        first, second = self._ends
        constants, shared = operands[:first], operands[first:second]
        specialization, arguments = self._find(
            operands[second:], getattr(self._asking, "shared", ())
        )
        found = specialization.constants
        if specialization.decided or list(map(id, found)) != list(map(id, self._constants)):
            raise OtherProgramError
        return specialization.run(specialization.hidden(constants, shared), arguments)
