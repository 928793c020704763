"""`compile`: from a graph to a function that JAX takes like any other."""

from __future__ import annotations

import functools
import html
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, NamedTuple

import jax
import numpy as np

from jaxprgen import _jax
from jaxprgen._jax import ClosedJaxpr
from jaxprgen.aesara import plan_of
from jaxprgen.errors import ArgumentCountError, ArgumentTypeError, JaxprGenError
from jaxprgen.lowering.graph import KEY, Input, Plan
from jaxprgen.passes import DEFAULT, Pass
from jaxprgen.runtime.arguments import accept, are_plain
from jaxprgen.runtime.data import to_device
from jaxprgen.runtime.dispatch import Dispatcher, OtherProgramError
from jaxprgen.runtime.observe import Observation, observe
from jaxprgen.runtime.options import CompilerOption, Options, options_of
from jaxprgen.runtime.report import Report, report_of
from jaxprgen.runtime.specialize import Specialization, Specializer, as_given, signature

_ABSTRACT = (_jax.Tracer, jax.ShapeDtypeStruct)
"""What has no value."""


class CacheInfo(NamedTuple):
    """Statistics of a compiled function's specializations, as `functools.lru_cache` has them.

    Hits are not among them: most calls are JAX's alone, and nothing here sees them.
    """

    misses: int
    currsize: int


