"""Typed constructors: one function per JAX primitive, named as in `jax.lax`.

Each appends one equation to a `Builder` and returns its output. The frequent ones carry a
typing rule of their own, written against JAX's documented shape rules; for the others the
builder asks JAX (`Builder.bind` without ``aval``). Operands are atoms of *equal dtypes*: no
promotion happens here. Parameters that only choose JAX's defaults come from
`jaxprgen._jax.default_params`.
"""

# Used as a namespace, like `jax.lax`: ``from jaxprgen.ir import primitives as lax``.
from jaxprgen.ir.primitives.contraction import *  # noqa: F403
from jaxprgen.ir.primitives.convolution import *  # noqa: F403
from jaxprgen.ir.primitives.decompositions import *  # noqa: F403
from jaxprgen.ir.primitives.derivatives import *  # noqa: F403
from jaxprgen.ir.primitives.elementwise import *  # noqa: F403
from jaxprgen.ir.primitives.gathering import *  # noqa: F403
from jaxprgen.ir.primitives.ordering import *  # noqa: F403
from jaxprgen.ir.primitives.random import *  # noqa: F403
from jaxprgen.ir.primitives.structural import *  # noqa: F403
from jaxprgen.ir.primitives.windows import *  # noqa: F403
