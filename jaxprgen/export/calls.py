"""Exported programs as functions that JAX can differentiate and map."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import jax
from jax.custom_batching import custom_vmap, sequential_vmap

from jaxprgen import _jax
from jaxprgen.errors import ReverseModeError
from jaxprgen.export.exporting import differentiable


class Level(NamedTuple):
    """A program, or its derivative of some order, and the same for several values of inputs."""

    one: jax.export.Exported
    many: jax.export.Exported | None


class Flat(NamedTuple):
    """How the flat arguments of programs are laid out.

    Attributes
    ----------
    name
        The function's name.
    batched
        Whether each argument is one that `Level.many` maps.
    data
        The number of data after the arguments. Cotangents follow.
    """

    name: str
    batched: Sequence[bool]
    data: int

    def mapped(self, count: int) -> list[bool]:
        """Return which of this many flat arguments `Level.many` maps."""
        before = [*self.batched, *[False] * self.data]
        return [*before, *[True] * (count - len(before))]

    def with_derivative(self, avals: Sequence[Any]) -> tuple[int, ...]:
        """Return the positions of flat arguments, data apart, that have a derivative."""
        args = differentiable(avals[: len(self.batched)])
        return *args, *range(len(self.batched) + self.data, len(avals))


def function_of(levels: Sequence[Level], flat: Flat) -> Callable[..., list[Any]]:
    """Return the first program as a JAX function, whose derivatives the further ones are."""
    run = _mappable(levels[0], flat)
    further = function_of(levels[1:], flat) if len(levels) > 1 else None
    exported = levels[0].one
    inputs = frozenset(flat.with_derivative(exported.in_avals))
    outputs = differentiable(exported.out_avals)

    @jax.custom_vjp
    def call(*given: Any) -> list[Any]:
        return run(*given)

    def forward(*given: Any) -> tuple[list[Any], Any]:
        if further is None:
            raise ReverseModeError(
                f"{flat.name} was saved without the derivative that is asked for.\nSave it with a "
                "larger vjp_order, as in jaxprgen.save(..., vjp_order=1)."
            )
        return call(*given), given

    def back(given: Any, cotangents: Any) -> tuple[Any, ...]:
        assert further is not None
        found = iter(further(*given, *(cotangents[i] for i in outputs)))
        return tuple(next(found) if i in inputs else None for i in range(len(given)))

    call.defvjp(forward, back)
    return call


def _mappable(level: Level, flat: Flat) -> Callable[..., list[Any]]:
    """Return a program as a function that `jax.vmap` takes."""

    call_one = _callable(level.one)
    many = None if level.many is None else sequential_vmap(_callable(level.many))

    @custom_vmap
    def one(*given: Any) -> list[Any]:
        return list(call_one(*given))

    @one.def_vmap
    def _(size: int, is_mapped: Sequence[bool], *given: Any) -> tuple[list[Any], list[bool]]:
        mapped = flat.mapped(len(given))
        start = len(flat.batched) + flat.data
        if many is not None and list(is_mapped[:start]) == mapped[:start]:
            whole = [
                x if not wanted or found else jax.numpy.broadcast_to(x, (size, *x.shape))
                for x, wanted, found in zip(given, mapped, is_mapped, strict=True)
            ]
            results = list(many(*whole))
        else:
            results = _one_by_one(one, is_mapped, given)
        return results, [True] * len(results)

    return one


def _callable(exported: jax.export.Exported) -> Callable[..., Any]:
    """Return a program as JAX calls it.

    JAX imports SciPy for LAPACK, which takes longer than many programs take to compile, whenever
    it calls a program that was exported for "cpu". If the program does not call LAPACK, it is
    called under another name of the platform.
    """
    if b"lapack" in exported.mlir_module_serialized:

        def call(*given: Any) -> Any:
            _jax.initialize_lapack()
            return exported.call(*given)

        return call
    first, *others = exported.platforms
    if first != "cpu":
        return exported.call
    return replace(
        exported,
        platforms=("cpu without LAPACK", *others),
        disabled_safety_checks=(jax.export.DisabledSafetyCheck.platform(),),
    ).call


def _one_by_one(
    function: Callable[..., list[Any]], is_mapped: Sequence[bool], given: Sequence[Any]
) -> list[Any]:
    """Return the results of a function for one value after another of its mapped arguments."""

    def step(values: Sequence[Any]) -> list[Any]:
        rest = iter(values)
        merged = (next(rest) if m else x for x, m in zip(given, is_mapped, strict=True))
        return function(*merged)

    return jax.lax.map(step, [x for x, m in zip(given, is_mapped, strict=True) if m])
