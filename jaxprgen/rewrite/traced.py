"""Patterns and replacements that are written as functions of arrays."""

from __future__ import annotations

import functools
import inspect
import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np

from jaxprgen._jax import JaxprEqn
from jaxprgen.emit.values import Value, value_of
from jaxprgen.errors import InvalidRuleError
from jaxprgen.ir import current_builder
from jaxprgen.ir.evaluate import Evaluator, Site
from jaxprgen.ir.inner import holder_of
from jaxprgen.rewrite.terms import Call, Function, Match, Number, Param, Rest, Term, Variable

_EXAMPLE = jax.ShapeDtypeStruct((3,), np.float32)
_SCALAR = jax.ShapeDtypeStruct((), np.float32)


class Constant:
    """Annotates arguments of a pattern that are known numbers, whose values are told."""


def _arguments(function: Callable[..., Any]) -> tuple[list[Variable | Rest], dict[str, Any]]:
    """The terms that a function is of, and its parameters with their examples."""
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
    """What a function traces to, as a term."""
    terms, params = _arguments(function)
    if examples is None:
        examples = [
            _SCALAR if isinstance(x, Variable) and x.constant else _EXAMPLE
            for x in terms
            for _ in range(1 + isinstance(x, Rest))
        ]
    places = [x for x in terms for _ in range(1 + isinstance(x, Rest))]
    closed = jax.make_jaxpr(functools.partial(function, **params))(*examples)
    found = _Reading(params).run(closed, places)
    if len(found) != 1 or not isinstance(found[0], Call):
        raise InvalidRuleError(
            f"The pattern {getattr(function, '__name__', function)} is not the one result of an "
            f"equation: it traces to\n{closed}"
        )
    return found[0]


class _Reading(Evaluator):
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
            raise InvalidRuleError(f"A pattern cannot hold {name}, which has several results.")
        rest = [x for x in operands if isinstance(x, Rest)]
        operands = [x for x in operands if not isinstance(x, Rest)] + rest[:1]
        params = {k: self._param(k, value) for k, value in eqn.params.items()}
        return [Call(Function(name), tuple(operands), params)]

    def _param(self, name: str, value: Any) -> Any:
        """Return a parameter, or its name if the function lets it be anything."""
        return Param(name) if name in self.params and self.params[name] == value else value


def _number(value: np.ndarray[Any, Any]) -> Number:
    if np.unique(value).size != 1:
        raise InvalidRuleError("A pattern cannot hold an array of different numbers.")
    return Number(value.ravel()[0].item())


@dataclass(frozen=True)
class Traced(Term):
    """What a function of arrays computes, traced on the operands found."""

    function: Callable[..., Any]

    def __str__(self) -> str:
        return getattr(self.function, "__name__", str(self.function))

    def emit(self, match: Match) -> Value:
        """The equations of the function."""
        b = current_builder()
        operands: list[Any] = []
        arguments: list[Any] = []  # Numbers; of operands how many there are.
        terms, names = _arguments(self.function)
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
        (out,) = b.inline(closed, operands)
        return value_of(out)
