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

from jaxprgen import _jax
from jaxprgen._jax import Literal
from jaxprgen.emit.values import Value, value_of
from jaxprgen.errors import InvalidRuleError
from jaxprgen.ir import current_builder
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
    found = _Reading(params).outputs(closed, places)
    if len(found) != 1 or not isinstance(found[0], Call):
        raise InvalidRuleError(
            f"The pattern {getattr(function, '__name__', function)} is not the one result of an "
            f"equation: it traces to\n{closed}"
        )
    return found[0]


class _Reading:
    """From equations to terms."""

    def __init__(self, params: Mapping[str, Any]) -> None:
        self.params = params

    def outputs(self, closed: Any, operands: Sequence[Term]) -> list[Term]:
        """What a program gives of terms."""
        jaxpr = closed.jaxpr
        terms: dict[Any, Term] = dict(zip(jaxpr.invars, operands, strict=True))
        for v, value in zip(jaxpr.constvars, closed.consts, strict=True):
            terms[v] = _number(np.asarray(value))
        for eqn in jaxpr.eqns:
            given = [_term(terms, x) for x in eqn.invars]
            terms.update(zip(eqn.outvars, self._results(eqn, given), strict=True))
        return [_term(terms, x) for x in jaxpr.outvars]

    def _results(self, eqn: Any, operands: list[Term]) -> list[Term]:
        name = eqn.primitive.name
        if name == "jit":
            return self.outputs(_jax.close(eqn.params["jaxpr"]), operands)
        if name in ("broadcast_in_dim", "convert_element_type") and type(operands[0]) is Number:
            return [operands[0]]
        if len(eqn.outvars) != 1:
            raise InvalidRuleError(f"A pattern cannot hold {name}, which has several results.")
        rest = [x for x in operands if isinstance(x, Rest)]
        operands = [x for x in operands if not isinstance(x, Rest)] + rest[:1]
        params = {k: self._param(k, value) for k, value in eqn.params.items()}
        return [Call(Function(name), tuple(operands), params)]

    def _param(self, name: str, value: Any) -> Any:
        """A parameter, which may be anything if it is one that the function names."""
        return Param(name) if name in self.params and self.params[name] == value else value


def _term(terms: Mapping[Any, Term], x: Any) -> Term:
    return _number(np.asarray(x.val)) if isinstance(x, Literal) else terms[x]


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
