"""Ops that are JAX functions: the rule that stages a user's function."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeVar

import jax

from jaxprgen.emit import elementwise as ew
from jaxprgen.emit.staged import staged
from jaxprgen.emit.values import Array, Value
from jaxprgen.errors import JaxprGenError, LoweringError
from jaxprgen.lowering.context import RuleContext
from jaxprgen.lowering.graph import OutputType
from jaxprgen.lowering.registry import lowers

F = TypeVar("F", bound=Callable[..., Any])


def implements(
    *op_types: type, static_argnums: Sequence[int] = (), override: bool = False
) -> Callable[[F], F]:
    """Register a JAX function that computes what an Op computes.

    The function takes one array per input of the Op, and returns an array, or a tuple of one array
    per output. Keyword-only arguments get the Op's attributes of their names, as they are when a
    program is made. For each program, JAX traces the function once per combination of attributes
    and types, and its equations become part of the program. So derivatives are those of JAX,
    including custom ones. Reports show such nodes as staged.

    Parameters
    ----------
    *op_types : type
        The Op classes; subclasses without a rule of their own are included.
    static_argnums : sequence of int
        Positions of the inputs whose values the function needs, for example because a shape depends
        on them. It gets Python scalars, or nested tuples of them, and the program is specialized on
        these values.
    override : bool
        Replace a rule or function that is already registered.

    Returns
    -------
    function
        A decorator that registers a function and returns it.

    Raises
    ------
    DuplicateRuleError
        One of the classes already has a rule, and ``override`` is false.
    LoweringError
        When a program is made: the function failed, or its results have other dtypes or ranks than
        the Op declares.

    Examples
    --------
    >>> @jaxprgen.implements(Softclip)
    ... def softclip(x, *, limit):  # The Op has an attribute `limit`.
    ...     return limit * jnp.tanh(x / limit)
    """
    positions = sorted(static_argnums)

    def register(function: F) -> F:
        attributes = _keyword_only(function)

        def rule(ctx: RuleContext, *inputs: Value) -> list[Value]:
            # A scalar Op is part of an elementwise one.
            op = ctx.op if isinstance(ctx.op, op_types) else ctx.op.scalar_op
            statics = tuple((i, _as_python(ctx.static(i))) for i in positions)
            routine = _Implementation(
                function, type(op), _options(function, op, attributes), statics
            )
            arrays = [x for i, x in enumerate(inputs) if i not in positions]
            return _checked(routine, staged(routine, *arrays), ctx.step.types)

        rule.__qualname__ = getattr(function, "__qualname__", repr(function))
        # The function is the only definition of such an Op, so constants do not need `perform`.
        lowers(*op_types, override=override, folds=False)(rule)
        return function

    return register


def lower_function(
    ctx: RuleContext, function: Callable[..., Any], inputs: Sequence[Value]
) -> list[Value]:
    """Return the outputs of a JAX function that computes a node, as `implements` does."""
    routine = _Implementation(function, type(ctx.op), (), ())
    return _checked(routine, staged(routine, *inputs), ctx.step.types)


def _keyword_only(function: Callable[..., Any]) -> tuple[tuple[str, bool], ...]:
    """Return the names of a function's keyword-only arguments, and whether they are required."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):  # A function written in C may have no signature.
        return ()
    return tuple((p.name, p.default is p.empty) for p in parameters if p.kind is p.KEYWORD_ONLY)


def _as_python(value: Array) -> Any:
    """Return an array as a Python scalar or as nested tuples, which are hashable."""
    return value.item() if not value.ndim else tuple(map(_as_python, value))


def _options(
    function: Callable[..., Any], op: Any, attributes: Sequence[tuple[str, bool]]
) -> tuple[tuple[str, Any], ...]:
    """Return the attributes of an Op that a function takes, with their values."""
    for name, is_required in attributes:
        if is_required and not hasattr(op, name):
            raise LoweringError(
                f"{_described(function, type(op))} takes {name!r} by keyword only, but the Op has "
                "no such attribute.\n"
                "Keyword-only arguments are attributes of the Op. Set the attribute, or give "
                "the argument a default."
            )
    return tuple((name, getattr(op, name)) for name, _ in attributes if hasattr(op, name))


def _described(function: Callable[..., Any], op_type: type) -> str:
    name = getattr(function, "__name__", repr(function))
    return f"The JAX function {name}, which implements {op_type.__name__},"


class _Implementation(NamedTuple):
    """A function with an Op's attributes and static inputs: a function of the other inputs."""

    function: Callable[..., Any]
    op_type: type
    options: tuple[tuple[str, Any], ...]
    statics: tuple[tuple[int, Any], ...]

    def __str__(self) -> str:
        return _described(self.function, self.op_type)

    def __call__(self, *arrays: Any) -> list[Any]:
        """Return the outputs."""
        arguments = list(arrays)
        for position, value in self.statics:
            arguments.insert(position, value)
        try:
            found = self.function(*arguments, **dict(self.options))
        except JaxprGenError:
            raise
        except Exception as error:
            raise self._failed(error) from error
        outputs: list[Any] = list(found) if isinstance(found, (list, tuple)) else [found]  # pyright: ignore[reportUnknownVariableType]
        if not jax.tree_util.all_leaves(outputs):
            raise LoweringError(
                f"{self} returned {found!r}.\n"
                "It must return an array, or a tuple of one array per output."
            )
        return outputs

    def _failed(self, error: Exception) -> LoweringError:
        text = f"{self} failed: {type(error).__name__}: {error}"
        if isinstance(error, (TypeError, IndexError)):  # Those that JAX raises of tracers.
            text += (
                "\nIf the function needs the value of an input, for example for a shape, declare "
                f"its position: @jaxprgen.implements({self.op_type.__name__}, static_argnums=…)."
            )
        return LoweringError(text)


def _checked(
    routine: _Implementation, found: list[Value], types: Sequence[OutputType | None]
) -> list[Value]:
    """Return the results if they are what the Op declares."""
    if len(found) != len(types):
        raise LoweringError(f"{routine} returned {len(found)} array(s) for {len(types)} output(s).")
    for i, (value, declared) in enumerate(zip(found, types, strict=True)):
        if declared is not None and (value.dtype, value.ndim) != declared:
            of = f" for output {i}" if len(types) > 1 else ""
            raise LoweringError(
                f"{routine} returned {value.dtype} of shape {value.shape}{of}, but the Op declares "
                f"{declared.dtype} of rank {declared.rank}.\n"
                "Convert the result with .astype and .reshape, or correct the type in the Op's "
                "make_node."
            )
    return [ew.strengthen(x) if x.atom().aval.weak_type else x for x in found]
