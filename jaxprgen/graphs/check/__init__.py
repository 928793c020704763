"""`check`: what of a graph JAX can run, found before any argument is known."""

from jaxprgen.graphs.check.analysis import check
from jaxprgen.graphs.check.findings import GraphCheck

__all__ = ["GraphCheck", "check"]
