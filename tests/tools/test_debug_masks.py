"""The debugger on data with missing values: where masks fail, and NaN that are meant."""

import aesara
import aesara.tensor as at
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from messages import built, line_of

import jaxprgen
from jaxprgen import errors
from jaxprgen.tools.debugging import debug
from jaxprgen.tools.debugging.faults import loses_a_mask

DATA = np.array([1.0, np.nan, 4.0])

mu = at.dscalar("mu")
y = at.dvector("y")
missing = at.isnan(y)


def line(code):
    return line_of(__file__, code)[0]


def findings(f, *args, **options):
    debugger = debug(f, stop=False, **options)
    debugger(*args)
    return debugger.findings


def masked_too_late():
    root = at.sqrt(y - mu)
    root.name = "root"
    return at.switch(missing, 0.0, root).sum()


def compiled():
    return jaxprgen.compile([mu, y], masked_too_late(), passes=())  # No pass guards the switch.


def with_gradient():
    total = masked_too_late()
    return jaxprgen.compile([mu, y], [total, at.grad(total, mu)], passes=())


@pytest.mark.parametrize(
    "gradient",
    [
        lambda: jax.grad(compiled()),
        lambda: jax.jit(jax.value_and_grad(compiled())),
        lambda: jax.grad(lambda mu, y: jnp.square(compiled()(mu, y))),
        lambda: jax.grad(jax.checkpoint(compiled())),
        with_gradient,
    ],
)
def test_the_equation_at_which_a_gradient_loses_its_mask_is_found(gradient):
    (finding,) = findings(gradient(), 0.0, DATA, allow="y")
    assert (finding.kind, finding.position) == ("nan", (1,))
    assert finding.frame.line == line("root = at.sqrt(y - mu)")
    values = [operand.value[1] for operand in finding.operands]
    assert 0 in values and any(map(np.isnan, values))


def test_the_variable_and_the_line_are_named():
    with pytest.raises(errors.NonFiniteValueError) as caught:
        debug(jax.grad(compiled()), allow=["y"])(0.0, DATA)
    text = str(caught.value).splitlines()
    assert text[0].startswith("NaN in 'root.")
    assert text[0].endswith("': 1 of 3 elements, the first at [1].")
    assert text[1] == "  in mul of the gradient"
    assert text[2].endswith(": float64[3] = [1.0, 0.0, 1.0]")
    assert text[3].endswith(": float64[3] = [0.5, nan, 0.25]")
    assert text[4].startswith("  as root.") and " = mul " in text[4]
    assert text[5:8] == [
        "  " + built("root = at.sqrt(y - mu)", "masked_too_late"),
        "0 × NaN is NaN: a mask that is applied later, or as a factor of zero, does not remove it.",
        "Replace the NaN before this operation, as in at.switch(at.isnan(y), 1.0, y).",
    ]


def test_a_mask_that_reaches_the_derivative_has_no_finding():
    root = at.sqrt(at.switch(missing, 1.0, y) - mu)
    f = jaxprgen.compile([mu, y], at.switch(missing, 0.0, root).sum())
    assert findings(jax.grad(f), 0.0, DATA, allow="y") == ()


def test_a_lost_mask_counts_only_if_a_result_is_nan():
    f = compiled()
    assert findings(f, 0.0, DATA, allow="y") == ()
    g = jaxprgen.compile([mu, y], at.switch(missing, 0.0, mu * y).sum())
    assert findings(g, 0.0, DATA, allow="y") == ()  # 0 × NaN, which is masked.


def test_a_factor_is_no_mask():
    weights = at.switch(missing, 0.0, 1.0)
    product = weights * y
    f = jaxprgen.compile([y], product.sum(), passes=())
    (finding,) = findings(f, DATA, allow="y")
    assert finding.frame.line == line("product = weights * y")


