"""The exact passes preserve every bit of the results of any JAX function.

That is so of equations that are evaluated one by one, and of compiled programs where the compiler
does not contract a product and a sum to one operation that rounds once. By default XLA does, and
which ones is decided by what else is near: there a bit may change.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, strategies as st
from jax import lax
from jax_functions import FAMILIES, arguments
from profiles import examples, sample

from jaxprgen._jax import is_key
from jaxprgen.api import jaxpr_as_fun
from jaxprgen.ir.evaluate import Evaluator
from jaxprgen.ir.programs import count_equations
from jaxprgen.passes import (
    DEFAULT,
    EliminateCommonSubexpressions,
    EliminateDeadCode,
    FoldConstants,
    Hoist,
    Inline,
    Pipeline,
    Simplify,
)
from jaxprgen.passes.pipeline import require_valid

EXACT = (
    Inline(),
    Simplify(),
    FoldConstants(),
    Hoist(),
    EliminateCommonSubexpressions(),
    EliminateDeadCode(),
)
rewrite = Pipeline(EXACT, lambda r: require_valid(r.rewrite, r.after))
values = arguments()
TRIED = {
    family: {name: functions[name] for name in sample(functions, len(functions) // 3)}
    for family, functions in FAMILIES.items()
}
OTHER = TRIED["other"]
COMPILED = sorted(FAMILIES.keys() - {"other"})
OFTEN_REWRITTEN = [
    *("scan", "scan backwards", "scan, unrolled", "loops in loops", "gradient of a loop", "for"),
    *("gradient of loops in loops", "map", "while", "branch in a loop", "calls", "calls in loops"),
    *(
        "calls with unread results",
        "pendulum",
        "network",
        "newton",
        "from constants",
        "swapped operands",
        "dead code",
    ),
    *(
        "vmap of a loop",
        "vmap of a condition",
        "complex",
        "zeros",
        "draws with a constant key",
        "branch",
    ),
    *("bfloat16", "float32", "second derivative", "jacobian", "gradient of where"),
]


def bits(x):
    """Return the dtype, shape and bits of a value; all NaNs are equal."""
    x = np.asarray(jax.random.key_data(x) if is_key(x) else x)
    if jnp.issubdtype(x.dtype, np.inexact):
        x = np.where(np.isnan(x), np.asarray(np.nan, x.dtype), x)
    return x.dtype, x.shape, x.tobytes()


def assert_same_bits(ours, theirs, where):
    assert len(ours) == len(theirs), where
    for mine, yours in zip(ours, theirs, strict=True):
        assert bits(mine) == bits(yours), f"{where}: {mine} for {yours}"


def run(closed, *operands):
    """Evaluate a program equation by equation, also inside loops."""
    return Evaluator().run(closed, operands)


def compiled(programs, **options):
    """Compile programs as one, and return the results of each."""

    def together(*operands):
        return {name: jaxpr_as_fun(p)(*operands) for name, p in programs.items()}

    return jax.jit(together, compiler_options=options)(*jax.tree.leaves(values))


def around(f):
    """Return a function that calls another one twice, and in every step of a loop."""

    def several(a):
        loop = lax.scan(lambda c, r: (c + r * jnp.sin(a.s), f(a)), a.s, a.x[:2])
        return f(a), f(a), loop

    return several


def programs_of(functions, form=around):
    return {name: jax.make_jaxpr(form(f))(values) for name, f in functions.items()}


@pytest.mark.parametrize("family", FAMILIES)
def test_programs_get_smaller_and_stay_well_typed(family):
    """Passes are idempotent: a second application returns the given program itself."""
    before = after = 0
    for name, closed in programs_of(TRIED[family]).items():
        for once in EXACT:
            found = once(closed)
            assert once(found) is found, f"{name}: {once}"
        before, after = before + count_equations(closed), after + count_equations(rewrite(closed))
    assert after < 0.7 * before


@pytest.mark.parametrize("family", COMPILED)
def test_passes_preserve_every_bit_of_compiled_programs(family):
    programs = programs_of(TRIED[family])
    exact = {"xla_backend_optimization_level": 0}
    theirs, ours = (
        compiled({n: f(p) for n, p in programs.items()}, **exact) for f in (id_, rewrite)
    )
    for name, wanted in theirs.items():
        assert_same_bits(ours[name], wanted, name)


def id_(closed):
    return closed


@pytest.mark.parametrize("part", range(4))
def test_passes_preserve_every_bit_of_each_equation(part):
    for name in [*OTHER][part::4]:
        closed = jax.make_jaxpr(around(OTHER[name]))(values)
        operands = jax.tree.leaves(values)
        assert_same_bits(run(rewrite(closed), *operands), run(closed, *operands), name)


@pytest.mark.compiles
def test_passes_preserve_results_under_full_optimization():
    """Few programs change at all, and those only in the last bit."""
    names = sample(OFTEN_REWRITTEN, 16)
    programs = programs_of({name: FAMILIES["other"][name] for name in names}, id_)
    theirs, ours = compiled(programs), compiled({n: rewrite(p) for n, p in programs.items()})
    changed = set()
    for name, wanted in theirs.items():
        for x, y in zip(ours[name], wanted, strict=True):
            if bits(x) != bits(y):
                changed.add(name)
                np.testing.assert_array_max_ulp(np.asarray(x), np.asarray(y), maxulp=2)
    assert len(changed) <= 2, changed


@pytest.mark.parametrize("family", FAMILIES)
def test_default_passes_change_no_more_than_they_declare(family):
    """On random and awkward inputs."""
    for name in sample(FAMILIES[family], 8):
        Pipeline(DEFAULT, validate=True)(jax.make_jaxpr(FAMILIES[family][name])(values))


# --- Random programs ----------------------------------------------------------------------

UNARY = [jnp.sin, jnp.exp, jnp.negative, jnp.abs, jnp.tanh, lambda x: x * 2.0, lambda x: -0.0 + x]
UNARY += [lambda x: x[::-1], jnp.cumsum, lambda x: x * (jnp.arange(3.0) + 1), lambda x: x + x.sum()]
BINARY = [jnp.add, jnp.subtract, jnp.multiply, jnp.divide, jnp.maximum, jnp.minimum]
BINARY += [lambda x, y: jnp.where(x < y, x, y), lambda x, y: x @ y * x]
BINARY += [lambda x, y: lax.cond(x[0] < y[0], jnp.sin, jnp.cos, x)]
BINARY += [lambda x, y: lax.scan(lambda c, r: (c * jnp.sin(y) + r, None), x, y)[0]]
BINARY += [lambda x, y: lax.fori_loop(0, 2, lambda _, c: c + jnp.exp(y) * (x + 1.0), x)]
CONSTANTS = [0.0, -0.0, 1.0, 0.1, np.nan, np.inf, 1e-300, 1e300]
steps = st.one_of(
    st.tuples(st.sampled_from(UNARY), st.integers(0, 20)),
    st.tuples(st.sampled_from(BINARY), st.integers(0, 20), st.integers(0, 20)),
)


@examples(2, quick=1)
@given(st.lists(steps, max_size=14), st.lists(st.sampled_from(CONSTANTS), max_size=3), st.data())
def test_random_programs(chosen, constants, data):
    def f(x, y):
        found = [x, y, jnp.full(3, 0.5), *(jnp.full(3, c) for c in constants)]
        for g, *places in chosen:
            found.append(g(*(found[i % len(found)] for i in places)))
        return found[-3:]

    numbers = data.draw(
        st.lists(st.sampled_from([0.3, -1.7, -0.0, np.inf]), min_size=6, max_size=6)
    )
    operands = jnp.asarray(numbers[:3]), jnp.asarray(numbers[3:])
    closed = jax.make_jaxpr(f)(*operands)
    for one in (*EXACT, rewrite):
        assert_same_bits(run(one(closed), *operands), run(closed, *operands), str(one))
