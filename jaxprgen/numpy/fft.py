"""Functions of `numpy.fft`."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from jaxprgen.emit import elementwise as ew
from jaxprgen.emit import fft as transforms
from jaxprgen.emit.shape import axis_of
from jaxprgen.emit.values import Dtype, Emit, Value, ValueLike
from jaxprgen.errors import ShapeMismatchError, UnknownNameError
from jaxprgen.numpy.arrays import roll
from jaxprgen.numpy.reductions import Axis, axes_of
from jaxprgen.numpy.ufuncs import value_of

__all__ = [
    "fft",
    "fft2",
    "fftfreq",
    "fftn",
    "fftshift",
    "hfft",
    "ifft",
    "ifft2",
    "ifftn",
    "ifftshift",
    "ihfft",
    "irfft",
    "irfft2",
    "irfftn",
    "rfft",
    "rfft2",
    "rfftfreq",
    "rfftn",
]

_EMITTED: dict[str, Emit] = {
    "fft": transforms.fftn,
    "ifft": transforms.ifftn,
    "rfft": transforms.rfftn,
    "irfft": transforms.irfftn,
}
_DIVISOR = {"backward": (0.0, 1.0), "ortho": (0.5, 0.5), "forward": (1.0, 0.0)}
"""The powers of the number of elements that a transform and its inverse divide by."""


@functools.lru_cache(maxsize=256)
def _dtypes(kind: str, dtype: Dtype) -> tuple[Dtype, Dtype]:
    """Return the dtypes of the operand and of the result in NumPy, given that of the argument."""
    found = getattr(np.fft, kind)(np.ones(2, dtype)).dtype
    real, complex_ = np.ones(0, found).real.dtype, np.result_type(found, np.complex64)
    return ew.canonical(real if kind == "rfft" else complex_), ew.canonical(found)


def _divisor(kind: str, norm: str | None, count: int) -> float:
    """Return what to divide an emitted transform by."""
    norm = norm or "backward"
    if norm not in _DIVISOR:
        raise UnknownNameError(f"fft: norm must be one of {', '.join(_DIVISOR)}, got {norm!r}.")
    is_inverse = kind.startswith("i")
    return count ** (_DIVISOR[norm][is_inverse] - is_inverse)  # Emitted inverses divide already.


def _transform(
    kind: str, a: ValueLike, s: Sequence[int] | None, axes: Sequence[int], norm: str | None
) -> Value:
    a = value_of(a)
    axes = [axis_of(d, a.ndim) for d in axes]
    lengths = [a.shape[d] for d in axes] if s is None else list(s)
    if len(set(axes)) != len(axes) or len(lengths) != len(axes) or not axes:
        raise ShapeMismatchError(
            f"fft: needs different axes and one length for each, got axes {tuple(axes)} and "
            f"lengths {tuple(lengths)}."
        )
    if kind == "irfft" and s is None:
        lengths[-1] = 2 * (lengths[-1] - 1)
    operand, result = _dtypes(kind, a.dtype)
    found = _EMITTED[kind](a.astype(operand), lengths, axes)
    divisor = _divisor(kind, norm, math.prod(lengths))
    return found.astype(result) if divisor == 1 else (found / divisor).astype(result)


def _over_one_axis(kind: str) -> Callable[..., Value]:
    def function(a: ValueLike, n: int | None = None, axis: int = -1, norm: Any = None) -> Value:
        return _transform(kind, a, None if n is None else [n], [axis], norm)

    return _named(function, kind)


def _over_two_axes(kind: str) -> Callable[..., Value]:
    def function(
        a: ValueLike, s: Any = None, axes: Sequence[int] = (-2, -1), norm: Any = None
    ) -> Value:
        return _transform(kind, a, s, axes, norm)

    return _named(function, f"{kind}2")


def _over_axes(kind: str) -> Callable[..., Value]:
    def function(a: ValueLike, s: Any = None, axes: Any = None, norm: Any = None) -> Value:
        count = value_of(a).ndim if s is None else len(s)
        return _transform(kind, a, s, range(-count, 0) if axes is None else axes, norm)

    return _named(function, f"{kind}n")


def _named(function: Callable[..., Value], name: str) -> Callable[..., Value]:
    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"Return `numpy.fft.{name}`."
    return function


fft, ifft, rfft, irfft = map(_over_one_axis, _EMITTED)
fft2, ifft2, rfft2, irfft2 = map(_over_two_axes, _EMITTED)
fftn, ifftn, rfftn, irfftn = map(_over_axes, _EMITTED)

_OPPOSITE = {"forward": "backward", "backward": "forward", None: "forward"}


def hfft(a: ValueLike, n: int | None = None, axis: int = -1, norm: Any = None) -> Value:
    """Return the real spectrum of a signal, given the half that determines the other half."""
    return irfft(ew.conjugate(value_of(a)), n, axis, _OPPOSITE.get(norm, norm))


def ihfft(a: ValueLike, n: int | None = None, axis: int = -1, norm: Any = None) -> Value:
    """Return the inverse of `hfft`: half of a signal, given its real spectrum."""
    return ew.conjugate(rfft(a, n, axis, _OPPOSITE.get(norm, norm)))


def fftfreq(n: int, d: float = 1.0) -> Value:
    """Return the frequencies of `fft` for ``n`` samples at a distance ``d``."""
    return Value(np.fft.fftfreq(n, d))


def rfftfreq(n: int, d: float = 1.0) -> Value:
    """Return the frequencies of `rfft` for ``n`` samples at a distance ``d``."""
    return Value(np.fft.rfftfreq(n, d))


def fftshift(x: ValueLike, axes: Axis = None) -> Value:
    """Move the frequency zero to the middle of some axes, by default of all."""
    return _shifted(value_of(x), axes, 1)


def ifftshift(x: ValueLike, axes: Axis = None) -> Value:
    """Undo `fftshift`."""
    return _shifted(value_of(x), axes, -1)


def _shifted(x: Value, axes: Axis, sign: int) -> Value:
    for d in axes_of(axes, x.ndim):
        x = roll(x, sign * (x.shape[d] // 2), d)
    return x
