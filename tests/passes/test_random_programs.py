"""Random programs that were written with loops of Python, and what each pass makes of them.

Each program is a list of statements that is repeated: sums of several kinds, recurrences with lags,
writes, rows that are kept, calls, draws, callbacks, and loops of JAX inside, of several dtypes and
on rows of one array or separate ones. Its gradient, or the body of loops around it, is tried as
well. `Pipeline` holds every pass to its class of meaning, on random and awkward inputs, with the
errors of the written order as the measure.
"""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, seed, strategies as st
from jax import lax
from profiles import amount, examples

from jaxprgen.ir.programs import count_equations
from jaxprgen.passes import (
    AssociativeScan,
    DistributeScan,
    FewerKernels,
    GuardBranches,
    Hoist,
    Inline,
    MapToVmap,
    Pipeline,
    ReduceInScan,
    ReverseScan,
    ScanRepeats,
    ShareScan,
    Simplify,
    Stabilize,
    VmapRepeats,
    default,
)

COLUMNS = 3
LARGEST = 1000
"""Larger programs, of more equations, are not tried: they take too long to trace."""
ALONE = [
    *(AssociativeScan(), AssociativeScan(reassociate=True), DistributeScan(), Hoist(), Inline()),
    *(DistributeScan(reassociate=True), GuardBranches(), GuardBranches(ties="first"), MapToVmap()),
    *(ReduceInScan(), ReverseScan(), ShareScan(), Simplify(), Stabilize(), FewerKernels()),
    *(ScanRepeats(), ScanRepeats(least=2, reassociate=True)),
    *(VmapRepeats(), VmapRepeats(least=2, reassociate=True)),
]
TOGETHER = [default(), default(graph=True), default(calls=0), default(calls=1_000_000)]


@jax.custom_jvp
def saturated(v):
    return v / (1 + abs(v))


@saturated.defjvp
def _(primals, tangents):
    (v,), (t,) = primals, tangents
    return saturated(v), t / (1 + abs(v)) ** 2


def until(v):
    """Halve a number until it is small: a loop of a length that the number decides."""
    return lax.while_loop(lambda c: abs(c) > 0.5, lambda c: 0.5 * c, jnp.clip(v, -40, 40))


def rows(v):
    noise = jnp.asarray([0.1, 0.7, -0.3], v.dtype)
    return lax.scan(lambda c, r: (jnp.tanh(c + r), c * r), v, noise)


def nested(v):
    """Run a loop in a loop; the inner one has the length of the outer one's place."""

    def step(i, c):
        return lax.fori_loop(0, i, lambda j, d: 0.3 * d + j, jnp.sin(c))

    return lax.fori_loop(0, jnp.int32(3), step, v)


def rows_of_rows(v):
    noise = jnp.asarray([[0.1, 0.7], [-0.3, 0.2]], v.dtype)

    def step(c, row):
        c, kept = lax.scan(lambda d, r: (jnp.tanh(d + r), d * r), c, row)
        return c, kept.sum() - c

    return lax.scan(step, v, noise, reverse=True)[1].sum()


def each_until(v):
    """Run a loop on rows, some of which end before others."""
    return jax.vmap(until)(jnp.stack([v, 3 * v, -v])).sum()


UNARY = [
    *(jnp.sin, jnp.tanh, jnp.exp, jnp.negative, saturated, jax.jit(jnp.cos), lambda v: 0.5 * v),
    *(lambda v: v * v, lambda v: jnp.where(v > 0, jnp.log(v), v), lambda v: jnp.sqrt(abs(v))),
    *(lambda v: v.astype(jnp.float32).astype(v.dtype), jax.nn.relu, jnp.log1p),
    *(lambda v: rows(v)[0], lambda v: rows(v)[1].sum(), lambda v: jnp.round(v)),
    lambda v: lax.cond(v > 0.2, jnp.sin, lambda u: 2 * u, v),
    lambda v: lax.fori_loop(0, 3, lambda i, c: 0.5 * c + i, v),
    *(rows_of_rows, jax.checkpoint(lambda v: jnp.sin(v) * v), lambda v: v.astype(jnp.bfloat16) * 1),
    *(lambda v: lax.map(jnp.sin, jnp.stack([v, 2 * v])).sum(), lambda v: abs(v + 0.5j) - 1),
    lambda v: lax.switch(jnp.int32(v > 0) + jnp.int32(v > 1), [jnp.cos, jnp.negative, jnp.tanh], v),
]
UNARY = [lambda v, f=f: f(v).astype(v.dtype) for f in UNARY]
WITHOUT_GRADIENT = [
    nested,
    each_until,
    until,
    lambda v: lax.fori_loop(0, jnp.int32(2), lambda i, c: c * 0.5, v),
]
BINARY = [
    *(jnp.add, jnp.subtract, jnp.multiply, jnp.maximum, jnp.minimum, jnp.hypot),
    # XLA multiplies arrays by the reciprocal of a number, which must not underflow.
    lambda v, w: v / (2 + jnp.sin(w)),
    *(lambda v, w: jnp.where(v < w, v, w * 2), lambda v, w: v - 0.3 * w),
]


