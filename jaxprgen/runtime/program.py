"""One emitted program, the data beside it, and the ways in which it runs."""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

import jax
import numpy as np

from jaxprgen import _jax
from jaxprgen._jax import ClosedJaxpr, JaxprEqn
from jaxprgen.arguments.sparse import as_dictionaries, grouped, jax_matrix
from jaxprgen.emit.values import Array
from jaxprgen.errors import ArgumentTypeError, FailedAssertionError, JaxprGenError
from jaxprgen.graphs.shardings import to_device
from jaxprgen.ir import canonical_dtype
from jaxprgen.ir.binding_times import Stages
from jaxprgen.lowering.portable import portable
from jaxprgen.passes import Pass, Pipeline
from jaxprgen.runtime.prepared import MEMORY_IN_TRACES, Prepared, stages_of
from jaxprgen.texts import visible

Arrays: TypeAlias = Sequence[Any]
CompilerOption: TypeAlias = str | bool | int | float | bytes
"""The value of an XLA option; bytes are a profile for it."""

_SMALL = 1 << 14
"""Bytes up to which an array is a constant of the StableHLO.

Each array that a call hands over instead costs the call a microsecond. Larger ones would fill the
StableHLO and keep XLA busy.
"""


class Options(NamedTuple):
    """The options of a compiled function.

    Attributes
    ----------
    name
        The function's name.
    checks
        Whether run-time checks are part of its programs.
    passes
        The passes that rewrite its programs.
    compiler_options
        Names and values of XLA options, sorted by name: equal options are equal keys of caches,
        the one that JAX keeps on disk among them.
    results
        The pytree structure of the results. None stands for one result alone, or several as a
        tuple.
    matrices
        The formats of the results that are sparse matrices, by position.
    parts_from
        The position from which on these are given as `jaxprgen.arguments.sparse.MatrixParts`; None
        if all are matrices of `jax.experimental.sparse`.
    """

    name: str
    checks: bool
    passes: Pipeline
    compiler_options: tuple[tuple[str, CompilerOption], ...]
    results: Any = None
    matrices: tuple[tuple[int, str], ...] = ()
    parts_from: int | None = None

    def __reduce__(self) -> Any:
        passes = portable(self.passes, f"One of {self.passes}")
        return Options, tuple(self._replace(passes=passes))

    def __deepcopy__(self, memo: dict[int, Any]) -> Options:
        return self

    def jit(self, function: Any, **how: Any) -> Any:
        """Return ``jax.jit`` of a function, with the options of XLA."""
        return jax.jit(function, compiler_options=dict(self.compiler_options) or None, **how)

    def arranged(self, results: Sequence[Any]) -> Any:
        """Return the results of a program as a call gives them."""
        if self.matrices:
            formats = dict(self.matrices)
            results = grouped(results, formats)
            for i in formats:
                if self.parts_from is None or i < self.parts_from:
                    results[i] = jax_matrix(results[i], formats[i])
        if self.results is not None:
            return jax.tree.unflatten(self.results, results)
        return results[0] if len(results) == 1 else tuple(results)

    def results_tree(self, count: int) -> Any:
        """Return the pytree structure of this many results as an exported program gives them.

        A matrix is a dictionary of its arrays.
        """
        options = self._replace(parts_from=0)
        return jax.tree.structure(as_dictionaries(options.arranged(list(range(count)))))


def options_of(
    name: str,
    checks: bool,
    passes: Sequence[Pass],
    compiler_options: Mapping[Any, Any] | None,
    results: Any = None,
) -> Options:
    """Return the options that a user gives.

    Raises
    ------
    ArgumentTypeError
        ``passes`` is not a sequence of passes, or an XLA option has a type that no option has. XLA
        itself refuses unknown names.
    """
    given = dict(compiler_options or {})
    for option, value in given.items():
        if not (isinstance(option, str) and isinstance(value, CompilerOption)):
            raise ArgumentTypeError(
                "compiler_options maps names of XLA options to strings, numbers or booleans; got "
                f"{option!r}: {value!r}."
            )
    chosen = tuple(sorted(given.items()))
    return Options(visible(name, None), checks, Pipeline(passes), chosen, results)


def calls_back(fallback: str) -> bool:
    """Return whether the option ``fallback`` asks for callbacks."""
    if fallback not in ("error", "callback"):
        raise ArgumentTypeError(f'fallback must be "error" or "callback", got {fallback!r}.')
    return fallback == "callback"


