"""Save a compiled function to a file."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Protocol

import jax
import numpy as np

from jaxprgen import _jax
from jaxprgen.arguments.inputs import free_name
from jaxprgen.arguments.specs import parse_sizes
from jaxprgen.errors import ArgumentTypeError, ExportError, UnknownNameError
from jaxprgen.export.archive import write
from jaxprgen.export.description import Described, input_json, program_json, tree_json
from jaxprgen.export.executables import Sizes, compiled
from jaxprgen.export.exporting import (
    Exportable,
    backward,
    differentiable,
    export_jitted,
    named_program,
    require_order,
)
from jaxprgen.texts import visible


class Saveable(Protocol):
    """A compiled function."""

    def exportable(
        self, specs: Sequence[Any], named: Mapping[str, Any], constraints: Sequence[str]
    ) -> Exportable:
        """Return what there is to export of it."""
        ...


def save(
    path: str | os.PathLike[str],
    f: Saveable,
    *specs: Any,
    platforms: Sequence[str] | None = None,
    vjp_order: int = 0,
    batched: Sequence[str] = (),
    constraints: Sequence[str] = (),
    executable: bool | Sizes | Sequence[Sizes] = False,
    **named: Any,
) -> str:
    """Save a compiled function to a file that `jaxprgen.load` reads without Aesara.

    The file holds the program as StableHLO, its data, and the names and types of its inputs.

    Parameters
    ----------
    path
        The file. One that exists is replaced at once, and keeps its mode; links are followed.
    f : CompiledFunction
        The function.
    *specs, **named : array, jax.ShapeDtypeStruct or str
        The types of the arguments, as for `CompiledFunction.export`.
    platforms : sequence of str
        The platforms that the file is for; by default the one that JAX uses now.
    vjp_order : int
        How often the loaded function can be differentiated.
    batched : sequence of str
        The names of the inputs that `jax.vmap` is to map at once. The file then holds a second
        program, for any number of values of these inputs. Otherwise, or if other inputs are mapped,
        ``vmap`` of the loaded function calls it for one value after another.
    constraints : sequence of str
        What holds between symbolic sizes, such as ``"n >= 2"``.
    executable : bool, mapping or sequence of mapping
        Add the program as XLA compiles it for this machine, so that it need not be compiled when it
        is loaded by ``jaxprgen.load(path, trust_executable=True)``: True if all sizes are numbers,
        otherwise the size of each symbol, such as ``{"n": 100}``.

    Returns
    -------
    str
        The SHA-256 of the file, as ``jaxprgen.load(path, sha256=...)`` and ``sha256sum`` have it.

    Raises
    ------
    ExportError
        The program calls back into Python or has run-time checks.
    UnwritableFileError
        The file cannot be written.
    SymbolicSizeError
        One program cannot serve all sizes that have a name.
    """
    if not hasattr(f, "exportable"):
        raise ArgumentTypeError(
            f"jaxprgen.save takes a compiled function, got {type(f).__name__}.\n"
            + (
                "Save its attribute `compiled`, which takes the state and then the arguments."
                if hasattr(f, "compiled")
                else "Compile a graph with jaxprgen.compile."
            )
        )
    given = f.exportable(specs, named, constraints)
    names = [declared.name for declared in given.inputs]
    for name in batched:
        if name not in names:
            listed = ", ".join(names) or "no inputs"
            raise UnknownNameError(f"batched: there is no input {name!r}; there are {listed}.")
    is_batched = [name in batched for name in names]
    programs = [*_programs(given, platforms, require_order(vjp_order), is_batched)]
    kept = [*compiled(programs[0].exported, executable)]
    scope = _jax.symbolic_scope([x.shape for x in given.specs])
    manifest = {
        "written_by": {"jax": jax.__version__, "numpy": np.__version__},
        "name": given.name,
        "inputs": [input_json(declared) for declared in given.inputs],
        "fixed": {name: _short(value) for name, value in given.fixed.items()},
        "batched": is_batched,
        "data": [
            {"name": name, "dtype": array.dtype.str, "shape": array.shape}
            for name, array in given.data.items()
        ],
        "results": tree_json(given.results),
        "constraints": _jax.constraints_of(scope),
        "programs": [program_json(program) for program in programs],
        "executables": [{"sizes": x.sizes, "machine": _jax.machine()} for x in kept],
    }
    members: dict[str, Any] = {p.member: bytes(p.exported.mlir_module_serialized) for p in programs}
    members |= {f"executable_{i}": x.content for i, x in enumerate(kept)}
    members |= {f"data_{i}": array for i, array in enumerate(given.data.values())}
    return write(path, manifest, members)


def _short(value: Any) -> str:
    return visible(" ".join(str(np.asarray(value)).split()), 60)


def _programs(
    given: Exportable, platforms: Sequence[str] | None, order: int, is_batched: Sequence[bool]
) -> Iterator[Described]:
    """Yield the program and its derivatives, each also for several values of some inputs."""
    function, specs = given.function, [*given.specs, *given.data_specs]
    fixed = len(specs)
    for k in range(order + 1):
        exported = export_jitted(named_program(function, given.name), specs, platforms)
        yield Described(k, False, f"program_{k}", exported)
        if any(is_batched):
            mapped = [*is_batched, *[False] * len(given.data), *[True] * (len(specs) - fixed)]
            many = jax.vmap(function, in_axes=tuple(0 if x else None for x in mapped))
            size = _batch_size(specs)
            several = [_with_axis(x, size) if m else x for x, m in zip(specs, mapped, strict=True)]
            exported_many = export_jitted(named_program(many, given.name), several, platforms)
            yield Described(k, True, f"program_{k}_batched", exported_many)
        inputs = *differentiable(specs[: len(given.specs)]), *range(fixed, len(specs))
        outputs = differentiable(exported.out_avals)
        if k < order and not (inputs and outputs):
            raise ExportError(
                f"{given.name} has no derivative: no input, or no output, is of floating point.\n"
                "Save it with vjp_order=0."
            )
        function = backward(function, len(specs), inputs, outputs)
        specs += [_struct(exported.out_avals[i]) for i in outputs]


def _struct(aval: Any) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(aval.shape, aval.dtype)


def _with_axis(spec: jax.ShapeDtypeStruct, size: Any) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct((size, *spec.shape), spec.dtype)


def _batch_size(specs: Sequence[Any]) -> Any:
    """Return a symbolic size that differs from all others."""
    scope = _jax.symbolic_scope([x.shape for x in specs])
    taken = {name for x in specs for n in x.shape for name in _jax.symbols_of(n)}
    return parse_sizes(free_name("batch", taken), scope)[0]
