"""Loops whose number of steps differs between the elements of arrays."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from jaxprgen.emit import elementwise as ew
from jaxprgen.emit import reduce
from jaxprgen.emit.control import while_loop
from jaxprgen.emit.custom_derivatives import forward_only
from jaxprgen.emit.values import BOOL, INT64, Value, broadcast_to, common_shape, full
from jaxprgen.errors import ReverseModeError

Step = Callable[..., tuple[Sequence[Value], Value | None]]
"""``step(*changing, *fixed)`` returns the next ``changing`` and where a loop ends."""


def elementwise_loop(
    step: Step, steps: Value, changing: Sequence[Value], fixed: Sequence[Value], *, ends: bool
) -> list[Value]:
    """Repeat a step for every element until its number of steps is reached, or the step ends it.

    JAX differentiates the loop in forward mode only.

    Parameters
    ----------
    step
        The step. It is computed for all elements as long as one of them goes on.
    steps : int
        The numbers of steps.
    changing, fixed
        Arrays that change, and others that every step reads; all broadcast.
    ends
        Whether the step says where loops end.

    Returns
    -------
    list
        The changed arrays and, if steps may end loops, whether they did; a loop of no step did.
    """
    shape = common_shape(steps, *changing, *fixed)
    count, counter = len(changing), ew.canonical(INT64)
    read = [x for x in fixed if x.fill_value is None]
    ended = broadcast_to(steps <= 0, shape) if ends else full(shape, False, BOOL)

    def going(k: Value, steps: Value, ended: Value) -> Value:
        return (k < steps) & ~ended

    def more(k: Value, steps: Value, ended: Value, *_: Value) -> Value:
        return reduce.bitwise_or(going(k, steps, ended), range(len(shape)))

    def body(k: Value, steps: Value, ended: Value, *values: Value) -> list[Value]:
        given = iter(values[count:])
        constants = [next(given) if x.fill_value is None else x for x in fixed]
        after, stop = step(*values[:count], *constants)
        active = going(k, steps, ended)
        pairs = zip(after, values, strict=False)
        moved = [broadcast_to(ew.where(active, y.astype(x.dtype), x), shape) for y, x in pairs]
        # An element that reaches its number of steps has not ended.
        ended = ended if stop is None else ew.where(active, stop, ended)
        return [k + 1, steps, broadcast_to(ended, shape), *moved, *values[count:]]

    start = [broadcast_to(x, shape) for x in changing]
    limits = broadcast_to(steps.astype(counter), shape)
    found = while_loop(more, body, [full((), 0, counter), limits, ended, *start, *read])
    _, _, ended, *rest = [forward_only(x, lambda: ReverseModeError(_REASON)) for x in found]
    return [*rest[:count], ended] if ends else rest[:count]


_REASON = (
    "JAX cannot differentiate a ScalarLoop in reverse, as jax.grad does: elements take different "
    "numbers of steps. Forward mode works, as in jax.jvp and jax.jacfwd."
)
