"""The systems: each makes a function of a workload, and reports its stages.

All systems run as users run them. JAX reports how long it traces, lowers and compiles. The linkers
of Aesara and PyTensor report when they begin to write the Python function that JAX traces;
everything before that, copies of the graph included, counts as rewriting.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax

from compare.library import Library, aesara_library, pytensor_library
from compare.workloads import Workload


class Made(NamedTuple):
    """A function, and how long it took to make.

    Attributes
    ----------
    call
        The function as users call it.
    stages
        Seconds spent before JAX is called, by stage.
    jaxpr
        Returns the program for the arguments, if it is JAX's.
    lower
        Returns the lowered program for the arguments, if it is JAX's.
    """

    call: Callable[..., Any]
    stages: dict[str, float]
    jaxpr: Callable[[], Any] | None = None
    lower: Callable[[], Any] | None = None


Make = Callable[[], Made]


def of_jitted(function: Callable[..., Any], args: Sequence[Any]) -> Made:
    """Return a function that JAX traces."""
    jitted = jax.jit(function)
    return Made(jitted, {}, lambda: jitted.trace(*args).jaxpr, lambda: jitted.lower(*args))


def by_hand(workload: Workload, args: Sequence[Any]) -> Make:
    """JAX, written by hand."""
    return lambda: of_jitted(workload.by_hand, args)


def numpyro(workload: Workload, args: Sequence[Any]) -> Make:
    """NumPyro: the density that its samplers evaluate."""
    assert workload.numpyro is not None
    function = workload.numpyro()
    return lambda: of_jitted(function, args)


class TimedPasses:
    """The default passes, which record when they begin."""

    def __init__(self) -> None:
        from jaxprgen.passes import DEFAULT
        from jaxprgen.passes.pipeline import Pipeline

        self._pipeline, self.began = Pipeline(DEFAULT), 0.0

    def __call__(self, closed: Any) -> Any:
        """Return the program after the passes."""
        self.began = time.perf_counter()
        return self._pipeline(closed)


def jaxprgen(workload: Workload, args: Sequence[Any]) -> Make:
    """jaxprgen, with Aesara's graph and gradient."""
    return ours(aesara_library(), workload, args)


def jaxprgen_pytensor(workload: Workload, args: Sequence[Any]) -> Make:
    """jaxprgen, with PyTensor's graph and gradient."""
    return ours(pytensor_library(), workload, args)


def ours(library: Library, workload: Workload, args: Sequence[Any]) -> Make:
    """jaxprgen, with the graph and gradient of a library."""
    import jaxprgen as package

    inputs, outputs = workload.graph(library)

    def make() -> Made:
        passes, start = TimedPasses(), time.perf_counter()
        f = package.compile(inputs, outputs, passes=(passes,))
        planned = time.perf_counter()
        # The type of one key, without computing it.
        types = [jax.ShapeDtypeStruct(x.shape[1:], x.dtype) for x in args]
        program = f.jaxpr(*(types if workload.mapped else args))
        began, end = passes.began, time.perf_counter()
        stages = {"plan": planned - start, "emission": began - planned, "passes": end - began}
        if workload.mapped:
            return of_jitted(jax.vmap(f), args)._replace(stages=stages)
        return Made(f, stages, lambda: program, lambda: f.lower(*args))

    return make


def peer(library: Library, workload: Workload, args: Sequence[Any]) -> Make:
    """The JAX mode of a graph library, with its default rewriting."""
    inputs, outputs = (workload.mapped or workload.graph)(library)
    convert, spent = library.linker.fgraph_convert, [0.0]

    def timed(*given: Any, **options: Any) -> Any:
        start = time.perf_counter()
        try:
            return convert(*given, **options)
        finally:
            spent[0] += time.perf_counter() - start

    library.linker.fgraph_convert = timed  # type: ignore[method-assign]

    def make() -> Made:
        start = time.perf_counter()
        f = library.function(inputs, outputs, mode="JAX")
        seconds = time.perf_counter() - start
        stages = {"rewriting": seconds - spent[0], "to Python": spent[0]}
        jitted = f.vm.jit_fn

        def operands() -> list[Any]:
            """Return the arguments, and the states of generators that the function holds."""
            return [*args, *(c.storage[0] for c in f.input_storage[len(args) :])]

        return Made(
            f,
            stages,
            lambda: jitted.trace(*operands()).jaxpr,
            lambda: jitted.lower(*operands()),
        )

    return make


def aesara(workload: Workload, args: Sequence[Any]) -> Make:
    """Aesara's JAX mode."""
    return peer(aesara_library(), workload, args)


def pytensor(workload: Workload, args: Sequence[Any]) -> Make:
    """PyTensor's JAX mode."""
    return peer(pytensor_library(), workload, args)


def without_jax(mode: str, workload: Workload, args: Sequence[Any]) -> Make:
    """A mode of PyTensor that compiles by Numba or C, which takes NumPy arrays."""
    library = pytensor_library()
    inputs, outputs = workload.graph(library)

    def make() -> Made:
        start = time.perf_counter()
        f = library.function(inputs, outputs, mode=mode)
        return Made(f, {"rewriting": time.perf_counter() - start})

    return make


SYSTEMS: dict[str, Callable[[Workload, Sequence[Any]], Make]] = {
    "by hand": by_hand,
    "jaxprgen": jaxprgen,
    "aesara": aesara,
    "pytensor": pytensor,
    "numpyro": numpyro,
    "jaxprgen pytensor": jaxprgen_pytensor,
    "numba": functools.partial(without_jax, "NUMBA"),
    "c": functools.partial(without_jax, "CVM"),
}
WITHOUT_JAX = ("numba", "c")
BESIDE_PYTENSOR = ("jaxprgen pytensor", *WITHOUT_JAX)
"""Systems that are measured on one workload only, beside PyTensor's JAX mode."""
PYTENSOR_WORKLOAD = "radon"
"""This workload."""
GROWING = ("by hand", "jaxprgen", "aesara", "pytensor")
"""The systems that compile models of growing size."""
