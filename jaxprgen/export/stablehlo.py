"""Check the StableHLO of a file before JAX compiles it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import jax

from jaxprgen import _jax

_CALL = re.compile(r"custom_call(?:\"|\s)\s*(@\"?([^\"(\s]+)\"?\(|)")
_MAIN = re.compile(r"^ *func\.func public @main\((.*)\) -> (.*) \{$", re.MULTILINE)
_TENSOR = re.compile(r"tensor<((?:[^<>]|complex<\w+>)*)>")
_KINDS = {"f": "f", "i": "i", "u": "ui"}


def what_is_wrong(programs: Sequence[jax.export.Exported]) -> str | None:
    """Return why one of the programs is not to be run, or None.

    A program may call no code of the process other than the routines that JAX keeps stable in
    exported programs, such as those of LAPACK, and it must have the types that are said of it.
    """
    try:
        texts = list(_jax.stablehlo_of(programs))
    except Exception as error:  # JAX raises a ValueError, or one of MLIR's own.
        return f"JAX {jax.__version__} cannot read its StableHLO ({_first_line(error)})"
    found = (_wrong(*x) for x in zip(programs, texts, strict=True))
    return next((wrong for wrong in found if wrong is not None), None)


def _wrong(exported: jax.export.Exported, text: str) -> str | None:
    for call, target in _CALL.findall(text):
        if not call or target not in _jax.STABLE_CUSTOM_CALLS:
            return f"its program calls {target or 'what has no name'!r}, which is not allowed"
    found = _MAIN.search(text)
    if found is None:
        return "its StableHLO has no function main"
    given, returned = _TENSOR.findall(found[1]), _TENSOR.findall(found[2])
    kept = [exported.in_avals[i] for i in exported.module_kept_var_idx]
    takes = given[1:] if len(exported.platforms) > 1 else given
    if takes != _tensors(kept) or returned != _tensors(exported.out_avals):
        return "its StableHLO has other types than its description"
    return None


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0][:200]


def _tensors(avals: Sequence[Any]) -> list[str]:
    return [_tensor(_jax.physical(aval)) for aval in avals]


def _tensor(aval: Any) -> str:
    sizes = [str(n) if type(n) is int else "?" for n in aval.shape]
    return "x".join([*sizes, _element(aval.dtype)])


def _element(dtype: Any) -> str:
    bits = dtype.itemsize * 8
    if dtype.kind == "b":
        return "i1"
    if dtype.kind == "c":
        return f"complex<f{bits // 2}>"
    if dtype.kind in _KINDS:
        return f"{_KINDS[dtype.kind]}{bits}"
    return "bf16" if dtype.name == "bfloat16" else str(dtype.name)
