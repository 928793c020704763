"""Run passes in turn, check what each returns, and report to an observer.

The types of arguments and results are checked after every pass. The programs of passes from outside
this package are verified as well, equation by equation.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

from jaxprgen import _jax, collector
from jaxprgen._jax import ClosedJaxpr
from jaxprgen.errors import ArgumentTypeError, EquationError, JaxprGenError, PassError
from jaxprgen.ir.programs import verify

Pass: TypeAlias = Callable[[ClosedJaxpr], ClosedJaxpr]


class Record(NamedTuple):
    """What one pass did to a program.

    Attributes
    ----------
    rewrite : Pass
        The pass.
    before, after : ClosedJaxpr
        The program before and after it: the same object if the pass changed nothing.
    seconds : float
        The time that the pass took.
    """

    rewrite: Pass
    before: ClosedJaxpr
    after: ClosedJaxpr
    seconds: float

    @property
    def name(self) -> str:
        """The name of the pass: that of its class, or of the function."""
        return _name(self.rewrite)


@dataclass(frozen=True)
class Pipeline:
    """Several passes in turn, as one pass.

    Attributes
    ----------
    passes : sequence of Pass
        The passes, in order.
    observer : callable, optional
        A function that is called with a `Record` after each pass; see `jaxprgen.passes.observers`.
        Its exceptions propagate.

    Raises
    ------
    ArgumentTypeError
        ``passes`` is not a sequence of passes, but for example a single one.
    """

    passes: Sequence[Pass]
    observer: Callable[[Record], None] | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "passes", _sequence_of_passes(self.passes))

    @collector.paused()
    def __call__(self, closed: ClosedJaxpr) -> ClosedJaxpr:
        """Apply the passes.

        Parameters
        ----------
        closed : ClosedJaxpr
            The program. It is not changed.

        Returns
        -------
        ClosedJaxpr
            The program that the last pass returns.

        Raises
        ------
        PassError
            A pass failed, or returned something else than a program, a program whose arguments or
            results have other types, or an invalid one.
        """
        for rewrite in self.passes:
            start = time.perf_counter()
            found = _applied(rewrite, closed)
            seconds = time.perf_counter() - start
            _require_same_types(rewrite, closed, found)
            if found is not closed and not _is_built_in(rewrite):
                require_valid(rewrite, found)
            if self.observer is not None:
                self.observer(Record(rewrite, closed, found, seconds))
            closed = found
        return closed


def _name(rewrite: Pass) -> str:
    return getattr(rewrite, "__name__", type(rewrite).__name__)


def _is_built_in(rewrite: Pass) -> bool:
    """Return whether a pass is one of this package, whose tests verify what it returns."""
    return (getattr(rewrite, "__module__", None) or "").startswith("jaxprgen.")


def _applied(rewrite: Pass, closed: ClosedJaxpr) -> ClosedJaxpr:
    """Return what a pass returns; name the pass if it fails."""
    try:
        return rewrite(closed)
    except JaxprGenError:
        raise
    except Exception as error:
        raise PassError(
            f"The pass {_name(rewrite)} failed: {type(error).__name__}: {error}\n"
            "Correct the pass, or leave it out."
        ) from error


def require_valid(rewrite: Pass, found: ClosedJaxpr) -> None:
    """Raise a PassError unless equations read bound variables, and JAX accepts their types."""
    try:
        verify(found)
        _jax.check_jaxpr(found.jaxpr)
    except Exception as error:
        reason = "is ill-formed" if isinstance(error, EquationError) else "JAX rejects"
        raise PassError(
            f"The pass {_name(rewrite)} returned a program that {reason}.\n{error}\n"
            "Correct the pass, or leave it out."
        ) from error


def _sequence_of_passes(passes: Any) -> tuple[Pass, ...]:
    """Return passes as a tuple, or raise an error that says what they are instead."""
    if not isinstance(passes, Iterable):
        given = getattr(passes, "__name__", repr(passes))
        remedy = f" Put it in a tuple: ({given},)." if callable(passes) else ""
        raise ArgumentTypeError(f"passes must be a sequence of passes, got {given}.{remedy}")
    found: tuple[Any, ...] = tuple(passes)
    for each in found:
        if isinstance(each, type):
            raise ArgumentTypeError(
                f"passes must contain instances of passes, got the class {each.__name__}. "
                f"Write {each.__name__}() instead."
            )
        if not callable(each):
            raise ArgumentTypeError(f"passes must contain functions of a program, got {each!r}.")
    return found


def _require_same_types(rewrite: Pass, before: ClosedJaxpr, found: Any) -> None:
    """Raise an error if a pass did not return a program of the same type."""
    if not isinstance(found, ClosedJaxpr):
        raise PassError(
            f"The pass {_name(rewrite)} returned {type(found).__name__} instead of a program.\n"
            "A pass must return a ClosedJaxpr: the given one if it changes nothing."
        )
    for wanted, got, what in (
        (before.in_avals, found.in_avals, "arguments"),
        (before.out_avals, found.out_avals, "results"),
    ):
        if list(wanted) != list(got):
            old, new = (", ".join(map(str, avals)) or "none" for avals in (wanted, got))
            raise PassError(
                f"The pass {_name(rewrite)} changed the types of the program's {what}.\n"
                f"Before: {old}. After: {new}.\n"
                "A pass must keep these types: correct the pass, or leave it out."
            )
