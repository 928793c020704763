"""``inverse(f)(f(x))`` is ``x``; equations without an inverse are refused, with their line."""

import aesara.tensor as at
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from inverse import inverse
from jax import lax

import jaxprgen
from jaxprgen.errors import InterpretationError

x = np.array([[0.2, 0.7, 0.4], [0.9, 0.3, 0.6]])
OF_LIKE_SHAPE = {
    "exp": jnp.exp,
    "log": jnp.log,
    "exp2": jnp.exp2,
    "expm1": jnp.expm1,
    "log1p": jnp.log1p,
    "sqrt": jnp.sqrt,
    "rsqrt": lax.rsqrt,
    "cbrt": jnp.cbrt,
    "logistic": jax.nn.sigmoid,
    "tanh": jnp.tanh,
    "arctanh": jnp.arctanh,
    "sinh": jnp.sinh,
    "arcsinh": jnp.arcsinh,
    "arccosh": lambda x: jnp.arccosh(x + 1),
    "arcsin": jnp.arcsin,
    "arccos": jnp.arccos,
    "arctan": jnp.arctan,
    "erf": lax.erf,
    "erf_inv": lax.erf_inv,
    "erfc": lax.erfc,
    "neg": lambda x: -x,
    "affine": lambda x: 3 - (x * 2 + 1) / 5,
    "of constants": lambda x: x + np.arange(3) * jnp.sin(2.0),
    "reciprocal": lambda x: 2 / (1 + x),
    "powers": lambda x: x**2.5 + 0 * jnp.ones(3),
    "exponent": lambda x: 2.0**x,
    "cube": lambda x: (x - 0.5) ** 3,
    "negative cube": lambda x: x**-3,
    "cumsum": lambda x: jnp.cumsum(x, 1),
    "cumsum backwards": lambda x: lax.cumsum(x, 0, reverse=True),
    "cumprod": lambda x: jnp.cumprod(x, 0),
    "cumlogsumexp": lambda x: lax.cumlogsumexp(x, 1),
    "flip": lambda x: x[::-1],
    "jit": jax.jit(lambda x: jax.checkpoint(jnp.exp)(x) + 1),
    "custom": lambda x: doubled(x) + 1,
    "fori": lambda x: lax.fori_loop(0, 4, lambda i, y: 2 * y + i, x),
    "while": lambda x: lax.while_loop(
        lambda s: s[0] < 2, lambda s: (s[0] + 1, jnp.exp(s[1])), (0, x)
    )[1],
    "cond": lambda x: lax.cond(jnp.arange(3).sum() > 2, jnp.exp, lambda y: y, x),
}
OF_OTHER_SHAPES = {
    "transpose": lambda x: x.T,
    "reshape": lambda x: x.reshape(3, 2),
    "ravel": lambda x: x.ravel()[:, None],
    "broadcast": lambda x: jnp.broadcast_to(x[:, None], (4, 2, 2, 3)),
    "join": lambda x: jnp.concatenate([jnp.ones((1, 3)), 2 * x, jnp.zeros((2, 3))]),
    "single": lambda x: x.astype(np.float32),
    "all": lambda x: jnp.cumsum(jnp.exp(x.T / 2).reshape(6) + jnp.arange(6))[::-1],
}


@jax.custom_jvp
def doubled(x):
    return 2 * x


doubled.defjvps(lambda t, _, x: 2 * t)


def twice(f, x):
    return lax.while_loop(lambda s: s[0] < 2, lambda s: (s[0] + 1, f(s[1])), (0, x))[1]


def test_round_trips():
    """All functions are in one program, compiled once."""

    def there_and_back(x):
        same = {name: inverse(f)(f(x)) for name, f in OF_LIKE_SHAPE.items()}
        return same | {name: inverse(f, x)(f(x)) for name, f in OF_OTHER_SHAPES.items()}

    for name, found in jax.jit(there_and_back)(x).items():
        assert found.dtype == x.dtype
        rtol = 1e-6 if name == "single" else 1e-10
        np.testing.assert_allclose(found, x, rtol=rtol, err_msg=name)


def test_integers():
    n = np.array([3, -5, 0])
    for f in (lambda n: (n + 2) * 3, lambda n: ~(n ^ 5), lambda n: -n.astype(float)):
        found = inverse(f, n)(f(n))
        assert found.dtype == n.dtype
        np.testing.assert_array_equal(found, n)


def test_other_transformations():
    def f(x):
        return jnp.exp(2 * x)

    undo = inverse(f)
    np.testing.assert_allclose(jax.vmap(undo)(f(x)), x, rtol=1e-12)
    # The derivative of an inverse is one over that of the function.
    np.testing.assert_allclose(jax.grad(undo)(f(0.3)) * jax.grad(f)(0.3), 1, rtol=1e-12)
    np.testing.assert_allclose(inverse(undo)(0.3), f(0.3), rtol=1e-12)


def test_several_arguments_in_any_order():
    undo = inverse(lambda x, y: (jnp.exp(y), x.T + 1), x, x[0])
    for got, wanted in zip(undo(jnp.exp(x[0]), x.T + 1), (x, x[0]), strict=True):
        np.testing.assert_allclose(got, wanted, rtol=1e-12)


def test_functions_compiled_from_graphs():
    m = at.dmatrix("m")
    f = jaxprgen.compile([m], at.tanh(at.log(m.T) / 2)[::-1].reshape((6,)) * 3 + at.arange(6))
    np.testing.assert_allclose(inverse(f, x)(f(x)), x, rtol=1e-10)
    np.testing.assert_allclose(jax.jit(inverse(f, x))(f(x)), x, rtol=1e-10)


@pytest.mark.parametrize(
    ("f", "text"),
    [
        (lambda x: jnp.cos(x), "cos cannot be undone"),
        (lambda x: x + jnp.exp(x), "add cannot be undone"),
        (lambda x: x**2, "cannot be undone"),
        (lambda x: jnp.sum(x), "reduce_sum cannot be undone"),
        (lambda x: x.astype(np.int32), "convert_element_type cannot be undone"),
        (lambda x: lax.cond(x[0, 0] > 0, jnp.exp, jnp.log, x), "cannot be undone"),
        (lambda x: x[:, :1], "slice cannot be undone"),
    ],
)
def test_functions_without_an_inverse_are_refused(f, text):
    with pytest.raises(InterpretationError, match=text) as caught:
        inverse(f, x)(f(x))
    assert str(caught.value).splitlines()[-1].startswith(f"  built at {__file__}:")
