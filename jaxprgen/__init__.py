"""Aesara graphs as JAX programs, without tracing.

Importing this package first also makes ``import aesara`` work on NumPy 2 and Python 3.12. The
package imports Aesara and JAX when a name that needs them is first used.
"""

import functools
import importlib
import sys
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

_HOMES = {
    "CompiledFunction": "runtime.compiled",
    "Interpreter": "interpreters",
    "JaxprGenError": "errors",
    "JaxprLinker": "aesara.linker",
    "JaxprMode": "aesara.linker",
    "LoadedFunction": "export.loaded",
    "StatefulFunction": "runtime.state",
    "check": "tools.checking",
    "compile": "api",
    "debug": "inspect",
    "function": "api",
    "implements": "lowering.implementation",
    "jaxpr_as_fun": "api",
    "load": "export.loading",
    "lowers": "lowering.registry",
    "pretty": "inspect",
    "samples": "ops.random",
    "save": "export.saving",
    "split_rows": "arguments.sparse",
    "transform": "api",
}
"""The module that each name is imported from when it is first used."""
_MODULES = ["emit", "errors", "inspect", "interpreters", "passes", "rewrite"]

__all__ = [*_HOMES, *_MODULES]  # pyright: ignore[reportUnsupportedDunderAll]

if TYPE_CHECKING:  # The same names, for type checkers and editors.
    from jaxprgen import (
        emit as emit,
        errors as errors,
        inspect as inspect,
        interpreters as interpreters,
        passes as passes,
        rewrite as rewrite,
    )
    from jaxprgen.aesara.linker import JaxprLinker as JaxprLinker, JaxprMode as JaxprMode
    from jaxprgen.api import (
        compile as compile,
        function as function,
        jaxpr_as_fun as jaxpr_as_fun,
        transform as transform,
    )
    from jaxprgen.arguments.sparse import split_rows as split_rows
    from jaxprgen.errors import JaxprGenError as JaxprGenError
    from jaxprgen.export.loaded import LoadedFunction as LoadedFunction
    from jaxprgen.export.loading import load as load
    from jaxprgen.export.saving import save as save
    from jaxprgen.inspect import debug as debug, pretty as pretty
    from jaxprgen.interpreters import Interpreter as Interpreter
    from jaxprgen.lowering.implementation import implements as implements
    from jaxprgen.lowering.registry import lowers as lowers
    from jaxprgen.ops.random import samples as samples
    from jaxprgen.runtime.compiled import CompiledFunction as CompiledFunction
    from jaxprgen.runtime.state import StatefulFunction as StatefulFunction
    from jaxprgen.tools.checking import check as check


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        if name in _MODULES:
            return importlib.import_module(f"{__name__}.{name}")
        value = getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
    except ModuleNotFoundError as error:
        if error.name != "aesara":
            raise
        from jaxprgen.errors import MissingAesaraError

        raise MissingAesaraError(
            f"jaxprgen.{name} needs Aesara, which is not installed. Install it: pip install aesara"
        ) from error
    return globals().setdefault(name, value)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


@functools.cache
def _prepare() -> None:
    from jaxprgen import _aesara

    # Mode "JAXPR" is known from when a graph library is imported, before or after this package.
    _aesara.prepare(lambda: importlib.import_module("jaxprgen.aesara.linker"))
    _aesara.when_imported("pytensor", lambda: importlib.import_module("jaxprgen.pytensor.linker"))


# With `python -m jaxprgen`, Python looks for NumPy in the working directory first. While it imports
# this file, `sys.argv` begins with "-m". `__main__` makes that directory the last, and prepares.
if (*getattr(sys, "argv", [])[:1], *sys.orig_argv[1:3]) != ("-m", "-m", "jaxprgen"):
    _prepare()
