"""The interpreter: a table of rules, and the walk over a program's equations."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, TypeVar

import jax

from jaxprgen import _jax
from jaxprgen._jax import ClosedJaxpr, Primitive, Var
from jaxprgen.errors import (
    ArgumentCountError,
    DuplicateRuleError,
    InterpretationError,
    JaxprGenError,
)
from jaxprgen.interpreters.context import Context, Domain, Rule, evaluate
from jaxprgen.interpreters.programs import INLINED, TRACED
from jaxprgen.ir.describe import equation_text, innermost_frame, variable_names
from jaxprgen.tools.debugging.evaluate import Inside

R = TypeVar("R", bound=Rule)
ARRAYS = Domain()


class Interpreter:
    """Runs programs with rules of one's own.

    ``interpreter(fun)`` is a function of ``fun``'s arguments, arrays or values of the domain, in
    pytrees and by keyword, that returns what ``fun`` does, computed by the rules. ``fun`` is any
    function that JAX can trace, compiled ones included, and is traced at each call; what it
    returns can be transformed like a function of JAX's wherever the rules can be traced.
    ``interpreter(closed_jaxpr)`` is a function of the program's inputs that returns the list of its
    outputs.

    Which rule is for an equation: the one that is registered; or, of a primitive that holds
    programs, the one of ``programs``; or ``default``. Programs of calls are inlined: of ``jit``
    and ``checkpoint``, and those that give the value of a function with a derivative of its own.

    Parameters
    ----------
    name
        What errors call it: the name of the variable that holds it.
    domain
        What its values are.
    default
        The rule of other primitives: `evaluate` them, or `refuse` them.
    programs
        How branches and loops are run. `TRACED` makes a branch or loop of JAX's again, whose body
        is interpreted once, so that all can be traced; values must be arrays, or pytrees of
        arrays with the axes of what they stand for. `STEPWISE` interprets one step after the
        other and the branch that is taken, for any values, if it can be told how it goes on.
    """

    def __init__(
        self,
        name: str,
        domain: Domain = ARRAYS,
        *,
        default: Rule = evaluate,
        programs: Mapping[str, Rule] = TRACED,
    ) -> None:
        self.name, self.domain = name, domain
        self._default = default
        self._programs = {**INLINED, **programs}
        self._rules: dict[str, Rule] = {}

    def __repr__(self) -> str:
        return f"<interpreter {self.name!r}, {len(self._rules)} rules>"

    # --- Rules -----------------------------------------------------------------------------

    @property
    def table(self) -> Mapping[str, Rule]:
        """The rules that are registered, by primitives' names."""
        return MappingProxyType(self._rules)

    def rule(self, *primitives: str | Primitive, override: bool = False) -> Callable[[R], R]:
        """Register a function as the rule of primitives; see `Rule`, and `rules`."""

        def register(rule: R) -> R:
            self.rules(dict.fromkeys(primitives, rule), override=override)
            return rule

        return register

    def rules(self, table: Mapping[Any, Rule], *, override: bool = False) -> None:
        """Register rules, each by its primitive or that one's name.

        Raises
        ------
        DuplicateRuleError
            A primitive has a rule and ``override`` is false. None is registered then.
        """
        named = {getattr(key, "name", key): rule for key, rule in table.items()}
        known = [name for name in named if name in self._rules]
        if known and not override:
            raise DuplicateRuleError(
                f"The interpreter {self.name!r} already has a rule for {', '.join(known)}; "
                "pass override=True to replace it."
            )
        self._rules.update(named)

    # --- Running ---------------------------------------------------------------------------

    def __call__(self, fun: Callable[..., Any] | ClosedJaxpr) -> Callable[..., Any]:
        """The function that computes what another does, or a program, by these rules."""
        if isinstance(fun, ClosedJaxpr):
            return functools.partial(self._run_program, fun)
        domain = self.domain

        @functools.wraps(fun)
        def interpreted(*args: Any, **kwargs: Any) -> Any:
            leaves, tree = jax.tree.flatten((args, kwargs), is_leaf=domain.is_value)
            args, kwargs = jax.tree.unflatten(tree, map(domain.stand_in, leaves))
            closed, shapes = jax.make_jaxpr(fun, return_shape=True)(*args, **kwargs)
            results = self._run_program(closed, *leaves)
            return jax.tree.unflatten(jax.tree.structure(shapes), results)

        return interpreted

    def _run_program(self, closed: ClosedJaxpr, *args: Any) -> list[Any]:
        if len(args) != len(closed.in_avals):
            raise ArgumentCountError(
                f"The jaxpr takes {len(closed.in_avals)} argument(s), but {len(args)} were given."
            )
        pairs = zip(args, closed.in_avals, strict=True)
        return self._run(closed, [self._admit(x, aval) for x, aval in pairs], closed, ())

    def _admit(self, x: Any, aval: Any) -> Any:
        return x if self.domain.is_value(x) else self.domain.lift(x, aval)

    def _run(
        self,
        closed: ClosedJaxpr,
        operands: Sequence[Any],
        outermost: ClosedJaxpr,
        within: tuple[Inside, ...],
    ) -> list[Any]:
        """The outputs of a program for values of the domain."""
        jaxpr, lift = closed.jaxpr, self.domain.lift
        values = dict[Any, Any](zip(jaxpr.invars, operands, strict=True))
        for v, x in zip(jaxpr.constvars, closed.consts, strict=True):
            values[v] = self._admit(x, v.aval)

        def read(x: Any) -> Any:
            return values[x] if type(x) is Var else lift(x.val, x.aval)

        for eqn in jaxpr.eqns:
            context = Context(self.name, self.domain, outermost, eqn, within, self._run)
            results = self._apply(context, [read(x) for x in eqn.invars])
            values.update(zip(eqn.outvars, results, strict=True))
        return [read(x) for x in jaxpr.outvars]

    def _apply(self, context: Context, operands: list[Any]) -> list[Any]:
        """The results of an equation; an error gets its place, once."""
        eqn = context.eqn
        rule = self._rules.get(eqn.primitive.name) or self._programs.get(eqn.primitive.name)
        try:
            with _jax.equation_context(eqn):
                return _results(context, (rule or self._default)(context, *operands, **eqn.params))
        except JaxprGenError as error:
            if error.located:
                raise
            raise error.at(_place(context)) from error.__cause__
        except Exception as error:
            raised = f"{type(error).__name__}: {error}"
            raise InterpretationError(
                f"The interpreter {self.name!r} failed at {context.primitive}: {raised}"
            ).at(_place(context)) from error


def _results(context: Context, found: Any) -> list[Any]:
    """What a rule returned, one value for each result of the equation."""
    if not context.eqn.primitive.multiple_results:
        return [found]
    several, count = isinstance(found, (list, tuple)), len(context.eqn.outvars)
    if not several or len(found) != count:
        got = f"{len(found)} values" if several else f"one {type(found).__name__}"
        raise InterpretationError(
            f"The rule of the interpreter {context.interpreter!r} for {context.primitive} "
            f"returned {got}.\nReturn a list of {count}: one for each result of the equation."
        )
    return list(found)


def _place(context: Context) -> str:
    """The equation, the loops that it is in, and the user's line."""
    within = context.within
    names = variable_names(context.program.jaxpr, {})
    frame = innermost_frame([context.eqn, *(outer.eqn for outer in within[::-1])])
    loops = ((o.eqn.primitive.name, o.iteration) for o in within if o.iteration is not None)
    rows = [f"  in iteration {i} of {loop}" for loop, i in loops]
    rows.append(f"  as {equation_text(context.eqn, names)}")
    return "\n".join([*rows, f"  {frame.built}"] if frame else rows)
