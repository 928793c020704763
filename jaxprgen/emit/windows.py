"""Convolutions on which XLA does not abort, and does not abort on their derivatives either.

Along an axis without padding, a filter of ``k`` elements that are not dilated, over an image that
is dilated by ``k``, with stride ``k - 1``, is XLA's notation for ``k`` groups. XLA does not look at
whether the image has ``k`` elements. If it has another number, and the filter is the larger
operand, then XLA aborts the process (``SwapConvolutionOperandsIfBeneficial`` in XLA's
``conv_operand_swapper.cc``). JAX can make such convolutions from others by transposition. Zeros at
the end of the image, in place of padding, avoid them.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any, NamedTuple

from jaxprgen._jax import Size
from jaxprgen.emit import primitives as lax
from jaxprgen.emit.sizes import is_known
from jaxprgen.emit.values import Value

Edges = Sequence[tuple[Size, Size, int]]
"""For each axis, how many elements to add before the first, after the last and between two."""


def span(count: Size, step: int) -> Size:
    """Return the extent of ``count`` elements at a distance of ``step``."""
    return (count - 1) * step + 1


def pad(x: Value, edges: Edges, fill: float = 0) -> Value:
    """Add elements to each axis; negative numbers of them remove elements."""
    if not any(low or high or between for low, high, between in edges):
        return x
    return lax.pad(x, x.like(fill), edges)


def resize(x: Value, shape: Sequence[Size]) -> Value:
    """Add zeros at the end of each axis, or remove elements there, up to a shape."""
    return pad(x, [(0, n - own, 0) for n, own in zip(shape, x.shape, strict=True)])


class Window(NamedTuple):
    """A convolution along one axis.

    Attributes
    ----------
    size, filter_size
        The numbers of elements of the image and of the filter.
    stride, x_dilation, w_dilation
        The distances between windows, between elements of the image, and between those of filters.
    low, high
        The padding before and after the dilated image.
    """

    size: Size
    filter_size: Size
    stride: int
    x_dilation: int
    w_dilation: int
    low: Size
    high: Size

    @property
    def windows(self) -> Size:
        """Return the number of windows."""
        padded = self.low + span(self.size, self.x_dilation) + self.high
        return (padded - span(self.filter_size, self.w_dilation)) // self.stride + 1

    def transposes(self) -> tuple[Window, Window]:
        """Return the convolutions by which JAX differentiates in the image and in the filter."""
        n, k, stride, x_dilation, w_dilation, low, _ = self
        image, filter_ = span(n, x_dilation), span(k, w_dilation)
        out = span(self.windows, stride)
        before = filter_ - 1 - low
        after = image + filter_ - 1 - out - before
        return (
            Window(self.windows, k, x_dilation, stride, w_dilation, before, after),
            Window(n, self.windows, w_dilation, x_dilation, stride, low, out - image + before),
        )

    def derivatives(self) -> set[Window]:
        """Return this convolution and those of its derivatives of all orders."""
        found: set[Window] = set()
        new: list[Window] = [self]
        while new:
            window = new.pop()
            if window not in found:
                found.add(window)
                new += window.transposes()
        return found

    def is_taken_for_groups(self) -> bool:
        """Return whether XLA takes this axis for groups and finds another size than theirs."""
        k = self.filter_size
        return k != self.size and self[2:] == (k - 1, k, 1, 0, 0)

    def zeros_in_place_of_padding(self) -> int:
        """Return how many zeros after the image are to replace padding so that XLA can compile.

        An axis of symbolic size needs none if windows cover it exactly, whatever its size.
        """
        if not is_known(self):
            return 0
        for zeros in itertools.count():
            high = self.high - zeros * self.x_dilation
            longer = self._replace(size=self.size + zeros, high=high)
            if not any(window.is_taken_for_groups() for window in longer.derivatives()):
                return zeros
        raise AssertionError


def conv_general_dilated(x: Value, w: Value, axes: Sequence[Window], **options: Any) -> Value:
    """Correlate images with filters, as `primitives.conv_general_dilated` does.

    The axes along which filters slide are the last ones of ``x`` and ``w``. JAX differentiates
    only where the padding is known, so symbolic padding is added to the images beforehand.
    """
    if not all(is_known((axis.low, axis.high)) for axis in axes):
        edges = [(axis.low, axis.high, axis.x_dilation - 1) for axis in axes]
        x = pad(x, [(0, 0, 0), (0, 0, 0), *edges])
        axes = [
            axis._replace(size=n, x_dilation=1, low=0, high=0)
            for n, axis in zip(x.shape[2:], axes, strict=True)
        ]
    zeros = [axis.zeros_in_place_of_padding() for axis in axes]
    x = pad(x, [(0, 0, 0), (0, 0, 0), *((0, count, 0) for count in zeros)])
    _, _, strides, x_dilation, w_dilation, low, high = zip(*axes, strict=True)
    ends = [end - n * step for end, n, step in zip(high, zeros, x_dilation, strict=True)]
    options |= {"x_dilation": [*x_dilation], "w_dilation": [*w_dilation]}
    padding = list(zip(low, ends, strict=True))
    return lax.conv_general_dilated(x, w, strides=[*strides], padding=padding, **options)
