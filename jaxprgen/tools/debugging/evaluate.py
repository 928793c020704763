"""A program evaluated equation by equation."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Generator, Sequence
from typing import Any, NamedTuple, TypeAlias

import jax

from jaxprgen import _jax
from jaxprgen._jax import ClosedJaxpr, JaxprEqn, Var
from jaxprgen.ir.inner import called_program
from jaxprgen.ir.programs import parts


class Inside(NamedTuple):
    """An equation whose inner program is running; loops count their iterations from 0."""

    eqn: JaxprEqn
    iteration: int | None


class Evaluated(NamedTuple):
    """An equation that has been evaluated.

    Attributes
    ----------
    eqn, operands, results
        The equation, and a value for each of its operands and results.
    within
        The equations around it, from the outside in.
    entered
        Whether it holds a program whose equations came before it, one by one.
    """

    eqn: JaxprEqn
    operands: list[Any]
    results: list[Any]
    within: tuple[Inside, ...]
    entered: bool


Evaluation: TypeAlias = Generator[Evaluated, None, list[Any]]
Enter: TypeAlias = Callable[[JaxprEqn, list[Any], tuple[Inside, ...]], Evaluation]


def evaluate(
    closed: ClosedJaxpr, operands: Sequence[Any], within: tuple[Inside, ...] = ()
) -> Evaluation:
    """Run a program on values: yields each equation when it is done, returns the outputs.

    Calls, branches and loops are entered; any other equation is evaluated by its primitive.
    A failing ``check`` does nothing.
    """
    jaxpr = closed.jaxpr
    values = dict[Any, Any](zip(jaxpr.constvars, closed.consts, strict=True))
    values.update(zip(jaxpr.invars, operands, strict=True))

    def read(x: Any) -> Any:
        return values[x] if type(x) is Var else x.val

    for eqn in jaxpr.eqns:
        inputs = [read(x) for x in eqn.invars]
        enter = _entrance(eqn)
        if enter is not None:
            results = yield from enter(eqn, inputs, within)
        else:
            results = [] if eqn.primitive is _jax.check_p else _jax.eval_eqn(eqn, inputs)
        values.update(zip(eqn.outvars, results, strict=True))
        yield Evaluated(eqn, inputs, results, within, enter is not None)
    return [read(x) for x in jaxpr.outvars]


# --- Equations with programs inside ------------------------------------------------------


def _entrance(eqn: JaxprEqn) -> Enter | None:
    """How to evaluate the programs inside an equation; None if its primitive does."""
    name = eqn.primitive.name
    if called_program(eqn) is not None:
        return _call
    if name == "cond":
        return _cond
    # Under `vmap`, every lane of a loop may have a condition of its own.
    if name == "while" and _jax.close(eqn.params["cond_jaxpr"]).out_avals[0].shape == ():
        return _while
    return _scan if name == "scan" and eqn.params["length"] else None


def _call(eqn: JaxprEqn, operands: list[Any], within: tuple[Inside, ...]) -> Evaluation:
    called = called_program(eqn)
    assert called is not None
    given = [operands[i] for i in called.operands]
    return (yield from evaluate(_jax.close(called.program), given, (*within, Inside(eqn, None))))


def _cond(eqn: JaxprEqn, operands: list[Any], within: tuple[Inside, ...]) -> Evaluation:
    which, *rest = operands
    branches = eqn.params["branches"]
    taken = _jax.close(branches[min(max(int(which), 0), len(branches) - 1)])
    return (yield from evaluate(taken, rest, (*within, Inside(eqn, None))))


def _while(eqn: JaxprEqn, operands: list[Any], within: tuple[Inside, ...]) -> Evaluation:
    params = eqn.params
    test, body = _jax.close(params["cond_jaxpr"]), _jax.close(params["body_jaxpr"])
    counts = params["cond_nconsts"], params["body_nconsts"]
    of_test, of_body, carry = parts(operands, *counts)
    for i in itertools.count():
        here = (*within, Inside(eqn, i))
        (go_on,) = yield from evaluate(test, [*of_test, *carry], here)
        if not go_on:
            break
        carry = yield from evaluate(body, [*of_body, *carry], here)
    return carry


def _scan(eqn: JaxprEqn, operands: list[Any], within: tuple[Inside, ...]) -> Evaluation:
    constant_count, carry_count = _jax.scan_counts(eqn)
    constants, carry, arrays = parts(operands, constant_count, carry_count)
    body, length = _jax.close(eqn.params["jaxpr"]), eqn.params["length"]
    rows: list[Any] = [None] * length
    for i in range(length):
        place = length - 1 - i if eqn.params["reverse"] else i
        with _jax.eval_context():
            slices = [array[place] for array in arrays]
        outputs = yield from evaluate(
            body, [*constants, *carry, *slices], (*within, Inside(eqn, i))
        )
        carry, rows[place] = outputs[:carry_count], outputs[carry_count:]
    with _jax.eval_context():
        return [*carry, *(jax.numpy.stack(column) for column in zip(*rows, strict=True))]
