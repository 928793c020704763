"""Discrete Fourier transforms; inverse transforms divide by the number of elements, as in NumPy.

XLA's CPU compiler fails at run time if a transform's result is laid out by columns, as a matrix
decomposition wants its operand. A one-axis array has only one layout, so an optimization barrier
on the flattened result follows each transform.
"""

from __future__ import annotations

from collections.abc import Sequence

from jaxprgen.emit import primitives as lax
from jaxprgen.emit.shape import reshape, slice_axis, transpose
from jaxprgen.emit.sizes import is_known
from jaxprgen.emit.values import Value
from jaxprgen.emit.windows import resize
from jaxprgen.errors import ShapeMismatchError, SymbolicSizeError

_AXES = 3
"""The largest number of axes that XLA transforms at once."""


def fftn(x: Value, lengths: Sequence[int], axes: Sequence[int]) -> Value:
    """Return `numpy.fft.fftn` of complex numbers."""
    return _transformed(_resized(x, lengths, axes), axes, "FFT")


def ifftn(x: Value, lengths: Sequence[int], axes: Sequence[int]) -> Value:
    """Return `numpy.fft.ifftn` of complex numbers."""
    return _transformed(_resized(x, lengths, axes), axes, "IFFT")


def rfftn(x: Value, lengths: Sequence[int], axes: Sequence[int]) -> Value:
    """Return `numpy.fft.rfftn` of floats."""
    x = _resized(x, lengths, axes)
    spectrum = _along(x, axes[-_AXES:], "RFFT", lengths[-_AXES:])
    return _transformed(spectrum, axes[:-_AXES], "FFT")


def irfftn(x: Value, lengths: Sequence[int], axes: Sequence[int]) -> Value:
    """Return `numpy.fft.irfftn` of complex numbers, given the lengths of the result."""
    halved = [*lengths[:-1], lengths[-1] // 2 + 1]
    x = _transformed(_resized(x, halved, axes), axes[:-_AXES], "IFFT")
    return _along(x, axes[-_AXES:], "IRFFT", lengths[-_AXES:])


def last_axes(x: Value, lengths: Sequence[int]) -> range:
    """Return the last axes, one per length."""
    rank = x.ndim
    if not 0 < len(lengths) <= rank:
        raise ShapeMismatchError(f"Cannot transform {rank} axes to lengths {list(lengths)}.")
    return range(rank - len(lengths), rank)


def _resized(x: Value, lengths: Sequence[int], axes: Sequence[int]) -> Value:
    """Cut each axis at the end, or pad it with zeros, to its length."""
    if any(n < 1 for n in lengths):
        raise ShapeMismatchError(f"A Fourier transform needs lengths >= 1, got {list(lengths)}.")
    shape = list(x.shape)
    for axis, n in zip(axes, lengths, strict=True):
        if is_known((n, shape[axis])):
            x = slice_axis(x, axis, 0, min(n, shape[axis]))
        shape[axis] = n
    return resize(x, shape)


def _transformed(x: Value, axes: Sequence[int], kind: str) -> Value:
    """Transform any number of axes, a few at a time."""
    for first in range(0, len(axes), _AXES):
        group = axes[first : first + _AXES]
        x = _along(x, group, kind, [x.shape[d] for d in group])
    return x


def _along(x: Value, axes: Sequence[int], kind: str, lengths: Sequence[int]) -> Value:
    """Transform axes, which are last meanwhile."""
    order = [d for d in range(x.ndim) if d not in axes] + [*axes]
    x = _by_rows(transpose(x, order), kind, tuple(lengths))
    return transpose(x, [order.index(d) for d in range(len(order))])


def _by_rows(x: Value, kind: str, lengths: tuple[int, ...]) -> Value:
    if not is_known(lengths):
        raise SymbolicSizeError(
            f"XLA computes Fourier transforms of known length only, not of {lengths}.\n"
            "Give those axes numbers, or transform to a fixed length, which cuts or pads them."
        )
    y = lax.fft(x, kind, lengths)
    if y.ndim == 1:
        return y
    flat = lax.optimization_barrier(reshape(y, (-1,)))
    return reshape(flat, y.shape)
