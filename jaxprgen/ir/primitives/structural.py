"""Primitives that move elements: shapes, slices, joins, ranges; loops and branches."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

from jaxprgen import _jax
from jaxprgen._jax import ClosedJaxpr, Var
from jaxprgen.errors import EquationError
from jaxprgen.ir.builder import Atom, Builder
from jaxprgen.ir.primitives.kinds import NUMBER, Dtype, Shape, are_axes


def broadcast_in_dim(b: Builder, x: Atom, shape: Shape, dimensions: Sequence[int]) -> Var:
    """``x`` repeated to ``shape``: its axis ``i`` becomes axis ``dimensions[i]``."""
    sizes = x.aval.shape
    if (
        len(dimensions) != len(sizes)
        or not are_axes(dimensions, len(shape))
        or any(n not in (1, shape[d]) for n, d in zip(sizes, dimensions, strict=True))
        or any(d > e for d, e in itertools.pairwise(dimensions))
    ):
        raise EquationError(f"Cannot broadcast {sizes} to {shape} along {tuple(dimensions)}.")
    params = {"shape": shape, "broadcast_dimensions": tuple(dimensions), "sharding": None}
    aval = _jax.array_type(shape, x.aval.dtype)
    return b.bind(_jax.primitive("broadcast_in_dim"), (x,), params, aval)


def reshape(b: Builder, x: Atom, shape: Shape) -> Var:
    """The same elements in row-major order under another shape."""
    if math.prod(shape) != math.prod(x.aval.shape):
        raise EquationError(f"Cannot reshape {x.aval.shape} to {shape}.")
    params = {"new_sizes": shape, "dimensions": None, "sharding": None}
    aval = _jax.array_type(shape, x.aval.dtype)
    return b.bind(_jax.primitive("reshape"), (x,), params, aval)


def optimization_barrier(b: Builder, x: Atom) -> Var:
    """``x``; XLA does not see through what it is computed by."""
    return b.bind_multiple(_jax.primitive("optimization_barrier"), (x,), {})[0]


def squeeze(b: Builder, x: Atom, dimensions: Sequence[int]) -> Var:
    """``x`` without the named axes, each of size one."""
    sizes = x.aval.shape
    if not are_axes(dimensions, len(sizes)) or any(sizes[d] != 1 for d in dimensions):
        raise EquationError(f"Cannot drop axes {tuple(dimensions)} of {sizes}.")
    shape = tuple(n for d, n in enumerate(sizes) if d not in dimensions)
    aval = _jax.array_type(shape, x.aval.dtype)
    return b.bind(_jax.primitive("squeeze"), (x,), {"dimensions": tuple(sorted(dimensions))}, aval)


def transpose(b: Builder, x: Atom, permutation: Sequence[int]) -> Var:
    """``x`` whose axis ``i`` is axis ``permutation[i]`` of the operand."""
    sizes = x.aval.shape
    if sorted(permutation) != list(range(len(sizes))):
        raise EquationError(f"{tuple(permutation)} does not permute the axes of {sizes}.")
    aval = _jax.array_type(tuple(sizes[d] for d in permutation), x.aval.dtype)
    return b.bind(_jax.primitive("transpose"), (x,), {"permutation": tuple(permutation)}, aval)


def rev(b: Builder, x: Atom, dimensions: Sequence[int]) -> Var:
    """``x`` read backwards along the named axes."""
    return b.bind(_jax.primitive("rev"), (x,), {"dimensions": tuple(dimensions)})


def slice(
    b: Builder, x: Atom, start: Sequence[int], limit: Sequence[int], strides: Sequence[int]
) -> Var:
    """``x[start:limit:strides]`` on every axis; all bounds inside, strides positive."""
    sizes = x.aval.shape
    if any(
        not 0 <= i <= j <= n or k < 1
        for i, j, k, n in zip(start, limit, strides, sizes, strict=True)
    ):
        raise EquationError(f"Cannot slice {sizes} by {start}:{limit}:{strides}.")
    shape = tuple(-(-(j - i) // k) for i, j, k in zip(start, limit, strides, strict=True))
    unit = all(k == 1 for k in strides)
    params = {
        "start_indices": tuple(start),
        "limit_indices": tuple(limit),
        "strides": None if unit else tuple(strides),
    }
    aval = _jax.array_type(shape, x.aval.dtype)
    return b.bind(_jax.primitive("slice"), (x,), params, aval)


def dynamic_slice(b: Builder, x: Atom, start: Sequence[Atom], sizes: Shape) -> Var:
    """A block of ``x`` from integer scalars ``start``, moved inside where it sticks out."""
    return b.bind(_jax.primitive("dynamic_slice"), (x, *start), {"slice_sizes": sizes})


def dynamic_update_slice(b: Builder, x: Atom, update: Atom, start: Sequence[Atom]) -> Var:
    """``x`` with a block replaced, from integer scalars ``start``, moved inside likewise."""
    return b.bind(_jax.primitive("dynamic_update_slice"), (x, update, *start), {})


def pad(b: Builder, x: Atom, value: Atom, config: Sequence[tuple[int, int, int]]) -> Var:
    """``x`` with a scalar put before, behind and between its elements, per axis."""
    return b.bind(_jax.primitive("pad"), (x, value), {"padding_config": tuple(config)})


def concatenate(b: Builder, operands: Sequence[Atom], dimension: int) -> Var:
    """The operands one behind the other along an axis; their other sizes are equal."""
    first = operands[0].aval
    before, behind = first.shape[:dimension], first.shape[dimension + 1 :]
    if not 0 <= dimension < len(first.shape) or any(
        x.aval.shape != (*before, *x.aval.shape[dimension : dimension + 1], *behind)
        or len(x.aval.shape) != len(first.shape)
        or x.aval.dtype != first.dtype
        for x in operands
    ):
        types = [x.aval for x in operands]
        raise EquationError(f"Cannot concatenate {types} along axis {dimension}.")
    shape = (*before, sum(x.aval.shape[dimension] for x in operands), *behind)
    aval = _jax.array_type(shape, first.dtype)
    return b.bind(_jax.primitive("concatenate"), operands, {"dimension": dimension}, aval)


def iota(b: Builder, dtype: Dtype, shape: Shape, dimension: int) -> Var:
    """0, 1, 2, … along one axis, constant along the others."""
    if dtype.kind not in NUMBER or not 0 <= dimension < len(shape):
        raise EquationError(f"iota does not make {dtype} of shape {shape} along {dimension}.")
    params = {"dtype": dtype, "shape": shape, "dimension": dimension, "sharding": None}
    return b.bind(_jax.primitive("iota"), (), params, _jax.array_type(shape, dtype))


def while_loop(
    b: Builder,
    condition: ClosedJaxpr,
    body: ClosedJaxpr,
    carries: Sequence[Atom],
    condition_constants: Sequence[Atom] = (),
    body_constants: Sequence[Atom] = (),
) -> list[Var]:
    """``body`` applied to the carries as long as ``condition`` holds; each has its constants."""
    params = {
        "cond_nconsts": len(condition_constants),
        "cond_jaxpr": condition,
        "body_nconsts": len(body_constants),
        "body_jaxpr": body,
    }
    operands = [*condition_constants, *body_constants, *carries]
    return b.bind_multiple(_jax.primitive("while"), operands, params)


def cond(
    b: Builder, index: Atom, branches: Sequence[ClosedJaxpr], operands: Sequence[Atom]
) -> list[Var]:
    """What one of several programs gives of the operands, by its number, which is an int32."""
    params = {"branches": tuple(branches)}
    return b.bind_multiple(_jax.primitive("cond"), [index, *operands], params)


def scan(
    b: Builder,
    body: ClosedJaxpr,
    constants: Sequence[Atom],
    carries: Sequence[Atom],
    arrays: Sequence[Atom],
    length: int,
    *,
    reverse: bool = False,
    unroll: int = 1,
) -> list[Var]:
    """The carries after ``length`` steps, and what these give besides, one behind the other.

    ``body`` takes constants, carries and one slice of each array along its first axis, and gives
    carries and results. With ``reverse`` the step of the last slices is the first. So many steps
    are compiled as one as ``unroll`` says.
    """
    counts = len(constants), len(carries), len(arrays)
    params = _jax.scan_params(body, length, *counts, reverse=reverse, unroll=unroll)
    carried, given = body.out_avals[: len(carries)], body.out_avals[len(carries) :]
    is_typed = not body.effects and all(map(_jax.is_plain, body.out_avals))
    return b.bind_multiple(
        _jax.primitive("scan"),
        [*constants, *carries, *arrays],
        params,
        [*carried, *(_jax.array_type((length, *t.shape), t.dtype) for t in given)]
        if is_typed  # JAX's own rule takes 0.5 ms.
        else None,
    )
