"""Compiled functions: a graph as a function that JAX takes like any other."""

from __future__ import annotations

import functools
import html
from collections.abc import Mapping, Sequence
from typing import Any

import jax

from jaxprgen import _jax
from jaxprgen._jax import ClosedJaxpr
from jaxprgen.arguments.accept import accept_each, are_arrays, are_concrete, in_order
from jaxprgen.arguments.inputs import Input, signature
from jaxprgen.arguments.shardings import placed
from jaxprgen.arguments.sparse import PARTS, opened
from jaxprgen.errors import ArgumentTypeError
from jaxprgen.export.exporting import Exportable, ExportedProgram, export
from jaxprgen.graphs.cells import cell_of
from jaxprgen.graphs.shardings import to_device
from jaxprgen.lowering.graph import Plan
from jaxprgen.lowering.portable import stamped
from jaxprgen.runtime.dispatch import Dispatch, lowered
from jaxprgen.runtime.exportable import exportable
from jaxprgen.runtime.observe import Observation, observe
from jaxprgen.runtime.program import Options, Program
from jaxprgen.runtime.report import Report, report_of
from jaxprgen.runtime.shardings import require_arguments
from jaxprgen.runtime.shared_values import SharedValues
from jaxprgen.runtime.specialize import CacheInfo, Specializer
from jaxprgen.texts import visible


