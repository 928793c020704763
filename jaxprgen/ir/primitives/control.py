"""Primitives that run programs: loops, branches, and programs with derivatives of their own."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from jaxprgen import _jax
from jaxprgen._jax import ClosedJaxpr, Var
from jaxprgen.ir.builder import Atom, Builder
from jaxprgen.ir.primitives.appending import append_multiple


def while_loop(
    b: Builder,
    condition: ClosedJaxpr,
    body: ClosedJaxpr,
    carries: Sequence[Atom],
    condition_constants: Sequence[Atom] = (),
    body_constants: Sequence[Atom] = (),
) -> list[Var]:
    """Apply ``body`` as long as ``condition`` holds.

    Parameters
    ----------
    b : Builder
    condition : ClosedJaxpr
        Takes its constants and the carries, and returns a boolean scalar.
    body : ClosedJaxpr
        Takes its constants and the carries, and returns the next carries.
    carries : sequence of atoms
        The initial carries.
    condition_constants, body_constants : sequence of atoms
        The constants of each program.

    Returns
    -------
    list of Var
        The final carries.
    """
    return append_multiple(
        b,
        "while",
        [*condition_constants, *body_constants, *carries],
        cond_nconsts=len(condition_constants),
        cond_jaxpr=condition,
        body_nconsts=len(body_constants),
        body_jaxpr=body,
    )


def cond(
    b: Builder, index: Atom, branches: Sequence[ClosedJaxpr], operands: Sequence[Atom]
) -> list[Var]:
    """Return the results of ``branches[index]``; ``index`` is an int32 scalar, and is clipped."""
    return append_multiple(b, "cond", [index, *operands], branches=tuple(branches))


def scan(
    b: Builder,
    body: ClosedJaxpr,
    constants: Sequence[Atom],
    carries: Sequence[Atom],
    arrays: Sequence[Atom],
    length: int,
    *,
    reverse: bool = False,
    unroll: int = 1,
) -> list[Var]:
    """Apply ``body`` to the slices of arrays, one after the other.

    Parameters
    ----------
    b : Builder
    body : ClosedJaxpr
        Takes the constants, the carries and one slice of each array, and returns the next carries
        and any number of results.
    constants, carries : sequence of atoms
        The constants, and the initial carries.
    arrays : sequence of (length, ...) atoms
        The arrays to slice along their first axis.
    length : int
        The number of steps.
    reverse : bool
        Whether to begin with the last slice.
    unroll : int
        The number of steps that XLA compiles as one iteration.

    Returns
    -------
    list of Var
        The final carries, then the results of all steps, stacked along a new first axis.
    """
    counts = len(constants), len(carries), len(arrays)
    params = _jax.scan_params(body, length, *counts, reverse=reverse, unroll=unroll)
    return append_multiple(b, "scan", [*constants, *carries, *arrays], **params)


def custom_jvp_call(
    b: Builder,
    program: ClosedJaxpr,
    derivative: Callable[..., tuple[ClosedJaxpr, Sequence[bool]]],
    operands: Sequence[Atom],
) -> list[Var]:
    """Run a program that JAX differentiates by a rule.

    Parameters
    ----------
    b : Builder
    program : ClosedJaxpr
    derivative : callable
        The rule; see `jaxprgen._jax.custom_jvp_params`.
    operands : sequence of atoms
        The program's operands.

    Returns
    -------
    list of Var
        The program's outputs.
    """
    closed, constants = _jax.hoist_constants(program)
    params = _jax.custom_jvp_params(closed, derivative, len(constants))
    leading = [b.constant(array) for array in constants]
    return b.call(_jax.custom_jvp_call_p, closed, [*leading, *operands], params)
