"""Many draws of a model's functions in one call, within a bound of memory."""

# pyright: reportMissingImports=false, reportAttributeAccessIssue=false
# Checks run without PyMC, too.

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import jax

from jaxprgen import _jax
from jaxprgen.errors import ArgumentShapeError
from jaxprgen.ir.programs import summed

MEMORY = 2**28
"""The number of bytes that the intermediate values of one chunk may take."""


def over_draws(f: Callable[..., Any], *, memory: int | None = None) -> Callable[..., Any]:
    """Map a function over many draws, as `jax.vmap` does, in chunks that fit into memory.

    `jax.vmap` computes each intermediate value for all draws at once. Of a model with large
    variables, these may take many times the memory of the results.

    Parameters
    ----------
    f
        A JAX function of one draw, such as those that `prior`, `posterior_predictive` and `logp`
        return.
    memory
        The number of bytes that the intermediate values of a chunk may take, by default 256 MiB. A
        chunk has one draw at least.

    Returns
    -------
    callable
        A function of the same arguments with an axis for the draws in front of each array, which
        returns ``f``'s results with such an axis. JAX transforms it as any function.

    Raises
    ------
    ArgumentShapeError
        When it is called: the arguments hold no array, or arrays of different numbers of draws.

    Examples
    --------
    ::

        keys = jax.random.split(jax.random.key(0), 4000)
        draws = jaxprgen.pymc.over_draws(jaxprgen.pymc.prior(model))(keys)
    """

    @functools.wraps(f, updated=())
    def mapped(*args: Any) -> Any:
        args = jax.tree.map(jax.numpy.asarray, args)
        shapes = [x.shape for x in jax.tree.leaves(args)]
        counts = {shape[:1] for shape in shapes}
        if len(counts) != 1 or () in counts:
            raise ArgumentShapeError(
                "Each array needs a leading axis, of one length for all: the draws. Shapes are "
                f"{', '.join(map(str, shapes)) or 'none'}."
            )
        ((count,),) = counts
        many = jax.vmap(f)
        if not count:
            return many(*args)
        first = jax.make_jaxpr(
            lambda args: f(*jax.tree.map(lambda x: x[0], args)), return_shape=True
        )
        program, types = first(args)
        # The bytes of all results, as if none of them was fused or freed.
        nbytes = summed(program.jaxpr.eqns, lambda e: sum(_jax.nbytes(v.aval) for v in e.outvars))
        size = int((MEMORY if memory is None else memory) // max(1, nbytes))
        return many(*args) if size >= count else _in_chunks(many, args, types, count, max(1, size))

    return mapped


def _in_chunks(many: Callable[..., Any], args: Any, types: Any, count: int, size: int) -> Any:
    """Map over chunks of equal size, each written to its place; the last may overlap another.

    `jax.lax.map` would compute a smaller last one apart, and copy all results to append it. The
    ``types`` are those of the results of one draw.
    """

    def step(i: Any, found: Any) -> Any:
        start = jax.numpy.minimum(i * size, count - size)
        rows = jax.tree.map(lambda x: jax.lax.dynamic_slice_in_dim(x, start, size), args)
        write = functools.partial(jax.lax.dynamic_update_slice_in_dim, start_index=start, axis=0)
        return jax.tree.map(write, found, many(*rows))

    empty = jax.tree.map(lambda t: jax.numpy.empty((count, *t.shape), t.dtype), types)
    return jax.lax.fori_loop(0, -(-count // size), step, empty)


def postprocessed(
    function: Callable[..., Any],
    samples: Sequence[Any],
    postprocessing_backend: Any = None,
    postprocessing_vectorize: str = "vmap",
    donate_samples: bool = False,
) -> list[Any]:
    """Compute variables of draws by chain, in place of PyMC's function of this name."""
    device = jax.devices(postprocessing_backend)[0]
    samples = [jax.device_put(x, device) for x in samples]
    chains, draws = samples[0].shape[:2]

    @functools.partial(jax.jit, donate_argnums=0 if donate_samples else ())
    def process(samples: Sequence[Any]) -> list[Any]:
        flat = [x.reshape(chains * draws, *x.shape[2:]) for x in samples]
        found = over_draws(function)(*flat)
        return [x.reshape(chains, draws, *x.shape[1:]) for x in found]

    with warnings.catch_warnings():
        # Draws of other shapes than those of their variables, such as of a simplex.
        warnings.filterwarnings("ignore", "Some donated buffers were not usable", UserWarning)
        return process(samples)
