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

from jaxprgen._jax import Size
from jaxprgen.emit import elementwise as ew
from jaxprgen.emit import index as ix
from jaxprgen.emit import primitives as lax
from jaxprgen.emit.convolution_geometry import ConvolutionGeometry
from jaxprgen.emit.gather import IndexArrays, gather, scatter
from jaxprgen.emit.shape import reshape, transpose
from jaxprgen.emit.sizes import is_known, require_equal, with_shape, with_size
from jaxprgen.emit.values import BOOL, INT32, Shape, Value, full, lift
from jaxprgen.emit.windows import conv_general_dilated, element_positions, pad, resize, span
from jaxprgen.errors import ShapeMismatchError


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

    def fails() -> ShapeMismatchError:
        return ShapeMismatchError(
            f"Images of {channels} channels do not fit {count} filters of {inner} channels in "
            f"{groups} groups."
        )

    require_equal(channels, inner * groups, fails)
    require_equal(count % groups, 0, fails)
    return (batch, count, *output_sizes)


def _at_positions(w: Value, out: Shape, geometry: ConvolutionGeometry) -> Value:
    """Return filters of which each output position must have its own."""
    (count, *_), rest, output_sizes = w.shape, w.shape[-geometry.rank - 1 :], out[2:]
    own = w.shape[1 : -geometry.rank - 1]

    def fails() -> ShapeMismatchError:
        return ShapeMismatchError(
            f"Unshared filters for output sizes {own} do not fit {output_sizes}."
        )

    return with_shape(w, (count, *output_sizes, *rest), fails)


def _of_shape(y: Value, geometry: ConvolutionGeometry, images: Shape, filters: Shape) -> Value:
    """Return the cotangent of a result, which must have its shape."""
    result = _fit(geometry, images, filters)

    def fails() -> ShapeMismatchError:
        return ShapeMismatchError(
            f"Filters of {filters} and images of {images} give a result of {result}, not {y.shape}."
        )

    return with_shape(y, result, fails)


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
    edges, geometry = geometry.covering(x.shape[2:], sizes)
    y = conv_general_dilated(
        pad(x, edges),
        w,
        strides=geometry.strides,
        padding=geometry.padding,
        w_dilation=geometry.dilation,
        feature_groups=geometry.groups,
    )
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
    edges, geometry = geometry.covering(x.shape[2:], sizes)
    x = pad(x, edges)
    y = resize(y, (*y.shape[:2], *geometry.output_sizes(x.shape[2:], sizes)))
    swapped = (1, 0, *range(2, geometry.rank + 2))
    padding = [
        (low, span(k, d) + span(m, s) - 1 - n - low)
        for (low, _), n, m, k, s, d in zip(
            geometry.padding,
            x.shape[2:],
            y.shape[2:],
            sizes,
            geometry.strides,
            geometry.dilation,
            strict=True,
        )
    ]
    return conv_general_dilated(
        x,
        y,
        strides=geometry.dilation,
        padding=padding,
        w_dilation=geometry.strides,
        x_axes=swapped,
        w_axes=swapped,
        out_axes=swapped,
        batch_groups=geometry.groups,
    )


def _image_gradient(
    w: Value, y: Value, sizes: Sequence[Size], geometry: ConvolutionGeometry
) -> Value:
    edges, geometry = geometry.covering(sizes, w.shape[2:])
    sizes = [low + n + high for n, (low, high, _) in zip(sizes, edges[2:], strict=True)]
    y = resize(y, (*y.shape[:2], *geometry.output_sizes(sizes, w.shape[2:])))
    padding: list[tuple[Size, Size]] = []
    for (low, _), n, m, k, s, d in zip(
        geometry.padding,
        sizes,
        y.shape[2:],
        w.shape[2:],
        geometry.strides,
        geometry.dilation,
        strict=True,
    ):
        before = span(k, d) - 1 - low
        after = n - 1 + span(k, d) - span(m, s) - before
        padding.append((before, after))
    x = conv_general_dilated(
        y,
        _beside_each_other(w, geometry.groups),
        strides=(1,) * geometry.rank,
        padding=padding,
        x_dilation=geometry.strides,
        w_dilation=geometry.dilation,
        w_axes=(1, 0, *range(2, geometry.rank + 2)),
        feature_groups=geometry.groups,
    )
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


def _indices(
    geometry: ConvolutionGeometry, i: int, count: Size, size: Size, axis: int
) -> IndexArrays:
    """Return the indices of the elements of each window of one axis."""
    (along,) = lift(element_positions(count, geometry.strides[i], size, geometry.dilation[i]))
    return IndexArrays([along], [axis], along.shape, [axis, axis + 1])


def _inside(geometry: ConvolutionGeometry, sizes: Sequence[int]) -> list[slice]:
    """Return the slices of the image within its padding."""
    return [slice(low, low + n) for (low, _), n in zip(geometry.padding, sizes, strict=True)]


def _windows(
    x: Value, output_sizes: Sequence[int], sizes: Sequence[int], geometry: ConvolutionGeometry
) -> Value:
    x = _by_group(x, 1, geometry)
    own = x.shape
    padded = [n + low + high for n, (low, high) in zip(own[3:], geometry.padding, strict=True)]
    zeros = full((*own[:3], *padded), 0, x.dtype)
    x = ix.put(zeros, x, [*[slice(None)] * 3, *_inside(geometry, own[3:])], add=False)
    for i in reversed(range(geometry.rank)):
        indices = _indices(geometry, i, output_sizes[i], sizes[i], 3 + i)
        x = gather(x, indices)
    return x


def _sum_of_windows(windows: Value, sizes: Sequence[int], geometry: ConvolutionGeometry) -> Value:
    """Add windows up to images of these sizes: the transpose of `_windows`."""
    for i, n in enumerate(sizes):
        shape, axis = windows.shape, 3 + i
        low, high = geometry.padding[i]
        padded = (*shape[:axis], low + n + high, *shape[axis + 2 :])
        indices = _indices(geometry, i, shape[axis], shape[axis + 1], axis)
        windows = scatter(full(padded, 0, windows.dtype), windows, indices, add=True)
    x = ix.take(windows, [*[slice(None)] * 3, *_inside(geometry, sizes)])
    batch, groups, inner, *_ = x.shape
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
