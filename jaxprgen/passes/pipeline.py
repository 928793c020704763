"""Run passes in turn, check what each returns, and report to an observer.

A program must keep the types of its arguments and results, and bind each variable before it is
read. JAX's type checker checks the equations that a pass of this package makes, and whole programs
of other passes.
"""

from __future__ import annotations

import dataclasses
import operator
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Generator, Hashable, Iterable, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType
from typing import Any, NamedTuple

from jaxprgen import _jax, collector
from jaxprgen._jax import ClosedJaxpr, Frame, JaxprEqn
from jaxprgen.errors import (
    ArgumentTypeError,
    EquationError,
    JaxprGenError,
    PassError,
    PassWarning,
    levels_to_user,
)
from jaxprgen.ir.programs import outlined, verify
from jaxprgen.ir.redundancy import Identities
from jaxprgen.passes.costs import CostModel
from jaxprgen.passes.defaults import as_default, is_default
from jaxprgen.passes.meaning import Pass, name_of
from jaxprgen.passes.repeat_notes import forgotten_on_failure
from jaxprgen.passes.validation import Validation
from jaxprgen.texts import visible


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
    not_validated : str
        Why ``validate=True`` did not compare what the two compute, or nothing.
    """

    rewrite: Pass
    before: ClosedJaxpr
    after: ClosedJaxpr
    seconds: float
    not_validated: str = ""

    @property
    def name(self) -> str:
        """The name of the pass: that of its class, or of the function."""
        return name_of(self.rewrite)


@dataclass(frozen=True)
class Pipeline:
    """Several passes in turn, as one pass.

    A pass that fails, or that returns an invalid program, raises a `PassError`. The passes in
    `jaxprgen.passes.DEFAULT`, which the user need not know, raise none: the program stays as it was
    before such a pass, and a `PassWarning` says so. This holds for these objects, not for equal
    ones such as ``Stabilize()``.

    Attributes
    ----------
    passes : sequence of Pass
        The passes, in order.
    observer : callable, optional
        A function that is called with a `Record` after each pass; see `jaxprgen.passes.observers`.
        Its exceptions propagate.
    validate : bool
        Also run the programs before and after each pass, on random and awkward inputs, and compare
        the results as the pass's class of meaning allows: see `jaxprgen.passes.Meaning`. Programs
        with effects, symbolic sizes or meshes are not compared; the `Record` says why. This is for
        tests, because it takes seconds.

    Raises
    ------
    ArgumentTypeError
        ``passes`` is not a sequence of passes, but for example a single one.
    """

    passes: Sequence[Pass]
    observer: Callable[[Record], None] | None = None
    validate: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "passes", _sequence_of_passes(self.passes))

    @property
    def cost(self) -> CostModel | None:
        """By what the passes weigh costs; None if none does."""
        return next((c for p in self.passes if (c := getattr(p, "cost", None))), None)

    def __reduce__(self) -> Any:
        passes = [(rewrite, is_default(rewrite)) for rewrite in self.passes]
        return _restored, (type(self), passes, self.observer, self.validate)

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
            results have other types, or an invalid one. With ``validate``, a pass, also one of
            `DEFAULT`, changed what the program computes.
        """
        validation = Validation(closed) if self.validate else None
        for rewrite in self.passes:
            if self.validate and isinstance(rewrite, Pipeline):
                rewrite = dataclasses.replace(rewrite, validate=True)
            start = time.perf_counter()
            found = _result(rewrite, closed)
            seconds, reason = time.perf_counter() - start, ""
            if validation is not None and found is not closed:
                _require_same_effects(rewrite, closed, found)
                is_checked = isinstance(rewrite, Pipeline)  # By itself, pass by pass.
                reason = validation.step(None if is_checked else rewrite, found)
            if self.observer is not None:
                self.observer(Record(rewrite, closed, found, seconds, reason))
            closed = found
        return closed


