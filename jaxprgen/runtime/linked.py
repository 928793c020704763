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
from jaxprgen.graphs.cells import cell_of, holding, locks_of, not_in_use
from jaxprgen.graphs.generators import key_of, with_key
from jaxprgen.graphs.inner_updates import require_not_updated_twice, with_updates_outside
from jaxprgen.graphs.library import is_array, is_none_or_slice, is_sparse, may_be_none_or_slice
from jaxprgen.graphs.state import names_of, substitute
from jaxprgen.graphs.typed_lists import is_typed_list, opened_list
from jaxprgen.lowering.names import Variable, is_a
from jaxprgen.passes import Pass
from jaxprgen.passes.defaults import FOR_GRAPHS
from jaxprgen.runtime.cache import MOST_PROGRAMS
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
        graph = self.fgraph
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
        for variable in graph.variables:  # The libraries' linkers have storage for all of them.
            storages.setdefault(variable, [None])
        inputs = [self._with_cell(v, storages[v]) for v in graph.inputs]
        outputs = [self.containers[1](v, storages[v], readonly=True) for v in graph.outputs]
        name = getattr(graph, "name", None) or ""  # PyTensor's graphs have none.
        asked = self._options._replace(name=name if name.isidentifier() else "main")
        program = LinkedProgram(
            graph, inputs, storages, asked, self._callbacks, self._given_back, self._results
        )
        return program, inputs, outputs

    def _with_cell(self, variable: Any, storage: list[Any]) -> Any:
        """Return a container of an input; that of a shared variable has the variable's cell."""
        container: Any = self.containers[0](variable, storage)
        if is_a(variable, "compile.SharedVariable"):
            cell = cell_of(variable.container)
            container.cell = cell if cell.storage is storage else container.cell
        return container

    def _given_back(self, variable: Any) -> Callable[[Any], Any]:
        return given_back(variable, self._results, copies=variable in self.no_recycling)


def given_back(
    variable: Variable, results: Literal["numpy", "jax"], *, copies: bool
) -> Callable[[Any], Any]:
    """Return the function that converts the JAX array of an output."""
    if is_a(variable.type, "tensor.RandomType"):
        is_old = is_a(variable.type, "tensor.RandomStateType")
        make: Any = np.random.RandomState if is_old else np.random.default_rng
        return lambda key: with_key(make(np.asarray(jax.random.key_data(key))), key)
    if is_sparse(variable):
        return lambda parts: scipy_matrix(parts, variable.type)
    if results == "jax":
        return lambda x: x
    if is_a(variable.type, "scalar.ScalarType"):
        return _scalar
    return np.array if copies else np.asarray  # The caller's memory.


def _scalar(x: Any) -> Any:
    return np.asarray(x)[()]


class MakerMixin:
    """A maker of functions of mode "JAXPR"; comes before the library's class."""

    inputs: Any

    def create(self, input_storage: Any = None, *args: Any, **options: Any) -> Any:
        """Return a function. The library does not use the storage of its shared variables."""
        given = [getattr(i, "value", None) for i in self.inputs]
        containers = [getattr(x, "container", x) for x in input_storage or given]
        with not_in_use(containers):
            return super().create(input_storage, *args, **options)  # type: ignore[misc]


