"""Check arguments against the declared types of inputs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import numpy as np

from jaxprgen._jax import (
    NARROW,
    ArrayImpl,
    PRNGKeyArray,
    Tracer,
    canonicalize_dtype,
    default_prng_impl,
    is_key,
    wrapped,
    x64_enabled,
)
from jaxprgen.arguments import refusals
from jaxprgen.arguments.inputs import KEY, Input
from jaxprgen.errors import ArgumentCountError, ArgumentShapeError, ArgumentTypeError

# In this order, because an instance check of jax.Array runs Python code.
_ARRAYS = (np.ndarray, np.generic, jax.ShapeDtypeStruct, jax.Array, Tracer)
# While x64 is off, JAX drops the upper half of these.
_FITTING = {"b": bool, "i": int, "u": int, "f": (int, float), "c": object}
_WRAPPED = frozenset(dtype for dtype in NARROW if dtype.kind in "iu")


def in_order(
    function: object,
    names: Sequence[str],
    args: Sequence[Any],
    named: Mapping[str, Any],
    defaults: Mapping[str, Any] | None = None,
    hint: Callable[[], str] = lambda: "",
) -> Sequence[Any]:
    """Return the arguments of a call in the order of the inputs.

    Parameters
    ----------
    function
        The function, whose text error messages show.
    names
        The names of its inputs.
    args, named
        The arguments by position and by name.
    defaults
        Values of inputs that the call need not give, by name.
    hint
        Returns what the error of a wrong number of arguments says in the end.

    Raises
    ------
    ArgumentCountError
        An input has no value or two, there are more values than inputs, or a name is not that of an
        input.
    """
    if len(args) > len(names) or not (named or defaults):
        if len(args) != len(names):
            raise wrong_count(str(function), len(names), len(args), hint())
        return args
    by_position = dict(zip(names, args, strict=False))
    given = {**(defaults or {}), **by_position, **named}
    for name in [*named, *names]:
        if name not in names:
            trouble = f"has no input named {name!r}"
        elif name in named and name in by_position:
            trouble = f"got two values for input {name!r}"
        elif name not in given:
            trouble = f"got no value for input {name!r}"
        else:
            continue
        raise ArgumentCountError(f"{function} {trouble}.")
    return [given[name] for name in names]


def wrong_count(function: str, wanted: int, given: int, hint: str = "") -> ArgumentCountError:
    """Return the error of a call with another number of arguments than are wanted."""
    return ArgumentCountError(
        f"{function} takes {wanted} argument{'' if wanted == 1 else 's'}, but {given} "
        f"{'was' if given == 1 else 'were'} given.{hint}"
    )


def accept(x: Any, declared: Input) -> Any:
    """Return an argument as JAX takes it, if it fits its input's type.

    A dtype fits if the input's dtype holds all its values, as in Aesara. A Python scalar fits if
    the input's dtype holds it; a ``float`` fits any float dtype and is rounded.

    Raises
    ------
    ArgumentTypeError, ArgumentShapeError
        The argument does not fit.
    """
    if declared.dtype is KEY:
        return _accept_key(x)
    if type(x) is not np.ndarray or x.dtype != declared.dtype:
        x = _as_array(x, declared)
    if declared.dtype in _WRAPPED and not x64_enabled():
        _require_range(x, declared)
    shape = x.shape
    if len(shape) != len(declared.shape):
        raise ArgumentShapeError(
            f"Input {declared.name!r} has {_count(len(declared.shape), 'dimension')}, but the "
            f"argument has {len(shape)}: its shape is {tuple(shape)}."
        )
    for axis, wanted in enumerate(declared.shape):
        if wanted is not None and shape[axis] != wanted:
            raise ArgumentShapeError(
                f"Input {declared.name!r} is declared with size {wanted} along axis {axis}, but "
                f"the argument's shape is {tuple(shape)}."
            )
    return x


def accept_each(args: Sequence[Any], inputs: Sequence[Input]) -> list[Any]:
    """Return arguments as JAX takes them, if each fits its input's type; see `accept`."""
    return [accept(x, declared) for x, declared in zip(args, inputs, strict=True)]


def _as_array(x: Any, declared: Input) -> Any:
    """Return an argument as an array whose values its input's dtype can hold."""
    if isinstance(x, (bool, int, float, complex)) and not isinstance(x, np.generic):
        return _python_scalar(x, declared)
    if not isinstance(x, _ARRAYS):
        raise refusals.not_an_array(x, declared)
    if isinstance(x, np.ma.MaskedArray):
        raise ArgumentTypeError(
            f"Input {declared.name!r} got a masked array, whose mask would be lost. "
            "Fill it with .filled()."
        )
    return x if x.dtype == declared.dtype else _converted(x, declared)


