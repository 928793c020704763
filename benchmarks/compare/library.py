"""The common interface of two graph libraries, so that each workload is written once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple


class Library(NamedTuple):
    """A graph library, as workloads use it.

    Attributes
    ----------
    tensor
        The module of tensors and their functions.
    grad, function, stream
        The library's gradient, function compiler and random stream.
    scan
        A loop; returns a list of outputs, or the only one.
    log_softmax
        Along the last axis.
    convolve
        The valid cross-correlation of (batch, channels, height, width) with
        (out, in, height, width).
    linalg
        The module with Cholesky factors and triangular solves.
    linker
        The class that turns a graph into a JAX function.
    """

    tensor: Any
    grad: Callable[..., Any]
    function: Callable[..., Any]
    stream: Callable[[], Any]
    scan: Callable[..., Any]
    log_softmax: Callable[..., Any]
    convolve: Callable[..., Any]
    linalg: Any
    linker: type


def aesara_library() -> Library:
    """Return Aesara."""
    import jaxprgen  # noqa: F401, I001  # First: it makes Aesara importable.
    import aesara
    import aesara.tensor as at
    from aesara.link.jax.linker import JAXLinker
    from aesara.tensor.special import log_softmax

    def convolve(x: Any, w: Any) -> Any:
        from aesara.tensor.nnet import conv2d  # Slow to import, and rarely used.

        return conv2d(x, w, filter_flip=False)

    return Library(
        at,
        aesara.grad,
        aesara.function,
        at.random.RandomStream,
        lambda *args: aesara.scan(*args)[0],
        lambda x: log_softmax(x, axis=-1),
        convolve,
        at.slinalg,
        JAXLinker,
    )


def pytensor_library() -> Library:
    """Return PyTensor, whose two-dimensional convolution takes single channels only."""
    import pytensor
    import pytensor.tensor as pt
    from pytensor.link.jax.linker import JAXLinker
    from pytensor.tensor.random.utils import RandomStream
    from pytensor.tensor.signal import convolve2d
    from pytensor.tensor.special import log_softmax

    def convolve(x: Any, w: Any) -> Any:
        flipped = w[None, :, :, ::-1, ::-1]
        return convolve2d(x[:, None], flipped, mode="valid").sum(2)

    return Library(
        pt,
        pytensor.grad,
        pytensor.function,
        RandomStream,
        lambda *args: pytensor.scan(*args, return_updates=False),
        lambda x: log_softmax(x, axis=-1),
        convolve,
        pt.linalg,
        JAXLinker,
    )
