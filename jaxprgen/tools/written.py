"""Arguments as they are written on a command line: types and values."""

from __future__ import annotations

import ast
import difflib
import json
import re
from collections.abc import Sequence
from typing import Any

import jax
import numpy as np

from jaxprgen.errors import UsageError
from jaxprgen.lowering.graph import Input
from jaxprgen.runtime.compiled import CompiledFunction

_TYPE = re.compile(r"([a-z]+)(\d*)\[(\s*|\s*\d+(?:\s*,\s*\d+)*\s*)\]")
_KINDS = {"f": "float", "i": "int", "u": "uint", "c": "complex"}


def arguments_of(f: CompiledFunction, written: Sequence[str]) -> list[Any]:
    """One argument for each input: those written as ``NAME=TYPE``, and the types of scalars.

    Raises
    ------
    UsageError
        Something written is no argument of this function, or one is missing.
    """
    args: list[Any] = [None] * len(f.inputs)
    for text in written:
        place, value = _split(text, f.inputs)
        if args[place] is not None:
            raise UsageError(f"--arg {text}: input {f.inputs[place].name!r} is given twice.")
        args[place] = _argument(text, value, f.inputs[place])
    missing: list[str] = []
    for i, declared in enumerate(f.inputs):
        if args[i] is None and None in declared.shape:
            sizes = ",".join("?" if n is None else str(n) for n in declared.shape)
            unique = [other.name for other in f.inputs].count(declared.name) == 1
            name = declared.name if unique and declared.name.isidentifier() else str(i)
            missing.append(f"  --arg '{name}={declared.dtype}[{sizes}]'")
        elif args[i] is None:
            args[i] = jax.ShapeDtypeStruct(declared.shape, declared.dtype)
    if missing:
        raise UsageError(
            "Say how large these inputs are, with a number for each ?:\n" + "\n".join(missing)
        )
    return args


def _split(text: str, inputs: Sequence[Input]) -> tuple[int, str]:
    """The input's position, and what is written for it."""
    if "=" not in text:
        raise UsageError(f"--arg {text} is not of the form NAME=TYPE.")
    named = [(i, declared.name) for i, declared in enumerate(inputs)]
    found = [(i, name) for i, name in named if text.startswith(f"{name}=")]
    if len(found) > 1 and len({name for _, name in found}) < len(found):
        raise UsageError(f"--arg {text}: several inputs have this name; give its position instead.")
    if found:
        place, name = max(found, key=lambda pair: len(pair[1]))
        return place, text[len(name) + 1 :]
    name, _, value = text.partition("=")
    if name.isdecimal() and int(name) < len(inputs):
        return int(name), value
    names = [name for _, name in named]
    close = difflib.get_close_matches(name, names)
    near = f" Did you mean {' or '.join(close)}?" if close else ""
    raise UsageError(f"There is no input {name}; there are {', '.join(names)}.{near}")


def _argument(text: str, value: str, declared: Input) -> Any:
    """A type as ``f64[3]``, or a value as Python or JSON write it."""
    value = value.strip()
    match = _TYPE.fullmatch(value)
    if match:
        kind, bits, sizes = match.groups()
        try:
            dtype = np.dtype(_KINDS.get(kind, kind) + bits)
        except TypeError:
            raise UsageError(f"--arg {text}: {kind}{bits} is no dtype.") from None
        shape = tuple(int(n) for n in sizes.split(",") if n.strip())
        return jax.ShapeDtypeStruct(shape, dtype)
    array = _value(value)
    if array is None:
        raise UsageError(f"--arg {text} is neither a type as f64[10,3] nor a value as 5 or [1,2].")
    with np.errstate(all="ignore"):
        cast = array.astype(declared.dtype)
    boolean = (array.dtype.kind == "b") == (declared.dtype.kind == "b")
    if not boolean or not np.array_equal(cast.astype(array.dtype), array, equal_nan=True):
        raise UsageError(f"--arg {text}: {declared.dtype} cannot hold that.")
    return cast


def _value(text: str) -> np.ndarray[Any, Any] | None:
    for read in (json.loads, ast.literal_eval):
        try:
            array = np.asarray(read(text))
        except (ValueError, SyntaxError, TypeError):
            continue
        if array.dtype.kind in "biufc":
            return array
    return None
