"""Look at programs: as text, as a page, as a drawing, and value by value."""

from jaxprgen.tools.debugging import debug
from jaxprgen.tools.dot import dot, draw
from jaxprgen.tools.page import html
from jaxprgen.tools.text import diff, pretty

__all__ = ["debug", "diff", "dot", "draw", "html", "pretty"]
