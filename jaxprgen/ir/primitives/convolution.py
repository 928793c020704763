"""Sums of products of windows and filters."""

from __future__ import annotations

from collections.abc import Sequence

from jax.lax import ConvDimensionNumbers

from jaxprgen import _jax
from jaxprgen._jax import Var
from jaxprgen.ir.builder import Atom, Builder


def conv_general_dilated(
    b: Builder,
    x: Atom,
    w: Atom,
    *,
    strides: Sequence[int],
    padding: Sequence[tuple[int, int]],
    x_dilation: Sequence[int] | None = None,
    w_dilation: Sequence[int] | None = None,
    x_axes: Sequence[int] | None = None,
    w_axes: Sequence[int] | None = None,
    out_axes: Sequence[int] | None = None,
    feature_groups: int = 1,
    batch_groups: int = 1,
) -> Var:
    """The windows of ``x`` times the filters ``w``, which are slid along it as they are.

    ``x_axes`` are the places of batch, features and the axes to slide along, ``w_axes`` those of
    output features, input features and these axes, ``out_axes`` of batch, output features and
    these axes; by default all are in that order. Padding is counted after dilation of ``x``, and
    a negative one cuts off. The precision is the user's, by ``jax.default_matmul_precision``.
    """
    ones, order = (1,) * len(strides), tuple(range(len(x.aval.shape)))
    params = {
        "window_strides": tuple(strides),
        "padding": tuple(padding),
        "lhs_dilation": ones if x_dilation is None else tuple(x_dilation),
        "rhs_dilation": ones if w_dilation is None else tuple(w_dilation),
        "dimension_numbers": ConvDimensionNumbers(
            *(order if axes is None else tuple(axes) for axes in (x_axes, w_axes, out_axes))
        ),
        "feature_group_count": feature_groups,
        "batch_group_count": batch_groups,
        "precision": _jax.matmul_precision(),
        "preferred_element_type": None,
        **_jax.default_params("conv_general_dilated"),
    }
    return b.bind(_jax.primitive("conv_general_dilated"), (x, w), params)
