"""`debug`: a program run equation by equation, up to where a value goes wrong."""

from jaxprgen.tools.debugging.debugger import Debugger, debug
from jaxprgen.tools.debugging.finding import Finding
from jaxprgen.tools.debugging.run import Moment

__all__ = ["Debugger", "Finding", "Moment", "debug"]
