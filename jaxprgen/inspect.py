"""Look at programs: as text, as a page, as a drawing, value by value, and across devices."""

from jaxprgen.runtime.collectives import collectives_of as collectives
from jaxprgen.tools.debugging import debug
from jaxprgen.tools.dot import dot, draw
from jaxprgen.tools.page import html
from jaxprgen.tools.text import diff, pretty

__all__ = ["collectives", "debug", "diff", "dot", "draw", "html", "pretty"]
