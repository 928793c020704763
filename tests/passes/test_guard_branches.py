"""`GuardBranches`: where a function is smooth on the branches it takes, its gradient is right."""

import functools

import aesara.tensor as at
import guarded_expressions as guarded
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, strategies as st
from jax import lax
from profiles import examples, in_turn, is_deep

import jaxprgen
from jaxprgen._jax import check_jaxpr
from jaxprgen.passes import DEFAULT, GuardBranches

POINTS = np.asarray(guarded.POINTS)
WAYS = ("reverse", "forward", "forward over reverse", "reverse over reverse", "forward twice")


def of_elements(f):
    """First and second derivatives of a function of each element, in every way."""

    def reverse(x):
        return jax.grad(lambda x: f(x).sum())(x)

    def forward(x):
        return jax.jvp(f, (x,), (jnp.ones_like(x),))[1]

    @jax.jit
    def ways(x):
        ones = jnp.ones_like(x)
        twice = jax.grad(lambda x: reverse(x).sum())(x)
        over = jax.jvp(reverse, (x,), (ones,))[1], twice, jax.jvp(forward, (x,), (ones,))[1]
        return f(x), (reverse(x), forward(x), *over)

    return ways


@examples(2, quick=0.6)
@given(guarded.expressions(leaves=16), st.booleans())
def test_gradients_are_those_of_the_branches_that_are_taken(expression, of_numbers):
    """The law; the derivatives of reference are mpmath's, of the branches that are taken alone."""

    def f(x):
        return guarded.on_arrays(expression, x)

    ours = jaxprgen.transform(f, GuardBranches())
    values, ways = of_elements(jax.vmap(ours) if of_numbers else ours)(POINTS)
    for i, point in enumerate(guarded.POINTS):
        try:
            _, first, second = guarded.on_taken_branches(expression, point).parts
        except guarded.Undefined:
            continue
        if not np.isfinite(values[i]):
            continue  # It overflows in double precision.
        for name, found, truth in zip(
            WAYS, ways, (first, first, second, second, second), strict=True
        ):
            if name == "reverse over reverse" and guarded.has(expression, "loop"):
                continue  # See `guarded.expressions`.
            assert np.isfinite(found[i]), (name, point, float(truth))


@examples(2, quick=1)
@given(guarded.expressions(leaves=16))
def test_values_keep_their_bits(expression):
    closed = jax.make_jaxpr(lambda x: guarded.on_arrays(expression, x))(POINTS)
    found = GuardBranches()(closed)
    check_jaxpr(found.jaxpr)
    before, after = (
        np.asarray(jax.core.eval_jaxpr(c.jaxpr, c.consts, POINTS)) for c in (closed, found)
    )
    np.testing.assert_array_equal(after, before)
    np.testing.assert_array_equal(np.signbit(after), np.signbit(before))


def rows(x):
    return x[:, None] * jnp.array([1.0, 2.0])


@jax.custom_jvp
def roots(x):
    """A function of each element with derivatives of its own, computed by reductions."""
    return jnp.sqrt(rows(x)).sum(1)


@roots.defjvp
def _(primals, tangents):
    (x,), (t,) = primals, tangents
    return roots(x), t * (0.5 / jnp.sqrt(rows(x)) * jnp.array([1.0, 2.0])).sum(1)


@jax.custom_jvp
def eightfold(x):
    """A function of each element with derivatives of its own, computed by loops."""
    _, doubled = lax.while_loop(lambda c: c[0] < 2, lambda c: (c[0] + 1, 2 * c[1]), (0, x))
    return lax.scan(lambda c, factor: (c * factor, None), doubled, jnp.array([4.0, 0.5]))[0]


@eightfold.defjvp
def _(primals, tangents):
    (x,), (t,) = primals, tangents
    return eightfold(x), 8 * t * x / x