class Program:
    """One program, emitted for one kind of arguments.

    Its hidden arguments come before the arguments of a call: constants too large for the
    StableHLO, and the values of shared variables.

    Parameters
    ----------
    closed
        The program. Its inputs are the arguments; its constants are data known while emitting.
    shared
        The arrays among the constants that stand for the values of shared variables.
    options
        The options of the compiled function.
    values
        The value of each variable of the plan, by place, if the program is observed.
    seconds
        The time that emitting took, and the passes, by these names.
    by_types
        Whether the types of arguments decide that this is the program of a call without checks.
    data
        The positions of arguments that seldom change from call to call. With None, all of the
        program is computed in each call.

    Attributes
    ----------
    large : list of array
        The large constants.
    by_types : bool
        Whether the types of arguments decide that this is the program of a call.
    has_checks : bool
        Whether it has run-time checks.
    """

    def __init__(
        self,
        closed: ClosedJaxpr,
        shared: Sequence[Array],
        options: Options,
        values: Sequence[Any] | None,
        seconds: Mapping[str, float],
        *,
        by_types: bool,
        data: Collection[int] | None = (),
    ) -> None:
        self.closed_jaxpr = closed
        self._data = data
        self.values = values
        self.seconds = seconds
        self.has_checks = _jax.has_checks(closed)
        self.by_types = by_types and not self.has_checks
        self._options = options
        self._shared = position = {id(array): i for i, array in enumerate(shared)}
        # Shared variables last, so that equal programs look the same to JAX's caches.
        hoisted, constants = _jax.hoist_constants(closed, lambda c: position.get(id(c), -1))
        self.large = [c for c in constants if id(c) not in position and not is_small(c)]
        self._params = _jax.jit_params(hoisted, options.name)
        # For each hidden operand the position of a shared variable, a small array itself, or None
        # for the next of the large constants.
        self._sources = [
            position[id(c)] if id(c) in position else _narrow(c) if is_small(c) else None
            for c in constants
        ]

    @functools.cached_property
    def _stages(self) -> Stages | None:
        """The program in two stages, if calls are shorter for it."""
        cost, count = self._options.passes.cost, len(self._sources)
        is_whole = self.has_checks or any(map(_jax.is_on_several_devices, self.large))
        if cost is None or self._data is None or is_whole:
            return None
        hoisted = self._params["jaxpr"]
        data = {*range(count), *(count + i for i in self._data)}
        return stages_of(hoisted, {hoisted.jaxpr.invars[i] for i in data}, cost)

    @functools.cached_property
    def prepared(self) -> Prepared | None:
        """What data decide; None if the program has one stage."""
        if self._stages is None:
            return None
        large = iter(self.large)
        sources = [next(large) if s is None else s for s in self._sources]
        count, more = len(sources), len(self._shared) - len(sources)
        sources += [more + i for i in range(count, len(self._params["jaxpr"].jaxpr.invars))]
        read = [sources[i] for i in self._stages.read]
        options = self._options
        return Prepared(self._stages.first, read, f"{options.name}_data", options.jit)

    def values_of(self, shared: Sequence[Any], operands: Sequence[Any]) -> Sequence[Any] | None:
        """Return what data decide, or None if that is part of each call."""
        return self.prepared and self.prepared.values([*shared, *operands])

    def types_decided(self) -> list[jax.ShapeDtypeStruct]:
        """Return the types of what data decide apart from calls."""
        avals = self.prepared.first.out_avals if self.prepared else ()
        return [jax.ShapeDtypeStruct(x.shape, x.dtype, weak_type=x.weak_type) for x in avals]

    @functools.cached_property
    def runs_through(self) -> bool:
        """Whether nothing can end it before its end: neither a check nor Python code."""
        closed = self.closed_jaxpr
        return not self.has_checks and not any(map(calls_python, closed.jaxpr.eqns))

    def with_values(self, shared: Sequence[Any]) -> ClosedJaxpr:
        """Return the program with these values of shared variables among its constants."""
        closed, position = self.closed_jaxpr, self._shared
        if not position:
            return closed
        # Views, because one array may be the value of two variables.
        values = [array.view() for array in shared]
        constants = [values[position[id(c)]] if id(c) in position else c for c in closed.consts]
        return ClosedJaxpr(closed.jaxpr, constants)

    def call(self, large: Arrays, shared: Arrays, operands: Arrays, decided: Any = None) -> Any:
        """Run the program, or record it as one ``jit`` equation in a trace.

        Outside of a trace JAX calls this to find the equation that made a NaN
        (``jax_debug_nans``), or under `jax.disable_jit`; then equations run one by one.

        Parameters
        ----------
        large, shared, operands
            The large constants, the values of all shared variables, and the arguments.
        decided
            What data decide, or None to compute it.

        Returns
        -------
        Any
            The results as a call gives them; with checks, after the first error that they find.
        """
        run = _jax.checked(self.step_through) if self.has_checks else self.step_through
        return run(large, shared, operands, decided)

    def step_through(
        self, large: Arrays, shared: Arrays, operands: Arrays, decided: Arrays | None = None
    ) -> Any:
        """Do what `call` does, without checks."""
        params = self._params if decided is None else self._second_params
        given = [*self._hidden(large, shared), *operands, *(decided or ())]
        if _jax.trace_state_clean():
            return self._options.arranged(_jax.eval_jaxpr(params["jaxpr"], given))
        return self._options.arranged(_bind(params, given))

    @functools.cached_property
    def _second_params(self) -> dict[str, Any]:
        assert self._stages is not None
        params = _jax.jit_params(self._stages.second, self._options.name)
        return {**params, "ctx_mesh": self._params["ctx_mesh"]}

    def bind(self, shared: Sequence[Any], operands: Sequence[Any]) -> Any:
        """Record the program as one ``jit`` equation in the trace of the operands' tracers.

        Its checks are left to `jax.experimental.checkify`.
        """
        fits = self.prepared is not None and self.prepared.nbytes <= MEMORY_IN_TRACES
        decided = self.values_of(shared, operands) if fits else None
        params = self._params if decided is None else self._second_params
        params = {**params, "compiler_options_kvs": self._options.compiler_options}
        given = [*self._hidden(to_device(self.large), shared), *operands, *(decided or ())]
        return self._options.arranged(_bind(params, given))

    def flat(self) -> tuple[list[Array], Callable[..., list[Any]]]:
        """Return the large constants, and the program as a function without hidden arguments.

        It takes the arguments of a call, then the large constants and the values of the shared
        variables, and returns its results in a list.
        """
        count, end = len(self.large), len(self.closed_jaxpr.jaxpr.invars)

        def function(*given: Any) -> list[Any]:
            hidden = self._hidden(given[end : end + count], given[end + count :])
            return _bind(self._params, [*hidden, *given[:end]])

        return [_narrow(array) for array in self.large], function

    def _hidden(self, large: Sequence[Any], shared: Sequence[Any]) -> list[Any]:
        """Return the hidden operands of the ``jit`` equation."""
        rest = iter(large)
        return [
            next(rest) if s is None else shared[s] if isinstance(s, int) else s
            for s in self._sources
        ]


