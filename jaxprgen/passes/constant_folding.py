"""Constant folding: evaluate equations whose operands are known at compile time.

NumPy computes what it can, because that needs no compilation. JAX computes the rest.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import jax
import numpy as np

from jaxprgen import _jax
from jaxprgen._jax import ClosedJaxpr, JaxprEqn, Literal, Var
from jaxprgen.ir import Atom
from jaxprgen.ir.inner import HOLDERS, Inner, holder_of
from jaxprgen.ir.rewriting import each_program, with_equations
from jaxprgen.passes.meaning import Meaning

Array: TypeAlias = np.ndarray[Any, Any]

_DEFERRED = {
    *("broadcast_in_dim", "iota"),
    *("random_seed", "random_wrap", "random_fold_in", "random_split"),
}
"""Repetition and keys, which are evaluated only if an equation that reads them is."""


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


STRUCTURE: dict[str, Callable[..., Array]] = {
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

_FOLDABLE = {
    *("cond", "convert_element_type"),
    *(name for name, holder in HOLDERS.items() if holder.kind == "call"),
    *(*STRUCTURE, *_BY_JAX, *_INTEGERS_BY_JAX, *INTEGERS, *REALS),
}


@dataclass(frozen=True)
class FoldConstants:
    """Replace equations whose operands are known by their results.

    A result is folded only if every compiler computes the same bits: results of structural
    primitives, comparisons, integer arithmetic and random bits. In single and double precision,
    operations that IEEE 754 rounds correctly (sums, differences, products, quotients, square roots)
    and conversions are folded too. Other functions stay, because a compiler may round a constant
    and an argument differently: XLA 0.10 on a CPU does so for ``tanh`` of 9 of 11 values. Numbers
    of two bytes stay, because compilers may compute with four.

    Equations stay if their operands or results contain subnormal numbers, which some processors
    flush to zero, NaN or infinities, which ``jax_debug_nans`` looks for, and integer divisions by
    zero. Loops and equations with effects stay. Calls, and branches with a known index, are folded
    if every equation inside them can be.

    A folded scalar becomes a literal. A folded array becomes a constant of the program; inside
    equations, arrays are not folded. Repetition (``broadcast_in_dim``, ``iota``) and keys stay as
    equations, but results that follow from them are folded.

    Attributes
    ----------
    limit : int
        The largest size in bytes of a folded result.
    """

    limit: int = 2**10

    meaning = Meaning.SAME_BITS

    def __call__(self, closed: ClosedJaxpr) -> ClosedJaxpr:
        """Return the program with constants folded, or the given one if there are none to fold.

        Parameters
        ----------
        closed : ClosedJaxpr
            The program. It is not changed.
        """
        inside = each_program(closed, lambda program: self._folded(program, arrays=False))
        return self._folded(inside, arrays=True)

    def _folded(self, program: ClosedJaxpr, *, arrays: bool) -> ClosedJaxpr:
        jaxpr = program.jaxpr
        values = Constants(self.limit)
        values.add(jaxpr.constvars, program.consts)
        atoms: dict[Any, Atom] = {}
        equations: list[JaxprEqn] = []
        for eqn in jaxpr.eqns:
            if values.evaluate(eqn):
                read = (v for v in eqn.outvars if type(v) is Var)
                found = ((v, _atom(v, values.value(v), arrays)) for v in read)
                atoms.update((v, x) for v, x in found if x is not None)
            if atoms and any(type(x) is Var and x in atoms for x in eqn.invars):
                invars = [atoms.get(x, x) if type(x) is Var else x for x in eqn.invars]
                eqn = eqn.replace(invars=invars)
            equations.append(eqn)
        if not atoms:
            return program
        more = {x: np.asarray(values.value(v)) for v, x in atoms.items() if type(x) is Var}
        outputs = [atoms.get(x, x) if type(x) is Var else x for x in jaxpr.outvars]
        return with_equations(program, equations, outputs, more)


def _atom(v: Any, value: Any, arrays: bool) -> Atom | None:
    """Return a literal or a constant for a known value, or None if its type would change."""
    aval = v.aval
    if _jax.is_key(aval) or (aval.shape and not arrays):
        return None
    known = np.asarray(value)
    if aval.shape:
        return Var(aval) if _jax.type_of(known) == aval else None
    scalar = known.item() if aval.weak_type else known[()]
    return Literal(scalar, aval) if _jax.type_of(scalar) == aval else None


class Constants:
    """The values of a program's variables that are known at compile time.

    Parameters
    ----------
    limit : int
        The largest size in bytes of an equation's results.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._known: dict[Any, Any] = {}
        self._later: dict[Any, JaxprEqn] = {}

    def add(self, variables: Sequence[Any], values: Sequence[Any]) -> None:
        """Add values of variables; those that cannot be read, such as tracers, are ignored."""
        for v, x in zip(variables, values, strict=True):
            if _jax.is_readable(x) or isinstance(x, _jax.PRNGKeyArray):
                self._known[v] = x

    def are_known(self, atoms: Sequence[Any]) -> bool:
        """Return whether the values of all these atoms are known."""
        known, later = self._known, self._later
        return all(type(x) is not Var or x in known or x in later for x in atoms)

    def value(self, x: Any) -> Any:
        """Return the value of a known atom: a NumPy or JAX array, or keys."""
        if type(x) is not Var:
            return np.asarray(x.val, x.aval.dtype)
        if x not in self._known:
            eqn = self._later[x]
            found = _results(eqn, [*map(self.value, eqn.invars)], self._limit)
            assert found is not None
            (self._known[x],) = found
        return self._known[x]

    def evaluate(self, eqn: JaxprEqn) -> bool:
        """Evaluate an equation if possible, and return whether its results may replace it.

        Keys and repetition are noted, but do not replace their equations.
        """
        if not self.are_known(eqn.invars) or eqn.effects:
            return False
        if sum(_jax.nbytes(v.aval) for v in eqn.outvars) > self._limit:
            return False
        if eqn.primitive.name in _DEFERRED:
            self._later.update(dict.fromkeys(eqn.outvars, eqn))
            return False
        if not _jax.primitives_of(eqn) <= _FOLDABLE:
            return False
        operands = [*map(self.value, eqn.invars)]
        if not all(map(_is_normal, operands)):
            return False
        found = _results(eqn, operands, self._limit)
        if found is None or not all(map(_is_normal, found)):
            return False
        self._known.update(zip(eqn.outvars, found, strict=True))
        return True