class CompiledFunction:
    """A graph as a JAX function of its inputs, in their order.

    Arguments are Python scalars, NumPy arrays, JAX arrays or tracers; all but the call itself
    also take `jax.ShapeDtypeStruct`. The result is one array for one output, else a tuple.
    Works under ``jit``, ``vmap``, ``grad`` and every other JAX transformation, and in several
    threads at once.

    Raises
    ------
    ArgumentCountError, ArgumentTypeError, ArgumentShapeError
        The arguments are not what the inputs' types ask for.
    StaticShapeError
        A shape depends on the value of an argument that is a tracer.
    ShapeMismatchError, IndexOutOfBoundsError
        Shapes that meet in a node do not agree, or a known index lies outside its axis.
    """

    # What is called is read from a slot, which takes no Python, and soon is a function of JAX's:
    # a method would be 2 to 3 of the 25 µs that a call takes.
    __slots__ = {
        "__call__": "Run on arguments, or record the program where one of them is a tracer.",
        "__dict__": "",
        "__weakref__": "",
    }
    __call__: Callable[..., Any]

    def __init__(
        self,
        plan: Plan,
        options: Options,
        seconds: float = 0.0,
        donated: Sequence[int] = (),
    ) -> None:
        self._plan_seconds = seconds
        self.__name__ = self.__qualname__ = options.name
        self._plan = plan
        self._options = options
        self._dtypes = [i.dtype for i in plan.inputs]
        self._specializer = Specializer(plan, options, donated=donated)
        self._donated = donated
        self._dispatcher: Dispatcher | None = None
        self._run: Callable[..., Any] | None = None
        self._dispatches = True  # Until a program needs more than types.
        self.__call__ = self._call
        # What JAX, and `help`, take the names of arguments from.
        self.__signature__ = signature([i.name for i in plan.inputs])
        self._on_device: list[tuple[Any, Any]] = [(None, None)] * len(plan.shared)

    def __repr__(self) -> str:
        inputs = ", ".join(f"{i.name}: {_written(i)}" for i in self._plan.inputs)
        outputs = ", ".join(label for label, _ in self._outputs())
        return f"<jaxprgen function {self.__name__}({inputs}) -> {outputs}>"

    def _repr_html_(self) -> str:
        """The signature as a table, for notebooks."""
        inputs = [("input", i.name, _written(i)) for i in self._plan.inputs]
        shared = [("shared variable", s.name, str(s.dtype)) for s in self._plan.shared]
        outputs = [("output", label, kind) for label, kind in self._outputs()]
        rows = "".join(
            "<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in row) + "</tr>"
            for row in [*inputs, *shared, *outputs]
        )
        nodes, programs = len(self._plan.steps), len(self._specializer)
        return (
            f"<table><caption><code>{html.escape(self.__name__)}</code>: {nodes} nodes, "
            f"{programs} programs emitted</caption>{rows}</table>"
        )

    def _outputs(self) -> list[tuple[str, str]]:
        """What each output is called, and its dtype and rank."""
        plan = self._plan
        return [
            (plan.library.label(plan.variables[place]), str(plan.variables[place].type))
            for place in plan.output_places
        ]

    @property
    def inputs(self) -> tuple[Input, ...]:
        """The name, dtype and declared shape of every input."""
        return self._plan.inputs

    def _call(self, *args: Any) -> Any:
        """A call with arguments of which JAX's cache has seen none like them, or takes none."""
        if self._run is not None and are_plain(args, self._dtypes):  # Shorter by 7 µs.
            try:
                return self._run(*args)
            except JaxprGenError:  # Said below, with the arguments themselves.
                pass
        return as_given(self.results(*args))

    def results(self, *args: Any) -> list[Any]:
        """What a call gives, as a list, however many outputs there are."""
        plain = self._dispatches and are_plain(args, self._dtypes)
        operands = args if plain else self.accepted(args)
        shared, on_device = self._shared_values() if self._plan.shared else ((), ())
        if plain or (self._dispatches and not any(isinstance(x, _ABSTRACT) for x in operands)):
            return self._dispatch(operands, shared, on_device)
        if any(isinstance(x, jax.ShapeDtypeStruct) for x in operands):
            raise ArgumentTypeError(
                f"{self.__name__} cannot be called with a ShapeDtypeStruct, which has no "
                "values; its methods jaxpr, lower and report can."
            )
        return self._specializer(operands, shared)(operands, on_device)

    def _dispatch(
        self, operands: Sequence[Any], shared: Sequence[Any], on_device: Sequence[Any]
    ) -> list[Any]:
        """Run on arguments by JAX's cache, if no program needs more than that knows."""
        try:
            if self._dispatcher is None:
                self._dispatcher = self._new_dispatcher(self.accepted(operands), shared)
            outputs = self._dispatcher(operands, shared, on_device)
            if self._run is None and not shared:
                self._run = self._dispatcher.run
                self.__call__ = self._dispatcher.or_else(self._call)
            return outputs
        except JaxprGenError:
            # Outside of JAX's trace values are known, and what is wrong is better said.
            operands = self.accepted(operands)
            outputs = self._specializer(operands, shared)(operands, on_device)
            self._dispatches, self._run, self.__call__ = False, None, self._call
            return outputs

    def _new_dispatcher(self, operands: Sequence[Any], shared: Sequence[Any]) -> Dispatcher:
        first = self._specializer(operands, shared)

        def find(args: Sequence[Any], shared: Sequence[Any]) -> tuple[Specialization, list[Any]]:
            operands = self.accepted(args)
            return self._specializer(operands, shared), operands

        return Dispatcher(find, first, len(shared), self._options, self._donated)

    def jaxpr(self, *args: Any) -> ClosedJaxpr:
        """The program for arguments of these types: its inputs. Its constants are data."""
        operands = self.accepted(args)
        found = self._specializer(operands, [s.read() for s in self._plan.shared])
        return found.closed_jaxpr

    def lower(self, *args: Any) -> jax.stages.Lowered:
        """The program as JAX lowers it: StableHLO, cost analysis, ``.compile()``.

        Calls with arguments of these types then find it compiled, unless it is of their values.
        """
        operands = self.accepted(args)
        shared = [s.read() for s in self._plan.shared]
        found = self._specializer(operands, shared)
        try:
            if not self._dispatches or found.decided:
                raise OtherProgramError
            if self._dispatcher is None:
                self._dispatcher = self._new_dispatcher(operands, shared)
            lowered = self._dispatcher.lower(operands, shared)
        except OtherProgramError:
            lowered = found.lower(operands, shared)
        return lowered

    def observe(self, *args: Any) -> Observation:
        """The program for arguments of these types beside its graph; emits it anew."""
        return self._observe(self.accepted(args), [s.read() for s in self._plan.shared])

    def _observe(self, operands: Sequence[Any], shared: Sequence[Any]) -> Observation:
        return observe(self._plan, self._options, operands, shared)

    def report(self, *args: Any) -> Report:
        """What became of every node, for arguments of these types, and what the program costs.

        Emits the program anew, and compiles it to ask XLA, unless an argument is a tracer or
        the program holds checks.
        """
        operands = self.accepted(args)
        shared = [s.read() for s in self._plan.shared]
        observation = self._observe(operands, shared)
        traced = any(isinstance(x, _jax.Tracer) for x in operands)
        # What holds checks can be lowered by `jax.experimental.checkify` alone.
        bare = not any(e.primitive is _jax.check_p for e in observation.closed_jaxpr.jaxpr.eqns)
        lower = functools.partial(observation.specialization.lower, operands, shared)
        return report_of(observation, lower if bare and not traced else None, self._plan_seconds)

    def cache_info(self) -> CacheInfo:
        """Misses and the number of programs emitted for different kinds of arguments."""
        return CacheInfo(self._specializer.misses, len(self._specializer))

    def cache_clear(self) -> None:
        """Forget all programs; the next call emits anew."""
        self._specializer.clear()
        self._dispatcher, self._run, self._dispatches = None, None, True
        self.__call__ = self._call

    def accepted(self, args: Sequence[Any]) -> list[Any]:
        """The arguments as programs take them, if they fit the inputs."""
        inputs = self._plan.inputs
        if len(args) != len(inputs):
            names = ", ".join(i.name for i in inputs)
            raise _wrong_count(
                f"{self.__name__}({names})", len(inputs), len(args), self._hint(args)
            )
        return [accept(x, declared) for x, declared in zip(args, inputs, strict=True)]

    def _hint(self, args: Sequence[Any]) -> str:
        """What may be wrong with the number of arguments, if that is the key."""
        given = any(_jax.is_key(x) for x in args)
        if self._plan.generators and not given:
            return "\nIt draws random numbers: the first argument is a key, jax.random.key(seed)."
        return "\nIt draws no random numbers, and takes no key." if given else ""

    def _shared_values(self) -> tuple[list[Any], list[Any]]:
        """Shared variables' values, and these on the device: put there once until set anew.

        Another array is what counts as another value. That an array was written into, as
        ``get_value(borrow=True)`` allows and Aesara's own in-place updates do, is not seen.
        """
        shared = [s.read() for s in self._plan.shared]
        held = self._on_device
        dtypes = [_jax.canonicalize_dtype(value.dtype) for value in shared]
        stale = [
            i
            for i, (value, dtype) in enumerate(zip(shared, dtypes, strict=True))
            if held[i][0] is not value or held[i][1].dtype != dtype
        ]
        if stale:
            held = held.copy()
            # Copies: JAX may share an aligned array's memory, and Aesara may write into it.
            put = to_device([np.array(shared[i]) for i in stale])
            for i, array in zip(stale, put, strict=True):
                held[i] = shared[i], array
            self._on_device = held
        return shared, [array for _, array in held]