# A function of an array of shape (3,), and its gradient at (-1, 0, 4), by hand.
GUARDED = {
    "reduction": (lambda x: jnp.where(x > 0, jnp.log(rows(x)).sum(1), 0).sum(), (0, 0, 0.5)),
    "broadcast": (lambda x: jnp.where(rows(x) > 0, jnp.log(rows(x)), 0).sum(), (0, 0, 0.5)),
    "derivatives of its own": (
        lambda x: jnp.where(x > 0, jnp.log(roots(x)), 0).sum(),
        (0, 0, 0.125),
    ),
    "loops in derivatives of its own": (
        lambda x: jnp.where(x > 0, eightfold(jnp.sqrt(x)), 0).sum(),
        (0, 0, 2),
    ),
    "matrices": (
        lambda x: jnp.where(
            x > 0,
            jnp.diagonal(jnp.linalg.cholesky(rows(x)[..., None] * jnp.eye(2)), 0, 1, 2).prod(1),
            0,
        ).sum(),
        (0, 0, np.sqrt(2)),
    ),
    "broadcast predicate": (
        lambda x: jnp.where(x[:, None] > 0, jnp.log(x)[:, None] * jnp.ones(2), 0).sum(),
        (0, 0, 0.5),
    ),
    "scalar predicate": (
        lambda x: jnp.where(x[0] > 0, jnp.linalg.cholesky(x[0] * jnp.eye(2)).sum(), x[2]),
        (0, 0, 1),
    ),
    "predicate of the branch": (
        lambda x: (lambda y: jnp.where(jnp.isfinite(y), y, 0).sum())(1 / x),
        (-1, 0, -1 / 16),
    ),
    "two uses": (
        lambda x: (lambda y: jnp.where(x > 5, y, jnp.where(x > 0, 2 * y, 0)).sum())(jnp.log(x)),
        (0, 0, 0.5),
    ),
    "scan": (
        lambda x: lax.scan(lambda c, r: (c + jnp.where(r > 0, jnp.log(r), 0), None), 0.0, x)[0],
        (0, 0, 0.25),
    ),
    "cond": (
        lambda x: lax.cond(
            x[0] < 0, lambda x: jnp.where(x > 0, jnp.sqrt(x), 0).sum(), lambda x: x.sum(), x
        ),
        (0, 0, 0.25),
    ),
    "vmap": (lambda x: jax.vmap(lambda a: jnp.where(a > 0, jnp.log(a), 0))(x).sum(), (0, 0, 0.25)),
    "exponents": (lambda x: jnp.where(x > 0, x ** jnp.array([0.5, 2.0, 1.5]), 0).sum(), (0, 0, 3)),
    "safe operand": (
        lambda x: jnp.where(x > 0, jnp.log(jnp.where(x > 0, x, 1)), 0).sum(),
        (0, 0, 0.25),
    ),
    "selected root": (lambda x: jnp.sqrt(jnp.where(x > 0, x, 0)).sum(), (0, 0, 0.25)),
    "quotient of both branches": (
        lambda x: (lambda q: jnp.where(x <= 0, q, jnp.exp(-q)).sum())(
            300 * x / jnp.array([0.3, 1, 600])
        ),
        (1000, 300, -0.5 * np.exp(-2)),
    ),
    "transposed predicate": (
        lambda x: jnp.where((rows(x) > 0).T, jnp.log(rows(x).T), 0).sum(),
        (0, 0, 0.5),
    ),
    "shifted": (  # A place of the result is not that of the operand.
        lambda x: jnp.where(x == 0, lax.pad(jnp.exp(x), 0.0, [(1, -1, 0)]), 0).sum(),
        (np.exp(-1), 0, 0),
    ),
    "a branch that is never taken": (
        lambda x: jnp.where(x > 0, jnp.where(x > 0, x, jnp.exp(-1000 * x)), x).sum(),
        (1, 1, 1),
    ),
    "of three": (
        lambda x: lax.select_n(
            jnp.searchsorted(jnp.array([-0.5, 0.5]), x), -x, jnp.cos(x), jnp.sqrt(x)
        ).sum(),
        (-1, 0, 0.25),
    ),
}


PLACES = {"alone": (GuardBranches(),), "after the default": (*DEFAULT, GuardBranches())}


@pytest.mark.parametrize(("name", "place"), in_turn(GUARDED, PLACES))
def test_guarded_functions(name, place):
    f, gradient = GUARDED[name]
    f = jaxprgen.transform(f, *PLACES[place])
    x, many = jnp.array([-1.0, 0.0, 4.0]), jnp.array([[-1.0, 0.0, 4.0]] * 2)

    @jax.jit
    def derivatives(x, many):
        gradients = jax.grad(f)(x), jax.jacfwd(f)(x), jax.vmap(jax.grad(f))(many)[1]
        of_rows = jax.grad(lambda rows: jax.vmap(f)(rows).sum())(many)[1]
        return (*gradients, of_rows), jax.hessian(f)(x)

    found, second = derivatives(x, many)
    np.testing.assert_allclose(found, [gradient] * 4, 1e-12)
    assert np.isfinite(second).all()


