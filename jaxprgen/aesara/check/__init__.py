"""`check`: what of a graph JAX can run, found before any argument is known."""

from jaxprgen.aesara.check.analysis import check
from jaxprgen.aesara.check.findings import GraphCheck

__all__ = ["GraphCheck", "check"]
