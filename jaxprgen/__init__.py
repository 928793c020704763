"""Aesara graphs as JAX programs, without tracing.

Importing this package first also makes ``import aesara`` work on NumPy 2 and Python 3.12.
"""

from jaxprgen import _aesara as _aesara  # isort: split  # Before anything imports aesara.
from jaxprgen import inspect as inspect
from jaxprgen import numpy as numpy
from jaxprgen.aesara.check import check
from jaxprgen.aesara.random import samples
from jaxprgen.api import compile, function, jaxpr_as_fun, transform
from jaxprgen.errors import JaxprGenError
from jaxprgen.inspect import debug, pretty
from jaxprgen.interpreters import Interpreter
from jaxprgen.lowering.implementation import implements
from jaxprgen.lowering.registry import lowers
from jaxprgen.runtime.compiled import CompiledFunction
from jaxprgen.runtime.linker import JaxprLinker, JaxprMode
from jaxprgen.runtime.state import StatefulFunction

__version__ = "0.1.0"

__all__ = [
    "CompiledFunction",
    "Interpreter",
    "JaxprGenError",
    "JaxprLinker",
    "JaxprMode",
    "StatefulFunction",
    "check",
    "compile",
    "debug",
    "function",
    "implements",
    "inspect",
    "jaxpr_as_fun",
    "lowers",
    "pretty",
    "samples",
    "transform",
]
