"""Messages of errors, and the lines of the tests that they name."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import jaxprgen


def line_of(file: str, start: str) -> tuple[int, str]:
    """Return the number and the text of the only line of a file that starts like this."""
    lines = enumerate(Path(file).read_text().splitlines(), 1)
    ((number, line),) = [(i, x.strip()) for i, x in lines if x.strip().startswith(start)]
    return number, line


def built(start: str, function: str | None = None) -> str:
    """Return what errors say of the caller's line that starts like this.

    Parameters
    ----------
    function
        The function that the line is in, by default the caller.
    """
    caller = inspect.stack()[1]
    number, line = line_of(caller.filename, start)
    return f"built at {caller.filename}:{number}, in {function or caller.function}: {line}"


def message(kind: type, call: Callable[..., Any], *args: Any, also: type = Exception) -> str:
    """Return the message of the error of exactly this class that a call raises."""
    with pytest.raises(jaxprgen.JaxprGenError) as caught:
        call(*args)
    assert type(caught.value) is kind
    assert isinstance(caught.value, also)
    return str(caught.value)


def lines(*args: Any, **options: Any) -> list[str]:
    """Return the lines of a `message`."""
    return message(*args, **options).splitlines()
