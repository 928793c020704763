"""PyTensor's mode "JAXPR": what `pytensor.function` compiles with it is one JAX program."""

# pyright: reportMissingImports=false, reportUntypedBaseClass=false, reportCallIssue=false
# Checks run without PyTensor, too.

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

from pytensor.compile.mode import Mode, predefined_modes, register_mode
from pytensor.graph.rewriting.basic import SequentialGraphRewriter
from pytensor.link.basic import Container
from pytensor.link.jax.linker import JAXLinker

from jaxprgen.errors import ArgumentTypeError
from jaxprgen.passes import DEFAULT, Pass
from jaxprgen.pytensor.containers import DeviceContainer
from jaxprgen.runtime.linked import LinkedProgram, given_back
from jaxprgen.runtime.program import CompilerOption, calls_back, options_of


class JaxprLinker(JAXLinker):
    """A PyTensor linker that makes one JAX program of a graph, without tracing it.

    It derives from PyTensor's JAX linker, so that PyTensor's rewrites take JAX for their target.
    The parameters are those of `jaxprgen.aesara.linker.JaxprLinker`.
    """

    required_rewrites = ()

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
        storages = dict(storage_map or {})
        given = [
            (graph.inputs, input_storage or [None] * len(graph.inputs)),
            (graph.outputs, output_storage or [None] * len(graph.outputs)),
        ]
        for variables, found in given:
            for variable, storage in zip(variables, found, strict=True):
                storages.setdefault(variable, [None] if storage is None else storage)
        for variable in graph.variables:
            storages.setdefault(variable, [None])
        inputs = [DeviceContainer(v, storages[v]) for v in graph.inputs]
        outputs = [Container(v, storages[v], readonly=True) for v in graph.outputs]
        program = LinkedProgram(
            graph, inputs, storages, self._options, self._callbacks, self._given_back
        )
        return program, inputs, outputs

    def _given_back(self, variable: Any) -> Callable[[Any], Any]:
        return given_back(variable, self._results, copies=variable in self.no_recycling)


if "JAXPR" not in predefined_modes:
    register_mode("JAXPR", Mode(JaxprLinker(), SequentialGraphRewriter()))
