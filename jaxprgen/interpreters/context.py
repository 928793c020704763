"""What rules receive: the context, the domain of values, and the two default rules."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn, TypeAlias

import jax

from jaxprgen import _jax
from jaxprgen._jax import ClosedJaxpr, Jaxpr, JaxprEqn
from jaxprgen.errors import InterpretationError, MissingRuleError
from jaxprgen.ir.evaluate import Inside

PrimitiveRule: TypeAlias = Callable[..., Any]
"""``rule(context, *operands, **params)`` returns the value of an equation's result, or, if the
primitive has several results, a list of them. ``params`` are the equation's parameters."""


class Domain:
    """The values that an interpreter computes with: JAX arrays, unless a subclass says otherwise.

    Attributes
    ----------
    value_type
        The class of the values, which have a ``shape`` and a ``dtype``; arrays may occur as well.
        None if all values are arrays.
    """

    value_type: type | None = None

    def lift(self, x: Any, aval: Any) -> Any:
        """Return the value of a known array: an argument, a constant or a literal.

        Parameters
        ----------
        x
            The array. A literal may be a Python scalar.
        aval
            Its type.

        Returns
        -------
        value
            A value of this domain; by default the array itself.
        """
        return x

    def array(self, value: Any) -> Any:
        """Return the array by which `TRACED` selects a branch or ends a loop.

        Parameters
        ----------
        value
            A value of this domain.

        Returns
        -------
        Array
            A scalar.
        """
        return value

    def choices(self, value: Any) -> Sequence[int]:
        """Return the integers that a scalar may be, by which `STEPWISE` selects branches.

        Loops go on for 1 (true) and end for 0 (false). If there is more than one integer, every
        branch is taken and the results are joined.

        Parameters
        ----------
        value
            A value of this domain.

        Returns
        -------
        sequence of int
            At least one integer.
        """
        array = self.array(value)
        if isinstance(array, _jax.Tracer):
            raise InterpretationError(
                "A branch or a loop depends on a value that is abstract while JAX traces.\n"
                "Call the function outside of JAX's transformations, or interpret it with "
                "programs=TRACED."
            )
        return (int(array),)

    def join(self, first: Any, second: Any) -> Any:
        """Return a value that stands for either of two; needed if `choices` returns several.

        Parameters
        ----------
        first, second
            Values of this domain, of one shape and dtype.

        Returns
        -------
        value
            A value of this domain.
        """
        raise InterpretationError(
            "A branch or a loop depends on a value that is not decided.\n"
            "Define join(first, second) in the domain: a value that stands for either."
        )

    def is_value(self, x: Any) -> bool:
        """Return whether something is of the `value_type`.

        Parameters
        ----------
        x
            Any object.

        Returns
        -------
        bool
            Whether it is a value of this domain, and no array.
        """
        return self.value_type is not None and isinstance(x, self.value_type)

    def stand_in(self, x: Any) -> Any:
        """Return what a function is traced with in place of an argument.

        Parameters
        ----------
        x
            The argument: a value of this domain, or an array.

        Returns
        -------
        array or jax.ShapeDtypeStruct
            Something of the argument's shape and dtype.
        """
        if not self.is_value(x):
            return x
        if not (hasattr(x, "shape") and hasattr(x, "dtype")):
            raise InterpretationError(
                f"A value of class {type(x).__name__} has no shape or no dtype.\n"
                "Give the class both attributes: those of the array that the value stands for."
            )
        return jax.ShapeDtypeStruct(x.shape, x.dtype)


@dataclass(frozen=True)
class Context:
    """The first argument of a rule: the equation, its surroundings, and the interpreter.

    Attributes
    ----------
    interpreter
        The interpreter's name.
    domain
        The domain of its values.
    program
        The outermost program that is interpreted.
    eqn
        The equation.
    within
        The equations whose programs contain this one, from the outermost to the innermost.
    """

    interpreter: str
    domain: Domain
    program: ClosedJaxpr
    eqn: JaxprEqn
    within: tuple[Inside, ...]
    _run: Callable[[ClosedJaxpr | Jaxpr, Sequence[Any], tuple[Inside, ...]], list[Any]]

    @property
    def primitive(self) -> str:
        """The name of the equation's primitive, a string such as ``"sin"``."""
        return self.eqn.primitive.name

    @property
    def avals_in(self) -> list[Any]:
        """The types of the operands in the program."""
        return [x.aval for x in self.eqn.invars]

    @property
    def avals_out(self) -> list[Any]:
        """The types of the results in the program."""
        return [v.aval for v in self.eqn.outvars]

    def run(
        self, program: ClosedJaxpr | Jaxpr, *operands: Any, iteration: int | None = None
    ) -> list[Any]:
        """Interpret a program from the equation's parameters.

        Parameters
        ----------
        program
            The program.
        operands
            A value for each of its inputs.
        iteration
            The iteration of a loop, counted from 0, for error messages.

        Returns
        -------
        list
            A value for each of its outputs.
        """
        return self._run(program, operands, (*self.within, Inside(self.eqn, iteration)))


def bind(context: Context, *operands: Any, **params: Any) -> Any:
    """Compute what the primitive does, on arrays: the rule that leaves a primitive as it is.

    Parameters
    ----------
    context : Context
        The equation and its surroundings.
    *operands
        The values of the equation's operands.
    **params
        The parameters of the equation.

    Returns
    -------
    Array or list of Array
        The result; a list if the primitive has several.
    """
    return _jax.bind_eqn(context.eqn.replace(params=params), operands)


def refuse(context: Context, *operands: Any, **params: Any) -> NoReturn:
    """Raise a `MissingRuleError`: the default rule of interpreters that need one everywhere.

    Parameters
    ----------
    context : Context
        The equation and its surroundings.
    *operands
        The values of the equation's operands.
    **params
        The parameters of the equation.

    Raises
    ------
    MissingRuleError
        Always. It names the primitive and the line.
    """
    raise MissingRuleError(
        f"The interpreter {context.interpreter!r} has no rule for {context.primitive}.\n"
        f'Register one with @{context.interpreter}.rule("{context.primitive}"), on a function '
        "of (context, *operands, **params)."
    )
