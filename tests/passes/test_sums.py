"""Sums of floating-point numbers keep their parentheses, and what cancels in them."""

import itertools
from fractions import Fraction

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, strategies as st
from profiles import amount, examples, sample

import jaxprgen
from jaxprgen.ir.programs import count_equations, verify
from jaxprgen.passes import DEFAULT, MapToVmap, ScanRepeats, VmapRepeats, repetitions

SHAPE = 3
REWRITES = {
    "batched": [VmapRepeats(least=3, reassociate=True)],
    "looped": [ScanRepeats(least=3, reassociate=True)],
    "default": DEFAULT,
}


@pytest.fixture(scope="module", autouse=True)
def always():
    """Batch also where nothing is gained."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(repetitions, "_SAVED", -(10**9))
        yield


# --- Any sum --------------------------------------------------------------------------------

BASES = {
    "a": lambda a, b, i: a[i],
    "b": lambda a, b, i: b[i],
    "first": lambda a, b, i: b[0],
    "negated": lambda a, b, i: -b[i],
    "multiple": lambda a, b, i: b[i] * b[i].dtype.type(0.75),
    "difference": lambda a, b, i: a[i] - b[i],
    "excess": lambda a, b, i: a[i] - b[0],
    "from the right": lambda a, b, i: a[i] - (b[i] - (a[0] - b[0])),
    "three": lambda a, b, i: (a[i] - b[i]) + b[0],
    "product": lambda a, b, i: (a[i] - b[i]) * (b[i] / b[0]),
}
"""Terms of one repetition, computed alike with NumPy and JAX."""


def padded(x, i, n):
    """Return one element with zeros around it, as derivatives of an element have them."""
    low = i % SHAPE
    return np.eye(SHAPE, dtype=x.dtype)[low] * x if isinstance(x, np.generic) else jax.lax.pad(
        jnp.reshape(x, (1,)), np.zeros((), x.dtype), [(low, SHAPE - 1 - low, 0)]
    )  # fmt: skip


@st.composite
def contributions(draw):
    """What one repetition adds: signs, terms, which side they are on, and places of padding."""
    some = st.tuples(
        st.sampled_from([1, 1, -1]), st.sampled_from([*BASES]), st.booleans(), st.integers(0, 2)
    )
    return draw(st.lists(some, min_size=1, max_size=4))


@st.composite
def sums(draw):
    """A sum as its parts: for each repetition, what it contributes; and whether it is padded."""
    n = draw(st.sampled_from([8, 13]))
    kinds = draw(st.lists(contributions(), min_size=1, max_size=3))
    turns = draw(st.sampled_from(["one after the other", "drawn"]))
    is_drawn = turns == "drawn"
    which = [draw(st.integers(0, 2)) if is_drawn else i for i in range(n)]
    return [kinds[t % len(kinds)] for t in which], draw(st.sampled_from(["no", "all", "some"]))


def terms_of(parts, pads, a, b):
    """Return the terms of a sum in their order, with their signs and sides."""
    found = []
    for i, part in enumerate(parts):
        for sign, name, on_the_right, shift in part:
            x = BASES[name](a, b, i)
            if pads == "all" or (pads == "some" and name == "a"):
                x = padded(x, i + shift, len(parts))
            found.append((sign, x, on_the_right))
    return found


def added(terms, start):
    """Return a sum, written from the left; a term that is added may be on either side."""
    for sign, x, on_the_right in terms:
        x = x if x.shape == start.shape else jnp.broadcast_to(x, start.shape)
        start = start - x if sign < 0 else start + x if on_the_right else x + start
    return start


def exact_sums(terms, shape):
    """Return partial sums without rounding, and the sum of the absolute values."""
    columns = [np.broadcast_to(sign * x, shape).ravel().tolist() for sign, x, _ in terms]
    total = absolute = np.zeros(int(np.prod(shape)), object)
    partial = []
    for column in columns:
        x = np.asarray([Fraction(v) for v in column], object)
        total, absolute = total + x, absolute + abs(x)
        partial.append(total)
    return partial, absolute


def values(dtype, regime, n):
    """Return numbers that cancel, numbers whose sums overflow, or any."""
    rng, info = np.random.default_rng(n), np.finfo(dtype)
    size = {"cancel": min(1.7e9, float(info.max) / 1000), "huge": float(info.max) / 5, "any": 1}
    b = (size[regime] * rng.uniform(0.99, 1, n)).astype(dtype)
    if regime == "any":
        return (b * rng.normal(size=n)).astype(dtype), (b * rng.normal(size=n)).astype(dtype)
    return (b * (1 + 4 * info.eps * rng.integers(0, 9, n))).astype(dtype), b


def assert_right(program, rewrites, terms, a, b):
    """Compare a program after passes with its sum without rounding.

    The bound is that of any order of the same additions: Higham, *Accuracy and Stability of
    Numerical Algorithms* (2002), section 4.2. Sums that are not far from overflow may overflow.
    """
    dtype, shape = terms[0][1].dtype, terms[0][1].shape
    partial, absolute = exact_sums(terms, shape)
    if 2 * max(abs(x) for row in partial for x in row) > 0.9 * float(np.finfo(dtype).max):
        return
    changed = program
    for each in rewrites:
        changed = each(changed)
    verify(changed)
    with jax.disable_jit():  # One equation at a time, as XLA may leave rounding out.
        (ours,) = jaxprgen.jaxpr_as_fun(changed)(a, b)
    assert np.all(np.isfinite(ours)), (ours, changed)
    u = Fraction(float(np.finfo(dtype).eps)) / 2
    bound = len(terms) * u / (1 - len(terms) * u)
    for x, wanted, size in zip(np.ravel(ours).tolist(), partial[-1], absolute, strict=True):
        assert abs(Fraction(x) - wanted) <= bound * size, (x, float(wanted), changed)


DTYPES = st.sampled_from([np.float16, np.float32, np.float64])


@pytest.mark.parametrize("rewrite", REWRITES)
@pytest.mark.parametrize("regime", ["cancel", "huge", "any"])
@examples(4, quick=0.5)
@given(parts=sums(), dtype=DTYPES)
def test_errors_of_sums_are_those_of_some_order_of_their_terms(regime, rewrite, parts, dtype):
    parts, pads = parts
    a, b = values(dtype, regime, len(parts))
    start = np.zeros(() if pads == "no" else (SHAPE,), dtype)
    terms = [(1, start, True), *terms_of(parts, pads, a, b)]
    program = jax.make_jaxpr(lambda a, b: added(terms_of(parts, pads, a, b), start))(a, b)
    assert_right(program, REWRITES[rewrite], terms, a, b)


@pytest.mark.parametrize("regime", ["cancel", "huge", "any"])
@examples(4, quick=0.5)
@given(part=contributions(), dtype=DTYPES)
def test_errors_of_sums_by_loops_are_those_of_some_order_of_their_terms(regime, part, dtype):
    a, b = values(dtype, regime, 13)

    def function(a, b):
        def step(total, row):
            x, y = ({0: first, 1: own} for first, own in zip((a[0], b[0]), row, strict=True))
            each = [(sign, BASES[name](x, y, 1), side) for sign, name, side, _ in part]
            return added(each, total), None

        return jax.lax.scan(step, jnp.zeros((), dtype), (a, b))[0]

    terms = [(1, np.zeros((), dtype), True), *terms_of([part] * 13, "no", a, b)]
    for rewrites in ([MapToVmap(reassociate=True)], DEFAULT):
        assert_right(jax.make_jaxpr(function)(a, b), rewrites, terms, a, b)


# --- Sums that correct their own rounding -----------------------------------------------------


def kahan(x):
    total = error = jnp.zeros((), x.dtype)
    for i in range(len(x)):
        y = x[i] - error
        new = total + y
        error, total = (new - total) - y, new
    return total, error


def two_sum(x):
    total = error = jnp.zeros((), x.dtype)
    for i in range(len(x)):
        new = total + x[i]
        back = new - total
        error, total = error + ((total - (new - back)) + (x[i] - back)), new
    return total, error


def neumaier(x):
    total = error = jnp.zeros((), x.dtype)
    for i in range(len(x)):
        new, y = total + x[i], x[i]
        is_larger = jnp.abs(total) >= jnp.abs(y)
        error += jnp.where(is_larger, (total - new) + y, (y - new) + total)
        total = new
    return total + error


def fast_two_sums(x):
    """The error of each sum of neighbours."""
    sums = [x[i] + x[i + 1] for i in range(len(x) - 1)]
    return [x[i + 1] - (s - x[i]) for i, s in enumerate(sums)], sum(sums)


def in_pairs(x):
    rows = [x[i] for i in range(len(x))]
    while len(rows) > 1:
        rows = [x + y for x, y in zip(rows[::2], rows[1::2], strict=True)]
    return rows[0]


CORRECTED = [kahan, two_sum, neumaier, in_pairs]


@pytest.mark.parametrize(
    ("f", "dtype", "passes"),
    sample(itertools.product(CORRECTED, [np.float32, np.float64], REWRITES), 9),
)
def test_corrected_sums_keep_every_bit(f, dtype, passes):
    x = np.asarray([1e5, *np.random.default_rng(0).uniform(0, 1e-3, 127)], dtype)
    program = changed = jax.make_jaxpr(f)(x)
    for each in REWRITES[passes]:
        changed = each(changed)
    if passes == "default":
        assert len(changed.jaxpr.eqns) < len(program.jaxpr.eqns)
    with jax.disable_jit():
        ours, wanted = (jaxprgen.jaxpr_as_fun(each)(x) for each in (changed, program))
    np.testing.assert_array_equal(ours, wanted)


def test_errors_of_single_additions_stay():
    x = np.random.default_rng(0).uniform(-1, 1, 40).astype(np.float32)
    with jax.disable_jit():
        ours = jaxprgen.transform(fast_two_sums, VmapRepeats(reassociate=True))(x)[0]
    np.testing.assert_array_equal(ours, x[1:] - ((x[:-1] + x[1:]) - x[:-1]))


def test_a_factor_that_all_terms_share_stays_inside():
    x = np.full(40, 1e307)

    def function(x, a):
        return sum(a * x[i] for i in range(40)), sum(x[i] * a - a for i in range(40))

    ours = jaxprgen.transform(function, *DEFAULT)(x, 1e-300)
    np.testing.assert_allclose(ours, 40e7)


# --- Programs ---------------------------------------------------------------------------------


def alternating_signs(x):
    total = 0.0
    for i in range(len(x)):
        total = total + jnp.sin(x[i]) - jnp.cos(x[i])
    return total


def several_kinds(x):
    """One repetition contributes four terms, three of them of two kinds, and the last one fewer."""
    total = 0.5
    for i in range(len(x)):
        total = total - jnp.sin(x[i]) + jnp.cos(x[i]) + jnp.cos(x[i] + 1.0)
        if i < len(x) - 1:
            total = jnp.exp(x[i]) + total
    return total + jnp.tan(x[3])


def groups(x):
    """Each group has another number of terms."""
    total, place = 0.0, 0
    for i in range(len(x) // 4):
        total = total + jnp.sin(x[i])
        for _ in range(1 + i % 5 if i % 2 else 4):
            total = total + jnp.exp(x[place % len(x)])
            place += 1
    return total


def differences_of_neighbours(x):
    rows = range(2, len(x))
    return sum((x[i] - 0.4 * x[i - 1] + 0.2 * x[i - 2]) ** 2 for i in rows) + 0.0 * jnp.sum(x)


def pairs(x):
    """Every element is read by several pairs, in several roles."""
    few = range(len(x) // 5)
    return sum(jnp.sin(x[i] - x[j] * x[i]) for i in few for j in few if i != j)


def moving_windows(x):
    """Blocks that are read overlap, and so do those of the gradient."""
    return sum(jnp.prod(jnp.sin(x[i : i + 3])) for i in range(len(x) - 3))


SOME = [alternating_signs, several_kinds, groups, differences_of_neighbours, pairs, moving_windows]
SOME = [*SOME, *map(jax.grad, SOME)]


@pytest.mark.parametrize("f", SOME, ids=lambda f: f.__name__)
def test_programs_of_sums_do_not_grow(f):
    counts = []
    for n in (40, amount(quick=60, deep=80)):
        x = np.linspace(-1, 1, n)
        program = jax.make_jaxpr(jaxprgen.transform(f, VmapRepeats(reassociate=True)))(x)
        counts.append(count_equations(program))
        if n == 40:
            np.testing.assert_allclose(
                jaxprgen.jaxpr_as_fun(program)(x)[0], jax.jit(f)(x), rtol=1e-12
            )
    assert counts[0] == counts[1]
