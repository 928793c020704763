"""The ways in: `compile`, `function`, `transform` and `jaxpr_as_fun`."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, ParamSpec, TypeVar

import jax

from jaxprgen import _jax
from jaxprgen._jax import ClosedJaxpr
from jaxprgen.aesara import plan_of
from jaxprgen.aesara.state import Pairs, stateful_graph
from jaxprgen.passes import DEFAULT, Pass
from jaxprgen.runtime.compiled import CompiledFunction, wrong_count
from jaxprgen.runtime.program import CompilerOption, calls_back, options_of
from jaxprgen.runtime.state import StatefulFunction

P = ParamSpec("P")
R = TypeVar("R")


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


def function(
    inputs: Any,
    outputs: Any = None,
    updates: Pairs | None = None,
    givens: Pairs | None = None,
    *,
    name: str = "main",
    no_default_updates: bool | Sequence[Any] = False,
    checks: bool = False,
    fallback: Literal["error", "callback"] = "error",
    passes: Sequence[Pass] = DEFAULT,
    compiler_options: Mapping[str, CompilerOption] | None = None,
) -> StatefulFunction:
    """Make a function of an Aesara graph that keeps state, as `aesara.function` does.

    Parameters
    ----------
    inputs
        The variables of the arguments, or `aesara.In` of them with names and defaults.
    outputs
        A variable, whose value is returned; or a sequence, a list of whose values is returned; or
        a dictionary likewise; or None.
    updates
        Shared variables and their new values, as a mapping or pairs. Those that have a default
        update, as the generators of a `RandomStream`, get it if nothing else is said.
    givens
        What to compute with in place of some variables, as a mapping or pairs.
    name
        The function's name, in JAX's messages, profiles and StableHLO.
    no_default_updates
        Whether default updates are left out, or for which variables.
    checks
        Make Aesara's run-time checks: what fails one raises, and updates nothing. For `pure`, as
        for `jaxprgen.compile`.
    fallback, passes, compiler_options
        As for `jaxprgen.compile`.

    Raises
    ------
    InvalidGraphError
        An update is not of a shared variable, or of another type; and as `jaxprgen.compile`.
    UnsupportedOpError
        Ops without a rule; the message lists all of them, with the lines that made them.
    """
    inputs = list(inputs) if isinstance(inputs, Sequence) else [inputs]
    flat, rebuild = _flattened(outputs)
    graph = stateful_graph(inputs, flat, updates, givens, no_default_updates)
    options = options_of(name, checks, passes, compiler_options)
    return StatefulFunction(graph, rebuild, options, calls_back(fallback))


def _flattened(outputs: Any) -> tuple[list[Any], Callable[[list[Any]], Any]]:
    """The outputs in order, and what makes of their values what was asked for."""
    if outputs is None:
        return [], lambda values: None
    if isinstance(outputs, Mapping):
        return list(outputs.values()), lambda values: dict(zip(outputs, values, strict=True))
    if isinstance(outputs, (list, tuple)):
        return list(outputs), lambda values: values
    return [outputs], lambda values: values[0]


def transform(fun: Callable[P, R], *passes: Pass) -> Callable[P, R]:
    """A function that computes what a JAX function does by a program that passes rewrote.

    Like `jax.grad` it takes any function that JAX can trace, of pytrees and keyword arguments,
    and gives one; other transformations compose with it, in either order. As there, each call
    traces anew: wrap the result in `jax.jit`.

    Parameters
    ----------
    fun
        The function. What its arguments hold are arrays, or scalars.
    passes
        What rewrites its program, the first one first.
    """

    @functools.wraps(fun)
    def transformed(*args: P.args, **kwargs: P.kwargs) -> R:
        leaves, tree = jax.tree.flatten((args, kwargs))

        def flat(*leaves: object) -> R:
            args, kwargs = jax.tree.unflatten(tree, leaves)
            return fun(*args, **kwargs)  # pyright: ignore[reportCallIssue]

        closed, shapes = jax.make_jaxpr(flat, return_shape=True)(*leaves)
        for rewrite in passes:
            closed = rewrite(closed)
        return jax.tree.unflatten(jax.tree.structure(shapes), jaxpr_as_fun(closed)(*leaves))

    return transformed


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
            raise wrong_count("The jaxpr", expected, len(args))
        return _jax.jit_p.bind(*constants, *args, **params)

    return function
