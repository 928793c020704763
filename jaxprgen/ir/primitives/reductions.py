"""Primitives that combine elements along axes: reductions, running reductions, windows, sorting."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from jaxprgen import _jax
from jaxprgen._jax import Var
from jaxprgen.ir.builder import Atom, Builder
from jaxprgen.ir.primitives.appending import Dtype, Shape, append, append_multiple, named

# --- Reductions -------------------------------------------------------------------------


def _reduction(name: str) -> Callable[[Builder, Atom, Sequence[int]], Var]:
    def construct(b: Builder, x: Atom, axes: Sequence[int]) -> Var:
        return append(b, name, (x,), axes=tuple(axes))

    return named(construct, name, f"Append ``{name}`` over ``axes``, which the result lacks.")


reduce_sum, reduce_prod = map(_reduction, ("reduce_sum", "reduce_prod"))
reduce_max, reduce_min = map(_reduction, ("reduce_max", "reduce_min"))
reduce_and, reduce_or, reduce_xor = map(_reduction, ("reduce_and", "reduce_or", "reduce_xor"))


def argmax(b: Builder, x: Atom, axis: int, dtype: Dtype) -> Var:
    """Return the first index, as ``dtype``, of the largest element along an axis.

    NaN counts as the largest.
    """
    return append(b, "argmax", (x,), axes=(axis,), index_dtype=dtype)


# --- Running reductions -----------------------------------------------------------------


def _running_reduction(name: str) -> Callable[..., Var]:
    def construct(b: Builder, x: Atom, axis: int, *, reverse: bool = False) -> Var:
        return append(b, name, (x,), axis=axis, reverse=reverse)

    return named(
        construct,
        name,
        f"Append ``{name}``: combine each element with all before it, or after it, on an axis.",
    )


cumsum, cumprod = map(_running_reduction, ("cumsum", "cumprod"))
cummax, cummin = map(_running_reduction, ("cummax", "cummin"))


# --- Windows ----------------------------------------------------------------------------


def _window_reduction(
    name: str,
) -> Callable[[Builder, Atom, Shape, Shape, Sequence[tuple[int, int]]], Var]:
    def construct(
        b: Builder, x: Atom, sizes: Shape, strides: Shape, padding: Sequence[tuple[int, int]]
    ) -> Var:
        ones = (1,) * len(x.aval.shape)
        return append(
            b,
            name,
            (x,),
            window_dimensions=sizes,
            window_strides=strides,
            padding=tuple(padding),
            base_dilation=ones,
            window_dilation=ones,
        )

    doc = f"""Append ``{name}``: reduce each window that moves along the axes.

    Sizes, strides and padding (before, after; nonnegative) are given for each axis.
    """
    return named(construct, name, doc)


reduce_window_sum = _window_reduction("reduce_window_sum")
reduce_window_max = _window_reduction("reduce_window_max")


# --- Order ------------------------------------------------------------------------------


def sort(b: Builder, operands: Sequence[Atom], dimension: int, num_keys: int) -> list[Var]:
    """Sort arrays together, stably.

    NaN comes last, and both zeros are equal. Complex numbers are ordered by their real parts, then
    by their imaginary parts.

    Parameters
    ----------
    b : Builder
    operands : sequence of atoms of one shape
    dimension : int
        The axis along which to sort.
    num_keys : int
        How many of the operands, the first ones, decide the order.

    Returns
    -------
    list of Var
        The sorted operands.
    """
    params = {"dimension": dimension, "is_stable": True, "num_keys": num_keys}
    return append_multiple(b, "sort", operands, **params)


def top_k(b: Builder, x: Atom, k: int) -> list[Var]:
    """Return ``[values, indices]`` of the ``k`` largest elements on the last axis, descending.

    Equal elements keep their order. NaN counts as the largest value, but NaN with a sign bit as
    the smallest.
    """
    return append_multiple(b, "top_k", (x,), **_jax.top_k_params(k, len(x.aval.shape) - 1))
