"""Public functions of JAX, with an array constant beside them, stay as they are.

Programs that hold arrays and primitives that JAX expands late are a case of their own: constants
are operands of the program, and such primitives must be expanded where JAX would.
"""

import inspect
import warnings

import jax
import jax.numpy as jnp
import jax.scipy
import numpy as np
import pytest
from profiles import is_deep, sample

from jaxprgen import Interpreter, transform

MODULES = [
    *(jax.numpy, jax.numpy.linalg, jax.numpy.fft, jax.lax, jax.lax.linalg, jax.nn),
    *(jax.scipy.linalg, jax.scipy.special, jax.scipy.signal, jax.scipy.fft, jax.scipy.stats.norm),
    *(jax.scipy.stats.gamma, jax.scipy.interpolate, jax.scipy.ndimage, jax.scipy.cluster.vq),
]
# Results that may be anything, and a function that checks its sizes too late.
LEFT_OUT = ("empty", "empty_like", "rng_uniform", "rng_bit_generator", "reshape")
VALUES = np.random.default_rng(0).uniform(0.2, 0.8, (3, 3)) + np.eye(3)
CONSTANT = jnp.asarray(VALUES.T + 1)
ROW, WHOLE = jnp.asarray([0.2, 0.5, 0.9]), jnp.arange(3)
FORMS = {
    "x": lambda f, x: f(x + CONSTANT),
    "row": lambda f, x: f(x[0] + ROW),
    "x, c": lambda f, x: f(x, CONSTANT),
    "c, x": lambda f, x: f(CONSTANT, x),
    "row, c": lambda f, x: f(x[0], ROW),
    "c, row": lambda f, x: f(ROW, x[0]),
    "x, row": lambda f, x: f(x, ROW),
    "row, row, c": lambda f, x: f(x[0], x[1], ROW),
    "x, c, c": lambda f, x: f(x, CONSTANT, CONSTANT),
    "whole": lambda f, x: f(WHOLE + (x[0] > 0.5)),
    "whole, c": lambda f, x: f(WHOLE + (x[0] > 0.5), WHOLE),
    "x, 1": lambda f, x: f(x + CONSTANT, 1),
    "row, sizes": lambda f, x: f(x[0] > ROW, size=3),
    "list": lambda f, x: f([x, CONSTANT]),
}
HIGHER = {
    "custom_root": lambda x: jax.lax.custom_root(
        lambda y: y - CONSTANT * x,
        x,
        lambda g, y: jax.lax.fori_loop(0, 9, lambda _, y: y - g(y) / 2, y),
        lambda g, y: y,
    ),
    "custom_linear_solve": lambda x: jax.lax.custom_linear_solve(
        lambda y: CONSTANT @ y, x[0], lambda mv, b: jnp.linalg.solve(CONSTANT, b), symmetric=True
    ),
    "scan": lambda x: jax.lax.scan(lambda s, r: (s + r @ CONSTANT, s * ROW), ROW, x),
    "while_loop": lambda x: jax.lax.while_loop(
        lambda y: y.sum() < 90, lambda y: y * 2 + CONSTANT, x
    ),
    "switch": lambda x: jax.lax.switch(
        (x[0, 0] > 0.5) + 0, [lambda y: jnp.interp(y, ROW, ROW), lambda y: y @ CONSTANT], x[0]
    ),
    "map": lambda x: jax.lax.map(lambda r: jnp.searchsorted(ROW, r), x),
    "associative_scan": lambda x: jax.lax.associative_scan(lambda a, b: a + b * 2, x * CONSTANT),
    "vmap": lambda x: jax.vmap(lambda r: jnp.digitize(r, ROW))(x),
    "checkpoint": lambda x: jax.checkpoint(lambda y: jnp.sin(y) @ CONSTANT)(x),
    "grad": lambda x: jax.grad(lambda y: jnp.interp(y, ROW, ROW**2).sum())(x),
    "random": lambda x: jax.random.uniform(jax.random.key(0), (3,)) * x + CONSTANT,
    "vectorize": lambda x: jnp.vectorize(lambda a, b: a @ b, signature="(n),(n)->()")(x, CONSTANT),
    "piecewise": lambda x: jnp.piecewise(x, [x < 0.5, x >= CONSTANT], [0.0, jnp.sin, ROW[0]]),
}
identity = Interpreter("identity")


def public():
    """Yield the name of each public function of JAX, and the function."""
    for module in MODULES:
        for name in dir(module):
            f = getattr(module, name)
            is_public = callable(f) and not inspect.isclass(f) and not name.startswith("_")
            if is_public and name not in LEFT_OUT and not name.endswith("_p"):
                yield f"{module.__name__}.{name}", f


def forms(name, f):
    """Yield a name and a function of a matrix for each form in which JAX takes a function."""
    found = 0
    for form, call in FORMS.items():

        def g(x, f=f, call=call):
            return call(f, x)

        try:
            results = jax.tree.leaves(jax.eval_shape(g, VALUES))
        except Exception:  # Whatever it raises of arguments that it does not take.
            continue
        if results and all(hasattr(x, "dtype") and x.dtype.kind in "biufc" for x in results):
            found += 1
            yield f"{name}({form})", g
        if found == (len(FORMS) if is_deep() else 1):
            return


PARTS = 12


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("part", sample(range(PARTS), 3))
def test_programs_with_constants_stay_as_they_are(part):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        some = [pair for item in [*public()][part::PARTS] for pair in forms(*item)]
    assert len(some) > 400 / PARTS
    some += [*HIGHER.items()][part::PARTS]

    @jax.jit
    def together(x):
        return [[g(x), transform(g)(x), identity(g)(x)] for _, g in some]

    for (name, _), (wanted, *found) in zip(some, together(VALUES), strict=True):
        for result in found:
            assert jax.tree.structure(result) == jax.tree.structure(wanted), name
            for x, y in zip(*map(jax.tree.leaves, (result, wanted)), strict=True):
                assert (x.dtype, x.shape) == (y.dtype, y.shape), name
                np.testing.assert_allclose(x, y, rtol=1e-6, atol=1e-9, err_msg=name)
