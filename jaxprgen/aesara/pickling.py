"""What a pickle of a graph holds besides the graph: users' Ops, and the rules of these Ops."""

from __future__ import annotations

import contextlib
import importlib
import pickle
from collections.abc import Sequence
from typing import Any, NamedTuple

from jaxprgen.aesara.random import SAMPLERS
from jaxprgen.errors import UnpicklableError
from jaxprgen.lowering.registry import ADOPTED, adopt_rule, rules_of

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


# --- Rules --------------------------------------------------------------------------------

_LIBRARIES = ("aesara", "jaxprgen")
"""The packages of Ops that have their rules in every process."""


def portable_rules(ops: Sequence[Any]) -> list[Any]:
    """Return the rules and samplers of users' Ops, as far as they pickle.

    The process that unpickles may know an Op without its rule: cloudpickle carries classes of the
    main module along, but not what was registered for them.
    """
    found: list[Any] = []
    for base in dict.fromkeys(base for op in ops for base in type(op).__mro__):
        entry = base, rules_of(base), SAMPLERS.get(base)
        if any(entry[1:]) and base.__module__.partition(".")[0] not in _LIBRARIES:
            with contextlib.suppress(UnpicklableError):
                found.append(portable(entry, "The rule"))
    return found


def adopt_rules(found: Sequence[Any]) -> None:
    """Register rules and samplers of Ops that have none in this process."""
    for base, rules, sampler in found:
        for rule, options in rules:
            adopt_rule(base, rule, options)
        if sampler is not None and base not in SAMPLERS:
            SAMPLERS[base] = sampler
            ADOPTED.add(base)
