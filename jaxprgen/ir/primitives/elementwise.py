"""Elementwise primitives.

Operands of n-ary primitives broadcast as in `jax.lax`: they have one rank, and each size is that of
the result or one; scalars fit any shape.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from jax.lax import RoundingMethod

from jaxprgen import _jax
from jaxprgen._jax import ShapedArray, Var
from jaxprgen.errors import EquationError
from jaxprgen.ir.builder import Atom, Builder
from jaxprgen.ir.primitives.appending import Dtype, append, named

ELEMENTWISE = {
    *("complex", "conj", "integer_pow", "round", "convert_element_type", "bitcast_convert_type"),
    *("copy", "reduce_precision", "nextafter", "population_count"),
}
"""The names of the primitives whose operands broadcast: these, and those made by `_elementwise`."""
OF_ONE_SHAPE = {
    *("select_n", "complex", "igamma", "igammac", "igamma_grad_a", "polygamma", "zeta"),
    "regularized_incomplete_beta",
}
"""The names of elementwise primitives whose operands, or cotangents, must have one shape."""

FLOAT, INEXACT, REAL, NUMBER, DISCRETE, ANY = "f", "fc", "iuf", "iufc", "biu", "biufc"
"""Sets of dtypes, as strings of NumPy's ``dtype.kind``."""
_ORDERED = "biuf"
_BOOL = np.dtype(bool)
_REAL_PART = {
    np.dtype("complex64"): np.dtype("float32"),
    np.dtype("complex128"): np.dtype("float64"),
}


def _common_type(name: str, kinds: str, operands: Sequence[Atom]) -> ShapedArray:
    """Return the type to which operands of equal dtypes broadcast."""
    result: ShapedArray = operands[0].aval  # type: ignore[assignment]
    if result.dtype.kind not in kinds:
        raise EquationError(f"{name} does not take {result.dtype}.")
    if len(operands) == 1:
        return result
    for operand in operands[1:]:
        aval: ShapedArray = operand.aval  # type: ignore[assignment]
        if aval.dtype is not result.dtype and aval.dtype != result.dtype:
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


def _elementwise(
    name: str, kinds: str = ANY, result_dtype: Callable[[Dtype], Dtype] | None = None
) -> Callable[..., Var]:
    """Return the constructor of an n-ary primitive.

    Parameters
    ----------
    name : str
        The primitive's name.
    kinds : str
        The kinds of dtypes that it takes.
    result_dtype : callable, optional
        The result's dtype by that of the operands; by default they are the same.
    """
    primitive, params = _jax.primitive(name), _jax.default_params(name)
    ELEMENTWISE.add(name)

    def construct(b: Builder, *operands: Atom) -> Var:
        if not b.plain:
            return b.bind(primitive, operands, params)
        aval = _common_type(name, kinds, operands)
        if result_dtype is not None:
            aval = _jax.array_type(aval.shape, result_dtype(aval.dtype))
        return b.bind(primitive, operands, params, aval)

    return named(construct, name, f"Append ``{name}``, elementwise, and return its result.")


def _predicate(name: str, kinds: str = ANY) -> Callable[..., Var]:
    return _elementwise(name, kinds, lambda dtype: _BOOL)


def _real_valued(name: str, kinds: str) -> Callable[..., Var]:
    return _elementwise(name, kinds, lambda dtype: _REAL_PART.get(dtype, dtype))


neg = _elementwise("neg", NUMBER)
sign = _elementwise("sign", NUMBER)
floor = _elementwise("floor", FLOAT)
ceil = _elementwise("ceil", FLOAT)
exp = _elementwise("exp", INEXACT)
exp2 = _elementwise("exp2", INEXACT)
expm1 = _elementwise("expm1", INEXACT)
log = _elementwise("log", INEXACT)
log1p = _elementwise("log1p", INEXACT)
sqrt = _elementwise("sqrt", INEXACT)
rsqrt = _elementwise("rsqrt", INEXACT)
cbrt = _elementwise("cbrt", FLOAT)
logistic = _elementwise("logistic", INEXACT)
square = _elementwise("square", NUMBER)
sin = _elementwise("sin", INEXACT)
cos = _elementwise("cos", INEXACT)
tan = _elementwise("tan", INEXACT)
asin = _elementwise("asin", INEXACT)
acos = _elementwise("acos", INEXACT)
atan = _elementwise("atan", INEXACT)
sinh = _elementwise("sinh", INEXACT)
cosh = _elementwise("cosh", INEXACT)
tanh = _elementwise("tanh", INEXACT)
asinh = _elementwise("asinh", INEXACT)
acosh = _elementwise("acosh", INEXACT)
atanh = _elementwise("atanh", INEXACT)
erf = _elementwise("erf", FLOAT)
erfc = _elementwise("erfc", FLOAT)
erf_inv = _elementwise("erf_inv", FLOAT)
lgamma = _elementwise("lgamma", FLOAT)
digamma = _elementwise("digamma", FLOAT)
bessel_i0e = _elementwise("bessel_i0e", FLOAT)
bessel_i1e = _elementwise("bessel_i1e", FLOAT)
bitwise_not = _elementwise("not", DISCRETE)
clz = _elementwise("clz", "iu")

