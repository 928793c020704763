"""`debug`: a program run equation by equation, up to where a value goes wrong."""

from jaxprgen.inspect.debugging.debugger import Debugger, debug
from jaxprgen.inspect.debugging.finding import Finding
from jaxprgen.inspect.debugging.run import Moment

__all__ = ["Debugger", "Finding", "Moment", "debug"]