def test_the_origin_comes_after_a_nan_that_was_given():
    given, lost = findings(jax.grad(compiled()), 0.0, DATA)
    assert (given.op, given.variable) == ("argument", "y")
    assert given.error().args[0].splitlines()[-2] == (
        "Pass an array without NaN. If its NaN are meant, use allow='y'."
    )
    assert lost.frame.line == line("root = at.sqrt(y - mu)")


@pytest.mark.parametrize("recurrent", [False, True])
def test_a_mask_lost_in_a_loop_is_found_on_the_line_of_the_step(recurrent):
    def step(y_t, level, mu):
        level = 0.5 * level + (mu * level if recurrent else mu)
        density = -0.5 * at.square(y_t - level)
        return level, at.switch(at.isnan(y_t), 0.0, density)

    start = at.as_tensor(np.float64(1.0))
    (_, densities), _ = aesara.scan(step, y, [start, None], [mu])
    f = jaxprgen.compile([mu, y], densities.sum(), passes=())
    (finding,) = findings(jax.grad(f), 0.25, DATA, allow="y")
    assert finding.frame.line == line("density = -0.5")


def test_nan_in_a_step_is_found_on_the_line_of_the_step():
    def step(level):
        logarithm = at.log(level)
        return logarithm - 1.0

    levels, _ = aesara.scan(step, outputs_info=[mu], n_steps=3)
    (finding,) = findings(jaxprgen.compile([mu], levels), 2.0, find="nan")
    assert finding.frame.line == line("logarithm = at.log(level)")
    assert [i for _, i in finding.iterations] == [1]


# --- NaN that are meant ---------------------------------------------------------------------


def test_variables_of_every_kind_may_be_allowed():
    shared = aesara.shared(DATA, "shared")
    constant = at.constant(DATA, "constant")
    bound = at.log(mu - 1.0)
    bound.name = "bound"
    f = jaxprgen.compile([mu, y], [shared * constant + y, at.maximum(at.exp(bound), 0.0)])
    names = ["y", "shared", "constant", "bound"]
    assert {v.variable for v in findings(f, 0.0, DATA)} == set(names)
    assert findings(f, 0.0, DATA, allow=names) == ()
    assert [v.variable for v in findings(f, 0.0, DATA, allow=names[:-1])] == ["bound"]


def test_infinities_of_a_variable_may_be_allowed():
    bound = at.log(y)
    bound.name = "bound"
    f = jaxprgen.compile([y], at.exp(bound))
    zeros = np.zeros(3)
    assert [v.kind for v in findings(f, zeros)] == ["inf"]
    assert findings(f, zeros, allow="bound") == ()


def test_an_unknown_allowed_name_is_refused():
    with pytest.raises(errors.UnknownNameError, match="No variable of this program is called 'Y'"):
        debug(compiled(), allow="Y")(0.0, DATA)


# --- Products -------------------------------------------------------------------------------


NAN = np.array([[1.0, np.nan], [2.0, 3.0]])


@pytest.mark.parametrize(
    ("f", "args", "loses"),
    [
        (lax.mul, (NAN, np.zeros((2, 2))), True),
        (lax.mul, (NAN, np.ones((2, 2))), False),
        (lax.div, (np.zeros((2, 2)), NAN), True),
        (lax.div, (NAN, np.zeros((2, 2))), False),
        (jnp.matmul, (np.array([0.0, 1.0]), NAN), True),
        (jnp.matmul, (np.array([1.0, 0.0]), NAN), False),
        (lax.mul, (NAN.astype(complex), np.zeros((2, 2), complex)), True),
        (lax.add, (NAN, np.zeros((2, 2))), False),
        (lax.max, (NAN, np.zeros((2, 2))), False),
    ],
)
def test_products_whose_zeros_meet_nan(f, args, loses):
    (eqn,) = jax.make_jaxpr(f)(*args).jaxpr.eqns
    with jax.debug_nans(False):
        assert loses_a_mask(eqn, [jnp.asarray(x) for x in args], f(*args)) == loses
