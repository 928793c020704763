"""What is drawn, or said, of parameters that are outside of their domain or on its edge."""

from __future__ import annotations

import aesara.tensor as at
import jax
import numpy as np
import pytest
from aeppl import joint_logprob
from aesara.raise_op import CheckAndRaise
from aesara.tensor.random import basic as aer
from catalogue.draws import generator
from catalogue.parameters import TABLE, rows
from jax.experimental import checkify
from laws import failures, refusal
from numpy.testing import assert_allclose
from scipy import stats

import jaxprgen
from jaxprgen._jax import check_jaxpr
from jaxprgen.errors import ParameterError, RuntimeCheckWarning
from jaxprgen.lowering.names import own_keys
from jaxprgen.ops.random import DOMAINS

KEY = jax.random.key(0)


def test_the_table_has_every_domain():
    installed = [kind for kind in vars(aer).values() if isinstance(kind, type)]
    own = {kind for kind in installed if not DOMAINS.keys().isdisjoint(own_keys(kind))}
    assert {type(op) for op in TABLE} == own  # Other libraries bring others, and their tests.


@pytest.mark.parametrize("op", TABLE, ids=lambda op: op.name)
def test_known_parameters_are_refused_where_aesara_refuses_them(op):
    bad, edge = rows(op)
    for i, parameters in enumerate([*bad, *edge]):
        node = op.make_node(generator(op), None, "floatX", *parameters)
        f = jaxprgen.compile([], node.outputs[1])
        size, outputs = np.zeros(0, np.int64), [[None], [None]]
        inputs = [np.random.default_rng(0), size, np.asarray(0), *parameters]
        if i < len(bad):
            with pytest.raises(ValueError):  # Its messages are NumPy's and SciPy's.
                op.perform(node, inputs, outputs)
            with pytest.raises(ParameterError, match=f"^{op.name}: .* must hold, got "):
                f.jaxpr(KEY)
        else:
            op.perform(node, inputs, outputs)
            check_jaxpr(f.jaxpr(KEY).jaxpr)


scale, x = at.dscalar("scale"), at.dscalar("x")


def test_what_is_said_of_a_parameter_that_is_known():
    y = aer.normal(0.0, -at.ones(2), rng=generator(), name="y")
    first, second, *_, last = refusal(ParameterError, jaxprgen.compile([], y), KEY)
    assert first == "normal: scale >= 0 must hold, got scale = -1.0."
    assert second.startswith("  in normal_rv{0, (0, 0), floatX, False}(")
    assert last.startswith("  built at LINE: y = aer.normal")
    assert issubclass(ParameterError, ValueError)


def test_draws_are_checked_through_checkify():
    y = aer.normal(0.0, scale, size=(3,), rng=generator())
    n = aer.multinomial(3, at.stack([scale, scale]), rng=generator())
    right, low, high = failures([scale], [y, n], *([KEY, value] for value in (0.5, -1.0, 2.0)))
    assert right is None
    assert "normal: scale >= 0 must hold, got scale = -1.0." in low
    assert "multinomial: p <= 1 must hold, got p = 2.0." in high


@pytest.mark.parametrize("kappa", [0.01, 0.5, 3.0, 80.0])
def test_draws_by_rejection_move_along_their_quantiles(kappa):
    concentration = at.dscalar("concentration")
    f = jaxprgen.compile([concentration], aer.vonmises(1.0, concentration, (20,), rng=generator()))
    draws, slopes = f(KEY, kappa), jax.jacrev(f, 1)(KEY, kappa)
    assert_allclose(jax.jacfwd(f, 1)(KEY, kappa), slopes)
    angles = np.angle(np.exp(1j * (np.asarray(draws) - 1)))

    def quantiles(step):
        return stats.vonmises(kappa + step).ppf(stats.vonmises(kappa).cdf(angles))

    steps = np.array([0, 1, 2]) * 1e-3
    expected = np.polyfit(steps, [quantiles(step) for step in steps], 2)[1]
    assert_allclose(slopes, expected, rtol=1e-4, atol=1e-6)


# --- Log-densities ------------------------------------------------------------------------


def log_density(scale):
    y = aer.normal(0.0, scale, rng=generator(), name="y")
    return joint_logprob(realized={y: x})[0]


def test_a_log_density_of_a_known_parameter_fails_while_emitting():
    for value in (x, at.constant(np.asarray(0.5))):
        y = aer.normal(0.0, -1.0, rng=generator())
        graph, _ = joint_logprob(realized={y: value})
        first, second, *_ = refusal(ParameterError, jaxprgen.compile([x], graph), 1.0)
        assert first == "sigma > 0. The condition is false."
        assert second.startswith("  in Check{sigma > 0}(")


def test_a_known_condition_that_decides_a_shape():
    """Aesara's own implementation says so, by our error."""
    n = at.lscalar("n")
    size = CheckAndRaise(ValueError, "n is positive")(n, n > 0)
    f = jaxprgen.compile([n], at.arange(size))
    with pytest.raises(ParameterError, match="n is positive"):
        f(-1)
    with pytest.warns(RuntimeCheckWarning, match="n is positive"):
        assert len(f(2)) == 2


def test_a_log_density_announces_its_check_once_and_composes():
    f = jaxprgen.compile([scale, x], log_density(scale))
    with pytest.warns(RuntimeCheckWarning, match=r"Not checked: .* Check\{sigma > 0\}") as caught:
        value = f(2.0, 0.5)
        slopes = jax.jit(jax.vmap(jax.grad(f), (0, None)))(np.array([2.0, 3.0]), 0.5)
    assert len(caught) == 1
    assert_allclose(value, -0.5 * 0.25**2 - np.log(2) - np.log(2 * np.pi) / 2)
    assert_allclose(slopes, [0.25 / 8 - 0.5, 0.25 / 27 - 1 / 3])
    assert np.isnan(f(-1.0, 0.5))


def test_a_log_density_is_checked_through_checkify():
    f = jaxprgen.compile([scale, x], log_density(scale), checks=True)
    for transformed in (f, jax.grad(f)):
        checked = checkify.checkify(jax.jit(transformed))
        assert checked(2.0, 0.5)[0].get() is None
        assert "ParameterValueError: sigma > 0." in checked(-1.0, 0.5)[0].get()
    several = checkify.checkify(jax.jit(jax.vmap(f, (0, None))))
    assert "sigma > 0" in several(np.array([1.0, -1.0]), 0.5)[0].get()
