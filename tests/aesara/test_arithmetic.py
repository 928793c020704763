"""Arithmetic, comparison, bitwise logic, division and rounding of all dtypes, to the last bit.

Each Op of each combination of dtypes is compared with Aesara's Python mode: declared dtype, value,
infinities, NaN and signs of zeros, of complex numbers in each part.
"""

import itertools

import aesara.scalar as aes
import aesara.tensor as at
import jax
import numpy as np
import pytest
from aesara.tensor.elemwise import Elemwise
from aesara.tensor.math import MulWithoutZeros
from laws import DTYPES, all_equations, by_equation, reference
from profiles import amount, sample
from test_scalar import (
    ARITHMETIC,
    OPS,
    PAIRS,
    TRIPLES,
    cases_of,
    computed,
    is_sign_of_zero_open,
    name,
)

import jaxprgen
from jaxprgen.lowering.names import own_keys
from jaxprgen.ops.scalar import RULES

FUNCTIONS = {
    *(aes.Exp, aes.Exp2, aes.Expm1, aes.Log, aes.Log2, aes.Log10, aes.Log1p, aes.Sqrt, aes.Angle),
    *(aes.Sin, aes.Cos, aes.Tan, aes.Sinh, aes.Cosh, aes.Tanh, aes.ArcTan2, aes.ComplexFromPolar),
    *(aes.ArcSin, aes.ArcCos, aes.ArcTan, aes.ArcSinh, aes.ArcCosh, aes.ArcTanh),
    *(aes.Deg2Rad, aes.Rad2Deg, aes.Mean, aes.Cast),
}
"""The others of `aesara.scalar.basic`, which have tests of their own."""

COUNT = 24


def numbers(dtype):
    """``COUNT`` numbers: small ones of each sign, halves, the largest, infinities and NaN."""
    kind, dtype = np.dtype(dtype).kind, np.dtype(dtype)
    parts = [0.0, -0.0, 1, -1, 0.5, -0.5, 2.5, -3.5, 1.5, np.inf, -np.inf, np.nan]
    if kind == "b":
        found = [True, False]
    elif kind in "iu":
        small = [0, 1, 2, 3, 5, 7, 20, 64, *([-1, -2, -3, -5, -7, -20] if kind == "i" else [])]
        found = [*small, np.iinfo(dtype).min, np.iinfo(dtype).max, np.iinfo(dtype).max - 1]
    elif kind == "f":
        limits = np.finfo(dtype)
        ends = [limits.max, limits.tiny, 1 + limits.eps, 1 / limits.eps]
        found = [*parts, 0.25, 3, 7, -20, *ends, *(-x for x in ends)]
    else:  # None so large that products overflow: NumPy's own then differ by where they stand.
        found = [complex(a, b) for a, b in zip(parts, [*parts[5:], *parts[:5]], strict=True)]
        found += [-0.0 - 0j, 0j, 1, 2, 3, 1j, 5, -2, 0.25 + 0.5j, complex(np.inf, np.nan), 1 - 2j]
        found += [complex(np.inf, -np.inf)]
    return np.resize(np.array(found, dtype), COUNT)


def tolerance(op, args, dtype):
    """Units in the last place: of powers also those of the exponential's operand."""
    if isinstance(op, aes.Pow) and dtype.kind in "fc":
        x, y = (a.astype(np.result_type(dtype, np.complex64)) for a in args)
        with np.errstate(all="ignore"):
            size = np.nan_to_num(np.abs(y * np.log(x)), nan=1, posinf=1)
        return 4 * np.finfo(dtype).eps * np.maximum(size, 1)
    if isinstance(op, aes.TrueDivide | aes.Abs) and any(a.dtype.kind == "c" for a in args):
        return 4 * np.finfo(dtype).eps
    return 0


def assert_exact(ours, theirs, op, args, *, signs=True, rtol=0):
    """Equal but for the rounding of powers, in each part; zeros have equal signs."""
    assert (ours.dtype, ours.shape) == (theirs.dtype, theirs.shape)
    is_open = not signs or is_sign_of_zero_open(op, args, theirs)
    parts = [(ours.real, theirs.real), (ours.imag, theirs.imag)]
    with np.errstate(all="ignore"):
        sizes = [np.nan_to_num(np.abs(y), posinf=0, nan=0) for _, y in parts]
        allowed = np.maximum(tolerance(op, args, theirs.dtype), rtol) * np.maximum(*sizes)
        for x, y in parts:
            same = (x == y) | ((x != x) & (y != y))
            if y.dtype.kind == "f":
                same |= np.abs(x - y) <= allowed
                # XLA's CPU code takes subnormal numbers for zero.
                same |= (x == 0) & (np.abs(y) < np.finfo(y.dtype).tiny)
                same &= (y != 0) | is_open | (np.signbit(x) == np.signbit(y))
            places = np.flatnonzero(~same)[:5]
            lines = [f"{[a[i] for a in args]}: {ours[i]}, not {theirs[i]}" for i in places]
            assert not lines, "\n".join([f"{op} of {[a.dtype.name for a in args]}", *lines])


