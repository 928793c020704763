"""Which rule lowers which Op."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from jaxprgen.errors import DuplicateRuleError

Rule = Callable[..., Any]
R = TypeVar("R", bound=Rule)

_rules: dict[type, Rule] = {}
_unfolded: set[Rule] = set()


def lowers(*op_types: type, override: bool = False, folds: bool = True) -> Callable[[R], R]:
    """Register a rule for Op classes and, unless they have their own, their subclasses.

    A rule is called as ``rule(ctx, *inputs)`` with a `jaxprgen.frontend.context.RuleContext`
    and one value per input of the node; it emits equations into ``ctx.builder`` and returns
    the node's output, or a sequence of outputs where there are several.

    Parameters
    ----------
    op_types
        The Op classes.
    override
        Replace a rule that is already registered; without it that is an error.
    folds
        Whether a node whose inputs are all known, and small, is evaluated while emitting
        instead of calling the rule. Not so for an Op that makes large arrays of small inputs:
        its rule decides (`RuleContext.fold`).

    Raises
    ------
    DuplicateRuleError
        A rule is registered for one of the classes and ``override`` is false.
    """

    def register(rule: R) -> R:
        for op_type in op_types:
            if op_type in _rules and not override:
                raise DuplicateRuleError(
                    f"{op_type.__name__} is already lowered by {_rules[op_type].__qualname__}; "
                    "pass override=True to replace that rule."
                )
            _rules[op_type] = rule
        if not folds:
            _unfolded.add(rule)
        return rule

    return register


def find_rule(op_type: type) -> Rule | None:
    """The rule of the class, or of its nearest base class that has one."""
    return next((_rules[base] for base in op_type.__mro__ if base in _rules), None)


def folds(rule: Rule) -> bool:
    """Whether nodes of this rule with known inputs are evaluated rather than lowered."""
    return rule not in _unfolded
