"""Invert a JAX function with an interpreter.

The program runs forwards, on a value that stands for the argument and remembers the way back to it.
An equation that can be undone extends the way back. An equation that reads constants only is
computed. Any other equation is an error, with its line. JAX's tutorial "Writing custom Jaxpr
interpreters" does the same for chains of ``exp`` and ``tanh``.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.lax import erf_inv
from jax.scipy.special import logit

from jaxprgen.interpreters import STEPWISE, Domain, Interpreter, bind


@dataclass(frozen=True)
class Unknown:
    """A value computed from argument number ``argument``; ``back`` returns to the argument."""

    shape: tuple[int, ...]
    dtype: Any
    argument: int
    back: Callable[[Any], Any] = lambda y: y

    def then(self, context, undo):
        """Return the result of an equation that ``undo`` reverses."""
        (aval,) = context.avals_out

        def back(y):
            x = undo(y)
            for axis in range(jnp.ndim(x) - len(self.shape)):  # It was a scalar.
                x = jnp.take(x, 0, axis)
            return self.back(x.astype(self.dtype))

        return Unknown(aval.shape, aval.dtype, self.argument, back)


class Invertible(Domain):
    value_type = Unknown


def known(context, *operands, **params):
    """Compute an equation that does not depend on an argument: the default rule."""
    if any(isinstance(x, Unknown) for x in operands):
        raise ValueError(f"{context.primitive} cannot be undone.")
    if any(isinstance(x, jax.core.Tracer) for x in operands):
        return bind(context, *operands, **params)
    with jax.ensure_compile_time_eval():  # Loops need concrete values.
        return bind(context, *operands, **params)


undone = Interpreter("undone", Invertible(), default=known, programs=STEPWISE)


def inverse(f, *like):
    """Return the function that computes the arguments of ``f`` from its results.

    ``f`` takes arrays and returns as many, each computed from one argument by steps that can be
    undone. ``like`` are arrays, or ``jax.ShapeDtypeStruct``, with the shapes and dtypes of the
    arguments, if these differ from those of the results. Where there are several inverses, as for
    ``pow`` and even roots, the result is the positive one.
    """

    def inverted(*results):
        types = [jax.typeof(x) for x in like or results]
        arguments = [Unknown(t.shape, t.dtype, i) for i, t in enumerate(types)]
        made = jax.tree.leaves(undone(f)(*arguments), is_leaf=undone.domain.is_value)
        found = {x.argument: x.back(jnp.asarray(y)) for x, y in zip(made, results, strict=True)}
        if len(found) == 1 and len(types) == 1:
            return found[0]
        return tuple(found[i] for i in range(len(types)))

    return inverted


# --- Rules -------------------------------------------------------------------------------


def of_one(undo):
    """Return the rule of a function that ``undo(result, operand_shape, **params)`` reverses."""

    def rule(context, x, *others, **params):
        if not isinstance(x, Unknown) or any(isinstance(other, Unknown) for other in others):
            return known(context, x, *others, **params)
        return x.then(context, lambda y: undo(y, x.shape, **params))

    return rule


def of_two(undo_first, undo_second):
    """Return the rule of a function of two operands; ``undo(result, known)`` reverses it."""

    def rule(context, x, y, **params):
        if isinstance(x, Unknown) == isinstance(y, Unknown):
            return known(context, x, y, **params)
        if isinstance(x, Unknown):
            return x.then(context, lambda z: undo_first(z, y))
        return y.then(context, lambda z: undo_second(z, x))

    return rule


def cumulative(subtract, start):
    """Return the rule of a cumulative operation, which differences of neighbours reverse."""

    def undo(y, _, axis, reverse, **params):
        y = jnp.flip(y, axis) if reverse else y
        before = jnp.roll(y, 1, axis)
        first = jax.lax.broadcasted_iota(int, y.shape, axis) == 0
        x = subtract(y, jnp.where(first, jnp.asarray(start, y.dtype), before))
        return jnp.flip(x, axis) if reverse else x

    return of_one(undo)


def one_of_each(y, before, broadcast_dimensions, **params):
    """Return the array that was broadcast."""
    sizes = dict(zip(broadcast_dimensions, before, strict=True))
    return y[tuple(slice(sizes[d]) if d in sizes else 0 for d in range(y.ndim))]


def quotient(z, y):
    return z // y if jnp.issubdtype(z.dtype, jnp.integer) else z / y


UNARY = {
    "neg": jnp.negative, "not": jnp.invert, "conj": jnp.conj, "copy": jnp.copy,
    "copy_p": jnp.copy, "reduce_precision": jnp.copy, "exp": jnp.log, "log": jnp.exp,
    "exp2": jnp.log2, "expm1": jnp.log1p, "log1p": jnp.expm1, "sqrt": jnp.square,
    "rsqrt": lambda y: 1 / y**2, "cbrt": lambda y: y**3, "logistic": logit, "erf": erf_inv,
    "erf_inv": jax.lax.erf, "erfc": lambda y: erf_inv(1 - y), "tanh": jnp.arctanh,
    "atanh": jnp.tanh, "sinh": jnp.arcsinh, "asinh": jnp.sinh, "acosh": jnp.cosh,
    "asin": jnp.sin, "acos": jnp.cos, "atan": jnp.tan,
}  # fmt: skip
SHAPES = {
    "reshape": lambda y, shape, **params: y.reshape(shape),
    "squeeze": lambda y, shape, **params: y.reshape(shape),
    "transpose": lambda y, _, permutation: jnp.transpose(y, np.argsort(permutation)),
    "rev": lambda y, _, dimensions: jnp.flip(y, dimensions),
    "broadcast_in_dim": one_of_each,
}
BINARY = {
    "add": (jnp.subtract, jnp.subtract),
    "add_any": (jnp.subtract, jnp.subtract),
    "sub": (jnp.add, lambda z, x: x - z),
    "mul": (quotient, quotient),
    "xor": (jnp.bitwise_xor, jnp.bitwise_xor),
    "pow": (lambda z, y: z ** (1 / y), lambda z, x: jnp.log(z) / jnp.log(x)),
}
CUMULATIVE = {
    "cumsum": cumulative(jnp.subtract, 0),
    "cumprod": cumulative(jnp.divide, 1),
    "cumlogsumexp": cumulative(lambda y, before: y + jnp.log(-jnp.expm1(before - y)), -jnp.inf),
}

undone.rules({name: of_one(lambda y, *_, g=g, **params: g(y)) for name, g in UNARY.items()})
undone.rules({name: of_one(undo) for name, undo in SHAPES.items()})
undone.rules({name: of_two(*undo) for name, undo in BINARY.items()})
undone.rules(CUMULATIVE)


@undone.rule("div")
def divide(context, x, y, **params):
    if not jnp.issubdtype(context.avals_in[0].dtype, jnp.inexact):
        return known(context, x, y, **params)  # Integer division drops the remainder.
    return of_two(jnp.multiply, lambda z, x: x / z)(context, x, y, **params)


@undone.rule("integer_pow")
def power(context, x, *, y):
    if y % 2 == 0:  # It has two inverses.
        return known(context, x, y=y)
    return of_one(lambda z, _, y: jnp.sign(z) * jnp.abs(z) ** (1 / y))(context, x, y=y)


@undone.rule("convert_element_type")
def convert(context, x, *, new_dtype, **params):
    """Undo conversions between floats, up to rounding, and to dtypes that hold all values."""
    dtype = context.avals_in[0].dtype
    floats = all(jnp.issubdtype(t, jnp.floating) for t in (dtype, new_dtype))
    if not floats and not np.can_cast(dtype, new_dtype):
        return known(context, x, new_dtype=new_dtype, **params)
    return of_one(lambda y, _, **params: y)(context, x, new_dtype=new_dtype, **params)


@undone.rule("concatenate")
def join(context, *operands, dimension):
    unknown = [i for i, x in enumerate(operands) if isinstance(x, Unknown)]
    if len(unknown) != 1:
        return known(context, *operands, dimension=dimension)
    start = sum(x.shape[dimension] for x in operands[: unknown[0]])
    x = operands[unknown[0]]
    places = np.arange(start, start + x.shape[dimension])
    return x.then(context, lambda y: jnp.take(y, places, dimension))


def main():
    def f(x):
        return 2 * jnp.tanh(x.T[::-1] / 3) + 1

    x = jnp.arange(6.0).reshape(2, 3)
    undo = jax.jit(inverse(f, x))
    print("inverse(f)(f(x)) - x is at most", float(jnp.abs(undo(f(x)) - x).max()))
    try:
        inverse(lambda x: jnp.sin(x) + 1)(x)
    except RuntimeError as error:
        print(error)


if __name__ == "__main__":
    jax.config.update("jax_enable_x64", True)
    main()
