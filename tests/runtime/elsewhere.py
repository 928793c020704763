"""What `test_pickling` runs in another process."""

import conftest  # noqa: F401, I001  # First: it settles the environment.
import pickle
from collections import Counter

import jax

HITS, MISSES = (f"/jax/compilation_cache/cache_{what}" for what in ("hits", "misses"))
asked = Counter()


def start():
    """Count how often JAX's persistent cache is asked."""
    jax.monitoring.register_event_listener(lambda event, **_: asked.update([event]))


def call(functions, pickled, args):
    """Return the results of functions, some of them pickled once more, and the counts."""
    found = [f(*args) for f in [*functions, *map(pickle.loads, pickled)]]
    return jax.device_get(found), dict(asked)
