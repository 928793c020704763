"""The log-density of a model as a graph.

PyMC derives densities from a copy of the whole model that it rewrites, and copies all that comes
before a variable once for each variable. Most variables need no rewriting. Here each term is the
density that PyMC has for the distribution, one graph for all variables of a kind, and one
substitution puts values in place of random variables. Other models take PyMC's way.
"""

# pyright: reportMissingImports=false, reportAttributeAccessIssue=false
# Checks run without PyMC, too.

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from pymc.distributions.distribution import SymbolicRandomVariable
from pymc.logprob.abstract import MeasurableOp, _logprob
from pymc.pytensorf import constant_fold
from pytensor.graph.basic import Constant, Variable
from pytensor.graph.traversal import ancestors, graph_inputs
from pytensor.tensor import TensorVariable
from pytensor.tensor.math import variadic_add
from pytensor.tensor.random.op import RandomVariable


class _Term(NamedTuple):
    """The log-density of one variable, and the variable's value on its own scale."""

    density: Any
    value: Any


class _NotPlainError(Exception):
    """A variable needs what PyMC's rewrites do."""


def density(model: Any, variables: Sequence[Any], *, jacobian: bool, sum: bool) -> Any:
    """Return the log-density of variables of a model, as `pymc.Model.logp` does.

    Parameters
    ----------
    model : pymc.Model
        The model.
    variables : sequence of variables
        Random variables and potentials.
    jacobian : bool
        Include the log-determinants of the transformations.
    sum : bool
        Return the sum, otherwise a list of the terms.
    """
    try:
        terms = _plain(model, variables, jacobian)
    except (_NotPlainError, NotImplementedError):
        return model.logp(vars=list(variables), jacobian=jacobian, sum=sum)
    if not sum:
        return terms
    total = variadic_add(*map(_sum, terms))
    total.name = "__logp" if jacobian else "__logp_nojac"
    return total


def _sum(term: Any) -> Any:
    """Return the sum of a term, with the term's line."""
    if not term.ndim:
        return term
    total = term.sum()
    total.tag.trace = getattr(term.tag, "trace", None)
    return total


def _plain(model: Any, variables: Sequence[Any], jacobian: bool) -> list[Any]:
    """Return the terms of variables.

    Raises
    ------
    _NotPlainError
        A term is not the density of the variable's own distribution.
    """
    rvs = model.basic_RVs
    nodes = {rv.owner for rv in rvs}
    if len(nodes) < len(rvs) or not all(map(_has_density, rvs)):
        raise _NotPlainError
    # PyMC copies the distributions that are parameters: copies of variables would not be replaced.
    inner = [x for rv in rvs for x in rv.owner.inputs if _is_distribution(x, nodes)]
    stand_ins = {rv: rv.type() for rv in rvs} if inner else {}
    own = dict(zip(inner, substituted(inner, stand_ins), strict=True))
    kinds: dict[Any, tuple[list[Any], _Term]] = {}
    terms: dict[Any, _Term] = {}
    for rv in rvs:
        value, transform = model.rvs_to_values[rv], model.rvs_to_transforms[rv]
        parameters = [own[x] if x in own else _folded(x) for x in rv.owner.inputs]
        kind = rv.owner.op, transform, value.type, *(_kind(x, nodes) for x in parameters)
        if kind not in kinds:
            # Fresh variables: what replaces them may contain the first variable's parameters.
            inputs = [value.type(), *(x if _is_kept(x, nodes) else x.type() for x in parameters)]
            kinds[kind] = inputs, _term(rv.owner.op, inputs, transform, jacobian)
        inputs, term = kinds[kind]
        pairs = zip(inputs, [value, *parameters], strict=True)
        given = {x: y for x, y in pairs if x is not y}
        terms[rv] = _Term(*substituted(term, given))
        _attribute(terms[rv], rv, [value, *parameters])
        if terms[rv].density.owner:
            terms[rv].density.name = f"{rv.name}_logprob"
    wanted = [terms[v].density if v in terms else v for v in variables]
    values = {rv: term.value for rv, term in terms.items()}
    found = substituted(wanted, values | {v: values[rv] for rv, v in stand_ins.items()})
    if any(v.owner and isinstance(v.owner.op, MeasurableOp) for v in ancestors(found)):
        raise _NotPlainError
    return found


