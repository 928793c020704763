"""Elements of pages, and the texts in them."""

from __future__ import annotations

import math
from html import escape

from jaxprgen._jax import Frame
from jaxprgen.ir.describe import place_text
from jaxprgen.texts import visible


def tag(name: str, *children: str, **attributes: object) -> str:
    """Return an HTML element; children are HTML already, and values of attributes are escaped."""
    given = {k.strip("_").replace("_", "-"): x for k, x in attributes.items() if x is not None}
    pairs = "".join(f' {key}="{escape(str(value))}"' for key, value in given.items())
    return f"<{name}{pairs}>{''.join(children)}</{name}>"


def user_text(content: str) -> str:
    """Return text that a user wrote as HTML: shortened and escaped."""
    return escape(visible(content))


def metric(n: float | None, unit: str = "") -> str:
    """Return a number with at most three digits and a prefix: ``34.1k``, ``34.1 kB``.

    An unknown number, or a bound that is infinite, is ``?``.
    """
    if n is None or math.isinf(n):
        return "?"
    size, prefixes = float(n), iter("kMGTPE")
    prefix = ""
    while size >= 999.5:
        size, prefix = size / 1000, next(prefixes)
    digits = f"{size:.1f}" if prefix and size < 99.95 else f"{size:.0f}"
    return f"{digits} {prefix}{unit}" if unit else f"{digits}{prefix}"


class SourceLines:
    """The distinct source lines of the user's that a page shows.

    Attributes
    ----------
    texts
        File, number and, if the file can be read now, text of each line.
    """

    def __init__(self) -> None:
        self.texts: list[str] = []
        self._indices: dict[Frame, int] = {}

    def index(self, frame: Frame | None) -> int | None:
        """Return the index of a line in `texts`, where it is added if it is new."""
        if frame is not None and frame not in self._indices:
            self._indices[frame] = len(self.texts)
            self.texts.append(f"{place_text(frame.place)}  {visible(frame.text)}")
        return None if frame is None else self._indices[frame]
