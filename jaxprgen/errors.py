"""Every error raised on purpose, under `JaxprGenError`.

Each class is also the exception that a Python user would expect, built in or NumPy's, so that
``except ValueError`` around a call keeps working.
"""

from __future__ import annotations

import numpy as np


class JaxprGenError(Exception):
    """Base class of every error this package raises on purpose.

    ``str(error)`` says what, why and what to do. Where the graph's node is known, its
    description and the line on which the user built it follow; `located` is then true.
    """

    located = False

    def at(self, where: str) -> JaxprGenError:
        """The same error with the description of a place in the graph behind its message."""
        error = type(self)(f"{self}\n{where}")
        error.located = True
        return error


class UnsupportedOpError(JaxprGenError, NotImplementedError):
    """The graph holds Ops for which no rule is registered; all of them are listed."""


class InvalidGraphError(JaxprGenError, ValueError):
    """The inputs and outputs do not describe a program: an input is missing or given twice."""


class ArgumentCountError(JaxprGenError, TypeError):
    """A compiled function was called with too few or too many arguments."""


class ArgumentTypeError(JaxprGenError, TypeError):
    """An argument's dtype cannot be converted to its input's without losing information."""


class ArgumentShapeError(JaxprGenError, ValueError):
    """An argument's rank or shape contradicts the type of its input."""


class ShapeMismatchError(JaxprGenError, ValueError):
    """The shapes that meet in one node do not agree."""


class AxisOutOfBoundsError(ShapeMismatchError, IndexError):
    """An array has no such axis."""


class LinearAlgebraError(JaxprGenError, np.linalg.LinAlgError):
    """A matrix is not square, or is known, while emitting or by a check, to be singular."""


class IndexOutOfBoundsError(JaxprGenError, IndexError):
    """An index is known, while emitting, by a check or by `debug`, to lie outside its axis."""


class PositionOutOfBoundsError(IndexOutOfBoundsError, ValueError):
    """As above, where NumPy raises a ValueError: `choose`, `unravel_index`, `ravel_multi_index`."""


class FailedAssertionError(JaxprGenError, AssertionError):
    """An assertion in the graph is known, while emitting, by a check or by `debug`, not to hold."""


class ParameterError(FailedAssertionError, ValueError):
    """A parameter is known, while emitting, to be outside of its domain: an assertion that raises
    ValueError, such as aeppl's ``CheckParameterValue``, or what a random draw needs."""


class NonFiniteValueError(JaxprGenError, FloatingPointError):
    """A NaN or an infinity that `jaxprgen.debug` sees come into being."""


class UnknownNameError(JaxprGenError, LookupError):
    """A name that nothing there has."""


class StaticShapeError(JaxprGenError, TypeError):
    """A shape depends on a value that is not known while emitting."""


class UndefinedGradientError(JaxprGenError, TypeError):
    """JAX differentiates through a value that the graph marks as having no gradient."""


class LoweringError(JaxprGenError, RuntimeError):
    """A rule failed, or returned values that contradict the node's declared outputs."""


class MissingRuleError(JaxprGenError, NotImplementedError):
    """An interpreter has no rule for a primitive."""


class InterpretationError(JaxprGenError, RuntimeError):
    """An interpreter's rule failed, or returned what the equation does not."""


class EquationError(JaxprGenError, TypeError):
    """An equation was about to be built from operands its primitive does not take."""


class PassError(JaxprGenError, RuntimeError):
    """A pass gave a program that is not well typed, or not of the types of the one before."""


class CallbackError(JaxprGenError, RuntimeError):
    """The shape of what a called back Op gives is not known, or not the one that was told."""


class DuplicateRuleError(JaxprGenError, ValueError):
    """There is a rule for this Op, or primitive; pass ``override=True`` to replace it."""


class InvalidRuleError(JaxprGenError, ValueError):
    """What is given as a rule of rewriting cannot be one."""


class RewriteCycleError(JaxprGenError, RuntimeError):
    """Rules of rewriting undo each other, or go on without end."""


class StateError(JaxprGenError, RuntimeError):
    """A function that keeps state is called where it cannot, or with a state of something else."""


class DrawingError(JaxprGenError, RuntimeError):
    """Graphviz, which draws, is not installed, or does not draw this."""


class UsageError(JaxprGenError, ValueError):
    """The command line asks for what is not there."""


class RuntimeCheckWarning(UserWarning):
    """A check that Aesara makes at run time is not part of the emitted program."""


class PrecisionWarning(UserWarning):
    """A graph declares 64-bit numbers, which JAX computes with 32 bits while x64 is off."""


def of_check(message: str) -> JaxprGenError:
    """The error that a failed check tells by its message, which begins with the error's name."""
    name, _, text = message.partition(": ")
    kind = globals().get(name)
    if isinstance(kind, type) and issubclass(kind, JaxprGenError):
        return kind(text)
    return FailedAssertionError(message)
