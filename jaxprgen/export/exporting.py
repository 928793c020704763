"""Functions as `jax.export.Exported`, with the data that they are called with."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields, replace
from typing import Any

import jax
import jax.export  # JAX 0.7 does not import it by itself.
import numpy as np

from jaxprgen import _jax
from jaxprgen.arguments.inputs import Input
from jaxprgen.errors import ArgumentTypeError, ExportError, undecided_size
from jaxprgen.texts import visible


class ExportedProgram(jax.export.Exported):
    """A `jax.export.Exported` that knows its data.

    It works wherever JAX takes an `Exported`. JAX does not serialize the data: a program that
    `jax.export.deserialize` returns takes them as the keyword argument ``data``.

    Attributes
    ----------
    data : dict from str to array
        The arrays that the program is called with beside its arguments: large constants and the
        values of shared variables.
    """

    data: Mapping[str, Any]

    def call(self, *args: Any, data: Mapping[str, Any] | None = None) -> Any:
        """Call the program, as part of another one or directly.

        Parameters
        ----------
        *args
            The arguments, of the types that it was exported for.
        data
            Other arrays than `data`, of the same names and types.
        """
        data = self.data if data is None else data
        return super().call(*args, data=dict(data)) if self.data else super().call(*args)


@dataclass(frozen=True)
class Exportable:
    """A function to be exported for arguments of given types.

    Attributes
    ----------
    name
        The function's name.
    inputs, specs
        Its inputs as they are declared, and the types to export it for.
    data
        The arrays that it takes after its arguments, by name, sorted.
    function
        It takes the arguments and then the data, and returns its results in a list.
    results
        The pytree structure of the results.
    fixed
        The values of inputs that are part of the program, by name.
    """

    name: str
    inputs: tuple[Input, ...]
    specs: tuple[jax.ShapeDtypeStruct, ...]
    data: Mapping[str, Any]
    function: Callable[..., list[Any]]
    results: Any
    fixed: Mapping[str, Any]

    @property
    def data_specs(self) -> list[jax.ShapeDtypeStruct]:
        """The types of the data."""
        return [jax.ShapeDtypeStruct(x.shape, x.dtype) for x in self.data.values()]


def export(
    exportable: Exportable, platforms: Sequence[str] | None = None, vjp_order: int = 0
) -> ExportedProgram:
    """Export a function for JAX; see `CompiledFunction.export`."""

    def program(*args: Any, data: Mapping[str, Any] | None = None) -> Any:
        results = exportable.function(*args, *(data or {}).values())
        return jax.tree.unflatten(exportable.results, results)

    program.__name__ = program.__qualname__ = exportable.name
    named = {"data": dict(zip(exportable.data, exportable.data_specs, strict=True))}
    exported = export_jitted(program, exportable.specs, platforms, named if exportable.data else {})
    return _with_data(_with_derivatives(exported, vjp_order), exportable.data)


PLATFORMS = ("cpu", "cuda", "rocm", "tpu")
"""The names of platforms, as JAX lowers programs for them."""


def export_jitted(
    function: Callable[..., Any],
    specs: Sequence[Any],
    platforms: Sequence[str] | None,
    named: Mapping[str, Any] | None = None,
) -> jax.export.Exported:
    """Return what `jax.export.export` makes of a function.

    Raises
    ------
    ExportError
        There is no such platform.
    SymbolicSizeError
        JAX has no program for all the symbolic sizes.
    """
    if isinstance(platforms, str):
        platforms = [platforms]
    # The first platform is the one that others are taken for.
    given = None if platforms is None else sorted(platforms, key=lambda name: name != "cpu")
    unknown = [name for name in given or () if name not in PLATFORMS]
    if unknown:
        raise ExportError(
            f"There is no platform {unknown[0]!r}. The platforms are {', '.join(PLATFORMS)}."
        )
    with _sizes_decided():
        return jax.export.export(jax.jit(function), platforms=given)(*specs, **(named or {}))


@contextmanager
def _sizes_decided() -> Generator[None, None, None]:
    """Raise our error where JAX cannot export a program for all symbolic sizes."""
    try:
        yield
    except _jax.InconclusiveSizeError as error:
        raise undecided_size(error) from error
    except ValueError as error:
        if not str(error).startswith("Cannot solve for values of dimension variables"):
            raise
        raise ArgumentTypeError(
            "JAX takes symbolic sizes that it can solve for, such as n or 2*n + 1, and for each "
            f"symbol needs one of them: {visible(error, 200)}"
        ) from error


def _with_derivatives(exported: jax.export.Exported, order: int) -> jax.export.Exported:
    """Return the program with its derivatives up to an order exported, too."""
    if order < 1:
        return exported
    with _sizes_decided():
        derivative = _with_derivatives(exported.vjp(), order - 1)
    return replace(exported, _get_vjp=lambda _: derivative)


def _with_data(exported: jax.export.Exported, data: Mapping[str, Any]) -> ExportedProgram:
    values: dict[str, Any] = {x.name: getattr(exported, x.name) for x in fields(exported)}
    program = ExportedProgram(**values)
    object.__setattr__(program, "data", dict(data))  # The class is frozen.
    return program


# --- Derivatives --------------------------------------------------------------------------


def named_program(function: Callable[..., Any], name: str) -> Callable[..., Any]:
    """Return a function by another name, as programs have it."""

    def program(*given: Any) -> Any:
        return function(*given)

    program.__name__ = program.__qualname__ = name
    return program


def differentiable(avals: Sequence[Any]) -> tuple[int, ...]:
    """Return the positions of the avals that have a derivative."""
    inexact = jax.numpy.inexact
    return tuple(i for i, x in enumerate(avals) if jax.numpy.issubdtype(x.dtype, inexact))


def backward(
    function: Callable[..., Sequence[Any]],
    count: int,
    inputs: Sequence[int],
    outputs: Sequence[int],
) -> Callable[..., list[Any]]:
    """Return the derivative of a flat function, as a flat function.

    Parameters
    ----------
    function
        It takes ``count`` arguments and returns a list.
    inputs, outputs
        The positions of the arguments and results that the derivative is about.

    Returns
    -------
    callable
        It takes the arguments and then a cotangent for each of these results, and returns the
        cotangents of these arguments.
    """

    def back(*given: Any) -> list[Any]:
        args, cotangents = given[:count], list(given[count:])

        def part(*some: Any) -> list[Any]:
            moved = dict(zip(inputs, some, strict=True))
            results = function(*(moved.get(i, x) for i, x in enumerate(args)))
            return [results[i] for i in outputs]

        _, pull = jax.vjp(part, *(args[i] for i in inputs))
        return list(pull(cotangents))

    return back


def require_order(order: Any) -> int:
    """Return an order of derivatives, or raise an `ExportError`."""
    if not isinstance(order, (int, np.integer)) or isinstance(order, bool) or order < 0:
        raise ExportError(f"vjp_order must be an integer >= 0, got {order!r}.")
    return int(order)
