"""Loaded functions: called by position or name, checked, compiled once per kind of arguments."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np

from jaxprgen import _jax
from jaxprgen.arguments.accept import accept_each, are_arrays, in_order
from jaxprgen.arguments.inputs import Input, signature
from jaxprgen.arguments.specs import require_sizes, sizes_text
from jaxprgen.errors import ArgumentCountError, ArgumentTypeError
from jaxprgen.export.calls import Flat, Level, function_of
from jaxprgen.export.executables import Executable, callables
from jaxprgen.export.exporting import Exportable, ExportedProgram, export
from jaxprgen.texts import visible

MOST_PROGRAMS = 256
"""How many programs a loaded function keeps: one for each combination of argument types."""


@dataclass(eq=False, repr=False)
class LoadedFunction:
    """A function from a file, as a JAX function of its inputs; `jaxprgen.load` makes it.

    It works under ``jit`` and ``vmap``, and under ``grad`` as often as `save` was asked for.

    Parameters
    ----------
    *args, **named : scalar, array or tracer
        The arguments of a call, by position or by name.

    Returns
    -------
    array or pytree of arrays
        The results, arranged as those of the function that was saved.

    Raises
    ------
    ArgumentCountError, ArgumentTypeError, ArgumentShapeError
        The arguments do not fit the inputs' types, or the sizes that the program is for.
    ReverseModeError
        The file lacks the derivative that is asked for.
    """

    inputs: tuple[Input, ...]
    """The name, dtype and declared shape of every input."""
    data: Mapping[str, Any]
    """The arrays that the program is called with beside its arguments, by name, read-only."""
    constraints: tuple[str, ...]
    """What holds between symbolic sizes, such as ``n >= 2``."""
    about: tuple[tuple[str, str], ...]
    """More of what the file says, as names and texts: what ``info`` prints."""
    sha256: str
    """The SHA-256 of the file, as `jaxprgen.save` returned it."""
    _fixed: Mapping[str, str]
    """The values of inputs that are part of the program, as text by name."""
    _results: Any
    """The pytree structure of the results."""
    _levels: Sequence[Level]
    """The program and its derivatives."""
    _layout: Flat
    """The layout of their flat arguments."""
    _executables: Sequence[Executable]
    """The program as XLA compiled it."""

    def __post_init__(self) -> None:
        self.__name__ = self.__qualname__ = self._layout.name
        self.__signature__ = signature([declared.name for declared in self.inputs])
        self._one = self._levels[0].one
        self._avals = self._one.in_avals[: len(self.inputs)]
        self._dtypes = [x.dtype for x in self._avals]
        self.cache_clear()
        self._compiled = callables(self._one, self._executables)

    def __repr__(self) -> str:
        inputs = ", ".join(
            f"{declared.name}: {_type_text(aval)}"
            for declared, aval in zip(self.inputs, self._avals, strict=True)
        )
        results = jax.tree.unflatten(
            self._results, [_Bare(_type_text(x)) for x in self._one.out_avals]
        )
        where = f" where {', '.join(self.constraints)}" if self.constraints else ""
        return visible(f"<loaded function {self.__name__}({inputs}) -> {results}{where}>", None)

    def cache_clear(self) -> None:
        """Drop all compiled programs; the next call compiles anew."""
        results = self._results
        self._flat = flat = function_of(self._levels, self._layout)

        def program(*given: Any) -> Any:
            return jax.tree.unflatten(results, flat(*given))

        program.__name__ = program.__qualname__ = self.__name__
        # JAX drops what it keeps of a function with the function.
        self._known: set[tuple[Any, ...]] = set()
        self._jitted = jax.jit(program)

    @property
    def platforms(self) -> tuple[str, ...]:
        """The platforms that the program is for."""
        return tuple(self._one.platforms)

    @functools.cached_property
    def exported(self) -> ExportedProgram:
        """The function as `jax.export` has it, with its data."""
        specs = tuple(jax.ShapeDtypeStruct(x.shape, x.dtype) for x in self._avals)
        named = self.__name__, self.inputs, specs, self.data
        given = Exportable(*named, self._flat, self._results, self._fixed)
        return export(given, self.platforms)

    def as_text(self) -> str:
        """Return the program's StableHLO."""
        return str(self._one.mlir_module())

    def lower(self, *args: Any, **named: Any) -> jax.stages.Lowered:
        """Return the program for arguments of these types as JAX lowers it.

        Parameters
        ----------
        args, named
            The arguments, by position or by name: arrays, `jax.ShapeDtypeStruct` or tracers.

        Returns
        -------
        jax.stages.Lowered
            The lowered program.
        """
        operands = self._accepted(self._counted(args, named))
        return self._jitted.lower(*operands, *self.data.values())

    def __call__(self, *args: Any, **named: Any) -> Any:
        """Run on arguments, or record the program in a trace if one of them is a tracer."""
        if named:
            args = tuple(self._counted(args, named))
        is_ready = are_arrays(args, self._dtypes)
        if not is_ready or tuple(map(_jax.type_of, args)) not in self._known:
            args = tuple(self._accepted(self._counted(args, {})))
            if len(self._known) >= MOST_PROGRAMS:
                self.cache_clear()
            self._known.add(tuple(map(_jax.type_of, args)))
        if self._compiled and _jax.runs_now():
            operands = [*args, *self._on_device]
            run = self._compiled.get(tuple(x.shape for x in operands))
            if run is not None:
                return jax.tree.unflatten(self._results, run(operands))
        return self._jitted(*args, *self._on_device)

    @functools.cached_property
    def _on_device(self) -> list[Any]:
        with _jax.eval_context():
            return jax.device_put(list(self.data.values()))

    def _counted(self, args: Sequence[Any], named: Mapping[str, Any]) -> Sequence[Any]:
        """Return the arguments in the order of the inputs, or raise that their number is wrong."""
        names = list(self.__signature__.parameters)
        written = f"{self.__name__}({', '.join(names)})"
        for name in named:
            if name in self._fixed:
                raise ArgumentCountError(
                    f"{written} takes no {name!r}: its value decides a shape, and was fixed to "
                    f"{self._fixed[name]} when the function was saved."
                )
        return in_order(written, names, args, named)

    def _accepted(self, args: Sequence[Any]) -> list[Any]:
        """Return the arguments as the program takes them, or raise how they do not fit."""
        self._require_platform()
        self._require_wide()
        accepted = accept_each(args, self.inputs)
        require_sizes([i.name for i in self.inputs], self._avals, accepted)
        return [_converted(x, aval) for x, aval in zip(accepted, self._avals, strict=True)]

    def _require_platform(self) -> None:
        platform = _jax.default_platform()
        names = {"gpu": ("cuda", "rocm")}.get(platform, (platform,))
        if not set(names) & set(self.platforms):
            raise ArgumentTypeError(
                f"{self.__name__} was saved for {', '.join(self.platforms)}, but JAX runs on "
                f"{platform}.\nSave it with platforms=({names[0]!r}, ...)."
            )

    def _require_wide(self) -> None:
        if _jax.x64_enabled():
            return
        avals = *self._one.in_avals, *self._one.out_avals
        wide = [x.dtype for x in avals if x.dtype in _jax.NARROW]
        if wide:
            raise ArgumentTypeError(
                f"{self.__name__} was saved to compute with {wide[0]}, but jax_enable_x64 is off.\n"
                "Run jax.config.update('jax_enable_x64', True) before anything else of JAX."
            )


class _Bare(str):
    def __repr__(self) -> str:
        return str(self)


def _type_text(aval: Any) -> str:
    name = "key" if _jax.is_key(aval) else aval.dtype.name
    return f"{name}[{sizes_text(aval.shape)}]"


def _converted(x: Any, aval: Any) -> Any:
    """Return an argument that fits its input in the type that the program takes."""
    if _jax.is_key(aval) and not _jax.is_key(x):
        return jax.random.wrap_key_data(x, impl=_jax.key_implementation(aval.dtype))
    if _jax.is_key(x) and not _jax.is_key(aval):
        return jax.random.key_data(x)
    if x.dtype == aval.dtype or isinstance(x, jax.ShapeDtypeStruct):
        return x
    if isinstance(x, (np.ndarray, np.generic)):
        return np.asarray(x, aval.dtype)
    return jax.lax.convert_element_type(x, aval.dtype)
