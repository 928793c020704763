"""The one way out to text: names, paths and values from anywhere as a reader may see them."""

from __future__ import annotations

LONGEST = 120
"""The number of characters of a name or a parameter that are shown."""


def visible(text: object, longest: int | None = LONGEST) -> str:
    r"""Return a text on one line, in which every character shows.

    Control characters, line breaks, direction marks and lone surrogates become escapes as Python
    writes them, such as ``\x1b``, so that no name clears a terminal, turns a line around or adds a
    row to a table.

    Parameters
    ----------
    text
        The text, or what ``str`` makes one of.
    longest
        The number of characters to keep, or None for all. The rest becomes ``…``.
    """
    text = str(text)
    if longest is not None and len(text) > longest:
        text = text[: longest - 1] + "…"
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)


def visible_lines(text: object) -> str:
    """Return a text of several lines, each as `visible` writes it, at full length."""
    return "\n".join(visible(line, None) for line in str(text).split("\n"))
