"""Typed constructors: one function per JAX primitive, named as in `jax.lax`.

Each appends one equation to a `Builder` and returns its output. The frequent ones carry a
typing rule of their own, written against JAX's documented shape rules; for the others the
builder asks JAX (`Builder.bind` without ``aval``). Operands are atoms of *equal dtypes*: no
promotion happens here. Parameters that only choose JAX's defaults come from
`jaxprgen._jax.default_params`.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from jaxprgen import _jax
from jaxprgen._jax import ClosedJaxpr, ShapedArray, Var
from jaxprgen.errors import EquationError
from jaxprgen.ir.builder import Atom, Builder

Dtype = np.dtype[Any]
Shape = tuple[int, ...]

_BOOL, _INT32 = np.dtype(bool), np.dtype(np.int32)
_FLOAT, _INEXACT, _REAL, _NUMBER, _DISCRETE, _ANY = "f", "fc", "iuf", "iufc", "biu", "biufc"


def _type_of_elementwise(name: str, kinds: str, operands: Sequence[Atom]) -> ShapedArray:
    """The common type of operands whose sizes are equal, one, or left out (a scalar)."""
    result: ShapedArray = operands[0].aval  # type: ignore[assignment]
    if result.dtype.kind not in kinds:
        raise EquationError(f"{name} does not take {result.dtype}.")
    for operand in operands[1:]:
        aval: ShapedArray = operand.aval  # type: ignore[assignment]
        if aval.dtype != result.dtype:
            raise EquationError(f"{name} takes equal dtypes, not {result.dtype} and {aval.dtype}.")
        if aval.shape == result.shape or not aval.shape:
            continue
        if not result.shape:
            result = aval
            continue
        shape = tuple(m if n == 1 else n for m, n in zip(aval.shape, result.shape))  # noqa: B905
        if len(aval.shape) != len(result.shape) or any(
            n not in (1, m) for n, m in zip(aval.shape, shape, strict=True)
        ):
            raise EquationError(f"{name} does not take shapes {result.shape} and {aval.shape}.")
        result = _jax.array_type(shape, result.dtype)
    return result


def _are_axes(axes: Sequence[int], rank: int) -> bool:
    """Whether these are different axes of an array of that rank, none counted from the end."""
    return len(set(axes)) == len(axes) and all(0 <= d < rank for d in axes)


def _elementwise(name: str, kinds: str = _ANY) -> Callable[..., Var]:
    """A constructor for an n-ary primitive whose result has its operands' dtype."""
    primitive, params = _jax.primitive(name), _jax.default_params(name)

    def construct(b: Builder, *operands: Atom) -> Var:
        if not b.plain:
            return b.bind(primitive, operands, params)
        return b.bind(primitive, operands, params, _type_of_elementwise(name, kinds, operands))

    construct.__name__ = construct.__qualname__ = name
    construct.__doc__ = f"``{name}``, elementwise; sizes of one and scalars broadcast."
    return construct


def _predicate(name: str, kinds: str = _ANY) -> Callable[..., Var]:
    """A constructor for an n-ary primitive whose result is boolean."""
    primitive, params = _jax.primitive(name), _jax.default_params(name)

    def construct(b: Builder, *operands: Atom) -> Var:
        if not b.plain:
            return b.bind(primitive, operands, params)
        shape = _type_of_elementwise(name, kinds, operands).shape
        return b.bind(primitive, operands, params, _jax.array_type(shape, _BOOL))

    construct.__name__ = construct.__qualname__ = name
    construct.__doc__ = f"``{name}``, elementwise, to bool; sizes of one and scalars broadcast."
    return construct