def compare(op, combinations):
    """One program for all combinations of dtypes that Aesara has, of which it is the number."""
    inputs, cases = cases_of(op, combinations, numbers)
    for ours, (_, args, _, theirs) in computed(inputs, cases):
        if isinstance(op, aes.FloorDivide | aes.Mod) and ours.dtype.kind in "biu":
            defined = args[1] != 0
            ours, theirs, args = ours[defined], theirs[defined], [a[defined] for a in args]
        assert_exact(ours, theirs, op, args)
    return len(cases)


FOUND = [op for op in OPS if type(op) in ARITHMETIC]
FEWER = {
    **dict.fromkeys([aes.RoundHalfToEven, aes.RoundHalfAwayFromZero], 3),
    **dict.fromkeys([aes.Ceil, aes.Floor, aes.Trunc], 12),
    aes.Neg: 13,
    aes.Sgn: 11,
    aes.Invert: 9,
    **dict.fromkeys([aes.OR, aes.XOR, aes.AND], amount(quick=12, deep=57)),
    **dict.fromkeys([aes.FloorDivide, aes.Mod, aes.Complex], amount(quick=25, deep=144)),
    **dict.fromkeys([aes.Clip, aes.InRange], amount(quick=21, deep=123)),
    aes.Sub: amount(quick=32, deep=195),
}
"""How many combinations an Op takes of 14 dtypes, or of `PAIRS`, if not all."""


def test_these_are_all():
    classes = [op for op in vars(aes.basic).values() if isinstance(op, type)]
    basic = {op for op in classes if not RULES.keys().isdisjoint(own_keys(op))}
    assert basic - FUNCTIONS == set(ARITHMETIC) - {MulWithoutZeros}
    assert {type(op) for op in FOUND} == set(ARITHMETIC)


@pytest.mark.parametrize("op", [op for op in FOUND if op.nin == 1], ids=name)
def test_unary(op):
    assert compare(op, [(dtype,) for dtype in DTYPES]) == FEWER.get(type(op), 14)


@pytest.mark.parametrize("op", [op for op in FOUND if op.nin in (-1, 2)], ids=name)
def test_binary(op):
    assert compare(op, PAIRS) == FEWER.get(type(op), len(PAIRS))


@pytest.mark.parametrize("op", [op for op in FOUND if op.nin == 3], ids=name)
def test_ternary(op):
    assert compare(op, TRIPLES) == FEWER.get(type(op), len(TRIPLES))


# --- Quotients and powers of complex numbers ------------------------------------------------

PARTS = [0.0, -0.0, 1, -1, 2.5, -0.5, np.inf, -np.inf, np.nan]
PLANE = [complex(a, b) for a in PARTS for b in PARTS]
KNOWN = sample([0, 1, 2, 3, -5, 4, np.inf, 7, complex(np.nan, 0), -1, 1 - 1j, 0.5], 6)


# XLA's older emitters, which quick runs use, give other parts of infinities in single precision.
@pytest.mark.parametrize("dtype", [pytest.param("complex64", marks=pytest.mark.deep), "complex128"])
def test_complex_numbers_of_one_program(dtype):
    """What XLA makes of a whole program, of numbers that are known and of others.

    It leaves out sums with products of zero, and with them the signs of zeros. It rounds a product
    and a sum at once, so that the parts of a power that overflows may differ.
    """
    large = [99, 100] if dtype == "complex128" else []
    exponents = [*PLANE, 2, 3, 4, 5, 17, 31, *large, -2, -3, -17, 0.3 + 0.1j, 1e-3 + 2j]
    args = [a.ravel().astype(dtype) for a in np.meshgrid([*PLANE, 0.5 - 0.75j], exponents)]
    x, y = at.vector("x", dtype=dtype), at.vector("y", dtype=dtype)
    values = {x: args[0], y: args[1]}
    pairs = [(op, (x, y)) for op in (aes.pow, aes.true_divide)]
    for number in KNOWN:
        constant = at.constant(np.array([number], dtype))
        values[constant] = constant.data
        pairs += [(aes.pow, (x, constant)), (aes.true_divide, (x, constant))]
        pairs += [(aes.pow, (constant, y)), (aes.true_divide, (constant, y))]
    outputs = [Elemwise(op)(*operands) for op, operands in pairs]
    ours = jax.jit(jaxprgen.compile([x, y], outputs))(*args)
    theirs = reference([x, y], outputs, args)
    for mine, yours, (op, operands) in zip(ours, theirs, pairs, strict=True):
        taken = [np.broadcast_to(values[v], yours.shape) for v in operands]
        assert_exact(np.asarray(mine), yours, op, taken, signs=False)


