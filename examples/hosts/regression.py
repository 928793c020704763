"""Fit a logistic regression to rows that lie in several processes.

``python launch.py 4 regression.py`` runs it in four, ``python regression.py`` in one.
"""

import sys
from pathlib import Path

import cluster
import jax
import numpy as np

import jaxprgen

sys.path.append(str(Path(__file__).resolve().parents[1]))
import model

ROWS, COLUMNS, BLOCK = 100_000, 10, 1_000
STEPS = 6
STRENGTH = 1.0


def load(rows):
    """Return the features and labels of some rows, which are generated in blocks.

    Real data would be read from files: every process opens those that hold its rows.
    """
    blocks = []
    for number in range(rows.start // BLOCK, rows.stop // BLOCK):
        rng = np.random.default_rng([0, number])
        features = rng.normal(size=(BLOCK, COLUMNS))
        chances = 1 / (1 + np.exp(-features.sum(axis=1) / 3))
        blocks.append((features, (rng.uniform(size=BLOCK) < chances).astype(float)))
    return [np.concatenate(parts) for parts in zip(*blocks, strict=True)]


log_posterior = jaxprgen.compile(model.inputs, [model.log_posterior, model.gradient])


@jax.jit
def newton(beta, features, labels):
    """Return what a step of Newton's method arrives at, and the log-posterior where it starts."""
    value, gradient = log_posterior(beta, features, labels, STRENGTH)
    hessian = jax.jacfwd(lambda beta: log_posterior(beta, features, labels, STRENGTH)[1])(beta)
    return beta - jax.numpy.linalg.solve(hessian, gradient), value


def main():
    jax.config.update("jax_enable_x64", True)
    with cluster.joined():
        mesh = cluster.all_devices()
        features, labels = (cluster.split(mesh, x) for x in load(cluster.own(ROWS)))
        held = sum(shard.data.nbytes for shard in features.addressable_shards)
        print(
            f"{jax.process_count()} processes, {jax.device_count()} devices. Process "
            f"{jax.process_index()} holds {held / 1e6:.0f} MB of {features.nbytes / 1e6:.0f}."
        )
        beta = cluster.replicated(mesh, np.zeros(COLUMNS + 1))
        for step in range(STEPS):
            beta, value = newton(beta, features, labels)
            print(f"step {step}: log-posterior {float(value)!r}")
        print("coefficients", *map(repr, np.asarray(beta).tolist()))


if __name__ == "__main__":
    main()
