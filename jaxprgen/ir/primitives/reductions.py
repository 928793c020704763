"""Primitives that combine elements along axes: reductions, running reductions, windows, sorting."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from jaxprgen import _jax
from jaxprgen._jax import Var
from jaxprgen.errors import EquationError
from jaxprgen.ir.builder import Atom, Builder
from jaxprgen.ir.primitives.typing_rules import (
    ANY,
    DISCRETE,
    FLOAT,
    NUMBER,
    Dtype,
    Shape,
    are_axes,
    named,
)

# --- Reductions -------------------------------------------------------------------------


def _reduction(name: str, kinds: str) -> Callable[[Builder, Atom, Sequence[int]], Var]:
    primitive, defaults = _jax.primitive(name), _jax.default_params(name)

    def construct(b: Builder, x: Atom, axes: Sequence[int]) -> Var:
        if x.aval.dtype.kind not in kinds or not are_axes(axes, len(x.aval.shape)):
            raise EquationError(f"{name} does not take {x.aval} along axes {tuple(axes)}.")
        shape = tuple(n for d, n in enumerate(x.aval.shape) if d not in axes)
        aval = _jax.array_type(shape, x.aval.dtype)
        return b.bind(primitive, (x,), {"axes": tuple(axes), **defaults}, aval)

    return named(construct, name, f"Append ``{name}`` over ``axes``, which the result lacks.")


reduce_sum = _reduction("reduce_sum", NUMBER)
reduce_prod = _reduction("reduce_prod", NUMBER)
reduce_max = _reduction("reduce_max", ANY)
reduce_min = _reduction("reduce_min", ANY)
reduce_and = _reduction("reduce_and", DISCRETE)
reduce_or = _reduction("reduce_or", DISCRETE)
reduce_xor = _reduction("reduce_xor", DISCRETE)


def argmax(b: Builder, x: Atom, axis: int, dtype: Dtype) -> Var:
    """Return the first index, as ``dtype``, of the largest element along an axis.

    NaN counts as the largest.
    """
    return b.bind(_jax.primitive("argmax"), (x,), {"axes": (axis,), "index_dtype": dtype})


# --- Running reductions -----------------------------------------------------------------


def _running_reduction(name: str) -> Callable[[Builder, Atom, int], Var]:
    primitive = _jax.primitive(name)

    def construct(b: Builder, x: Atom, axis: int) -> Var:
        if x.aval.dtype.kind not in NUMBER or not 0 <= axis < len(x.aval.shape):
            raise EquationError(f"{name} does not take {x.aval} along axis {axis}.")
        aval = _jax.array_type(x.aval.shape, x.aval.dtype)
        return b.bind(primitive, (x,), {"axis": axis, "reverse": False}, aval)

    return named(
        construct, name, f"Append ``{name}``: combine each element with all before it on an axis."
    )


cumsum = _running_reduction("cumsum")
cumprod = _running_reduction("cumprod")
cummax = _running_reduction("cummax")
cummin = _running_reduction("cummin")


# --- Windows ----------------------------------------------------------------------------


def _window_reduction(
    name: str, kinds: str
) -> Callable[[Builder, Atom, Shape, Shape, Sequence[tuple[int, int]]], Var]:
    primitive = _jax.primitive(name)

    def construct(
        b: Builder, x: Atom, sizes: Shape, strides: Shape, padding: Sequence[tuple[int, int]]
    ) -> Var:
        rank = len(x.aval.shape)
        if x.aval.dtype.kind not in kinds or any(low < 0 or high < 0 for low, high in padding):
            raise EquationError(f"{name} does not take {x.aval} with padding {tuple(padding)}.")
        params = {
            "window_dimensions": sizes,
            "window_strides": strides,
            "padding": tuple(padding),
            "base_dilation": (1,) * rank,
            "window_dilation": (1,) * rank,
        }
        return b.bind(primitive, (x,), params)

    doc = f"""Append ``{name}``: reduce each window that moves along the axes.

    Sizes, strides and padding (before, after; nonnegative) are given for each axis.
    """
    return named(construct, name, doc)


reduce_window_sum = _window_reduction("reduce_window_sum", NUMBER)
reduce_window_max = _window_reduction("reduce_window_max", DISCRETE + FLOAT)


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
    shape = operands[0].aval.shape
    if not 0 <= dimension < len(shape) or not 1 <= num_keys <= len(operands):
        raise EquationError(
            f"Cannot sort {len(operands)} arrays of shape {shape} along axis {dimension} by "
            f"{num_keys} keys."
        )
    params = {"dimension": dimension, "is_stable": True, "num_keys": num_keys}
    return b.bind_multiple(_jax.primitive("sort"), operands, params)


def top_k(b: Builder, x: Atom, k: int) -> list[Var]:
    """Return ``[values, indices]`` of the ``k`` largest elements on the last axis, descending.

    Equal elements keep their order. NaN counts as the largest value, but NaN with a sign bit as
    the smallest.
    """
    params = _jax.top_k_params(k, len(x.aval.shape) - 1)
    return b.bind_multiple(_jax.primitive("top_k"), (x,), params)
