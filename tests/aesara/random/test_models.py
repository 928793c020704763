"""Log-densities by aeppl are SciPy's, with Aesara's derivatives, and functions like any of JAX."""

from __future__ import annotations

import aesara
import jax
import numpy as np
import pytest
from aesara.compile.mode import Mode
from aesara.scalar.basic import autocast_float_as
from catalogue.models import MODELS, built
from profiles import sample

import jaxprgen
from jaxprgen._jax import check_jaxpr


@pytest.mark.filterwarnings("ignore::jaxprgen.errors.RuntimeCheckWarning")
@pytest.mark.parametrize("build", sample(MODELS, 6), ids=lambda b: b.__name__)
def test_log_densities(build):
    """At three points: by itself, then together by ``jit`` of ``vmap`` of ``grad``."""
    inputs, log_density, arguments, free, scipy = built(build)
    f = jaxprgen.compile(inputs, log_density)
    check_jaxpr(f.jaxpr(*arguments).jaxpr)
    np.testing.assert_allclose(f(*arguments), scipy(*arguments), rtol=1e-10)

    with autocast_float_as("float64"):
        gradients = aesara.grad(log_density, inputs[:free])
    aesaras = aesara.function(
        inputs, gradients, mode=Mode(linker="py", optimizer=None), on_unused_input="ignore"
    )
    points = [[x * factor for x in arguments[:free]] for factor in (1.0, 0.9, 1.05)]
    batch = [np.stack(xs) for xs in zip(*points, strict=True)]
    axes = [0] * free + [None] * (len(arguments) - free)
    both = jax.vmap(jax.value_and_grad(f, tuple(range(free))), axes)
    values, slopes = jax.jit(both)(*batch, *arguments[free:])
    for i, point in enumerate(points):
        everything = *point, *arguments[free:]
        np.testing.assert_allclose(values[i], scipy(*everything), rtol=1e-10)
        for ours, theirs in zip(slopes, aesaras(*everything), strict=True):
            np.testing.assert_allclose(ours[i], theirs, rtol=1e-10, atol=1e-12)
