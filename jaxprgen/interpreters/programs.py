"""The rules of primitives that hold programs: calls, branches and loops."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np
from jax import lax

from jaxprgen import _jax
from jaxprgen._jax import ClosedJaxpr
from jaxprgen.errors import InterpretationError
from jaxprgen.interpreters.context import Context, Rule
from jaxprgen.ir import Builder
from jaxprgen.ir import primitives as ops
from jaxprgen.ir.inner import HOLDERS, called_program
from jaxprgen.ir.programs import parts

UNDECIDED = 1000
"""How often `STEPWISE` goes on in a loop of which it cannot be told whether it does."""


# --- Calls -------------------------------------------------------------------------------


def _inline(context: Context, *operands: Any, **params: Any) -> list[Any]:
    called = called_program(context.eqn)
    assert called is not None
    return context.run(called.program, *(operands[i] for i in called.operands))


INLINED: Mapping[str, Rule] = MappingProxyType(
    {name: _inline for name, holder in HOLDERS.items() if holder.kind == "call"}
)


# --- As JAX's ----------------------------------------------------------------------------


def _traced_scan(context: Context, *operands: Any, **params: Any) -> list[Any]:
    constants, carry, arrays = parts(list(operands), *_jax.scan_counts(context.eqn))

    def step(carry: list[Any], row: list[Any]) -> tuple[list[Any], list[Any]]:
        outputs = context.run(params["jaxpr"], *constants, *carry, *row)
        return outputs[: len(carry)], outputs[len(carry) :]

    options = {key: params[key] for key in ("length", "reverse", "unroll")}
    carry, rows = lax.scan(step, carry, arrays, **options)
    return [*carry, *rows]


def _traced_while(context: Context, *operands: Any, **params: Any) -> list[Any]:
    goes_on, step, carry = _while(context, operands, params)
    return lax.while_loop(lambda xs: context.domain.array(goes_on(xs)), step, carry)


def _traced_cond(context: Context, which: Any, *operands: Any, **params: Any) -> list[Any]:
    index = context.domain.array(which)
    branches = [functools.partial(context.run, branch) for branch in params["branches"]]
    if not isinstance(index, _jax.Tracer):
        return branches[min(max(int(index), 0), len(branches) - 1)](*operands)
    return lax.switch(lax.convert_element_type(index, np.int32), branches, *operands)


TRACED: Mapping[str, Rule] = MappingProxyType(
    {"scan": _traced_scan, "while": _traced_while, "cond": _traced_cond}
)
"""Branches and loops are JAX's again. Values are arrays, or pytrees of arrays."""


# --- One step after the other ------------------------------------------------------------


def _stepwise_scan(context: Context, *operands: Any, **params: Any) -> list[Any]:
    constants, carry, arrays = parts(list(operands), *_jax.scan_counts(context.eqn))
    body, length = _jax.close(params["jaxpr"]), params["length"]
    types = context.avals_out[len(carry) :]
    if not length:
        return [*carry, *(context.domain.lift(np.empty(t.shape, t.dtype), t) for t in types)]
    rows: list[Any] = [None] * length
    of_arrays = context.avals_in[len(operands) - len(arrays) :]
    for i in range(length):
        place = length - 1 - i if params["reverse"] else i
        row = [_row(context, place, aval, x, i) for aval, x in zip(of_arrays, arrays, strict=True)]
        outputs = context.run(body, *constants, *carry, *row, step=i)
        carry, rows[place] = outputs[: len(carry)], outputs[len(carry) :]
    columns = zip(*rows, strict=True)
    return [*carry, *(_stacked(context, t, c) for t, c in zip(types, columns, strict=True))]


def _stepwise_while(context: Context, *operands: Any, **params: Any) -> list[Any]:
    goes_on, step, carry = _while(context, operands, params)
    domain, ends, undecided = context.domain, list[list[Any]](), 0
    for i in itertools.count():
        choices = domain.choices(goes_on(carry, step=i))
        if 0 in choices:
            ends = [_joined(domain, [*ends, carry])]
        if not any(choices):
            return ends[0]
        undecided += len(choices) > 1
        if undecided > UNDECIDED:
            raise InterpretationError(
                f"After {UNDECIDED} steps it is still not decided whether this loop goes on.\n"
                "Bound the number of its steps, as lax.fori_loop does."
            )
        carry = step(carry, step=i)
    raise AssertionError


