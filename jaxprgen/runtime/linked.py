"""Programs that a graph library's functions run: they read and write the library's storage."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, Literal

import jax
import numpy as np

from jaxprgen import _jax
from jaxprgen.arguments.sparse import MatrixParts, scipy_matrix
from jaxprgen.errors import ArgumentTypeError, ProfileWarning, levels_to_user
from jaxprgen.graphs.cells import cell_of, holding, locks_of
from jaxprgen.graphs.containers import CellMixin
from jaxprgen.graphs.generators import key_of, with_key
from jaxprgen.graphs.inner_updates import require_not_updated_twice, with_updates_outside
from jaxprgen.graphs.library import is_sparse
from jaxprgen.graphs.state import names_of
from jaxprgen.lowering.names import Variable, is_a
from jaxprgen.passes import Pass
from jaxprgen.passes.defaults import FOR_GRAPHS
from jaxprgen.runtime.by_objects import ByObjects
from jaxprgen.runtime.program import CompilerOption, Options, calls_back, options_of
from jaxprgen.runtime.state import StatefulProgram


class LinkerMixin:
    """A linker that makes one JAX program of a graph; comes before the library's linker.

    Parameters
    ----------
    allow_gc : bool, optional
        As for the library's linkers; it has no effect.
    results : {"numpy", "jax"}, optional
        The arrays that functions return. NumPy arrays, as the library's modes return, are the
        caller's to write into; of an ``Out(variable, borrow=True)`` they are views that cannot be
        written into, without a copy where the device is the CPU. JAX arrays stay on the device, as
        do the values of updated variables, which functions in other modes cannot use then, and
        a call waits for them only if it is checked.
    checks : bool
        Raise what the library raises if an assertion fails, an index is out of bounds, or a matrix
        is singular. Functions do so where they are called directly; inside JAX's transformations,
        and in `JaxprFunction.pure`, nothing is checked.
    fallback, passes, compiler_options
        As for `jaxprgen.function`.
    """

    containers: ClassVar[tuple[type, type]]
    """The classes of the containers of inputs, which have cells, and of outputs."""
    map_storage: ClassVar[Callable[..., Any]]
    """The library's function that gives every variable of a graph its storage."""
    fgraph: Any
    no_recycling: Any

    def __init__(
        self,
        *,
        allow_gc: bool | None = None,
        results: Literal["numpy", "jax"] = "numpy",
        checks: bool = True,
        fallback: Literal["error", "callback"] = "error",
        passes: Sequence[Pass] = FOR_GRAPHS,
        compiler_options: Mapping[str, CompilerOption] | None = None,
    ) -> None:
        super().__init__(allow_gc=allow_gc)  # type: ignore[call-arg]
        self.options = options_of("main", checks, passes, compiler_options)
        self.callbacks = calls_back(fallback)
        if results not in ("numpy", "jax"):
            raise ArgumentTypeError(f'results must be "numpy" or "jax", got {results!r}.')
        self.results = results

    def make_thunk(
        self,
        input_storage: Any = None,
        output_storage: Any = None,
        storage_map: Any = None,
        **options: Any,
    ) -> Any:
        """Return a `LinkedProgram`, the containers of its inputs, and those of its outputs."""
        graph = self.fgraph
        if graph.profile:
            text = (
                "Mode JAXPR runs a graph as one program: a profile of it has no times of nodes.\n"
                "f.compiled.report(...) lists the cost of every node, jax.profiler.trace times the "
                "program's operations."
            )
            warnings.warn(text, ProfileWarning, stacklevel=levels_to_user())
        given = input_storage, output_storage, storage_map
        _, _, storages = self.map_storage(graph, graph.toposort(), *given)
        inputs = [self._with_cell(v, storages[v]) for v in graph.inputs]
        outputs = [self.containers[1](v, storages[v], readonly=True) for v in graph.outputs]
        name = getattr(graph, "name", None) or ""  # PyTensor's graphs have none.
        asked = self.options._replace(name=name if name.isidentifier() else "main")
        return LinkedProgram(self, inputs, storages, asked), inputs, outputs

    def _with_cell(self, variable: Any, storage: list[Any]) -> Any:
        """Return a container of an input; that of a shared variable has the variable's cell."""
        container: Any = self.containers[0](variable, storage)
        if is_a(variable, "compile.SharedVariable"):
            cell = cell_of(variable.container)
            container.cell = cell if cell.storage is storage else container.cell
        container.cell.as_numpy |= self.results == "numpy"
        return container

    def given_back(self, variable: Any) -> Callable[[Any], Any]:
        """Return the function that converts the JAX array of an output."""
        if is_a(variable.type, "tensor.RandomType"):
            is_old = is_a(variable.type, "tensor.RandomStateType")
            make: Any = np.random.RandomState if is_old else np.random.default_rng
            return lambda key: with_key(make(np.asarray(jax.random.key_data(key))), key)
        if is_sparse(variable):
            return lambda parts: scipy_matrix(parts, variable.type)
        if self.results == "jax":
            return lambda x: x
        if is_a(variable.type, "scalar.ScalarType"):
            return lambda x: np.asarray(x)[()]
        return np.array if variable in self.no_recycling else np.asarray  # The caller's memory.


