"""Rows for `jaxprgen.ir.primitives.elementwise`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import numpy as np
from constructor_law import SHAPES, Call, Row, array, dtypes, mixed, one
from hypothesis import strategies as st
from jax import lax

_UNARY = """neg sign floor ceil exp exp2 expm1 log log1p sqrt rsqrt cbrt logistic square sin cos
    tan asin acos atan sinh cosh tanh asinh acosh atanh erf erfc erf_inv lgamma digamma
    bessel_i0e bessel_i1e bitwise_not clz is_finite abs real imag"""
_BINARY = """add sub mul div rem max min atan2 bitwise_and bitwise_or bitwise_xor
    shift_left shift_right_arithmetic shift_right_logical eq ne lt le gt ge"""
UNARY, BINARY = _UNARY.split(), _BINARY.split()
ROUNDING = {True: lax.RoundingMethod.TO_NEAREST_EVEN, False: lax.RoundingMethod.AWAY_FROM_ZERO}


@st.composite
def nary(draw: Any, arity: int) -> Call:
    """Operands whose dtypes mostly agree, and whose shapes mostly broadcast."""
    dtype, shape = draw(dtypes), draw(SHAPES)

    def operand() -> jax.ShapeDtypeStruct:
        kind = draw(st.sampled_from(["same", "same", "one", "scalar", "other", "dtype"]))
        if kind == "one":
            return array(dtype, *(draw(st.sampled_from([1, n])) for n in shape))
        if kind == "scalar":
            return array(dtype)
        if kind == "other":
            return array(dtype, *draw(SHAPES))
        return array(draw(dtypes) if kind == "dtype" else dtype, *shape)

    return Call(tuple(operand() for _ in range(arity)))


def elementwise(arity: int, function: Callable[..., Any], **more: Any) -> Row:
    return Row(function, nary(arity), **more)


@st.composite
def chosen(draw: Any) -> Call:
    shape, dtype = draw(SHAPES), draw(dtypes)
    which = array(
        draw(st.sampled_from(["bool", "bool", "int32", "int64"])),
        *draw(st.sampled_from([shape, (), (1,)])),
    )
    count = draw(st.sampled_from([2, 2, 3]))
    cases = [array(dtype, *shape) for _ in range(count)]
    if draw(st.sampled_from([False, False, True])):
        cases[-1] = array(draw(dtypes), *draw(SHAPES))
    return Call((which, *cases))


@st.composite
def clamped(draw: Any) -> Call:
    shape, dtype = draw(SHAPES), draw(dtypes)
    bounds = st.sampled_from([shape, shape, (), (2,)])
    low, high = array(dtype, *draw(bounds)), array(dtype, *draw(bounds))
    return Call((low, array(dtype, *shape), high))


def is_complex_to_real(call: Call) -> bool:
    return call.types[0].dtype.kind == "c" != call.options["dtype"].kind


ROWS: dict[str, Row] = {
    **{name: elementwise(1, getattr(lax, name)) for name in UNARY},
    **{name: elementwise(2, getattr(lax, name)) for name in BINARY},
    # JAX also takes an exponent of another dtype.
    "pow": elementwise(2, lax.pow, outside=mixed),
    # `lax.conj` converts a real array to a complex one.
    "conj": elementwise(1, lax.conj, outside=lambda call: call.types[0].dtype.kind != "c"),
    "complex": elementwise(2, lax.complex),
    "integer_pow": Row(
        lambda x, y: lax.integer_pow(x, y),
        one(lambda draw, shape: {"y": draw(st.sampled_from([-3, -1, 2, 3, 7]))}),
    ),
    "round": Row(
        lambda x, half_to_even: lax.round(x, ROUNDING[half_to_even]),
        one(lambda draw, shape: {"half_to_even": draw(st.booleans())}),
    ),
    "select_n": Row(lax.select_n, chosen()),
    "clamp": Row(lax.clamp, clamped()),
    "bitcast_convert_type": Row(
        lambda x, dtype: lax.bitcast_convert_type(x, dtype),
        one(lambda draw, shape: {"dtype": np.dtype(draw(dtypes))}),
    ),
    "convert_element_type": Row(
        lambda x, dtype: lax.convert_element_type(x, dtype),
        one(lambda draw, shape: {"dtype": draw(dtypes)}),
        stricter=is_complex_to_real,
    ),
    "stop_gradient": elementwise(1, lax.stop_gradient),
}