def _attribute(term: _Term, rv: Any, operands: Sequence[Any]) -> None:
    """Give what a term adds to its operands the user's line of the random variable."""
    trace = getattr(rv.tag, "trace", None)
    for v in ancestors(term, blockers=operands) if trace else ():
        if v.owner:
            v.tag.trace = trace


def _has_density(rv: Any) -> bool:
    return isinstance(rv, TensorVariable) and isinstance(
        rv.owner.op, RandomVariable | SymbolicRandomVariable
    )


def _folded(parameter: Any) -> Any:
    """Return a parameter that constants alone decide as one: densities look at constants."""
    node = parameter.owner
    if not node or isinstance(node.op, MeasurableOp):
        return parameter
    if not all(isinstance(x, Constant) for x in graph_inputs([parameter])):
        return parameter
    (value,) = constant_fold([parameter], raise_not_constant=False)
    is_folded = not isinstance(value, Variable)
    return parameter.type.constant_type(parameter.type, value) if is_folded else value


def _kind(parameter: Any, own: Container[Any]) -> Any:
    """Return a key that parameters share if one graph serves them: for a constant its value."""
    if isinstance(parameter, Constant):
        return parameter.signature()
    return parameter if _is_kept(parameter, own) else parameter.type


def _is_kept(parameter: Any, own: Container[Any]) -> bool:
    """Return whether a density looks at what a parameter is: a constant, or a distribution.

    Variables of the model, which the nodes in ``own`` compute, are numbers to others.
    """
    return isinstance(parameter, Constant) or _is_distribution(parameter, own)


def _is_distribution(parameter: Any, own: Container[Any]) -> bool:
    node = parameter.owner
    return bool(node and isinstance(node.op, MeasurableOp) and node not in own)


def _term(op: Any, inputs: Sequence[Any], transform: Any, jacobian: bool) -> _Term:
    """Return the term of a distribution at ``inputs``, a value and parameters."""
    value, *parameters = inputs
    if transform is None:
        return _Term(_logprob(op, (value,), *parameters), value)
    own = transform.backward(value, *parameters)
    density = _logprob(op, (own,), *parameters)
    slope = transform.log_jac_det(value, *parameters)
    if slope.ndim < density.ndim:  # A transform of vectors joins what was independent.
        density = density.sum(axis=tuple(range(slope.ndim - density.ndim, 0)))
    if slope.ndim > density.ndim or slope.type.broadcastable != density.type.broadcastable:
        raise _NotPlainError
    return _Term(density + slope if jacobian else density, own)


def substituted(outputs: Iterable[Any], given: Mapping[Any, Any]) -> list[Any]:
    """Return graphs in which expressions replace variables, also inside of these expressions.

    Each node is copied once, and only if something before it changes.
    """
    done: dict[Any, Any] = {}
    outputs = list(outputs)
    waiting = list(outputs)
    while waiting:
        v = waiting[-1]
        node = None if v in given else v.owner
        before = node.inputs if node else [given[v]] if v in given else []
        missing = [x for x in before if x not in done]
        if v in done:
            waiting.pop()
        elif missing:
            waiting += missing
        elif node is None:
            done[v] = done[before[0]] if before else v
        else:
            new = [done[x] for x in before]
            changed = any(x is not y for x, y in zip(new, before, strict=True))
            made = node.clone_with_new_inputs(new) if changed else node
            found = zip(node.outputs, made.outputs, strict=True)
            done.update((old, x) for old, x in found if old not in given)
    return [done[v] for v in outputs]