@st.composite
def terms(draw, unary):
    """A scalar function of what a repetition may read: `Scope`."""
    of = draw(st.lists(st.integers(0, 9), min_size=1, max_size=3))
    steps = [(draw(st.sampled_from(unary)), draw(st.sampled_from(BINARY))) for _ in of]
    if len(of) == 1 and draw(st.booleans()):
        return lambda scope: scope.read(of[0])

    def term(scope):
        v = scope.read(of[0])
        for place, (_, g) in zip(of[1:], steps[1:], strict=True):
            v = g(v, scope.read(place))
        return steps[0][0](v)

    return term


class Scope:
    """What the statements of a repetition read and write."""

    def __init__(self, i, x, w, s, k, key):
        self.i, self.x, self.w, self.s, self.k, self.key = i, x, w, s, k, key
        # No products with zero: `SinkZeros` would mend NaN, and change the flags that it decides.
        self.acc = {"add": s - s, "mixed": 0.25 * s, "max": s, "product": 1 + 0.1 * s}
        self.low = s - s
        self.count = k[0]
        self.held = [s, 0.3 * s, s - 1]
        self.vector = x[0] * s
        self.small = s.astype(jnp.float32)
        self.flags = [s > 0, k[0].astype(jnp.uint8)]
        self.written = jnp.zeros((len(x) + 2, 2), s.dtype)
        self.kept = []

    def read(self, place):
        i, n = self.i, len(self.x)
        return (
            *(self.row(i, 0), self.row(i, 1), self.row((3 * i + 1) % n, 2), self.w[i], self.s),
            *(self.held[0], self.held[2], self.x[i] @ self.x[0], 0.1 * i + self.s),
            self.k[i].astype(self.s.dtype),
        )[place]

    def row(self, i, j):
        """Read a number of an array, or of one of several."""
        return self.x[i][j] if isinstance(self.x, list) else self.x[i, j]


def add(scope, a, b):
    scope.acc["add"] = scope.acc["add"] + a


def add_difference(scope, a, b):
    scope.acc["add"] = scope.acc["add"] + (a - b)


def add_and_subtract(scope, a, b):
    scope.acc["mixed"] = scope.acc["mixed"] + a - b


def subtract_from(scope, a, b):
    scope.acc["mixed"] = a - scope.acc["mixed"]


def compensate(scope, a, b):
    y = a - scope.low
    t = scope.acc["add"] + y
    scope.low = (t - scope.acc["add"]) - y
    scope.acc["add"] = t


def largest(scope, a, b):
    scope.acc["max"] = jnp.maximum(scope.acc["max"], a)


def multiply(scope, a, b):
    scope.acc["product"] = scope.acc["product"] * a


def count(scope, a, b):
    scope.count = scope.count + scope.k[scope.i] * jnp.where(a > b, 1, -2)


def add_small(scope, a, b):
    scope.small = scope.small + a.astype(jnp.float32)


def mark(scope, a, b):
    found, bits = scope.flags
    scope.flags = [found | (a > b), bits ^ (scope.k[scope.i].astype(jnp.uint8) + 3)]


def multiply_vector(scope, a, b):
    weights = jnp.outer(scope.x[scope.i], scope.x[0])
    scope.vector = jnp.tanh(weights @ scope.vector + a)


def project(scope, a, b):
    """Do the same thrice, as attention does."""
    parts = [jnp.sin(scope.vector * c) for c in (scope.s, a, b)]
    scope.vector = scope.vector + 0.1 * (parts[0] @ parts[1]) * parts[2]


def recur(scope, a, b):
    scope.held = [jnp.tanh(a + 0.5 * scope.held[0]), scope.held[0], scope.held[1]]


def recur_with_lag(scope, a, b):
    scope.held = [scope.held[2] * 0.5 + a, scope.held[0], scope.held[1]]


def write(scope, a, b):
    scope.written = scope.written.at[scope.i, 0].set(a)


def write_row(scope, a, b):
    row = jnp.stack([a, b])[None]
    scope.written = lax.dynamic_update_slice(scope.written, row, (len(scope.x) - scope.i, 0))


