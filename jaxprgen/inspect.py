"""Look at programs: as text, page or drawing, value by value, for repeats, across devices."""

from jaxprgen.runtime.collectives import collectives_of as collectives
from jaxprgen.tools.debugging import debug
from jaxprgen.tools.dot import dot, draw
from jaxprgen.tools.explanations import explain_guards, explain_repeats
from jaxprgen.tools.page import html
from jaxprgen.tools.text import diff, pretty

__all__ = [
    "collectives",
    "debug",
    "diff",
    "dot",
    "draw",
    "explain_guards",
    "explain_repeats",
    "html",
    "pretty",
]
