"""What a pickle of a graph holds besides the graph: the rules of users' Ops."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import Any

from jaxprgen.errors import UnpicklableError
from jaxprgen.lowering.names import LIBRARIES
from jaxprgen.lowering.portable import portable
from jaxprgen.lowering.registry import ADOPTED, adopt, registered
from jaxprgen.ops.random import SAMPLERS


def portable_rules(ops: Sequence[Any]) -> list[Any]:
    """Return the rules and samplers of users' Ops, as far as they pickle.

    The process that unpickles may know an Op without its rule: cloudpickle carries classes of the
    main module along, but not what was registered for them. Ops of the graph libraries have their
    rules in every process.
    """
    found: list[Any] = []
    for base in dict.fromkeys(base for op in ops for base in type(op).__mro__):
        entry = base, registered(base), SAMPLERS.get(base)
        if any(entry[1:]) and base.__module__.partition(".")[0] not in (*LIBRARIES, "jaxprgen"):
            with contextlib.suppress(UnpicklableError):
                found.append(portable(entry, "The rule"))
    return found


def adopt_rules(found: Sequence[Any]) -> None:
    """Register rules and samplers of Ops that have none in this process."""
    for base, rules, sampler in found:
        adopt(base, rules)
        if sampler is not None and base not in SAMPLERS:
            SAMPLERS[base] = sampler
            ADOPTED.add(base)
