"""Scalar Ops: every rule at every combination of dtypes, against Aesara's Python mode."""

import functools
import importlib
import itertools
import warnings

import aesara
import aesara.scalar as aes
import aesara.tensor as at
import jax
import numpy as np
import pytest
import scipy.special
from aesara.scalar import math as aem
from aesara.tensor.elemwise import Elemwise
from aesara.tensor.math import MulWithoutZeros
from aesara.tensor.xlogx import XlogY0
from hypothesis import given, strategies as st
from hypothesis.extra import numpy as hnp
from laws import DTYPES, assert_agrees, assert_same, by_equation, reference, without_x64
from operands import FLOATS, values
from profiles import examples, sample

import jaxprgen
from jaxprgen._jax import check_jaxpr
from jaxprgen.lowering.names import own_keys
from jaxprgen.ops.scalar import RULES

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)  # `aesara.tensor.nnet` is deprecated.
    MODULES = [
        importlib.import_module(f"aesara.{name}")
        for name in (
            "scalar.basic",
            "scalar.math",
            "scalar.basic_sympy",
            "tensor.xlogx",
            "tensor.math",
            "tensor.nnet.sigm",
            "tensor.nnet.basic",
            "tensor.nnet.batchnorm",
        )
    ]
    from jaxprgen.aesara import nnet  # noqa: F401  # Adds to RULES.

# NumPy 1.26 multiplies complex infinities while it compares them.
pytestmark = pytest.mark.filterwarnings("ignore:invalid value encountered:RuntimeWarning:numpy")

ABSTRACT = {
    aes.UnaryScalarOp,
    aes.BinaryScalarOp,
    aes.basic.BinaryBitOp,
    aes.basic.UnaryBitOp,
    aes.basic.LogicalComparison,
    aes.basic.FixedLogicalComparison,
}
WITHOUT_PYTHON = {"SymPyCCode"}
"""C code and nothing else."""


def subclasses(kind):
    for each in kind.__subclasses__():
        yield each
        yield from subclasses(each)


def instances():
    """One instance per scalar Op: those that Aesara's modules make."""
    found = {}
    for module in MODULES:
        for op in vars(module).values():
            if isinstance(op, aes.ScalarOp):
                found.setdefault((type(op), str(op)), op)
    return list(found.values())


OPS = [op for op in instances() if not RULES.keys().isdisjoint(own_keys(type(op)))]
UNARY = [op for op in OPS if op.nin == 1 and not isinstance(op, aes.Cast)]
# Aesara's ufunc for a `Mean` of arrays is a mean along an axis; see `test_mean_of_scalars`.
VARIADIC = [op for op in OPS if op.nin < 0 and not isinstance(op, aes.Mean)]
# See test_special.py: their Python reference, or XLA, takes thousands of terms at large operands.
SERIES = {
    aem.Chi2SF,
    aem.GammaInc,
    aem.GammaIncC,
    aem.GammaIncDer,
    aem.GammaIncCDer,
    aem.GammaU,
    aem.GammaL,
}
BESSEL = {aem.Jv, aem.Iv}
BINARY = [op for op in OPS if op.nin == 2 and type(op) not in {*SERIES, *BESSEL, aes.Pow}]
TERNARY = [op for op in OPS if op.nin == 3 and not isinstance(op, aem.BetaInc)]
ARITHMETIC = (
    *(aes.Add, aes.Sub, aes.Mul, MulWithoutZeros, aes.TrueDivide, aes.FloorDivide, aes.Mod),
    *(aes.Pow, aes.Neg, aes.Abs, aes.Sgn, aes.Sqr, aes.Reciprocal, aes.Conj, aes.Real, aes.Imag),
    *(aes.LT, aes.GT, aes.LE, aes.GE, aes.EQ, aes.NEQ, aes.IsNan, aes.IsInf, aes.InRange),
    *(aes.ScalarMaximum, aes.ScalarMinimum, aes.Clip, aes.OR, aes.XOR, aes.AND, aes.Invert),
    *(aes.Ceil, aes.Floor, aes.Trunc, aes.RoundHalfToEven, aes.RoundHalfAwayFromZero),
    *(aes.Switch, aes.Second, aes.Identity, aes.Complex),
)
"""Arithmetic, comparison, bitwise logic, division and rounding: see test_arithmetic.py."""


def name(op):
    return f"{type(op).__name__}-{op}"


def test_every_scalar_op_has_a_rule():
    installed = {op for op in subclasses(aes.ScalarOp) if op.__module__.startswith("aesara.")}
    composites = {op for op in installed if issubclass(op, aes.Composite)}
    with_rules = {op for op in installed if not RULES.keys().isdisjoint(own_keys(op))}
    without = installed - composites - ABSTRACT - with_rules
    assert {op.__name__ for op in without} == WITHOUT_PYTHON
    assert {type(op) for op in OPS} == with_rules


