"""The parts of an equation as short texts."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from jaxprgen import _jax
from jaxprgen._jax import Frame, JaxprEqn, Var

_NUMPY_SCALAR = re.compile(r"\bnp\.\w+\(([^()]*)\)")
LONGEST = 120
"""Characters of a name or a parameter that are shown."""


def shorten(text: str, longest: int = LONGEST) -> str:
    """The text, or its beginning."""
    return text if len(text) <= longest else text[: longest - 1] + "…"


def line_text(frame: Frame) -> str:
    """File and line; where it lies below the working directory, as seen from there."""
    path, here = Path(frame.file), Path.cwd()
    shown = path.relative_to(here) if path.is_relative_to(here) else path
    return f"{shown}:{frame.line}"


def type_text(aval: Any) -> str:
    """A type as JAX writes it: ``f64[3]``."""
    short = getattr(aval, "str_short", None)
    return shorten(short(short_dtypes=True) if short else str(aval))


def atom_text(x: Any, names: Mapping[Var, str]) -> str:
    """A variable's name, or a literal's value; ``_`` for a result that nobody reads."""
    if type(x) is Var:
        return shorten(names.get(x, "_"))
    return shorten(str(x.val)) if hasattr(x, "val") else "_"


def parameters(eqn: JaxprEqn) -> str:
    """The parameters that say what an equation does, without programs and without defaults.

    Of an equation with inner programs they are its name and how often they run; the others are
    about calling them.
    """
    inner = bool(_jax.sub_jaxprs(eqn))
    return " ".join(
        f"{name}={shorten(_written(value), 60)}"
        for name, value in eqn.params.items()
        if (name in ("name", "length") if inner else value is not None)
    )


def _written(value: Any) -> str:
    # What a function prints as tells its address, which is another each time.
    if callable(value):
        return getattr(value, "__name__", type(value).__name__)
    return _NUMPY_SCALAR.sub(r"\1", str(value)).replace(" ", "")
