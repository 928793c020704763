"""Elementwise primitives.

Operands of n-ary primitives broadcast as in `jax.lax`: they have one rank, and each size is that of
the result or one; scalars fit any shape.
"""

from __future__ import annotations

from collections.abc import Callable

from jax.lax import RoundingMethod

from jaxprgen import _jax
from jaxprgen._jax import Var
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


def _elementwise(name: str) -> Callable[..., Var]:
    primitive, params = _jax.primitive(name), _jax.default_params(name)
    ELEMENTWISE.add(name)

    def construct(b: Builder, *operands: Atom) -> Var:
        return b.bind(primitive, operands, params)

    return named(construct, name, f"Append ``{name}``, elementwise, and return its result.")


neg = _elementwise("neg")
sign = _elementwise("sign")
floor = _elementwise("floor")
ceil = _elementwise("ceil")
exp = _elementwise("exp")
exp2 = _elementwise("exp2")
expm1 = _elementwise("expm1")
log = _elementwise("log")
log1p = _elementwise("log1p")
sqrt = _elementwise("sqrt")
rsqrt = _elementwise("rsqrt")
cbrt = _elementwise("cbrt")
logistic = _elementwise("logistic")
square = _elementwise("square")
sin = _elementwise("sin")
cos = _elementwise("cos")
tan = _elementwise("tan")
asin = _elementwise("asin")
acos = _elementwise("acos")
atan = _elementwise("atan")
sinh = _elementwise("sinh")
cosh = _elementwise("cosh")
tanh = _elementwise("tanh")
asinh = _elementwise("asinh")
acosh = _elementwise("acosh")
atanh = _elementwise("atanh")
erf = _elementwise("erf")
erfc = _elementwise("erfc")
erf_inv = _elementwise("erf_inv")
lgamma = _elementwise("lgamma")
digamma = _elementwise("digamma")
bessel_i0e = _elementwise("bessel_i0e")
bessel_i1e = _elementwise("bessel_i1e")
bitwise_not = _elementwise("not")
clz = _elementwise("clz")

add = _elementwise("add")
sub = _elementwise("sub")
mul = _elementwise("mul")
div = _elementwise("div")
rem = _elementwise("rem")
max = _elementwise("max")
min = _elementwise("min")
pow = _elementwise("pow")
atan2 = _elementwise("atan2")
bitwise_and = _elementwise("and")
bitwise_or = _elementwise("or")
bitwise_xor = _elementwise("xor")
shift_left = _elementwise("shift_left")
shift_right_arithmetic = _elementwise("shift_right_arithmetic")
shift_right_logical = _elementwise("shift_right_logical")

eq = _elementwise("eq")
ne = _elementwise("ne")
lt = _elementwise("lt")
le = _elementwise("le")
gt = _elementwise("gt")
ge = _elementwise("ge")
is_finite = _elementwise("is_finite")

abs = _elementwise("abs")
real = _elementwise("real")
imag = _elementwise("imag")


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
