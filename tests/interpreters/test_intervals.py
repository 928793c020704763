"""The law of intervals: results for arguments within bounds lie within the computed bounds."""

import itertools

import aesara.tensor as at
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import Phase, given, strategies as st
from intervals import between, bounds
from jax import lax
from profiles import examples

import jaxprgen
from jaxprgen.errors import InterpretationError, MissingRuleError

SPECIAL = [0.0, -0.0, 1.0, -1.0, 0.5, np.pi / 2, -np.pi, 3.0, 1e-300, -1e-40, 1e38, -1e300]
NUMBERS = st.one_of(
    st.sampled_from([*SPECIAL, np.inf, -np.inf]),
    st.floats(-5, 5),
    st.floats(-1e-3, 1e-3),
    st.floats(allow_nan=False),
)
SIZE = 4


@st.composite
def boxes(draw):
    """Lower bounds, upper bounds, and relative positions between them."""
    ends = np.array(draw(st.lists(NUMBERS, min_size=2 * SIZE, max_size=2 * SIZE)))
    thin = draw(st.lists(st.booleans(), min_size=SIZE, max_size=SIZE))
    first, second = ends[:SIZE], np.where(thin, ends[:SIZE], ends[SIZE:])
    low, high = np.minimum(first, second), np.maximum(first, second)
    shares = draw(st.lists(st.floats(0, 1), min_size=2 * SIZE, max_size=2 * SIZE))
    return low, high, np.reshape(shares, (2, SIZE))


def points(low, high, shares):
    """The bounds, points between them, and special values between them."""
    largest = np.finfo(low.dtype).max
    finite = np.clip(low, -largest, largest), np.clip(high, -largest, largest)
    yield low
    yield high
    for share in shares:
        yield np.clip(finite[0] * (1 - share) + finite[1] * share, low, high).astype(low.dtype)
    for x in (0.0, 1.0, -np.pi / 2):
        yield np.clip(np.asarray(x, low.dtype), low, high)


def narrowed(x, dtype):
    """Convert to a dtype, without subnormal numbers, which XLA may flush to zero."""
    with np.errstate(over="ignore", under="ignore"):
        return np.where(np.abs(x) < np.finfo(dtype).tiny, 0, x).astype(dtype)


