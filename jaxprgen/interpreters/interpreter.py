"""Interpreters: the values that they compute with, what rules receive, and the table of rules."""

from __future__ import annotations

import functools
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, NoReturn, TypeAlias, TypeVar

import jax
import numpy as np

from jaxprgen import _jax
from jaxprgen._jax import ClosedJaxpr, Jaxpr, JaxprEqn, Primitive
from jaxprgen.arguments.accept import wrong_count
from jaxprgen.errors import DuplicateRuleError, InterpretationError, JaxprGenError, MissingRuleError
from jaxprgen.ir import primitives as lax
from jaxprgen.ir.builder import Builder
from jaxprgen.ir.describe import equation_text, innermost_frame, iterations, variable_names
from jaxprgen.ir.evaluate import Evaluator, Inside, Site, while_parts
from jaxprgen.ir.programs import parts

PrimitiveRule: TypeAlias = Callable[..., Any]
"""``rule(context, *operands, **params)`` returns the value of an equation's result, or, if the
primitive has several results, a list of them. ``params`` are the equation's parameters."""


class Domain:
    """The values that an interpreter computes with: JAX arrays, unless a subclass says otherwise.

    Attributes
    ----------
    value_type
        The class of the values, which have a ``shape`` and a ``dtype``; arrays may occur as well.
        None if all values are arrays.
    """

    value_type: type | None = None

    def lift(self, x: Any, aval: Any) -> Any:
        """Return the value of a known array: an argument, a constant or a literal.

        Parameters
        ----------
        x
            The array. A literal may be a Python scalar.
        aval
            Its type.

        Returns
        -------
        value
            A value of this domain; by default the array itself.
        """
        return x

    def array(self, value: Any) -> Any:
        """Return the array by which `TRACED` selects a branch or ends a loop.

        Parameters
        ----------
        value
            A value of this domain.

        Returns
        -------
        Array
            A scalar.
        """
        return value

    def choices(self, value: Any) -> Sequence[int]:
        """Return the integers that a scalar may be, by which `STEPWISE` selects branches.

        Loops go on for 1 (true) and end for 0 (false). If there is more than one integer, every
        branch is taken and the results are joined.

        Parameters
        ----------
        value
            A value of this domain.

        Returns
        -------
        sequence of int
            At least one integer.
        """
        array = self.array(value)
        if isinstance(array, _jax.Tracer):
            raise InterpretationError(
                "A branch or a loop depends on a value that is abstract while JAX traces.\n"
                "Call the function outside of JAX's transformations, or interpret it with "
                "programs=TRACED."
            )
        return (int(array),)

    def join(self, first: Any, second: Any) -> Any:
        """Return a value that stands for either of two; needed if `choices` returns several.

        Parameters
        ----------
        first, second
            Values of this domain, of one shape and dtype.

        Returns
        -------
        value
            A value of this domain.
        """
        raise InterpretationError(
            "A branch or a loop depends on a value that is not decided.\n"
            "Define join(first, second) in the domain: a value that stands for either."
        )

    def is_value(self, x: Any) -> bool:
        """Return whether something is of the `value_type`.

        Parameters
        ----------
        x
            Any object.

        Returns
        -------
        bool
            Whether it is a value of this domain, and no array.
        """
        return self.value_type is not None and isinstance(x, self.value_type)

    def stand_in(self, x: Any) -> Any:
        """Return what a function is traced with in place of an argument.

        Parameters
        ----------
        x
            The argument: a value of this domain, or an array.

        Returns
        -------
        array or jax.ShapeDtypeStruct
            Something of the argument's shape and dtype.
        """
        if not self.is_value(x):
            return x
        if not (hasattr(x, "shape") and hasattr(x, "dtype")):
            raise InterpretationError(
                f"A value of class {type(x).__name__} has no shape or no dtype.\n"
                "Give the class both attributes: those of the array that the value stands for."
            )
        return jax.ShapeDtypeStruct(x.shape, x.dtype)


@dataclass(frozen=True)
class Context:
    """The first argument of a rule: the equation, its surroundings, and the interpreter.

    Attributes
    ----------
    interpreter
        The interpreter's name.
    domain
        The domain of its values.
    program
        The outermost program that is interpreted.
    eqn
        The equation.
    within
        The equations whose programs contain this one, from the outermost to the innermost.
    """

    interpreter: str
    domain: Domain
    program: ClosedJaxpr
    eqn: JaxprEqn
    within: tuple[Inside, ...]
    _run: Callable[[ClosedJaxpr | Jaxpr, Sequence[Any], tuple[Inside, ...]], list[Any]]

    @property
    def primitive(self) -> str:
        """The name of the equation's primitive, a string such as ``"sin"``."""
        return self.eqn.primitive.name

    @property
    def avals_in(self) -> list[Any]:
        """The types of the operands in the program."""
        return [x.aval for x in self.eqn.invars]

    @property
    def avals_out(self) -> list[Any]:
        """The types of the results in the program."""
        return [v.aval for v in self.eqn.outvars]

    def run(
        self, program: ClosedJaxpr | Jaxpr, *operands: Any, iteration: int | None = None
    ) -> list[Any]:
        """Interpret a program from the equation's parameters.

        Parameters
        ----------
        program
            The program.
        operands
            A value for each of its inputs.
        iteration
            The iteration of a loop, counted from 0, for error messages.

        Returns
        -------
        list
            A value for each of its outputs.
        """
        return self._run(program, operands, (*self.within, Inside(self.eqn, iteration)))


