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


def _elementwise(names: str) -> list[Callable[..., Var]]:
    """Return the constructors of primitives of these names, which are separated by spaces."""
    ELEMENTWISE.update(names.split())
    return [_constructor(name) for name in names.split()]


def _constructor(name: str) -> Callable[..., Var]:
    primitive, params = _jax.primitive(name), _jax.default_params(name)

    def construct(b: Builder, *operands: Atom) -> Var:
        return b.bind(primitive, operands, params)

    return named(construct, name, f"Append ``{name}``, elementwise, and return its result.")


neg, sign, floor, ceil, abs = _elementwise("neg sign floor ceil abs")
exp, exp2, expm1, log, log1p = _elementwise("exp exp2 expm1 log log1p")
sqrt, rsqrt, cbrt, logistic, square = _elementwise("sqrt rsqrt cbrt logistic square")
sin, cos, tan, asin, acos, atan = _elementwise("sin cos tan asin acos atan")
sinh, cosh, tanh, asinh, acosh, atanh = _elementwise("sinh cosh tanh asinh acosh atanh")
erf, erfc, erf_inv, lgamma, digamma = _elementwise("erf erfc erf_inv lgamma digamma")
bessel_i0e, bessel_i1e, real, imag = _elementwise("bessel_i0e bessel_i1e real imag")

add, sub, mul, div, rem = _elementwise("add sub mul div rem")
max, min, pow, atan2 = _elementwise("max min pow atan2")
bitwise_not, bitwise_and, bitwise_or, bitwise_xor = _elementwise("not and or xor")
shift_left, clz = _elementwise("shift_left clz")
shift_right_arithmetic, shift_right_logical = _elementwise(
    "shift_right_arithmetic shift_right_logical"
)
eq, ne, lt, le, gt, ge, is_finite = _elementwise("eq ne lt le gt ge is_finite")


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