neg = _elementwise("neg", _NUMBER)
sign = _elementwise("sign", _NUMBER)
floor = _elementwise("floor", _FLOAT)
ceil = _elementwise("ceil", _FLOAT)
exp = _elementwise("exp", _INEXACT)
exp2 = _elementwise("exp2", _INEXACT)
expm1 = _elementwise("expm1", _INEXACT)
log = _elementwise("log", _INEXACT)
log1p = _elementwise("log1p", _INEXACT)
sqrt = _elementwise("sqrt", _INEXACT)
rsqrt = _elementwise("rsqrt", _INEXACT)
cbrt = _elementwise("cbrt", _FLOAT)
logistic = _elementwise("logistic", _INEXACT)
square = _elementwise("square", _NUMBER)
sin = _elementwise("sin", _INEXACT)
cos = _elementwise("cos", _INEXACT)
tan = _elementwise("tan", _INEXACT)
asin = _elementwise("asin", _INEXACT)
acos = _elementwise("acos", _INEXACT)
atan = _elementwise("atan", _INEXACT)
sinh = _elementwise("sinh", _INEXACT)
cosh = _elementwise("cosh", _INEXACT)
tanh = _elementwise("tanh", _INEXACT)
asinh = _elementwise("asinh", _INEXACT)
acosh = _elementwise("acosh", _INEXACT)
atanh = _elementwise("atanh", _INEXACT)
erf = _elementwise("erf", _FLOAT)
erfc = _elementwise("erfc", _FLOAT)
erf_inv = _elementwise("erf_inv", _FLOAT)
lgamma = _elementwise("lgamma", _FLOAT)
digamma = _elementwise("digamma", _FLOAT)
bessel_i0e = _elementwise("bessel_i0e", _FLOAT)
bessel_i1e = _elementwise("bessel_i1e", _FLOAT)
bitwise_not = _elementwise("not", _DISCRETE)

add = _elementwise("add", _NUMBER)
sub = _elementwise("sub", _NUMBER)
mul = _elementwise("mul", _NUMBER)
div = _elementwise("div", _NUMBER)
rem = _elementwise("rem", _REAL)
max = _elementwise("max")
min = _elementwise("min")
pow = _elementwise("pow", _INEXACT)
atan2 = _elementwise("atan2", _INEXACT)
polygamma = _elementwise("polygamma", _FLOAT)
igamma = _elementwise("igamma", _FLOAT)
igammac = _elementwise("igammac", _FLOAT)
igamma_grad_a = _elementwise("igamma_grad_a", _FLOAT)
regularized_incomplete_beta = _elementwise("regularized_incomplete_beta", _FLOAT)
bitwise_and = _elementwise("and", _DISCRETE)
bitwise_or = _elementwise("or", _DISCRETE)
bitwise_xor = _elementwise("xor", _DISCRETE)
shift_right_logical = _elementwise("shift_right_logical", "iu")

eq = _predicate("eq")
ne = _predicate("ne")
lt = _predicate("lt", "biuf")
le = _predicate("le", "biuf")
gt = _predicate("gt", "biuf")
ge = _predicate("ge", "biuf")
is_finite = _predicate("is_finite", _FLOAT)


_REAL_PART = {
    np.dtype("complex64"): np.dtype("float32"),
    np.dtype("complex128"): np.dtype("float64"),
}


def _real_valued(name: str, kinds: str) -> Callable[[Builder, Atom], Var]:
    """A constructor for a unary primitive that takes complex numbers to reals."""
    primitive, params = _jax.primitive(name), _jax.default_params(name)

    def construct(b: Builder, x: Atom) -> Var:
        dtype = x.aval.dtype
        if dtype.kind not in kinds:
            raise EquationError(f"{name} does not take {dtype}.")
        aval = _jax.array_type(x.aval.shape, _REAL_PART.get(dtype, dtype))
        return b.bind(primitive, (x,), params, aval)

    construct.__name__ = construct.__qualname__ = name
    return construct


abs = _real_valued("abs", "ifc")
real = _real_valued("real", "c")
imag = _real_valued("imag", "c")


def conj(b: Builder, x: Atom) -> Var:
    """The complex conjugate of a complex array."""
    if x.aval.dtype.kind != "c":
        raise EquationError(f"conj does not take {x.aval.dtype}.")
    return b.bind(_jax.primitive("conj"), (x,), {"input_dtype": x.aval.dtype}, x.aval)


def complex(b: Builder, x: Atom, y: Atom) -> Var:
    """``x + iy`` of two float arrays of one shape."""
    return b.bind(_jax.primitive("complex"), (x, y), {})