def compile(
    graph: Any,
    outputs: Any = None,
    *,
    name: str = "main",
    checks: bool = False,
    fallback: Literal["error", "callback"] = "error",
    sizes: Mapping[Any, int] | None = None,
    passes: Sequence[Pass] = DEFAULT,
    compiler_options: Mapping[str, CompilerOption] | None = None,
) -> CompiledFunction:
    """Make a JAX function of an Aesara graph, without tracing and without changing the graph.

    If the graph draws random numbers the function takes one PRNG key before all inputs, typed or
    legacy. The generators that no node of the graph computes, shared variables or inputs, are
    numbered in the order in which the outputs, from the first to the last, come upon them; the
    ``n``-th draw in a row from the ``i``-th has the key
    ``jax.random.fold_in(jax.random.fold_in(key, i), n)``, counted from zero.

    Parameters
    ----------
    graph
        A `aesara.graph.fg.FunctionGraph`, or the sequence of input variables.
    outputs
        With a sequence of inputs: the output variable, or a sequence of them.
    name
        The function's name, in JAX's messages, profiles and StableHLO.
    checks
        Make Aesara's run-time checks (``Assert``, indices within bounds) part of the program.
        It must then be run through `jax.experimental.checkify.checkify`. Without, each such
        check is announced by one `RuntimeCheckWarning`.
    fallback
        What becomes of Ops without a rule: an error, or a "callback": their Python
        implementation runs on the host while the program runs on the device. That cannot be
        differentiated, and is called once per element under ``vmap``.
    sizes
        Sizes for results whose first axis has a length that only values tell: by variable, any
        result of ``nonzero``, the first one of ``unique``, or ``x[mask]``. Where these values are
        not known while emitting, the result has that size, padded or cut as `jax.numpy` does with
        ``size=``: ``nonzero`` and ``x[mask]`` (as ``extract``) are padded with 0, ``unique`` with
        its smallest element, the counts with 0.
    passes
        What rewrites the program that was emitted, see `jaxprgen.passes`. Without any it is what
        the graph says, equation by equation.
    compiler_options
        Options for XLA, by name, as `jax.jit` takes them. JAX takes them for what is compiled on
        its own alone: a call, `vmap`, ``lower``. Where the function becomes part of another, as
        under ``jit``, JAX raises a `ValueError`, and so it does for ``grad`` up to JAX 0.10; give
        them to the outermost ``jit`` instead.

    Raises
    ------
    UnsupportedOpError
        Ops without a rule; the message lists all of them, with the lines that made them.
    CallbackError
        An Op that is called back gives a result of another shape than was to be expected.
    InvalidGraphError
        An input is missing, given twice, or of a type that is no array; or a size is given to
        what takes none.
    """
    callbacks = calls_back(fallback)
    options = options_of(name, checks, passes, compiler_options)
    start = time.perf_counter()
    plan = plan_of(graph, outputs, callbacks=callbacks, sizes=sizes)
    return CompiledFunction(plan, options, time.perf_counter() - start)


