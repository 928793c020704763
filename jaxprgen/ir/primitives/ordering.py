"""Primitives that look at elements in order: sorting, running sums, positions, transforms."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from jax.lax import FftType

from jaxprgen import _jax
from jaxprgen._jax import Var
from jaxprgen.errors import EquationError
from jaxprgen.ir.builder import Atom, Builder
from jaxprgen.ir.primitives.kinds import NUMBER, Shape


def _cumulative(name: str) -> Callable[[Builder, Atom, int], Var]:
    primitive = _jax.primitive(name)

    def construct(b: Builder, x: Atom, axis: int) -> Var:
        if x.aval.dtype.kind not in NUMBER or not 0 <= axis < len(x.aval.shape):
            raise EquationError(f"{name} does not take {x.aval} along axis {axis}.")
        aval = _jax.array_type(x.aval.shape, x.aval.dtype)
        return b.bind(primitive, (x,), {"axis": axis, "reverse": False}, aval)

    construct.__name__ = construct.__qualname__ = name
    construct.__doc__ = f"``{name}``: every element with all those before it on an axis."
    return construct


cumsum = _cumulative("cumsum")
cumprod = _cumulative("cumprod")
cummax = _cumulative("cummax")
cummin = _cumulative("cummin")


def sort(b: Builder, operands: Sequence[Atom], dimension: int, num_keys: int) -> list[Var]:
    """Arrays of one shape, all in the order of the first ``num_keys``; ties stay in order.

    NaN comes last, and both zeros are equal; complex numbers go by real, then imaginary part.
    """
    shape = operands[0].aval.shape
    if not 0 <= dimension < len(shape) or not 1 <= num_keys <= len(operands):
        raise EquationError(f"Cannot sort {len(operands)} of {shape} by {num_keys}: {dimension}.")
    params = {"dimension": dimension, "is_stable": True, "num_keys": num_keys}
    return b.bind_multiple(_jax.primitive("sort"), operands, params)


def top_k(b: Builder, x: Atom, k: int) -> list[Var]:
    """The ``k`` largest elements on the last axis, in descending order, and their positions.

    Of equal ones the first come first. NaN counts as largest, but as smallest if negative.
    """
    params = _jax.top_k_params(k, len(x.aval.shape) - 1)
    return b.bind_multiple(_jax.primitive("top_k"), (x,), params)


def fft(b: Builder, x: Atom, kind: str, lengths: Shape) -> Var:
    """A Fourier transform over the last axes (three at most), which have these lengths.

    ``kind`` is FFT, IFFT, RFFT or IRFFT; the last two have, or take, half of a spectrum. The
    inverse ones divide by the number of elements.
    """
    if not 1 <= len(lengths) <= 3:
        raise EquationError(f"XLA transforms one to three axes at once, not {len(lengths)}.")
    params = {"fft_type": FftType[kind], "fft_lengths": lengths}
    return b.bind(_jax.primitive("fft"), (x,), params)
