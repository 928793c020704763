"""Which rule lowers which Op."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeAlias, TypeVar

from jaxprgen.errors import DuplicateRuleError

Rule = Callable[..., Any]
R = TypeVar("R", bound=Rule)
Positions: TypeAlias = Sequence[int] | Callable[[Any], Sequence[int]]
"""Which inputs of a node: the same of every node, or a function of the node."""


class Registration(NamedTuple):
    """A rule and what it declares of the inputs of its nodes; see `lowers`."""

    rule: Rule
    static: Positions
    shape_only: Positions
    decides: Positions
    needs: Callable[[Any, int], Sequence[int]] | None


_rules: dict[type, Registration] = {}
_selected: dict[type, Rule] = {}
_deferring: dict[type, Rule] = {}
_unfolded: set[Rule] = set()
_deferred: dict[str, str] = {}
_searched: set[type] = set()
"""Op classes for which nothing is deferred any more."""


def lowers(
    *op_types: type,
    override: bool = False,
    folds: bool = True,
    static: Positions = (),
    shape_only: Positions = (),
    decides: Positions = (),
    needs: Callable[[Any, int], Sequence[int]] | None = None,
) -> Callable[[R], R]:
    """Register a rule for Op classes and for their subclasses without a rule of their own.

    The driver calls ``rule(ctx, *inputs)`` with a `jaxprgen.lowering.context.RuleContext` and one
    value per input of the node. The rule emits equations into ``ctx.builder`` and returns the
    node's output, or a sequence of several.

    Parameters
    ----------
    *op_types : type
        The Op classes.
    override : bool
        Replace a rule that is already registered.
    folds : bool
        Evaluate a node with the library's own implementation, instead of calling the rule, if its
        inputs are static and small. Turn this off for an Op that makes large arrays of small
        inputs, and let the rule use `RuleContext.fold`.
    static : sequence of int, or function of a node
        Positions of the inputs whose values the rule asks for by `RuleContext.static`, because
        shapes depend on them.
    shape_only : sequence of int, or function of a node
        Positions of the inputs of which at most the shape matters to the result.
    decides : sequence of int, or function of a node
        Positions of the inputs whose values only decide something, such as a number of elements.
        The rule asks for the decision by `RuleContext.decided`, and for values that follow from
        shapes and constants by `RuleContext.static_or_none`, as it may for ``static`` inputs.
    needs : function of a node and an output's position
        Positions of the inputs whose values matter to that output. By default all inputs but those
        of ``shape_only`` matter to every output.

    Returns
    -------
    function
        A decorator that registers a rule and returns it.

    Raises
    ------
    DuplicateRuleError
        One of the classes already has a rule, and ``override`` is false.
    """

    def register(rule: R) -> R:
        for op_type in op_types:
            import_rules(op_type)
            if op_type in _rules and not override:
                raise DuplicateRuleError(
                    f"{op_type.__name__} is already lowered by "
                    f"{_rules[op_type].rule.__qualname__}; "
                    "pass override=True to replace that rule."
                )
            _rules[op_type] = Registration(rule, static, shape_only, decides, needs)
        if not folds:
            _unfolded.add(rule)
        return rule

    return register


def lowers_selected(*op_types: type) -> Callable[[R], R]:
    """Register a rule for nodes with `jaxprgen.emit.selection.Selected` among their inputs.

    Other nodes refuse these. Such a rule is for the Op classes alone, or their subclasses, and
    does not replace the one for arrays.
    """

    def register(rule: R) -> R:
        _selected.update(dict.fromkeys(op_types, rule))
        return rule

    return register


def lowers_deferred(*op_types: type) -> Callable[[R], R]:
    """Register a rule for nodes with `jaxprgen.emit.deferred.Deferred` among their inputs.

    For other nodes these are made before. Such a rule is for the Op classes alone, or their
    subclasses, and does not replace the one for arrays.
    """

    def register(rule: R) -> R:
        _deferring.update(dict.fromkeys(op_types, rule))
        return rule

    return register


def find_deferred_rule(op_type: type) -> Rule | None:
    """The rule for arrays that are not made yet, of the class or of its nearest base class."""
    return next((_deferring[base] for base in op_type.__mro__ if base in _deferring), None)


def find_selected_rule(op_type: type) -> Rule | None:
    """The rule for what a mask selects, of the class or of its nearest base class."""
    return next((_selected[base] for base in op_type.__mro__ if base in _selected), None)


def defer(package: str, rules: str) -> None:
    """Import the module ``rules`` not before an Op of a package is asked for.

    So the package is imported by those alone who use it.
    """
    _searched.clear()
    _deferred[package] = rules


def import_rules(op_type: type) -> None:
    """Import what is deferred until an Op class of a package is asked for, or a subclass of one."""
    if op_type in _searched:
        return
    _searched.add(op_type)
    modules = [base.__module__ for base in op_type.__mro__]
    for package in [p for p in _deferred if any(m.startswith(p) for m in modules)]:
        importlib.import_module(_deferred.pop(package))


def find_rule(op_type: type) -> Rule | None:
    """The rule of the class, or of its nearest base class that has one."""
    found = _find(op_type)
    return found and found.rule


def is_supported(op: Any) -> bool:
    """Whether there is a rule that takes an Op."""
    rule = find_rule(type(op))
    supports = getattr(rule, "supports", None)
    return rule is not None and (supports is None or supports(op))


def static_inputs(op_type: type, node: Any) -> Sequence[int]:
    """The inputs of the node whose values decide shapes, as the rule of the class declares."""
    found = _find(op_type)
    return _positions(found.static, node) if found else ()


def needed_inputs(op_type: type, node: Any, output: int) -> Sequence[int]:
    """The inputs of the node whose values matter to one of its outputs, as the rule declares."""
    found = _find(op_type)
    if found and found.needs:
        return found.needs(node, output)
    idle = _positions(found.shape_only, node) if found else ()
    return [i for i in range(len(node.inputs)) if i not in idle]


def deciding_inputs(op_type: type, node: Any) -> Sequence[int]:
    """The inputs of the node by whose values its rule decides something."""
    found = _find(op_type)
    return _positions(found.decides, node) if found else ()


def _find(op_type: type) -> Registration | None:
    import_rules(op_type)
    return next((_rules[base] for base in op_type.__mro__ if base in _rules), None)


def _positions(declared: Positions, node: Any) -> Sequence[int]:
    return declared(node) if callable(declared) else declared


def folds(rule: Rule) -> bool:
    """Whether nodes of this rule with known inputs are evaluated rather than lowered."""
    return rule not in _unfolded
