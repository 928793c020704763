"""Looking at what was compiled: as text, as a page, as a drawing, and value by value."""

from jaxprgen.inspect.debugging import debug
from jaxprgen.inspect.dot import dot, draw
from jaxprgen.inspect.page import html
from jaxprgen.inspect.text import diff, pretty

__all__ = ["debug", "diff", "dot", "draw", "html", "pretty"]
