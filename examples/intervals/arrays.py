"""Rules along axes, and rules that move elements."""

import jax.numpy as jnp
import numpy as np

from intervals.elementwise import product
from intervals.values import INF, Interval, bind, exact, interval, known, made

# --- Along axes --------------------------------------------------------------------------


def reduced(f):
    """Return the rule of an exact reduction that increases with every element."""

    def rule(context, x, *, axes, **params):
        nan = np.any(x.nan, axes)
        return made(context, f(x.low, axis=axes), f(x.high, axis=axes), nan=nan, ulps=0)

    return rule


def summed(context, low, high, nan, f, count):
    """Bound sums, whose order is unknown and whose partial sums are rounded."""
    (aval,) = context.avals_out
    info = jnp.finfo(aval.dtype) if jnp.issubdtype(aval.dtype, jnp.floating) else None
    eps, largest = (float(info.eps), float(info.max)) if info else (0, INF)
    total = f(np.maximum(np.abs(low), np.abs(high)))
    overflows = total > largest
    low, high = np.where(overflows, -INF, f(low)), np.where(overflows, INF, f(high))
    error = np.where(overflows, 0, (count + 1) * eps * total)
    return made(context, low, high, nan=nan | overflows, ulps=1, error=error)


@interval.rule("reduce_sum")
def _(context, x, *, axes, **params):
    count = np.prod([x.shape[axis] for axis in axes])
    return summed(context, x.low, x.high, np.any(x.nan, axes), lambda a: a.sum(axes), count)


@interval.rule("reduce_prod")
def _(context, x, *, axes, **params):
    def rows(a):
        kept = [axis for axis in range(a.ndim) if axis not in axes]
        return np.transpose(a, (*axes, *kept)).reshape(-1, *(a.shape[axis] for axis in kept))

    ones = np.ones(context.avals_out[0].shape)
    found = Interval(ones, ones, x.dtype, False)
    for low, high, nan in zip(rows(x.low), rows(x.high), rows(x.nan), strict=True):
        row = Interval(low, high, x.dtype, nan)
        found = made(context, *product(found, row)[:2], found, row, nan=product(found, row)[2])
    return found


@interval.rule("cumsum")
def _(context, x, *, axis, reverse):
    def f(a):
        return np.flip(np.cumsum(np.flip(a, axis), axis), axis) if reverse else np.cumsum(a, axis)

    return summed(context, x.low, x.high, f(x.nan) > 0, f, x.shape[axis])


@interval.rule("dot_general")
def _(context, x, y, *, dimension_numbers, **params):
    (left, right), (left_batch, right_batch) = dimension_numbers
    x, y = _matrices(x, left, left_batch), _matrices(y, right, right_batch)
    x = Interval(*(a[:, :, None] for a in (x.low, x.high)), x.dtype, x.nan[:, :, None])
    y = Interval(*(a[:, None] for a in (y.low, y.high)), y.dtype, y.nan[:, None])
    low, high, nan = product(x, y)
    nan = np.any(nan | x.nan | y.nan, -1)
    shape = context.avals_out[0].shape
    return summed(
        context, low, high, nan.reshape(shape), lambda a: a.sum(-1).reshape(shape), x.shape[-1]
    )


def _matrices(x, contracted, batch):
    """Return an array of three axes: batch, kept, summed."""
    free = [axis for axis in range(len(x.shape)) if axis not in (*contracted, *batch)]
    sizes = [int(np.prod([x.shape[i] for i in axes])) for axes in (batch, free, contracted)]

    def arranged(a):
        return np.transpose(a, (*batch, *free, *contracted)).reshape(sizes)

    return Interval(arranged(x.low), arranged(x.high), x.dtype, arranged(x.nan))


@interval.rule("argmax", "argmin")
def _(context, x, *, axes, index_dtype):
    (axis,) = axes
    low, high = (x.low, x.high) if context.primitive == "argmax" else (-x.high, -x.low)
    possible = (high >= low.max(axis, keepdims=True)) | x.nan.any(axis, keepdims=True)
    last = x.shape[axis] - 1 - np.argmax(np.flip(possible, axis), axis)
    return made(context, np.argmax(possible, axis), last)


@interval.rule("sort")
def _(context, *operands, dimension, **params):
    if len(operands) > 1:
        return known(context, *operands, dimension=dimension, **params)
    (x,) = operands
    ends = np.sort(x.low, dimension), np.sort(x.high, dimension)
    return [Interval(*ends, x.dtype, np.broadcast_to(x.nan.any(dimension, keepdims=True), x.shape))]


def running(f):
    def rule(context, x, *, axis, reverse):
        if reverse:
            flipped = (np.flip(f.accumulate(np.flip(a, axis), axis), axis) for a in (x.low, x.high))
            return made(context, *flipped, nan=x.nan.any(axis, keepdims=True), ulps=0)
        ends = (f.accumulate(a, axis) for a in (x.low, x.high))
        return made(context, *ends, nan=x.nan.any(axis, keepdims=True), ulps=0)

    return rule


interval.rules(
    {
        "reduce_max": reduced(np.max),
        "reduce_min": reduced(np.min),
        "reduce_or": reduced(np.max),
        "reduce_and": reduced(np.min),
        "cummax": running(np.maximum),
        "cummin": running(np.minimum),
    }
)


# --- Moved elements ----------------------------------------------------------------------


def moved(count):
    """Return the rule of a primitive that moves elements of operands, by indices that are known.

    Evaluating the primitive on the numbers of all elements shows where they move.
    """

    def rule(context, *operands, **params):
        data = operands[:count]
        ends = np.cumsum([0, *(x.low.size for x in data)])
        places = [
            jnp.arange(start, end, dtype=np.int32).reshape(x.shape)
            for x, start, end in zip(data, ends, ends[1:])  # noqa: B905
        ]
        found = bind(context, *places, *map(exact, operands[len(data) :]), **params)
        found = np.asarray(found)
        if found.size and (found.min() < 0 or found.max() >= ends[-1]):
            raise ValueError("an index is out of bounds.")

        def pick(arrays):
            return np.concatenate([np.ravel(a) for a in arrays])[found]

        low, high, nan = ([getattr(x, name) for x in data] for name in ("low", "high", "nan"))
        return Interval(pick(low), pick(high), data[0].dtype, pick(nan))

    return rule


ONE = """broadcast_in_dim copy copy_p dynamic_slice expand_dims gather reshape rev slice squeeze
transpose"""
interval.rules({name: moved(1) for name in ONE.split()})
interval.rule("stop_gradient")(lambda context, x: x)
interval.rule("optimization_barrier")(lambda context, *operands: operands)
interval.rules({"dynamic_update_slice": moved(2), "pad": moved(2), "concatenate": moved(None)})