def test_derivatives_of_complex_numbers():
    x, y = at.zvector("x"), at.zvector("y")
    points = np.array([1 + 2j, 0.5 - 0.25j, -2 - 1j, 3]), np.array([0.3 + 0.1j, -1.5 + 2j, 3, -2])
    slopes = {
        x**y: (lambda x, y: y * x ** (y - 1), lambda x, y: x**y * np.log(x)),
        x / y: (lambda x, y: 1 / y, lambda x, y: -x / y**2),
        at.reciprocal(x): (lambda x, y: -1 / x**2, lambda x, y: 0 * y),
    }
    for k in sample([2, 1, 0.5, 5, -3, 2j, -1], 2):
        power = x ** at.constant(np.complex128(k))
        slopes[power] = (lambda x, y, k=k: k * x ** (k - 1), lambda x, y: 0 * y)
    f = jaxprgen.compile([x, y], list(slopes))
    for jacobian in (jax.jacfwd, jax.jacrev):
        found = jax.jit(jacobian(f, (0, 1), holomorphic=True))(*points)
        for pair, partial in zip(found, slopes.values(), strict=True):
            for ours, slope in zip(pair, partial, strict=True):
                np.testing.assert_allclose(np.diag(ours), slope(*points), rtol=1e-12)
    x, y = at.zscalar("x"), at.zscalar("y")
    gradient = jax.jit(jax.grad(jaxprgen.compile([x, y], x**y), (0, 1), holomorphic=True))
    for exponent, slope in ((0, 0), (1, 1), (2, 0), (2.5, 0)):
        np.testing.assert_array_equal(gradient(0j, complex(exponent)), (slope, 0))


def test_a_known_exponent_takes_few_products():
    x = at.zscalar("x")
    for exponent, count in ((2, 1), (3, 2), (8, 3), (31, 8)):
        f = jaxprgen.compile([x], x ** at.constant(np.complex128(exponent)))
        names = [e.primitive.name for e in all_equations(f.jaxpr(1j).jaxpr)]
        products = [e for e in names if e in ("mul", "square")]
        assert len(products) == count + 2 * (exponent > 3)  # One of the factors is 1 + 0i.


@pytest.mark.parametrize("dtype", ["int16", "float32", "complex64"])
def test_a_known_operand(dtype):
    """What rules make of a number that they know."""
    x, own = at.vector(dtype=dtype), numbers(dtype)
    ops = [aes.add, aes.sub, aes.mul, aes.true_divide, aes.pow, aes.scalar_maximum, aes.eq, aes.lt]
    ops += [] if dtype == "complex64" else [aes.floor_divide, aes.mod]
    outputs, taken = [], []
    some = sample([0, 1, 2, 3, 5, 8, -2, -1], 4)
    for op, number, is_left in itertools.product(ops, own[some], (False, True)):
        known = np.full(COUNT, number)
        args = (known, own) if is_left else (own, known)
        whole = dtype == "int16" and isinstance(op, aes.FloorDivide | aes.Mod | aes.Pow)
        if whole and (args[1] < 1).any():
            continue  # It is undefined, or an error.
        outputs.append(Elemwise(op)(*(at.constant(number) if a is known else x for a in args)))
        taken.append((op, args))
    ours = by_equation(jaxprgen.compile([x], outputs, passes=()), own)
    for mine, yours, (op, args) in zip(ours, reference([x], outputs, [own]), taken, strict=True):
        # XLA multiplies by the reciprocal of a divisor that it knows.
        rtol = 2 * np.finfo(yours.dtype).eps if isinstance(op, aes.TrueDivide) else 0
        assert_exact(np.asarray(mine), yours, op, args, rtol=rtol)
