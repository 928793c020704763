"""Sizes of axes that may be symbolic: comparing them, and what a program takes for granted.

Where sizes are symbolic, two of them may be equal in every call that makes sense, as those of
operands of a sum, without being so for all sizes. The program then takes it for granted, and
asserts it: a call of the exported program fails where it does not hold. Where the program itself
would differ, a comparison raises `jaxprgen._jax.InconclusiveSizeError`, of which the driver makes
an error.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from jaxprgen import _jax
from jaxprgen._jax import Size, Var, is_symbolic
from jaxprgen.errors import JaxprGenError, ShapeMismatchError
from jaxprgen.ir import Atom, Builder, current_builder, outermost_builder, primitives as lax

if TYPE_CHECKING:  # Values are made of sizes.
    from jaxprgen.emit.values import Value

Fails = str | JaxprGenError | Callable[[], JaxprGenError]
"""The error of sizes that do not fit: a text is that of a ShapeMismatchError."""


def _error(fails: Fails) -> JaxprGenError:
    if isinstance(fails, str):
        return ShapeMismatchError(fails)
    return fails if isinstance(fails, JaxprGenError) else fails()


def as_size(x: Any) -> Size:
    """Return an integer scalar as a Python integer, and a symbolic size as it is."""
    x = x.item() if isinstance(x, (np.ndarray, np.generic)) else x
    return x if is_symbolic(x) else int(x)


def is_known(sizes: Iterable[Size]) -> bool:
    """Return whether sizes are integers."""
    return not any(map(is_symbolic, sizes))


def is_at_most(sizes: Sequence[Size], most: int) -> bool:
    """Return whether the product of sizes is known to be at most a number."""
    try:
        return bool(math.prod(sizes) <= most)
    except _jax.InconclusiveSizeError:
        return False


def require_equal(m: Size, n: Size, fails: Fails) -> None:
    """Raise unless two sizes are equal; assert it if that depends on symbolic ones."""
    if m == n:
        return
    if not is_symbolic(m - n):
        raise _error(fails)
    _assert(m, "==", n, lax.eq, fails)


def require_at_least(n: Size, least: Size, fails: Fails) -> None:
    """Raise unless a size is at least a number; assert it if that depends on symbolic sizes."""
    try:
        holds = bool(n >= least)
    except _jax.InconclusiveSizeError:
        _assert(n, ">=", least, lax.ge, fails)
        return
    if not holds:
        raise _error(fails)


def _assert(m: Size, relation: str, n: Size, compare: Callable[..., Var], fails: Fails) -> None:
    """Assert a relation of sizes once for the whole program, outside of its loops."""
    b = outermost_builder()
    condition = f"{m} {relation} {n}"

    def append() -> bool:
        line = _jax.frame_of(b.source_info)
        where = f" It is {line.built}" if line else ""
        why = f"{_error(fails)}{where}".replace("{", "(").replace("}", ")")  # Braces hold numbers.
        message = f"{_NEEDS}{condition}, but {m} is {{0}} and {n} is {{1}}. {why}"
        difference = lax.dim_as_value(b, m - n)
        holds = compare(b, difference, b.literal(np.zeros((), difference.aval.dtype)))
        lax.shape_assertion(b, holds, [size_atom(b, m), size_atom(b, n)], message)
        return True

    b.memoized(("sizes", condition), append)


def asserted(message: str) -> str | None:
    """Return the condition that an assertion with this message is about, such as ``n >= 3``."""
    found = _ASSERTED.match(message)
    return found and found[1]


_NEEDS = "The sizes do not fit the exported program, which needs "
_ASSERTED = re.compile(f"{_NEEDS}(.*?), but ")


def size_atom(b: Builder, n: Size) -> Atom:
    """Return a size as an integer of the program."""
    dtype = _jax.canonicalize_dtype(np.dtype(np.int64))
    if not is_symbolic(n):
        return b.literal(np.asarray(n, dtype))
    return lax.convert_element_type(b, lax.dim_as_value(b, n), dtype)


def pad_end(b: Builder, x: Atom, axis: int, size: Size) -> Var:
    """Add zeros at the end of an axis, or drop elements there, for it to have this size."""
    shape = x.aval.shape
    more = [(0, size - n if d == axis else 0, 0) for d, n in enumerate(shape)]
    return lax.pad(b, x, b.literal(np.zeros((), x.aval.dtype)), more)


def conform(x: Value, shape: tuple[Size, ...]) -> Value:
    """Return a value that broadcasts to a shape, if symbolic sizes are what they have to be."""
    if x.ndim > len(shape) or is_known((*x.shape, *shape)):
        return x
    for axis, size in enumerate(shape[len(shape) - x.ndim :]):
        x = x if x.shape[axis] == 1 else with_size(x, axis, size)
    return x


def with_size(x: Value, axis: int, size: Size, fails: Fails | None = None) -> Value:
    """Return the same value with an axis whose symbolic size is, or has to be, this one."""
    own, source = x.shape, x.source
    if own[axis] == size:
        return x
    require_equal(
        own[axis], size, fails or f"Axis {axis} of shape {own} does not have size {size}."
    )
    if shape_of(source)[axis : axis + 1] not in ((), (1,)):
        source = pad_end(current_builder(), type(x)(source).atom(), axis, size)
    return type(x)(source, (*own[:axis], size, *own[axis + 1 :]))


def with_shape(x: Value, shape: Sequence[Size], fails: Fails) -> Value:
    """Return the same value with the sizes that it has, or has to have."""
    if x.ndim != len(shape):
        raise _error(fails)
    for axis, size in enumerate(shape):
        x = with_size(x, axis, size, fails)
    return x


def at_least_one(steps: Size) -> Size:
    """Return a number of steps of which JAX knows that it is not zero, as rows of a loop demand."""
    if not is_symbolic(steps):
        return steps
    require_at_least(steps, 1, f"A loop of {steps} steps has to take at least one.")
    return _jax.max_size(steps, 1)


def shape_of(source: Var | np.ndarray[Any, Any]) -> tuple[Size, ...]:
    """Return the shape of what a value is made of."""
    return source.aval.shape if type(source) is Var else source.shape  # type: ignore[union-attr]
