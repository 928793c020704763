"""Which rule lowers which Op."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias, TypeVar

from jaxprgen.emit.lazy import Lazy
from jaxprgen.errors import DuplicateRuleError
from jaxprgen.lowering.names import LIBRARIES, Key, keys_of, own_keys

Rule = Callable[..., Any]
R = TypeVar("R", bound=Rule)
Positions: TypeAlias = Sequence[int] | Callable[[Any], Sequence[int]]
"""Which inputs of a node: the same of every node, or a function of the node."""


class Registration(NamedTuple):
    """A rule and what it declares; see `lowers`."""

    rule: Rule
    folds: bool = True
    ranked: bool = True
    shape_only: Positions = ()
    needs: Callable[[Any, int], Sequence[int]] | None = None


_rules: dict[tuple[Key, type[Lazy] | None], Registration] = {}
"""Registrations by Op class or name, and by the kind of lazy values that the rule takes."""
ADOPTED: set[Any] = set()
"""What was registered because another process had: to register it again is no error."""
_modules = {library: f"jaxprgen.{library}" for library in LIBRARIES}
"""The modules with rules that are not imported yet, by the package of their Ops."""
_searched: set[type] = set()
"""The Op classes for which all such modules are imported."""


def lowers(
    *op_types: Key,
    override: bool = False,
    folds: bool = True,
    ranked: bool = True,
    shape_only: Positions = (),
    needs: Callable[[Any, int], Sequence[int]] | None = None,
    lazy: type[Lazy] | None = None,
) -> Callable[[R], R]:
    """Register a rule for Op classes and for their subclasses without a rule of their own.

    The driver calls ``rule(ctx, *inputs)`` with a `jaxprgen.lowering.context.RuleContext` and one
    value per input of the node. The rule emits equations into ``ctx.builder`` and returns the
    node's output, or a sequence of several.

    Parameters
    ----------
    *op_types : type or str
        The Op classes. Rules of this package name them; see `jaxprgen.lowering.names`.
    override : bool
        Replace a rule that is already registered.
    folds : bool
        Evaluate a node with the library's own implementation, instead of calling the rule, if its
        inputs are static and small. Turn this off for an Op that makes large arrays of small
        inputs, and let the rule use `RuleContext.fold`.
    ranked : bool
        Require that results have the ranks that nodes declare. Turn this off for an Op whose
        declaration is wrong.
    shape_only : sequence of int, or function of a node
        Positions of the inputs of which at most the shape matters to the result.
    needs : function of a node and an output's position
        Positions of the inputs whose values matter to that output. By default all inputs but those
        of ``shape_only`` matter to every output.
    lazy : subclass of `jaxprgen.emit.lazy.Lazy`
        Register the rule for nodes with such values among their inputs, which it takes as they
        are, beside the rule for arrays.

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
            before = _own_registration(op_type, lazy)
            if before is not None and not override and (op_type, lazy) not in ADOPTED:
                name = op_type if isinstance(op_type, str) else op_type.__name__
                raise DuplicateRuleError(
                    f"{name} is already lowered by {before.rule.__qualname__}; "
                    "pass override=True to replace that rule."
                )
            _rules[op_type, lazy] = Registration(rule, folds, ranked, shape_only, needs)
            ADOPTED.discard((op_type, lazy))
        return rule

    return register


def _own_registration(op_type: Key, lazy: type[Lazy] | None) -> Registration | None:
    """Return what is registered for a class or name itself, and not for a base class."""
    if isinstance(op_type, str):
        return _rules.get((op_type, lazy))
    import_rules(op_type)
    keys = ((key, lazy) for key in own_keys(op_type))
    return next((_rules[key] for key in keys if key in _rules), None)


def lowers_package(package: str, module: str) -> None:
    """Import the rules of a module when an Op of the package is met, and not before."""
    _searched.clear()
    _modules[package] = module


def registered(op_type: type) -> dict[type[Lazy] | None, Registration]:
    """Return what is registered for exactly this class, by the kind of lazy values."""
    return {lazy: found for (owner, lazy), found in _rules.items() if owner is op_type}


def adopt(op_type: type, found: Mapping[type[Lazy] | None, Registration]) -> None:
    """Register what another process had registered for a class, where nothing is here."""
    import_rules(op_type)
    for lazy, registration in found.items():
        if (op_type, lazy) not in _rules:
            _rules[op_type, lazy] = registration
            ADOPTED.add((op_type, lazy))


def import_rules(op_type: type) -> None:
    """Import the rules for the packages of an Op class and of its base classes."""
    if op_type in _searched:
        return
    _searched.add(op_type)
    modules = [base.__module__ for base in op_type.__mro__]
    for package in [p for p in _modules if any(m.startswith(p) for m in modules)]:
        importlib.import_module(_modules.pop(package))


def find_registration(op_type: type, lazy: type[Lazy] | None = None) -> Registration | None:
    """Return the registration of the class, or of its nearest base class that has one.

    With ``lazy``, it is that of nodes that have such values among their inputs.
    """
    import_rules(op_type)
    return next(filter(None, (_rules.get((key, lazy)) for key in keys_of(op_type))), None)


def lowers_itself(op_type: type, names: Sequence[str]) -> bool:
    """Return whether a rule for a subclass of the named classes comes before theirs."""
    import_rules(op_type)
    nearest = next((key for key in keys_of(op_type) if (key, None) in _rules), None)
    return nearest is not None and not str(nearest).endswith(tuple(names))


def find_rule(op_type: type, lazy: type[Lazy] | None = None) -> Rule | None:
    """Return the rule of that registration."""
    found = find_registration(op_type, lazy)
    return found and found.rule


def supported(op: Any) -> Registration | None:
    """Return the registration of a rule that takes an Op, if there is one."""
    found = find_registration(type(op))
    supports = getattr(found.rule, "supports", None) if found else None
    return found if supports is None or supports(op) else None


def is_supported(op: Any) -> bool:
    """Whether there is a rule that takes an Op."""
    return supported(op) is not None


def needed_inputs(op_type: type, node: Any, output: int) -> Sequence[int]:
    """The inputs of the node whose values matter to one of its outputs, as the rule declares."""
    found = find_registration(op_type)
    if found and found.needs:
        return found.needs(node, output)
    idle = _positions(found.shape_only, node) if found else ()
    return [i for i in range(len(node.inputs)) if i not in idle]


def _positions(declared: Positions, node: Any) -> Sequence[int]:
    return declared(node) if callable(declared) else declared
