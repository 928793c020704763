"""One emitted program, the data beside it, and the ways in which it runs."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias
from weakref import WeakValueDictionary

import jax
import numpy as np

from jaxprgen import _jax
from jaxprgen._jax import ClosedJaxpr
from jaxprgen.arguments.inputs import signature
from jaxprgen.arguments.sparse import as_dictionaries, grouped, jax_matrix
from jaxprgen.emit.values import Array
from jaxprgen.errors import ArgumentTypeError, FailedAssertionError, JaxprGenError
from jaxprgen.ir import canonical_dtype
from jaxprgen.lowering.portable import portable
from jaxprgen.passes import Pass, Pipeline
from jaxprgen.texts import visible

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

    def jit(self, function: Any) -> Any:
        """Return ``jax.jit`` of a function, with the options of XLA."""
        return jax.jit(function, compiler_options=dict(self.compiler_options) or None)

    def arranged(self, results: Sequence[Any]) -> Any:
        """Return the results of a program as a call gives them."""
        if self.matrices:
            formats = dict(self.matrices)
            results = grouped(results, formats)
            end = len(results) if self.parts_from is None else self.parts_from
            results = [
                jax_matrix(x, formats[i]) if i < end and i in formats else x
                for i, x in enumerate(results)
            ]
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
    return Options(
        visible(name, None), checks, Pipeline(passes), tuple(sorted(given.items())), results
    )


def calls_back(fallback: str) -> bool:
    """Return whether the option ``fallback`` asks for callbacks."""
    if fallback not in ("error", "callback"):
        raise ArgumentTypeError(f'fallback must be "error" or "callback", got {fallback!r}.')
    return fallback == "callback"


class Program:
    """One program, emitted for one kind of arguments.

    Its hidden arguments come before the arguments of a call: constants too large for the
    StableHLO, which stay on the device, and the values of shared variables.

    Parameters
    ----------
    closed
        The program. Its inputs are the arguments; its constants are data known while emitting.
    shared
        The arrays among the constants that stand for the values of shared variables.
    options
        The options of the compiled function.
    store
        The arrays on the device that programs of one function share.
    values
        The value of each variable of the plan, by place, if the program is observed.
    seconds
        The time that emitting took, and the passes, by these names.
    """

    def __init__(
        self,
        closed: ClosedJaxpr,
        shared: Sequence[Array],
        options: Options,
        store: Store,
        values: Sequence[Any] | None,
        seconds: Mapping[str, float],
    ) -> None:
        self.closed_jaxpr = closed
        self.values = values
        self.seconds = seconds
        self._options = options
        self._store = store
        self._shared = position = {id(array): i for i, array in enumerate(shared)}
        # Shared variables last, so that equal programs look the same to JAX's caches.
        hoisted, constants = _jax.hoist_constants(closed, lambda c: position.get(id(c), -1))
        self._large = [c for c in constants if id(c) not in position and not is_small(c)]
        self._call = _Call(
            _jax.jit_params(hoisted, options.name),
            tuple(
                position[id(c)] if id(c) in position else _narrow(c) if is_small(c) else None
                for c in constants
            ),
            len(self._large),
            len(shared),
            signature(hoisted.jaxpr.debug_info.arg_names[len(constants) :]),
        )
        self._has_checks = _jax.has_checks(closed)

    def with_values(self, shared: Sequence[Any]) -> ClosedJaxpr:
        """Return the program with these values of shared variables among its constants."""
        closed, position = self.closed_jaxpr, self._shared
        if not position:
            return closed
        # Views, because one array may be the value of two variables.
        values = [array.view() for array in shared]
        constants = [values[position[id(c)]] if id(c) in position else c for c in closed.consts]
        return ClosedJaxpr(closed.jaxpr, constants)

    def run(self, operands: Sequence[Any], shared: Sequence[Any]) -> Any:
        """Run the program on arrays, and return its results as a call gives them.

        Raise the error of the first check that fails, if the program has checks. Inside a function
        that JAX traces, the checks are left to `jax.experimental.checkify`.

        Parameters
        ----------
        operands
            The arguments.
        shared
            The values of all shared variables, on the device.
        """
        given = (*self._constants, *shared, *operands)
        if not self._has_checks:
            return self._jit(*given)
        if not _jax.trace_state_clean():
            return self._options.arranged(self.bind(operands, shared))
        try:
            error, results = self._jit(*given)
        except _jax.NonFiniteError:  # Look for the equation that made it, as `jax.jit` does.
            return self._options.arranged(self._call.run(given))
        found = error.get_exception()
        if found is not None:
            raise error_of_check(found)
        return results

    def bind(self, operands: Sequence[Any], shared: Sequence[Any]) -> list[Any]:
        """Record the program as one ``jit`` equation in the trace of the operands' tracers."""
        params = {**self._call.params, "compiler_options_kvs": self._options.compiler_options}
        return _bind(params, [*self._call.hidden([*self._constants, *shared]), *operands])

    def lower(self, operands: Sequence[Any], shared: Sequence[Any]) -> jax.stages.Lowered:
        """Return JAX's lowered form of `run`; operands may be `jax.ShapeDtypeStruct`.

        If the program has checks, its results are those of `jax.experimental.checkify.checkify`.
        """
        hidden = [
            jax.ShapeDtypeStruct(x.shape, _jax.canonicalize_dtype(x.dtype), sharding=sharding)
            for x in (*self._large, *shared)
            for sharding in [x.sharding if _jax.is_spread(x) else None]
        ]
        return self._jit.lower(*hidden, *operands)

    def flat(self) -> tuple[list[Array], Callable[..., list[Any]]]:
        """Return the large constants, and the program as a function without hidden arguments.

        It takes the arguments of a call, then the large constants and the values of the shared
        variables, and returns its results in a list.
        """
        call, count = self._call, len(self._call.arguments.parameters)

        def function(*given: Any) -> list[Any]:
            return call.run([*given[count:], *given[:count]])

        return [_narrow(array) for array in self._large], function

    @functools.cached_property
    def _constants(self) -> list[Any]:
        self._held = self._store.hold(self._large)
        return [held.on_device for held in self._held]

    @functools.cached_property
    def _jit(self) -> Any:
        call, name, arranged = self._call, self._options.name, self._options.arranged

        def program(*given: Any) -> Any:
            return arranged(call.run(given))

        program.__name__ = program.__qualname__ = name
        program.__signature__ = call.signature  # type: ignore[attr-defined]
        return self._options.jit(_jax.checked(program) if self._has_checks else program)


