"""Rewrite rules on programs: patterns of equations, and their replacements."""

from jaxprgen.rewrite.driver import Statistics, apply
from jaxprgen.rewrite.explain import Explanation, explain
from jaxprgen.rewrite.graph import Operand
from jaxprgen.rewrite.rules import Rule, rule, table
from jaxprgen.rewrite.traced import Constant

__all__ = [
    "Constant",
    "Explanation",
    "Operand",
    "Rule",
    "Statistics",
    "apply",
    "explain",
    "rule",
    "table",
]