def bind(context: Context, *operands: Any, **params: Any) -> Any:
    """Compute what the primitive does, on arrays: the rule that leaves a primitive as it is.

    Parameters
    ----------
    context : Context
        The equation and its surroundings.
    *operands
        The values of the equation's operands.
    **params
        The parameters of the equation.

    Returns
    -------
    Array or list of Array
        The result; a list if the primitive has several.
    """
    return _jax.bind_eqn(context.eqn.replace(params=params), operands)


def refuse(context: Context, *operands: Any, **params: Any) -> NoReturn:
    """Raise a `MissingRuleError`: the default rule of interpreters that need one everywhere.

    Parameters
    ----------
    context : Context
        The equation and its surroundings.
    *operands
        The values of the equation's operands.
    **params
        The parameters of the equation.

    Raises
    ------
    MissingRuleError
        Always. It names the primitive and the line.
    """
    raise MissingRuleError(
        f"The interpreter {context.interpreter!r} has no rule for {context.primitive}.\n"
        f'Register one with @{context.interpreter}.rule("{context.primitive}"), on a function '
        "of (context, *operands, **params)."
    )


# --- The two ways to run branches and loops ------------------------------------------------


def _scan(context: Context, *operands: Any, **params: Any) -> list[Any]:
    constants, carry, arrays = parts([*operands], *_jax.scan_counts(context.eqn))

    def step(carry: list[Any], slices: list[Any]) -> tuple[list[Any], list[Any]]:
        outputs = context.run(params["jaxpr"], *constants, *carry, *slices)
        return outputs[: len(carry)], outputs[len(carry) :]

    options = {key: params[key] for key in ("length", "reverse", "unroll")}
    carry, stacked = jax.lax.scan(step, carry, arrays, **options)
    return [*carry, *stacked]


def _while(context: Context, *operands: Any, **params: Any) -> list[Any]:
    loop = while_parts(context.eqn, operands)

    def goes_on(carry: list[Any]) -> Any:
        (value,) = context.run(loop.condition, *loop.condition_constants, *carry)
        return context.domain.array(value)

    def step(carry: list[Any]) -> list[Any]:
        return context.run(loop.body, *loop.body_constants, *carry)

    return jax.lax.while_loop(goes_on, step, loop.carry)


def _cond(context: Context, which: Any, *operands: Any, **params: Any) -> list[Any]:
    index = context.domain.array(which)
    branches = [functools.partial(context.run, branch) for branch in params["branches"]]
    if not isinstance(index, _jax.Tracer):
        return branches[min(max(int(index), 0), len(branches) - 1)](*operands)
    return jax.lax.switch(jax.lax.convert_element_type(index, np.int32), branches, *operands)


TRACED: Mapping[str, PrimitiveRule] = MappingProxyType(
    {"scan": _scan, "while": _while, "cond": _cond}
)
"""Branches and loops become JAX's again, and their programs are interpreted once. Values must be
arrays, or pytrees of arrays."""

STEPWISE: Mapping[str, PrimitiveRule] = MappingProxyType({})
"""Branches and loops have no rule: iterations are interpreted one by one, on values of any kind.
Arrays are sliced and stacked by ``slice``, ``squeeze``, ``broadcast_in_dim`` and ``concatenate``
equations."""


# --- The interpreter ----------------------------------------------------------------------

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
            raise wrong_count("The jaxpr", len(closed.in_avals), len(args))
        rules = {**self._programs, **self._rules}
        evaluator = _RuleEvaluator(self.name, self.domain, rules, self._default, closed)
        pairs = zip(args, closed.in_avals, strict=True)
        return evaluator.run(closed, [evaluator.lift(x, aval) for x, aval in pairs])


@dataclass
class _RuleEvaluator(Evaluator):
    """Evaluates one program by the rules of an interpreter."""

    name: str
    domain: Domain
    rules: Mapping[str, PrimitiveRule]
    default: PrimitiveRule
    program: ClosedJaxpr

    def __post_init__(self) -> None:
        super().__init__()

    def lift(self, x: Any, aval: Any) -> Any:
        return x if self.domain.is_value(x) else self.domain.lift(x, aval)

    def enters(self, eqn: JaxprEqn) -> bool:
        return super().enters(eqn) and eqn.primitive.name not in self.rules

    def choices(self, x: Any) -> Sequence[int]:
        return self.domain.choices(x)

    def join(self, first: Any, second: Any) -> Any:
        return self.domain.join(first, second)

    def apply(self, site: Site, operands: list[Any]) -> list[Any]:
        eqn = site.eqn
        context = Context(self.name, self.domain, self.program, eqn, site.within, self.run)
        rule = self.rules.get(eqn.primitive.name, self.default)
        found = rule(context, *operands, **eqn.params)
        if not eqn.primitive.multiple_results:
            return [found]
        several, count = isinstance(found, (list, tuple)), len(eqn.outvars)
        if not several or len(found) != count:
            got = f"{len(found)} values" if several else f"one {type(found).__name__}"
            raise InterpretationError(
                f"The rule of the interpreter {self.name!r} for {context.primitive} returned "
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
                f"The interpreter {self.name!r} failed at {site.eqn.primitive.name}: "
                f"{type(error).__name__}: {error}"
            ).at(self._place(site)) from error

    def _place(self, site: Site) -> str:
        """The equation, the iterations of the loops around it, and the user's line."""
        rows = [f"  in iteration {i} of {loop}" for loop, i in iterations(site.within)]
        names = variable_names(self.program.jaxpr, {})
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
