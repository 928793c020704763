"""`debug`: run a program equation by equation, up to the first value that is wrong."""

from jaxprgen.tools.debugging.debugger import Debugger, debug
from jaxprgen.tools.debugging.findings import Finding
from jaxprgen.tools.debugging.run import ComputedValue

__all__ = ["ComputedValue", "Debugger", "Finding", "debug"]
