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

_TYPE = re.compile(r"([a-z]+)(\d*)\[([^\[\]]*)\]")
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
        raise ArgumentTypeError(f"{text!r} is not a type such as f64[10,3], f32[n,2] or key[].")
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
        A size is neither an integer nor an expression of symbols.
    """
    if not text.strip():
        return ()
    if "_" in re.split(r"[^\w.]+", text) or "..." in text:
        raise ArgumentTypeError(f"[{text}]: give each size a number or a name.")
    try:
        return tuple(jax.export.symbolic_shape(text, scope=scope))
    except (ValueError, SyntaxError, tokenize.TokenError):
        raise ArgumentTypeError(
            f"[{text}] are no sizes: write numbers, names and expressions such as 2*n, with commas "
            "between them."
        ) from None


def scope_with(constraints: Sequence[str]) -> Any:
    """Return a new scope of symbolic sizes between which these constraints hold.

    Raises
    ------
    ArgumentTypeError
        JAX cannot parse a constraint, or constraints contradict each other.
    """
    try:
        return jax.export.SymbolicScope(tuple(constraints))
    except (ValueError, SyntaxError, NotImplementedError, tokenize.TokenError) as error:
        listed = ", ".join(map(repr, constraints))
        raise ArgumentTypeError(
            f"JAX does not take the constraints {listed}: {str(error).splitlines()[0]}"
        ) from None


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
