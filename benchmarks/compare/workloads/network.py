"""A network of two convolutions and a dense layer: the loss of a batch, and its gradient."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

BATCH, SIDE, CLASSES = 16, 14, 10
SHAPES = (8, 1, 3, 3), (16, 8, 3, 3), (16, CLASSES)


def graph(library: Any) -> tuple[list[Any], list[Any]]:
    """Return the mean cross-entropy, and its gradient with respect to all weights."""
    lib = library.tensor
    images, labels = lib.dtensor4("images"), lib.lvector("labels")
    weights = [lib.dtensor4("first"), lib.dtensor4("second"), lib.dmatrix("dense")]
    first, second, dense = weights
    hidden = lib.maximum(library.convolve(images, first), 0.0)
    hidden = lib.maximum(library.convolve(hidden, second), 0.0)
    logits = library.log_softmax(lib.dot(hidden.mean((2, 3)), dense))
    loss = -lib.mean(logits[lib.arange(BATCH), labels])
    return [images, labels, *weights], [loss, *library.grad(loss, weights)]


def loss(images: Any, labels: Any, first: Any, second: Any, dense: Any) -> Any:
    """Compute the mean cross-entropy in `jax.numpy`."""
    hidden = jax.nn.relu(jax.lax.conv(images, first, (1, 1), "VALID"))
    hidden = jax.nn.relu(jax.lax.conv(hidden, second, (1, 1), "VALID"))
    logits = jax.nn.log_softmax(hidden.mean((2, 3)) @ dense)
    return -jnp.mean(logits[jnp.arange(BATCH), labels])


by_hand = jax.value_and_grad(loss, (2, 3, 4))


def arguments() -> tuple[Any, ...]:
    """Return random images, labels and weights."""
    rng = np.random.default_rng(0)
    images = rng.normal(size=(BATCH, 1, SIDE, SIDE))
    weights = (0.3 * rng.normal(size=shape) for shape in SHAPES)
    return images, rng.integers(0, CLASSES, BATCH), *weights
