"""PyMC's models as JAX functions: log-densities, their gradients, and draws."""

# pyright: reportMissingImports=false, reportAttributeAccessIssue=false
# Checks run without PyMC, too.

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal, TypeAlias

import jax
import pymc as pm
import pytensor
from pytensor.graph.replace import clone_replace

from jaxprgen._jax import ClosedJaxpr
from jaxprgen.api import compile
from jaxprgen.errors import ArgumentTypeError, UnknownNameError
from jaxprgen.export.exporting import ExportedProgram
from jaxprgen.pymc.density import density
from jaxprgen.pymc.graphs import data_of, draws, lowered
from jaxprgen.runtime.compiled import CompiledFunction
from jaxprgen.runtime.exportable import Exportable
from jaxprgen.runtime.observe import Observation
from jaxprgen.runtime.report import Report

Point = Mapping[str, Any]
"""Values by the names of variables: arrays, scalars or tracers."""
Fallback: TypeAlias = Literal["error", "callback"]
"""What to do about Ops without a rule."""


class ModelFunction:
    """A quantity of a model as a JAX function of points; `logp` and `dlogp` make it.

    It works under ``jit``, ``vmap``, ``grad`` and every other JAX transformation. Its methods are
    those of a `CompiledFunction`, and `jaxprgen.save`, `jaxprgen.debug` and `jaxprgen.inspect` take
    it: where they take arguments, give a point. Pickle it by cloudpickle, as PyMC's models.

    Parameters
    ----------
    point : dict of str to array
        A value for each of ``names``. Values of other variables of the model are ignored.
    data : dict of str to array, optional
        Values that replace those of `pymc.Data` containers and dimension lengths, by name. They may
        be tracers. By default the containers' present values count.

    Raises
    ------
    ArgumentTypeError
        The point is not a dictionary.
    UnknownNameError
        The point lacks a variable, or a given name is unknown to the model.

    Attributes
    ----------
    model
        The model.
    names : tuple of str
        The names of the variables that a point must hold.
    data_names : tuple of str
        The names that ``data`` may hold.
    """

    def __init__(
        self,
        model: Any,
        inputs: Mapping[str, Any],
        outputs: Any,
        name: str,
        fallback: Fallback = "error",
    ) -> None:
        self.model = model
        self.names = tuple(inputs)
        self._inputs = list(inputs.values())
        self._outputs = lowered(outputs, check_bounds=model.check_bounds)
        self._data = data_of(self._outputs)
        self.data_names = tuple(self._data)
        self._name = name
        self._fallback: Fallback = fallback
        self._compiled: dict[tuple[str, ...], CompiledFunction] = {}

    def __repr__(self) -> str:
        return (
            f"<jaxprgen.pymc.{self._name}: function of {', '.join(self.names) or 'no variables'}>"
        )

    def __call__(self, *args: Any, **named: Any) -> Any:
        """Return the value at a point."""
        f, values = self._given(*args, **named)
        return f(*values)

    def compiled(self, *data: str) -> CompiledFunction:
        """Return the function of the variables in the order of ``names``, then of these data.

        Parameters
        ----------
        *data : str
            The names of data that are arguments; others have the values that their containers hold.

        Returns
        -------
        CompiledFunction
            The function, always the same one for the same names.
        """
        if data not in self._compiled:
            inputs = [*self._inputs, *(self._data[name] for name in data)]
            self._compiled[data] = compile(
                inputs, self._outputs, name=self._name, fallback=self._fallback
            )
        return self._compiled[data]

    def jaxpr(self, *args: Any, **named: Any) -> ClosedJaxpr:
        """Return the program for a point, as `CompiledFunction.jaxpr` does."""
        f, values = self._given(*args, **named)
        return f.jaxpr(*values)

    def lower(self, *args: Any, **named: Any) -> jax.stages.Lowered:
        """Return the program as JAX lowers it, as `CompiledFunction.lower` does."""
        f, values = self._given(*args, **named)
        return f.lower(*values)

    def report(self, *args: Any, emitted: bool = False, **named: Any) -> Report:
        """Report what became of every node, as `CompiledFunction.report` does."""
        f, values = self._given(*args, **named)
        return f.report(*values, emitted=emitted)

    def observe(self, *args: Any, **named: Any) -> Observation:
        """Show the program beside its graph, as `CompiledFunction.observe` does."""
        f, values = self._given(*args, **named)
        return f.observe(*values)

    def export(self, *args: Any, **options: Any) -> ExportedProgram:
        """Export the program, as `CompiledFunction.export` does; its options come by name.

        The exported program, like a file of `jaxprgen.save`, takes the values of a point in the
        order of ``names``.
        """
        f, values = self._given(*args)
        return f.export(*values, **options)

    def exportable(
        self, specs: Sequence[Any], named: Mapping[str, Any], constraints: Sequence[str]
    ) -> Exportable:
        """Return what there is to export of this function at a point, for `jaxprgen.save`."""
        f, values = self._given(*specs, **named)
        return f.exportable(values, {}, constraints)

    def accepted(self, args: Sequence[Any], named: Mapping[str, Any] | None = None) -> list[Any]:
        """Return the values of a point as programs take them, for `jaxprgen.debug`."""
        f, values = self._given(*args, **(named or {}))
        return f.accepted(values)

    def arranged(self, results: Sequence[Any]) -> Any:
        """Return a program's results as a call gives them."""
        return self.compiled().arranged(results)

    def _given(
        self, point: Point | None = None, data: Point | None = None
    ) -> tuple[CompiledFunction, Sequence[Any]]:
        """Return the function of arrays that takes such arguments, and its arguments."""
        return self._at((), point, data)

    def _at(
        self, key: tuple[Any, ...], point: Any, data: Any
    ) -> tuple[CompiledFunction, Sequence[Any]]:
        if not isinstance(point, Mapping) or not isinstance(data or {}, Mapping):
            given = point if not isinstance(point, Mapping) else data
            kind = "nothing" if given is None else type(given).__name__
            raise ArgumentTypeError(
                f"jaxprgen.pymc.{self._name} takes values by their names, got {kind}.\n"
                f"Pass a dictionary with {_listed(self.names)}, such as model.initial_point()."
            )
        if missing := [name for name in self.names if name not in point]:
            raise self._unknown(f"The point lacks {_listed(missing)}", self.names, point)
        if extra := [n for n in point if n not in self.names and n not in self.model.named_vars]:
            raise self._unknown(f"The model has no variable {_listed(extra)}", self.names, point)
        data = data or {}
        if extra := [name for name in data if name not in self._data]:
            raise self._unknown(f"There is no data {_listed(extra)}", self.data_names, data)
        values = [*(point[name] for name in self.names), *data.values()]
        return self.compiled(*data), [*key, *values]

    def _unknown(self, what: str, takes: Iterable[str], given: Iterable[str]) -> UnknownNameError:
        return UnknownNameError(
            f"jaxprgen.pymc.{self._name}: {what}.\n"
            f"  It takes {_listed(takes)}; given are {_listed(given)}."
        )