def integer_pow(b: Builder, x: Atom, y: int) -> Var:
    """``x`` to a power known while emitting; for integers ``y >= 0``."""
    if x.aval.dtype.kind not in _NUMBER or (y < 0 and x.aval.dtype.kind not in _INEXACT):
        raise EquationError(f"integer_pow does not take {x.aval.dtype} to the power of {y}.")
    return b.bind(_jax.primitive("integer_pow"), (x,), {"y": y}, x.aval)


def round(b: Builder, x: Atom, *, half_to_even: bool) -> Var:
    """The nearest integral float; halves go to even, or away from zero."""
    from jax.lax import RoundingMethod

    method = RoundingMethod.TO_NEAREST_EVEN if half_to_even else RoundingMethod.AWAY_FROM_ZERO
    return b.bind(_jax.primitive("round"), (x,), {"rounding_method": method})


def select_n(b: Builder, which: Atom, *cases: Atom) -> Var:
    """``cases[which]``, elementwise: for a boolean ``which``, (where false, where true).

    The cases have one shape and one dtype; ``which`` has that shape, or is a scalar, and is
    boolean or int32.
    """
    first = cases[0].aval
    if any(c.aval.shape != first.shape or c.aval.dtype != first.dtype for c in cases):
        raise EquationError(f"select_n takes cases of one type, not {[c.aval for c in cases]}.")
    if (
        which.aval.shape not in ((), first.shape)
        or which.aval.dtype not in (_BOOL, _INT32)
        or (which.aval.dtype == _BOOL and len(cases) > 2)
    ):
        raise EquationError(f"select_n cannot choose by {which.aval} among {first}.")
    return b.bind(_jax.primitive("select_n"), (which, *cases), {}, first)


def clamp(b: Builder, low: Atom, x: Atom, high: Atom) -> Var:
    """``min(max(x, low), high)``; the bounds are scalars or have ``x``'s shape."""
    return b.bind(_jax.primitive("clamp"), (low, x, high), {})


def convert_element_type(b: Builder, x: Atom, dtype: Dtype) -> Var:
    """The same values in another dtype. Complex to others is refused; take `real` first."""
    if x.aval.dtype.kind == "c" and dtype.kind != "c":
        raise EquationError(f"convert_element_type does not take {x.aval.dtype} to {dtype}.")
    params = {"new_dtype": dtype, "weak_type": False, "sharding": None}
    aval = _jax.array_type(x.aval.shape, dtype)
    return b.bind(_jax.primitive("convert_element_type"), (x,), params, aval)


def stop_gradient(b: Builder, x: Atom) -> Var:
    """The same values, constant to differentiation."""
    return b.bind(_jax.primitive("stop_gradient"), (x,), {}, x.aval)


# --- Shapes ------------------------------------------------------------------------------


def broadcast_in_dim(b: Builder, x: Atom, shape: Shape, dimensions: Sequence[int]) -> Var:
    """``x`` repeated to ``shape``: its axis ``i`` becomes axis ``dimensions[i]``."""
    sizes = x.aval.shape
    if (
        len(dimensions) != len(sizes)
        or not _are_axes(dimensions, len(shape))
        or any(n not in (1, shape[d]) for n, d in zip(sizes, dimensions, strict=True))
        or any(d > e for d, e in itertools.pairwise(dimensions))
    ):
        raise EquationError(f"Cannot broadcast {sizes} to {shape} along {tuple(dimensions)}.")
    params = {"shape": shape, "broadcast_dimensions": tuple(dimensions), "sharding": None}
    aval = _jax.array_type(shape, x.aval.dtype)
    return b.bind(_jax.primitive("broadcast_in_dim"), (x,), params, aval)


def reshape(b: Builder, x: Atom, shape: Shape) -> Var:
    """The same elements in row-major order under another shape."""
    if math.prod(shape) != math.prod(x.aval.shape):
        raise EquationError(f"Cannot reshape {x.aval.shape} to {shape}.")
    params = {"new_sizes": shape, "dimensions": None, "sharding": None}
    aval = _jax.array_type(shape, x.aval.dtype)
    return b.bind(_jax.primitive("reshape"), (x,), params, aval)


