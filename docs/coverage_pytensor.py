"""Write docs/coverage-pytensor.md, the table of all Ops of PyTensor and the rules for them.

``python docs/coverage_pytensor.py`` needs the newest PyTensor.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import NamedTuple

import pytensor
from pytensor.graph.op import Op
from pytensor.tensor.random.op import RandomVariable

from jaxprgen.lowering.names import entry_of
from jaxprgen.lowering.registry import find_rule, import_rules
from jaxprgen.ops import random, scalar

sys.path[:0] = [str(Path(__file__).parents[1] / "tests")]

from op_classes import op_classes  # noqa: E402

PAGE = Path(__file__).with_name("coverage-pytensor.md")
ELSEWHERE = ("pytensor.misc", "pytensor.bin", "pytensor.d3viz", "pytensor.ipython")
"""Modules to skip: they define no Ops, or need other libraries."""

HEAD = """\
# Coverage of PyTensor

This page lists every Op class of PyTensor {version} and the module of `jaxprgen` that has its
rule. Classes that only serve others as bases are left out. `python docs/coverage_pytensor.py`
writes the page, and a test fails if it is out of date. The rules that Aesara's Ops share are
compared with Aesara's Python linker at all dtypes ([coverage](coverage.md)). `tests/pytensor`
compares those that differ with PyTensor's Python mode.

"""

REASONS = {
    "compile.ops.FromFunctionOp": 'runs a Python function: compile with `fallback="callback"`',
    "graph.fg.Output": "stands for the end of a graph, and is in none",
    "link.c.op.ExternalCOp": "is C code",
    "link.jax.dispatch.shape.JAXShapeTuple": "is made by PyTensor's JAX mode alone",
    "tensor.linalg.decomposition.schur.QZ": "JAX has no generalized Schur decomposition",
}
"""Why an Op has no rule, by its name."""
XTENSOR = "`compile` applies PyTensor's rewrites, which put other Ops in its place"


class Row(NamedTuple):
    """An Op class, and the module of its rule or why it has none."""

    name: str
    module: str
    rule: str
    reason: str


def rule_of(kind: type) -> str | None:
    """Return the module with the rule for a class, or None.

    The rules for all Ops and for all random variables only serve those that are registered.
    """
    import_rules(kind)
    if entry_of(scalar.RULES, kind) is not None:
        return scalar.__name__
    rule = find_rule(kind)
    if rule is find_rule(RandomVariable):
        return random.__name__ if entry_of(random.SAMPLERS, kind) else None
    return None if rule is None or rule is find_rule(Op) else rule.__module__


def row_of(kind: type) -> Row:
    """Return the row of a class.

    Raises
    ------
    LookupError
        The class has no rule, and ``REASONS`` does not say why.
    """
    module, rule = kind.__module__.removeprefix("pytensor."), rule_of(kind)
    if rule:
        return Row(kind.__qualname__, module, rule.removeprefix("jaxprgen."), "")
    reason = REASONS.get(f"{module}.{kind.__qualname__}")
    if reason is None and module.startswith("xtensor."):
        reason = XTENSOR
    if reason is None:
        raise LookupError(f"{kind.__module__}.{kind.__qualname__} has no rule, and no reason.")
    return Row(kind.__qualname__, module, "", reason)


def rows() -> list[Row]:
    """Return the rows of the page, by module and name."""
    classes = op_classes(pytensor, Op, ELSEWHERE)
    found = [row_of(kind) for kind in classes if rule_of(kind) or not kind.__subclasses__()]
    return sorted(found, key=lambda row: (row.module, row.name.lower(), row.name))


def page(found: list[Row]) -> str:
    """Write the page."""
    handled = sum(bool(row.rule) for row in found)
    lines = [f"Of {len(found)} Ops, {handled} have a rule.\n"]
    lines += ["| Op | Module | Rule | Without a rule, because |", "| --- | --- | --- | --- |"]
    for name, module, rule, reason in found:
        lines.append(f"| `{name}` | `{module}` | {f'`{rule}`' if rule else ''} | {reason} |")
    return HEAD.format(version=pytensor.__version__) + "\n".join(lines) + "\n"


if __name__ == "__main__":
    PAGE.write_text(page(rows()), "utf-8")
