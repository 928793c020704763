"""Warnings of a compiled function: each subject once, at the line of the user's call."""

from __future__ import annotations

import warnings
from typing import Any

from jaxprgen import _jax
from jaxprgen.errors import (
    PrecisionWarning,
    RuntimeCheckWarning,
    SpecializationWarning,
    levels_to_user,
)
from jaxprgen.lowering.graph import Plan

MANY = 64
"""How many programs for different values of one input are emitted before a warning."""


class Announcements:
    """What to warn the user of a compiled function about.

    Warnings are collected while a program is emitted, and issued afterwards, when an exception
    cannot disturb a rule.
    """

    def __init__(self, plan: Plan, name: str) -> None:
        self._plan = plan
        self._name = name
        self._texts: dict[Any, tuple[str, type[Warning]]] = {}
        self._issued: set[Any] = set()
        self._values: dict[int, set[Any]] = {}

    def issue(self) -> None:
        """Warn of each subject that is new."""
        news = [about for about in self._texts if about not in self._issued]
        self._issued.update(news)
        for about in news:
            message, category = self._texts[about]
            warnings.warn(message, category, stacklevel=levels_to_user())

    def of_node(
        self, node: Any, message: str, category: type[Warning] = RuntimeCheckWarning
    ) -> None:
        """Announce something of a node: by default, that it leaves out a check."""
        self._texts.setdefault((node, category), (message, category))

    def narrowing(self) -> None:
        """Announce that 64-bit numbers are computed with 32 bits."""
        wide = _first_wide(self._plan)
        if wide:
            text = (
                "jax_enable_x64 is off: what this graph declares with 64 bits, first of all "
                f"{wide}, is computed with 32.\nRun jax.config.update('jax_enable_x64', True) "
                "before anything else of JAX to compute as declared."
            )
            self._texts[PrecisionWarning] = text, PrecisionWarning

    def value(self, position: int, value: Any, is_static: bool) -> None:
        """Note that a program was emitted for a value, and announce if there are many of them.

        Parameters
        ----------
        position
            The position of the input, or of the shared variable after all inputs.
        value
            A key of its value.
        is_static
            Whether the value is part of the program, and not only decides something.
        """
        if SpecializationWarning in self._texts:
            return
        values = self._values.setdefault(position, set())
        values.add(value)
        if len(values) < MANY:
            return
        inputs = self._plan.inputs
        name = [*inputs, *self._plan.shared][position].name
        kind = "input" if position < len(inputs) else "shared variable"
        remedy = "give the result whose size it decides a fixed size, by sizes= of "
        remedy += "jaxprgen.compile, or only use reductions of it, such as x[mask].sum()."
        if is_static:
            remedy = f"round {name!r} up to one of a few sizes, or use a mask of fixed size, such "
            remedy += f"as at.arange(size) < {name}, in place of a slice."
        text = (
            f"{self._name!r} has emitted {MANY} programs for different values of {kind} {name!r}, "
            "because a shape depends on it. XLA compiles each of them, which takes time and about "
            f"1.7 MB.\nTo need fewer programs, {remedy}"
        )
        self._texts[SpecializationWarning] = text, SpecializationWarning
        self._values.clear()


def _first_wide(plan: Plan) -> str:
    """The first 64-bit input, floating-point result or output that a graph declares, if any.

    Integers between are left out: every graph that asks for a shape has them.
    """
    for declared in plan.inputs:
        if declared.dtype in _jax.NARROW:
            return f"{declared.name!r} ({declared.dtype})"
    for step in plan.steps:
        for declared, place in zip(step.types, step.outputs, strict=True):
            if declared is None or declared.dtype not in _jax.NARROW:
                continue
            if declared.dtype.kind in "fc" or place in plan.output_places:
                return f"the result of {step.node.op} ({declared.dtype})"
    return ""
