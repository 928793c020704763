"""Reductions and products over axes."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from jaxprgen import _jax
from jaxprgen._jax import Var
from jaxprgen.errors import EquationError
from jaxprgen.ir.builder import Atom, Builder
from jaxprgen.ir.primitives.kinds import ANY, DISCRETE, NUMBER, Dtype, are_axes


def _reduction(name: str, kinds: str) -> Callable[[Builder, Atom, Sequence[int]], Var]:
    primitive, defaults = _jax.primitive(name), _jax.default_params(name)

    def construct(b: Builder, x: Atom, axes: Sequence[int]) -> Var:
        if x.aval.dtype.kind not in kinds or not are_axes(axes, len(x.aval.shape)):
            raise EquationError(f"{name} does not take {x.aval} along {tuple(axes)}.")
        shape = tuple(n for d, n in enumerate(x.aval.shape) if d not in axes)
        aval = _jax.array_type(shape, x.aval.dtype)
        return b.bind(primitive, (x,), {"axes": tuple(axes), **defaults}, aval)

    construct.__name__ = construct.__qualname__ = name
    construct.__doc__ = f"``{name}`` over the given axes, which vanish."
    return construct


reduce_sum = _reduction("reduce_sum", NUMBER)
reduce_prod = _reduction("reduce_prod", NUMBER)
reduce_max = _reduction("reduce_max", ANY)
reduce_min = _reduction("reduce_min", ANY)
reduce_and = _reduction("reduce_and", DISCRETE)
reduce_or = _reduction("reduce_or", DISCRETE)
reduce_xor = _reduction("reduce_xor", DISCRETE)


def argmax(b: Builder, x: Atom, axis: int, dtype: Dtype) -> Var:
    """The first index of the largest element along an axis; NaN counts as largest."""
    return b.bind(_jax.primitive("argmax"), (x,), {"axes": (axis,), "index_dtype": dtype})


def dot_general(
    b: Builder,
    x: Atom,
    y: Atom,
    contract: tuple[Sequence[int], Sequence[int]],
    batch: tuple[Sequence[int], Sequence[int]] = ((), ()),
) -> Var:
    """Sum of products over paired axes: batch axes first, then ``x``'s others, then ``y``'s.

    The precision is the user's, by ``jax.default_matmul_precision``, as for `jax.lax`.
    """
    (cx, cy), (bx, by) = contract, batch
    sx, sy = x.aval.shape, y.aval.shape
    if [sx[d] for d in (*cx, *bx)] != [sy[d] for d in (*cy, *by)] or x.aval.dtype != y.aval.dtype:
        raise EquationError(f"Cannot contract {x.aval} with {y.aval} along {contract}, {batch}.")
    shape = (
        *(sx[d] for d in bx),
        *(n for d, n in enumerate(sx) if d not in (*cx, *bx)),
        *(n for d, n in enumerate(sy) if d not in (*cy, *by)),
    )
    params = {
        "dimension_numbers": ((tuple(cx), tuple(cy)), (tuple(bx), tuple(by))),
        "precision": _jax.matmul_precision(),
        "preferred_element_type": x.aval.dtype,
        "out_sharding": None,
    }
    aval = _jax.array_type(shape, x.aval.dtype)
    return b.bind(_jax.primitive("dot_general"), (x, y), params, aval)
