"""Exported programs: rebuilt from their parts, and the scopes of their symbolic sizes."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Mapping, Sequence
from typing import Any

import jax
from jax._src.export.shape_poly import shape_assertion_effect as _checks_sizes
from jax._src.interpreters import mlir as _mlir
from jax.export import Exported

from jaxprgen._jax.types import ShapedArray, prng

_SHARDINGS = {
    "in_avals": ("in_shardings_hlo", "_in_named_shardings"),
    "out_avals": ("out_shardings_hlo", "_out_named_shardings"),
}
"""The fields that hold a sharding for each argument or result. JAX 0.7 lacks the latter."""
_FIELDS = [field.name for field in dataclasses.fields(Exported)]


def exported_of(parts: Mapping[str, Any]) -> Exported:
    """Return the exported program of these fields: for one device, without effects or gradient."""
    values: dict[str, Any] = {
        **parts,
        **{name: (None,) * len(parts[of]) for of, names in _SHARDINGS.items() for name in names},
        "_has_named_shardings": True,
        "nr_devices": 1,
        "ordered_effects": (),
        "unordered_effects": (),
        "disabled_safety_checks": (),
        "_get_vjp": None,
    }
    return Exported(**{name: values[name] for name in _FIELDS})


def is_portable(exported: Exported) -> bool:
    """Return whether an exported program is for one device and has no effects but to check sizes.

    JAX decides such a check when a call gives the sizes their values, and without its effect, too.
    """
    shardings = [
        sharding
        for names in _SHARDINGS.values()
        for name in names
        for sharding in getattr(exported, name, None) or ()
    ]
    effects = {*exported.ordered_effects, *exported.unordered_effects} - {_checks_sizes}
    return exported.nr_devices == 1 and not effects and not any(shardings)


# JAX 0.7.1 returns text only.
_IN_CONTEXT = "serialized" in inspect.signature(Exported.mlir_module).parameters


def require_readable(programs: Sequence[Exported]) -> None:
    """Raise whatever MLIR raises if it cannot read the StableHLO of a program.

    The context loads only the dialects that a program needs. JAX's own contexts load all of them,
    which takes 13 ms the first time.
    """
    if not _IN_CONTEXT:
        for program in programs:
            program.mlir_module()
        return
    with _mlir.JaxIrContext():
        for program in programs:
            program.mlir_module(serialized=False)


def symbolic_scope(shapes: Sequence[Sequence[Any]]) -> Any:
    """Return the scope of the symbolic sizes in these shapes, or None."""
    sizes = (n for shape in shapes for n in shape if jax.export.is_symbolic_dim(n))
    return next((n.scope for n in sizes), None)


def constraints_of(scope: Any) -> list[str]:
    """Return the constraints of a scope of symbolic sizes, as they were written."""
    return [] if scope is None else [c.debug_str for c in scope._explicit_constraints]


def symbols_of(size: Any) -> list[str]:
    """Return the names of the symbols in a size, sorted."""
    variables: Any = getattr(size, "_get_vars", None)
    return sorted(variables()) if jax.export.is_symbolic_dim(size) else []


def size_at(size: Any, sizes: Mapping[str, int]) -> int:
    """Return the value of a symbolic size if all its symbols have these values."""
    return int(size._evaluate(dict(sizes)))


def violated(scope: Any, sizes: Mapping[str, int]) -> str | None:
    """Return the first constraint of a scope that does not hold for these sizes, as written.

    Constraints on other symbols are left out.
    """
    for constraint in scope._explicit_constraints:
        difference = constraint.diff
        if not set(symbols_of(difference)) <= set(sizes):
            continue
        value = size_at(difference, sizes) if symbols_of(difference) else int(difference)
        if value < 0 or (value and constraint.cmp.name == "EQ"):
            return constraint.debug_str
    return None


def key_dtype(implementation: str) -> Any:
    """Return the dtype of the typed PRNG keys of an implementation.

    Raises
    ------
    KeyError
        JAX has no implementation of that name.
    """
    return prng.KeyTy(prng.prngs[implementation])


def key_implementation(dtype: Any) -> str:
    """Return the name of the implementation of typed PRNG keys."""
    return dtype._impl.name


def array_aval(shape: Sequence[Any], dtype: Any, *, weak_type: bool) -> ShapedArray:
    """Return the aval of an unsharded array, whose sizes may be symbolic."""
    return ShapedArray(tuple(shape), dtype, weak_type=weak_type)
