"""The errors and warnings that this package raises, all errors under `JaxprGenError`.

Each class also derives from the built-in or NumPy exception that a Python user would expect, so
that ``except ValueError`` around a call keeps working.
"""

from __future__ import annotations

import functools
import inspect
import re
from typing import Any

import numpy as np

from jaxprgen.texts import visible_lines


class JaxprGenError(Exception):
    """The base class of every error that this package raises on purpose.

    ``str(error)`` says what is wrong, why, and what to do. If the graph's node is known, its
    description and the line on which the user built it follow.

    Attributes
    ----------
    located
        Whether the message already ends with a place in the graph or program.
    """

    located = False

    def __str__(self) -> str:
        return visible_lines(super().__str__())

    def at(self, where: str) -> JaxprGenError:
        """Return the same error with the description of a place after its message.

        Parameters
        ----------
        where : str
            The lines that name the node, its operands and the user's line.

        Returns
        -------
        JaxprGenError
            An error of the same class.
        """
        error = type(self)(f"{self}\n{where}")
        error.located = True
        return error


class MissingAesaraError(JaxprGenError, ImportError):
    """Raised when a part of this package that needs Aesara is used and Aesara is not installed."""


class UnsupportedOpError(JaxprGenError, NotImplementedError):
    """Raised when a graph contains Ops without a rule; the message lists all of them."""


class InvalidGraphError(JaxprGenError, ValueError):
    """Raised when the inputs, outputs or updates do not describe a graph.

    For example, an input is missing or given twice, or an output is not a tensor.
    """


class ArgumentCountError(JaxprGenError, TypeError):
    """Raised when a function or program is called with too few or too many arguments."""


class ArgumentTypeError(JaxprGenError, TypeError):
    """Raised when an argument has the wrong type, or a dtype that would lose information."""


class ArgumentShapeError(JaxprGenError, ValueError):
    """Raised when an argument's rank or shape contradicts the type of its input."""


class ShapeMismatchError(JaxprGenError, ValueError):
    """Raised when the shapes of a node's operands are incompatible."""


class AxisOutOfBoundsError(ShapeMismatchError, IndexError):
    """Raised when a node refers to an axis that its operand does not have."""


class BatchMismatchError(ShapeMismatchError, TypeError):
    """Raised when `BatchedDot` gets two batches of different sizes."""


class LinearAlgebraError(JaxprGenError, np.linalg.LinAlgError):
    """Raised when a matrix is not square, or is found to be singular."""


class IndexOutOfBoundsError(JaxprGenError, IndexError):
    """Raised when an index is out of bounds.

    It is found at compile time if the index is known, or by a run-time check or `debug`.
    """


class PositionOutOfBoundsError(IndexOutOfBoundsError, ValueError):
    """Raised for an index out of bounds where NumPy raises a ValueError.

    That is in `choose`, `unravel_index` and `ravel_multi_index`.
    """


class FailedAssertionError(JaxprGenError, AssertionError):
    """Raised when an assertion in the graph fails.

    It fails at compile time if its condition is known, or in a run-time check or `debug`.
    """


class ParameterError(FailedAssertionError, ValueError):
    """Raised when a parameter, such as that of a distribution, is outside of its domain.

    An assertion that raises another ValueError in Aesara, such as aeppl's
    ``ParameterValueError``, raises an error of both classes.
    """


class NonFiniteValueError(JaxprGenError, FloatingPointError):
    """Raised by `jaxprgen.debug` at the first value that is NaN or infinite."""


class UnknownNameError(JaxprGenError, LookupError):
    """Raised when a name or a kind is not among those that exist."""


class IntegerRangeError(JaxprGenError, OverflowError):
    """Raised when JAX would wrap an integer of a graph to 32 bits, because x64 is off."""


class StaticShapeError(JaxprGenError, TypeError):
    """Raised when a shape depends on a value that is not known at compile time."""


class SymbolicSizeError(StaticShapeError, ValueError):
    """Raised when a program would differ from one symbolic size of `jax.export` to another."""


class UndefinedGradientError(JaxprGenError, TypeError):
    """Raised when JAX differentiates through a value that has no derivative.

    The graph declares it non-differentiable, or an Op that runs in Python computes it.
    """


class ReverseModeError(JaxprGenError, ValueError):
    """Raised when JAX differentiates a loop in reverse whose steps only the program counts."""


class UncollectedCheckError(JaxprGenError, ValueError):
    """Raised when JAX transforms a function with run-time checks, but not by `checkify`."""


class LoweringError(JaxprGenError, RuntimeError):
    """Raised when a rule fails, or returns values that contradict the node's declared outputs."""


class MissingRuleError(JaxprGenError, NotImplementedError):
    """Raised when an interpreter has no rule for a primitive."""


class InterpretationError(JaxprGenError, RuntimeError):
    """Raised when an interpreter's rule fails, or returns the wrong number of values.

    It is also raised when a branch or a loop depends on a value that is not decided.
    """


class EquationError(JaxprGenError, TypeError):
    """Raised when an equation or program is ill-formed: a bug in a rule or a pass."""


class PassError(JaxprGenError, RuntimeError):
    """Raised when a pass fails, or returns something else than a valid program of the same type.

    With ``Pipeline(validate=True)``, it is also raised when a pass changes what is computed.
    """


class CallbackError(JaxprGenError, RuntimeError):
    """Raised when the result of an Op run on the host has an unknown or unexpected shape."""