def _restored(
    kind: type[Pipeline],
    passes: Sequence[tuple[Pass, bool]],
    observer: Callable[[Record], None] | None,
    validate: bool,
) -> Pipeline:
    """Return a pipeline that was pickled, with the objects of `DEFAULT` that it had."""
    known = [as_default(rewrite) if was_default else rewrite for rewrite, was_default in passes]
    return kind(known, observer, validate)


def _is_built_in(rewrite: Pass) -> bool:
    """Return whether a pass is one of this package, which keeps the equations it leaves alone."""
    return (getattr(rewrite, "__module__", None) or "").startswith("jaxprgen.")


# --- Applying a pass ------------------------------------------------------------------------


def _result(rewrite: Pass, closed: ClosedJaxpr) -> ClosedJaxpr:
    """Return a valid program that a pass returns, or the given one if a default pass fails."""
    try:
        with forgotten_on_failure():
            found = _applied(rewrite, closed)
            _require_same_types(rewrite, closed, found)
            if found is closed or isinstance(rewrite, Pipeline):  # It checks its own passes.
                return found
            if _is_built_in(rewrite):
                _require_same_effects(rewrite, closed, found)
                _require_valid_changes(rewrite, closed, found)
            else:
                require_valid(rewrite, found)
            return found
    except Exception as error:
        if not is_default(rewrite):
            raise
        text = _failure(rewrite, closed, error)
    warnings.warn(text, PassWarning, stacklevel=levels_to_user())
    return closed


def _applied(rewrite: Pass, closed: ClosedJaxpr) -> ClosedJaxpr:
    """Return what a pass returns; name the pass if it fails."""
    try:
        return rewrite(closed)
    except JaxprGenError:
        raise
    except Exception as error:
        raise PassError(
            f"The pass {name_of(rewrite)} failed: {type(error).__name__}: {error}\n"
            "Correct the pass, or leave it out."
        ) from error


def require_valid(rewrite: Pass, found: ClosedJaxpr) -> None:
    """Raise a PassError unless equations read bound variables, and JAX accepts their types."""
    with _naming(rewrite):
        verify(found)
        _jax.check_jaxpr(found.jaxpr)


def _require_valid_changes(rewrite: Pass, before: ClosedJaxpr, found: ClosedJaxpr) -> None:
    """Raise a PassError as `require_valid` does, and take the equations for valid that stay.

    JAX takes 50 µs to check an equation, so it checks one of each kind: an equation is well typed
    if another one of the same parameters and types is, whatever stands around it.
    """
    identities, aval = Identities(inside=False), operator.attrgetter("aval")

    def kind(eqn: JaxprEqn) -> Hashable:
        return identities.equation(eqn, aval), *map(aval, eqn.outvars)

    known, new = set(map(kind, _not_in(before, found))), _not_in(found, before)
    unknown: dict[Hashable, JaxprEqn] = {}
    for eqn in new:
        unknown.setdefault(kind(eqn), eqn)
    with _naming(rewrite):
        verify(found)
        if any(eqn.effects for eqn in new):  # An effect may refer to an input of the program.
            _jax.check_jaxpr(found.jaxpr)
        else:
            checked = [eqn for key, eqn in unknown.items() if key not in known]
            _jax.check_jaxpr(outlined(checked, (), "changes").jaxpr)


def _not_in(found: ClosedJaxpr, other: ClosedJaxpr) -> list[JaxprEqn]:
    """Return the equations of a program that are not in another one."""
    others = set(map(id, other.jaxpr.eqns))
    return [eqn for eqn in found.jaxpr.eqns if id(eqn) not in others]


