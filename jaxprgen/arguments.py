"""Arguments against the declared types of inputs."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np

from jaxprgen._jax import Tracer, x64_enabled
from jaxprgen.errors import ArgumentShapeError, ArgumentTypeError
from jaxprgen.frontend.graph import Input

_ARRAYS = (jax.Array, np.ndarray, np.generic, Tracer, jax.ShapeDtypeStruct)


def accept(x: Any, declared: Input) -> Any:
    """An argument as JAX takes it, if it fits its input's type.

    A dtype fits if the input's holds all its values, as in Aesara; Python scalars fit if the
    input's dtype holds the value (a ``float`` fits any float dtype, rounded).

    Raises
    ------
    ArgumentTypeError, ArgumentShapeError
        It does not fit.
    """
    if isinstance(x, (bool, int, float, complex)) and not isinstance(x, np.generic):
        x = _python_scalar(x, declared)
    elif not isinstance(x, _ARRAYS):
        raise ArgumentTypeError(
            f"Input {declared.name!r} got {_a(type(x).__name__)}, not an array. "
            "Convert it with numpy.asarray."
        )
    elif x.dtype != declared.dtype and not (
        _holds(declared.dtype, x.dtype) or _is_weak(x, declared.dtype)
    ):
        raise ArgumentTypeError(
            f"Input {declared.name!r} has dtype {declared.dtype}, which cannot hold all values of "
            f"the argument's {x.dtype}. Convert it with .astype({str(declared.dtype)!r}) if the "
            "loss is meant."
        )
    shape = x.shape
    if len(shape) != len(declared.shape):
        raise ArgumentShapeError(
            f"Input {declared.name!r} has {_count(len(declared.shape), 'dimension')}, but the "
            f"argument has {len(shape)}: its shape is {tuple(shape)}."
        )
    for axis, (size, wanted) in enumerate(zip(shape, declared.shape, strict=True)):
        if wanted is not None and size != wanted:
            raise ArgumentShapeError(
                f"Input {declared.name!r} is declared with size {wanted} along axis {axis}, but "
                f"the argument's shape is {tuple(shape)}."
            )
    return x


def _holds(wide: np.dtype[Any], narrow: Any) -> bool:
    try:
        return np.can_cast(narrow, wide, "safe") or (
            # With x64 off JAX has no 64-bit numbers; what it has of that kind is as declared.
            not x64_enabled()
            and np.dtype(narrow).kind == wide.kind
            and wide.itemsize >= np.dtype(narrow).itemsize
        )
    except TypeError:  # An extended dtype, such as a PRNG key's.
        return False


def _is_weak(x: Any, dtype: np.dtype[Any]) -> bool:
    """Whether an argument is a Python scalar in JAX's hands, of a kind that the dtype holds."""
    kinds = "biufc"
    weak = getattr(x, "weak_type", False)
    return weak and kinds.index(x.dtype.kind) <= max(kinds.index(dtype.kind), kinds.index("i"))


def _python_scalar(x: Any, declared: Input) -> Any:
    dtype = declared.dtype
    fits = {
        "b": isinstance(x, bool),
        "i": isinstance(x, int),
        "u": isinstance(x, int),
        "f": isinstance(x, (int, float)),
        "c": True,
    }[dtype.kind]
    if fits and dtype.kind in "iu":
        info = np.iinfo(dtype)
        fits = info.min <= x <= info.max
    if not fits:
        raise ArgumentTypeError(
            f"Input {declared.name!r} has dtype {dtype}, which cannot hold {x!r}."
        )
    return np.asarray(x, dtype)


def _count(n: int, noun: str) -> str:
    return f"{n} {noun}" + ("" if n == 1 else "s")


def _a(noun: str) -> str:
    return ("an " if noun[0] in "aeiouAEIOU" else "a ") + noun
