"""Reductions over windows that move along the axes."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from jaxprgen import _jax
from jaxprgen._jax import Var
from jaxprgen.errors import EquationError
from jaxprgen.ir.builder import Atom, Builder
from jaxprgen.ir.primitives.kinds import DISCRETE, FLOAT, NUMBER, Shape


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

    construct.__name__ = construct.__qualname__ = name
    construct.__doc__ = f"``{name}``: of each window, with as much padding as is said per axis."
    return construct


reduce_window_sum = _window_reduction("reduce_window_sum", NUMBER)
reduce_window_max = _window_reduction("reduce_window_max", DISCRETE + FLOAT)
