"""Python's garbage collector, while a program is made."""

from __future__ import annotations

import gc
from collections.abc import Generator
from contextlib import contextmanager


@contextmanager
def paused() -> Generator[None, None, None]:
    """Return a context, or a decorator, in which Python does not look for garbage cycles.

    Planning, emission and passes make many objects that stay and hardly any cycle. The collector
    runs after every so many new objects and visits all that are there, graph and program, again and
    again: half of the time for a graph of 10,000 nodes. The context is that of the whole process,
    so another thread that ends its own pause ends this one as well, which costs time alone.
    """
    is_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if is_on:
            gc.enable()
