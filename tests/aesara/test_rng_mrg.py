"""The generator of `aesara.sandbox.rng_mrg`: draws and states equal Aesara's bit for bit."""

from contextlib import nullcontext

import aesara
import aesara.tensor as at
import jax
import numpy as np
import pytest
from aesara.compile.mode import Mode
from catalogue.draws import rng_mrg  # It mends Aesara's own implementation on NumPy 2.
from hypothesis import example, given, strategies as st
from laws import reference, refusal

import jaxprgen
from jaxprgen.errors import IntegerRangeError, ShapeMismatchError, UnsupportedOpError

FLOATS = ("float16", "float32", "float64")
state = at.imatrix("state")


def states(count, seed=0):
    """Some states, the first one of the largest numbers."""
    found = np.random.default_rng(seed).integers(0, rng_mrg.M2, (count, 6)).astype("int32")
    found[:1] = [rng_mrg.M1 - 1] * 3 + [rng_mrg.M2 - 1] * 3
    return found


def narrow():
    """Without 64 bits."""
    home = jax if hasattr(jax, "enable_x64") else jax.experimental
    return home.enable_x64(False)


def same_bits(ours, theirs):
    for mine, yours in zip(ours, theirs, strict=True):
        assert (mine.dtype, mine.shape) == (yours.dtype, yours.shape)
        assert np.array_equal(mine, yours)


shapes = st.lists(st.integers(0, 4), max_size=3)


@example(3, [7], "float64", 0)  # The last step advances one stream of three.
@example(5, [3], "float32", 0)
@given(st.integers(1, 7), shapes, st.sampled_from(FLOATS), st.integers(0, 9))
def test_fewer_draws_than_streams_and_more(streams, shape, dtype, seed):
    size, start = at.constant(np.int64(shape)), states(streams, seed)
    outputs = rng_mrg.mrg_uniform.new(state, len(shape), dtype, size)
    theirs = reference([state], outputs, [start])
    same_bits(jaxprgen.compile([state], outputs)(start), theirs)


POWERS = [2**k + d for k in range(31) for d in (-1, 0, 1) if 0 < 2**k + d < 2**31]
TWICE = [553648129, 1090519041, 1107296258]
"""Which round up only because Aesara rounds to double precision first; no others do."""
NUMBERS = np.concatenate([POWERS, TWICE, np.random.default_rng(0).integers(1, 2**31, 5000)])


def drawing():
    """States that draw these numbers."""
    found = np.zeros((len(NUMBERS), 6), "int32")
    found[:, 1] = (NUMBERS & (2**22 - 1)) << 9 | NUMBERS >> 22
    return found


def drawn(dtype):
    return rng_mrg.mrg_uniform.new(state, 1, dtype, [len(NUMBERS)])


@pytest.mark.parametrize("dtype", FLOATS)
def test_numbers_are_rounded_as_aesara_does(dtype):
    theirs = reference([state], drawn(dtype), [drawing()])
    same_bits(jaxprgen.compile([state], drawn(dtype))(drawing()), theirs)
    if dtype == "float64":
        assert np.array_equal(theirs[1] * 2**31, NUMBERS)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.filterwarnings("ignore::jaxprgen.errors.PrecisionWarning")
def test_without_64_bits(dtype):
    """A draw of double precision is one of single precision then."""
    theirs = reference([state], drawn(dtype.replace("64", "32")), [drawing()])
    with narrow():
        same_bits(jaxprgen.compile([state], drawn(dtype))(drawing()), theirs)


def test_sizes_may_be_symbolic():
    """A program for all sizes does not know how many streams a step advances."""
    from jax import export

    x = at.dmatrix("x")
    f = jaxprgen.compile([x, state], rng_mrg.mrg_uniform.new(state, 2, "float32", x.shape))
    n, m, k = export.symbolic_shape("n, m, k")
    types = [jax.ShapeDtypeStruct((n, m), "float64"), jax.ShapeDtypeStruct((k, 6), "int32")]
    g = export.export(jax.jit(f))(*types)
    for shape in [(1, 1), (2, 2), (3, 4), (1, 7)]:
        args = np.ones(shape), states(4)
        same_bits(g.call(*args), f(*args))


def by_mode(mode):
    return lambda outputs: aesara.function([], outputs, mode=mode)


def by_us(outputs):
    return jaxprgen.function([], outputs)


@pytest.mark.parametrize("function", [by_mode("JAXPR"), by_us])
def test_a_stream_of_aesara(function):
    """Its state is a shared variable that every call advances."""

    def calls(function):
        stream = rng_mrg.MRG_RandomStream(1234)
        chances = at.constant(np.full((4, 3), 1 / 3))
        f = function(
            [stream.uniform((5, 7)), stream.multinomial(pvals=chances), stream.normal((3, 3))]
        )
        return [[np.asarray(x) for x in f()] for _ in range(3)]

    theirs = calls(by_mode(Mode("py", None)))
    for mine, yours in zip(calls(function), theirs, strict=True):
        same_bits(mine[:2], yours[:2])
        np.testing.assert_allclose(mine[2], yours[2], 1e-12)


@given(st.integers(0, 99), st.sampled_from([rng_mrg.M1, rng_mrg.M2, 1, 2, -7]), st.booleans())
@pytest.mark.filterwarnings("ignore::jaxprgen.errors.PrecisionWarning")
def test_products_modulo(seed, modulus, wide):
    draw = np.random.default_rng(seed)
    a, s, m = at.lmatrix(), at.ivector(), at.iscalar()
    out = rng_mrg.DotModulo()(a, s, m, -a, s, m)
    matrix = draw.integers(-(2**31) + 1, 2**31, (3, 3))
    args = [matrix, draw.integers(-(2**31), 2**31, 3).astype("int32"), np.int32(modulus)]
    theirs = reference([a, s, m], [out], args)
    with nullcontext() if wide else narrow():
        same_bits([jaxprgen.compile([a, s, m], out)(*args)], theirs)


def test_what_is_refused():
    size = at.lvector("size")
    f = jaxprgen.compile([state, size], rng_mrg.mrg_uniform.new(state, 1, "float32", size))
    refused = [
        (ShapeMismatchError, np.ones((0, 6), "int32"), [2], "has shape (0, 6) and dtype int32"),
        (ShapeMismatchError, np.ones((2, 5), "int32"), [2], "has shape (2, 5) and dtype int32"),
        (ShapeMismatchError, states(2), [-1], "Sizes must be >= 0, got (-1,)."),
        (IntegerRangeError, states(2), [2**31], "at most 2**31 - 1 numbers at once"),
    ]
    for kind, start, shape, text in refused:
        assert text in refusal(kind, f, start, np.int64(shape))[0]
    with pytest.raises(UnsupportedOpError, match="It draws float16, float32, float64, not int8"):
        jaxprgen.compile([state], rng_mrg.mrg_uniform.new(state, 1, "int8", [3]))(states(2))
