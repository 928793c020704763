"""Rules for Ops that are JAX functions, and for Ops of other packages that PyTensor's own JAX
backend knows.

Their authors register a JAX function by ``jax_funcify.register`` of ``pytensor.link.jax.dispatch``,
or, for a random variable, by ``jax_sample_fn.register`` of its module ``random``.
"""

from __future__ import annotations

import sys
from typing import Any, NamedTuple

import jax

from jaxprgen.emit.staged import staged
from jaxprgen.emit.values import Dtype, Shape, Value
from jaxprgen.lowering.context import RuleContext
from jaxprgen.lowering.implementation import lower_function
from jaxprgen.lowering.registry import lowers


@lowers("pytensor.graph.Op", folds=False)
def lower_registered(ctx: RuleContext, *xs: Value) -> list[Value]:
    """Stage the JAX function that is registered for the Op."""
    function = _registered(ctx.op, "basic", "jax_funcify")(ctx.op, node=ctx.node)
    return lower_function(ctx, function, xs)


@lowers("pytensor.link.JAXOp", folds=False)
def lower_jax_op(ctx: RuleContext, *xs: Value) -> list[Value]:
    """Stage the function of `pytensor.wrap_jax`."""
    return lower_function(ctx, ctx.op.perform_jax, xs)


def _registered(op: Any, module: str, name: str) -> Any:
    """Return what is registered for an Op by another package, or None.

    PyTensor's own functions are left out: the rules of this package take their place.
    """
    backend: Any = sys.modules.get(f"pytensor.link.jax.dispatch.{module}")
    found = backend and getattr(backend, name).dispatch(type(op))
    return None if found is None or found.__module__.startswith("pytensor.") else found


lower_registered.supports = (  # type: ignore[attr-defined]
    lambda op: _registered(op, "basic", "jax_funcify") is not None
)


def is_sampler_registered(op: Any) -> bool:
    """Return whether another package has registered a sampler for a `RandomVariable`."""
    return _registered(op, "random", "jax_sample_fn") is not None


class RegisteredSampler(NamedTuple):
    """The sampler that another package has registered for the Op of a node."""

    ctx: RuleContext

    def __call__(self, key: Value, dtype: Dtype, shape: Shape, *parameters: Value) -> Value:
        """Stage the sampler, which takes the size of independent draws."""
        op = self.ctx.op
        function = _registered(op, "random", "jax_sample_fn")(op, node=self.ctx.node)
        routine = _OfKey(function, shape[: len(shape) - op.ndim_supp], dtype)
        return staged(routine, key, *parameters)[0]


class _OfKey(NamedTuple):
    """A sampler as a function of a typed key; PyTensor's take a legacy one."""

    function: Any
    size: Shape
    dtype: Dtype

    def __call__(self, key: Any, *parameters: Any) -> Any:
        """Return the draws."""
        return self.function(jax.random.key_data(key), self.size, str(self.dtype), *parameters)
