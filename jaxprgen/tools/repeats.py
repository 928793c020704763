"""Explanations of what a program repeats."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from jaxprgen._jax import ClosedJaxpr
from jaxprgen.passes import DEFAULT, Pass, Pipeline
from jaxprgen.passes.repeat_notes import Repeats, listening
from jaxprgen.runtime.compiled import CompiledFunction
from jaxprgen.runtime.observe import Observable, Observation
from jaxprgen.tools.text import program_of


def explain_repeats(
    f: CompiledFunction | Observation | ClosedJaxpr | Callable[..., Any],
    *args: Any,
    passes: Sequence[Pass] = DEFAULT,
) -> Repeats:
    """Explain what `VmapRepeats` and `ScanRepeats` find in a program, and what they leave alone.

    Parameters
    ----------
    f, args
        As for `jaxprgen.inspect.pretty`.
    passes : sequence of Pass
        The passes to explain. Compiled functions are explained by their own passes instead.

    Returns
    -------
    Repeats
        What became a batched computation or a loop, and what repeats but was left alone, with the
        reason; ``str`` describes it.

    Raises
    ------
    ArgumentTypeError
        ``f`` is not a program, or ``passes`` is not a sequence of passes.
    """
    if isinstance(f, Observable):
        f = f.observe(*args)
    if isinstance(f, Observation):
        return f.repeats
    with listening() as notes:
        Pipeline(passes)(program_of(f, *args)[0])
    return notes.repeats()