class LinkedProgram:
    """The program that a function of a graph library runs, which reads and writes its storage.

    Attributes
    ----------
    program
        The program; falsy without outputs and updates.
    reads_matrices
        Whether a shared variable is a sparse matrix.
    by_objects
        Other programs, by the arguments that are not arrays.
    storage_map
        The storage of all variables, where the library's functions look for it.
    """

    allow_gc = True
    """The library's functions drop the results in storage when they have returned them."""
    need_update_inputs = False
    """The program itself updates them."""

    def __init__(
        self,
        graph: Any,
        containers: Sequence[Any],
        storage_map: Any,
        options: Options,
        callbacks: bool,
        given_back: Callable[[Variable], Callable[[Any], Any]],
        results_as: Literal["numpy", "jax"],
    ) -> None:
        self.storage_map = storage_map
        container_of = dict(zip(graph.inputs, containers, strict=True))
        returned, advanced = with_updates_outside(graph.outputs, graph.inputs)
        new = {graph.inputs[i]: returned[o] for o, i in graph.update_mapping.items()}
        require_not_updated_twice(new, advanced)
        new |= {v: x for v, x in advanced.items() if v in container_of and v not in new}
        shared_inputs = [v for v in graph.inputs if is_a(v, "compile.SharedVariable")]
        kept = [v for v in graph.inputs if v in new or v in shared_inputs]
        names = dict(zip(kept, names_of(kept), strict=True))
        arrays = {v: n for v, n in names.items() if not is_sparse(v)}
        # Shared matrices are arguments, which a call reads where they are.
        self.reads_matrices = len(arrays) < len(names)
        self._arguments = {v: c for v, c in container_of.items() if v not in arrays}
        self.generators = [
            i for i, v in enumerate(self._arguments) if is_a(v.type, "tensor.RandomType")
        ]
        outputs = [v for o, v in enumerate(graph.outputs) if o not in graph.update_mapping]
        results = [x for o, x in enumerate(returned) if o not in graph.update_mapping]
        inputs = set(graph.inputs)  # Whose storage holds arguments and states.
        self._results = [[None] if v in inputs else storage_map[v] for v in outputs]
        self._states = [arrays.get(v) for v in graph.inputs]
        updated = {o: graph.inputs[i] for o, i in graph.update_mapping.items()}
        written = {o: names[v] for o, v in updated.items() if v in names}
        self._updates = [written.get(o) for o in range(len(graph.outputs))]
        self._given_back = [given_back(v) for v in outputs]
        self._written = [None] * len(graph.update_mapping)
        shared = {n: (v, container_of[v].cell) for v, n in names.items()}
        cells = [cell for _, cell in shared.values()]
        for cell in cells:
            cell.as_numpy |= results_as == "numpy"
        self._locks = locks_of(cells) if self.reads_matrices else []
        options = options._replace(parts_from=0)
        bare, called = options._replace(checks=False), options if options.checks else None

        def program(fixed: dict[Variable, Any]) -> StatefulProgram:
            lists = {v: opened_list(v, x) for v, x in fixed.items() if is_typed_list(v)}
            inputs = [x for v in self._arguments for x in (lists[v][0] if v in lists else [v])]
            made = [(v, x) for v, (_, x) in lists.items()]
            ends = substitute([*results, *new.values()], made)
            return StatefulProgram(
                [v for v in inputs if v not in fixed],
                ends[: len(results)],
                shared,
                dict(zip((names[v] for v in new), ends[len(results) :], strict=True)),
                bare,
                callbacks,
                {v: x for v, x in fixed.items() if v not in lists},
                called,
            )

        self._program = program
        self.by_objects: dict[Any, StatefulProgram] = {}
        self._optional = {
            v: c
            for v, c in container_of.items()
            if may_be_none_or_slice(graph, v) or is_typed_list(v)
        }
        self.program: Any = (
            graph.outputs
            and all(is_array(v) or is_sparse(v) for v in self._optional)
            and program({})
        )

    def __call__(self, output_subset: Any = None) -> list[Any]:
        """Run on the values in storage; return the outputs, and None for each update."""
        arguments = self._arguments.values()
        found = holding(self._locks, lambda: self.run([c.storage[0] for c in arguments]))
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
        pairs = [*zip(self._states, values, strict=True)]
        program = self.program or self._program({})
        outputs, state = program.pure(
            {n: x for n, x in pairs if n is not None}, [x for n, x in pairs if n is None]
        )
        rest = iter(outputs)
        return [next(rest) if n is None else state[n] for n in self._updates]

    def run(self, operands: Sequence[Any]) -> list[Any]:
        """Return the outputs for these arguments, and write the updates."""
        optional = {v: c.storage[0] for v, c in self._optional.items()}
        fixed = {v: x for v, x in optional.items() if is_none_or_slice(x)}
        lists = {v: x for v, x in optional.items() if is_typed_list(v)}
        fixed |= {v: jax.tree.structure(x) for v, x in lists.items()}
        program = self._program_with(fixed) if fixed else self.program
        if not program:
            return []
        if self.generators:
            operands = [key_of(x) if i in self.generators else x for i, x in enumerate(operands)]
        if fixed:
            given = zip(self._arguments, operands, strict=True)
            arrays = [jax.tree.leaves(x) if v in lists else [x] for v, x in given]
            operands = [x for some in arrays for x in some if not is_none_or_slice(x)]
        outputs = program(operands)
        return [
            give(x) if isinstance(x, MatrixParts) or _jax.is_complete(x) else x
            for give, x in zip(self._given_back, outputs, strict=True)
        ]

    def _program_with(self, fixed: dict[Variable, Any]) -> StatefulProgram:
        """Return the program for these values of arguments that are not arrays."""
        key = tuple((v, repr(x)) for v, x in fixed.items())
        found = self.by_objects.get(key)
        if found is None:
            if len(self.by_objects) >= MOST_PROGRAMS:
                self.by_objects.clear()
            found = self.by_objects[key] = self._program(fixed)
        return found