class DuplicateRuleError(JaxprGenError, ValueError):
    """Raised when an Op or primitive already has a rule; ``override=True`` replaces it.

    Also raised when a rewrite rule never fires, because one before it fires wherever it would.
    """


class InvalidRuleError(JaxprGenError, ValueError):
    """Raised when a rewrite rule is malformed, or its replacement fails or has another type."""


class RewriteCycleError(JaxprGenError, RuntimeError):
    """Raised when rewrite rules undo each other, or apply without end."""


class StateError(JaxprGenError, RuntimeError):
    """Raised when a stateful function is called while JAX traces, or with an unsuitable state."""


class ShardingError(JaxprGenError, ValueError):
    """Raised when data cannot be split over a mesh of devices as asked."""


class UnpicklableError(JaxprGenError, TypeError):
    """Raised when a part of a function does not pickle, or another version wrote its pickle."""


class ExportError(JaxprGenError, ValueError):
    """Raised when a program cannot leave this process, such as one that calls back into Python."""


class UnwritableFileError(ExportError, OSError):
    """Raised when `jaxprgen.save` cannot write where it is asked to."""


class SavedFileError(JaxprGenError, ValueError):
    """Raised when a file is not one that `jaxprgen.save` wrote, or not one for these versions."""


class DrawingError(JaxprGenError, RuntimeError):
    """Raised when Graphviz is missing, or cannot draw a program."""


class UnsupportedVersionError(JaxprGenError, RuntimeError):
    """Raised when another package lacks an internal function that this one replaces."""


class UsageError(JaxprGenError, ValueError):
    """Raised when the command line is called with invalid arguments."""


class PassWarning(UserWarning):
    """Issued when one of the default passes fails; the program stays as it was before that pass.

    ``warnings.simplefilter("error", PassWarning)`` raises it as an error instead.
    """


class GradientWarning(UserWarning):
    """Issued when a gradient is NaN or infinite at a point where its function is finite.

    Also issued when a graph has a gradient that its library writes wrongly.
    """


class RuntimeCheckWarning(UserWarning):
    """Issued when a program leaves out a check that Aesara makes at run time.

    It does not mean that the check would fail.
    """


class PrecisionWarning(UserWarning):
    """Issued when a graph declares 64-bit numbers while JAX computes with 32 bits."""


class SharedValueWarning(UserWarning):
    """Issued when JAX traces a function, and its program keeps the values of shared variables."""


class SpecializationWarning(UserWarning):
    """Issued when programs are emitted for many values of one input."""


class DenseMatrixWarning(UserWarning):
    """Issued when a program makes a large array of a sparse matrix."""


class ProfileWarning(UserWarning):
    """Issued when a function of mode "JAXPR" is profiled, which has no steps to be timed."""


def levels_to_user() -> int:
    """The ``stacklevel`` with which a warning of the caller shows the user's line."""
    level, frame = 0, inspect.currentframe()
    inside = ("jaxprgen.", "jax.", "aesara.", "pytensor.", "contextlib")
    while frame and frame.f_globals.get("__name__", "").startswith(inside):
        level, frame = level + 1, frame.f_back
    return level


@functools.cache
def assertion_error(kind: type[Exception]) -> type[FailedAssertionError]:
    """Return the class of a failed assertion that derives from ``kind``, and has its name.

    It also derives from `ParameterError` if ``kind`` is a ValueError. Errors of it can be pickled.

    Parameters
    ----------
    kind : type
        The class of errors that Aesara's Op raises.

    Returns
    -------
    type
        The class, always the same one for the same ``kind``.
    """
    base = ParameterError if issubclass(kind, ValueError) else FailedAssertionError
    if issubclass(base, kind):
        return base
    parts: dict[str, Any] = {
        "__module__": kind.__module__,
        "__doc__": f"Raised when an assertion fails that raises {kind.__name__} in Aesara.",
        "__str__": Exception.__str__,
        "__reduce__": lambda self: (_failed_assertion, (kind, str(self))),
    }
    made: Any = type(kind.__name__, (base, kind), parts)
    return made


def _failed_assertion(kind: type[Exception], message: str) -> FailedAssertionError:
    return assertion_error(kind)(message)


_COMPARISON = re.compile(r"comparison '(.+)' (>=|<=|>|<) '(.+)' is inconclusive")


def undecided_size(error: Exception) -> SymbolicSizeError:
    """Return the error of a program that would differ from one symbolic size to another.

    Parameters
    ----------
    error : Exception
        The error of JAX about a comparison of symbolic sizes.

    Returns
    -------
    SymbolicSizeError
        An error that says which comparison decides, and what to do.
    """
    found = _COMPARISON.search(str(error))
    if found is None:
        return SymbolicSizeError(
            f"A size has to be a number here: {str(error).splitlines()[0]}\n"
            "Give that axis a number in place of a symbol."
        )
    m, relation, n = found.groups()
    below, above = (str(int(n) + k) if n.isdigit() else f"{n} {k:+}" for k in (-1, 1))
    is_lower = relation in ("<", ">=")
    either = f"{m} >= {n}" if is_lower else f"{m} <= {n}"
    other = f"{m} <= {below}" if is_lower else f"{m} >= {above}"
    return SymbolicSizeError(
        f"Sizes for which {either} need another program than others do.\nSay which sizes this one "
        f'is for: jax.export.symbolic_shape(..., constraints=["{either}"]), or ["{other}"].'
    )