add = _elementwise("add", NUMBER)
sub = _elementwise("sub", NUMBER)
mul = _elementwise("mul", NUMBER)
div = _elementwise("div", NUMBER)
rem = _elementwise("rem", REAL)
max = _elementwise("max")
min = _elementwise("min")
pow = _elementwise("pow", INEXACT)
atan2 = _elementwise("atan2", INEXACT)
bitwise_and = _elementwise("and", DISCRETE)
bitwise_or = _elementwise("or", DISCRETE)
bitwise_xor = _elementwise("xor", DISCRETE)
shift_left = _elementwise("shift_left", "iu")
shift_right_arithmetic = _elementwise("shift_right_arithmetic", "iu")
shift_right_logical = _elementwise("shift_right_logical", "iu")

eq = _predicate("eq")
ne = _predicate("ne")
lt = _predicate("lt", _ORDERED)
le = _predicate("le", _ORDERED)
gt = _predicate("gt", _ORDERED)
ge = _predicate("ge", _ORDERED)
is_finite = _predicate("is_finite", FLOAT)

abs = _real_valued("abs", "ifc")
real = _real_valued("real", "c")
imag = _real_valued("imag", "c")


def conj(b: Builder, x: Atom) -> Var:
    """Return the complex conjugate of a complex array."""
    return append(b, "conj", (x,), input_dtype=x.aval.dtype)


def complex(b: Builder, x: Atom, y: Atom) -> Var:
    """Return ``x + iy`` for two float arrays of one shape."""
    return append(b, "complex", (x, y))


def integer_pow(b: Builder, x: Atom, y: int) -> Var:
    """Return ``x`` to a static power.

    Parameters
    ----------
    b : Builder
    x : atom of a numeric dtype
    y : int
        The exponent; nonnegative if ``x`` has an integer dtype.
    """
    return append(b, "integer_pow", (x,), y=y)


def round(b: Builder, x: Atom, *, half_to_even: bool) -> Var:
    """Round floats to integers; halves go to the even neighbor, or else away from zero."""
    method = RoundingMethod.TO_NEAREST_EVEN if half_to_even else RoundingMethod.AWAY_FROM_ZERO
    return append(b, "round", (x,), rounding_method=method)


def select_n(b: Builder, which: Atom, *cases: Atom) -> Var:
    """Return ``cases[which]``, elementwise.

    Parameters
    ----------
    b : Builder
    which : atom of bool or int32
        The position of the chosen case: a scalar, or an array of the cases' shape. A boolean
        chooses between (where false, where true).
    *cases : atoms of one shape and dtype
    """
    return append(b, "select_n", (which, *cases))


def clamp(b: Builder, low: Atom, x: Atom, high: Atom) -> Var:
    """Return ``min(max(x, low), high)``; each bound is a scalar or has the shape of ``x``."""
    return append(b, "clamp", (low, x, high))


def convert_element_type(b: Builder, x: Atom, dtype: Dtype) -> Var:
    """Return the same values in another dtype.

    Raises
    ------
    EquationError
        A complex array would lose its imaginary part. Take its `real` part first.
    """
    if x.aval.dtype.kind == "c" and dtype.kind != "c":
        raise EquationError(f"convert_element_type does not take {x.aval.dtype} to {dtype}.")
    return append(b, "convert_element_type", (x,), new_dtype=dtype, weak_type=False)


def bitcast_convert_type(b: Builder, x: Atom, dtype: Dtype) -> Var:
    """Return the same bits, read as another dtype of the same size."""
    return append(b, "bitcast_convert_type", (x,), new_dtype=dtype)


def stop_gradient(b: Builder, x: Atom) -> Var:
    """Return the same values, through which JAX does not differentiate."""
    return append(b, "stop_gradient", (x,))
