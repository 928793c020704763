"""Aesara's mode "JAXPR": what `aesara.function` compiles with it is one JAX program."""

from __future__ import annotations

import copyreg
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

import jax
import numpy as np
from aesara.compile.function.types import Function, FunctionMaker
from aesara.compile.mode import Mode, predefined_modes, register_linker, register_mode
from aesara.compile.sharedvalue import SharedVariable
from aesara.graph.basic import Variable
from aesara.link.basic import Container
from aesara.link.jax.linker import JAXLinker
from aesara.scalar.basic import ScalarType
from aesara.tensor.random.type import RandomType, random_state_type

from jaxprgen import _jax
from jaxprgen.aesara.containers import DeviceContainer, keep_on_device
from jaxprgen.aesara.library import is_array, is_none_or_slice, may_be_none_or_slice
from jaxprgen.aesara.pickling import adopt_rules, portable_rules
from jaxprgen.aesara.state import names_of
from jaxprgen.aesara.traversal import inner_nodes, toposort
from jaxprgen.arguments.accept import types_of_arrays
from jaxprgen.errors import ArgumentTypeError, ProfileWarning
from jaxprgen.passes import DEFAULT, Pass
from jaxprgen.runtime import state  # Its import of Aesara may be what imports this module.
from jaxprgen.runtime.announcements import levels_to_user
from jaxprgen.runtime.cache import MOST_PROGRAMS, Cache
from jaxprgen.runtime.compiled import CompiledFunction
from jaxprgen.runtime.generators import key_of, with_key
from jaxprgen.runtime.program import CompilerOption, Options, calls_back, options_of


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
        self._results = results

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
        """Return the function that converts the JAX array of an output."""
        if isinstance(variable.type, RandomType):
            is_old = variable.type == random_state_type
            make: Any = np.random.RandomState if is_old else np.random.default_rng
            return lambda key: with_key(make(np.asarray(jax.random.key_data(key))), key)
        if self._results == "jax":
            return lambda x: x
        if isinstance(variable.type, ScalarType):
            return _scalar
        return np.array if variable in self.no_recycling else np.asarray  # The caller's memory.


def _scalar(x: Any) -> Any:
    return np.asarray(x)[()]


class LinkedProgram:
    """The program that an Aesara function runs, which reads and writes Aesara's storage.

    Attributes
    ----------
    program
        The program; falsy without outputs and updates.
    by_objects
        Other programs, by the arguments that are not arrays.
    storage_map
        The storage of all variables, where Aesara's functions look for it.
    """

    need_update_inputs = False
    """The program itself updates them."""

    def __init__(
        self,
        graph: Any,
        containers: Sequence[Container],
        storage_map: Any,
        options: Options,
        callbacks: bool,
        given_back: Callable[[Variable], Callable[[Any], Any]],
    ) -> None:
        self.storage_map = storage_map
        container_of = dict(zip(graph.inputs, containers, strict=True))
        new = {graph.inputs[i]: graph.outputs[o] for o, i in graph.update_mapping.items()}
        kept = [v for v in graph.inputs if v in new or isinstance(v, SharedVariable)]
        names = dict(zip(kept, names_of(kept), strict=True))
        self._arguments = {v: c for v, c in container_of.items() if v not in names}
        self.generators = [
            i for i, v in enumerate(self._arguments) if isinstance(v.type, RandomType)
        ]
        outputs = [v for o, v in enumerate(graph.outputs) if o not in graph.update_mapping]
        self._given_back = [given_back(v) for v in outputs]
        self._written = [None] * len(new)
        shared = {n: (v, state.state_in(_known(v, container_of[v]))) for v, n in names.items()}
        updates = {names[v]: value for v, value in new.items()}
        bare, called = options._replace(checks=False), options if options.checks else None

        def program(fixed: dict[Variable, Any]) -> state.StatefulProgram:
            inputs = [v for v in self._arguments if v not in fixed]
            return state.StatefulProgram(
                inputs, outputs, shared, updates, bare, callbacks, fixed, called
            )

        self._program = program
        self.by_objects: Cache[Any, state.StatefulProgram] = Cache(MOST_PROGRAMS)
        self._optional = {v: c for v, c in container_of.items() if may_be_none_or_slice(graph, v)}
        self.program: Any = graph.outputs and all(map(is_array, self._optional)) and program({})

    def __call__(self, output_subset: Any = None) -> list[Any]:
        """Run on the values in storage; return the outputs, and None for each update."""
        return [*self.run([c.storage[0] for c in self._arguments.values()]), *self._written]

    def run(self, operands: Sequence[Any]) -> list[Any]:
        """Return the outputs for these arguments, and write the updates."""
        optional = {v: c.storage[0] for v, c in self._optional.items()}
        fixed = {v: x for v, x in optional.items() if is_none_or_slice(x)}
        program = self._program_with(fixed) if fixed else self.program
        if not program:
            return []
        if self.generators:
            operands = [key_of(x) if i in self.generators else x for i, x in enumerate(operands)]
        outputs = program([x for x in operands if not is_none_or_slice(x)] if fixed else operands)
        return [
            give(x) if _jax.is_complete(x) else x
            for give, x in zip(self._given_back, outputs, strict=True)
        ]

    def _program_with(self, fixed: dict[Variable, Any]) -> state.StatefulProgram:
        """Return the program for these values of arguments that are not arrays."""
        key = tuple((v, repr(x)) for v, x in fixed.items())
        found = self.by_objects.get(key)
        if found is None:
            found = self._program(fixed)
            self.by_objects.put(key, found)
        return found


def _known(variable: Variable, container: Container) -> Container:
    """Return the container that other functions share, if its storage is the one used here."""
    own = variable.container if isinstance(variable, SharedVariable) else container
    if own.storage is not container.storage:
        return container
    keep_on_device(own, DeviceContainer)
    return own


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
