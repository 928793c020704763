"""Passes one after the other, and who watches them."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

from jaxprgen._jax import ClosedJaxpr

Pass: TypeAlias = Callable[[ClosedJaxpr], ClosedJaxpr]


class Record(NamedTuple):
    """What one pass did to a program.

    Attributes
    ----------
    rewrite
        The pass.
    before, after
        The program; one and the same if the pass changed nothing.
    seconds
        How long it took.
    """

    rewrite: Pass
    before: ClosedJaxpr
    after: ClosedJaxpr
    seconds: float

    @property
    def name(self) -> str:
        """The name of the pass: of its class, or of the function."""
        return getattr(self.rewrite, "__name__", type(self.rewrite).__name__)


@dataclass(frozen=True)
class Pipeline:
    """Passes one after the other, as one.

    Attributes
    ----------
    passes
        The passes, the first one first.
    observer
        What is called with a `Record` after each; see `jaxprgen.passes.observers`. What it
        raises, the pipeline does.
    """

    passes: tuple[Pass, ...]
    observer: Callable[[Record], None] | None = None

    def __call__(self, closed: ClosedJaxpr) -> ClosedJaxpr:
        """The program that the last pass gives."""
        for rewrite in self.passes:
            start = time.perf_counter()
            found = rewrite(closed)
            seconds = time.perf_counter() - start
            if self.observer is not None:
                self.observer(Record(rewrite, closed, found, seconds))
            closed = found
        return closed