NAMES = """abs arccos arccosh arcsin arcsinh arctan arctanh cbrt ceil cos cosh exp exp2 expm1 floor
isfinite isnan log log1p negative rint round sign sin sinh sqrt square tan tanh sort argmax argmin
cumsum sum prod max min flip mean"""
FUNCTIONS = {name: getattr(jnp, name) for name in NAMES.split()} | {
    "erf": lax.erf,
    "erfc": lax.erfc,
    "erf_inv": lax.erf_inv,
    "rsqrt": lax.rsqrt,
    "away from zero": lax.round,
    "logistic": jax.nn.sigmoid,
    "relu": jax.nn.relu,
    "softplus": lambda x: jnp.log1p(jnp.exp(x)),
    "logsumexp": jax.nn.logsumexp,
    "softmax": jax.nn.softmax,
    "power of 3": lambda x: x**3,
    "power of -2": lambda x: x**-2,
    "power of -3": lambda x: x**-3,
    "power of 1.5": lambda x: x**1.5,
    "power of 2": lambda x: 2.0**x,
    "x * x": lambda x: x * x,
    "x * (1 - x)": lambda x: x * (1 - x),
    "1 / x": lambda x: 1 / x,
    "clip": lambda x: jnp.clip(x, -1, 2),
    "where": lambda x: jnp.where(x > 0, jnp.log(x), x),
    "where not": lambda x: jnp.where(~(x <= 1) & (x != 2) | (x == 3), x, -x),
    "where one": lambda x: jnp.where((x >= 1) ^ (x < 2), 1.0, x[::-1]),
    "outer": lambda x: jnp.outer(x, x + 1) @ jnp.arange(SIZE) / 4,
    "matmul": lambda x: x.reshape(2, 2) @ x.reshape(2, 2).T,
    "batched": lambda x: jnp.einsum("bi,bj->b", x.reshape(2, 2), x.reshape(2, 2) + 1),
    "join": lambda x: jnp.concatenate([x[1:], jnp.pad(x, 1)[None][0], x[jnp.array([3, 0])]]),
    "roll": lambda x: jnp.roll(x, 1) - lax.dynamic_slice(x, (1,), (1,)),
    "any": lambda x: (jnp.any(x > 1), jnp.all(x > 1), jnp.max(x) > 1),
    "cumulative": lambda x: [f(x, reverse=True) for f in (lax.cummax, lax.cummin, lax.cumsum)],
    "whole": lambda x: (jnp.clip(x, -99, 99).astype(np.int32) // 3, x.astype(bool)),
    "whole numbers": lambda x: x.astype(np.int8) * np.int8(5) % np.int8(7) - x.astype(np.int8),
    "single": lambda x: x.astype(np.float32) + np.float32(1),
    "remainder": lambda x: lax.rem(x, x[::-1] - 0.5),
    "norm": lambda x: x / jnp.sqrt(jnp.sum(x**2) + 1),
    "custom": lambda x: jax.nn.silu(x) + jax.nn.gelu(x, approximate=True),
    "gradient": jax.grad(lambda x: jnp.sum(jnp.tanh(x) ** 2)),
    "scan": lambda x: lax.scan(lambda c, r: (jnp.sin(c) + r, c * r), 0.5 * x[0], x[1:]),
    "map": lambda x: lax.map(jnp.exp, x, batch_size=2),
    "fori": lambda x: lax.fori_loop(0, 4, lambda i, y: y * 0.5 + i, x),
    "while": lambda x: lax.while_loop(lambda s: s[0] < 3, lambda s: (s[0] + 1, -s[1] / 2), (0, x)),
    "cond": lambda x: lax.cond(x[0] > 0, jnp.sin, lambda y: y - 1, x),
    "switch": lambda x: lax.switch(jnp.int32(jnp.clip(x[0], -3, 3)), [jnp.cos, jnp.tanh], x),
}  # fmt: skip


def everything(x):
    return {name: f(x) for name, f in FUNCTIONS.items()}


def assert_within(names, found, results):
    for name, bound, y in zip(names, found, results, strict=True):
        assert bound.shape == y.shape and bound.dtype == y.dtype, name
        y = np.where(np.abs(y) < np.finfo(y.dtype).tiny, 0, y) if y.dtype.kind == "f" else y
        assert y in bound, (name, np.asarray(y), bound)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_results_lie_within_bounds(dtype):
    closed, shapes = jax.make_jaxpr(everything, return_shape=True)(np.ones(SIZE, dtype))
    names = [jax.tree_util.keystr(path) for path, _ in jax.tree_util.tree_leaves_with_path(shapes)]
    program = jax.jit(jaxprgen.jaxpr_as_fun(closed))
    bounded = bounds(closed)

    @examples(0.6, phases=(Phase.explicit, Phase.generate))
    @given(boxes())
    def check(box):
        low, high, shares = (narrowed(x, dtype) for x in box)
        found = bounded(between(low, high))
        for x in points(low, high, shares):
            assert_within(names, found, program(x))

    check()


@pytest.mark.parametrize("x", [2.5, -0.5, np.nextafter(0.5, 0), 2.0**52 + 1, 1 - 2.0**53, -np.inf])
def test_rounding_away_from_zero_is_exact(x):
    x = np.array(x)
    (found,) = bounds(jax.make_jaxpr(lax.round)(x))(between(x, x))
    assert found.low == found.high == jax.jit(lax.round)(x)


@pytest.mark.parametrize("n", [-2, -3])
def test_a_power_may_underflow_before_its_reciprocal_is_taken(n):
    x = np.array([-1e-19, 1e-19], np.float32)
    (found,) = bounds(jax.make_jaxpr(lambda x: x**n)(x))(between(x, x))
    assert jax.jit(lambda x: x**n)(x) in found


def test_bounds_are_tight_where_they_can_be():
    """Bounds are off by a few units in the last place: infinite ones would satisfy the law."""
    x = between(np.array([-1.0, 0.5]), np.array([2.0, 0.5]))
    wanted = {
        "square": (lambda x: x**2, [0, 0.25], [4, 0.25]),
        "product": (lambda x: x * x, [0, 0.25], [4, 0.25]),
        "exp": (jnp.exp, np.exp([-1, 0.5]), np.exp([2, 0.5])),
        "cos": (jnp.cos, [np.cos(2), np.cos(0.5)], [1, np.cos(0.5)]),
        "matmul": (lambda x: x @ np.array([2.0, -3.0]), -3.5, 2.5),
        "cond": (lambda x: lax.cond(x[0] > -5, lambda y: y, lambda y: 9 * y, x)[1], 0.5, 0.5),
        "either": (lambda x: lax.cond(x[0] > 0, lambda y: y, lambda y: 9 * y, x)[1], 0.5, 4.5),
        # Each case is of all numbers, also of those for which it is not taken.
        "where": (lambda x: jnp.where(x > 0, x, 7.0), [-1, 0.5], [7, 0.5]),
        "truth": (lambda x: x > 0, [0, 1], [1, 1]),
        "argmax": (jnp.argmax, 0, 1),
        "scan": (lambda x: lax.scan(lambda c, r: (c + r, c), 0.0, x)[0], -0.5, 2.5),
        "sort": (jnp.sort, [-1, 0.5], [0.5, 2]),
    }
    for name, (f, low, high) in wanted.items():
        found = bounds(f)(x)
        np.testing.assert_allclose(found.low, low, rtol=1e-13, atol=1e-13, err_msg=name)
        np.testing.assert_allclose(found.high, high, rtol=1e-13, atol=1e-13, err_msg=name)
        assert not found.nan.any()


def test_possible_nans_are_tracked():
    x = between(np.array([-1.0, 0.0, 2.0, 1.0]), np.array([1.0, np.inf, 3.0, np.inf]))
    assert bounds(jnp.log)(x).nan.tolist() == [True, False, False, False]
    assert bounds(lambda x: x / x)(x).nan.tolist() == [True, True, False, True]
    assert bounds(lambda x: x - x)(x).nan.tolist() == [False, True, False, True]
    assert bounds(lambda x: x * 0)(x).nan.tolist() == [False, True, False, True]
    assert bounds(jnp.sin)(x).nan.tolist() == [False, True, False, True]
    assert bounds(lambda x: jnp.where(x > 0, jnp.log(x), 0.0))(x).nan[0]
    assert bounds(lambda x: jnp.log(x) > 0)(x).low.tolist() == [0, 0, 1, 0]


def test_functions_compiled_from_graphs():
    v, w = at.dvector("v"), at.dscalar("w")
    f = jaxprgen.compile([v, w], [at.exp(-(v**2) * w).sum(), at.tanh(v)[1:] / (1 + w**2)])
    low, high = np.array([-1.0, 0.0, 2.0]), np.array([1.0, 0.5, 2.0])
    found = bounds(f)(between(low, high), between(0.0, 2.0))
    for share, w_at in itertools.product((0.0, 0.3, 1.0), (0.0, 1.0, 2.0)):
        for bound, y in zip(found, f(low + share * (high - low), w_at), strict=True):
            assert y in bound


def test_unsupported_operations_are_refused(monkeypatch):
    monkeypatch.setattr("jaxprgen.ir.evaluate.UNDECIDED", 5)
    x = between(np.zeros(3), np.ones(3))
    for f, kind, text in [
        (jax.scipy.special.gammaln, MissingRuleError, "has no rule for lgamma"),
        (lambda x: x.at[jnp.int32(x[0])].set(1.0), MissingRuleError, "has no rule for scatter"),
        (
            lambda x: lax.dynamic_index_in_dim(x, jnp.int32(2 * x[0])),
            InterpretationError,
            "exactly",
        ),
        (lambda x: x + 1j, InterpretationError, "no intervals of complex128"),
        (
            lambda x: lax.while_loop(lambda y: y[0] < 0.5, jnp.sin, x),
            InterpretationError,
            "decided",
        ),
    ]:
        with pytest.raises(kind, match=text):
            bounds(f)(x)
