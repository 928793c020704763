"""Discrete Fourier transforms; inverse transforms divide by the number of elements, as in NumPy.

XLA's CPU compiler fails at run time if a transform's result is laid out by columns, as a matrix
decomposition wants its operand. A one-axis array has only one layout, so an optimization barrier
on the flattened result follows each transform.
"""

from __future__ import annotations

from collections.abc import Sequence

from jaxprgen.emit import primitives as lax
from jaxprgen.emit.shape import reshape, slice_axis, transpose
from jaxprgen.emit.values import Value
from jaxprgen.errors import ShapeMismatchError

_AXES = 3
"""The largest number of axes that XLA transforms at once."""


def rfftn(x: Value, lengths: Sequence[int]) -> Value:
    """Return `numpy.fft.rfftn` of floats over the last axes, one per length."""
    axes = _last_axes(x, lengths)
    x = _resized(x, lengths, axes)
    spectrum = _by_rows(x, "RFFT", tuple(lengths[-_AXES:]))
    return _transformed(spectrum, axes[:-_AXES], "FFT")


def irfftn(x: Value, lengths: Sequence[int]) -> Value:
    """Return `numpy.fft.irfftn` over the last axes, one per length of the result."""
    axes = _last_axes(x, lengths)
    halved = [*lengths[:-1], lengths[-1] // 2 + 1]
    x = _transformed(_resized(x, halved, axes), axes[:-_AXES], "IFFT")
    return _by_rows(x, "IRFFT", tuple(lengths[-_AXES:]))


def fft(x: Value, length: int, axis: int) -> Value:
    """Return `numpy.fft.fft` of complex numbers."""
    return _transformed(_resized(x, [length], [axis]), [axis], "FFT")


def ifft(x: Value, length: int, axis: int) -> Value:
    """Return `numpy.fft.ifft` of complex numbers."""
    return _transformed(_resized(x, [length], [axis]), [axis], "IFFT")


def _last_axes(x: Value, lengths: Sequence[int]) -> range:
    rank = x.ndim
    if not 0 < len(lengths) <= rank:
        raise ShapeMismatchError(f"Cannot transform {rank} axes to lengths {list(lengths)}.")
    return range(rank - len(lengths), rank)


def _resized(x: Value, lengths: Sequence[int], axes: Sequence[int]) -> Value:
    """Cut each axis at the end, or pad it with zeros, to its length."""
    if any(n < 1 for n in lengths):
        raise ShapeMismatchError(f"A Fourier transform needs lengths >= 1, got {list(lengths)}.")
    for axis, n in zip(axes, lengths, strict=True):
        x = slice_axis(x, axis, 0, min(n, x.shape[axis]))
    edges = [(0, 0, 0)] * x.ndim
    for axis, n in zip(axes, lengths, strict=True):
        edges[axis] = (0, n - x.shape[axis], 0)
    if not any(high for _, high, _ in edges):
        return x
    return lax.pad(x, x.like(0), edges)


def _transformed(x: Value, axes: Sequence[int], kind: str) -> Value:
    """Transform any axes; they are moved to the end, a few at a time."""
    for first in range(0, len(axes), _AXES):
        group = list(axes[first : first + _AXES])
        order = [d for d in range(x.ndim) if d not in group] + group
        lengths = tuple(x.shape[d] for d in group)
        x = _by_rows(transpose(x, order), kind, lengths)
        x = transpose(x, [order.index(d) for d in range(len(order))])
    return x


def _by_rows(x: Value, kind: str, lengths: tuple[int, ...]) -> Value:
    y = lax.fft(x, kind, lengths)
    if y.ndim == 1:
        return y
    flat = lax.optimization_barrier(reshape(y, (-1,)))
    return reshape(flat, y.shape)
