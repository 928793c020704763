"""A program beside its graph, as one HTML page."""

from jaxprgen.tools.page.page import html

__all__ = ["html"]
