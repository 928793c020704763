"""Arrays in files, and messages between processes."""

import tempfile
from pathlib import Path

import numpy as np
from aesara.tensor import io

from catalogue.example import example, vector

FOLDER = tempfile.TemporaryDirectory()


def loaded(x):
    """The sum of an array in a file and an input."""
    path = Path(FOLDER.name) / f"{x.dtype}.npy"
    np.save(path, np.ones(3, x.dtype))
    return io.load(str(path), x.dtype, (None,)) + x


def received(x):
    """A message of the type of an input."""
    return io.recv((3,), x.dtype, 0, 1)


EXAMPLES = [
    example(io.LoadFromDisk, loaded, vector),
    example(io.MPIRecv, received, vector),
    example(io.MPIRecvWait, received, vector),
    example(io.MPISend, lambda x: io.isend(x, 1, 1)[1], vector),
    example(io.MPISendWait, lambda x: io.send(x, 1, 1), vector),
]
