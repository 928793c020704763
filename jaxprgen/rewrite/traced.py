"""Patterns and replacements that are functions of arrays, which JAX traces."""

from __future__ import annotations

import functools
import inspect
import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np

from jaxprgen import _jax
from jaxprgen._jax import JaxprEqn
from jaxprgen.emit.values import Value, value_of
from jaxprgen.errors import InvalidRuleError
from jaxprgen.ir import current_builder
from jaxprgen.ir.evaluate import Evaluator, Site
from jaxprgen.ir.inner import holder_of
from jaxprgen.ir.rewriting import without_lines
from jaxprgen.rewrite.terms import Call, Function, Match, Number, Param, Rest, Term, Variable

_EXAMPLE = jax.ShapeDtypeStruct((3,), np.float32)
_SCALAR = jax.ShapeDtypeStruct((), np.float32)


class Constant:
    """Annotates the arguments of a pattern that match known numbers.

    The check and the replacement get the value of such an argument.
    """


def arguments_of(function: Callable[..., Any]) -> tuple[list[Variable | Rest], dict[str, Any]]:
    """Return a function's positional arguments as terms, and its keyword-only ones by name.

    The latter are parameters of equations; their values here are the defaults.
    """
    terms: list[Variable | Rest] = []
    params: dict[str, Any] = {}
    for name, parameter in inspect.signature(function, eval_str=True).parameters.items():
        if parameter.kind is parameter.KEYWORD_ONLY:
            params[name] = parameter.default
        elif parameter.kind is parameter.VAR_POSITIONAL:
            terms.append(Rest(name))
        else:
            terms.append(Variable(name, parameter.annotation is Constant))
    return terms, params


def traced_pattern(function: Callable[..., Any], examples: Sequence[Any] | None) -> Call:
    """Return the term of the equations to which a function traces.

    Parameters
    ----------
    function : callable
        A function of arrays; `jaxprgen.rewrite.rule` describes its arguments.
    examples : sequence of arrays or ShapeDtypeStruct, optional
        The arguments on which to trace it.

    Raises
    ------
    InvalidRuleError
        The function does not return the only result of an equation, holds an equation with several
        results, or an array of different numbers.
    """
    terms, params = arguments_of(function)
    if examples is None:
        examples = [
            _SCALAR if isinstance(x, Variable) and x.constant else _EXAMPLE
            for x in terms
            for _ in range(1 + isinstance(x, Rest))
        ]
    places = [x for x in terms for _ in range(1 + isinstance(x, Rest))]
    closed = jax.make_jaxpr(functools.partial(function, **params))(*examples)
    found = _TermReader(params).run(closed, places)
    if len(found) != 1 or not isinstance(found[0], Call):
        raise InvalidRuleError(
            f"The pattern {getattr(function, '__name__', function)} must return the only result "
            f"of an equation. It traces to\n{closed}"
        )
    return found[0]


class _TermReader(Evaluator):
    """Evaluates a program on terms, so that its output is the pattern that the program spells."""

    def __init__(self, params: Mapping[str, Any]) -> None:
        super().__init__()
        self.params = params

    def enters(self, eqn: JaxprEqn) -> bool:
        """Return whether an equation is a mere call, which a pattern does not mention."""
        holder = holder_of(eqn)
        return holder is not None and holder.only_runs

    def lift(self, x: Any, aval: Any) -> Term:
        """Return the number that a constant or a literal is."""
        return _number(np.asarray(x))

    def apply(self, site: Site, operands: list[Any]) -> list[Any]:
        """Return the term of an equation's result."""
        eqn, name = site.eqn, site.eqn.primitive.name
        if name in ("broadcast_in_dim", "convert_element_type") and type(operands[0]) is Number:
            return [operands[0]]
        if len(eqn.outvars) != 1:
            raise InvalidRuleError(f"A pattern cannot contain {name}, which has several results.")
        rest = [x for x in operands if isinstance(x, Rest)]
        operands = [x for x in operands if not isinstance(x, Rest)] + rest[:1]
        params = {
            k: self._param(k, v)
            for k, v in eqn.params.items()
            if k in self.params or not _is_natural(eqn, k)
        }
        return [Call(Function(name), tuple(operands), params)]

    def _param(self, name: str, value: Any) -> Any:
        """Return a parameter's value, or `Param` if the function has an argument for it."""
        return Param(name) if name in self.params and self.params[name] == value else value


def _is_natural(eqn: JaxprEqn, param: str) -> bool:
    """Return whether a parameter is a dtype that follows from the dtypes of operands."""
    value, types = eqn.params[param], [x.aval for x in eqn.invars]
    if not isinstance(value, np.dtype) or all(getattr(t, "dtype", None) != value for t in types):
        return False
    return _jax.is_default(eqn, param)


def _number(value: np.ndarray[Any, Any]) -> Number:
    if np.unique(value).size != 1:
        raise InvalidRuleError(
            f"A pattern cannot contain an array of different numbers, here of shape {value.shape}. "
            "Make the array an argument."
        )
    return Number(value.ravel()[0].item())


@dataclass(frozen=True)
class Traced(Term):
    """A replacement that is a function of arrays, traced on the types of the matched values."""

    function: Callable[..., Any]

    def __str__(self) -> str:
        return getattr(self.function, "__name__", str(self.function))

    def emit(self, match: Match) -> Value:
        """Trace the function, append its equations, and return its result."""
        b = current_builder()
        operands: list[Any] = []
        arguments: list[Any] = []  # A value, or a range that stands for that many operands.
        terms, names = arguments_of(self.function)
        for term in terms:
            if term.name in match.params:
                arguments.append(match.params[term.name])
                continue
            found = match.atoms[term.name]
            several = list(found) if isinstance(term, Rest) else [found]
            operands += several
            arguments.append(range(len(several)))
        params = {name: match.params[name] for name in names}

        def function(*operands: Any) -> Any:
            left = iter(operands)
            given = ([next(left) for _ in x] if type(x) is range else [x] for x in arguments)
            return self.function(*itertools.chain.from_iterable(given), **params)

        closed = jax.make_jaxpr(function)(*[x.aval for x in operands])
        (out,) = b.inline(without_lines(closed), operands)
        return value_of(out)
