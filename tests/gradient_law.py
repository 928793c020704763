"""The law of gradients, for graphs of either library.

Where a function is finite and smooth on the branches that are taken, every way to its derivatives
gives a finite number. It is right: its relative error is at most 1e-6, or ten times that of the
library's mode "FAST_RUN", or of the same way without passes, where that is a number.

A gradient that the library wrote may be NaN in a branch with a factor of a matrix that is not
taken, as it is in that mode.
"""

import importlib

import guarded_expressions as guarded
import jax
import jax.numpy as jnp
import numpy as np

import jaxprgen
from jaxprgen.passes import default

POINTS = np.asarray(guarded.POINTS)
LIBRARY = "the library's gradient, compiled"


def assert_law(name, expression):
    """Assert the law for one expression, at each of the points."""
    library, at = importlib.import_module(name), importlib.import_module(f"{name}.tensor")
    is_scalar, has_loop = (guarded.has(expression, kind) for kind in ("factor", "loop"))
    x = at.dscalar("x") if is_scalar else at.dvector("x")
    out = guarded.as_graph(expression, x, at) + at.zeros_like(x)
    first = library.grad(out.sum(), x, disconnected_inputs="ignore")
    second = library.grad(first.sum(), x, disconnected_inputs="ignore")
    graphs = [out, first, second]
    # Fused, a power of a negative number is complex, which is an error.
    mode = library.compile.mode.Mode("py", "fast_run").excluding("fusion")
    with np.errstate(all="ignore"):
        function = library.function([x], graphs, mode=mode)
        found = np.transpose([function(p) for p in POINTS]) if is_scalar else function(POINTS)
        values, *theirs = found
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
                if (is_scalar and way == LIBRARY and np.isnan(theirs[order][i])) or (
                    has_loop and (way, order) == ("reverse", 1)  # See `guarded.expressions`.
                ):
                    continue
                others = (each[order][i] - truth for each in (theirs, plain[way]))
                allowed = max([tolerance, *(10 * abs(x) for x in others if np.isfinite(x))])
                is_right = abs(found[order][i] - truth) <= allowed  # NaN is not.
                assert is_right, (way, order + 1, point, float(found[order][i]), truth)


def _ways(x, graphs, passes):
    """First and second derivatives at `POINTS`, by each way to them."""
    f, library = (jaxprgen.compile([x], y, passes=passes) for y in (graphs[0], graphs[1:]))
    if not x.ndim:
        f, library = jax.vmap(f), jax.vmap(library)

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

    return {LIBRARY: library(POINTS), **by_jax(POINTS)}
