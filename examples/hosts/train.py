"""Train a classifier of digits by Optax, with checkpoints by Orbax.

``python launch.py 2 train.py --folder run`` trains in two processes, each of which loads its part
of every minibatch. After a failure, run it again, in any number of processes: it goes on from the
last checkpoint, to the same numbers.
"""

import argparse  # noqa: I001
from pathlib import Path

import jaxprgen  # First: it makes Aesara importable on current NumPy and Python.
import aesara.tensor as at
import cluster
import jax
import numpy as np
import optax
import orbax.checkpoint as ocp
from sklearn.datasets import load_digits

PIXELS, HIDDEN, CLASSES = 64, 32, 10
BATCH = 240
SIZES = {
    "weights_1": (PIXELS, HIDDEN),
    "offsets_1": (HIDDEN,),
    "weights_2": (HIDDEN, CLASSES),
    "offsets_2": (CLASSES,),
}

images, labels = at.dmatrix("images"), at.lvector("labels")
w1, b1, w2, b2 = parameters = [at.tensor("float64", s, name=n) for n, s in SIZES.items()]
scores = at.tanh(images @ w1 + b1) @ w2 + b2
log_chances = scores - at.logsumexp(scores, axis=1, keepdims=True)
is_right = at.eq(labels[:, None], at.arange(CLASSES))
cross_entropy = -(log_chances * is_right).sum() / labels.size
loss = jaxprgen.compile([*parameters, images, labels], cross_entropy, name="loss")
optimizer = optax.adam(1e-2)


@jax.jit
def train(state, images, labels):
    """Return the parameters and the optimizer's state after a step, and the loss before it."""
    parameters = state["parameters"]
    value_and_gradient = jax.value_and_grad(lambda p: loss(**p, images=images, labels=labels))
    value, gradient = value_and_gradient(parameters)
    updates, moments = optimizer.update(gradient, state["optimizer"])
    return {"parameters": optax.apply_updates(parameters, updates), "optimizer": moments}, value


def start():
    """Return the state before the first step."""
    rng = np.random.default_rng(0)
    drawn = {n: rng.normal(size=s) / np.sqrt(s[0]) * (len(s) > 1) for n, s in SIZES.items()}
    return {"parameters": drawn, "optimizer": optimizer.init(drawn)}


def minibatch(step, count):
    """Return the numbers of the images of a step, which depend on nothing else."""
    epoch, i = divmod(step, count // BATCH)
    return np.random.default_rng([1, epoch]).permutation(count)[i * BATCH : (i + 1) * BATCH]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--folder", required=True, help="where the checkpoints are")
    parser.add_argument("--steps", type=int, default=300, help="the steps to train in all")
    parser.add_argument("--every", type=int, default=50, help="the steps between checkpoints")
    asked = parser.parse_args()
    jax.config.update("jax_enable_x64", True)
    with cluster.joined():
        run(Path(asked.folder).resolve(), asked.steps, asked.every)


def run(folder, steps, every):
    mesh = cluster.all_devices()
    # With numpy.load(..., mmap_mode="r"), a process would read only its rows from a file.
    pixels, digits = load_digits(return_X_y=True)
    state = cluster.replicated(mesh, start())
    options = ocp.CheckpointManagerOptions(max_to_keep=2)
    with ocp.CheckpointManager(folder, options=options) as manager:
        last = manager.latest_step()
        if last is not None:
            state = manager.restore(last, args=ocp.args.StandardRestore(state))
            print(f"goes on after step {last}")
        for step in range(last or 0, steps):
            rows = minibatch(step, len(digits))[cluster.own(BATCH)]
            batch = (cluster.split(mesh, x) for x in (pixels[rows] / 16, digits[rows]))
            state, value = train(state, *batch)
            done = step + 1
            if done % every == 0 or done == steps:
                manager.save(done, args=ocp.args.StandardSave(state))
                print(f"step {done}: loss {float(value)!r}")
    parameters = {name: np.asarray(x) for name, x in state["parameters"].items()}
    if jax.process_index() == 0:
        np.savez(folder / "parameters.npz", **parameters)


if __name__ == "__main__":
    main()