class RandomModelFunction(ModelFunction):
    """Draws from a model as a JAX function of a key; `prior` and `posterior_predictive` make it.

    One call makes one draw. Use `jax.vmap` over keys, and points, for many. `logp` and `dlogp` make
    it of a model whose data are drawn, as by `pymc.Minibatch`.

    Parameters
    ----------
    key : key array
        A PRNG key, typed or legacy.
    point, data
        As for `ModelFunction`; the point may be left out if ``names`` is empty.
    """

    def _given(  # pyright: ignore[reportIncompatibleMethodOverride]
        self, key: Any = None, point: Point | None = None, data: Point | None = None
    ) -> tuple[CompiledFunction, Sequence[Any]]:
        if key is None or isinstance(key, Mapping):
            raise ArgumentTypeError(
                f"jaxprgen.pymc.{self._name} draws random numbers: its first argument is a key, "
                "jax.random.key(seed)."
            )
        return self._at((key,) * self._draws, {} if point is None else point, data)

    @functools.cached_property
    def _draws(self) -> bool:
        """Whether the graph draws random numbers; if not, it takes no key."""
        return draws(self._outputs)


def _listed(names: Iterable[str]) -> str:
    return ", ".join(repr(name) for name in names) or "nothing"


def _model(model: Any) -> Any:
    """Return a model, by default the one of the surrounding ``with`` block."""
    if model is not None and not isinstance(model, pm.Model):
        raise ArgumentTypeError(f"Expected a pymc.Model, got {type(model).__name__}.")
    return pm.modelcontext(model)


def _named(model: Any, variables: Iterable[Any]) -> list[Any]:
    """Return variables of a model, which may be given by their names."""
    known = model.named_vars
    if unknown := [x for x in variables if isinstance(x, str) and x not in known]:
        raise UnknownNameError(
            f"The model has no variable {_listed(unknown)}; it has {_listed(known)}."
        )
    return [known[x] if isinstance(x, str) else x for x in variables]


def logp(
    model: Any = None,
    vars: Sequence[Any] | None = None,
    *,
    jacobian: bool = True,
    sum: bool = True,
    fallback: Fallback = "error",
) -> ModelFunction:
    """Return the log-density of a model as a JAX function of points.

    A point holds the model's value variables, which are unconstrained: `Model.initial_point` makes
    one, and ``model.value_vars`` lists them. The value variable of ``sigma ~ HalfNormal`` is
    ``sigma_log__``. Invalid parameters of distributions give minus infinity, as in PyMC.

    Parameters
    ----------
    model : pymc.Model, optional
        The model; by default the one of the surrounding ``with`` block.
    vars : sequence of variables or str, optional
        The random variables and potentials to include; by default all.
    jacobian : bool
        Include the log-determinants of the transformations.
    sum : bool
        Return the sum. Otherwise the function returns a dictionary of the terms of each variable,
        by the variables' names.
    fallback : {"error", "callback"}
        As for `jaxprgen.compile`.

    Returns
    -------
    ModelFunction
        A function ``f(point, data=None)``. If the model draws its data, as `pymc.Minibatch` does, a
        `RandomModelFunction`, ``f(key, point, data=None)``.

    Examples
    --------
    ``jax.value_and_grad(jaxprgen.pymc.logp(model))(model.initial_point())``
    """
    model = _model(model)
    if vars is None:
        vars = [*model.free_RVs, *model.observed_RVs, *model.potentials]
    vars = _named(model, vars)
    graph = density(model, vars, jacobian=jacobian, sum=sum)
    outputs = graph if sum else {v.name: term for v, term in zip(vars, graph, strict=True)}
    return _of_points(model, outputs, "logp", fallback)