# --- Values and dtypes -------------------------------------------------------------------

# NumPy computes these in the operands' precision, float16 for small integers, although the
# declared dtype is wider; they are compared in the declared one.
LESS_EXACT = (aes.ArcTan2, aes.Angle, aes.ComplexFromPolar, aem.Softplus, XlogY0)


def expected(op, xs, out, args):
    """What Aesara computes, as exactly as the declared dtype is."""
    real = not any(x.dtype.kind == "c" for x in args)
    if isinstance(op, LESS_EXACT) and (real or isinstance(op, aes.Angle)):
        real = np.empty(0, out.dtype).real.dtype
        args = [
            x.astype(np.result_type(real, np.complex64) if x.dtype.kind == "c" else real)
            for x in args
        ]
        xs = [at.vector(dtype=x.dtype) for x in args]
        out = Elemwise(op)(*xs)
    found = reference(xs, [out], args)[0]
    if isinstance(op, aes.RoundHalfAwayFromZero):
        # Aesara stands in for the `round` of C, by a formula that makes -0 of 0.
        return np.where(args[0] == 0, args[0], found).astype(found.dtype)
    return found


def is_sign_of_zero_open(op, args, result):
    """Where the hardware or a library chooses the sign of a zero."""
    x, y = args[0], args[-1]
    if isinstance(op, aes.ScalarMaximum | aes.ScalarMinimum):
        # NumPy takes the second of two zeros where it has vectors of x86 (float32, float64), the
        # first where it has none (float16), as Aesara's C code does; Arm's and XLA's go by signs.
        return (x == 0) & (y == 0)
    if isinstance(op, aes.Pow):
        # What vanishes beside infinities and NaN takes the sign of a NaN, a processor's choice.
        return (result == 0) & ~(np.isfinite(x) & np.isfinite(y))
    # In SciPy that of 0 is 0, whatever its sign, and what underflows loses its own.
    return isinstance(op, aem.I1 | aem.Jv)


def undefined(op, args):
    """Where the hardware or a library chooses the result, and so there is nothing to compare."""
    kinds = {x.dtype.kind for x in args}
    x, y = args[0], args[-1]
    if isinstance(op, aes.FloorDivide | aes.Mod) and kinds <= set("biu"):
        return y == 0
    if isinstance(op, aem.Gamma):
        older = np.isinf(scipy.special.gamma(-1.0))  # Newer has those of C at poles.
        return older & (x <= 0) & (x == np.floor(x))
    if isinstance(op, aem.J0 | aem.J1 | aem.Jv):
        # SciPy rounds the difference of y and pi/4, and has no orders so large.
        return (np.abs(x.astype(float)) > 1e6) | (np.abs(y.astype(float)) > 1e6)
    if isinstance(op, aem.Iv):
        return (x < 0) & (y == 0)  # inf in SciPy, where the limit may be -inf.
    return False


def operand(op, arity, position, x):
    """Of these numbers every one of the first operand with every one of the second."""
    spec = getattr(op, "nfunc_spec", None)
    if x.dtype.kind in "iu" and (spec is None or spec[1] != arity):
        # NumPy computes with Python integers there, and refuses those that overflow.
        x = np.clip(x, -5 if x.dtype.kind == "i" else 0, 5)
    if isinstance(op, aes.Pow) and position == 1 and x.dtype.kind == "i":
        x = np.maximum(x, 0)  # NumPy refuses a negative power of integers.
    i, j = np.divmod(np.arange(len(x) ** 2), len(x))
    return x[(i, j, (i + j) % len(x))[position]]


# SciPy has these of complex numbers, JAX does not.
COMPLEX_LATER = (aem.Erf, aem.Gamma, aem.Psi)


def has_rule(op, dtype):
    return not (isinstance(op, COMPLEX_LATER) and dtype.startswith("complex"))


def numbers_and_limits(dtype):
    return values(dtype, limits=True)


def cases_of(op, combinations, numbers=numbers_and_limits):
    """Inputs with their values, and an output per combination of dtypes that Aesara has."""
    inputs, cases = {}, []
    for dtypes in combinations:
        keys = list(enumerate(dtypes))
        for d, dtype in keys:
            if (d, dtype) not in inputs:
                x = at.vector(f"{dtype}_{d}", dtype=dtype)
                inputs[d, dtype] = x, operand(op, len(dtypes), d, numbers(dtype))
        xs, args = zip(*(inputs[key] for key in keys), strict=True)
        try:
            out = Elemwise(op)(*xs)
            cases.append((op, args, out, expected(op, xs, out, args)))
        except (TypeError, ValueError, NotImplementedError):
            continue  # Aesara, or NumPy under it, has no such function of these dtypes.
    return list(inputs.values()), cases