def _results(eqn: JaxprEqn, operands: Sequence[Any], limit: int) -> list[Any] | None:
    """Return an equation's results, or None if they might depend on the compiler."""
    name, holder = eqn.primitive.name, holder_of(eqn)
    if holder is not None:
        return _results_of_program(holder.find(eqn), operands, limit)
    types: list[Any] = [v.aval for v in eqn.outvars]
    has_keys = any(map(_jax.is_key, [*operands, *types]))
    if name in STRUCTURE and not has_keys:
        return [STRUCTURE[name](eqn.params, *map(np.asarray, operands))]
    if name in _BY_JAX or has_keys:
        return _jax.eval_eqn(eqn, operands)
    dtypes = [np.dtype(x.dtype) for x in [*operands, *types]]
    discrete = all(d.kind in "biu" for d in dtypes)
    if not all(d.kind in "biu" or d.name in ("float32", "float64") for d in dtypes):
        return None
    if name in ("div", "rem") and discrete and not np.all(np.asarray(operands[1])):
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
    """Convert numbers to another dtype, or return None if they are out of its range."""
    with np.errstate(all="ignore"):
        found = x.astype(dtype)
        is_held = x.dtype.kind != "f" or dtype.kind not in "iu"
        return [found] if is_held or np.array_equal(found.astype(x.dtype), np.trunc(x)) else None


def _results_of_program(
    programs: Sequence[Inner], operands: Sequence[Any], limit: int
) -> list[Any] | None:
    """Return a program's results, or None if one of its equations cannot be evaluated."""
    which = 0 if len(programs) == 1 else np.clip(np.asarray(operands[0]), 0, len(programs) - 1)
    taken = programs[int(which)]
    closed, operands = _jax.close(taken.program), [operands[i] for i in taken.operands]
    jaxpr = closed.jaxpr
    values = Constants(limit)
    values.add([*jaxpr.constvars, *jaxpr.invars], [*closed.consts, *operands])
    for inner in jaxpr.eqns:
        if not values.evaluate(inner) and inner.primitive.name not in _DEFERRED:
            return None
    return [*map(values.value, jaxpr.outvars)] if values.are_known(jaxpr.outvars) else None


def _is_normal(x: Any) -> bool:
    """Return whether no number is NaN, infinite or subnormal."""
    if _jax.is_key(x) or not jax.numpy.issubdtype(x.dtype, np.inexact):
        return True
    value: Any = np.asarray(x)
    parts = (value.real, value.imag) if value.dtype.kind == "c" else (value,)
    tiny = jax.numpy.finfo(value.dtype).tiny
    return all(np.all(np.isfinite(p) & ((abs(p) >= tiny) | (p == 0))) for p in parts)