class CompiledFunction:
    """A graph as a JAX function of its inputs, in their order; `jaxprgen.compile` makes it.

    It works under ``jit``, ``vmap``, ``grad`` and every other JAX transformation, and in several
    threads at once.

    Parameters
    ----------
    *args, **named : scalar, array or tracer
        The arguments of a call, by position or by name. The methods also take
        `jax.ShapeDtypeStruct`.

    Returns
    -------
    array or pytree of arrays
        The values of the outputs, arranged as the outputs were given. A `FunctionGraph` with one
        output gives one array, with several a tuple.

    Raises
    ------
    ArgumentCountError, ArgumentTypeError, ArgumentShapeError
        The arguments do not fit the inputs' types.
    StaticShapeError
        A shape depends on the value of an argument that is a tracer.
    ShapeMismatchError, IndexOutOfBoundsError
        The shapes that a node combines do not agree, or a known index is out of bounds.
    IndexOutOfBoundsError, FailedAssertionError, LinearAlgebraError
        With ``checks``: an index is out of bounds, an assertion fails, or a matrix is singular.
    """

    def __init__(self, plan: Plan, options: Options, seconds: float = 0.0) -> None:
        self._plan_seconds = seconds
        self.__name__ = self.__qualname__ = options.name
        self._plan = plan
        options = options._replace(matrices=tuple(plan.results.items()))
        self._options = options
        self._names = _argument_names(plan)
        self._dtypes = [i.dtype for i in plan.inputs]
        self._specializer = Specializer(plan, options)
        self._dispatch = Dispatch(self._specializer, options, plan)
        where = plan.shardings
        self._constants = [
            (p, x) for p, x in enumerate(plan.values) if _jax.is_on_several_devices(x)
        ]
        self._shardings = {i: where[p] for i, p in enumerate(plan.input_places) if p in where}
        # JAX and `help` take the names of arguments from here.
        self.__signature__ = signature(self._names)
        names = [s.name for s in plan.shared]
        listed = ", ".join([*names, *(["..."] if plan.inputs else [])])
        self._shared = SharedValues(
            options.name,
            names,
            [cell_of(plan.variables[s.place].container) for s in plan.shared],
            f"To pass them as arguments, list them among the inputs, jaxprgen.compile([{listed}], "
            "outputs), or use jaxprgen.function and its method pure(state, ...).",
            {i: where[s.place] for i, s in enumerate(plan.shared) if s.place in where},
        )

    def __reduce__(self) -> Any:
        return stamped(CompiledFunction, self._plan, self._options)

    def __repr__(self) -> str:
        inputs = ", ".join(f"{i.name}: {i.type_text()}" for i in self._plan.inputs)
        outputs = ", ".join(label for label, _ in self._outputs())
        return visible(f"<jaxprgen function {self.__name__}({inputs}) -> {outputs}>", None)

    def _repr_html_(self) -> str:
        """Return the signature as a table, for notebooks."""
        inputs = [("input", i.name, i.type_text()) for i in self._plan.inputs]
        shared = [("shared variable", s.name, str(s.dtype)) for s in self._plan.shared]
        outputs = [("output", label, kind) for label, kind in self._outputs()]
        rows = "".join(
            "<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in row) + "</tr>"
            for row in [*inputs, *shared, *outputs]
        )
        nodes, programs = len(self._plan.steps), self.cache_info().currsize
        return (
            f"<table><caption><code>{html.escape(self.__name__)}</code>: {nodes} nodes, "
            f"{programs} programs emitted</caption>{rows}</table>"
        )

    def _outputs(self) -> list[tuple[str, str]]:
        """Return the label and the type of each output."""
        plan = self._plan
        return [
            (plan.library.label(plan.variables[place]), str(plan.variables[place].type))
            for place in plan.output_places
        ]

    @property
    def inputs(self) -> tuple[Input, ...]:
        """The name, dtype and declared shape of every input."""
        return self._plan.inputs

    def __call__(self, *args: Any, **named: Any) -> Any:
        """Run on arguments, or record the program in a trace if one of them is a tracer."""
        return self.run(self._counted(args, named) if named else args)

    def run(self, args: Sequence[Any], into: list[Any] | None = None) -> Any:
        """Call the function with its inputs in order; ``into`` is that of `Dispatch`."""
        if self._plan.arguments:
            args = self._flat(args, {})
        if self._shardings:
            args = self._accepted(args)
        if self._constants and not _jax.trace_state_clean():
            remedy = "Make it an input of the graph, and pass it as an argument."
            label, variables = self._plan.library.label, self._plan.variables
            held = ((label(variables[place]), x, remedy) for place, x in self._constants)
            require_arguments(self.__name__, held)
        if self._shared.cells:
            return self._shared.at_once(self._run_with_shared, args, into)
        return self._run(args, (), (), into)

    def _run_with_shared(self, args: Sequence[Any], into: list[Any] | None) -> Any:
        # All values are those of one moment, and stay until the program runs.
        on_device = self._shared.read()
        return self._run(args, on_device, [cell.value for cell in self._shared.cells], into)

    def _run(self, args: Sequence[Any], on_device: Any, stored: Any, into: Any) -> Any:
        is_clean = _jax.trace_state_clean()
        if is_clean and are_arrays(args, self._dtypes):
            return self._dispatch(args, on_device, stored, into)
        args = self._accepted(args)
        if any(isinstance(x, jax.ShapeDtypeStruct) for x in args):
            raise ArgumentTypeError(
                f"{self.__name__} cannot be called with a ShapeDtypeStruct, which has no values; "
                "its methods jaxpr, lower and report can."
            )
        if is_clean and are_concrete(args):
            return self._dispatch(args, on_device, stored, into)
        return self._specializer(args, stored).bind(on_device, args)

    def jaxpr(self, *args: Any, **named: Any) -> ClosedJaxpr:
        """Return the program for arguments of these types. Its constants are data.

        Parameters
        ----------
        args, named
            The arguments, by position or by name: arrays, `jax.ShapeDtypeStruct` or tracers.

        Returns
        -------
        ClosedJaxpr
            The program after the passes. Its inputs are the arguments; a PRNG key comes first.
        """
        return self.program(args, named).with_values(self._shared.stored())

    def lower(self, *args: Any, **named: Any) -> jax.stages.Lowered:
        """Return the program as JAX lowers it: StableHLO, cost analysis, ``.compile()``.

        What data decide once for many calls is not part of it.

        Calls with arguments of these types then find it compiled.

        Parameters
        ----------
        args, named
            The arguments, by position or by name: arrays, `jax.ShapeDtypeStruct` or tracers.

        Returns
        -------
        jax.stages.Lowered
            The lowered program.
        """
        return self._dispatch.lower(self.accepted(args, named), self._shared.stored())

    def export(
        self,
        *specs: Any,
        platforms: Sequence[str] | None = None,
        vjp_order: int = 0,
        constraints: Sequence[str] = (),
        **named: Any,
    ) -> ExportedProgram:
        """Export the program for arguments of these types, as `jax.export` does.

        One program serves all sizes if sizes have names instead of numbers. An argument whose
        value decides a shape must be given; its value is part of the program, which no longer
        takes the argument. Large constants and shared variables are arguments of the program, not
        part of it: `ExportedProgram.data` holds their present values.

        Parameters
        ----------
        *specs, **named : array, jax.ShapeDtypeStruct or str
            The type of each argument, by position or by name. A string such as ``"f64[n,3]"``
            gives a dtype and sizes, ``"key[]"`` is a typed PRNG key. Equal names in several strings
            stand for equal sizes.
        platforms : sequence of str
            The platforms to export for, such as ``("cpu", "cuda", "tpu")``; by default the one
            that JAX uses now.
        vjp_order : int
            The order of derivatives to export now. JAX derives others when it needs them, until
            the program is serialized.
        constraints : sequence of str
            What holds between symbolic sizes, such as ``"n >= 2"``.

        Returns
        -------
        ExportedProgram
            A `jax.export.Exported`, with its data.

        Raises
        ------
        ExportError
            The program calls back into Python, or has run-time checks.
        SymbolicSizeError
            One program cannot serve all sizes that have a name.
        """
        return export(self.exportable(specs, named, constraints), platforms, vjp_order)

    def exportable(
        self, specs: Sequence[Any], named: Mapping[str, Any], constraints: Sequence[str]
    ) -> Exportable:
        """Return what there is to export of this function; the arguments are those of `export`."""
        given, shared = self._flat(specs, named), self._shared.stored()
        return exportable(self._plan, self._options, self._specializer, given, constraints, shared)

    def program(self, args: Sequence[Any], named: Mapping[str, Any] | None = None) -> Program:
        """Return the program for arguments, and how it runs."""
        return self._specializer(self.accepted(args, named), self._shared.stored())

    def observe(self, *args: Any, **named: Any) -> Observation:
        """Emit the program for arguments of these types anew, and show it beside its graph.

        Parameters
        ----------
        args, named
            The arguments, by position or by name: arrays, `jax.ShapeDtypeStruct` or tracers.

        Returns
        -------
        Observation
            The program, its nodes, and the names of its variables.
        """
        return observe(self._plan, self._options, self.accepted(args, named), self._shared.stored())

    def report(self, *args: Any, emitted: bool = False, **named: Any) -> Report:
        """Report what became of every node, and what the program for these arguments costs.

        This emits the program anew. Unless an argument is a tracer, or has a symbolic size, it also
        compiles the program, to ask XLA for its costs, and for what devices exchange if arguments
        are split among several.

        Parameters
        ----------
        args, named
            The arguments, or their types, as for a call.
        emitted
            Leave out nodes that became no equations.

        Returns
        -------
        Report
            A table, as text by ``str`` and as plain values by ``as_dict()``.
        """
        operands, shared = self.accepted(args, named), self._shared.stored()
        observation = observe(self._plan, self._options, operands, shared)
        is_open = any(
            isinstance(x, _jax.Tracer) or any(map(_jax.is_symbolic, x.shape)) for x in operands
        )
        program, data = observation.program, [*operands, *shared, *self._plan.values]
        lower = functools.partial(lowered, program, self._options, self._plan, operands, shared)
        return report_of(
            observation,
            None if is_open else lower,
            self._plan_seconds,
            lambda: program.values_of(to_device(shared), operands),
            emitted=emitted,
            is_split=any(_jax.sharding_of(x) is not None for x in data),
        )

    def cache_info(self) -> CacheInfo:
        """Return how many programs were emitted, and how many are kept."""
        return self._specializer.cache_info()

    def cache_clear(self) -> None:
        """Drop all programs; the next call emits anew."""
        self._dispatch.clear()

    def arranged(self, results: Sequence[Any]) -> Any:
        """Return a program's results as a call gives them."""
        return self._options.arranged(results)

    def accepted(self, args: Sequence[Any], named: Mapping[str, Any] | None = None) -> list[Any]:
        """Return the arguments as programs take them, or raise how they do not fit the inputs."""
        return self._accepted(self._flat(args, named or {}))

    def _accepted(self, args: Sequence[Any]) -> list[Any]:
        """Return the arguments as programs take them, with arrays in place of matrices."""
        if len(args) != len(self._plan.inputs):
            self._counted(args, {})
        given = accept_each(args, self._plan.inputs)
        if self._shardings and _jax.trace_state_clean():
            for i, sharding in self._shardings.items():
                given[i] = placed(given[i], sharding, f"Input {self._plan.inputs[i].name!r}")
        return given

    def _flat(self, args: Sequence[Any], named: Mapping[str, Any]) -> Sequence[Any]:
        """Return the arguments in the order of the inputs, with arrays in place of matrices."""
        args, formats = self._counted(args, named), self._plan.arguments
        return opened(args, formats, self._names) if formats else args

    def _counted(self, args: Sequence[Any], named: Mapping[str, Any]) -> Sequence[Any]:
        """Return the arguments in the order of the inputs, or raise that their number is wrong."""
        names = list(self.__signature__.parameters)
        written = f"{self.__name__}({', '.join(names)})"
        return in_order(written, names, args, named, hint=lambda: self._hint(args))

    def _hint(self, args: Sequence[Any]) -> str:
        """Return what may be wrong with the number of arguments: the key, or all are in one."""
        if len(args) == 1 and isinstance(args[0], (Mapping, list, tuple)):
            stars = "**" if isinstance(args[0], Mapping) else "*"
            return f"\nPass them one by one: {self.__name__}({stars}arguments)."
        given = any(_jax.is_key(x) for x in args)
        if self._plan.generators and not given:
            return "\nIt draws random numbers: the first argument is a key, jax.random.key(seed)."
        return "\nIt draws no random numbers, and takes no key." if given else ""


def _argument_names(plan: Plan) -> list[str]:
    """Return the names of the arguments of a call; matrices are several inputs."""
    names: list[str] = []
    left = iter(plan.inputs)
    for declared in left:
        if len(names) in plan.arguments:
            names.append(declared.name.removesuffix(f".{PARTS[0]}"))
            for _ in PARTS[1:]:
                next(left)
        else:
            names.append(declared.name)
    return names
