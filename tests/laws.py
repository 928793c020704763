"""The laws the tests assert, each as one helper."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import aesara
import jax
import numpy as np
from aesara.compile.mode import Mode

import jaxprgen
from jaxprgen._jax import check_jaxpr, sub_jaxprs

DTYPES = (
    "bool",
    *(f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)),
    "float16",
    "float32",
    "float64",
    "complex64",
    "complex128",
)

# Units in the last place by which two correct evaluations may differ, as relative tolerance.
TOLERANCE = {
    "float16": 4e-3,
    "float32": 5e-6,
    "float64": 1e-12,
    "complex64": 5e-6,
    "complex128": 1e-12,
}


def reference(inputs: Sequence[Any], outputs: Sequence[Any], args: Sequence[Any]) -> list[Any]:
    """What Aesara's Python linker computes, without any rewriting."""
    mode = Mode(linker="py", optimizer=None)
    function = aesara.function(list(inputs), list(outputs), mode=mode, on_unused_input="ignore")
    with np.errstate(all="ignore"):
        return function(*args)


def assert_same(ours: Any, theirs: Any, rtol: float | None = None, where: str = "") -> None:
    """Equal dtype, shape and values, where values may differ by rounding."""
    ours = np.asarray(ours)
    theirs = np.asarray(theirs)
    assert ours.dtype == theirs.dtype, f"{where}: dtype {ours.dtype}, not {theirs.dtype}"
    assert ours.shape == theirs.shape, f"{where}: shape {ours.shape}, not {theirs.shape}"
    if ours.dtype.kind in "biu":
        np.testing.assert_array_equal(ours, theirs, err_msg=where)
    else:
        rtol = TOLERANCE[ours.dtype.name] if rtol is None else rtol
        np.testing.assert_allclose(ours, theirs, rtol=rtol, atol=rtol, err_msg=where)


def assert_agrees(
    inputs: Sequence[Any],
    outputs: Sequence[Any],
    args: Sequence[Any],
    *,
    rtol: float | None = None,
) -> jaxprgen.CompiledFunction:
    """A compiled graph is well typed and computes what Aesara's Python linker computes."""
    f = jaxprgen.compile(inputs, outputs)
    closed = f.jaxpr(*args)
    check_jaxpr(closed.jaxpr)
    ours = f(*args)
    ours = (ours,) if len(outputs) == 1 else ours
    theirs = reference(inputs, outputs, args)
    for variable, mine, yours in zip(outputs, ours, theirs, strict=True):
        assert_same(mine, yours, rtol, where=str(variable.owner))
    return f


def equations(f: Any, *args: Any) -> list[str]:
    """The names of the primitives of a compiled function's program, in order."""
    return [eqn.primitive.name for eqn in f.jaxpr(*args).jaxpr.eqns]


def all_equations(jaxpr: Any) -> Iterator[Any]:
    """The equations of a program and of all programs inside."""
    for eqn in jaxpr.eqns:
        yield eqn
        for _, inner in sub_jaxprs(eqn):
            yield from all_equations(inner)


def quickly(f: Callable[..., Any], *args: Any) -> Any:
    """A function for arguments of these types, compiled in less time, to what runs slower."""
    options = {"xla_backend_optimization_level": "0", "xla_llvm_disable_expensive_passes": True}
    return jax.jit(f).lower(*args).compile(compiler_options=options)
