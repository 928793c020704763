"""Ops that return their input and talk to the user while the program runs."""

from __future__ import annotations

from typing import Any

from aesara.breakpoint import PdbBreakpoint
from aesara.printing import Print

from jaxprgen.emit.callback import call_for_effect
from jaxprgen.emit.values import Value
from jaxprgen.lowering.context import RuleContext
from jaxprgen.lowering.registry import lowers


@lowers(Print, folds=False)
def lower_print(ctx: RuleContext, x: Value) -> Value:
    """The value, which the Op's own function prints when the program runs."""
    op = ctx.op
    call_for_effect(lambda value: op.global_fn(op, value), x)
    return x


@lowers(PdbBreakpoint, folds=False)
def lower_breakpoint(ctx: RuleContext, condition: Value, *monitored: Value) -> list[Value]:
    """The values. Where the condition holds, Python's debugger stops in a frame that has them.

    Aesara goes on with what is changed there; a program of JAX goes on as it was.
    """
    name = ctx.op.name

    def stop(condition: Any, *monitored: Any) -> None:
        if condition:
            print(f"Conditional breakpoint '{name}' activated: see the list variable 'monitored'.")
            breakpoint()

    call_for_effect(stop, condition, *monitored)
    return list(monitored)
