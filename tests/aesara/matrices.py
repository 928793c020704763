"""Matrices to try Ops of linear algebra on, and how to compare what they compute."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import aesara
import aesara.tensor as at
import jax
import numpy as np
from hypothesis import strategies as st
from jax.test_util import check_grads
from laws import MATRICES, assert_agrees, at_once, reference, tolerance
from profiles import examples, sample

import jaxprgen
from jaxprgen._jax import check_jaxpr

REAL, COMPLEX = ["float32", "float64"], ["complex64", "complex128"]
sizes, seeds = st.sampled_from(sample([0, 2, 1, 4, 3, 5], 3)), st.integers(0, 99)
few = examples(0.6, quick=0.4)


def noise(shape: Any, dtype: Any = "float64", seed: int = 0) -> np.ndarray:
    """Normally distributed numbers."""
    rng = np.random.default_rng([seed, *np.atleast_1d(shape)])
    x = rng.standard_normal(shape)
    return (x + 1j * rng.standard_normal(shape) if np.dtype(dtype).kind == "c" else x).astype(dtype)


def unitary(n: int, dtype: Any = "float64", seed: int = 0) -> np.ndarray:
    """A matrix whose inverse is its adjoint."""
    return np.linalg.qr(noise((n, n), dtype, seed))[0]


def regular(m: int, n: int | None = None, dtype: Any = "float64", seed: int = 0) -> np.ndarray:
    """A matrix whose singular values lie between 1 and 3, all different."""
    n = m if n is None else n
    k = min(m, n)
    s = np.linspace(1, 3, k)
    left, right = unitary(m, dtype, seed), unitary(n, dtype, seed + 100)
    return ((left[:, :k] * s) @ right[:k]).astype(dtype)


def positive(n: int, dtype: Any = "float64", seed: int = 0) -> np.ndarray:
    """A Hermitian matrix whose eigenvalues lie between 1 and 3, all different."""
    q = unitary(n, dtype, seed)
    return ((q * np.linspace(1, 3, n)) @ q.conj().T).astype(dtype)


def tensor(value: Any, name: str | None = None) -> Any:
    """A variable for values of that dtype and rank."""
    return at.tensor(np.dtype(value.dtype).name, shape=(None,) * value.ndim, name=name)


def outputs_of(make: Callable[..., Any], inputs: Sequence[Any]) -> list[Any]:
    """The outputs as a list."""
    outputs = make(*inputs)
    return list(outputs) if isinstance(outputs, (list, tuple)) else [outputs]


def run(make: Callable[..., Any], *args: Any) -> list[Any]:
    """Return what the compiled graph computes; every output is what it declares."""
    inputs = [tensor(a) for a in args]
    outputs = outputs_of(make, inputs)
    f = jaxprgen.compile(inputs, outputs)
    check_jaxpr(f.jaxpr(*args).jaxpr)
    ours = [np.asarray(x) for x in at_once(f, *args)]
    for x, variable in zip(ours, outputs, strict=True):
        assert x.dtype == variable.dtype
        assert x.ndim == variable.ndim
    return ours


def assert_agrees_on(
    make: Callable[..., Any], *args: Any, rtol: float | None = None
) -> list[np.ndarray]:
    """Assert the law of agreement on a graph of variables for these arguments."""
    inputs = [tensor(a) for a in args]
    dtypes = [a.dtype if a.dtype.kind in "fc" else np.dtype(float) for a in args]
    rtol = tolerance(*dtypes, times=MATRICES) if rtol is None else rtol
    f = assert_agrees(inputs, outputs_of(make, inputs), args, rtol=rtol)
    return [np.asarray(x) for x in at_once(f, *args)]


def assert_close(x: Any, y: Any, dtype: Any) -> None:
    """Assert that what is computed in a dtype is equal up to rounding."""
    allowed = tolerance(dtype, times=MATRICES)
    np.testing.assert_allclose(x, y, rtol=allowed, atol=allowed)


def assert_same_gradient(make: Callable[..., Any], *args: Any) -> None:
    """JAX's derivative of the compiled graph is Aesara's gradient."""
    inputs = [tensor(a) for a in args]
    outputs = outputs_of(make, inputs)
    cost = sum((y * at.cos(y + i)).sum() for i, y in enumerate(outputs))
    wrt = list(range(len(args)))
    ours = jax.jit(jax.grad(jaxprgen.compile(inputs, cost), argnums=wrt))(*args)
    theirs = reference(inputs, aesara.grad(cost, inputs), args)
    for x, y in zip(ours, theirs, strict=True):
        assert np.asarray(x).any()
        np.testing.assert_allclose(x, y, rtol=1e-8, atol=1e-10)


def assert_gradient_of_differences(make: Callable[..., Any], *args: Any) -> None:
    """JAX's derivative of the compiled graph is that of central differences."""
    inputs = [tensor(a) for a in args]
    cost = sum((y**2 * at.cos(y)).sum() for y in outputs_of(make, inputs))
    check_grads(jaxprgen.compile(inputs, cost), args, order=1, modes=["rev"], rtol=1e-4, atol=1e-4)
