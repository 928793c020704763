"""Draw from a model by NUTS, and count effective draws.

All systems adapt the step size and a diagonal mass matrix in 500 steps, and then make 1,000 draws
in each chain. There are four chains, or 1,000 on a GPU, which run as one vectorized program.
BlackJAX samples a density; NumPyro samples a model of its own.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from compare.library import aesara_library
from compare.workloads import radon, schools

MODULES = "blackjax", "numpyro.infer", "numpyro.diagnostics", "scipy.stats"
MODELS = {"schools": schools, "radon": radon}
TITLES = {
    "jaxprgen": "BlackJAX, density by jaxprgen",
    "by hand": "BlackJAX, density by hand",
    "numpyro": "NumPyro",
}
SYSTEMS = tuple(TITLES)
TUNING, DRAWS = 500, 1_000


def chains() -> int:
    """Return the number of chains."""
    return 4 if jax.default_backend() == "cpu" else 1_000


Sample = Callable[[Any], dict[str, Any]]
"""Returns draws of each parameter for a key: (chains, draws, …)."""


def by_blackjax(density: Callable[..., Any], model: Any) -> Sample:
    """Return BlackJAX's NUTS of a log-density."""
    import blackjax

    shapes = [np.shape(x) for x in model.arguments()]

    def chain(key: Any) -> Any:
        first, second, third = jax.random.split(key, 3)
        keys = jax.random.split(first, len(shapes))
        start = [jax.random.uniform(k, s, minval=-1) for k, s in zip(keys, shapes, strict=True)]

        def target(position: Any) -> Any:
            return density(*position)

        tuning = blackjax.window_adaptation(blackjax.nuts, target)
        (state, found), _ = tuning.run(second, start, TUNING)
        step = blackjax.nuts(target, **found).step

        def move(state: Any, key: Any) -> tuple[Any, Any]:
            state, _ = step(key, state)
            return state, state.position

        return jax.lax.scan(move, state, jax.random.split(third, DRAWS))[1]

    program = jax.jit(jax.vmap(chain))

    def sample(key: Any) -> dict[str, Any]:
        return dict(zip(model.NAMES, program(jax.random.split(key, chains())), strict=True))

    return sample


def by_hand(model: Any) -> Sample:
    """Return BlackJAX's NUTS of a density in `jax.numpy`."""
    return by_blackjax(lambda *position: model.density(jnp, *position), model)


def by_jaxprgen(model: Any) -> Sample:
    """Return BlackJAX's NUTS of a density compiled from Aesara's graph."""
    import jaxprgen

    inputs, (value, *_) = model.graph(aesara_library())
    return by_blackjax(jaxprgen.compile(inputs, value), model)


def by_numpyro(model: Any) -> Sample:
    """Return NumPyro's NUTS of its own model."""
    from numpyro.infer import MCMC, NUTS
    from numpyro.infer.initialization import init_to_uniform

    kernel = NUTS(model.numpyro_model, init_strategy=init_to_uniform(radius=1))
    sampler = MCMC(
        kernel,
        num_warmup=TUNING,
        num_samples=DRAWS,
        num_chains=chains(),
        chain_method="vectorized",
        progress_bar=False,
    )

    @jax.jit  # Otherwise each run compiles again.
    def sample(key: Any) -> dict[str, Any]:
        sampler.run(key)
        return sampler.get_samples(group_by_chain=True)

    return sample


MAKES = dict(zip(SYSTEMS, (by_jaxprgen, by_hand, by_numpyro), strict=True))


def effective(draws: Any) -> float:
    """Return the effective draws of a quantity, (chains, draws), by its ranks.

    This is the bulk effective sample size of Vehtari et al. (2021), Rank-normalization, folding,
    and localization, Bayesian Analysis 16. A monotonic function of a quantity has as many.
    """
    from numpyro.diagnostics import effective_sample_size
    from scipy.special import ndtri
    from scipy.stats import rankdata

    halves = np.reshape(draws, (2 * chains(), DRAWS // 2))
    ranks = rankdata(halves).reshape(halves.shape)
    return float(effective_sample_size(ndtri((ranks - 0.375) / (halves.size + 0.25))))


def measure(workload: str, system: str, repeat: int) -> dict[str, Any]:
    """Measure a first run, which compiles, and another run of the same program."""
    model = MODELS[workload.partition("-")[2]]
    start = time.perf_counter()
    sample = MAKES[system](model)
    record: dict[str, Any] = {"chains": chains()}
    for name, key in zip(("cold", "warm"), jax.random.split(jax.random.key(repeat)), strict=True):
        draws = jax.block_until_ready(sample(key))
        record[name] = {"seconds": time.perf_counter() - start, **_summary(draws, model)}
        start = time.perf_counter()
    return record


def _summary(draws: dict[str, Any], model: Any) -> dict[str, float]:
    """Return the fewest effective draws of a parameter; mean and error of the first parameter."""
    columns = {name: np.reshape(draws[name], (chains(), DRAWS, -1)) for name in model.NAMES}
    found = {
        name: [effective(x[..., i]) for i in range(x.shape[-1])] for name, x in columns.items()
    }
    first = columns[model.NAMES[0]]
    return {
        "effective": min(min(sizes) for sizes in found.values()),
        "mean": float(first.mean()),
        "error": float(first.std() / np.sqrt(found[model.NAMES[0]][0])),
    }