def squeeze(b: Builder, x: Atom, dimensions: Sequence[int]) -> Var:
    """``x`` without the named axes, each of size one."""
    sizes = x.aval.shape
    if not _are_axes(dimensions, len(sizes)) or any(sizes[d] != 1 for d in dimensions):
        raise EquationError(f"Cannot drop axes {tuple(dimensions)} of {sizes}.")
    shape = tuple(n for d, n in enumerate(sizes) if d not in dimensions)
    aval = _jax.array_type(shape, x.aval.dtype)
    return b.bind(_jax.primitive("squeeze"), (x,), {"dimensions": tuple(dimensions)}, aval)


def transpose(b: Builder, x: Atom, permutation: Sequence[int]) -> Var:
    """``x`` whose axis ``i`` is axis ``permutation[i]`` of the operand."""
    sizes = x.aval.shape
    if sorted(permutation) != list(range(len(sizes))):
        raise EquationError(f"{tuple(permutation)} does not permute the axes of {sizes}.")
    aval = _jax.array_type(tuple(sizes[d] for d in permutation), x.aval.dtype)
    return b.bind(_jax.primitive("transpose"), (x,), {"permutation": tuple(permutation)}, aval)


def rev(b: Builder, x: Atom, dimensions: Sequence[int]) -> Var:
    """``x`` read backwards along the named axes."""
    return b.bind(_jax.primitive("rev"), (x,), {"dimensions": tuple(dimensions)})


