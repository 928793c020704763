"""Check the sizes of arguments against symbolic sizes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from jaxprgen import _jax
from jaxprgen.errors import ArgumentShapeError


def require_sizes(names: Sequence[str], avals: Sequence[Any], args: Sequence[Any]) -> None:
    """Raise unless a program was exported for arguments of these sizes.

    Sizes that follow from no argument alone, such as ``n`` of a single ``f64[2*n]``, and sizes that
    are themselves symbolic are left to JAX.

    Parameters
    ----------
    names, avals
        The names and types of the inputs.
    args
        The arguments, of the same ranks.

    Raises
    ------
    ArgumentShapeError
        An argument has another size than its input, two that have one symbol differ, or a
        constraint does not hold.
    """
    found: dict[str, int] = {}
    where: dict[str, str] = {}
    sizes = [
        (name, axis, wanted, size, x.shape)
        for name, aval, x in zip(names, avals, args, strict=True)
        for axis, (wanted, size) in enumerate(zip(aval.shape, x.shape, strict=False))
        if type(size) is int
    ]
    for name, axis, wanted, size, _ in sizes:
        symbols = _jax.symbols_of(wanted)
        if symbols == [str(wanted)] and symbols[0] not in found:
            found[symbols[0]] = size
            where[symbols[0]] = f"input {name!r} along axis {axis}"
    for symbol, size in found.items():
        if size < 1:
            raise ArgumentShapeError(
                f"{symbol} is {size}, from {where[symbol]}. The program was exported for sizes of "
                "at least 1."
            )
    for name, axis, wanted, size, shape in sizes:
        symbols = _jax.symbols_of(wanted)
        if not set(symbols) <= set(found):
            continue
        expected = _jax.size_at(wanted, found) if symbols else wanted
        if expected != size:
            which = f" ({wanted})" if symbols else ""
            given = "".join(f"\n{s} is {found[s]}, from {where[s]}." for s in symbols)
            raise ArgumentShapeError(
                f"Input {name!r} must have size {expected}{which} along axis {axis}, but the "
                f"argument's shape is {tuple(shape)}.{given}"
            )
    scope = _jax.symbolic_scope([aval.shape for aval in avals])
    broken = None if scope is None else _jax.violated(scope, found)
    if broken is not None:
        listed = ", ".join(f"{s} is {n}, from {where[s]}" for s, n in found.items())
        raise ArgumentShapeError(
            f"The program was exported for {broken}, which does not hold: {listed}."
        )