def add_to(scope, a, b):
    scope.written = scope.written.at[scope.i // 2 + 1].add(a)


def write_and_read(scope, a, b):
    scope.written = scope.written.at[scope.i + 1, 1].set(a + scope.written[scope.i, 1])


def keep(scope, a, b):
    scope.kept.append(a)


def keep_vector(scope, a, b):
    scope.kept.append(scope.x[scope.i] * a + scope.w[0])


def draw_number(scope, a, b):
    scope.key, key = jax.random.split(scope.key)
    scope.kept.append(a + jax.random.uniform(key, dtype=a.dtype))


def draw_folded(scope, a, b):
    key = jax.random.fold_in(scope.key, scope.i)
    scope.acc["add"] = scope.acc["add"] + a * jax.random.bernoulli(key, 0.5)


STATEMENTS = [
    *(add, add_difference, add_and_subtract, subtract_from, compensate, largest, multiply, count),
    *(recur, recur_with_lag, write, write_row, add_to, write_and_read, keep, keep_vector),
    *(draw_number, draw_folded, add_small, mark, multiply_vector, project),
]


def repeated(statements, odd, places, is_mapped):
    """Return a function that runs the statements at each place, and others at the odd one."""

    def function(x, w, s, k, key):
        scope = Scope(0, x, w, s, k, key)
        for t, i in enumerate(places):
            scope.i = i
            for f, a, b in odd if t == len(places) // 2 else statements:
                f(scope, a(scope), b(scope))
        kept = [jnp.sum(v) for v in scope.kept]
        numbers = [*scope.acc.values(), *scope.held, scope.written, *kept[::2], sum(kept[1::2], s)]
        return [*numbers, scope.vector, scope.small], [scope.count, *scope.flags]

    return jax.vmap(function, (0, None, 0, None, None)) if is_mapped else function


def total(function, *operands):
    found = jax.tree.leaves(function(*operands))
    return sum(jnp.sum(jnp.sin(v)) for v in found if jnp.issubdtype(v.dtype, jnp.floating))


def in_loop(function, x, w, s, k, key):
    def step(c, r):
        found, others = function(x, w, c, k, key)
        return 0.5 * jnp.sum(found[0]) + r, ([jnp.sum(v) for v in found[1:]], others)

    last, (found, others) = lax.scan(step, s, w[:2])
    return [last, *found], others


SLOW = [HealthCheck.filter_too_much, HealthCheck.too_slow]
"""JAX traces each program, and many are too large."""
FORMS = ["value", "value", "gradient", "loop", "gradient of loop", "rows", "loop in loop"]
(ANY_SIZE,) = jax.export.symbolic_shape("n")


@st.composite
def programs(draw, forms=FORMS, rows=2, largest=LARGEST):
    """A program that repeats a list of statements, as JAX traces it."""
    form = draw(st.sampled_from(forms))
    unary = UNARY if "gradient" in form else UNARY + WITHOUT_GRADIENT
    statement = st.tuples(st.sampled_from(STATEMENTS), terms(unary), terms(unary))
    statements = draw(st.lists(statement, min_size=1, max_size=2))
    odd = statements
    if draw(st.integers(0, 3)) == 0:
        odd = draw(st.lists(statement, max_size=2))
    n = draw(st.sampled_from([4, 5, 8]))
    places = list(range(n))
    order = draw(st.sampled_from(["forwards", "forwards", "backwards", "twice", "shuffled"]))
    if order == "backwards":
        places = places[::-1]
    if order == "twice":
        places = places[: n // 2] * 2
    if order == "shuffled":
        places = draw(st.permutations(places))
    dtype = draw(st.sampled_from([np.float64, np.float64, np.float32]))
    lead = (rows,) if "rows" in form else ()
    function = repeated(statements, odd, places, bool(lead))
    for _ in range(form.count("loop")):
        function = functools.partial(in_loop, function)
    if "gradient" in form:
        function = jax.value_and_grad(functools.partial(total, function), (0, 1, 2))
    x = jax.ShapeDtypeStruct((*lead, n, COLUMNS), dtype)
    if draw(st.integers(0, 3)) == 0:
        x = [jax.ShapeDtypeStruct((*lead, COLUMNS), dtype)] * n
    program = jax.make_jaxpr(function)(
        x,
        np.zeros(n, dtype),
        jax.ShapeDtypeStruct(lead, dtype),
        np.zeros(n, np.int32),
        jax.random.key(0, impl=draw(st.sampled_from(["threefry2x32", "rbg"]))),
    )
    assume(count_equations(program) <= largest)
    return program


@pytest.mark.parametrize("part", range(amount(quick=1, deep=10)))
def test_passes_hold_to_their_meaning(part):
    @seed(part)
    @examples(5, quick=0.5, suppress_health_check=SLOW)
    @given(programs(), st.sampled_from(TOGETHER), st.sampled_from(ALONE))
    def check(program, together, alone):
        Pipeline((alone,), validate=True)(program)
        Pipeline(together, validate=True)(program)

    check()


@pytest.mark.parametrize("part", range(amount(quick=1, deep=4)))
def test_passes_of_any_number_of_rows(part):
    """No pass needs the number of rows; a warning would be an error here."""

    @seed(part)
    @examples(5, quick=0.5, suppress_health_check=SLOW)
    @given(
        programs(["rows", "gradient of rows"], ANY_SIZE, 10 * LARGEST),
        st.sampled_from(TOGETHER),
        st.sampled_from(ALONE),
    )
    def check(program, together, alone):
        Pipeline((alone,))(program)
        Pipeline(together)(program)

    check()
