"""Convolutions over any number of axes, and their gradients.

Images have shape ``(batch, channels, *sizes)``. Filters have shape ``(filters, channels / groups,
*sizes)`` or, if they are not shared, ``(filters, *output_sizes, channels / groups,
*sizes)``. Results have shape ``(batch, filters, *output_sizes)``.

An infinite element times a zero of the padding, or between dilated elements, is NaN or is left out
of the sum, as XLA chooses. Without shared filters it is NaN in the padding, as in NumPy, and left
out between dilated elements.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from jaxprgen._jax import Size, max_size
from jaxprgen.emit import elementwise as ew, index as ix, primitives as lax
from jaxprgen.emit.pooling import SlidingWindow, fold, unfold
from jaxprgen.emit.shape import reshape, transpose
from jaxprgen.emit.sizes import is_known, require_at_least, require_equal, with_shape, with_size
from jaxprgen.emit.values import BOOL, INT32, Shape, Value, full
from jaxprgen.emit.windows import Edges, Window, conv_general_dilated, pad, resize, span
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
                require_at_least(least, 0, text)
            found.append(max_size(last // s + 1, 0))
        return tuple(found)

    def covering(
        self, sizes: Sequence[Size], filter_sizes: Sequence[Size]
    ) -> tuple[Edges, list[Window]]:
        """Return edges for images, and the windows of images with them.

        Axes of known sizes get none. Along an axis of symbolic size, windows, at least one, then
        cover the image exactly, without padding. So JAX can differentiate the convolution: the
        padding of the derivatives is known too.
        """
        edges: list[tuple[Size, Size, int]] = [(0, 0, 0), (0, 0, 0)]
        axes: list[Window] = []
        for n, k, s, d, (low, high) in zip(
            sizes, filter_sizes, self.strides, self.dilation, self.padding, strict=True
        ):
            if is_known((n, k)):
                edges.append((0, 0, 0))
                axes.append(Window(n, k, s, 1, d, low, high))
                continue
            covered = max_size((low + n + high - span(k, d)) // s, 0) * s + span(k, d)
            edges.append((low, covered - low - n, 0))
            axes.append(Window(covered, k, s, 1, d, 0, 0))
        return edges, axes

    def sliding(self, counts: Sequence[Size], filter_sizes: Sequence[int]) -> list[SlidingWindow]:
        """Return as many windows along each axis, with the elements between those of a filter."""
        each = zip(filter_sizes, self.dilation, self.strides, self.padding, counts, strict=True)
        return [SlidingWindow(span(k, d), s, -low, m) for k, d, s, (low, _), m in each]


def _fit(geometry: ConvolutionGeometry, images: Shape, filters: Shape) -> Shape:
    """Return the shape of the result.

    Raises
    ------
    ShapeMismatchError
        The shapes do not fit together.
    """
    rank, groups = geometry.rank, geometry.groups
    batch, channels, *sizes = images
    (count, *_), inner = filters, filters[-rank - 1]
    output_sizes = geometry.output_sizes(sizes, filters[-rank:])
    text = (
        f"Images of {channels} channels do not fit {count} filters of {inner} channels in "
        f"{groups} groups."
    )
    require_equal(channels, inner * groups, text)
    require_equal(count % groups, 0, text)
    return (batch, count, *output_sizes)


def _at_positions(w: Value, out: Shape, geometry: ConvolutionGeometry) -> Value:
    """Return filters of which each output position must have its own."""
    (count, *_), rest, output_sizes = w.shape, w.shape[-geometry.rank - 1 :], out[2:]
    own = w.shape[1 : -geometry.rank - 1]
    text = f"Unshared filters for output sizes {own} do not fit {output_sizes}."
    return with_shape(w, (count, *output_sizes, *rest), text)


def _of_shape(y: Value, geometry: ConvolutionGeometry, images: Shape, filters: Shape) -> Value:
    """Return the cotangent of a result, which must have its shape."""
    result = _fit(geometry, images, filters)
    text = f"Filters of {filters} and images of {images} give a result of {result}, not {y.shape}."
    return with_shape(y, result, text)


def _reverse(w: Value, geometry: ConvolutionGeometry, wanted: bool) -> Value:
    """Reverse filters along their sizes, if ``wanted``."""
    if not wanted:
        return w
    others = w.ndim - geometry.rank
    return ix.take(w, [*[slice(None)] * others, *[slice(None, None, -1)] * geometry.rank])


def correlate(x: Value, w: Value, geometry: ConvolutionGeometry) -> Value:
    """Return the correlations, or convolutions, of images ``x`` with filters ``w``."""
    out = _fit(geometry, x.shape, w.shape)
    if not geometry.shared:
        w = _at_positions(w, out, geometry)
    if 0 in (*out, x.size, w.size):
        return full(out, 0, x.dtype)
    w = _reverse(w, geometry, geometry.flipped)
    inner, *sizes = w.shape[-geometry.rank - 1 :]
    x = with_size(x, 1, inner * geometry.groups)
    if not geometry.shared:
        return _correlate_unshared(x, w, geometry)
    edges, axes = geometry.covering(x.shape[2:], sizes)
    y = conv_general_dilated(pad(x, edges), w, axes, feature_groups=geometry.groups)
    return resize(y, out)


def filter_gradient(
    x: Value, y: Value, sizes: Sequence[Size], geometry: ConvolutionGeometry
) -> Value:
    """Return the gradient of `correlate` with respect to filters of these sizes.

    Parameters
    ----------
    x
        The images.
    y
        The cotangent: the gradient with respect to the result of `correlate`.
    sizes
        The sizes of the filters.
    geometry
        The positions of the filters.
    """
    _, count, *output_sizes = y.shape
    between = () if geometry.shared else output_sizes
    shape = (count, *between, x.shape[1] // geometry.groups, *sizes)
    y = _of_shape(y, geometry, x.shape, shape)
    if 0 in (*shape, x.size, y.size):
        return full(shape, 0, x.dtype)
    gradient = _filter_gradient if geometry.shared else _filter_gradient_unshared
    return _reverse(gradient(x, y, sizes, geometry), geometry, geometry.flipped)


def image_gradient(
    w: Value, y: Value, sizes: Sequence[Size], geometry: ConvolutionGeometry
) -> Value:
    """Return the gradient of `correlate` with respect to images of these sizes.

    Parameters
    ----------
    w
        The filters.
    y
        The cotangent: the gradient with respect to the result of `correlate`.
    sizes
        The sizes of the images.
    geometry
        The positions of the filters.
    """
    inner = w.shape[-geometry.rank - 1]
    shape = (y.shape[0], inner * geometry.groups, *sizes)
    y = _of_shape(y, geometry, shape, w.shape)
    if not geometry.shared:
        w = _at_positions(w, y.shape, geometry)
    if 0 in (*shape, w.size, y.size):
        return full(shape, 0, y.dtype)
    # The transpose of a correlation correlates with reversed filters.
    w = _reverse(w, geometry, geometry.flipped != geometry.shared)
    part = _image_gradient if geometry.shared else _image_gradient_unshared
    return part(w, y, sizes, geometry)


# --- Shared filters ---------------------------------------------------------------------------


def _filter_gradient(
    x: Value, y: Value, sizes: Sequence[Size], geometry: ConvolutionGeometry
) -> Value:
    """Correlate with batch and channels exchanged: one is summed over, one is kept."""
    edges, axes = geometry.covering(x.shape[2:], sizes)
    y = resize(y, (*y.shape[:2], *(axis.windows for axis in axes)))
    swapped = (1, 0, *range(2, geometry.rank + 2))
    order = dict.fromkeys(("x_axes", "w_axes", "out_axes"), swapped)
    transposes = [axis.transposes()[1] for axis in axes]
    return conv_general_dilated(pad(x, edges), y, transposes, batch_groups=geometry.groups, **order)


def _image_gradient(
    w: Value, y: Value, sizes: Sequence[Size], geometry: ConvolutionGeometry
) -> Value:
    edges, axes = geometry.covering(sizes, w.shape[2:])
    y = resize(y, (*y.shape[:2], *(axis.windows for axis in axes)))
    w, order = _beside_each_other(w, geometry.groups), (1, 0, *range(2, geometry.rank + 2))
    transposes = [axis.transposes()[0] for axis in axes]
    x = conv_general_dilated(y, w, transposes, w_axes=order, feature_groups=geometry.groups)
    return pad(x, [(-low, -high, 0) for low, high, _ in edges])


def _beside_each_other(w: Value, groups: int) -> Value:
    """Return filters ``(filters / groups, channels, *sizes)``: all groups as channels."""
    if groups == 1:
        return w
    count, inner, *sizes = w.shape
    apart = reshape(w, (groups, count // groups, inner, *sizes))
    order = (1, 0, *range(2, len(sizes) + 3))
    return reshape(transpose(apart, order), (count // groups, groups * inner, *sizes))


# --- Unshared filters: one for each output position -------------------------------------------
#
# Windows have shape (batch, groups, channels / groups, position, offset, position, offset, …),
# where an offset is the position of an element in a filter. Filters have shape (groups,
# filters / groups, *output_sizes, channels / groups, *offsets), and results (batch, groups,
# filters / groups, *output_sizes).


def _correlate_unshared(x: Value, w: Value, geometry: ConvolutionGeometry) -> Value:
    rank = geometry.rank
    output_sizes = w.shape[1 : 1 + rank]
    windows = _windows(x, output_sizes, w.shape[-rank:], geometry)
    at, offsets = _window_axes(rank)
    contract = (2, *offsets), (2 + rank, *range(3 + rank, 3 + 2 * rank))
    batch = (1, *at), (0, *range(2, 2 + rank))
    # (groups, *output_sizes, batch, filters / groups)
    out = lax.dot_general(windows, _by_group(w, 0, geometry), contract, batch)
    order = (1 + rank, 0, 2 + rank, *range(1, 1 + rank))
    return reshape(transpose(out, order), (x.shape[0], w.shape[0], *output_sizes))


def _filter_gradient_unshared(
    x: Value, y: Value, sizes: Sequence[int], geometry: ConvolutionGeometry
) -> Value:
    rank = geometry.rank
    _, count, *output_sizes = y.shape
    windows = _windows(x, output_sizes, sizes, geometry)
    batch = (1, *_window_axes(rank)[0]), (1, *range(3, 3 + rank))
    # (groups, *output_sizes, channels / groups, *offsets, filters / groups)
    out = lax.dot_general(windows, _by_group(y, 1, geometry), ((0,), (0,)), batch)
    order = (0, 2 + 2 * rank, *range(1, 2 + 2 * rank))
    shape = (count, *output_sizes, x.shape[1] // geometry.groups, *sizes)
    return reshape(transpose(out, order), shape)


def _image_gradient_unshared(
    w: Value, y: Value, sizes: Sequence[int], geometry: ConvolutionGeometry
) -> Value:
    rank = geometry.rank
    batch = (0, *range(2, 2 + rank)), (1, *range(3, 3 + rank))
    contract = ((1,), (2,))
    # (groups, *output_sizes, channels / groups, *offsets, batch)
    out = lax.dot_general(_by_group(w, 0, geometry), _by_group(y, 1, geometry), contract, batch)
    pairs = [d for i in range(rank) for d in (1 + i, 2 + rank + i)]
    windows = transpose(out, (2 + 2 * rank, 0, 1 + rank, *pairs))
    return _sum_of_windows(windows, sizes, geometry)


def _window_axes(rank: int) -> tuple[range, range]:
    """Return the axes of output positions and the axes of offsets, among the axes of windows."""
    return range(3, 3 + 2 * rank, 2), range(4, 4 + 2 * rank, 2)


def _by_group(x: Value, axis: int, geometry: ConvolutionGeometry) -> Value:
    """Split an axis of channels, or of filters, into groups and the rest."""
    shape = x.shape
    inside = shape[axis] // geometry.groups
    return reshape(x, (*shape[:axis], geometry.groups, inside, *shape[axis + 1 :]))


def _windows(
    x: Value, output_sizes: Sequence[int], sizes: Sequence[int], geometry: ConvolutionGeometry
) -> Value:
    windows = unfold(_by_group(x, 1, geometry), geometry.sliding(output_sizes, sizes))
    offsets = (each for d in geometry.dilation for each in (slice(None), slice(None, None, d)))
    return ix.take(windows, [*[slice(None)] * 3, *offsets])


def _sum_of_windows(windows: Value, sizes: Sequence[int], geometry: ConvolutionGeometry) -> Value:
    """Add windows up to images of these sizes: the transpose of `_windows`."""
    batch, groups, inner, *pairs = windows.shape
    gaps = (each for d in geometry.dilation for each in ((0, 0, 0), (0, 0, d - 1)))
    windows = pad(windows, [*[(0, 0, 0)] * 3, *gaps])
    x = fold(windows, geometry.sliding(pairs[::2], pairs[1::2]), sizes)
    return reshape(x, (batch, groups * inner, *sizes))


# --- Vectors ----------------------------------------------------------------------------------


def convolve(x: Value, y: Value, mode: str) -> Value:
    """Return `numpy.convolve`; for booleans, the sum is "or" and the product "and"."""
    # The result of "full" does not depend on which one is longer.
    if (mode != "full" or is_known((x.size, y.size))) and x.size < y.size:
        x, y = y, x
    n = y.size
    if not n:
        raise ShapeMismatchError("Cannot convolve empty vectors.")
    if x.dtype == BOOL:
        count = convolve(x.astype(INT32), y.astype(INT32), mode)
        return ew.truth(count)
    padding = {"full": (n - 1, n - 1), "same": (n // 2, n - 1 - n // 2), "valid": (0, 0)}[mode]
    image, filters = (reshape(v, (1, 1, v.size)) for v in (x, y))
    out = correlate(image, filters, ConvolutionGeometry([padding], [1], [1], flipped=True))
    return reshape(out, out.shape[2:])
