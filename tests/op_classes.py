"""Find the Op classes of a graph library, for the tables of coverage."""

from __future__ import annotations

import importlib
import pkgutil
import sys
import warnings
from types import ModuleType


def op_classes(library: ModuleType, base: type, elsewhere: tuple[str, ...]) -> set[type]:
    """Return the subclasses of a base that public names of a library's modules lead to.

    Modules whose names begin with ``elsewhere``, or that cannot be imported here, are left out.
    """
    prefix = f"{library.__name__}."
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for module in pkgutil.walk_packages(library.__path__, prefix, onerror=lambda _: None):
            if not module.name.startswith(elsewhere):
                try:
                    importlib.import_module(module.name)
                except Exception:  # It needs a C compiler or another library.
                    continue
    found: set[type] = set()
    pending = base.__subclasses__()
    while pending:
        kind = pending.pop()
        if kind not in found:
            found.add(kind)
            pending += kind.__subclasses__()
    return {kind for kind in found if kind.__module__.startswith(prefix) and _is_public(kind)}


def _is_public(kind: type) -> bool:
    """Return whether a module has a public class; functions make classes in its name, too."""
    is_there = "." in kind.__qualname__ or hasattr(sys.modules[kind.__module__], kind.__name__)
    return is_there and not kind.__name__.startswith("_")
