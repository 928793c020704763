"""Arguments on the command line: types and values as text."""

from __future__ import annotations

import ast
import difflib
import json
import warnings
from collections.abc import Sequence
from typing import Any

import jax
import numpy as np

from jaxprgen.arguments.inputs import Input
from jaxprgen.arguments.specs import is_type, parse_type, sizes_text
from jaxprgen.errors import ArgumentTypeError, UsageError
from jaxprgen.texts import visible

_NUMBERS = "biufc"


def shown(text: str) -> str:
    """Return what a user wrote as an error repeats it."""
    return visible(text, 80)


def by_place(texts: Sequence[str], inputs: Sequence[Input]) -> dict[int, tuple[str, str]]:
    """Return the texts ``NAME=…``, and what follows each ``=``, by the positions of inputs."""
    found: dict[int, tuple[str, str]] = {}
    for text in texts:
        place, value = _split(text, inputs)
        if place in found:
            raise UsageError(f"--arg {shown(text)}: input {inputs[place].name!r} is given twice.")
        found[place] = text, value.strip()
    return found


def _split(text: str, inputs: Sequence[Input]) -> tuple[int, str]:
    """Return the position of the input that ``NAME=…`` is about, and the text after its ``=``."""
    if "=" not in text:
        raise UsageError(f"--arg {shown(text)} is not of the form NAME=TYPE.")
    named = [(i, declared.name) for i, declared in enumerate(inputs)]
    found = [(i, name) for i, name in named if text.startswith(f"{name}=")]
    if len(found) > 1 and len({name for _, name in found}) < len(found):
        several = "several inputs have this name; give a position instead."
        raise UsageError(f"--arg {shown(text)}: {several}")
    if found:
        place, name = max(found, key=lambda pair: len(pair[1]))
        return place, text[len(name) + 1 :]
    name, _, value = text.partition("=")
    if name.isdecimal() and len(name) < 19 and int(name) < len(inputs):
        return int(name), value
    names = [name for _, name in named]
    raise UsageError(
        f"There is no input {shown(name)}; there are {', '.join(names)}.{suggestion(name, names)}"
    )


def suggestion(name: str, candidates: Sequence[str]) -> str:
    """Return a sentence with the names that one may have meant, or an empty text."""
    close = difflib.get_close_matches(name[:100], candidates)
    return f" Did you mean {' or '.join(close)}?" if close else ""


def argument(text: str, value: str, declared: Input, scope: Any) -> Any:
    """Return an abstract value for a type such as ``f64[n,3]``, or an array for a value.

    Parameters
    ----------
    text, value
        What the user wrote, and the part of it after ``=``.
    declared
        The input.
    scope
        The scope of symbolic sizes.
    """
    if is_type(value):
        try:
            return parse_type(value, scope)
        except ArgumentTypeError as error:
            raise UsageError(f"--arg {shown(text)}: {error}") from None
    array = _array(value)
    if array is None:
        raise UsageError(
            f"--arg {shown(text)} is neither a type such as f64[10,3] nor a value such as 5 or "
            "[1,2]." + _with_sizes(value, declared)
        )
    return _fitting(text, array, declared)


def value_of(text: str, value: str, declared: Input) -> Any:
    """Return the array of a number, a list or ``@file.npy``, or the key of a seed."""
    if value.startswith("@"):
        try:
            with open(value[1:], "rb") as file:
                array = np.load(file, allow_pickle=False)
        except Exception as error:  # NumPy raises what it meets: EOFError, BadZipFile, MemoryError.
            why = error.strerror if isinstance(error, OSError) and error.strerror else error
            raise UsageError(
                f"--arg {shown(text)}: {shown(value[1:])} cannot be read: {visible(why, 200)}"
            ) from None
        held = f"--arg {shown(text)}: {shown(value[1:])} holds"
        if not isinstance(array, np.ndarray):
            raise UsageError(f"{held} several arrays.")
        if array.dtype.kind not in _NUMBERS:
            raise UsageError(f"{held} {visible(array.dtype, 60)}, not numbers.")
    else:
        array = _array(value)
    if array is None:
        expected = "a value such as 5 or [1,2] nor a file such as @data.npy"
        raise UsageError(f"--arg {shown(text)} is neither {expected}.")
    if declared.is_key and array.ndim == 0 and array.dtype.kind == "i":
        return jax.random.key(int(array))
    return array if declared.is_key else _fitting(text, array, declared)


def _fitting(text: str, array: np.ndarray[Any, Any], declared: Input) -> np.ndarray[Any, Any]:
    """Return an array in its input's dtype, if that holds its values."""
    if declared.is_key:
        key = f"{declared.name} is a PRNG key; give its type, key[]."
        raise UsageError(f"--arg {shown(text)}: {key}")
    with np.errstate(all="ignore"), warnings.catch_warnings(action="ignore"):
        cast = array.astype(declared.dtype)
    boolean = (array.dtype.kind == "b") == (declared.dtype.kind == "b")
    if not boolean or not np.array_equal(cast.astype(array.dtype), array, equal_nan=True):
        raise UsageError(f"--arg {shown(text)}: a {declared.dtype} cannot hold this value.")
    return cast


def sizes_of(declared: Input) -> str:
    """Write the sizes of an input, with ``?`` for those that are unknown."""
    return sizes_text(["?" if n is None else n for n in declared.shape])


def _with_sizes(value: str, declared: Input) -> str:
    """Return a suggestion for a type that lacks nothing but sizes, as ``f64`` does."""
    if not is_type(f"{value}[]"):
        return ""
    numbers = " Give a number for each ?." if None in declared.shape else ""
    return f" Did you mean {value}[{sizes_of(declared)}]?{numbers}"


def _array(text: str) -> np.ndarray[Any, Any] | None:
    for parse in (json.loads, ast.literal_eval):
        try:
            array = np.asarray(parse(text))
        except (ValueError, SyntaxError, TypeError, RecursionError, MemoryError):
            continue  # Python's parser is out of memory if brackets are nested deep.
        if array.dtype.kind in _NUMBERS:
            return array
    return None
