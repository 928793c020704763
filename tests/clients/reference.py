"""The posterior that the horseshoe regression is compared with: a long run of a model by hand.

Written with `numpyro.distributions` alone, nothing of it is compiled by jaxprgen. Run it from the
repository's root to make reference.json anew: ``python tests/clients/reference.py``.
"""

import json
import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
from numpyro.diagnostics import effective_sample_size, split_gelman_rubin
from numpyro.infer import MCMC, NUTS

FILE = Path(__file__).with_name("reference.json")
SETTINGS = {"chains": 4, "warmup": 5_000, "draws": 25_000, "acceptance": 0.99, "seed": 0}


def model(points, outcomes):
    """The model of examples/horseshoe.py, not centred."""
    size = points.shape[1]
    tau = numpyro.sample("tau", dist.HalfCauchy(1.0))
    lam = numpyro.sample("lambda", dist.HalfCauchy(jnp.ones(size)))
    z = numpyro.sample("z", dist.Normal(jnp.zeros(size), 1.0))
    beta = numpyro.deterministic("beta", tau * lam * z)
    numpyro.sample("Y", dist.Bernoulli(logits=-points @ beta), obs=outcomes)


def quantities(draws):
    """What is compared, by name: logarithms of scales, as half-Cauchy variables have no mean."""
    columns = {"log tau": np.log(draws["tau"])}
    for name, drawn in [("log lambda", np.log(draws["lambda"])), ("beta", draws["beta"])]:
        columns |= {f"{name}[{i}]": drawn[..., i] for i in range(drawn.shape[-1])}
    return {name: np.asarray(column) for name, column in columns.items()}


def main():
    sys.path.insert(0, str(Path(__file__).parents[2] / "examples"))
    from horseshoe import simulate

    points, outcomes = simulate()
    sampler = MCMC(
        NUTS(model, target_accept_prob=SETTINGS["acceptance"]),
        num_warmup=SETTINGS["warmup"],
        num_samples=SETTINGS["draws"],
        num_chains=SETTINGS["chains"],
        chain_method="vectorized",
        progress_bar=False,
    )
    sampler.run(jax.random.key(SETTINGS["seed"]), points, outcomes)
    found = quantities(sampler.get_samples(group_by_chain=True))
    sizes = {name: float(effective_sample_size(x)) for name, x in found.items()}
    record = {
        "made by": "python tests/clients/reference.py",
        "versions": {"numpyro": numpyro.__version__, "jax": jax.__version__},
        "settings": SETTINGS,
        "divergences": int(sampler.get_extra_fields()["diverging"].sum()),
        "largest split R-hat": max(float(split_gelman_rubin(x)) for x in found.values()),
        "outcomes": "".join(str(y) for y in outcomes),
        "means": {name: float(x.mean()) for name, x in found.items()},
        "deviations": {name: float(x.std()) for name, x in found.items()},
        "errors": {name: float(x.std() / np.sqrt(sizes[name])) for name, x in found.items()},
    }
    FILE.write_text(json.dumps(record, indent=2) + "\n")


if __name__ == "__main__":
    main()
