"""PyMC's samplers on programs of this package, inside one ``with`` block."""

# pyright: reportMissingImports=false, reportAttributeAccessIssue=false
# Checks run without PyMC, too.

from __future__ import annotations

import contextlib
import functools
import importlib
import sys
from collections.abc import Callable, Generator, Sequence
from importlib.metadata import version
from types import ModuleType
from typing import Any

import jax
import pytensor
from pytensor.compile import SharedVariable
from pytensor.compile.mode import Mode
from pytensor.graph.replace import clone_replace
from pytensor.graph.traversal import ancestors

from jaxprgen._aesara import when_imported
from jaxprgen.api import compile
from jaxprgen.errors import UnsupportedVersionError
from jaxprgen.pymc.functions import Fallback
from jaxprgen.pymc.gradients import check_by_jax, check_raveled
from jaxprgen.pymc.graphs import lowered
from jaxprgen.pymc.many import postprocessed
from jaxprgen.pytensor.linker import JaxprLinker


@contextlib.contextmanager
def sampling(*, fallback: Fallback = "error") -> Generator[None]:
    """Make PyMC's and nutpie's JAX samplers compile with this package inside a ``with`` block.

    This covers ``pm.sample(nuts_sampler="numpyro")`` and ``"blackjax"``, and
    ``nutpie.compile_pymc_model(model, backend="jax")``: log-densities, their gradients, and the
    variables of the trace. Other functions that PyMC compiles inside the block without a mode of
    their own use mode "JAXPR", such as those of initial points and of predictive draws. Leaving
    the block undoes all of it, also after an error. It holds for all threads of the process. The
    variables of the trace, and log-likelihoods, are computed in chunks, as by `over_draws`.

    A model's gradient is evaluated at its initial point and at four points around it. If it is NaN
    or infinite where the log-density is finite, a `jaxprgen.errors.GradientWarning` names the term,
    the line and the variable: samplers would return draws from another distribution.

    Parameters
    ----------
    fallback : {"error", "callback"}
        What to do about Ops without a rule, as for `jaxprgen.compile`. JAX cannot differentiate a
        callback: NumPyro, BlackJAX and nutpie's gradients by JAX need a rule.

    Yields
    ------
    None

    Raises
    ------
    UnsupportedVersionError
        PyMC or nutpie no longer has a function that this replaces.

    Examples
    --------
    ::

        with model, jaxprgen.pymc.sampling():
            trace = pm.sample(nuts_sampler="numpyro")
    """
    mode = Mode(JaxprLinker(fallback=fallback), "None")
    with contextlib.ExitStack() as stack:
        samplers = importlib.import_module("pymc.sampling.jax")
        as_function = functools.partial(_graph_as_function, fallback)
        stack.enter_context(_replaced(samplers, "get_jaxified_graph", as_function, "pymc"))
        stack.enter_context(_replaced(samplers, "_postprocess_samples", postprocessed, "pymc"))
        models = importlib.import_module("pymc.model.core")
        rewrite = _attribute(models, "rewrite_pregrad", "pymc")
        before = functools.partial(_before_gradients, rewrite)
        stack.enter_context(_replaced(models, "rewrite_pregrad", before, "pymc"))
        owner = next(c for c in models.Model.__mro__ if "logp_dlogp_function" in vars(c))
        for place, name, check in (
            (samplers, "get_jaxified_logp", lambda model, _: check_by_jax(model)),
            (owner, "logp_dlogp_function", _check_own),
        ):
            made = _checked(_attribute(place, name, "pymc"), check)
            stack.enter_context(_replaced(place, name, made, "pymc"))

        def prepare_nutpie() -> None:
            models = sys.modules["nutpie.compile_pymc"]
            make = _nutpie_functions(
                _attribute(models, "_make_functions", "nutpie"), mode, fallback
            )
            made = _checked(make, _check_nutpie)
            stack.enter_context(_replaced(models, "_make_functions", made, "nutpie"))

        # Importing nutpie may take seconds, so that is left to the block.
        stack.callback(when_imported("nutpie.compile_pymc", prepare_nutpie))
        # PyMC asks for one rewrite by its name, which is in this database: checks become -inf.
        with_checks = mode.including("canonicalize_db")
        stack.enter_context(pytensor.config.change_flags(mode=with_checks))
        yield


def _before_gradients(rewrite: Callable[[Any], Any], graph: Any) -> Any:
    """Return a graph as PyMC rewrites it, with accurate gradients of eigenvectors."""
    return lowered(rewrite(graph))


@contextlib.contextmanager
def _replaced(module: ModuleType, name: str, new: Any, package: str) -> Generator[None]:
    old = _attribute(module, name, package)
    setattr(module, name, new)
    try:
        yield
    finally:
        setattr(module, name, old)


def _attribute(module: ModuleType, name: str, package: str) -> Any:
    """Return what is to be replaced."""
    if not hasattr(module, name):
        raise UnsupportedVersionError(
            f"{package} {version(package)} has no {module.__name__}.{name}, which "
            "jaxprgen.pymc.sampling replaces.\n"
            f"  Install a version of jaxprgen that knows {package} {version(package)}, or leave "
            "the with block out to sample without jaxprgen."
        )
    return getattr(module, name)


def _checked(make: Callable[..., Any], check: Callable[[Any, Any], None]) -> Callable[..., Any]:
    """Return a function that makes a sampler's function of a model, and then checks gradients."""

    @functools.wraps(make)
    def made(model: Any, *args: Any, **options: Any) -> Any:
        found = make(model, *args, **options)
        check(model, found)
        return found

    return made


def _check_own(model: Any, function: Any) -> None:
    if len(function._grad_vars) == len(model.value_vars):  # Others wait for extra values.
        check_raveled(model, functools.partial(function, extra_vars={}))


def _check_nutpie(model: Any, made: Sequence[Any]) -> None:
    density = made[2]
    if len(density.maker.fgraph.outputs) == 1:  # JAX will differentiate it.
        check_by_jax(model)
    else:
        shared = [v.get_value() for v in density.get_shared()]
        check_raveled(model, lambda point: density.vm.jit_fn(point.data, *shared))


def _graph_as_function(
    fallback: Fallback, inputs: Sequence[Any] | None = None, outputs: Sequence[Any] | None = None
) -> Callable[..., list[Any]]:
    """Compile a graph, with the present values of its shared variables, as PyMC does by JAX."""
    graph = lowered(list(outputs or ()))
    shared = [v for v in dict.fromkeys(ancestors(graph)) if isinstance(v, SharedVariable)]
    constants = {v: v.type.constant_type(v.type, v.get_value(borrow=True)) for v in shared}
    graph = clone_replace(graph, replace=constants)
    return compile(list(inputs or ()), graph, name="model", fallback=fallback)


def _nutpie_functions(make: Callable[..., Any], ours: Mode, fallback: Fallback) -> Any:
    """Return nutpie's function that compiles a model, which takes our mode for JAX."""

    def make_functions(model: Any, *, mode: str, **options: Any) -> Any:
        if mode != "JAX":
            return make(model, mode=mode, **options)
        made = make(model, mode=ours, **options)
        for function in made[2:4]:  # The log-density, and the variables of the trace.
            graph = function.maker.fgraph
            # nutpie reads the attributes of PyTensor's JAX functions.
            compiled = compile(list(graph.inputs), list(graph.outputs), fallback=fallback)
            function.vm.jit_fn = jax.jit(compiled)
        return made

    return make_functions
