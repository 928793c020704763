"""The ways in: `compile`, `function`, `transform` and `jaxpr_as_fun`."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, ParamSpec, TypeVar

import jax
from jax.sharding import NamedSharding, PartitionSpec

from jaxprgen import _jax
from jaxprgen._jax import ClosedJaxpr
from jaxprgen.arguments.accept import wrong_count
from jaxprgen.graphs.interface import flattened
from jaxprgen.graphs.plan import plan_of
from jaxprgen.graphs.state import Pairs, stateful_graph
from jaxprgen.lowering.names import is_a
from jaxprgen.passes import Pass, Pipeline
from jaxprgen.passes.defaults import FOR_GRAPHS
from jaxprgen.runtime.compiled import CompiledFunction
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
    passes: Sequence[Pass] = FOR_GRAPHS,
    compiler_options: Mapping[str, CompilerOption] | None = None,
    shardings: Mapping[Any, NamedSharding | PartitionSpec] | None = None,
) -> CompiledFunction:
    """Compile a graph to a JAX function, without tracing it and without changing the graph.

    The graph is Aesara's or PyTensor's.

    A graph that draws random numbers gives a function that takes one PRNG key, typed or legacy,
    before all inputs. The generators that no node computes (shared variables and inputs) are
    numbered from zero, in the order in which the outputs reach them. The ``n``-th draw in a row
    from the ``i``-th generator has the key
    ``jax.random.fold_in(jax.random.fold_in(key, i), n)``.

    Parameters
    ----------
    graph : FunctionGraph or sequence of Variable
        The graph, or its inputs.
    outputs : Variable or pytree of Variable
        The outputs, if ``graph`` holds the inputs. A call returns their values in this structure:
        one array for one variable, a list for a list, a dictionary for a dictionary.
    name : str
        The function's name in JAX's messages, profiles and the StableHLO.
    checks : bool
        Check what Aesara checks at run time: ``Assert``, indices within bounds, regular matrices. A
        direct call raises what Aesara raises. Transform the function by
        `jax.experimental.checkify.checkify` before JAX compiles it as part of another one. Without
        ``checks``, a `RuntimeCheckWarning` says once of each check that it is left out.
    fallback : {"error", "callback"}
        What to do about Ops without a rule. With "callback", their Python implementation runs on
        the host while the program runs on the device. It cannot be differentiated, and ``vmap``
        calls it once per element.
    sizes : mapping from Variable or str to int
        Sizes of results, by variable or by name, whose first axis is as long as values say: any
        result of ``nonzero``, the first result of ``unique``, or ``x[mask]``. Unless these values
        are known while emitting, the result has this size, padded or cut as `jax.numpy` does with
        ``size=``: ``nonzero`` and ``x[mask]`` are padded with 0, ``unique`` with its smallest
        element, counts with 0.
    passes : sequence of Pass
        The passes that rewrite the emitted program, in order; see `jaxprgen.passes`. Without
        passes the program is what the graph says, equation by equation.
    compiler_options : mapping from str to str, bool, int, float or bytes
        XLA options, as `jax.jit` takes them. JAX uses them for what is compiled on its own: a call,
        ``vmap``, ``lower``. If the function becomes part of another one, as under ``jit`` (and, up
        to JAX 0.10, under ``grad``), JAX raises a `ValueError`; pass them to the outermost ``jit``
        instead.
    shardings : mapping from Variable or str to PartitionSpec or NamedSharding
        Where the data of inputs, outputs, shared variables and constants live, by variable or by
        name. Arguments, values of shared variables and constants are put there, each part on its
        own device; results come from there. To values that JAX traces it is a constraint. A
        `PartitionSpec` is for the mesh that is set, or else for that of another sharding.

    Returns
    -------
    CompiledFunction
        A function of the inputs, in their order or by name.

    Raises
    ------
    UnsupportedOpError
        Ops have no rule. The message lists all of them, with the lines that made them.
    ArgumentTypeError
        ``passes`` is not a sequence of passes, or another option has an unsuitable type.
    PassError
        While a program is made: a pass returned something else than a program of the same type.
    CallbackError
        The result of an Op that is called back has an unexpected shape.
    ShardingError
        The mesh that ``shardings`` needs is missing, or a sharding does not fit it or a shape.
    InvalidGraphError
        An input is missing, given twice, or not a tensor or scalar; or ``sizes`` or ``shardings``
        name a variable that takes none.

    Examples
    --------
    >>> x = at.dvector("x")
    >>> f = jaxprgen.compile([x], at.exp(x).sum())
    >>> jax.grad(f)(jnp.zeros(3))
    Array([1., 1., 1.], dtype=float64)
    """
    callbacks = calls_back(fallback)
    results = None
    if not is_a(graph, "graph.FunctionGraph"):
        outputs, results = flattened(outputs)
    options = options_of(name, checks, passes, compiler_options, results)
    start = time.perf_counter()
    plan = plan_of(graph, outputs, callbacks=callbacks, sizes=sizes, shardings=shardings)
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
    passes: Sequence[Pass] = FOR_GRAPHS,
    compiler_options: Mapping[str, CompilerOption] | None = None,
    shardings: Mapping[Any, NamedSharding | PartitionSpec] | None = None,
) -> StatefulFunction:
    """Compile an Aesara graph to a function that keeps state, as `aesara.function` does.

    Parameters
    ----------
    inputs : sequence of Variable or aesara.In
        The arguments; `aesara.In` gives them names and defaults.
    outputs : Variable, sequence, mapping or None
        The outputs. A call returns one value, a list, a dictionary or None accordingly.
    updates : mapping or sequence of pairs
        Shared variables and their new values. Variables with a default update, such as the
        generators of a `RandomStream`, get that one unless another is given.
    givens : mapping or sequence of pairs
        Variables and what to compute with in their place.
    name : str
        The function's name in JAX's messages, profiles and the StableHLO.
    no_default_updates : bool or sequence of shared variables
        Leave out all default updates, or those of these variables.
    checks : bool
        Check what Aesara checks at run time, as in `jaxprgen.compile`. A call that fails a check
        updates nothing.
    fallback, passes, compiler_options, shardings
        As for `jaxprgen.compile`.

    Returns
    -------
    StatefulFunction
        A function of the inputs, by position or by name.

    Raises
    ------
    InvalidGraphError
        An update is for something else than a shared variable, or has another type; and as for
        `jaxprgen.compile`.
    ShardingError
        The mesh that ``shardings`` needs is missing, or a sharding does not fit it or a shape.
    UnsupportedOpError
        Ops have no rule. The message lists all of them, with the lines that made them.
    """
    inputs = list(inputs) if isinstance(inputs, Sequence) else [inputs]
    # Without outputs a call returns the empty pytree None; Aesara returns a list for a tuple.
    given = list(outputs) if isinstance(outputs, tuple) else outputs
    flat, results = ([], jax.tree.structure(None)) if given is None else flattened(given)
    graph = stateful_graph(inputs, flat, updates, givens, no_default_updates, shardings)
    options = options_of(name, checks, passes, compiler_options)
    rebuild = functools.partial(jax.tree.unflatten, results)  # Which pickles.
    return StatefulFunction(graph, rebuild, options, calls_back(fallback))


def transform(fun: Callable[P, R], *passes: Pass) -> Callable[P, R]:
    """Rewrite the program of a JAX function with passes.

    Like `jax.grad`, this takes any function that JAX can trace, and composes with other
    transformations in either order. Each call of the result traces anew, so wrap it in `jax.jit`.

    Parameters
    ----------
    fun : function
        The function. Its arguments are pytrees, by position or by keyword. JAX traces the arrays in
        them; numbers of Python and other objects, such as strings and functions, are passed on as
        they are. Under `jax.jit`, such arguments are ``static_argnums``.
    *passes : Pass
        The passes, in order; see `jaxprgen.passes`.

    Returns
    -------
    function
        A function that takes and returns what ``fun`` does.

    Raises
    ------
    ArgumentTypeError
        One of ``passes`` is not a pass.
    PassError
        While the function is called: a pass returned something else than a program of the same
        type.
    """
    pipeline = Pipeline(passes)

    @functools.wraps(fun)
    def transformed(*args: P.args, **kwargs: P.kwargs) -> R:
        leaves, tree = jax.tree.flatten((args, kwargs))
        is_traced = [not isinstance(x, _SCALARS) and _jax.is_traceable(x) for x in leaves]
        arrays = [x for x, traced in zip(leaves, is_traced, strict=True) if traced]
        kept: list[Any] = []

        @functools.wraps(fun)  # For JAX's messages, and names of arguments.
        def of_arrays(*args: Any, **kwargs: Any) -> Any:
            rest = iter(jax.tree.leaves((args, kwargs)))
            given = [
                next(rest) if traced else x for x, traced in zip(leaves, is_traced, strict=True)
            ]
            args, kwargs = jax.tree.unflatten(tree, given)
            results, kept[:] = _split(fun(*args, **kwargs))
            return results

        holes = [x if traced else None for x, traced in zip(leaves, is_traced, strict=True)]
        args, kwargs = jax.tree.unflatten(tree, holes)
        closed = pipeline(jax.make_jaxpr(of_arrays)(*args, **kwargs))
        call = _call_of(closed, getattr(fun, "__name__", type(fun).__name__))
        results = iter(call(*arrays))
        restore, others = kept
        return restore([next(results) if x is _ARRAY else x for x in others])

    return transformed


_SCALARS = (bool, int, float, complex)
"""Classes of numbers that functions get as they are: they may be static arguments of `jax.jit`."""
_ARRAY = object()
"""Stands for an array among results."""


def _split(results: Any) -> tuple[list[Any], list[Any]]:
    """Return the arrays among results, and how to restore these: a function and the other leaves.

    The other leaves are objects that JAX does not trace, such as functions in modules.
    """
    leaves, tree = jax.tree.flatten(results)
    others = [_ARRAY if _jax.is_traceable(x) else x for x in leaves]
    arrays = [x for x, other in zip(leaves, others, strict=True) if other is _ARRAY]
    return arrays, [functools.partial(jax.tree.unflatten, tree), others]


def jaxpr_as_fun(closed_jaxpr: ClosedJaxpr) -> Any:
    """Return a function that runs a program by binding one ``jit`` equation.

    `jax.extend.core.jaxpr_as_fun` binds every equation instead, which takes longer the larger the
    program is.

    Parameters
    ----------
    closed_jaxpr : ClosedJaxpr
        The program.

    Returns
    -------
    function
        A function of the program's inputs, by position, that returns the list of its outputs.

    Raises
    ------
    ArgumentCountError
        The function is called with too few or too many arguments.
    """
    return _call_of(closed_jaxpr, "jaxpr_as_fun")


def _call_of(closed_jaxpr: ClosedJaxpr, name: str) -> Callable[..., list[Any]]:
    """Return a function that binds one ``jit`` equation of that name."""
    hoisted, constants = _jax.hoist_constants(closed_jaxpr)
    params = _jax.jit_params(hoisted, name)

    def function(*args: Any) -> list[Any]:
        expected = len(closed_jaxpr.in_avals)
        if len(args) != expected:
            raise wrong_count("The jaxpr", expected, len(args))
        return _jax.jit_p.bind(*constants, *args, **params)

    return function