CALLBACKS = frozenset({"pure_callback", "io_callback", "debug_callback", "debug_print"})
"""The primitives that call Python while the program runs."""


def calls_python(eqn: JaxprEqn) -> bool:
    """Return whether an equation, or one inside it, calls Python while the program runs."""
    return not CALLBACKS.isdisjoint(_jax.primitives_of(eqn))


def error_of_check(found: Exception) -> JaxprGenError:
    """Return the error to raise for what `jax.experimental.checkify` finds."""
    if isinstance(found, _jax.FailedCheck):
        return found.kind(found.message).at(found.where)
    return FailedAssertionError(str(found))  # Of a JAX function inside of a rule.


def _bind(params: dict[str, Any], operands: Sequence[Any]) -> list[Any]:
    try:
        return _jax.jit_p.bind(*operands, **params)
    except _jax.NonFiniteError:  # Look for the equation that made it, as `jax.jit` does.
        return _jax.eval_jaxpr(params["jaxpr"], operands)


def as_listed(given: Any) -> list[Any]:
    """Return in a list what a call gives: one result alone, or several as a tuple."""
    return list(given) if type(given) is tuple else [given]  # A matrix is another one.


def is_small(array: Any) -> bool:
    """Return whether an array is one that may be a constant of the StableHLO."""
    return isinstance(array, np.ndarray) and array.nbytes <= _SMALL


def _narrow(array: Array) -> Array:
    """Return the array in the dtype that JAX's settings give it."""
    is_on_device = isinstance(array, jax.Array)  # Which several devices hold.
    return array if is_on_device else np.asarray(array, canonical_dtype(array))
