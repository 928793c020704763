"""Types of arguments as text, such as ``f64[n,3]``, and arguments that fit their symbolic sizes."""

from __future__ import annotations

import re
import tokenize
from collections.abc import Sequence
from typing import Any

import jax
import jax.export  # JAX 0.7 does not import it by itself.
import numpy as np

from jaxprgen import _jax
from jaxprgen.errors import ArgumentShapeError, ArgumentTypeError
from jaxprgen.texts import visible

_TYPE = re.compile(r"([a-z]+)(\d*)\[([^\[\]]*)\]")
_UNPARSED = ValueError, SyntaxError, ArithmeticError, RecursionError, tokenize.TokenError
_KINDS = {"f": "float", "i": "int", "u": "uint", "c": "complex"}


def is_type(text: str) -> bool:
    """Return whether a text has the form of a type."""
    return _TYPE.fullmatch(text.strip()) is not None


def parse_type(text: str, scope: Any = None) -> jax.ShapeDtypeStruct:
    """Return the type that a text stands for.

    Parameters
    ----------
    text
        A dtype and the sizes, as in ``f64[10,3]``, ``bool[]``, ``float32[n, 2*n]`` or ``key[]``
        for a typed PRNG key.
    scope : jax.export.SymbolicScope
        The scope of symbolic sizes; by default one of its own.

    Raises
    ------
    ArgumentTypeError
        The text stands for no type.
    """
    match = _TYPE.fullmatch(text.strip())
    if match is None:
        raise ArgumentTypeError(
            f"{visible(text, 60)!r} is not a type such as f64[10,3], f32[n,2] or key[]."
        )
    kind, bits, sizes = match.groups()
    try:
        dtype = (
            _jax.key_dtype(_jax.default_prng_impl().name)
            if (kind, bits) == ("key", "")
            else np.dtype(_KINDS.get(kind, kind) + bits)
        )
    except TypeError:
        raise ArgumentTypeError(f"{kind}{bits} is not a dtype.") from None
    return jax.ShapeDtypeStruct(parse_sizes(sizes, scope), dtype)


def parse_sizes(text: str, scope: Any = None) -> tuple[Any, ...]:
    """Return the sizes that a text stands for: integers, or symbolic sizes of a scope.

    Raises
    ------
    ArgumentTypeError
        A size is neither an integer >= 0 nor an expression of symbols.
    """
    if not text.strip():
        return ()
    _refuse_huge(text)
    if "_" in re.split(r"[^\w.]+", text) or "..." in text:
        raise ArgumentTypeError(f"[{visible(text, 60)}]: give each size a number or a name.")
    try:
        shape = tuple(jax.export.symbolic_shape(text, scope=scope))
    except _UNPARSED:
        raise ArgumentTypeError(
            f"[{visible(text, 60)}] are no sizes: write numbers, names and expressions such as "
            "2*n, with commas between them."
        ) from None
    if any(isinstance(n, int) and n < 0 for n in shape):
        raise ArgumentTypeError(f"[{visible(text, 60)}]: a size is at least 0.")
    return shape


def scope_with(constraints: Sequence[str]) -> Any:
    """Return a new scope of symbolic sizes between which these constraints hold.

    Raises
    ------
    ArgumentTypeError
        JAX cannot parse a constraint, or constraints contradict each other.
    """
    _refuse_huge(" ".join(constraints))
    try:
        return jax.export.SymbolicScope(tuple(constraints))
    except (*_UNPARSED, NotImplementedError) as error:
        listed = visible(", ".join(map(repr, constraints)), 100)
        raise ArgumentTypeError(
            f"JAX does not take the constraints {listed}: {visible(str(error).split(chr(10))[0])}"
        ) from None


def _refuse_huge(text: str) -> None:
    if re.search(r"\d{19}", text):
        raise ArgumentTypeError(f"[{visible(text, 60)}]: a size has at most 18 digits.")


def in_scope(specs: Sequence[Any], constraints: Sequence[str]) -> list[Any]:
    """Return specs with the same symbolic sizes in a new scope that has these constraints."""
    scope = scope_with(constraints)
    return [
        jax.ShapeDtypeStruct(parse_sizes(sizes_text(x.shape), scope), x.dtype)
        if isinstance(x, jax.ShapeDtypeStruct) and any(map(jax.export.is_symbolic_dim, x.shape))
        else x
        for x in specs
    ]


def sizes_text(shape: Sequence[Any]) -> str:
    """Return sizes as text that `parse_sizes` takes."""
    return ",".join(map(str, shape))


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
