"""Find the first equation that turns finite numbers into NaN or infinity, with one rule.

Every equation is computed as usual, one after the other. The first one with a NaN or an infinity in
its result, but none in its operands, is an error. Like every error in a rule, it names the
equation, the iterations of the loops around it, and the user's line. (`jaxprgen.debug` does more:
it knows the graph of a compiled function, and checks indices.)
"""

import jax
import jax.numpy as jnp
import numpy as np

import jaxprgen
from jaxprgen.errors import NonFiniteValueError
from jaxprgen.interpreters import STEPWISE, bind


def is_finite(x):
    x = np.asarray(x) if jnp.issubdtype(jnp.result_type(x), np.inexact) else np.zeros(())
    return bool(np.isfinite(x).all())


def watched(context, *operands, **params):
    results = bind(context, *operands, **params)
    if all(map(is_finite, operands)) and not all(map(is_finite, jax.tree.leaves(results))):
        values = "\n".join(f"  operand {i}: {np.asarray(x)}" for i, x in enumerate(operands))
        raise NonFiniteValueError(f"{context.primitive} returned {results} for\n{values}")
    return results


finite = jaxprgen.Interpreter("finite", default=watched, programs=STEPWISE)
"""``finite(f)(x)`` returns ``f(x)`` or raises; ``x`` must be concrete."""


def main():
    def newton(f, x, steps):
        """Return a root of f, if the iteration converges."""
        return jax.lax.fori_loop(0, steps, lambda _, x: x - f(x) / jax.grad(f)(x), x)

    def cube(x):
        return x**3 - 2 * x + 2

    print("a root at", finite(lambda x: newton(cube, x, 9))(-2.0))
    try:
        finite(lambda x: newton(lambda x: x**2 + 1, x, 9))(1.0)
    except NonFiniteValueError as error:
        print(error)


if __name__ == "__main__":
    main()
