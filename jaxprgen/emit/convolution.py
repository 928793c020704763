"""Convolutions over any number of axes, and their gradients: sums of products, window by window.

Images are ``(batch, channels, *sizes)``. Filters are ``(filters, channels / groups, *sizes)`` or,
not shared between places, ``(filters, *places, channels / groups, *sizes)``. What comes out is
``(batch, filters, *places)``.

An infinite number times one of the zeros around an image, or between elements that are spread,
is NaN or is left out of the sum, as XLA likes it. Where filters are not shared it is NaN around
images, as in NumPy, and left out between elements.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from jaxprgen.emit import elementwise as ew
from jaxprgen.emit import index as ix
from jaxprgen.emit import primitives as lax
from jaxprgen.emit.gather import IndexArrays, gather, scatter
from jaxprgen.emit.shape import reshape, transpose
from jaxprgen.emit.values import BOOL, INT32, Shape, Value, full
from jaxprgen.errors import ShapeMismatchError


class ConvolutionGeometry(NamedTuple):
    """How filters lie on images.

    ``padding`` says how many zeros are put before and behind each axis, ``strides`` how far a
    window is from the next one, ``dilation`` how far an element of a filter is. Channels and
    filters come in ``groups``, each by itself. ``shared`` filters are the same at every place.
    Filters that are ``flipped`` lie on images in reverse: a convolution in the strict sense.
    """

    padding: Sequence[tuple[int, int]]
    strides: Sequence[int]
    dilation: Sequence[int]
    groups: int = 1
    shared: bool = True
    flipped: bool = False

    @property
    def rank(self) -> int:
        """The number of axes that filters are slid along."""
        return len(self.strides)

    def places(self, sizes: Sequence[int], filter_sizes: Sequence[int]) -> Shape:
        """How many windows of a filter there are along each axis of an image.

        There are none if an image falls short by one element, as in Aesara.

        Raises
        ------
        ShapeMismatchError
            It falls short by more.
        """
        rooms: list[int] = []
        for n, k, (low, high), d in zip(
            sizes, filter_sizes, self.padding, self.dilation, strict=True
        ):
            extent = span(k, d)
            rooms.append(low + n + high - extent + 1)
            if min(low, high, extent, rooms[-1]) < 0:
                raise ShapeMismatchError(
                    f"A filter of {k} elements, {d} apart, does not lie on an image of {n} "
                    f"elements between {low} and {high} zeros."
                )
        return tuple(-(-room // s) for room, s in zip(rooms, self.strides, strict=True))


def span(count: int, step: int) -> int:
    """The extent of so many elements, ``step`` apart."""
    return (count - 1) * step + 1


def _fit(
    geometry: ConvolutionGeometry, images: Shape, filters: Shape, out: Shape | None = None
) -> Shape:
    """The shape of what comes out, if these shapes fit together.

    Raises
    ------
    ShapeMismatchError
        They do not.
    """
    rank, groups = geometry.rank, geometry.groups
    batch, channels, *sizes = images
    count, *own, inner = filters[:-rank]
    places = geometry.places(sizes, filters[-rank:])
    if channels % groups or count % groups or channels // groups != inner:
        raise ShapeMismatchError(
            f"Images of {channels} channels do not fit {count} filters of {inner} channels in "
            f"{groups} groups."
        )
    if not geometry.shared and tuple(own) != places:
        raise ShapeMismatchError(f"There are filters for places {tuple(own)}, not for {places}.")
    result = (batch, count, *places)
    if out not in (None, result):
        raise ShapeMismatchError(
            f"Filters of shape {filters} make {result} of images of shape {images}, not {out}."
        )
    return result


def _reverse(w: Value, geometry: ConvolutionGeometry, wanted: bool) -> Value:
    """Filters in reverse, if that is wanted."""
    if not wanted:
        return w
    others = w.ndim - geometry.rank
    return ix.take(w, [*[slice(None)] * others, *[slice(None, None, -1)] * geometry.rank])


def correlate(x: Value, w: Value, geometry: ConvolutionGeometry) -> Value:
    """What comes out of images ``x`` for filters ``w``."""
    out = _fit(geometry, x.shape, w.shape)
    if 0 in (*out, x.size, w.size):
        return full(out, 0, x.dtype)
    w = _reverse(w, geometry, geometry.flipped)
    if not geometry.shared:
        return _correlate_by_place(x, w, geometry)
    return lax.conv_general_dilated(
        x,
        w,
        strides=geometry.strides,
        padding=geometry.padding,
        w_dilation=geometry.dilation,
        feature_groups=geometry.groups,
    )


def filter_gradient(
    x: Value, y: Value, sizes: Sequence[int], geometry: ConvolutionGeometry
) -> Value:
    """The gradient with respect to filters of these sizes, for images ``x``.

    ``y`` is the gradient with respect to what comes out.
    """
    _, count, *places = y.shape
    between = () if geometry.shared else places
    shape = (count, *between, x.shape[1] // geometry.groups, *sizes)
    _fit(geometry, x.shape, shape, y.shape)
    if 0 in (*shape, x.size, y.size):
        return full(shape, 0, x.dtype)
    gradient = _filter_gradient if geometry.shared else _filter_gradient_by_place
    return _reverse(gradient(x, y, sizes, geometry), geometry, geometry.flipped)


def image_gradient(
    w: Value, y: Value, sizes: Sequence[int], geometry: ConvolutionGeometry
) -> Value:
    """The gradient with respect to images of these sizes, for filters ``w``.

    ``y`` is the gradient with respect to what comes out.
    """
    inner = w.shape[-geometry.rank - 1]
    shape = (y.shape[0], inner * geometry.groups, *sizes)
    _fit(geometry, shape, w.shape, y.shape)
    if 0 in (*shape, w.size, y.size):
        return full(shape, 0, y.dtype)
    # Sums over what was spread run the other way.
    w = _reverse(w, geometry, geometry.flipped != geometry.shared)
    part = _image_gradient if geometry.shared else _image_gradient_by_place
    return part(w, y, sizes, geometry)


# --- The same filters at all places -----------------------------------------------------------


def _filter_gradient(
    x: Value, y: Value, sizes: Sequence[int], geometry: ConvolutionGeometry
) -> Value:
    """Batch and channels change roles: what was summed up is kept, and the other way round."""
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
    return lax.conv_general_dilated(
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
    w: Value, y: Value, sizes: Sequence[int], geometry: ConvolutionGeometry
) -> Value:
    padding: list[tuple[int, int]] = []
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
        behind = n - 1 + span(k, d) - span(m, s) - before
        # XLA takes two elements over what is spread to every second place, with nothing around,
        # for groups, and can then abort the process. So there is one more, which is dropped.
        padding.append((before, behind + ((k, s, d, before, behind) == (2, 2, 1, 0, 0))))
    out = lax.conv_general_dilated(
        y,
        _beside_each_other(w, geometry.groups),
        strides=(1,) * geometry.rank,
        padding=padding,
        x_dilation=geometry.strides,
        w_dilation=geometry.dilation,
        w_axes=(1, 0, *range(2, geometry.rank + 2)),
        feature_groups=geometry.groups,
    )
    return ix.take(out, [slice(None), slice(None), *(slice(n) for n in sizes)])


def _beside_each_other(w: Value, groups: int) -> Value:
    """``(filters / groups, channels, *sizes)``: the channels of all groups, not its filters."""
    if groups == 1:
        return w
    count, inner, *sizes = w.shape
    apart = reshape(w, (groups, count // groups, inner, *sizes))
    order = (1, 0, *range(2, len(sizes) + 3))
    return reshape(transpose(apart, order), (count // groups, groups * inner, *sizes))


# --- A filter for each place ----------------------------------------------------------------
#
# Windows are cut out: (batch, groups, channels / groups, place, offset, place, offset, …), where
# offsets are the places of elements in a filter. Filters, (groups, filters / groups, *places,
# channels / groups, *offsets), and what comes out, (batch, groups, filters / groups, *places), have
# their channels apart by group likewise. Groups and places are common to all three.


def _correlate_by_place(x: Value, w: Value, geometry: ConvolutionGeometry) -> Value:
    rank = geometry.rank
    places = w.shape[1 : 1 + rank]
    windows = _windows(x, places, w.shape[-rank:], geometry)
    at, offsets = _window_axes(rank)
    contract = (2, *offsets), (2 + rank, *range(3 + rank, 3 + 2 * rank))
    batch = (1, *at), (0, *range(2, 2 + rank))
    # (groups, *places, batch, filters / groups)
    out = lax.dot_general(windows, _by_group(w, 0, geometry), contract, batch)
    order = (1 + rank, 0, 2 + rank, *range(1, 1 + rank))
    return reshape(transpose(out, order), (x.shape[0], w.shape[0], *places))


def _filter_gradient_by_place(
    x: Value, y: Value, sizes: Sequence[int], geometry: ConvolutionGeometry
) -> Value:
    rank = geometry.rank
    _, count, *places = y.shape
    windows = _windows(x, places, sizes, geometry)
    batch = (1, *_window_axes(rank)[0]), (1, *range(3, 3 + rank))
    # (groups, *places, channels / groups, *offsets, filters / groups)
    out = lax.dot_general(windows, _by_group(y, 1, geometry), ((0,), (0,)), batch)
    order = (0, 2 + 2 * rank, *range(1, 2 + 2 * rank))
    shape = (count, *places, x.shape[1] // geometry.groups, *sizes)
    return reshape(transpose(out, order), shape)


def _image_gradient_by_place(
    w: Value, y: Value, sizes: Sequence[int], geometry: ConvolutionGeometry
) -> Value:
    rank = geometry.rank
    batch = (0, *range(2, 2 + rank)), (1, *range(3, 3 + rank))
    left, right = _by_group(w, 0, geometry).atom(), _by_group(y, 1, geometry).atom()
    # (groups, *places, channels / groups, *offsets, batch)
    out = lax.dot_general(left, right, ((1,), (2,)), batch)
    pairs = [d for i in range(rank) for d in (1 + i, 2 + rank + i)]
    windows = transpose(out, (2 + 2 * rank, 0, 1 + rank, *pairs))
    return _sum_of_windows(windows, sizes, geometry)


def _window_axes(rank: int) -> tuple[range, range]:
    """The axes of places, and those of offsets, among those of windows."""
    return range(3, 3 + 2 * rank, 2), range(4, 4 + 2 * rank, 2)


def _by_group(x: Value, axis: int, geometry: ConvolutionGeometry) -> Value:
    """An axis of channels, or of filters, as one of groups and one inside of these."""
    shape = x.shape
    inside = shape[axis] // geometry.groups
    return reshape(x, (*shape[:axis], geometry.groups, inside, *shape[axis + 1 :]))


def _indices(
    geometry: ConvolutionGeometry, i: int, places: int, size: int, axis: int
) -> IndexArrays:
    """Of one axis: where the elements of each window are."""
    starts = np.arange(places)[:, None] * geometry.strides[i]
    along = starts + np.arange(size) * geometry.dilation[i]
    return IndexArrays([Value(along)], [axis], along.shape, [axis, axis + 1])


def _inside(geometry: ConvolutionGeometry, sizes: Sequence[int]) -> list[slice]:
    """Where images are among the zeros around them."""
    return [slice(low, low + n) for (low, _), n in zip(geometry.padding, sizes, strict=True)]


def _windows(
    x: Value, places: Sequence[int], sizes: Sequence[int], geometry: ConvolutionGeometry
) -> Value:
    x = _by_group(x, 1, geometry)
    own = x.shape
    padded = [n + low + high for n, (low, high) in zip(own[3:], geometry.padding, strict=True)]
    zeros = full((*own[:3], *padded), 0, x.dtype)
    x = ix.put(zeros, x, [*[slice(None)] * 3, *_inside(geometry, own[3:])], add=False)
    for i in reversed(range(geometry.rank)):
        indices = _indices(geometry, i, places[i], sizes[i], 3 + i)
        x = gather(x, indices)
    return x


def _sum_of_windows(windows: Value, sizes: Sequence[int], geometry: ConvolutionGeometry) -> Value:
    """Images of these sizes to which each window is added where `_windows` cuts it out."""
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
    """`numpy.convolve`: "full", "same" or "valid". On booleans it is "or" of "and"s."""
    if x.size < y.size:
        x, y = y, x
    n = y.size
    if not n:
        raise ShapeMismatchError("Vectors of no elements have no convolution.")
    if x.dtype == BOOL:
        count = convolve(x.astype(INT32), y.astype(INT32), mode)
        return ew.truth(count)
    padding = {"full": (n - 1, n - 1), "same": (n // 2, n - 1 - n // 2), "valid": (0, 0)}[mode]
    image, filters = (reshape(v, (1, 1, v.size)) for v in (x, y))
    out = correlate(image, filters, ConvolutionGeometry([padding], [1], [1], flipped=True))
    return reshape(out, out.shape[2:])
