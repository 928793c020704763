"""Passes as a transformation of JAX's functions."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import ParamSpec, TypeVar

import jax

from jaxprgen.passes import Pass
from jaxprgen.runtime.compiled import jaxpr_as_fun

P = ParamSpec("P")
R = TypeVar("R")


def transform(fun: Callable[P, R], *passes: Pass) -> Callable[P, R]:
    """A function that computes what a JAX function does by a program that passes rewrote.

    Like `jax.grad` it takes any function that JAX can trace, of pytrees and keyword arguments,
    and gives one; other transformations compose with it, in either order. As there, each call
    traces anew: wrap the result in `jax.jit`.

    Parameters
    ----------
    fun
        The function. What its arguments hold are arrays, or scalars.
    passes
        What rewrites its program, the first one first.
    """

    @functools.wraps(fun)
    def transformed(*args: P.args, **kwargs: P.kwargs) -> R:
        leaves, tree = jax.tree.flatten((args, kwargs))

        def flat(*leaves: object) -> R:
            args, kwargs = jax.tree.unflatten(tree, leaves)
            return fun(*args, **kwargs)  # pyright: ignore[reportCallIssue]

        closed, shapes = jax.make_jaxpr(flat, return_shape=True)(*leaves)
        for rewrite in passes:
            closed = rewrite(closed)
        return jax.tree.unflatten(jax.tree.structure(shapes), jaxpr_as_fun(closed)(*leaves))

    return transformed
