"""What each exact pass changes, and what it leaves unchanged."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from equal import Equal
from jax import lax
from laws import all_equations

import jaxprgen
from jaxprgen._jax import NonFiniteError, check_jaxpr, default_params, open_jaxpr, primitive
from jaxprgen.api import jaxpr_as_fun
from jaxprgen.passes import (
    DEFAULT,
    EliminateCommonSubexpressions,
    EliminateDeadCode,
    FoldConstants,
    Hoist,
)
from jaxprgen.passes.constant_folding import INTEGERS, REALS

share, need, fold, hoist = (
    EliminateCommonSubexpressions(),
    EliminateDeadCode(),
    FoldConstants(),
    Hoist(),
)
x, y = np.linspace(0.1, 0.4, 4), np.linspace(-1, 1, 4)
z = x + 1j * y
F64 = np.dtype("float64")


def rewritten(rewrite, f, *args):
    closed = jax.make_jaxpr(f)(*args)
    before = str(closed)
    found = rewrite(closed)
    check_jaxpr(found.jaxpr)
    assert str(closed) == before
    return found


def names(closed, within=None):
    """Return the primitives of a program, or of the program inside its only equation of a name."""
    jaxpr = closed.jaxpr
    if within is not None:
        name, parameter = within
        (eqn,) = (e for e in jaxpr.eqns if e.primitive.name == name)
        jaxpr = open_jaxpr(eqn.params[parameter])
    return [e.primitive.name for e in jaxpr.eqns]


def all_names(closed):
    found = [e.primitive.name for e in all_equations(closed.jaxpr)]
    return [name for name in found if name != "device_put"]  # JAX 0.7 adds these for constants.


BODY = "scan", "jaxpr"
CALLED = "jit", "jaxpr"

# --- Common subexpressions ----------------------------------------------------------------

square = jax.jit(lambda x: x * x)


def loop(x):
    return lax.scan(lambda c, r: (c * r, jnp.sin(c)), 1.0, x)


@jax.custom_jvp
def double(x):
    return x + x


double.defjvp(lambda primals, tangents: (double(primals[0]), 2 * tangents[0]))

ONCE = {
    "sin": (lambda x: jnp.sin(x) + jnp.sin(x), 2),
    "an order": (lambda x: (x + y) - (y + x), 2),
    "chains": (lambda x: jnp.exp(jnp.sin(x)) + jnp.exp(jnp.sin(x)), 3),
    "literals": (lambda x: (x * 2.0) + (x * 2.0), 2),
    "calls": (lambda x: square(x) - square(x), 3),
    "loops": (lambda x: loop(x)[0] + loop(x)[0], 4),
    "loops of which parts are read": (lambda x: (loop(x)[0], loop(x)[1]), 4),
    "constants": (lambda x: x * jnp.asarray(y.copy()) + x * jnp.asarray(y.copy()), 2),
    "draws": (lambda x: [jax.random.bits(jax.random.key(1), (4,)) for _ in "ab"], 2),
    "inside": (lambda x: jax.jit(lambda x: jnp.sin(x) * jnp.sin(x))(x), 3),
    "rules of one object": (lambda x: jax.jit(lambda x: double(x) * 1.0)(x), 4),
}
TWICE = {
    "zeros of either sign": (lambda x: (x * 0.0) + (x * -0.0), ["mul", "mul", "add"]),
    "a weak type": (
        lambda x: [
            lax.convert_element_type_p.bind(x, new_dtype=F64, weak_type=w, sharding=None)
            for w in (False, True)
        ],
        None,
    ),
    "an order of sub": (lambda x: (x - y) + (y - x), ["sub", "sub", "add"]),
    "products of complex numbers": (lambda x: [x * z, z * x], None),
    "maxima": (lambda x: jnp.stack([jnp.maximum(x, y), jnp.maximum(y, x)]), None),
    "barriers": (lambda x: [lax.optimization_barrier(x) for _ in "ab"], None),
    "a fill": (
        lambda x: [x.at[np.array([9])].get(mode="fill", fill_value=v) for v in (0.0, -0.0)],
        None,
    ),
}


@pytest.mark.parametrize("name", ONCE)
def test_common_subexpressions_are_computed_once(name):
    f, count = ONCE[name]
    found = rewritten(share, f, x)
    assert len(all_names(found)) == count, found
    for ours, theirs in zip(jaxpr_as_fun(found)(x), jax.tree.leaves(f(x)), strict=True):
        np.testing.assert_array_equal(ours, theirs)


@pytest.mark.parametrize("name", TWICE)
def test_different_expressions_are_not_merged(name):
    f, wanted = TWICE[name]
    closed = jax.make_jaxpr(f)(x)
    found = share(closed)
    doubled = {"mul", "max", "sub", "gather", "optimization_barrier"}
    assert [n for n in names(found) if n in doubled] == [n for n in names(closed) if n in doubled]
    assert wanted is None or names(found) == wanted


def test_effects_are_not_merged(capsys):
    def f(x):
        for _ in range(2):
            jax.debug.print("seen", ordered=True)
        return x

    jaxpr_as_fun(rewritten(share, f, x))(x)
    jax.effects_barrier()
    assert capsys.readouterr().out == "seen\nseen\n"


# --- Dead code ----------------------------------------------------------------------------


def test_unread_results_of_calls_are_removed():
    def call(x, unused):
        return jax.jit(lambda x, y: (jnp.sin(x), jnp.cos(y)))(x, jnp.exp(unused))[0]

    found = rewritten(need, call, x, y)
    assert names(found) == ["jit"] and names(found, CALLED) == ["sin"]
    assert len(found.jaxpr.eqns[0].invars) == 1


@pytest.mark.parametrize("passes", [(share,), DEFAULT], ids=["sharing", "default"])
def test_functions_that_compare_equal_are_not_exchanged(passes):
    """Equations that call them are neither merged nor batched together."""

    def f(x):
        return [jax.pure_callback(Equal(n), x, x) for n in range(12)]

    found = jaxprgen.transform(f, *passes)(x)
    np.testing.assert_array_equal(found, np.arange(12)[:, None] * x)


def test_calls_of_one_program_still_share_it():
    pair = jax.jit(lambda x: (jnp.sin(x), jnp.cos(x)))
    found = rewritten(need, lambda x: pair(pair(x)[0])[0], x)
    first, second = (e.params["jaxpr"] for e in found.jaxpr.eqns)
    assert first is second and len(first.eqns) == 1


def test_unread_results_of_loops_are_removed():
    def f(x, u):
        (c, _), rows = lax.scan(
            lambda c, r: ((c[0] + r, jnp.sin(c[1])), (c[0], jnp.cos(r))), (u, u), x
        )
        s = lax.while_loop(lambda s: s[0] < 3, lambda s: (s[0] + 1, s[1] * s[1]), (c, jnp.exp(u)))
        return s[0], rows[0], lax.cond(u > 0, lambda: (u, u * 2), lambda: (u, u + 1))[0]

    found = rewritten(need, f, x, 0.5)
    assert names(found, BODY) == ["convert_element_type", "add"]
    assert names(found, ("while", "body_jaxpr")) == ["add"]
    assert {"exp", "mul", "sin", "cos"}.isdisjoint(all_names(found))


def test_equations_with_effects_stay(capsys):
    def f(x):
        jax.debug.print("of {}", x[0])
        return jax.jit(lambda x: (jax.debug.print("inside"), jnp.sin(x))[1])(x) * 0 + x

    found = rewritten(need, lambda x: (f(x), x)[1], x)
    jaxpr_as_fun(found)(x)
    jax.effects_barrier()
    assert sorted(capsys.readouterr().out.split()) == ["0.1", "inside", "of"]


# --- Constant folding ---------------------------------------------------------------------

FOLDED = {
    "numbers": (lambda x: x * (jnp.asarray(2.0) * 3.0 + 0.5), ["mul"]),
    "ranges": (lambda x: x + (jnp.arange(4) * 2 + 1), ["add"]),
    "masks": (lambda x: jnp.where(jnp.arange(4) % 2 == 0, x, 0.0), ["jit"]),
    "calls": (lambda x: x * jax.jit(lambda a: a * a)(3.0), ["mul"]),
    "own rules": (lambda x: x * double(jnp.asarray(2.0)), ["mul"]),
    "branches": (lambda x: x * lax.cond(jnp.asarray(True), lambda: 2.0, lambda: 3.0), ["mul"]),
    "draws": (lambda x: jax.random.bits(jax.random.key(3), (4,)), []),
    "scalars inside": (lambda x: jax.jit(lambda x: x * (jnp.asarray(2.0) * 3))(x), ["jit"]),
    "weak": (lambda x: x[0].astype(np.float32) * (jnp.sqrt(4.0) * 2), None),
}
STAY = {
    "what is rounded in ways of its own": lambda x: x * jnp.tanh(jnp.asarray(0.5)),
    "powers": lambda x: x * jnp.asarray(0.5) ** 2.5,
    "repetition": lambda x: (jnp.zeros(4), jnp.arange(4), x),
    "large results": lambda x: jnp.arange(200) + 1,
    "NaN": lambda x: x * (jnp.asarray(np.inf) - jnp.asarray(np.inf)),
    "subnormal numbers": lambda x: x * (jnp.asarray(1e-300) * 1e-20),
    "divisions by zero": lambda x: lax.div(jnp.int32(1), jnp.int32(0)),
    "two bytes": lambda x: x * (jnp.asarray(1.1, jnp.bfloat16) * 2),
    "loops": lambda x: lax.fori_loop(0, 3, lambda i, c: c + 1, 0),
    "what does not fit": lambda x: jax.jit(lambda v: v.astype(np.int32))(1e20),
    "effects": lambda x: jax.debug.print("{}", 1),
    "functions on the host": lambda x: jax.pure_callback(
        np.cos, jax.ShapeDtypeStruct((), F64), jnp.asarray(0.0)
    ),
}


@pytest.mark.parametrize("name", FOLDED)
def test_folded_constants(name):
    f, wanted = FOLDED[name]
    found = rewritten(fold, f, x)
    assert wanted is None or names(found) == wanted, found
    (ours,), theirs = jaxpr_as_fun(found)(x), f(x)
    assert ours.dtype == theirs.dtype and ours.weak_type == theirs.weak_type
    np.testing.assert_array_equal(ours, theirs)


def test_folded_constants_keep_their_dtype():
    found = rewritten(fold, lambda x: (jnp.asarray(1, jnp.int8) + jnp.int8(127), 2 * jnp.pi), x)
    assert names(found) == []
    assert [v.aval for v in found.jaxpr.outvars] == [
        v.aval for v in jax.make_jaxpr(lambda: (jnp.int8(1), 1.0))().jaxpr.outvars
    ]
    assert found.jaxpr.outvars[0].val == -128


@pytest.mark.parametrize("name", STAY)
def test_equations_that_are_not_folded(name):
    closed = jax.make_jaxpr(STAY[name])(x)
    found = fold(closed)
    left = set(names(found))
    kept = {"tanh", "pow", "iota", "sub", "mul", "div", "add", "while", "convert_element_type"}
    kept |= {"debug_callback", "debug_print", "pure_callback", "broadcast_in_dim", "jit", "scan"}
    assert left and left <= kept
    assert names(fold(found)) == names(found)


@pytest.mark.parametrize("dtype", ["bool", "uint8", "int32", "int64", "float32", "float64"])
def test_numpy_folds_to_the_bits_of_jax(dtype):
    """NumPy and JAX agree in every bit, for numbers of either sign and of all magnitudes."""
    table = REALS if dtype.startswith("float") else INTEGERS
    a, b = np.abs(numbers) if dtype == "uint8" else numbers
    a, b = a.astype(dtype), b.astype(dtype)
    given, ours = {}, {}
    for name, function in table.items():
        is_unary = name in {"neg", "abs", "sign", "not", "sqrt", "floor", "ceil", "is_finite"}
        operands = [abs(a) if name == "sqrt" else a, b + (b == 0) if name == "rem" else b]
        operands = operands[: 2 - is_unary]
        try:  # Not every primitive accepts every dtype.
            jax.eval_shape(functools.partial(bound, name), *operands)
            ours[name] = np.asarray(function(*operands))
        except TypeError:
            continue
        given[name] = operands
    theirs = jax.jit(lambda given: {name: bound(name, *xs) for name, xs in given.items()})(given)
    assert len(theirs) >= 6
    for name, x in ours.items():
        assert x.dtype == theirs[name].dtype, name
        assert x.tobytes() == np.asarray(theirs[name]).tobytes(), name


numbers = np.random.default_rng(0).normal(size=(2, 200)) * 100


def bound(name, *operands):
    return primitive(name.replace("add_any", "add")).bind(*operands, **default_params(name))


def test_folding_while_tracing_and_debugging():
    f = jaxprgen.transform(lambda x: x * (jnp.arange(4.0) + 1.0), fold)
    wanted = x * (np.arange(4.0) + 1)
    np.testing.assert_array_equal(jax.jit(f)(x), wanted)
    np.testing.assert_array_equal(jax.vmap(f)(x[None])[0], wanted)
    with jax.debug_nans(True):
        np.testing.assert_array_equal(f(x), wanted)
        with pytest.raises(NonFiniteError):
            jaxprgen.transform(lambda x: x * jnp.log(jnp.asarray(-1.0)), fold)(x)
    data = jnp.asarray(y)
    tracing = jax.jit(lambda v: jaxprgen.transform(lambda x: x * v * data * 2.0, fold)(x))
    np.testing.assert_allclose(tracing(y), x * y * y * 2)


# --- Loop-invariant code ------------------------------------------------------------------


def test_invariant_code_leaves_all_loops():
    def inner(c, r, k):
        return c * jnp.exp(k) + r, None

    def outer(c, r, k):
        return lax.scan(lambda c, r: inner(c, r, k), c * jnp.sin(k), x)[0] + r * jnp.cos(c), c

    found = rewritten(hoist, lambda k: lax.scan(lambda c, r: outer(c, r, k), k, x), 0.3)
    assert sorted(n for n in names(found) if n in ("exp", "sin", "cos")) == ["exp", "sin"]
    body = names(found, BODY)
    assert "exp" not in all_names(found)[len(names(found)) :] and "cos" in body


def test_unchanged_carries_are_invariant():
    def step(c, r):
        return (c[0] * jnp.sin(c[1]) + r, c[1]), None

    found = rewritten(hoist, lambda k: lax.scan(step, (k, k), x), 0.3)
    assert "sin" in names(found) and "sin" not in names(found, BODY)


def test_repetition_and_effects_are_not_hoisted():
    def step(c, r, k):
        jax.debug.print("{}", k)
        return c * jnp.ones(3) * jnp.broadcast_to(k, (3,)) + jnp.arange(3) * jnp.sin(k), None

    closed = jax.make_jaxpr(lambda k: lax.scan(lambda c, r: step(c, r, k), np.ones(3), x))(0.3)
    found = hoist(closed)
    inside = names(found, BODY)
    assert "sin" in names(found) and "sin" not in inside
    assert "broadcast_in_dim" in inside
    assert any("debug" in n for n in inside) and not any("debug" in n for n in names(found))


def test_invariant_code_leaves_conditions():
    def f(k):
        return lax.while_loop(lambda c: c < jnp.exp(k), lambda c: c + jnp.sin(k), k)

    found = rewritten(hoist, f, 0.3)
    assert {"exp", "sin"} <= set(names(found))
    assert names(found, ("while", "cond_jaxpr")) == ["lt"]


def test_loops_that_may_not_end_stay_where_they_may_not_run():
    def endless(k):
        return lax.while_loop(lambda c: c < jnp.inf * k, lambda c: c, k)

    def seldom(k):
        return lax.while_loop(lambda c: c < 0, lambda c: c + endless(k), k)

    found = rewritten(hoist, seldom, 1.0)
    assert "while" in names(found, ("while", "body_jaxpr"))
    assert jaxpr_as_fun(found)(1.0) == [1.0]
    runs = rewritten(hoist, lambda k: lax.scan(lambda c, _: (c + endless(k), None), k, x), 1.0)
    assert "while" in names(runs) and "while" not in names(runs, BODY)
    none = jax.make_jaxpr(lambda k: lax.scan(lambda c, _: (c + jnp.sin(k), None), k, x[:0]))(1.0)
    assert hoist(none) is none


@pytest.mark.parametrize(
    "function",
    [
        *(lax.add, lax.sub, lax.mul, lax.div, lax.rem, lax.max, lax.eq, lax.bitwise_and),
        *(lax.shift_left, lambda a, b: lax.concatenate([a, b], 0), lambda a, b: a[b]),
        *(
            lambda a, b: lax.select(b > 1, a, b),
            lambda a, b: lax.cond(b[0] > 1, lax.rem, lax.div, a, b),
        ),
        *(lambda a, b: jax.jit(lax.rem)(a, b), lambda a, b: lax.dynamic_slice(a, (b[0],), (1,))),
    ],
)
def test_arrays_of_a_device_are_folded_within_a_trace(function):
    """There, NumPy's functions of them would be equations."""
    a, b = jnp.asarray([5, 7, 9]), jnp.asarray([2, 1, 2])
    f = jax.jit(jaxprgen.transform(lambda n: n + function(a, b), fold))
    np.testing.assert_array_equal(f(3), 3 + function(a, b))
