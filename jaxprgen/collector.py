"""Python's garbage collector, while a program is made."""

from __future__ import annotations

import gc
import os
from collections.abc import Generator
from contextlib import contextmanager

_LATE = 2**30
"""A number of new objects that no program takes."""
_usual: tuple[int, int, int] | None = None


@contextmanager
def paused() -> Generator[None, None, None]:
    """Return a context, or a decorator, in which Python does not look for garbage cycles.

    Planning, emission and passes make many objects that stay and hardly any cycle. The collector
    runs after every so many new objects and visits all that are there, graph and program, again and
    again: half of the time for a graph of 10,000 nodes. So it waits for more objects meanwhile.
    Who turns it on or off, or sets other thresholds, finds them as they were set. Another thread
    that ends its own pause ends this one as well, which costs time alone.
    """
    global _usual
    thresholds = gc.get_threshold()
    if not 0 < thresholds[0] < _LATE:  # Nothing is collected, or another pause holds.
        yield
        return
    _usual = thresholds
    gc.set_threshold(_LATE, *thresholds[1:])
    try:
        yield
    finally:
        _resume()


def _resume() -> None:
    """Set the usual thresholds again, unless others were set."""
    if _usual is not None and gc.get_threshold() == (_LATE, *_usual[1:]):
        gc.set_threshold(*_usual)


if hasattr(os, "register_at_fork"):
    # The thread that would end the pause does not run in a forked process.
    os.register_at_fork(after_in_child=_resume)