def dlogp(
    model: Any = None,
    vars: Sequence[Any] | None = None,
    *,
    jacobian: bool = True,
    fallback: Fallback = "error",
) -> ModelFunction:
    """Return the gradient of the log-density, by PyTensor, as a JAX function of points.

    ``jax.grad(jaxprgen.pymc.logp(model))`` has the same value.

    Parameters
    ----------
    model : pymc.Model, optional
        The model; by default the one of the surrounding ``with`` block.
    vars : sequence of variables or str, optional
        The random variables to differentiate with respect to; by default all continuous ones.
    jacobian : bool
        Include the log-determinants of the transformations.
    fallback : {"error", "callback"}
        As for `jaxprgen.compile`.

    Returns
    -------
    ModelFunction
        A function ``f(point, data=None)`` that returns a dictionary of arrays by the names of value
        variables. Points, and a key where there is one, are those of `logp`.
    """
    model = _model(model)
    values = model.rvs_to_values
    wrt = model.continuous_value_vars if vars is None else [values[v] for v in _named(model, vars)]
    # Not after PyTensor's rewrites, as in PyMC: they make some gradients NaN.
    total = lowered(model.logp(jacobian=jacobian))
    slopes = pytensor.grad(total, wrt, disconnected_inputs="ignore")
    outputs = {v.name: slope for v, slope in zip(wrt, slopes, strict=True)}
    return _of_points(model, outputs, "dlogp", fallback)


def _of_points(model: Any, outputs: Any, name: str, fallback: Fallback) -> ModelFunction:
    """Return outputs as a function of value variables, after a key if the graph draws."""
    kind = RandomModelFunction if draws(outputs) else ModelFunction
    return kind(model, {v.name: v for v in model.value_vars}, outputs, name, fallback)


def prior(
    model: Any = None,
    var_names: Sequence[str] | None = None,
    *,
    fallback: Fallback = "error",
) -> RandomModelFunction:
    """Return a JAX function that draws from the prior, and the prior predictive, distribution.

    Parameters
    ----------
    model : pymc.Model, optional
        The model; by default the one of the surrounding ``with`` block.
    var_names : sequence of str, optional
        The variables to return; by default all random variables and deterministics. Names may be
        those of unobserved, observed and deterministic variables.
    fallback : {"error", "callback"}
        As for `jaxprgen.compile`.

    Returns
    -------
    RandomModelFunction
        A function ``f(key, data=None)`` of a PRNG key, which returns a dictionary of arrays by the
        variables' names. ``jax.vmap(f)(jax.random.split(key, 500))`` makes 500 draws.
    """
    model = _model(model)
    names = var_names or [v.name for v in [*model.basic_RVs, *model.deterministics]]
    outputs = dict(zip(names, _named(model, names), strict=True))
    return _Prior(model, {}, outputs, "prior", fallback)


class _Prior(RandomModelFunction):
    """Draws from the prior, which take no point."""

    def _given(  # pyright: ignore[reportIncompatibleMethodOverride]
        self, key: Any = None, data: Point | None = None
    ) -> tuple[CompiledFunction, Sequence[Any]]:
        return super()._given(key, None, data)


def posterior_predictive(
    model: Any = None,
    var_names: Sequence[str] | None = None,
    *,
    fallback: Fallback = "error",
) -> RandomModelFunction:
    """Return a JAX function that draws observations for given values of the free variables.

    Parameters
    ----------
    model : pymc.Model, optional
        The model; by default the one of the surrounding ``with`` block.
    var_names : sequence of str, optional
        The variables to return; by default the observed ones. Deterministics may be among them.
    fallback : {"error", "callback"}
        As for `jaxprgen.compile`.

    Returns
    -------
    RandomModelFunction
        A function ``f(key, point, data=None)``. The point holds the free random variables by their
        own names, such as "sigma", not those of value variables, as a posterior does. The function
        returns a dictionary of arrays by the variables' names. Use `jax.vmap` over keys and the
        draws of a posterior.
    """
    model = _model(model)
    names = var_names or [v.name for v in model.observed_RVs]
    inputs = {v.name: v.type(name=v.name) for v in model.free_RVs}
    given = {v: inputs[v.name] for v in model.free_RVs}
    outputs = clone_replace(_named(model, names), replace=given)
    named = dict(zip(names, outputs, strict=True))
    return RandomModelFunction(model, inputs, named, "posterior_predictive", fallback)
