"""Values that are known before a program runs, where they are the same whatever computes them.

That is so of structure, comparisons, integers and random bits; and, in single and double
precision, of what IEEE 754 has round correctly (sums, differences, products, quotients, square
roots) and of conversions. It is not of the rest: a compiler gives a constant's tanh other bits than
it computes for the same argument, in 9 of 11 cases tried (XLA 0.10 on a CPU). Nor of two bytes,
which compilers may compute in four.

NumPy computes what it has, as that takes no compiling, and JAX the rest.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import jax
import numpy as np

from jaxprgen import _jax
from jaxprgen._jax import JaxprEqn, Var
from jaxprgen.ir.inner import HOLDERS, Inner, holder_of

Array: TypeAlias = np.ndarray[Any, Any]

LAZY = {"broadcast_in_dim", "iota", "random_seed", "random_wrap", "random_fold_in", "random_split"}
"""Repetition and keys: these are evaluated where something else is that needs them."""


def _broadcast_in_dim(params: dict[str, Any], x: Array) -> Array:
    shape = [1] * len(params["shape"])
    for axis, n in zip(params["broadcast_dimensions"], x.shape, strict=True):
        shape[axis] = n
    return np.broadcast_to(x.reshape(shape), params["shape"])


def _iota(params: dict[str, Any]) -> Array:
    axis, shape = params["dimension"], params["shape"]
    column = [n if i == axis else 1 for i, n in enumerate(shape)]
    return np.broadcast_to(np.arange(shape[axis], dtype=params["dtype"]).reshape(column), shape)


def _reshape(params: dict[str, Any], x: Array) -> Array:
    order = params["dimensions"]
    return (x if order is None else np.transpose(x, order)).reshape(params["new_sizes"])


def _slice(params: dict[str, Any], x: Array) -> Array:
    starts, ends = params["start_indices"], params["limit_indices"]
    strides = params["strides"] or [1] * x.ndim
    return x[tuple(map(slice, starts, ends, strides))]


_STRUCTURE: dict[str, Callable[..., Array]] = {
    "broadcast_in_dim": _broadcast_in_dim,
    "iota": _iota,
    "reshape": _reshape,
    "squeeze": lambda params, x: np.squeeze(x, params["dimensions"]),
    "transpose": lambda params, x: np.transpose(x, params["permutation"]),
    "rev": lambda params, x: np.flip(x, params["dimensions"]),
    "slice": _slice,
    "concatenate": lambda params, *xs: np.concatenate(xs, params["dimension"]),
    "copy": lambda params, x: x,
}

_BY_JAX = {
    *("real", "imag", "complex", "conj", "bitcast_convert_type", "select_n"),
    *("expand_dims", "pad", "dynamic_slice", "dynamic_update_slice", "gather", "split"),
    *("random_bits", "random_fold_in", "random_seed", "random_split", "random_unwrap"),
    *("random_wrap", "threefry2x32", "population_count", "clz"),
    *("reduce_and", "reduce_or", "reduce_xor"),
}
_INTEGERS_BY_JAX = {
    *("div", "integer_pow", "clamp", "dot_general", "argmax", "argmin", "sort"),
    *("shift_left", "shift_right_logical", "shift_right_arithmetic"),
    *("reduce_sum", "reduce_prod", "reduce_max", "reduce_min"),
    *("cumsum", "cumprod", "cummax", "cummin"),
}

_NUMBERS: dict[str, Callable[..., Array]] = {
    "eq": np.equal,
    "ne": np.not_equal,
    "lt": np.less,
    "le": np.less_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
    "is_finite": np.isfinite,
    "add": np.add,
    "add_any": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "neg": np.negative,
    "abs": np.absolute,
    "rem": np.fmod,
}
INTEGERS: dict[str, Callable[..., Array]] = _NUMBERS | {
    "max": np.maximum,
    "min": np.minimum,
    "sign": np.sign,
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
    "not": np.invert,
}
REALS: dict[str, Callable[..., Array]] = _NUMBERS | {
    "div": np.divide,
    "sqrt": np.sqrt,
    "floor": np.floor,
    "ceil": np.ceil,
}

_EVALUATED = {
    *("cond", "convert_element_type"),
    *(name for name, holder in HOLDERS.items() if holder.kind == "call"),
    *(*_STRUCTURE, *_BY_JAX, *_INTEGERS_BY_JAX, *INTEGERS, *REALS),
}


class Values:
    """The values that are known in a program.

    Parameters
    ----------
    limit
        The most bytes of an equation's results.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._known: dict[Any, Any] = {}
        self._later: dict[Any, JaxprEqn] = {}

    def add(self, variables: Sequence[Any], values: Sequence[Any]) -> None:
        """Say what variables are, as far as it is at hand and no tracer of a transformation."""
        for v, x in zip(variables, values, strict=True):
            if _jax.is_readable(x) or isinstance(x, _jax.PRNGKeyArray):
                self._known[v] = x

    def knows(self, atoms: Sequence[Any]) -> bool:
        """Whether the values of all these atoms are known."""
        known, later = self._known, self._later
        return all(type(x) is not Var or x in known or x in later for x in atoms)

    def of(self, x: Any) -> Any:
        """The value of an atom that is known: an array of NumPy's or of JAX's, or keys."""
        if type(x) is not Var:
            return np.asarray(x.val, x.aval.dtype)
        if x not in self._known:
            eqn = self._later[x]
            found = _results(eqn, [*map(self.of, eqn.invars)], self._limit)
            assert found is not None
            (self._known[x],) = found
        return self._known[x]

    def evaluate(self, eqn: JaxprEqn) -> bool:
        """Whether an equation's results are known by now, other than keys and repetition."""
        if not self.knows(eqn.invars) or eqn.effects:
            return False
        if sum(_jax.nbytes(v.aval) for v in eqn.outvars) > self._limit:
            return False
        if eqn.primitive.name in LAZY:
            self._later.update(dict.fromkeys(eqn.outvars, eqn))
            return False
        if not _jax.primitives_of(eqn) <= _EVALUATED:
            return False
        operands = [*map(self.of, eqn.invars)]
        if not all(map(_is_ordinary, operands)):
            return False
        found = _results(eqn, operands, self._limit)
        if found is None or not all(map(_is_ordinary, found)):
            return False
        self._known.update(zip(eqn.outvars, found, strict=True))
        return True


