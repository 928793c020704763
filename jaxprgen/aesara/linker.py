"""Aesara's mode "JAXPR": what `aesara.function` compiles with it is one JAX program."""

from __future__ import annotations

import copyreg
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

import numpy as np
from aesara.compile.function.types import Function, FunctionMaker
from aesara.compile.mode import Mode, predefined_modes, register_linker, register_mode
from aesara.compile.sharedvalue import SharedVariable
from aesara.link.basic import Container
from aesara.link.jax.linker import JAXLinker

from jaxprgen import _jax
from jaxprgen.aesara.containers import DeviceContainer
from jaxprgen.arguments.accept import types_of_arrays
from jaxprgen.errors import ArgumentTypeError, ProfileWarning
from jaxprgen.graphs.pickling import adopt_rules, portable_rules
from jaxprgen.lowering.traversal import inner_nodes, toposort
from jaxprgen.passes import DEFAULT, Pass
from jaxprgen.runtime.announcements import levels_to_user
from jaxprgen.runtime.compiled import CompiledFunction
from jaxprgen.runtime.linked import LinkedProgram, given_back
from jaxprgen.runtime.program import CompilerOption, calls_back, options_of


class JaxprLinker(JAXLinker):
    """An Aesara linker that makes one JAX program of a graph, without tracing it.

    It derives from Aesara's JAX linker, so that Aesara's rewrites take JAX for their target.

    Parameters
    ----------
    allow_gc : bool, optional
        As for Aesara's linkers; it has no effect.
    results : {"numpy", "jax"}, optional
        The arrays that functions return. NumPy arrays, as Aesara's modes return, are the caller's
        to write into; of an ``Out(variable, borrow=True)`` they are views that cannot be written
        into, without a copy where the device is the CPU. JAX arrays stay on the device, and a call
        waits for them only if it is checked.
    checks : bool
        Raise what Aesara raises if an assertion fails, an index is out of bounds, or a matrix is
        singular. Functions do so where they are called directly; inside JAX's transformations, and
        in `JaxprFunction.pure`, nothing is checked.
    fallback, passes, compiler_options
        As for `jaxprgen.function`.
    """

    def __init__(
        self,
        *,
        allow_gc: bool | None = None,
        results: Literal["numpy", "jax"] = "numpy",
        checks: bool = True,
        fallback: Literal["error", "callback"] = "error",
        passes: Sequence[Pass] = DEFAULT,
        compiler_options: Mapping[str, CompilerOption] | None = None,
    ) -> None:
        super().__init__(allow_gc=allow_gc)
        self._options = options_of("main", checks, passes, compiler_options)
        self._callbacks = calls_back(fallback)
        if results not in ("numpy", "jax"):
            raise ArgumentTypeError(f'results must be "numpy" or "jax", got {results!r}.')
        self._results: Literal["numpy", "jax"] = results

    def make_thunk(
        self,
        input_storage: Any = None,
        output_storage: Any = None,
        storage_map: Any = None,
        **options: Any,
    ) -> Any:
        """Return a `LinkedProgram`, the containers of its inputs, and those of its outputs."""
        graph: Any = self.fgraph
        if graph.profile:
            warnings.warn(
                "Mode JAXPR runs a graph as one program: a profile of it has no times of nodes.\n"
                "f.compiled.report(...) lists the cost of every node, jax.profiler.trace times the "
                "program's operations.",
                ProfileWarning,
                stacklevel=levels_to_user(),
            )
        storages = dict(storage_map or {})
        given = [
            (graph.inputs, input_storage or [None] * len(graph.inputs)),
            (graph.outputs, output_storage or [None] * len(graph.outputs)),
        ]
        for variables, found in given:
            for variable, storage in zip(variables, found, strict=True):
                storages.setdefault(variable, [None] if storage is None else storage)
        for variable in graph.variables:  # Aesara's linkers have storage for all of them.
            storages.setdefault(variable, [None])
        inputs = [DeviceContainer(v, storages[v]) for v in graph.inputs]
        outputs = [Container(v, storages[v], readonly=True) for v in graph.outputs]
        name = graph.name if (graph.name or "").isidentifier() else "main"
        asked = self._options._replace(name=name)
        program = LinkedProgram(graph, inputs, storages, asked, self._callbacks, self._given_back)
        return program, inputs, outputs

    def _given_back(self, variable: Any) -> Callable[[Any], Any]:
        return given_back(variable, self._results, copies=variable in self.no_recycling)