def are_arrays(args: Sequence[Any], dtypes: Sequence[Any]) -> bool:
    """Return whether JAX can take all arguments as they are.

    It can take its own arrays, and NumPy's of their inputs' dtypes unless it would wrap integers.
    Whether they fit their inputs is then a question of their types alone.
    """
    if len(args) != len(dtypes):
        return False
    for x, dtype in zip(args, dtypes, strict=True):
        kind = type(x)
        if kind is not ArrayImpl and kind is not PRNGKeyArray:
            is_array = kind is np.ndarray or isinstance(x, np.generic)
            if not is_array or x.dtype != dtype or (dtype in _WRAPPED and not x64_enabled()):
                return False
    return True


def are_concrete(args: Sequence[Any]) -> bool:
    """Return whether no argument is a tracer."""
    for x in args:  # noqa: SIM110 - A generator would take as long as the rest.
        if type(x) is not ArrayImpl and isinstance(x, Tracer):  # The latter runs Python code.
            return False
    return True


def _accept_key(x: Any) -> Any:
    """Return a key, typed or made of unsigned integers, as JAX takes it."""
    dtype = getattr(x, "dtype", None)
    shape = getattr(x, "shape", None)
    if isinstance(x, _ARRAYS):
        if is_key(x) and shape == ():
            return x
        if dtype == np.uint32 and shape == default_prng_impl().key_shape:
            return x
    kind = f"{x.dtype}{list(x.shape)}" if isinstance(x, _ARRAYS) else refusals.a(type(x).__name__)
    raise ArgumentTypeError(
        f"This function draws random numbers, and takes one PRNG key first; it got {kind}.\n"
        "Make a key with jax.random.key(seed); for several at once, jax.vmap over them."
    )


def _converted(x: Any, declared: Input) -> Any:
    """Return an array of another dtype than its input's, which the program converts."""
    dtype = declared.dtype
    if jax.numpy.issubdtype(x.dtype, jax.dtypes.extended):
        raise ArgumentTypeError(
            f"Input {declared.name!r} has dtype {dtype}; the argument is of JAX's {x.dtype}, as "
            "typed PRNG keys are, and holds no numbers. Pass jax.random.key_data of it if its bits "
            "are meant."
        )
    if not np.can_cast(x.dtype, dtype, "safe") and not _is_weak(x, dtype):
        raise refusals.wrong_dtype(x, declared)
    if not isinstance(x, (np.ndarray, np.generic)):
        return x
    # JAX takes native bytes only; while x64 is off, it wraps integers before they are converted.
    wraps = not x64_enabled() and not _WRAPPED.isdisjoint((x.dtype, dtype))
    return x.astype(dtype) if wraps or not x.dtype.isnative else x


def _is_weak(x: Any, dtype: np.dtype[Any]) -> bool:
    """Return whether an argument is a weakly typed scalar of a kind that the dtype holds."""
    kinds = "biufc"
    weak = getattr(x, "weak_type", False)
    return weak and kinds.index(x.dtype.kind) <= kinds.index(dtype.kind)


def _python_scalar(x: Any, declared: Input) -> Any:
    dtype = declared.dtype
    fits = isinstance(x, _FITTING[dtype.kind])
    if fits and dtype.kind in "iu":
        info = np.iinfo(dtype)
        fits = info.min <= x <= info.max
    try:
        if fits:
            return np.asarray(x, dtype)
    except OverflowError:  # An integer larger than all floats.
        pass
    raise refusals.out_of_range(x, declared, dtype)


def _require_range(x: Any, declared: Input) -> None:
    """Refuse integers that JAX would wrap to 32 bits because x64 is off.

    NumPy's arrays are judged by their values; all else, which is kept in the cache by its type
    alone, is judged by its type.
    """
    narrow = canonicalize_dtype(declared.dtype)
    if not isinstance(x, (np.ndarray, np.generic)):
        if not np.can_cast(canonicalize_dtype(x.dtype), narrow, "safe"):
            raise refusals.out_of_range(f"all values of {x.dtype}", declared, narrow)
        return
    lost = wrapped(x, narrow)
    if lost is not None:
        raise refusals.out_of_range(lost, declared, narrow)


def _count(n: int, noun: str) -> str:
    return f"{n} {noun}" + ("" if n == 1 else "s")