def computed(inputs, cases, run=by_equation):
    """What one program for all cases gives of each, with the case."""
    variables, operands = zip(*inputs, strict=True)
    f = jaxprgen.compile(variables, [out for _, _, out, _ in cases])
    check_jaxpr(f.jaxpr(*operands).jaxpr)
    for ours, case in zip(run(f, *operands), cases, strict=True):
        assert ours.dtype == case[2].dtype
        yield np.asarray(ours), case


def compare(inputs, cases, run=by_equation):
    """JAX and Aesara agree on each case."""
    for ours, (op, args, out, theirs) in computed(inputs, cases, run):
        hidden = undefined(op, args)
        ours, theirs = np.where(hidden, 1, ours), np.where(hidden, 1, theirs)
        assert_same(ours, theirs, where=str(out.owner))
        if theirs.dtype.kind == "f":
            zero = (theirs == 0) & ~np.asarray(is_sign_of_zero_open(op, args, theirs))
            signs = np.signbit(ours[zero]), np.signbit(theirs[zero])
            np.testing.assert_array_equal(*signs, err_msg=f"signs of zeros of {out.owner}")


def functions(ops):
    """Those that are not arithmetic."""
    return [op for op in ops if not isinstance(op, ARITHMETIC)]


@pytest.mark.parametrize("op", functions(UNARY), ids=name)
def test_unary(op):
    compare(*cases_of(op, [(dtype,) for dtype in DTYPES if has_rule(op, dtype)]))


# A quick run has 33: a number without a divisor of 14, so that each dtype is at each position.
PAIRS = sample(itertools.product(DTYPES, DTYPES), 33)


@pytest.mark.parametrize("op", functions(BINARY), ids=name)
def test_binary(op):
    compare(*cases_of(op, PAIRS))


@pytest.mark.parametrize("op", [aem.jv, aem.iv], ids=str)
def test_bessel(op):
    # Each pair of dtypes has loops to compile: every dtype is order once, and argument once.
    real = [dtype for dtype in DTYPES if not dtype.startswith("complex")]
    compare(*cases_of(op, list(zip(real, real[5:] + real[:5], strict=True))))


# A third dtype for each pair, so that every pair of positions sees every pair of dtypes.
TRIPLES = [(d, e, DTYPES[(DTYPES.index(d) + DTYPES.index(e)) % len(DTYPES)]) for d, e in PAIRS]


@pytest.mark.parametrize("op", functions(TERNARY) + VARIADIC, ids=name)
def test_ternary(op):
    compare(*cases_of(op, TRIPLES))


@pytest.mark.parametrize(
    "dtype", sample(["uint64", "bool", "float32", "float16", "complex64", "int8"], 2)
)
def test_one_program_of_all(dtype):
    """The tables above run equation by equation; here XLA compiles what is one program."""
    inputs, cases = [], []
    for op in UNARY + BINARY + VARIADIC:
        if has_rule(op, dtype):
            more = cases_of(op, [(dtype,) * (op.nin if op.nin > 0 else 2)])
            inputs += more[0]
            cases += more[1]
    assert len(cases) > 40
    compare(inputs, cases, lambda f, *args: f(*args))


# --- Beyond the tables -------------------------------------------------------------------


EXACT = [
    op
    for op in BINARY + VARIADIC
    if type(op) in {aes.Add, aes.Sub, aes.Mul, aes.TrueDivide, aes.FloorDivide, aes.Mod, aes.LT}
    or type(op) in {aes.LE, aes.GT, aes.GE, aes.EQ, aes.NEQ, aes.ScalarMaximum, aes.ScalarMinimum}
]


@functools.cache
def exact_operations(dtype):
    xs = [at.vector(dtype=dtype) for _ in range(2)]
    outputs = [Elemwise(op)(*xs) for op in EXACT]
    mode = aesara.compile.mode.Mode(linker="py", optimizer=None)
    return jaxprgen.compile(xs, outputs), aesara.function(xs, outputs, mode=mode), outputs


def any_number(dtype):
    if np.dtype(dtype).kind != "f":
        return hnp.from_dtype(np.dtype(dtype))
    # XLA's CPU code takes subnormal numbers for zero: no operands whose products are subnormal.
    size = st.floats(2.0**-40, 2.0**40, width=np.dtype(dtype).itemsize * 8)
    return st.sampled_from(FLOATS) | size | size.map(lambda x: -x)


