"""Names of the classes of graph libraries, by which rules and tables know them without importing.

Aesara and PyTensor have one ancestor, and most of their classes have one meaning. Such a class has
the same short name in both: the package below the library, and the class, as in "tensor.Dot" for
``aesara.tensor.math.Dot``. Modules between them, which change between versions, are left out. A
name with the library, as in "pytensor.tensor.Dot", means the class of that library alone.
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Mapping
from typing import Any, TypeAlias, TypeVar

T = TypeVar("T")

Key: TypeAlias = type | str
"""A class, or a name of a class of a graph library."""
Apply: TypeAlias = Any
"""A node of a graph library."""
Variable: TypeAlias = Any
"""A variable of a graph library."""
FunctionGraph: TypeAlias = Any
"""A graph of a graph library: anything with inputs and outputs."""

LIBRARIES = ("aesara", "pytensor")
"""The graph libraries, by the names of their packages."""


def own_keys(kind: type) -> tuple[Key, ...]:
    """Return the class and its names, the more special first."""
    library, _, rest = kind.__module__.partition(".")
    if library not in LIBRARIES:
        return (kind,)
    name = f"{rest.partition('.')[0]}.{kind.__qualname__}"
    return kind, f"{library}.{name}", name


@functools.cache
def keys_of(kind: type) -> tuple[Key, ...]:
    """Return what tables may list a class under: its own keys, then those of its bases."""
    return tuple(key for base in kind.__mro__ for key in own_keys(base))


@functools.cache
def is_kind(kind: type, names: tuple[str, ...]) -> bool:
    """Return whether a class or one of its bases has one of these names."""
    return not set(keys_of(kind)).isdisjoint(names)


def is_a(x: object, *names: str) -> bool:
    """Return whether an object is an instance of a class with one of these names."""
    return is_kind(type(x), names)


def entry_of(table: Mapping[Any, T], kind: type) -> T | None:
    """Return what a table lists for a class or else for its nearest base; None if nothing."""
    return next((table[key] for key in keys_of(kind) if key in table), None)


@functools.cache
def _library_of_class(kind: type) -> str:
    roots = (base.__module__.partition(".")[0] for base in kind.__mro__)
    return next((root for root in roots if root in LIBRARIES), "")


def library_of(x: object) -> str:
    """Return the graph library that defines an object's class or one of its bases; "" if none."""
    return _library_of_class(type(x))


def module_of(x: object, path: str) -> Any:
    """Return a module of the graph library of an object, by its path below the library."""
    return importlib.import_module(f"{library_of(x)}.{path}")
