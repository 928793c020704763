"""Two linear primitives for programs of derivatives: join rows, and split an array into rows.

Each is the transpose of the other. JAX's own way from the cotangent of joined rows to those of the
rows is a slice per row. XLA compiles one kernel for each of them, because the position of a slice
is part of the kernel's code: 60 take 0.5 s of processor time on a CPU. Positions behind an
optimization barrier are numbers to XLA; then one kernel serves all rows, and takes 0.05 s.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax._src import dispatch as _dispatch
from jax._src.lib.mlir import ir as _ir  # pyright: ignore[reportPrivateImportUsage]
from jax._src.lib.mlir.dialects import hlo as _hlo
from jax.interpreters import ad as _ad, batching as _batching, mlir as _mlir

from jaxprgen._jax.core import Primitive
from jaxprgen._jax.types import ShapedArray

SHARES_KERNELS_OF_ROWS = jax.__version_info__ >= (0, 12)
"""Whether XLA compiles one kernel for all rows at positions after an optimization barrier."""

join_rows_p = Primitive("join_rows")
"""Joins arrays of one type, with one row each, along their first axis."""

split_rows_p = Primitive("split_rows")
"""Returns the rows of an array, each as an array with one row."""
split_rows_p.multiple_results = True


def _joined_type(*rows: Any) -> ShapedArray:
    return ShapedArray((len(rows), *rows[0].shape[1:]), rows[0].dtype)


def _row_types(x: Any) -> list[ShapedArray]:
    return [ShapedArray((1, *x.shape[1:]), x.dtype)] * x.shape[0]


def _lower_join(ctx: Any, *rows: Any) -> Sequence[Any]:
    axis = _ir.IntegerAttr.get(_ir.IntegerType.get_signless(64), 0)
    return [_hlo.concatenate(rows, axis)]


def _lower_split(ctx: Any, x: Any) -> Sequence[Any]:
    count, *shape = ctx.avals_in[0].shape
    known = [_mlir.ir_constant(np.int32(i)) for i in range(count)]
    hidden = _hlo.OptimizationBarrierOp(known).results
    sizes = _ir.DenseI64ArrayAttr.get([1, *shape])
    return [_hlo.dynamic_slice(x, [i, *[known[0]] * len(shape)], sizes) for i in hidden]


def _transpose_join(cotangent: Any, *rows: Any) -> Sequence[Any]:
    found = split_rows_p.bind(cotangent)
    return [c if _ad.is_undefined_primal(x) else None for x, c in zip(rows, found, strict=True)]


def _transpose_split(cotangents: Any, _: Any) -> Sequence[Any]:
    return [join_rows_p.bind(*map(_ad.instantiate_zeros, cotangents))]


def _batched_join(rows: Sequence[Any], axes: Sequence[Any]) -> tuple[Any, int]:
    size = next(x.shape[d] for x, d in zip(rows, axes, strict=True) if d is not None)
    found = [
        jnp.broadcast_to(x[:, None], (1, size, *x.shape[1:]))
        if d is None
        else jnp.moveaxis(x, d, 1)
        for x, d in zip(rows, axes, strict=True)
    ]
    return join_rows_p.bind(*found), 1


def _batched_split(operands: Sequence[Any], axes: Sequence[int]) -> tuple[Any, Sequence[int]]:
    ((x,), (axis,)) = operands, axes
    found = split_rows_p.bind(jnp.moveaxis(x, axis, 1))
    return found, [1] * len(found)


def _define(primitive: Any, type_of: Any, transpose: Any, batch: Any, lower: Any) -> None:
    primitive.def_impl(lambda *xs: _dispatch.apply_primitive(primitive, *xs))
    primitive.def_abstract_eval(type_of)
    _ad.deflinear2(primitive, transpose)
    _batching.primitive_batchers[primitive] = batch
    _mlir.register_lowering(primitive, lower)


_define(join_rows_p, _joined_type, _transpose_join, _batched_join, _lower_join)
_define(split_rows_p, _row_types, _transpose_split, _batched_split, _lower_split)
