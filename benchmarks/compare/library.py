"""The two graph libraries, of whose tensors, gradients and loops a workload is written once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple


class Library(NamedTuple):
    """What workloads ask of a graph library.

    Attributes
    ----------
    tensor
        The module of tensors and of functions of them.
    grad, function, stream
        As the library has them: gradients, compiled functions, streams of random numbers.
    scan
        A loop: the list of its outputs, or the only one.
    log_softmax
        Of the last axis.
    convolve
        The cross-correlation of (batch, channels, height, width) with (out, in, height, width),
        where they overlap entirely.
    linalg
        The module that has Cholesky factors and triangular solves.
    linker
        The class that makes a JAX function of a graph.
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
    """Aesara."""
    import jaxprgen  # noqa: F401, I001  # First: it makes Aesara importable.
    import aesara
    import aesara.tensor as at
    from aesara.link.jax.linker import JAXLinker
    from aesara.tensor.nnet import conv2d
    from aesara.tensor.special import log_softmax

    return Library(
        at,
        aesara.grad,
        aesara.function,
        at.random.RandomStream,
        lambda *args: aesara.scan(*args)[0],
        lambda x: log_softmax(x, axis=-1),
        lambda x, w: conv2d(x, w, filter_flip=False),
        at.slinalg,
        JAXLinker,
    )


def pytensor_library() -> Library:
    """PyTensor, whose only convolution in two dimensions is of single channels."""
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
