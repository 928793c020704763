"""The interpreter: a table of rules, and the evaluation of programs by it."""

from __future__ import annotations

import functools
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from types import MappingProxyType
from typing import Any, TypeVar

import jax

from jaxprgen import _jax
from jaxprgen._jax import ClosedJaxpr, JaxprEqn, Primitive
from jaxprgen.errors import (
    ArgumentCountError,
    DuplicateRuleError,
    InterpretationError,
    JaxprGenError,
)
from jaxprgen.interpreters.context import Context, Domain, PrimitiveRule, bind
from jaxprgen.interpreters.traced import TRACED
from jaxprgen.ir import primitives as lax
from jaxprgen.ir.builder import Builder
from jaxprgen.ir.describe import equation_text, innermost_frame, iterations, variable_names
from jaxprgen.ir.evaluate import Evaluator, Site

R = TypeVar("R", bound=PrimitiveRule)
ARRAYS = Domain()


class Interpreter:
    """Run programs by rules of your own.

    ``interpreter(fun)`` is a function of the same arguments as ``fun``, computed by the rules:
    arguments are arrays or values of the domain, in pytrees and by keyword. ``fun`` is any
    function that JAX can trace, compiled functions included, and is traced at each call. If the
    rules can be traced, JAX's transformations apply to the result as to any function.
    ``interpreter(closed_jaxpr)`` is a function of the program's inputs that returns a list of its
    outputs.

    An equation is computed by the rule registered for its primitive; if there is none, by the one
    in ``programs``; if there is none, calls are inlined (``jit``, ``checkpoint``, functions with
    custom derivatives), branches and loops run step by step, and all else goes to ``default``.

    Parameters
    ----------
    name
        The name of the variable that holds the interpreter, for error messages.
    domain
        The values to compute with.
    default
        The rule of other primitives, such as `bind` or `refuse`.
    programs
        Rules for branches and loops. `TRACED` makes them JAX's again and interprets their programs
        once, so that everything can be traced; values must be arrays, or pytrees of arrays whose
        leading axes are those of what they stand for. `STEPWISE` has no rules, so that iterations
        run one by one, on any values, as long as the domain can tell how the program goes on.

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> shifted = Interpreter("shifted")
    >>> @shifted.rule("sin")
    ... def shift(context, x, **params):
    ...     return jnp.cos(x)
    >>> float(shifted(jnp.sin)(0.0))
    1.0
    """

    def __init__(
        self,
        name: str,
        domain: Domain = ARRAYS,
        *,
        default: PrimitiveRule = bind,
        programs: Mapping[str, PrimitiveRule] = TRACED,
    ) -> None:
        self.name, self.domain = name, domain
        self._default, self._programs = default, programs
        self._rules: dict[str, PrimitiveRule] = {}

    def __repr__(self) -> str:
        return f"<interpreter {self.name!r}, {len(self._rules)} rules>"

    # --- Rules -----------------------------------------------------------------------------

    @property
    def table(self) -> Mapping[str, PrimitiveRule]:
        """The registered rules, by the names of their primitives."""
        return MappingProxyType(self._rules)

    def rule(self, *primitives: str | Primitive, override: bool = False) -> Callable[[R], R]:
        """Return a decorator that registers a function as the rule of these primitives.

        Parameters
        ----------
        primitives
            Primitives or their names.
        override
            Replace existing rules instead of raising `DuplicateRuleError`.

        Returns
        -------
        callable
            A decorator that returns the function that it is given.
        """

        def register(rule: R) -> R:
            self.rules(dict.fromkeys(primitives, rule), override=override)
            return rule

        return register

    def rules(self, table: Mapping[Any, PrimitiveRule], *, override: bool = False) -> None:
        """Register several rules at once.

        Parameters
        ----------
        table
            Rules by their primitives, or by these primitives' names.
        override
            Replace existing rules.

        Raises
        ------
        DuplicateRuleError
            A primitive already has a rule and ``override`` is false. No rule is registered then.
        """
        named = {getattr(key, "name", key): rule for key, rule in table.items()}
        duplicates = [name for name in named if name in self._rules]
        if duplicates and not override:
            raise DuplicateRuleError(
                f"The interpreter {self.name!r} already has a rule for {', '.join(duplicates)}; "
                "pass override=True to replace it."
            )
        self._rules.update(named)

    # --- Running ---------------------------------------------------------------------------

    def __call__(self, fun: Callable[..., Any] | ClosedJaxpr) -> Callable[..., Any]:
        """Return the function that computes a function, or a program, by the rules."""
        if isinstance(fun, ClosedJaxpr):
            return functools.partial(self._run, fun)
        domain = self.domain

        @functools.wraps(fun)
        def interpreted(*args: Any, **kwargs: Any) -> Any:
            leaves, tree = jax.tree.flatten((args, kwargs), is_leaf=domain.is_value)
            args, kwargs = jax.tree.unflatten(tree, map(domain.stand_in, leaves))
            closed, shapes = jax.make_jaxpr(fun, return_shape=True)(*args, **kwargs)
            results = self._run(closed, *leaves)
            return jax.tree.unflatten(jax.tree.structure(shapes), results)

        return interpreted

    def _run(self, closed: ClosedJaxpr, *args: Any) -> list[Any]:
        if len(args) != len(closed.in_avals):
            raise ArgumentCountError(
                f"The jaxpr takes {len(closed.in_avals)} argument(s), but {len(args)} were given."
            )
        rules = {**self._programs, **self._rules}
        evaluator = _RuleEvaluator(self.name, self.domain, rules, self._default, closed)
        pairs = zip(args, closed.in_avals, strict=True)
        return evaluator.run(closed, [evaluator.lift(x, aval) for x, aval in pairs])


