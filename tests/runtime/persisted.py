"""A script that `test_persistence` runs: what it compiles, and what JAX's persistent cache says.

``python persisted.py FOLDER`` prints, as JSON, the entries of these graphs in the cache in that
folder: after reports, after compiling ahead and after calls; and how often the cache was asked.
"""

import json  # noqa: I001
import sys
import warnings
from collections import Counter
from pathlib import Path

import conftest  # noqa: F401  # First: it settles the environment.
import aesara
import aesara.tensor as at
import jax
import jaxprgen
import numpy as np

ONES, KEY = np.ones(3), jax.random.key(0)
x = at.dvector("x")


def data():
    """Shared variables, of one of which the shape alone matters, and a constant."""
    first, second, third = (aesara.shared(np.full(n, float(n))) for n in (3, 5, 3))
    table = at.constant(np.arange(3000.0).reshape(3, 1000))
    total = third * x * second.shape[0] + at.dot(table, table[0]) + at.exp(first)
    return [x], total, [ONES]


def walk():
    """A loop that draws."""
    stream, start = at.random.RandomStream(), at.dscalar("start")
    path, _ = aesara.scan(lambda e, h: e * stream.normal(h, 1), [x], [start])
    return [x, start], path, [KEY, ONES, 0.5]


def plain():
    """Arguments alone, and the gradient by Aesara."""
    total = at.log1p(at.exp(x[: x.shape[0] - 1] * at.arange(2))).sum()
    return [x], [total, at.grad(total, x)], [ONES]


GRAPHS = {"data": data, "plain": plain, "walk": walk}


def main(folder):
    warnings.simplefilter("ignore")
    jax.config.update("jax_compilation_cache_dir", folder)
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0)
    jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)
    asked = Counter()
    jax.monitoring.register_event_listener(lambda event, **_: asked.update([event]))

    def entries():
        found = (path.name for path in Path(folder).glob("*-cache"))
        return sorted(n for n in found if n.startswith(tuple(f"jit_{name}-" for name in GRAPHS)))

    made = {name: graph() for name, graph in GRAPHS.items()}
    functions = {n: jaxprgen.compile(i, o, name=n) for n, (i, o, _) in made.items()}
    found = []
    for use in (lambda f: f.report, lambda f: lambda *args: f.lower(*args).compile(), lambda f: f):
        for name, f in functions.items():
            use(f)(*made[name][2])
        found.append(entries())
    derived(functions["data"], functions["walk"])
    print(json.dumps([*found, asked]))


def derived(f, g):
    """What JAX derives of functions, state that is kept, and options for XLA."""
    jax.grad(lambda v: f(v).sum())(ONES)
    jax.vmap(g, (0, None, None))(jax.random.split(KEY), ONES, 0.5)
    kept = aesara.shared(ONES)
    jaxprgen.function([x], at.sin(kept), {kept: kept + x}, name="kept")(ONES)
    options = {"xla_backend_optimization_level": 1, "xla_cpu_enable_fast_math": True}
    jaxprgen.compile([x], at.exp(x), name="fast", compiler_options=options)(ONES)


if __name__ == "__main__":
    main(sys.argv[1])