@pytest.mark.parametrize("dtype", ["float64", "float32", "int64", "int8", "uint8"])
@examples(2)
@given(data=st.data())
def test_arithmetic_is_exact_on_any_numbers(dtype, data):
    arrays = hnp.arrays(dtype, 8, elements=any_number(dtype))
    x, y = data.draw(arrays), data.draw(arrays)
    if np.dtype(dtype).kind in "iu":
        y[y == 0] = 1
    ours, theirs, outputs = exact_operations(dtype)
    with np.errstate(all="ignore"):
        wanted = theirs(x, y)
    for mine, yours, out in zip(ours(x, y), wanted, outputs, strict=True):
        assert_same(mine, yours, rtol=0, where=str(out.owner))


def test_comparisons_stay_exact_without_64_bits():
    x, y, z = at.ivector("x"), at.vector("y", dtype="uint32"), at.fvector("z")
    pairs = [(x, y), (y, x), (x, z), (z, y)]
    outputs = [op(*pair) for op in (at.lt, at.ge, at.eq) for pair in pairs]
    args = [
        np.array([-1, 5, 0], "int32"),
        np.array([2**32 - 1, 5, 2**31], "uint32"),
        np.array([-1, 5, np.nan], "float32"),
    ]
    with without_x64():
        f = jaxprgen.compile([x, y, z], outputs)
        types = [v.aval for eqn in f.jaxpr(*args).jaxpr.eqns for v in eqn.outvars]
        ours = f(*args)
    assert max(aval.dtype.itemsize for aval in types) == 4
    jax.tree.map(assert_same, list(ours), reference([x, y, z], outputs, args))


def test_complex_numbers_are_ordered_as_in_numpy():
    parts = [0, -1, 2, np.inf, -np.inf, np.nan]
    numbers = np.array([complex(a, b) for a in parts for b in parts])
    x, y = at.zvector("x"), at.zvector("y")
    ops = [at.lt, at.le, at.gt, at.ge, at.eq, at.neq, at.maximum, at.minimum]
    outputs = [op(x[:, None], y[None, :]) for op in ops]
    assert_agrees([x, y], [*outputs, at.isnan(x), at.isinf(x)], [numbers, numbers])


@pytest.mark.parametrize("dtype", ["float64", "float32", "int64", "uint8", "bool"])
def test_scalar_graphs(dtype):
    x, y = (aes.get_scalar_type(dtype)() for _ in range(2))
    outputs = [
        x + y,
        x * y,
        aes.mean(x, y),
        aes.mean(x),
        aes.eq(x, y),
        aes.second(x, y),
        aes.exp(x),
    ]
    args = [np.array(1, dtype)[()], np.array(0, dtype)[()]]
    ours = jaxprgen.compile([x, y], outputs)(*args)
    for mine, yours, out in zip(ours, reference([x, y], outputs, args), outputs, strict=True):
        # A scalar Op's ``perform`` leaves the result in the dtype that NumPy computed.
        assert_same(mine, np.asarray(yours, out.dtype), 1e-3, where=str(out.owner))


@pytest.mark.parametrize("dtype", sample(["uint8", "float64", "int64"], 2))
def test_a_known_scalar_beside_one_that_is_not(dtype):
    x, two, three = (
        at.scalar("x", dtype=dtype),
        *(at.constant(np.asarray(n, dtype)) for n in (2, 3)),
    )
    outputs = []
    for op in [*BINARY, aes.pow, aem.jv, aem.iv]:
        for operands in [(two, x), (x, three)]:
            try:
                outputs.append(Elemwise(op)(*operands))
            except (TypeError, NotImplementedError):
                continue
    args = [np.asarray(5, dtype)]
    ours = by_equation(jaxprgen.compile([x], outputs), *args)
    for mine, yours, out in zip(ours, reference([x], outputs, args), outputs, strict=True):
        assert_same(mine, yours, where=str(out.owner))


def test_known_integers_are_folded_in_the_declared_precision():
    """NumPy alone would compute ``1 / 2`` as 0 of integers, and functions of small ones roughly."""
    functions = [at.reciprocal, at.exp, at.sqrt, at.arctan, at.log, at.tanh, at.sin, at.expm1]
    for dtype in ["float64", "bool", *(d for d in DTYPES if "int" in d)]:
        array, given = np.array([1, 3, 7], dtype), at.vector(dtype=dtype)
        known = at.constant(array)  # An Op that was used before has notes of its own.
        ops = functions[dtype == "bool" :]
        folded = jaxprgen.compile([], [op(known) for op in ops])()
        theirs = reference([given], [op(given) for op in ops], [array])
        jax.tree.map(assert_same, list(folded), theirs)
