"""Rules for `tensor.io`: arrays in files."""

from __future__ import annotations

from typing import Any

from jaxprgen.emit.values import Value
from jaxprgen.errors import InvalidGraphError
from jaxprgen.lowering.context import RuleContext
from jaxprgen.lowering.registry import lowers


@lowers("tensor.LoadFromDisk", folds=False)
def lower_load_from_disk(ctx: RuleContext, path: Any) -> Value:
    """Return the array in a file, which is read while the program is emitted."""
    try:
        return Value(ctx.evaluate(path)[0])
    except (OSError, TypeError, ValueError) as error:
        raise InvalidGraphError(f"Cannot load an array from {path}: {error}") from error