def test_results_are_masked_where_operands_cannot_be():
    """A product along an axis depends on all elements, so no mask of its operand is right."""
    f = jaxprgen.transform(
        lambda x: (lambda y: jnp.where(y > 0, jnp.log(y), 0).sum())(lax.cumprod(x)), GuardBranches()
    )
    np.testing.assert_allclose(jax.grad(f)(jnp.array([2.0, 3.0, 0.0])), [1, 1 / 3, 0], 1e-12)


@jax.custom_jvp
def scaled(scale, x):
    return scale * jnp.exp(x)


@scaled.defjvp
def _scaled_tangent(primals, tangents):
    (scale, x), (dscale, dx) = primals, tangents
    return scaled(scale, x), dscale * jnp.exp(x) + scaled(scale, x) * dx


def test_operands_of_calls_keep_their_types():
    def f(scale, x):
        return jnp.where(x > 0, scaled(scale, x), 0).sum()

    closed = jax.make_jaxpr(f)(2.0, POINTS[:4])
    check_jaxpr(GuardBranches()(closed).jaxpr)
    ours = jax.grad(jaxprgen.transform(f, GuardBranches()), (0, 1))(2.0, POINTS[:4])
    jax.tree.map(np.testing.assert_allclose, ours, jax.grad(f, (0, 1))(2.0, POINTS[:4]))


def test_a_loser_of_a_maximum_has_no_derivative():
    f = jaxprgen.transform(lambda x: jnp.sqrt(jnp.maximum(x, 0)), GuardBranches())
    x = jnp.array([-1.0, 4.0])
    for found in of_elements(f)(x)[1][:2]:
        np.testing.assert_array_equal(found, [0.0, 0.25])


def test_a_number_that_is_clamped_has_no_derivative():
    """At the bounds neither, as in JAX."""

    def f(x):
        return jnp.sqrt(jax.lax.clamp(0.0, x, 4.0)) + jax.lax.clamp(-1.0, jnp.log(x + 1), 1.0)

    x = jnp.array([-1.0, 0.0, 1.0, 4.0, 9.0])
    for found in of_elements(jaxprgen.transform(f, GuardBranches()))(x)[1][:2]:
        np.testing.assert_array_equal(found, [0.0, 1.0, 1.0, 0.0, 0.0])


def test_clamps_keep_finite_derivatives():
    """JAX has none by bounds that are scalars."""
    f = jax.lax.clamp
    x = jnp.array([-2.0, -1.0, 0.5, 2.0, 3.0])
    closed = jax.make_jaxpr(f)(-1.0, x, 2.0)
    assert GuardBranches()(closed) is closed
    masked = jaxprgen.transform(lambda *args: jnp.where(x < 9, f(*args) ** 2, 0), GuardBranches())
    for low, high, by in ((-1.0, 2.0, (1,)), (jnp.full(5, -1.0), jnp.full(5, 2.0), (0, 1, 2))):
        for derivative in (jax.jacfwd, jax.jacrev):
            wanted = jax.jit(derivative(lambda *args: f(*args) ** 2, by))(low, x, high)
            found = jax.jit(derivative(masked, by))(low, x, high)
            jax.tree.map(np.testing.assert_array_equal, found, wanted)


def test_a_number_is_masked_before_it_is_repeated():
    x, v = at.dscalar("x"), at.dvector("v")
    f = jaxprgen.compile([x, v], at.switch(x > 0, v / x, 0.0).sum())
    numbers = np.arange(1.0, 4.0)
    assert jax.grad(f)(0.0, numbers) == 0
    assert jax.grad(f)(4.0, numbers) == -6 / 16
    masks = [e for e in f.jaxpr(1.0, numbers).eqns if e.primitive.name == "custom_jvp_call"]
    assert min(len(e.outvars[0].aval.shape) for e in masks) == 0


def test_programs_without_a_choice_stay_as_they_are():
    closed = jax.make_jaxpr(lambda x: jnp.linalg.norm(jnp.exp(x)) + jnp.log(x).sum())(POINTS)
    assert GuardBranches()(closed) is closed


