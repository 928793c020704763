"""The law of gradients, for graphs of either library.

Where a function is finite and smooth on the branches that are taken, every way to its derivatives
gives a finite number. It is right: its relative error is at most 1e-6, or ten times that of the
library's mode "FAST_RUN", or of the same way without passes, where that is a number.
"""

import importlib

import guarded_expressions as guarded
import jax
import jax.numpy as jnp
import numpy as np

import jaxprgen
from jaxprgen.passes import default

POINTS = np.asarray(guarded.POINTS)


def assert_law(name, expression):
    """Assert the law for one expression, at each of the points."""
    library, at = importlib.import_module(name), importlib.import_module(f"{name}.tensor")
    x = at.dvector("x")
    out = guarded.as_graph(expression, x, at) + at.zeros_like(x)
    first = library.grad(out.sum(), x, disconnected_inputs="ignore")
    second = library.grad(first.sum(), x, disconnected_inputs="ignore")
    graphs = [out, first, second]
    with np.errstate(all="ignore"):
        values, *theirs = library.function([x], graphs, mode="FAST_RUN")(POINTS)
    ours, plain = (_ways(x, graphs, passes) for passes in (default(graph=True), ()))
    for i, point in enumerate(guarded.POINTS):
        try:
            value, *truths = guarded.on_taken_branches(expression, point).parts
        except guarded.Undefined:
            continue
        if not np.isfinite(values[i]):
            continue  # It overflows in double precision.
        for order, truth in enumerate(map(float, truths)):
            tolerance = 1e-6 * abs(truth) + 1e-12 * (1 + abs(float(value)))
            for way, found in ours.items():
                others = (each[order][i] - truth for each in (theirs, plain[way]))
                allowed = max([tolerance, *(10 * abs(x) for x in others if np.isfinite(x))])
                is_right = abs(found[order][i] - truth) <= allowed  # NaN is not.
                assert is_right, (way, order + 1, point, float(found[order][i]), truth)


def _ways(x, graphs, passes):
    """First and second derivatives at `POINTS`, by each way to them."""
    f = jaxprgen.compile([x], graphs[0], passes=passes)

    def reverse(x):
        return jax.grad(lambda x: f(x).sum())(x)

    def forward(x):
        return jax.jvp(f, (x,), (jnp.ones_like(x),))[1]

    @jax.jit
    def by_jax(x):
        ones = jnp.ones_like(x)
        return {
            "reverse": (reverse(x), jax.grad(lambda x: reverse(x).sum())(x)),
            "forward": (forward(x), jax.jvp(forward, (x,), (ones,))[1]),
            "forward over reverse": (reverse(x), jax.jvp(reverse, (x,), (ones,))[1]),
        }

    by_library = jaxprgen.compile([x], graphs[1:], passes=passes)(POINTS)
    return {"the library's gradient, compiled": by_library, **by_jax(POINTS)}
