"""What a rule is told, what values are, and the two rules that serve as defaults."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn, TypeAlias

import jax

from jaxprgen import _jax
from jaxprgen._jax import ClosedJaxpr, Jaxpr, JaxprEqn
from jaxprgen.errors import InterpretationError, MissingRuleError
from jaxprgen.tools.debugging.evaluate import Inside

Rule: TypeAlias = Callable[..., Any]
"""``rule(context, *operands, **params)``: the value of an equation's result, or, of a primitive
with several results, a list of them; ``params`` are those of the equation."""


class Domain:
    """What an interpreter computes with. This one is JAX's arrays; subclasses say what differs.

    Attributes
    ----------
    value_type
        The class of the values, which have a ``shape`` and a ``dtype``. Arrays may be among the
        values as well. None if there are only arrays.
    """

    value_type: type | None = None

    def lift(self, x: Any, aval: Any) -> Any:
        """What stands for an array that is known: an argument, a constant, a literal.

        Of a literal ``x`` may be a Python scalar; its type is ``aval``.
        """
        return x

    def array(self, value: Any) -> Any:
        """The array by which `TRACED` decides how a branch or a loop goes on."""
        return value

    def choices(self, value: Any) -> Sequence[int]:
        """The integers that a scalar may be, by which `STEPWISE` decides the same.

        False and true are 0 and 1. If there are several, results are joined.
        """
        array = self.array(value)
        if isinstance(array, _jax.Tracer):
            raise InterpretationError(
                "Which way the program goes is decided by a value that is not known while JAX "
                "traces.\nCall it outside of JAX's transformations, or interpret with "
                "programs=TRACED."
            )
        return (int(array),)

    def join(self, first: Any, second: Any) -> Any:
        """A value for what may be either of two: needed where there are several choices."""
        raise InterpretationError(
            "It is not decided which way the program goes.\n"
            "Give the domain a method join(first, second), a value for what may be either."
        )

    def is_value(self, x: Any) -> bool:
        """Whether something is of the `value_type`."""
        return self.value_type is not None and isinstance(x, self.value_type)

    def stand_in(self, x: Any) -> Any:
        """What a function is traced with in the place of an argument."""
        return jax.ShapeDtypeStruct(x.shape, x.dtype) if self.is_value(x) else x


@dataclass(frozen=True)
class Context:
    """What a rule is told beside its operands.

    Attributes
    ----------
    interpreter
        Its name.
    domain
        Its values.
    program
        The whole program that is interpreted.
    eqn
        The equation.
    within
        The equations whose programs this one is inside of, from the outside in.
    """

    interpreter: str
    domain: Domain
    program: ClosedJaxpr
    eqn: JaxprEqn
    within: tuple[Inside, ...]
    _run: Callable[[ClosedJaxpr, Sequence[Any], ClosedJaxpr, tuple[Inside, ...]], list[Any]]

    @property
    def primitive(self) -> str:
        """The name of the equation's primitive."""
        return self.eqn.primitive.name

    @property
    def avals_in(self) -> list[Any]:
        """The types of the operands, as the program has them."""
        return [x.aval for x in self.eqn.invars]

    @property
    def avals_out(self) -> list[Any]:
        """The types of the results."""
        return [v.aval for v in self.eqn.outvars]

    def run(
        self, program: ClosedJaxpr | Jaxpr, *operands: Any, step: int | None = None
    ) -> list[Any]:
        """The outputs of a program inside the equation, by the same interpreter.

        ``step`` is for errors: which iteration of a loop it is, counted from 0.
        """
        within = (*self.within, Inside(self.eqn, step))
        return self._run(_jax.close(program), operands, self.program, within)


def evaluate(context: Context, *operands: Any, **params: Any) -> Any:
    """The rule that computes what the primitive does; operands are arrays."""
    return _jax.bind_eqn(context.eqn.replace(params=params), operands)


def refuse(context: Context, *operands: Any, **params: Any) -> NoReturn:
    """The rule that raises a `MissingRuleError`."""
    raise MissingRuleError(
        f"The interpreter {context.interpreter!r} has no rule for {context.primitive}.\n"
        f'Register one: @{context.interpreter}.rule("{context.primitive}") before a function '
        f"of (context, *operands, **params)."
    )