def test_a_taken_branch_keeps_its_nan():
    """A mask hides nothing that matters."""
    f = jaxprgen.transform(lambda x: jnp.where(x >= 0, jnp.sqrt(x), 0), GuardBranches())
    assert jax.grad(f)(0.0) == np.inf
    assert np.isnan(f(np.nan)) == np.isnan(jnp.where(np.nan >= 0, 1.0, 0.0))


def test_an_unmapped_operand_stays_unmapped():
    """Under `vmap`, a mask by a mapped predicate does not copy what all rows share."""

    def f(p, matrix):
        return jnp.where(p > 0, jnp.linalg.cholesky(matrix).sum(), 0)

    def factors(g):
        text = str(jax.make_jaxpr(jax.vmap(jax.grad(g, 1), (0, None)))(jnp.ones(4), jnp.eye(3)))
        return [line for line in text.splitlines() if "= cholesky" in line and "f64[4,3,3]" in line]

    assert factors(jaxprgen.transform(f, GuardBranches())) == factors(f) == []


def test_a_predicate_may_choose_arrays_with_other_axes():
    """An axis of size one is an axis of the first choice, and of none of the second one's array."""

    def f(x):
        zero = x == 0
        safe = jnp.where(zero, 1.0, x)
        return jnp.where(zero, 2.0, jnp.sin(safe * jnp.arange(1.0, 4.0)) / safe)

    x = jnp.asarray([[0.0], [0.5], [-2.0]])
    for g in (f, jax.jacobian(f)):
        ours = jaxprgen.transform(g, GuardBranches())
        np.testing.assert_allclose(jax.jit(ours)(x), jax.jit(g)(x), rtol=1e-12)


def test_effects_do_not_move():
    """A predicate that waits for an effect guards nothing, and the program stays as it is."""

    def f(x):
        y = jnp.log(x)
        jax.debug.callback(lambda value: None, y)
        return jnp.where(x > 0, y, 0)

    closed = jax.make_jaxpr(f)(POINTS)
    found = GuardBranches()(closed)
    check_jaxpr(found.jaxpr)
    assert found.effects == closed.effects


# --- Checks: choices of whole arrays ----------------------------------------------------------


def density(mu, log_sigma, x):
    """A parameter's check around a density that has terms of its own, and another check in it."""
    sigma = jnp.exp(log_sigma) - 0.5
    shared = mu * x[:, None]
    inner = jnp.where(jnp.all(mu > 0), jnp.log(mu) + jnp.sum(jnp.sqrt(shared)), -jnp.inf)
    terms = -0.5 * ((x - mu) / sigma) ** 2 - jnp.log(sigma) + inner
    return jnp.where(jnp.all(sigma > 0) & jnp.all(x < 5), terms, -jnp.inf)


def checked(mu, log_sigma, x):
    free = jnp.sin(mu) + jnp.sum(jnp.where(jnp.all(x > -3), mu * x**2, x[0]))
    return jnp.sum(density(mu, log_sigma, x)) + free


def on_taken_branches(mu, log_sigma, x):
    """`checked`, with choices made in Python."""
    sigma = jnp.exp(log_sigma) - 0.5
    total = jnp.sin(mu) + (jnp.sum(mu * x**2) if np.all(x > -3) else len(x) * x[0])
    if not (sigma > 0 and np.all(x < 5)):
        return total - jnp.inf
    inner = jnp.log(mu) + jnp.sum(jnp.sqrt(mu * x[:, None])) if mu > 0 else -jnp.inf
    return total + jnp.sum(-0.5 * ((x - mu) / sigma) ** 2 - jnp.log(sigma) + inner)


ROWS = np.array([0.5, 1.0, 2.0])
CHECKED = {
    "all hold": (0.3, 0.1, ROWS),
    "the inner one fails": (-0.3, 0.1, ROWS),
    "the outer one fails": (0.3, -3.0, ROWS),
    "the outer one fails by data": (0.3, 0.1, ROWS + 4.0),
    "both fail": (0.0, -3.0, ROWS),
    "the last one fails": (-0.3, 0.1, ROWS - 4.0),
    "the boundary": (0.3, float(np.log(0.5)), ROWS),
}


FIRST = (jax.grad, jax.jacfwd)
SECOND = (
    jax.hessian,
    lambda f, n: jax.jacfwd(jax.jacfwd(f, n), n),
    lambda f, n: jax.jacrev(jax.jacrev(f, n), n),
    lambda f, n: jax.jacrev(jax.jacfwd(f, n), n),
)