def calls_back(fallback: str) -> bool:
    """Whether Ops without a rule are called back, as an option of that name says."""
    if fallback not in ("error", "callback"):
        raise ArgumentTypeError(f'fallback is "error" or "callback", not {fallback!r}.')
    return fallback == "callback"


def jaxpr_as_fun(closed_jaxpr: ClosedJaxpr) -> Any:
    """A function that runs a program, bound as one ``jit`` equation whatever its size.

    `jax.extend.core.jaxpr_as_fun` binds every equation instead. Takes the program's inputs
    as positional arguments, returns the list of its outputs.
    """
    hoisted, constants = _jax.hoist_constants(closed_jaxpr)
    params = _jax.jit_params(hoisted, "jaxpr_as_fun")

    def function(*args: Any) -> list[Any]:
        expected = len(closed_jaxpr.in_avals)
        if len(args) != expected:
            raise _wrong_count("The jaxpr", expected, len(args))
        return _jax.jit_p.bind(*constants, *args, **params)

    return function


def _wrong_count(function: str, wanted: int, given: int, hint: str = "") -> ArgumentCountError:
    return ArgumentCountError(
        f"{function} takes {wanted} argument{'' if wanted == 1 else 's'}, but {given} "
        f"{'was' if given == 1 else 'were'} given.{hint}"
    )


def _written(declared: Input) -> str:
    """A declared type as in ``float64[3, ?]``."""
    if declared.dtype is KEY:
        return "PRNG key"
    sizes = ", ".join("?" if n is None else str(n) for n in declared.shape)
    return f"{declared.dtype}[{sizes}]"
