"""Typed constructors: one function per JAX primitive, named as in `jax.lax`.

Each constructor appends one equation to a `Builder` and returns its result, or a list of results.
Operands are atoms of *equal dtypes*, because no promotion happens here. JAX infers the types of
results. Parameters that only repeat JAX's defaults come from `jaxprgen._jax.default_params`.

A constructor raises `EquationError` if the operands or parameters do not fit.
"""

# Used as a namespace, like `jax.lax`: ``from jaxprgen.ir import primitives as lax``.
from jaxprgen.ir.primitives.control import *  # noqa: F403
from jaxprgen.ir.primitives.elementwise import *  # noqa: F403
from jaxprgen.ir.primitives.linear_algebra import *  # noqa: F403
from jaxprgen.ir.primitives.random import *  # noqa: F403
from jaxprgen.ir.primitives.reductions import *  # noqa: F403
from jaxprgen.ir.primitives.structural import *  # noqa: F403