class JaxprFunction(Function):
    """An Aesara function that runs as one JAX program.

    It returns NumPy arrays, unless its linker's ``results`` are JAX's. `pure`, `state` and
    `compiled` are those of `jaxprgen.function`, without run-time checks, and give JAX arrays.
    """

    vm: Any  # A LinkedProgram.

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        given = [c for c in self.input_storage if c.required]
        # The fast way: arguments come first and need no conversion. Otherwise Aesara finds out
        # which argument is which and converts them.
        simple = (
            given == self.input_storage[: len(given)]
            and all(c.implicit for c in self.input_storage[len(given) :])
            and not any(c.strict or c.allow_downcast for c in given)
            and not self.vm.generators
            and self.vm.program
        )
        self._dtypes = [np.dtype(c.type.dtype) for c in given] if simple else None

    def __call__(self, *args: Any, **named: Any) -> Any:
        """Run on arguments, and write the updates."""
        # Aesara's own way copies arrays to the host to check them, and refuses tracers.
        dtypes = self._dtypes
        if named or self.profile or dtypes is None:
            return super().__call__(*args, **named)
        is_traced = any(isinstance(x, _jax.Tracer) for x in args)
        if is_traced or types_of_arrays(args, dtypes) is not None:
            return self._rebuilt(self.vm.run(args))
        return super().__call__(*args)

    def _rebuilt(self, outputs: list[Any]) -> Any:
        """Arrange the outputs as they were given."""
        if self.return_none:
            return None
        if self.unpack_single:
            return outputs[0]
        return dict(zip(self.output_keys, outputs, strict=True)) if self.output_keys else outputs

    def pure(self, state: Mapping[str, Any], *args: Any) -> tuple[Any, dict[str, Any]]:
        """Return the outputs, and the state after a call that begins with ``state``."""
        outputs, new = self.vm.program.pure(state, args)
        return self._rebuilt(outputs), new

    def state(self) -> dict[str, Any]:
        """Return the current values of the shared variables by name; keys for generators."""
        return self.vm.program.state()

    @property
    def compiled(self) -> CompiledFunction:
        """The JAX function of the state in order and then of the arguments."""
        return self.vm.program.compiled


class JaxprFunctionMaker(FunctionMaker):
    """Makes `JaxprFunction` objects."""

    def __init__(self, *args: Any, **options: Any) -> None:
        options.setdefault("function_builder", JaxprFunction)
        super().__init__(*args, **options)


class JaxprMode(Mode):
    """An Aesara mode that links by `JaxprLinker`, after the rewrites that are asked for."""

    function_maker = JaxprFunctionMaker


def _reduced(function: JaxprFunction) -> Any:
    """Return how Aesara pickles a function, after its nodes, each of which follows its inputs.

    Pickling and copying then do not recurse through the graph.
    """
    maker, graph = function.maker, function.maker.fgraph
    kept = [i.variable for i in maker.inputs if isinstance(i.variable, SharedVariable)]
    updates = [v.default_update for v in kept if v.default_update is not None]
    given = [i.update for i in maker.inputs if i.update is not None]
    nodes = toposort(
        [*updates, *given, *(o.variable for o in maker.outputs), *graph.outputs], set()
    )
    rules = portable_rules([node.op for node, _ in inner_nodes(nodes)])
    reduced: Any = copyreg.dispatch_table[Function](function)
    make, (maker, storage, _, trusts) = reduced
    return _restored, (rules, nodes, make, maker, storage, trusts)


def _restored(rules: Any, nodes: Any, make: Any, maker: Any, storage: Any, trusts: bool) -> Any:
    adopt_rules(rules)
    return make(maker, storage, [container.data for container in storage], trusts)


copyreg.pickle(JaxprFunction, _reduced)  # pyright: ignore[reportArgumentType]
if "JAXPR" not in predefined_modes:
    register_linker("jaxpr", JaxprLinker())
    register_mode("JAXPR", JaxprMode("jaxpr", "None"))
