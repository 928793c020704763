"""Pickles: their version, and parts of functions that users wrote, as any pickler takes them."""

from __future__ import annotations

import contextlib
import importlib
import pickle
import sys
from collections.abc import Callable
from typing import Any, NamedTuple

from jaxprgen.errors import UnpicklableError

_CLOUDPICKLES = ("cloudpickle", "joblib.externals.cloudpickle")


def portable(value: Any, what: str, where: str = "", same: dict[bytes, Any] | None = None) -> Any:
    """Return what any pickler takes for a value: the value itself, or its code by cloudpickle.

    Parameters
    ----------
    value
        A part of a function: an Op, a pass.
    what, where
        How an error names it, and the line that made it.
    same
        Earlier values by what they pickle as; an equal one is returned in the value's place.

    Raises
    ------
    UnpicklableError
        Neither pickle nor cloudpickle takes the value.
    """
    try:
        pickled = pickle.dumps(value)
    except Exception as error:
        for name in _CLOUDPICKLES:
            with contextlib.suppress(Exception):
                return _ByValue(importlib.import_module(name).dumps(value))
        deep = isinstance(error, RecursionError)
        remedy = (
            "It is nested too deeply for Python: raise the limit by sys.setrecursionlimit."
            if deep
            else "Define its class, and the functions that it holds, at the top level of a module, "
            "or install cloudpickle."
        )
        place = f"\n  {where}" if where else ""
        raise UnpicklableError(f"{what} does not pickle: {error}{place}\n{remedy}") from error
    return value if same is None else same.setdefault(pickled, value)


class _ByValue(NamedTuple):
    """A value that pickles as what cloudpickle made of it."""

    pickled: bytes

    def __reduce__(self) -> Any:
        return pickle.loads, (self.pickled,)


def stamped(make: Callable[..., Any], *parts: Any) -> tuple[Any, ...]:
    """Return what a ``__reduce__`` returns, so that only this version of the package unpickles it.

    The version comes first in the pickle, so another version reads none of the parts.
    """
    return _made, (_Stamp(), make, *parts)


class _Stamp:
    def __reduce__(self) -> Any:
        return _checked, (_version(),)


def _version() -> str:
    return sys.modules["jaxprgen"].__version__


def _checked(version: str) -> _Stamp:
    if version != _version():
        raise UnpicklableError(
            f"jaxprgen {version} wrote this pickle, and jaxprgen {_version()} does not read it.\n"
            "Pickle the function anew. A file that jaxprgen.save writes outlives versions."
        )
    return _Stamp()


def _made(_: _Stamp, make: Callable[..., Any], *parts: Any) -> Any:
    return make(*parts)
