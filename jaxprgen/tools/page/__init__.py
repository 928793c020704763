"""`html`: a program beside its graph as one page."""

from jaxprgen.tools.page.page import html

__all__ = ["html"]