class MakerMixin:
    """A maker of functions of mode "JAXPR"; comes before the library's class."""

    linker: Any

    def create(self, input_storage: Any = None, *args: Any, **options: Any) -> Any:
        """Return a function. The library does not use the storage of its shared variables."""
        plain = self.linker.containers[1]
        given = [getattr(x, "container", x) for x in input_storage or ()]
        given = [plain(c, c.cell.storage) if isinstance(c, CellMixin) else c for c in given]
        return super().create(given or None, *args, **options)  # type: ignore[misc]


class LinkedProgram:
    """The program that a function of a graph library runs, which reads and writes its storage.

    Parameters
    ----------
    linker : LinkerMixin
        The linker, which has the graph.
    containers
        The containers of the graph's inputs.
    storage_map
        The storage of all variables, also as an attribute: the library's functions look for it.
    options
        The options of programs.

    Attributes
    ----------
    program
        The program for arrays. It is falsy if an argument is not an array, or if the graph has
        neither outputs nor updates.
    programs : ByObjects
        All programs.
    reads_matrices
        Whether a shared variable is a sparse matrix.
    generators
        The positions of arguments that are generators.
    """

    allow_gc = True
    """The library's functions drop the results in storage when they have returned them."""
    need_update_inputs = False
    """The program itself updates them."""

    def __init__(
        self, linker: LinkerMixin, containers: Sequence[Any], storage_map: Any, options: Options
    ) -> None:
        self._graph = graph = linker.fgraph
        self.storage_map = storage_map
        cell_of_input = {v: c.cell for v, c in zip(graph.inputs, containers, strict=True)}
        returned, advanced = with_updates_outside(graph.outputs, graph.inputs)
        new = {graph.inputs[i]: returned[o] for o, i in graph.update_mapping.items()}
        require_not_updated_twice(new, advanced)
        new |= {v: x for v, x in advanced.items() if v in cell_of_input and v not in new}
        kept = [v for v in graph.inputs if v in new or is_a(v, "compile.SharedVariable")]
        names = dict(zip(kept, names_of(kept), strict=True))
        self._arrays = {v: n for v, n in names.items() if not is_sparse(v)}
        # Shared matrices are arguments, which a call reads where they are.
        self.reads_matrices = len(self._arrays) < len(names)
        arguments = [v for v in graph.inputs if v not in self._arrays]
        self._arguments = [storage_map[v] for v in arguments]
        self.generators = [i for i, v in enumerate(arguments) if is_a(v.type, "tensor.RandomType")]
        outputs = [v for o, v in enumerate(graph.outputs) if o not in graph.update_mapping]
        results = [x for o, x in enumerate(returned) if o not in graph.update_mapping]
        # The storage of inputs holds arguments and states.
        self._results = [[None] if v in cell_of_input else storage_map[v] for v in outputs]
        self._given_back = [linker.given_back(v) for v in outputs]
        self._written = [None] * len(graph.update_mapping)
        shared = {n: (v, cell_of_input[v]) for v, n in names.items()}
        self._locks = locks_of(cell_of_input[v] for v in names) if self.reads_matrices else []
        options = options._replace(parts_from=0)

        def program(
            inputs: Sequence[Variable], ends: Sequence[Variable], fixed: Mapping[Variable, Any]
        ) -> StatefulProgram:
            updates = dict(zip((names[v] for v in new), ends[len(results) :], strict=True))
            state = inputs, ends[: len(results)], shared, updates
            unchecked, checked = options._replace(checks=False), options if options.checks else None
            return StatefulProgram(*state, unchecked, linker.callbacks, fixed, checked)

        ends = [*results, *new.values()]
        self.programs = ByObjects(graph, storage_map, arguments, ends, program)
        self.program = self.programs.plain

    def __call__(self, output_subset: Any = None) -> list[Any]:
        """Run on the values in storage; return the outputs, and None for each update."""
        found = holding(self._locks, lambda: self.run([x[0] for x in self._arguments]))
        for storage, value in zip(self._results, found, strict=False):
            storage[0] = value  # Where a loop that runs in Python looks.
        return [*found, *self._written]

    def jit_fn(self, *values: Any) -> list[Any]:
        """Return all outputs of the graph, updates included, as a function that JAX transforms.

        PyTensor's JAX mode has it under this name.

        Parameters
        ----------
        *values : array or tracer
            The values of all inputs of the graph, shared variables included. A generator's value is
            a PRNG key.
        """
        graph, program = self._graph, self.program or self.programs.program({})
        given = dict(zip(graph.inputs, values, strict=True))
        state = {n: given.pop(v) for v, n in self._arrays.items()}
        outputs, state = program.after(state, [*given.values()])
        new = {o: state[self._arrays[graph.inputs[i]]] for o, i in graph.update_mapping.items()}
        rest = iter(outputs)
        return [new[o] if o in new else next(rest) for o in range(len(graph.outputs))]

    def run(self, operands: Sequence[Any]) -> list[Any]:
        """Return the outputs for these arguments, and write the updates."""
        if self.generators:
            operands = [key_of(x) if i in self.generators else x for i, x in enumerate(operands)]
        program, operands = self.programs.find(operands)
        if not program:
            return []
        outputs = program.run(operands)
        return [
            give(x) if isinstance(x, MatrixParts) or _jax.is_complete(x) else x
            for give, x in zip(self._given_back, outputs, strict=True)
        ]
