"""When Python looks for garbage."""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Generator


@contextlib.contextmanager
def collecting_later() -> Generator[None]:
    """Leave garbage to be collected afterwards, where nearly all that is made is kept.

    Each look at it finds nothing, and there are more and longer ones as it grows: without them a
    graph of 500 densities is planned in 0.3 s instead of 0.4 to 0.6.
    """
    if not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