def _results(eqn: JaxprEqn, operands: Sequence[Any], limit: int) -> list[Any] | None:
    """The results of an equation on values, if they are the same whatever computes them."""
    name, holder = eqn.primitive.name, holder_of(eqn)
    if holder is not None:
        return _of_program(holder.find(eqn), operands, limit)
    types: list[Any] = [v.aval for v in eqn.outvars]
    has_keys = any(map(_jax.is_key, [*operands, *types]))
    if name in _STRUCTURE and not has_keys:
        return [_STRUCTURE[name](eqn.params, *map(np.asarray, operands))]
    if name in _BY_JAX or has_keys:
        return _jax.eval_eqn(eqn, operands)
    dtypes = [np.dtype(x.dtype) for x in [*operands, *types]]
    discrete = all(d.kind in "biu" for d in dtypes)
    if not all(d.kind in "biu" or d.name in ("float32", "float64") for d in dtypes):
        return None
    if name in ("div", "rem") and discrete and not np.all(operands[1]):
        return None
    if name == "convert_element_type":
        return _converted(np.asarray(operands[0]), eqn.params["new_dtype"])
    if discrete and name in _INTEGERS_BY_JAX:
        return _jax.eval_eqn(eqn, operands)
    function = (INTEGERS if discrete else REALS).get(name)
    if function is None:
        return None
    with np.errstate(all="ignore"):
        return [np.asarray(function(*map(np.asarray, operands)))]


def _converted(x: Array, dtype: np.dtype[Any]) -> list[Array] | None:
    """Numbers in another dtype, if that can hold them."""
    with np.errstate(all="ignore"):
        found = x.astype(dtype)
        is_held = x.dtype.kind != "f" or dtype.kind not in "iu"
        return [found] if is_held or np.array_equal(found.astype(x.dtype), np.trunc(x)) else None


def _of_program(programs: Sequence[Inner], operands: Sequence[Any], limit: int) -> list[Any] | None:
    """What a program gives of these values, if all of its equations can be evaluated."""
    which = 0 if len(programs) == 1 else np.clip(np.asarray(operands[0]), 0, len(programs) - 1)
    taken = programs[int(which)]
    closed, operands = _jax.close(taken.program), [operands[i] for i in taken.operands]
    jaxpr = closed.jaxpr
    values = Values(limit)
    values.add([*jaxpr.constvars, *jaxpr.invars], [*closed.consts, *operands])
    for inner in jaxpr.eqns:
        if not values.evaluate(inner) and inner.primitive.name not in LAZY:
            return None
    return [*map(values.of, jaxpr.outvars)] if values.knows(jaxpr.outvars) else None


def _is_ordinary(x: Any) -> bool:
    """Whether no number is NaN, infinite or subnormal."""
    if _jax.is_key(x) or not jax.numpy.issubdtype(x.dtype, np.inexact):
        return True
    value: Any = np.asarray(x)
    parts = (value.real, value.imag) if value.dtype.kind == "c" else (value,)
    tiny = jax.numpy.finfo(value.dtype).tiny
    return all(np.all(np.isfinite(p) & ((abs(p) >= tiny) | (p == 0))) for p in parts)