class _RuleEvaluator(Evaluator):
    """Evaluates one program by the rules of an interpreter."""

    def __init__(
        self,
        name: str,
        domain: Domain,
        rules: Mapping[str, PrimitiveRule],
        default: PrimitiveRule,
        program: ClosedJaxpr,
    ) -> None:
        super().__init__()
        self._name, self._domain, self._rules = name, domain, rules
        self._default, self._program = default, program

    def lift(self, x: Any, aval: Any) -> Any:
        return x if self._domain.is_value(x) else self._domain.lift(x, aval)

    def enters(self, eqn: JaxprEqn) -> bool:
        return super().enters(eqn) and eqn.primitive.name not in self._rules

    def choices(self, x: Any) -> Sequence[int]:
        return self._domain.choices(x)

    def join(self, first: Any, second: Any) -> Any:
        return self._domain.join(first, second)

    def apply(self, site: Site, operands: list[Any]) -> list[Any]:
        eqn = site.eqn
        context = Context(self._name, self._domain, self._program, eqn, site.within, self.run)
        rule = self._rules.get(eqn.primitive.name, self._default)
        found = rule(context, *operands, **eqn.params)
        if not eqn.primitive.multiple_results:
            return [found]
        several, count = isinstance(found, (list, tuple)), len(eqn.outvars)
        if not several or len(found) != count:
            got = f"{len(found)} values" if several else f"one {type(found).__name__}"
            raise InterpretationError(
                f"The rule of the interpreter {self._name!r} for {context.primitive} returned "
                f"{got}.\nReturn a list of {count}: one for each result of the equation."
            )
        return list(found)

    @contextmanager
    def guard(self, site: Site) -> Generator[None, None, None]:
        """Give equations the names and lines of the original, and errors their place, once."""
        try:
            with _jax.equation_context(site.eqn):
                yield
        except JaxprGenError as error:
            if error.located:
                raise
            raise error.at(self._place(site)) from error.__cause__
        except Exception as error:
            raise InterpretationError(
                f"The interpreter {self._name!r} failed at {site.eqn.primitive.name}: "
                f"{type(error).__name__}: {error}"
            ).at(self._place(site)) from error

    def _place(self, site: Site) -> str:
        """The equation, the iterations of the loops around it, and the user's line."""
        rows = [f"  in iteration {i} of {loop}" for loop, i in iterations(site.within)]
        names = variable_names(self._program.jaxpr, {})
        rows.append(f"  as {equation_text(site.eqn, names)}")
        frame = innermost_frame(site.eqn, site.within)
        return "\n".join([*rows, f"  {frame.built}"] if frame else rows)

    def slice(self, site: Site, x: Any, aval: Any, index: int, iteration: int) -> Any:
        b = Builder([aval])
        b.source_info = site.eqn.source_info
        inner = aval.shape[1:]
        start, strides = (index, *[0] * len(inner)), (1,) * len(aval.shape)
        row = lax.slice(b, b.inputs[0], start, (index + 1, *inner), strides)
        program = b.build([lax.squeeze(b, row, (0,))])
        return self.run(program, [x], site.inside(iteration))[0]

    def stack(self, site: Site, slices: Sequence[Any], aval: Any) -> Any:
        b = Builder([_jax.slice_type(aval)] * len(slices))
        b.source_info = site.eqn.source_info
        shape, axes = (1, *aval.shape[1:]), range(1, len(aval.shape))
        rows = [lax.broadcast_in_dim(b, x, shape, axes) for x in b.inputs]
        return self.run(b.build([lax.concatenate(b, rows, 0)]), slices, site.inside())[0]
