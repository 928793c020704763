"""Steps of random graphs: Ops of arguments that are drawn, as axes, slices and dtypes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import aesara.tensor as at
import numpy as np
from laws import DTYPES

from catalogue.example import INEXACT


class Step(NamedTuple):
    """A function of the graph that draws and of ``arity`` variables."""

    build: Callable[..., Any]
    arity: int


def axis_of(graph: Any, x: Any) -> int:
    """An axis, counted from either end."""
    return int(graph.rng.integers(-x.ndim, x.ndim))


def slice_of(graph: Any) -> slice:
    """A slice; its bounds may lie outside."""
    start, stop = (None if graph.chance(0.4) else int(graph.rng.integers(-4, 5)) for _ in range(2))
    return slice(start, stop, graph.choose([None, 1, -1, 2]))


def cast(graph: Any, x: Any) -> Any:
    """In another dtype."""
    return at.cast(x, graph.choose(DTYPES))


def clip(graph: Any, x: Any) -> Any:
    """Within bounds, so that what follows is in range."""
    return at.clip(x, np.int8(-2), np.int8(3))


def bounded(graph: Any, x: Any) -> Any:
    """Between zero and one."""
    return graph.choose([at.sigmoid, at.tanh, lambda v: at.abs(v) / (1 + at.abs(v))])(x)


def dimshuffle(graph: Any, x: Any) -> Any:
    """Axes in another order, and new ones."""
    order = [int(d) for d in graph.rng.permutation(x.ndim)]
    if graph.chance(0.5):
        order.insert(int(graph.rng.integers(0, x.ndim + 1)), "x")
    return x.dimshuffle(*order)


def reshape(graph: Any, x: Any) -> Any:
    """The same elements in another shape, which is computed from that of ``x``."""
    sizes = [
        lambda: (-1,),
        lambda: (x.shape[0], -1) if x.ndim else (1, 1),
        lambda: (x.size, 1),
        lambda: (*reversed(list(x.shape)),) if x.ndim else (1,),
        lambda: (1, at.prod(x.shape)),
    ]
    return x.reshape(graph.choose(sizes)())


def reduction(graph: Any, x: Any) -> Any:
    """Over some axes or all."""
    op = graph.choose([at.sum, at.prod, at.max, at.min, at.mean, at.any, at.all, at.var])
    axis = graph.choose([None, axis_of(graph, x), tuple(range(x.ndim))]) if x.ndim else None
    return op(x, axis=axis, keepdims=graph.chance(0.3))


def search(graph: Any, x: Any) -> Any:
    """Positions."""
    return graph.choose([at.argmax, at.argmin, at.argsort])(x, axis=axis_of(graph, x))


def sort(graph: Any, x: Any) -> Any:
    """In order along an axis."""
    return at.sort(x, axis_of(graph, x))


def cumulative(graph: Any, x: Any) -> Any:
    """Running sums and products."""
    op = graph.choose([at.cumsum, at.cumprod])
    return op(x, axis=None if graph.chance(0.2) else axis_of(graph, x))


def differences(graph: Any, x: Any) -> Any:
    """Of neighbours."""
    return at.diff(x, axis=axis_of(graph, x))


def repeat(graph: Any, x: Any) -> Any:
    """Each element several times."""
    return at.repeat(x, int(graph.rng.integers(0, 3)), axis=axis_of(graph, x))


def take_slice(graph: Any, x: Any) -> Any:
    """By slices and integers."""
    count = int(graph.rng.integers(1, x.ndim + 1))
    index = [slice_of(graph) if graph.chance(0.7) else graph.choose([0, -1]) for _ in range(count)]
    return x[tuple(index)]


def take_by(graph: Any, x: Any, i: Any) -> Any:
    """By an array of integers, behind slices."""
    where = int(graph.rng.integers(0, x.ndim))
    return x[(*[slice_of(graph)] * (where > 0), *[slice(None)] * max(where - 1, 0), i)]


def put(graph: Any, x: Any, y: Any) -> Any:
    """Written, or added, at slices and integers."""
    write = graph.choose([at.set_subtensor, at.inc_subtensor])
    return write(take_slice(graph, x), y)


def put_by(graph: Any, x: Any, y: Any, i: Any) -> Any:
    """Written, or added, at an array of integers."""
    return graph.choose([at.set_subtensor, at.inc_subtensor])(take_by(graph, x, i), y)


def where(graph: Any, condition: Any, x: Any, y: Any) -> Any:
    """One or the other."""
    return at.switch(condition, x, y)


def masked(graph: Any, x: Any, y: Any) -> Any:
    """Written where a mask is true."""
    return at.set_subtensor(x[x > y], at.cast(graph.choose([0, 1]), x.dtype))


def join(graph: Any, x: Any, y: Any) -> Any:
    """One behind the other."""
    return at.concatenate([x, y, x[::-1]][: graph.choose([2, 3])], axis=axis_of(graph, x))


def stack(graph: Any, x: Any, y: Any) -> Any:
    """Along a new axis."""
    return at.stack([x, y], axis=int(graph.rng.integers(0, x.ndim + 1)))


def split(graph: Any, x: Any) -> Any:
    """The pieces of an axis."""
    axis = axis_of(graph, x)
    first = int(graph.rng.integers(0, 3))
    return at.split(x, at.stack([first, x.shape[axis] - first]), 2, axis=axis)


def matmul(graph: Any, x: Any, y: Any) -> Any:
    """Products of vectors, matrices and stacks of these."""
    return graph.choose([at.dot, at.matmul, at.outer])(x, y)


def tensordot(graph: Any, x: Any, y: Any) -> Any:
    """Sums over one axis of each."""
    return at.tensordot(x, y, axes=[[axis_of(graph, x)], [axis_of(graph, y)]])


def sizes(graph: Any, x: Any) -> Any:
    """Arrays whose sizes are those of another."""
    n = x.shape[axis_of(graph, x)]
    makers = [
        lambda: at.arange(n) * 2 - x.ndim,
        lambda: at.eye(n, n + 1, dtype=x.dtype),
        lambda: at.alloc(at.cast(1.5, x.dtype), 2, n),
        lambda: at.zeros_like(x),
        lambda: at.ones((n // 2, n), dtype=x.dtype),
        lambda: at.linspace(0, 1, n + 1),
        lambda: at.tri(n, n, -1, dtype=x.dtype),
        lambda: x.shape,
    ]
    return graph.choose(makers)()


def part(graph: Any, x: Any) -> Any:
    """Of a complex number; its size."""
    return graph.choose([at.real, at.imag, at.angle, at.abs, at.conj])(x)


def softmax(graph: Any, x: Any) -> Any:
    """Along an axis."""
    function = graph.choose([at.special.softmax, at.special.log_softmax])
    return function(x if x.dtype in INEXACT else at.cast(x, "float64"), axis=axis_of(graph, x))


def triangle(graph: Any, x: Any) -> Any:
    """Half of a matrix, or a diagonal."""
    return graph.choose([at.tril, at.triu, at.diag, at.diagonal])(x)


def regular(graph: Any, x: Any) -> Any:
    """A matrix that has an inverse."""
    product = at.dot(x, x.T)
    return product + at.eye(product.shape[0], dtype=product.dtype) * 2


ARITHMETIC = [
    at.add,
    at.sub,
    at.mul,
    at.true_divide,
    at.floor_divide,
    at.mod,
    at.power,
    at.maximum,
    at.minimum,
    at.lt,
    at.ge,
    at.eq,
    at.neq,
    at.arctan2,
    at.bitwise_and,
    at.bitwise_or,
    at.bitwise_xor,
]


def arithmetic(graph: Any, x: Any, y: Any) -> Any:
    """Of two operands that broadcast."""
    return graph.choose(ARITHMETIC)(x, y)


STEPS = [
    *[Step(arithmetic, 2)] * 4,
    *(
        Step(build, 1)
        for build in (
            cast,
            clip,
            bounded,
            dimshuffle,
            reshape,
            reduction,
            search,
            sort,
            cumulative,
            differences,
            repeat,
            take_slice,
            split,
            sizes,
            part,
            softmax,
            triangle,
            regular,
        )
    ),
    *(Step(build, 2) for build in (take_by, put, masked, join, stack, matmul, tensordot)),
    Step(put_by, 3),
    Step(where, 3),
]
"""All steps; those that keep graphs growing more than once."""