class _Call(NamedTuple):
    """How a program is called, apart from the `Program`, which JAX's caches then do not keep alive.

    Attributes
    ----------
    params
        The parameters of its ``jit`` equation.
    sources
        Where each hidden operand of the equation comes from: the position of a shared variable, a
        small array itself, or None for the next of the large constants.
    constants, shared
        How many large constants and shared variables there are.
    arguments
        The signature of the other arguments.
    """

    params: dict[str, Any]
    sources: tuple[Any, ...]
    constants: int
    shared: int
    arguments: inspect.Signature

    @property
    def signature(self) -> inspect.Signature:
        """The signature of all arguments, for JAX's messages."""
        names = [f"constant_{i}" for i in range(self.constants)]
        names += [f"shared_{i}" for i in range(self.shared)]
        return signature([*names, *self.arguments.parameters])

    def hidden(self, given: Sequence[Any]) -> list[Any]:
        """Return the hidden operands, from the large constants and then the shared variables."""
        rest = iter(given)
        return [
            next(rest) if s is None else given[self.constants + s] if isinstance(s, int) else s
            for s in self.sources
        ]

    def run(self, given: Sequence[Any]) -> list[Any]:
        """Run the program on all arguments; JAX calls this to trace it.

        Outside of a trace JAX calls it to find the equation that made a NaN (``jax_debug_nans``),
        or under `jax.disable_jit`; then equations run one by one.
        """
        operands = [*self.hidden(given), *given[self.constants + self.shared :]]
        if _jax.trace_state_clean():
            return _jax.eval_jaxpr(self.params["jaxpr"], operands)
        return _bind(self.params, operands)


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


# --- Data ---------------------------------------------------------------------------------


class _Held:
    """An array and its copy on the device, for as long as a program refers to it."""

    def __init__(self, array: Any, on_device: Any) -> None:
        self.array = array
        self.on_device = on_device


class Store:
    """Arrays on the device, each put there once for all programs that hold it."""

    def __init__(self) -> None:
        self._held: WeakValueDictionary[Any, _Held] = WeakValueDictionary()

    def hold(self, arrays: Sequence[Array]) -> list[_Held]:
        """Return the arrays with their copies on the device."""
        keys = [(id(x), _jax.canonicalize_dtype(x.dtype)) for x in arrays]
        found = {key: self._held.get(key) for key in keys}
        missing = {key: x for key, x in zip(keys, arrays, strict=True) if found[key] is None}
        for (key, x), copy in zip(missing.items(), to_device([*missing.values()]), strict=True):
            found[key] = self._held[key] = _Held(x, copy)
        return [found[key] for key in keys]  # type: ignore[misc]


def to_device(arrays: Sequence[Array]) -> list[Any]:
    """Put arrays on the device: outside of any trace that is going on, and by one equation.

    Arrays that several devices hold stay there.
    """
    others = [array for array in arrays if not _jax.is_spread(array)]
    for array in others:
        canonical_dtype(array)  # It refuses integers that would be wrapped.
    with _jax.eval_context():
        found = iter(jax.device_put(others) if others else ())
    return [array if _jax.is_spread(array) else next(found) for array in arrays]


def is_small(array: Any) -> bool:
    """Return whether an array is one that may be a constant of the StableHLO."""
    return isinstance(array, np.ndarray) and array.nbytes <= _SMALL


def _narrow(array: Array) -> Array:
    """Return the array in the dtype that JAX's settings give it."""
    is_on_device = isinstance(array, jax.Array)  # Which several devices hold.
    return array if is_on_device else np.asarray(array, canonical_dtype(array))
