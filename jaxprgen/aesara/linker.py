"""Aesara's mode "JAXPR": what `aesara.function` compiles with it is one JAX program."""

from __future__ import annotations

import copyreg
import threading
from collections.abc import Mapping
from typing import Any

import numpy as np
from aesara.compile.function.types import Function, FunctionMaker
from aesara.compile.mode import Mode, predefined_modes, register_linker, register_mode
from aesara.compile.sharedvalue import SharedVariable
from aesara.link.basic import Container
from aesara.link.jax.linker import JAXLinker
from aesara.link.utils import map_storage

from jaxprgen import _jax
from jaxprgen.aesara.containers import CellContainer
from jaxprgen.arguments.accept import are_arrays
from jaxprgen.graphs.tables import adopt_rules, portable_rules
from jaxprgen.lowering.traversal import inner_nodes, toposort
from jaxprgen.runtime.compiled import CompiledFunction
from jaxprgen.runtime.linked import LinkerMixin, MakerMixin


class JaxprLinker(LinkerMixin, JAXLinker):
    """An Aesara linker that makes one JAX program of a graph, without tracing it.

    It derives from Aesara's JAX linker, so that Aesara's rewrites take JAX for their target. The
    parameters are those of `jaxprgen.runtime.linked.LinkerMixin`.

    Parameters
    ----------
    allow_gc : bool, optional
        As for Aesara's linkers; it has no effect.
    results : {"numpy", "jax"}
        What a call returns.
    checks : bool
        Check what Aesara checks at run time.
    fallback, passes, compiler_options
        As for `jaxprgen.compile`.
    """

    containers = CellContainer, Container
    map_storage = staticmethod(map_storage)


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
            and not self.vm.reads_matrices
            and self.vm.program
        )
        self._dtypes = [np.dtype(c.type.dtype) for c in given] if simple else None
        self._calling = threading.RLock()

    def __call__(self, *args: Any, **named: Any) -> Any:
        """Run on arguments, and write the updates."""
        # Aesara's own way copies arrays to the host to check them, and refuses tracers.
        if not (named or self.profile or self._dtypes is None):
            is_traced = any(isinstance(x, _jax.Tracer) for x in args)
            if is_traced or are_arrays(args, self._dtypes):
                return self._rebuilt(self.vm.run(args))
        with self._calling:  # It puts the arguments where another thread would find them.
            return super().__call__(*args, **named)

    def _rebuilt(self, outputs: list[Any]) -> Any:
        """Arrange the outputs as they were given."""
        if self.return_none:
            return None
        if self.unpack_single:
            return outputs[0]
        return dict(zip(self.output_keys, outputs, strict=True)) if self.output_keys else outputs

    def pure(self, state: Mapping[str, Any], *args: Any) -> tuple[Any, dict[str, Any]]:
        """Return the outputs, and the state after a call that begins with ``state``."""
        outputs, new = self.vm.program.after(state, args)
        return self._rebuilt(outputs), new

    def state(self) -> dict[str, Any]:
        """Return the current values of the shared variables by name; keys for generators."""
        return self.vm.program.state()

    @property
    def compiled(self) -> CompiledFunction:
        """The JAX function of the state in order and then of the arguments."""
        return self.vm.program.compiled


class JaxprFunctionMaker(MakerMixin, FunctionMaker):
    """Makes `JaxprFunction` objects."""

    def __init__(self, *args: Any, **options: Any) -> None:
        options.setdefault("function_builder", JaxprFunction)
        super().__init__(*args, **options)


class JaxprMode(Mode):
    """An Aesara mode that links by `JaxprLinker`, after the rewrites that are asked for.

    Parameters
    ----------
    linker, optimizer, db
        As for `aesara.compile.mode.Mode`; a `JaxprLinker` by default.
    """

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
