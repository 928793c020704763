"""Loops as graphs, and what becomes of them."""

from __future__ import annotations

from typing import Any

import aesara
from laws import equations


def scan(step: Any, *args: Any, **options: Any) -> Any:
    """`aesara.scan` without its updates."""
    return aesara.scan(step, *args, **options)[0]


def loops(f: Any, *args: Any) -> list[str]:
    """The primitives of the loops of a compiled function's program."""
    return [name for name in equations(f, *args) if name in ("scan", "while")]