@contextmanager
def _naming(rewrite: Pass) -> Generator[None]:
    """Name the pass whose program is rejected in this context."""
    try:
        yield
    except Exception as error:
        reason = "is ill-formed" if isinstance(error, EquationError) else "JAX rejects"
        raise PassError(
            f"The pass {name_of(rewrite)} returned a program that {reason}.\n{error}\n"
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
            f"The pass {name_of(rewrite)} returned {type(found).__name__} instead of a program.\n"
            "A pass must return a ClosedJaxpr: the given one if it changes nothing."
        )
    for wanted, got, what in (
        (before.in_avals, found.in_avals, "arguments"),
        (before.out_avals, found.out_avals, "results"),
    ):
        if list(wanted) != list(got):
            old, new = (", ".join(map(str, avals)) or "none" for avals in (wanted, got))
            raise PassError(
                f"The pass {name_of(rewrite)} changed the types of the program's {what}.\n"
                f"Before: {old}. After: {new}.\n"
                "A pass must keep these types: correct the pass, or leave it out."
            )


def _require_same_effects(rewrite: Pass, before: ClosedJaxpr, found: ClosedJaxpr) -> None:
    """Raise an error if a pass added an effect, such as a print, or dropped one."""
    programs: list[Any] = [before.jaxpr, found.jaxpr]
    if not any(map(_jax.has_effects, programs)):
        return
    if programs[0].effects == programs[1].effects and _effects(before) == _effects(found):
        return
    old, new = (
        ", ".join(f"{n} {name}" for name, n in sorted(_effects(program).items())) or "none"
        for program in (before, found)
    )
    raise PassError(
        f"The pass {name_of(rewrite)} changed the effects of the program.\n"
        f"Before: {old}. After: {new}.\n"
        "A pass must keep these equations: correct the pass, or leave it out."
    )


def _effects(closed: ClosedJaxpr) -> Counter[str]:
    """Count the equations with effects by their primitives, inside other equations as well."""
    found, rest = Counter[str](), [closed.jaxpr]
    while rest:
        for eqn in (eqn for eqn in rest.pop().eqns if eqn.effects):
            inner = [program for _, program in _jax.sub_jaxprs(eqn)]
            found.update([] if inner else [eqn.primitive.name])
            rest += inner
    return found


# --- Default passes that fail ----------------------------------------------------------------


def _failure(rewrite: Pass, closed: ClosedJaxpr, error: Exception) -> str:
    """Describe how a default pass failed on a program, and what to do."""
    first, *more = str(error).splitlines() or [""]
    own = f"The pass {name_of(rewrite)} "
    if isinstance(error, PassError) and first.startswith(own):
        cause = " ".join([first.removeprefix(own), *filter(None, more[:-1][:1])])
    else:
        cause = f"failed: {type(error).__name__}: {first}"
    frames = (_jax.frame_of(eqn.source_info) for eqn in closed.jaxpr.eqns)
    frame = _line_at(error) or next(filter(None, frames), None)
    where = f"in a program {frame.built}" if frame else "in a program without lines"
    return (
        f"The default pass {name_of(rewrite)} {visible(cause, _LONGEST)}\n  {where}\n"
        "The program stays as it was before this pass. It computes what you wrote, but it may "
        "compile or run more slowly, or overflow where the pass prevents it. Please report this, "
        "with the text of the program (print jax.make_jaxpr(f)(...), or f.jaxpr(...) of a graph "
        "compiled with passes=()) and the versions (python -m jaxprgen info). "
        'warnings.simplefilter("error", jaxprgen.errors.PassWarning) makes this an error.'
    )


_LONGEST = 300
"""The number of characters of a cause that are shown."""


def _line_at(error: BaseException | None) -> Frame | None:
    """Return the user's line of the equation that was being looked at when an error was raised.

    That is a local variable of the innermost function that has one.
    """
    calls: list[FrameType] = []
    while error is not None:  # The first error of a chain is the last.
        calls += [frame for frame, _ in traceback.walk_tb(error.__traceback__)]
        error = error.__cause__ or error.__context__
    values = (x for frame in reversed(calls) for x in [*frame.f_locals.values()])
    eqns = (x for x in values if isinstance(x, JaxprEqn))
    return next(filter(None, (_jax.frame_of(eqn.source_info) for eqn in eqns)), None)