def _stepwise_cond(context: Context, which: Any, *operands: Any, **params: Any) -> list[Any]:
    branches = params["branches"]
    taken = {min(max(i, 0), len(branches) - 1) for i in context.domain.choices(which)}
    results = [context.run(branches[i], *operands) for i in sorted(taken)]
    return _joined(context.domain, results)


STEPWISE: Mapping[str, Rule] = MappingProxyType(
    {"scan": _stepwise_scan, "while": _stepwise_while, "cond": _stepwise_cond}
)
"""Steps are interpreted one after the other. Rows are taken of arrays, and stacked, by equations
of ``slice``, ``squeeze``, ``broadcast_in_dim`` and ``concatenate``."""


def _joined(domain: Any, results: list[list[Any]]) -> list[Any]:
    columns = zip(*results, strict=True)
    return [functools.reduce(domain.join, column) for column in columns]


# --- What a loop is made of ---------------------------------------------------------------


def _while(
    context: Context, operands: Sequence[Any], params: Mapping[str, Any]
) -> tuple[Callable[..., Any], Callable[..., list[Any]], list[Any]]:
    """Whether a loop goes on, and what a step makes, as functions of what is carried; and that."""
    test, body = _jax.close(params["cond_jaxpr"]), _jax.close(params["body_jaxpr"])
    counts = params["cond_nconsts"], params["body_nconsts"]
    of_test, of_body, carry = parts(list(operands), *counts)
    if test.out_avals[0].shape:
        test, body = _together(test, body, *counts)
        of_body = [*of_test, *of_body]

    def goes_on(carry: list[Any], step: int | None = None) -> Any:
        return context.run(test, *of_test, *carry, step=step)[0]

    def after(carry: list[Any], step: int | None = None) -> list[Any]:
        return context.run(body, *of_body, *carry, step=step)

    return goes_on, after, carry


def _together(
    test: ClosedJaxpr, body: ClosedJaxpr, of_test: int, of_body: int
) -> tuple[ClosedJaxpr, ClosedJaxpr]:
    """A loop of which every lane has a condition of its own, as `jax.vmap` makes them, as usual.

    It goes on while one lane does; a step leaves the others as they are.
    """
    b = Builder(test.in_avals)
    (goes_on,) = b.inline(test, b.inputs)
    any_goes_on = b.build([ops.reduce_or(b, goes_on, range(len(goes_on.aval.shape)))])

    b = Builder([*test.in_avals[:of_test], *body.in_avals])
    first, second, carry = parts(list(b.inputs), of_test, of_body)
    (goes_on,) = b.inline(test, [*first, *carry])
    pairs = zip(carry, b.inline(body, [*second, *carry]), strict=True)
    lanes = range(len(goes_on.aval.shape))
    chosen = [
        ops.select_n(b, ops.broadcast_in_dim(b, goes_on, old.aval.shape, lanes), old, new)
        for old, new in pairs
    ]
    return any_goes_on, b.build(chosen)


def _row(context: Context, place: int, aval: Any, x: Any, step: int) -> Any:
    """One row of an array, by equations."""
    b = _builder(context, [aval])
    inner = aval.shape[1:]
    start, unit = (place, *[0] * len(inner)), (1,) * len(aval.shape)
    row = ops.slice(b, b.inputs[0], start, (place + 1, *inner), unit)
    return context.run(b.build([ops.squeeze(b, row, (0,))]), x, step=step)[0]


def _stacked(context: Context, aval: Any, rows: Sequence[Any]) -> Any:
    """An array of these rows, by equations."""
    b = _builder(context, [_jax.slice_type(aval)] * len(rows))
    shape, axes = (1, *aval.shape[1:]), range(1, len(aval.shape))
    found = [ops.broadcast_in_dim(b, x, shape, axes) for x in b.inputs]
    return context.run(b.build([ops.concatenate(b, found, 0)]), *rows)[0]


def _builder(context: Context, types: Sequence[Any]) -> Builder:
    b = Builder(types)
    b.source_info = context.eqn.source_info
    return b
