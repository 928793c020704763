"""Types of arguments as text, such as ``f64[n,3]``."""

from __future__ import annotations

import re
import tokenize
from collections.abc import Sequence
from typing import Any

import jax
import jax.export  # JAX 0.7 does not import it by itself.
import numpy as np

from jaxprgen import _jax
from jaxprgen.errors import ArgumentTypeError
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
