"""The description of loops: what is taken from an equation and emitted again computes the same."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from jaxprgen import _jax, jaxpr_as_fun
from jaxprgen._jax import check_jaxpr
from jaxprgen.ir import Builder
from jaxprgen.ir.loops import Loop, pure_loop
from jaxprgen.ir.rewriting import with_equations
from jaxprgen.passes import Inline
from jaxprgen.passes.inlining import bound_to

X = np.linspace(-1.0, 2.0, 12).reshape(4, 3)


def scanned(x, k):
    def step(carry, row):
        total, same, last = carry
        # The sine of the constant is invariant and repeated; one result and one row are not read.
        total = total + jnp.sin(k) * row[0] + jnp.sin(k) * same
        return (total, same, row[0]), (total * last, jnp.exp(row[1]), total * last)

    carry, stacked = lax.scan(step, (jnp.zeros(3), k, k), (x, 2 * x, x))
    return *carry, *stacked


def backwards(x, k):
    return lax.scan(lambda c, row: (c * k + row, c), k, x, reverse=True, unroll=2)


def mapped(x, k):
    return lax.map(lambda row: row * jnp.cos(k), x)


def looped(x, k):
    def step(state):
        i, a, same = state
        return i + 1, a * jnp.tanh(k) + same, same

    def goes_on(state):
        return (state[0] < 5) & (jnp.sum(state[1]) < jnp.exp(jnp.max(k)) + 30)

    return lax.while_loop(goes_on, step, (0, k, k + 1))


def loop_of_no_step(x, k):
    return lax.while_loop(lambda s: s[0] < 0, lambda s: (s[0] + jnp.sum(k), s[1]), (1.0, k))


PROGRAMS = {f.__name__: f for f in (scanned, backwards, mapped, looped, loop_of_no_step)}
CHANGES = {
    "nothing": lambda loop: loop,
    "dead code": Loop.live,
    "repeated work": Loop.merged,
    "variables": Loop.renamed,
    "all": lambda loop: loop.merged().live(),
}


def equation(name):
    closed = Inline()(jax.make_jaxpr(PROGRAMS[name])(X, X[0]))
    (place,) = (i for i, e in enumerate(closed.jaxpr.eqns) if e.primitive.name in ("scan", "while"))
    return closed.jaxpr.eqns[place]


def assert_same(eqn, emit):
    """Compare a loop with what ``emit(builder, loop)`` emits in its place, and return that."""
    operands = list(dict.fromkeys(x for x in eqn.invars if type(x) is _jax.Var))
    alone = _jax.closed_jaxpr(operands, eqn.outvars, [eqn])
    b = Builder.in_place_of(eqn)
    results = emit(b, Loop.of(eqn))
    found = with_equations(alone, bound_to(b, results, eqn.outvars))
    check_jaxpr(found.jaxpr)
    values = [np.linspace(0.1, 0.9, v.aval.size).reshape(v.aval.shape) for v in operands]
    values = [x.astype(v.aval.dtype) for x, v in zip(values, operands, strict=True)]
    pairs = zip(jaxpr_as_fun(found)(*values), jaxpr_as_fun(alone)(*values), strict=True)
    for x, y in pairs:
        np.testing.assert_allclose(x, y, rtol=1e-14)
    return found


CASES = [(n, c) for n in PROGRAMS for c in CHANGES if c != "variables" or "loop" not in n]
"""Only scans are renamed."""


@pytest.mark.parametrize("name, change", CASES)
def test_a_loop_emitted_again_computes_the_same(name, change):
    assert_same(equation(name), lambda b, loop: CHANGES[change](loop).emit(b))


@pytest.mark.parametrize("name", PROGRAMS)
def test_invariant_work_leaves_a_loop(name):
    def emit(b, loop):
        rest = loop.hoisted(b)
        out = rest.emit(b)
        return [*rest.ends(loop, out), *out[len(rest.carries) :]]

    found = assert_same(equation(name), emit)
    around = {e.primitive.name for e in found.jaxpr.eqns}
    inside = set().union(*(_jax.primitives_of(e) for e in found.jaxpr.eqns)) - around
    invariant = {"sin", "cos", "tanh"} & _jax.primitives_of(equation(name))
    assert invariant <= around and not invariant & inside


def test_loops_that_passes_leave_alone():
    def shown(x, k):
        def step(c, row):
            jax.debug.print("{}", c)
            return c + row, None

        return lax.scan(step, k, x)

    equations = jax.make_jaxpr(shown)(X, X[0]).jaxpr.eqns
    assert all(pure_loop(e) is None for e in equations)
    assert pure_loop(equation("looped")) is None
    assert pure_loop(equation("scanned")).length == len(X)
