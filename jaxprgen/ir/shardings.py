"""The shardings of a program's results that those of its arguments imply.

Under a mesh with explicit axes, the types of arguments say how they are split. A program is emitted
as for one device, and XLA's partitioner splits it; only the types of its results are needed. An
axis of a result is split as the axes of the arguments that it comes from are. This is looked up
equation by equation, and a wrong guess costs communication, but never changes a value.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, TypeAlias

from jaxprgen import _jax
from jaxprgen._jax import AbstractMesh, ClosedJaxpr, JaxprEqn, ShapedArray, Var
from jaxprgen.ir.inner import holder_of
from jaxprgen.ir.programs import assembled

Split: TypeAlias = tuple[Any, ...]
"""For each axis of an array: the mesh axis, or tuple of mesh axes, that split it, or None."""


def with_shardings(
    closed: ClosedJaxpr,
    types: Sequence[ShapedArray],
    mesh: AbstractMesh,
    held: Mapping[int, ShapedArray] = MappingProxyType({}),
) -> ClosedJaxpr:
    """Return the program of arguments and constants whose types hold shardings.

    Parameters
    ----------
    closed : ClosedJaxpr
        A program whose types have no shardings.
    types : sequence of ShapedArray
        The types of the arguments.
    mesh : AbstractMesh
        The mesh of these types, which has explicit axes.
    held : mapping from int to ShapedArray
        The types of constants that several devices hold, by position.

    Returns
    -------
    ClosedJaxpr
        The program between equations that take the shardings from its arguments and give its
        results the shardings that follow.
    """
    jaxpr = closed.jaxpr
    split_constants = {jaxpr.constvars[i]: tuple(aval.sharding.spec) for i, aval in held.items()}
    splits = propagated(jaxpr, [tuple(aval.sharding.spec) for aval in types], split_constants)
    line = _jax.NO_SOURCE
    inputs = [Var(aval) for aval in types]
    constants: list[Any] = list(jaxpr.constvars)
    for i, aval in held.items():
        constants[i] = Var(aval)
    outputs = [
        Var(_jax.sharded(x.aval, mesh, divisible(_shape(x), split, mesh)))
        for x, split in zip(jaxpr.outvars, splits, strict=True)
    ]
    with _jax.partitioned(mesh):
        pairs = zip([*inputs, *constants], [*jaxpr.invars, *jaxpr.constvars], strict=True)
        before = [_jax.reshard(x, v, line) for x, v in pairs if x is not v]
    with _jax.in_mesh(mesh):
        after = [_jax.reshard(v, x, line) for v, x in zip(jaxpr.outvars, outputs, strict=True)]
    return assembled(
        closed,
        [*before, *jaxpr.eqns, *after],
        inputs=inputs,
        outputs=outputs,
        constants=list(zip(constants, closed.consts, strict=True)),
    )


def divisible(shape: Sequence[Any], split: Split, mesh: AbstractMesh) -> Split:
    """Return a split without the axes that do not split a size evenly, or that come twice."""
    used: set[Any] = set()
    found: list[Any] = []
    for size, axes in itertools.zip_longest(shape, split):
        names = set(axes) if isinstance(axes, tuple) else {axes} - {None}
        parts = math.prod(mesh.shape[name] for name in names)
        fits = bool(names) and not names & used and size % parts == 0
        fits &= names <= set(mesh.explicit_axes)  # Others are no part of types.
        used |= names if fits else set()
        found.append(axes if fits else None)
    return tuple(found)


def _shape(x: Any) -> tuple[Any, ...]:
    """Return the shape of an atom; values without one count as scalars."""
    return getattr(x.aval, "shape", ())


def propagated(
    jaxpr: Any, splits: Sequence[Split], constants: Mapping[Var, Split] = MappingProxyType({})
) -> list[Split]:
    """Return how the outputs of a program are split if inputs and constants are split like this."""
    jaxpr = _jax.open_jaxpr(jaxpr)
    known: dict[Any, Split] = {**constants, **dict(zip(jaxpr.invars, splits, strict=True))}

    def of(x: Any) -> Split:
        found = known.get(x) if type(x) is Var else None
        return (None,) * len(_shape(x)) if found is None else found

    for eqn in jaxpr.eqns:
        operands = [of(x) for x in eqn.invars]
        if not any(map(any, operands)) and eqn.primitive is not _jax.sharding_constraint_p:
            continue
        holder = holder_of(eqn)
        rule = _of_inner if holder is not None else RULES.get(eqn.primitive.name, _alike)
        known.update(zip(eqn.outvars, rule(eqn, operands), strict=True))
    return [of(x) for x in jaxpr.outvars]


# --- Rules: how results are split, by equation and the splits of its operands ---------------

Rule: TypeAlias = Callable[[JaxprEqn, Sequence[Split]], Sequence[Split]]


def _alike(eqn: JaxprEqn, operands: Sequence[Split]) -> Sequence[Split]:
    """Split each axis as the same axis of an operand of the same size."""
    return [
        tuple(
            next(
                (
                    split[d]
                    for x, split in zip(eqn.invars, operands, strict=True)
                    if d < len(split) and split[d] and _shape(x)[d] == size
                ),
                None,
            )
            for d, size in enumerate(_shape(out))
        )
        for out in eqn.outvars
    ]


def _kept(eqn: JaxprEqn, operands: Sequence[Split]) -> Sequence[Split]:
    """Split each axis as the same axis of an operand, although its size may differ."""
    joined = tuple(next(filter(None, axes), None) for axes in itertools.zip_longest(*operands))
    return [joined[: len(_shape(eqn.outvars[0]))]]


def _broadcast(eqn: JaxprEqn, operands: Sequence[Split]) -> Sequence[Split]:
    found: list[Any] = [None] * len(_shape(eqn.outvars[0]))
    for d, axes in zip(eqn.params["broadcast_dimensions"], operands[0], strict=True):
        found[d] = axes
    return [tuple(found)]


def _transpose(eqn: JaxprEqn, operands: Sequence[Split]) -> Sequence[Split]:
    return [tuple(operands[0][d] for d in eqn.params["permutation"])]


def _dropped(param: str) -> Rule:
    """Return the rule of a primitive that drops the axes in a parameter."""

    def rule(eqn: JaxprEqn, operands: Sequence[Split]) -> Sequence[Split]:
        kept = tuple(x for d, x in enumerate(operands[0]) if d not in eqn.params[param])
        return [kept] * len(eqn.outvars)

    return rule


def _reshape(eqn: JaxprEqn, operands: Sequence[Split]) -> Sequence[Split]:
    """Split the first of several axes as the axes that they are made of, the first of which counts.

    Both shapes are cut where the products of sizes so far are equal.
    """
    before, after = _shape(eqn.invars[0]), _shape(eqn.outvars[0])
    of_product = dict(zip(_products(after), range(len(after)), strict=True))
    found: list[Any] = [None] * len(after)
    for product, size, axes in zip(_products(before), before, operands[0], strict=True):
        if axes and size != 1 and product in of_product:
            found[of_product[product]] = axes
    return [tuple(found)]


def _products(shape: Sequence[Any]) -> list[Any]:
    """Return the product of the sizes before each axis; axes of size one get none."""
    before = itertools.accumulate(shape, lambda x, y: x * y, initial=1)
    return [
        product if size != 1 else ("one", d)
        for d, (size, product) in enumerate(zip(shape, before, strict=False))
    ]


def _dot_general(eqn: JaxprEqn, operands: Sequence[Split]) -> Sequence[Split]:
    contracted, (batch, other_batch) = eqn.params["dimension_numbers"]
    pairs = zip(batch, other_batch, strict=True)
    found = [operands[0][d] or operands[1][e] for d, e in pairs]
    for split, summed, shared in zip(operands, contracted, (batch, other_batch), strict=True):
        found += [x for d, x in enumerate(split) if d not in summed and d not in shared]
    return [tuple(found)]


def _convolution(eqn: JaxprEqn, operands: Sequence[Split]) -> Sequence[Split]:
    numbers = eqn.params["dimension_numbers"]
    found: list[Any] = [None] * len(_shape(eqn.outvars[0]))
    found[numbers.out_spec[0]] = operands[0][numbers.lhs_spec[0]]
    found[numbers.out_spec[1]] = operands[1][numbers.rhs_spec[0]]
    return [tuple(found)]


def _windows(numbers: Any, inserted: Sequence[int], batch: Sequence[int], rank: int) -> list[int]:
    """Return the axes of an array that the window axes of what is read or written stand for."""
    return [d for d in range(rank) if d not in inserted and d not in batch]


def _gather(eqn: JaxprEqn, operands: Sequence[Split]) -> Sequence[Split]:
    numbers, (array, indices) = eqn.params["dimension_numbers"], operands
    batch = getattr(numbers, "operand_batching_dims", ())
    read = _windows(numbers, numbers.collapsed_slice_dims, batch, len(array))
    of_points: Sequence[int] = getattr(numbers, "start_indices_batching_dims", ())
    along = dict(zip(of_points, batch, strict=True))
    points = (x or (array[along[d]] if d in along else None) for d, x in enumerate(indices[:-1]))
    sizes = _shape(eqn.invars[0])
    windows = iter(read)
    found: list[Any] = []
    for d in range(len(_shape(eqn.outvars[0]))):
        if d in numbers.offset_dims:
            axis = next(windows)
            is_whole = eqn.params["slice_sizes"][axis] == sizes[axis]
            found.append(array[axis] if is_whole else None)
        else:
            found.append(next(points))
    return [tuple(found)]


def _scatter(eqn: JaxprEqn, operands: Sequence[Split]) -> Sequence[Split]:
    numbers, (array, _, updates) = eqn.params["dimension_numbers"], operands
    batch = getattr(numbers, "operand_batching_dims", ())
    written = _windows(numbers, numbers.inserted_window_dims, batch, len(array))
    found, sizes = list(array), _shape(eqn.outvars[0])
    for d, axis in zip(numbers.update_window_dims, written, strict=True):
        if _shape(eqn.invars[2])[d] == sizes[axis]:
            found[axis] = found[axis] or updates[d]
    return [tuple(found)]


def _constraint(eqn: JaxprEqn, operands: Sequence[Split]) -> Sequence[Split]:
    split = tuple(eqn.params["sharding"].spec)
    return [split + (None,) * (len(operands[0]) - len(split))]


def _of_inner(eqn: JaxprEqn, operands: Sequence[Split]) -> Sequence[Split]:
    """Split results as the programs inside say; what a loop carries, as before or after a step."""
    holder = holder_of(eqn)
    assert holder is not None
    found: list[Split] = [(None,) * len(_shape(v)) for v in eqn.outvars]
    if holder.kind == "shard_map":
        return found
    is_scan = eqn.primitive.name == "scan"
    first_row = sum(_jax.scan_counts(eqn)) if is_scan else len(operands)
    stacked = next((x[:1] for x in operands[first_row:] if any(x[:1])), (None,))
    starts = list(operands)
    while True:
        for inner in holder.find(eqn):
            given = [starts[i][1:] if i >= first_row else starts[i] for i in inner.operands]
            outputs = propagated(inner.program, given)
            for result, split in zip(inner.results, outputs, strict=True):
                if result is not None:
                    is_row = len(split) < len(_shape(eqn.outvars[result]))
                    found[result] = _joined(found[result], stacked + split if is_row else split)
        before = list(starts)
        for operand, result in holder.carries(eqn):
            starts[operand] = found[result] = _joined(starts[operand], found[result])
        if starts == before:
            return found


def _joined(one: Split, other: Split) -> Split:
    return tuple(x or y for x, y in zip(one, other, strict=True))


RULES: Mapping[str, Rule] = MappingProxyType(
    {
        **dict.fromkeys(
            ("slice", "pad", "concatenate", "dynamic_slice", "dynamic_update_slice"), _kept
        ),
        **dict.fromkeys(
            (
                *("reduce_sum", "reduce_prod", "reduce_max", "reduce_min", "argmax", "argmin"),
                *("reduce_and", "reduce_or", "reduce_xor"),
            ),
            _dropped("axes"),
        ),
        **dict.fromkeys(
            ("scatter", "scatter-add", "scatter-sub", "scatter-mul", "scatter-min", "scatter-max"),
            _scatter,
        ),
        "broadcast_in_dim": _broadcast,
        "conv_general_dilated": _convolution,
        "dot_general": _dot_general,
        "gather": _gather,
        "reduce": _dropped("dimensions"),
        "reshape": _reshape,
        "sharding_constraint": _constraint,
        "squeeze": _dropped("dimensions"),
        "transpose": _transpose,
    }
)
"""The rules of primitives that move or drop axes. All others keep axes of equal sizes."""