def derivatives_of_checked(*args):
    """First and second derivatives with respect to all arguments, in every way."""
    f = jaxprgen.transform(checked, GuardBranches())
    return [[way(f, (0, 1, 2))(*args) for way in ways] for ways in (FIRST, SECOND)]


COMPILED = jax.jit(derivatives_of_checked)
assert_close = functools.partial(np.testing.assert_allclose, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("case", CHECKED)
def test_a_check_that_fails_has_no_derivatives_and_others_are_right(case):
    args = CHECKED[case]
    value = jaxprgen.transform(checked, GuardBranches())(*args)
    np.testing.assert_allclose(value, on_taken_branches(*args), rtol=1e-12)
    wanted = [f(on_taken_branches, (0, 1, 2))(*args) for f in (jax.grad, jax.hessian)]
    runs = [COMPILED, derivatives_of_checked]
    for run in runs if is_deep() or case == "the inner one fails" else runs[:1]:
        for ways, expected in zip(run(*args), wanted, strict=True):
            for found in ways:
                jax.tree.map(assert_close, found, expected)


def test_checks_may_hold_for_some_of_a_batch():
    every = list(CHECKED.values())
    of_batch = jax.jit(jax.vmap(derivatives_of_checked))(*map(np.stack, zip(*every, strict=True)))
    of_each = [COMPILED(*args) for args in every]
    jax.tree.map(lambda x, *ys: assert_close(x, np.stack(ys)), of_batch, *of_each)


@examples(2, quick=0.6)
@given(
    *[guarded.expressions(leaves=8)] * 3,
    *[st.sampled_from(guarded.POINTS)] * 2,
    st.booleans(),
)
def test_derivatives_of_checks_are_those_of_what_holds(inner, outer, free, low, high, shared):
    """The law of checks; derivatives of reference are those without any check."""

    def derivatives(f):
        # Of each number alone: a choice of a whole array is a check.
        return of_elements(jax.vmap(jaxprgen.transform(f, GuardBranches())))(POINTS)[1]

    def f(x):
        a, b, c = (guarded.on_arrays(e, x) for e in (inner, outer, free))
        checked = jnp.where(x >= low, b + jnp.where(x <= high, a, -jnp.inf), -jnp.inf)
        return checked + c + (a if shared else 0)

    holds, inside = (low <= POINTS).astype(int), (high >= POINTS).astype(int)
    weights = np.stack([holds * inside + shared, holds, np.ones_like(holds)])
    parts = [derivatives(functools.partial(guarded.on_arrays, e)) for e in (inner, outer, free)]
    for name, found, *each in zip(WAYS, derivatives(f), *parts, strict=True):
        if name == "reverse over reverse" and any(
            guarded.has(e, "loop") for e in (inner, outer, free)
        ):
            continue  # See `guarded.expressions`.
        terms = np.zeros((3, len(POINTS)))
        np.multiply(weights, each, out=terms, where=weights > 0)
        wanted, size = terms.sum(0), abs(terms).sum(0)
        for i in np.flatnonzero(np.isfinite(size)):
            error = abs(found[i] - wanted[i])
            assert error <= 1e-9 * size[i], (name, POINTS[i], found[i], wanted[i])


def test_a_check_lets_a_compiler_fold_what_data_decide():
    data = np.linspace(1, 2, 50)

    def f(rate):
        return jnp.sum(jnp.where(jnp.all(rate > 0), jnp.log(rate) - rate * data, -jnp.inf))

    for g, is_folded in ((f, False), (jaxprgen.transform(f, GuardBranches()), True)):
        text = jax.jit(jax.grad(g)).lower(1.5).compile().as_text()
        assert ("f64[50]" not in text) == is_folded


def test_a_choice_by_an_integer_is_no_check():
    def f(x, case):
        fails = lax.broadcast(-jnp.inf, (3,))
        return jnp.sum(lax.select_n(case, jnp.sqrt(x), fails)) + jnp.sum(x)

    found, x = jaxprgen.transform(f, GuardBranches()), np.array([0.0, 1.0, 4.0])
    np.testing.assert_allclose(jax.grad(found)(x, np.int32(1)), [1, 1, 1])
    np.testing.assert_allclose(jax.grad(found)(x + 1, np.int32(0)), 1 + 0.5 / np.sqrt(x + 1))


def of_a_split(x):
    return lax.split(x, (2, 1))


def of_a_loop(x):
    return lax.scan(lambda c, y: (c * y + 1.0, c * c), 1.0, x)


def of_a_branch(x):
    return lax.cond(x[0] > 0, lambda x: (x * 2, x * x), lambda x: (x, x * 3), x)


def derivatives_of_both(f, g, ways):
    """Derivatives of two functions of two arguments, compiled as one program."""
    return jax.jit(lambda *args: [[of(h, (0, 1))(*args) for of in ways] for h in (f, g)])


@pytest.mark.parametrize("several", [of_a_split, of_a_loop, of_a_branch])
@pytest.mark.parametrize("limits", [(0, -9), (-9, 0), (0, 1)])
def test_checks_of_one_of_several_results(several, limits):
    """An equation with several results matters where any of its results does."""

    def f(x, s):
        first, second = several(x)
        root = jnp.where(s > -5, jnp.sqrt(s + 5), -jnp.inf)
        return root + sum(
            jnp.sum(jnp.where(s > limit, jnp.log(y) * s, -jnp.inf))
            for limit, y in zip(limits, (first, second), strict=True)
        )

    found = jaxprgen.transform(f, GuardBranches())
    x = np.array([0.3, 1.2, 2.0])
    both = derivatives_of_both(found, f, (jax.grad, jax.hessian))
    for s in map(np.asarray, (-1.0, 0.5, 2.0)):
        jax.tree.map(
            functools.partial(np.testing.assert_allclose, rtol=1e-12, atol=1e-12), *both(x, s)
        )


def test_checks_of_what_a_function_closes_over():
    def f(y, s, transform=lambda f: f):
        def inner(x):
            return jnp.where(s > 0, jnp.sqrt(y) * x, -jnp.inf) + jnp.where(
                x > 0, jnp.log(x), jnp.inf
            )

        return transform(inner)(s + 2)

    def found(y, s):
        return f(y, s, lambda f: jaxprgen.transform(f, GuardBranches()))

    both = derivatives_of_both(found, f, (jax.grad, jax.jacfwd, jax.hessian))
    for s in map(np.asarray, (-1.0, 0.5)):
        ours, theirs = both(np.asarray(0.7), s)
        jax.tree.map(functools.partial(np.testing.assert_allclose, rtol=1e-12), ours, theirs)
    assert jax.grad(found, (0, 1))(-0.7, -1.0)[0] == 0


def test_checks_inside_of_each_other():
    def f(x, depth):
        if not depth:
            return x
        return jnp.where(x > -depth, jnp.tanh(f(x, depth - 1)) + jnp.log(x + depth), -jnp.inf)

    for depth in (3, 20):
        plain = functools.partial(f, depth=depth)
        found = jax.jit(jax.value_and_grad(jaxprgen.transform(plain, GuardBranches())))
        for x in (0.5, -1.5, -2.5, -depth - 0.5):
            value, slope = found(x)
            np.testing.assert_allclose(value, jax.jit(plain)(x), rtol=1e-12)
            assert np.isfinite(slope) and (x > -depth or slope == 0)


KERNELS = {
    "where": lambda a, b, s: jnp.where(a * s > b, a * s, b),
    "a guarded root": lambda a, b, s: jnp.where(a / s > b, jnp.sqrt(a / s - b), 0),
    "max": lambda a, b, s: jnp.maximum(a / s - b / s, 0.5),
    "clamp": lambda a, b, s: jnp.clip(a * s - b, -1, 1),
    "a check": lambda a, b, s: jnp.where(a > 0, a / s + b, -jnp.inf),
}


@pytest.mark.parametrize("name", KERNELS)
def test_kernels_of_numbers_under_two_batches(name):
    """A value may depend on fewer axes than its tangent."""
    rows, columns = np.array([0.3, 1.1, 2.5]), np.array([0.2, 0.9, 1.7])

    def total(kernel):
        by_column = jax.vmap(kernel, (None, 0, None))
        return lambda s: jax.vmap(by_column, (0, None, None))(rows, columns, s).sum()

    guarded = jaxprgen.transform(KERNELS[name], GuardBranches())

    def one_by_one(s):
        return sum(guarded(a, b, s) for a in rows for b in columns)

    for derivative in (jax.grad, jax.jacfwd, jax.hessian):
        found = jax.jit(derivative(total(guarded)))(0.7)
        np.testing.assert_allclose(found, derivative(one_by_one)(0.7), rtol=1e-12, atol=1e-12)
