"""The positions of filters on images, the axes of which may have symbolic sizes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from jaxprgen._jax import Size, max_size
from jaxprgen.emit.sizes import is_known, require_at_least
from jaxprgen.emit.values import Shape
from jaxprgen.emit.windows import Edges, span
from jaxprgen.errors import ShapeMismatchError


class ConvolutionGeometry(NamedTuple):
    """The positions of filters on images.

    Attributes
    ----------
    padding
        The number of zeros before and after each axis.
    strides
        The distance between windows on each axis.
    dilation
        The distance between the elements of a filter on each axis.
    groups
        The number of groups into which channels and filters are divided.
    shared
        Whether one filter serves all output positions.
    flipped
        Whether filters are reversed: a convolution in the strict sense, rather than a correlation.
    """

    padding: Sequence[tuple[Size, Size]]
    strides: Sequence[int]
    dilation: Sequence[int]
    groups: int = 1
    shared: bool = True
    flipped: bool = False

    @property
    def rank(self) -> int:
        """Return the number of axes along which filters slide."""
        return len(self.strides)

    def output_sizes(self, sizes: Sequence[Size], filter_sizes: Sequence[Size]) -> Shape:
        """Return the number of windows of a filter along each axis of an image.

        An image that is too small by one element has no windows, as in Aesara.

        Raises
        ------
        ShapeMismatchError
            The image is too small by more than one element.
        """
        found: list[Size] = []
        for n, k, (low, high), d, s in zip(
            sizes, filter_sizes, self.padding, self.dilation, self.strides, strict=True
        ):
            text = (
                f"A filter of size {k} with dilation {d} does not fit an image of size {n} with "
                f"padding ({low}, {high})."
            )
            last = low + n + high - span(k, d)
            for least in (low, high, span(k, d), last + 1):
                require_at_least(least, 0, lambda text=text: ShapeMismatchError(text))
            found.append(max_size(last // s + 1, 0))
        return tuple(found)

    def covering(
        self, sizes: Sequence[Size], filter_sizes: Sequence[Size]
    ) -> tuple[Edges, ConvolutionGeometry]:
        """Return edges for images, and the geometry of images with them.

        Axes of known sizes get none. Along an axis of symbolic size, windows, at least one, then
        cover the image exactly, without padding. So JAX can differentiate the convolution: the
        padding of the derivatives is known too.
        """
        edges: list[tuple[Size, Size, int]] = [(0, 0, 0), (0, 0, 0)]
        padding = [*self.padding]
        for i, (n, k) in enumerate(zip(sizes, filter_sizes, strict=True)):
            (low, high), extent, s = padding[i], span(k, self.dilation[i]), self.strides[i]
            if is_known((n, k)):
                edges.append((0, 0, 0))
                continue
            covered = max_size((low + n + high - extent) // s, 0) * s + extent
            edges.append((low, covered - low - n, 0))
            padding[i] = (0, 0)
        return edges, self._replace(padding=padding)
