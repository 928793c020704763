"""Batching rules: from an equation on one row to an equation on all rows at once.

A rule is a function ``rule(builder, eqn, operands, n) -> outputs``. Each operand is either
*batched*, which means that it has ``n`` rows along its first axis, or shared by all rows. At least
one operand is batched. All outputs are batched.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeAlias, cast

import jax
import numpy as np
from jax.lax import GatherDimensionNumbers, GatherScatterMode, ScatterDimensionNumbers

from jaxprgen import _jax
from jaxprgen._jax import JaxprEqn
from jaxprgen.ir import Atom, Builder
from jaxprgen.ir import primitives as lax


class NotBatchableError(Exception):
    """Raised when an equation, a loop or a program cannot be batched.

    Attributes
    ----------
    repeated : tuple of (sequence of JaxprEqn, int)
        The equations that are to blame, those of one repetition, and how often they repeat.
    """

    repeated: tuple[Sequence[JaxprEqn], int] = (), 0


class MaybeBatched(NamedTuple):
    """The value of a variable for all rows.

    Attributes
    ----------
    atom : Atom
        The value. If it is batched, its first axis is the batch axis.
    is_batched : bool
        Whether each row has its own value. Otherwise all rows share one.
    """

    atom: Atom
    is_batched: bool

    @property
    def rank(self) -> int:
        """The number of axes of one row."""
        return len(self.atom.aval.shape) - self.is_batched


BatchingRule: TypeAlias = Callable[[Builder, JaxprEqn, Sequence[MaybeBatched], int], Sequence[Atom]]


def with_batch_axis(b: Builder, x: MaybeBatched, n: int) -> Atom:
    """Return the value with a batch axis of ``n`` rows; a shared value is repeated."""
    return broadcast_to(b, x, (n, *x.atom.aval.shape[x.is_batched :]))


def broadcast_to(b: Builder, x: MaybeBatched, shape: tuple[int, ...]) -> Atom:
    """Return the value in a shape that starts with the batch axis; a scalar fills each row."""
    if x.atom.aval.shape == shape and x.is_batched:
        return x.atom
    axes = range(1 - x.is_batched, x.rank + 1)
    return lax.broadcast_in_dim(b, x.atom, shape, axes)


def _bind(b: Builder, eqn: JaxprEqn, operands: Sequence[Atom], **params: Any) -> list[Atom]:
    """Emit the equation on other operands, with some parameters changed."""
    return [*b.bind_multiple(eqn.primitive, operands, {**eqn.params, **params})]


def elementwise(b: Builder, eqn: JaxprEqn, operands: Sequence[MaybeBatched], n: int) -> list[Atom]:
    """Batch an equation that computes each element from those in its place."""
    out: Any = eqn.outvars[0].aval
    rank = len(out.shape)
    return _bind(b, eqn, [_aligned(b, x, rank) for x in operands])


def _aligned(b: Builder, x: MaybeBatched, rank: int) -> Atom:
    """Return the operand with a shape that broadcasts along the batch axis, or as a scalar."""
    shape = x.atom.aval.shape
    if not shape or (x.is_batched and x.rank == rank):
        return x.atom
    return lax.reshape(b, x.atom, (*shape, *[1] * rank) if x.is_batched else (1, *shape))


def _same_shape(b: Builder, eqn: JaxprEqn, operands: Sequence[MaybeBatched], n: int) -> list[Atom]:
    """Batch elementwise primitives that do not broadcast, but accept scalars."""
    out: Any = eqn.outvars[0].aval
    shape = n, *out.shape
    return _bind(b, eqn, [broadcast_to(b, x, shape) for x in operands])


def _leading(b: Builder, eqn: JaxprEqn, operands: Sequence[MaybeBatched], n: int) -> list[Atom]:
    """Batch primitives that accept any number of leading axes."""
    return _bind(b, eqn, [with_batch_axis(b, x, n) for x in operands])


def _triangular_solve(
    b: Builder, eqn: JaxprEqn, operands: Sequence[MaybeBatched], n: int
) -> list[Atom]:
    """Place the right-hand sides of all rows beside each other, if they share one matrix."""
    matrix, sides = operands
    if matrix.is_batched or matrix.rank > 2:
        return _leading(b, eqn, operands, n)
    _, rows, columns = sides.atom.aval.shape
    if not eqn.params["left_side"]:
        flat = lax.reshape(b, sides.atom, (n * rows, columns))
        (found,) = _bind(b, eqn, [matrix.atom, flat])
        return [lax.reshape(b, found, (n, rows, columns))]
    flat = lax.reshape(b, lax.transpose(b, sides.atom, (1, 0, 2)), (rows, n * columns))
    (found,) = _bind(b, eqn, [matrix.atom, flat])
    return [lax.transpose(b, lax.reshape(b, found, (rows, n, columns)), (1, 0, 2))]


def _along(*names: str) -> BatchingRule:
    """Return the rule of primitives whose parameters of these names are an axis or axes."""

    def rule(b: Builder, eqn: JaxprEqn, operands: Sequence[MaybeBatched], n: int) -> list[Atom]:
        moved: dict[str, Any] = {}
        for name in names:
            value = eqn.params[name]
            moved[name] = value + 1 if np.ndim(value) == 0 else tuple(d + 1 for d in value)
        return _bind(b, eqn, [with_batch_axis(b, x, n) for x in operands], **moved)

    return rule


def _leading_axis(**params: tuple[int | None, int]) -> BatchingRule:
    """Return the rule of primitives with an operand, and parameters that have one item per axis.

    Each parameter is given by its item for the batch axis, or None for the number of rows, and by
    how much its other items grow.
    """

    def rule(b: Builder, eqn: JaxprEqn, operands: Sequence[MaybeBatched], n: int) -> list[Atom]:
        if eqn.params.get("dimensions") is not None:
            raise NotBatchableError("A reshape that also transposes has no batching rule.")
        moved = {
            name: (n if first is None else first, *(d + more for d in eqn.params[name]))
            for name, (first, more) in params.items()
            if eqn.params[name] is not None
        }
        return _bind(b, eqn, [operands[0].atom], **moved)

    return rule


def _pad(b: Builder, eqn: JaxprEqn, operands: Sequence[MaybeBatched], n: int) -> list[Atom]:
    x, value = operands
    if value.is_batched:
        raise NotBatchableError("A pad whose value differs between rows has no batching rule.")
    config = (0, 0, 0), *eqn.params["padding_config"]
    return _bind(b, eqn, [with_batch_axis(b, x, n), value.atom], padding_config=config)


def _dot_general(b: Builder, eqn: JaxprEqn, operands: Sequence[MaybeBatched], n: int) -> list[Atom]:
    x, y = operands
    contract, together = eqn.params["dimension_numbers"]
    moved = [
        [
            tuple(d + side.is_batched for d in axes)
            for axes, side in zip(pair, operands, strict=True)
        ]
        for pair in (contract, together)
    ]
    if x.is_batched and y.is_batched:
        moved[1] = [(0, *axes) for axes in moved[1]]
    (out,) = _bind(b, eqn, [x.atom, y.atom], dimension_numbers=tuple(map(tuple, moved)))
    before = len(together[0])
    if y.is_batched and not x.is_batched:
        before = x.rank - len(contract[0])
    if before == 0 or (x.is_batched and y.is_batched):
        return [out]
    rest = (d for d in range(len(out.aval.shape)) if d != before)
    return [lax.transpose(b, out, [before, *rest])]


def _gather(b: Builder, eqn: JaxprEqn, operands: Sequence[MaybeBatched], n: int) -> list[Atom]:
    x, indices = operands
    numbers: GatherDimensionNumbers = eqn.params["dimension_numbers"]
    sizes = eqn.params["slice_sizes"]
    by, along = x.is_batched, indices.is_batched
    kept = tuple(d + 1 for d in numbers.offset_dims)
    pairs = numbers.operand_batching_dims, numbers.start_indices_batching_dims
    paired = [tuple(d + s for d in axes) for axes, s in zip(pairs, (by, along), strict=True)]
    if by and along:
        paired = [(0, *axes) for axes in paired]
    moved = GatherDimensionNumbers(
        offset_dims=(0, *kept) if by and not along else kept,
        collapsed_slice_dims=tuple(d + by for d in numbers.collapsed_slice_dims),
        start_index_map=tuple(d + by for d in numbers.start_index_map),
        operand_batching_dims=paired[0],
        start_indices_batching_dims=paired[1],
    )
    changed: dict[str, Any] = {"dimension_numbers": moved}
    changed["slice_sizes"] = sizes if not by else (1 if along else n, *sizes)
    if along and not by:  # Several rows may read the same elements.
        changed |= {"unique_indices": False, "indices_are_sorted": False}
    return _bind(b, eqn, [x.atom, indices.atom], **changed)


def _dynamic_slice(
    b: Builder, eqn: JaxprEqn, operands: Sequence[MaybeBatched], n: int
) -> list[Atom]:
    """Gather the slices if rows have their own start indices, which are clipped to the bounds."""
    x, *start = operands
    sizes = eqn.params["slice_sizes"]
    if not any(s.is_batched for s in start):
        zero = b.literal(np.asarray(0, start[0].atom.aval.dtype))
        return _bind(b, eqn, [x.atom, zero, *(s.atom for s in start)], slice_sizes=(n, *sizes))
    columns = [lax.reshape(b, with_batch_axis(b, s, n), (n, 1)) for s in start]
    axes = tuple(range(len(sizes)))
    params = {
        "dimension_numbers": GatherDimensionNumbers(axes, (), axes),
        "slice_sizes": sizes,
        "unique_indices": False,
        "indices_are_sorted": False,
        "mode": GatherScatterMode.CLIP,
        "fill_value": None,
    }
    places = MaybeBatched(lax.concatenate(b, columns, 1), True)
    blocks = eqn.replace(primitive=_jax.primitive("gather"), params=params)
    return _gather(b, blocks, [x, places], n)


def _convolution(b: Builder, eqn: JaxprEqn, operands: Sequence[MaybeBatched], n: int) -> list[Atom]:
    """Take rows of images for more images, and rows of filters for more filters, in groups."""
    x, w = operands
    params, out = eqn.params, cast("Any", eqn.outvars[0].aval)
    order = tuple(range(x.rank))
    if params["batch_group_count"] != 1 or tuple(params["dimension_numbers"]) != (order,) * 3:
        raise NotBatchableError("A convolution in another order of axes has no batching rule.")
    if not w.is_batched:
        (found,) = _bind(b, eqn, [_joined(b, x.atom), w.atom])
        return [lax.reshape(b, found, (n, *out.shape))]
    image, groups = x.atom, params["feature_group_count"]
    if x.is_batched or groups != 1:
        image = with_batch_axis(b, x, n)
        image = lax.transpose(b, image, (1, 0, *(d + 2 for d in order[:-1])))
        images, _, channels, *sizes = image.aval.shape
        image, groups = lax.reshape(b, image, (images, n * channels, *sizes)), n * groups
    (found,) = _bind(b, eqn, [image, _joined(b, w.atom)], feature_group_count=groups)
    images, filters, *sizes = found.aval.shape
    found = lax.reshape(b, found, (images, n, filters // n, *sizes))
    return [lax.transpose(b, found, (1, 0, *(d + 2 for d in order[:-1])))]


def _joined(b: Builder, x: Atom) -> Atom:
    """Return an array with its first two axes joined to one."""
    rows, count, *rest = x.aval.shape
    return lax.reshape(b, x, (rows * count, *rest))


def _dynamic_update_slice(
    b: Builder, eqn: JaxprEqn, operands: Sequence[MaybeBatched], n: int
) -> list[Atom]:
    """Write to all rows at once, by a scatter if they have their own start indices."""
    x, update, *start = operands
    whole, block = with_batch_axis(b, x, n), with_batch_axis(b, update, n)
    if not any(s.is_batched for s in start):
        zero = b.literal(np.asarray(0, start[0].atom.aval.dtype))
        return _bind(b, eqn, [whole, block, zero, *(s.atom for s in start)])
    axes = tuple(range(x.rank))
    numbers = ScatterDimensionNumbers(axes, (), axes)
    params = {
        "update_jaxpr": None,
        "update_consts": (),
        "dimension_numbers": numbers,
        "indices_are_sorted": False,
        "unique_indices": False,
        "mode": GatherScatterMode.CLIP,
    }
    places = lax.concatenate(
        b, [lax.reshape(b, with_batch_axis(b, s, n), (n, 1)) for s in start], 1
    )
    written = eqn.replace(primitive=_jax.primitive("scatter"), params=params)
    return _scatter(b, written, [x, MaybeBatched(places, True), update], n)


def _scatter(b: Builder, eqn: JaxprEqn, operands: Sequence[MaybeBatched], n: int) -> list[Atom]:
    numbers: ScatterDimensionNumbers = eqn.params["dimension_numbers"]
    moved = ScatterDimensionNumbers(
        update_window_dims=tuple(d + 1 for d in numbers.update_window_dims),
        inserted_window_dims=tuple(d + 1 for d in numbers.inserted_window_dims),
        scatter_dims_to_operand_dims=tuple(d + 1 for d in numbers.scatter_dims_to_operand_dims),
        operand_batching_dims=(0, *(d + 1 for d in numbers.operand_batching_dims)),
        scatter_indices_batching_dims=(
            0,
            *(d + 1 for d in numbers.scatter_indices_batching_dims),
        ),
    )
    return _bind(b, eqn, [with_batch_axis(b, x, n) for x in operands], dimension_numbers=moved)


_REDUCED = ("sum", "prod", "max", "min", "and", "or", "xor")
BATCHING_RULES: dict[str, BatchingRule] = {
    **dict.fromkeys(["select_n", "clamp", "add_any", "stop_gradient"], _same_shape),
    **dict.fromkeys(["squeeze", "rev"], _along("dimensions")),
    **dict.fromkeys(["concatenate", "sort"], _along("dimension")),
    **dict.fromkeys(["cumsum", "cumprod", "cummax", "cummin", "cumlogsumexp"], _along("axis")),
    **dict.fromkeys(["split", "stack", "unstack"], _along("axis")),
    **{f"reduce_{name}": _along("axes") for name in _REDUCED},
    **dict.fromkeys(["argmax", "argmin"], _along("axes")),
    **dict.fromkeys(["cholesky", "lu", "eig", "eigh", "qr", "svd", "schur"], _leading),
    **dict.fromkeys(["geqrf", "householder_product", "tridiagonal_solve"], _leading),
    **dict.fromkeys(["lu_pivots_to_permutation", "fft", "bitcast_convert_type"], _leading),
    "broadcast_in_dim": _leading_axis(shape=(None, 0), broadcast_dimensions=(0, 1)),
    "conv_general_dilated": _convolution,
    "dot_general": _dot_general,
    "dynamic_slice": _dynamic_slice,
    "gather": _gather,
    "pad": _pad,
    "dynamic_update_slice": _dynamic_update_slice,
    **{f"scatter{how}": _scatter for how in ("", "-add", "-sub", "-mul", "-min", "-max")},
    **dict.fromkeys(["random_bits", "random_split", "random_wrap", "random_unwrap"], _leading),
    **dict.fromkeys(["random_seed", "random_gamma"], _leading),
    **dict.fromkeys(["random_fold_in", "threefry2x32", "one_minus_square"], elementwise),
    "reshape": _leading_axis(new_sizes=(None, 0)),
    "slice": _leading_axis(start_indices=(0, 0), limit_indices=(None, 0), strides=(1, 0)),
    "transpose": _leading_axis(permutation=(0, 1)),
    "triangular_solve": _triangular_solve,
}

REORDERING = frozenset(
    {
        *("dot_general", "conv_general_dilated", "reduce_sum", "reduce_prod"),
        *("cumsum", "cumprod", "cumlogsumexp", "scatter-add", "scatter-sub", "scatter-mul"),
        *("cholesky", "lu", "eig", "eigh", "qr", "svd", "schur", "triangular_solve"),
        *("geqrf", "householder_product", "tridiagonal_solve", "fft"),
    }
)
"""The primitives that add or multiply several numbers for one result.

XLA, and the libraries that it calls, choose their order by the shapes of the operands. So rows that
are computed together may be rounded otherwise than each row alone.
"""


def reorders(eqn: JaxprEqn) -> bool:
    """Return whether rows of an equation may be rounded otherwise than the equation alone."""
    if eqn.primitive.name not in REORDERING:
        return False
    avals: list[Any] = [v.aval for v in eqn.outvars]
    return any(jax.numpy.issubdtype(aval.dtype, np.inexact) for aval in avals)


def draws_alike(eqn: JaxprEqn) -> bool:
    """Return whether rows of keys draw the same numbers as each key alone.

    JAX promises that only for Threefry: see `jax.random`, *Advanced RNG configuration*.
    """
    if not eqn.primitive.name.startswith("random_"):
        return True
    atoms: list[Any] = [*eqn.invars, *eqn.outvars]
    keys = filter(_jax.is_key, [x.aval for x in atoms])
    return all(_jax.key_implementation(aval.dtype) == "threefry2x32" for aval in keys)
