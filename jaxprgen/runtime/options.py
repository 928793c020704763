"""What is asked of programs, whatever the arguments."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

import jax

from jaxprgen.errors import ArgumentTypeError
from jaxprgen.passes import Pass

CompilerOption: TypeAlias = str | bool | int | float | bytes
"""The value of an option of XLA's; bytes are a profile for it."""


class Options(NamedTuple):
    """What is asked of programs.

    Attributes
    ----------
    name
        The function's name.
    checks
        Whether run-time checks are part of them.
    passes
        What rewrites them, one after the other.
    compiler_options
        Names and values of options for XLA, in the order of names: equal options are one key for
        caches, those that JAX keeps on disk among them.
    """

    name: str
    checks: bool
    passes: tuple[Pass, ...]
    compiler_options: tuple[tuple[str, CompilerOption], ...]

    def jit(self, program: Any, donated: Sequence[int] = ()) -> Any:
        """JAX's compiled form of a function that is not called by one that is compiled."""
        options = dict(self.compiler_options) or None
        return jax.jit(program, donate_argnums=donated, compiler_options=options)


def options_of(
    name: str,
    checks: bool,
    passes: Sequence[Pass],
    compiler_options: Mapping[Any, Any] | None,
) -> Options:
    """Options as users give them.

    Raises
    ------
    ArgumentTypeError
        An option for XLA is none by its type. Whether there is one of that name, XLA says.
    """
    given = dict(compiler_options or {})
    for option, value in given.items():
        if not (isinstance(option, str) and isinstance(value, CompilerOption)):
            raise ArgumentTypeError(
                "compiler_options are names of XLA's options and values that are text, numbers "
                f"or booleans, not {option!r}: {value!r}."
            )
    return Options(name, checks, tuple(passes), tuple(sorted(given.items())))