def slice(
    b: Builder, x: Atom, start: Sequence[int], limit: Sequence[int], strides: Sequence[int]
) -> Var:
    """``x[start:limit:strides]`` on every axis; all bounds inside, strides positive."""
    sizes = x.aval.shape
    if any(
        not 0 <= i <= j <= n or k < 1
        for i, j, k, n in zip(start, limit, strides, sizes, strict=True)
    ):
        raise EquationError(f"Cannot slice {sizes} by {start}:{limit}:{strides}.")
    shape = tuple(-(-(j - i) // k) for i, j, k in zip(start, limit, strides, strict=True))
    unit = all(k == 1 for k in strides)
    params = {
        "start_indices": tuple(start),
        "limit_indices": tuple(limit),
        "strides": None if unit else tuple(strides),
    }
    aval = _jax.array_type(shape, x.aval.dtype)
    return b.bind(_jax.primitive("slice"), (x,), params, aval)


def dynamic_slice(b: Builder, x: Atom, start: Sequence[Atom], sizes: Shape) -> Var:
    """A block of ``x`` from integer scalars ``start``, moved inside where it sticks out."""
    return b.bind(_jax.primitive("dynamic_slice"), (x, *start), {"slice_sizes": sizes})


def dynamic_update_slice(b: Builder, x: Atom, update: Atom, start: Sequence[Atom]) -> Var:
    """``x`` with a block replaced, from integer scalars ``start``, moved inside likewise."""
    return b.bind(_jax.primitive("dynamic_update_slice"), (x, update, *start), {})


def pad(b: Builder, x: Atom, value: Atom, config: Sequence[tuple[int, int, int]]) -> Var:
    """``x`` with a scalar put before, behind and between its elements, per axis."""
    return b.bind(_jax.primitive("pad"), (x, value), {"padding_config": tuple(config)})


def concatenate(b: Builder, operands: Sequence[Atom], dimension: int) -> Var:
    """The operands one behind the other along an axis; their other sizes are equal."""
    first = operands[0].aval
    before, behind = first.shape[:dimension], first.shape[dimension + 1 :]
    if not 0 <= dimension < len(first.shape) or any(
        x.aval.shape != (*before, *x.aval.shape[dimension : dimension + 1], *behind)
        or len(x.aval.shape) != len(first.shape)
        or x.aval.dtype != first.dtype
        for x in operands
    ):
        types = [x.aval for x in operands]
        raise EquationError(f"Cannot concatenate {types} along axis {dimension}.")
    shape = (*before, sum(x.aval.shape[dimension] for x in operands), *behind)
    aval = _jax.array_type(shape, first.dtype)
    return b.bind(_jax.primitive("concatenate"), operands, {"dimension": dimension}, aval)


def iota(b: Builder, dtype: Dtype, shape: Shape, dimension: int) -> Var:
    """0, 1, 2, … along one axis, constant along the others."""
    if dtype.kind not in _NUMBER or not 0 <= dimension < len(shape):
        raise EquationError(f"iota does not make {dtype} of shape {shape} along {dimension}.")
    params = {"dtype": dtype, "shape": shape, "dimension": dimension, "sharding": None}
    return b.bind(_jax.primitive("iota"), (), params, _jax.array_type(shape, dtype))


# --- Reductions and contractions ---------------------------------------------------------


def _reduction(name: str, kinds: str) -> Callable[[Builder, Atom, Sequence[int]], Var]:
    primitive, defaults = _jax.primitive(name), _jax.default_params(name)

    def construct(b: Builder, x: Atom, axes: Sequence[int]) -> Var:
        if x.aval.dtype.kind not in kinds or not _are_axes(axes, len(x.aval.shape)):
            raise EquationError(f"{name} does not take {x.aval} along {tuple(axes)}.")
        shape = tuple(n for d, n in enumerate(x.aval.shape) if d not in axes)
        aval = _jax.array_type(shape, x.aval.dtype)
        return b.bind(primitive, (x,), {"axes": tuple(axes), **defaults}, aval)

    construct.__name__ = construct.__qualname__ = name
    construct.__doc__ = f"``{name}`` over the given axes, which vanish."
    return construct


reduce_sum = _reduction("reduce_sum", _NUMBER)
reduce_prod = _reduction("reduce_prod", _NUMBER)
reduce_max = _reduction("reduce_max", _ANY)
reduce_min = _reduction("reduce_min", _ANY)
reduce_and = _reduction("reduce_and", _DISCRETE)
reduce_or = _reduction("reduce_or", _DISCRETE)
reduce_xor = _reduction("reduce_xor", _DISCRETE)


def argmax(b: Builder, x: Atom, axis: int, dtype: Dtype) -> Var:
    """The first index of the largest element along an axis; NaN counts as largest."""
    return b.bind(_jax.primitive("argmax"), (x,), {"axes": (axis,), "index_dtype": dtype})


def dot_general(
    b: Builder,
    x: Atom,
    y: Atom,
    contract: tuple[Sequence[int], Sequence[int]],
    batch: tuple[Sequence[int], Sequence[int]] = ((), ()),
) -> Var:
    """Sum of products over paired axes: batch axes first, then ``x``'s others, then ``y``'s.

    The precision is the user's, by ``jax.default_matmul_precision``, as for `jax.lax`.
    """
    (cx, cy), (bx, by) = contract, batch
    sx, sy = x.aval.shape, y.aval.shape
    if [sx[d] for d in (*cx, *bx)] != [sy[d] for d in (*cy, *by)] or x.aval.dtype != y.aval.dtype:
        raise EquationError(f"Cannot contract {x.aval} with {y.aval} along {contract}, {batch}.")
    shape = (
        *(sx[d] for d in bx),
        *(n for d, n in enumerate(sx) if d not in (*cx, *bx)),
        *(n for d, n in enumerate(sy) if d not in (*cy, *by)),
    )
    params = {
        "dimension_numbers": ((tuple(cx), tuple(cy)), (tuple(bx), tuple(by))),
        "precision": _jax.matmul_precision(),
        "preferred_element_type": x.aval.dtype,
        "out_sharding": None,
    }
    aval = _jax.array_type(shape, x.aval.dtype)
    return b.bind(_jax.primitive("dot_general"), (x, y), params, aval)


# --- Indexing by arrays, loops, calls ----------------------------------------------------


def while_loop(
    b: Builder,
    condition: ClosedJaxpr,
    body: ClosedJaxpr,
    carries: Sequence[Atom],
) -> list[Var]:
    """``body`` applied to the carries as long as ``condition`` holds; neither has constants."""
    params = {
        "cond_nconsts": 0,
        "cond_jaxpr": condition,
        "body_nconsts": 0,
        "body_jaxpr": body,
    }
    return b.bind_multiple(_jax.primitive("while"), carries, params)
