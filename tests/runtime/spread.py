"""A script that `test_spread` runs in several processes: functions of arrays spread over them.

``python spread.py FOLDER`` writes what process 0 finds to ``FOLDER/0.json``. Of an array that is
spread, it writes the part that the process holds.
"""

import hashlib  # noqa: I001
import json
import sys
import warnings
from pathlib import Path

import jaxprgen  # First: it makes Aesara importable.
import aesara
import aesara.tensor as at
import cluster
import jax
import numpy as np
from jax.sharding import AxisType

ROWS = 24
FEATURES = np.random.default_rng(0).normal(size=(ROWS, 3))
TARGETS = np.random.default_rng(1).normal(size=ROWS)
WIDE = np.random.default_rng(2).normal(size=5000)  # Too large for a constant of the StableHLO.
SCALES = np.array([1.0, 2.0, 3.0])

X, y, b = at.dmatrix("X"), at.dvector("y"), at.dvector("b")
k, counts = at.lscalar("k"), at.lvector("counts")


def held(x):
    """The values of an array that this process holds: all of them if every device does."""
    if isinstance(x, np.ndarray) or x.is_fully_replicated or x.is_fully_addressable:
        return np.asarray(x).tolist()
    return np.concatenate([shard.data for shard in x.addressable_shards]).tolist()


def outcome(call, *args):
    """What a call returns, or what it raises."""
    try:
        return held(call(*args))
    except jaxprgen.JaxprGenError as error:
        return f"{type(error).__name__}: {error}"


def called(features, targets):
    """A function with a shared variable and a large constant, and the program of it."""
    scales, wide = aesara.shared(SCALES, name="scales"), at.constant(WIDE)
    error = y - X @ (b * scales)
    value = -(error**2).sum() / 2 + (wide * error[0]).sum()
    f = jaxprgen.compile([X, y, b], [value, aesara.grad(value, b)])
    args = features, targets, np.ones(3)
    f.report(*args)
    programs = f.lower(*args).as_text(), jaxprgen.pretty(f, *args)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", jaxprgen.errors.SharedValueWarning)
        traced = jax.jit(f)(*args)
    return {
        "values": [held(x) for x in f(*args)],
        "traced": [held(x) for x in traced],
        "programs": hashlib.sha256("".join(programs).encode()).hexdigest(),
    }


def updated(make, features, targets):
    """Two calls that update shared variables, one of which has an element for each row."""
    weights = aesara.shared(np.zeros(3), name="weights")
    total = aesara.shared(np.zeros(ROWS), name="total")
    error = y - X @ weights
    loss = (error**2).mean()
    updates = {weights: weights - 0.1 * aesara.grad(loss, weights), total: total + error}
    step = make([X, y], [loss, error], updates=updates)
    losses, errors = zip(*[step(features, targets) for _ in range(2)], strict=True)
    return {
        "losses": [held(x) for x in losses],
        "weights": held(weights.get_value()),
        "rows": [held(x) for x in (*errors, total.get_value())],
    }


def kept(make, features, targets):
    """Two calls of a function whose data are a shared variable and a constant."""
    weights, shared = aesara.shared(np.zeros(3)), aesara.shared(features, name="features")
    total = aesara.shared(targets, name="total")
    error = at.as_tensor_variable(targets) - shared @ weights
    loss = (error**2).mean()
    updates = {weights: weights - 0.1 * aesara.grad(loss, weights), total: total + error}
    step = make([], loss, updates=updates)
    losses = [held(step()) for _ in range(2)]
    return {
        "losses": losses,
        "weights": held(weights.get_value()),
        "rows": [held(shared.get_value(borrow=True)[:, 0]), held(total.get_value())],
    }


def placed(features):
    """What ``shardings`` puts on the mesh of the features, and what it refuses."""
    where = features.sharding
    total = aesara.shared(np.zeros((ROWS, 3)), name="total")
    step = jaxprgen.function([X], X, updates={total: total + X}, shardings={total: where, X: where})
    parts = held(step(FEATURES)), held(step(features)), held(total.get_value())
    fixed = at.as_tensor_variable(features, name="fixed")
    traced = outcome(jax.jit(jaxprgen.compile([b], fixed @ b)), np.ones(3))
    exported = outcome(jaxprgen.compile([], total * 2).export)
    return {"parts": parts, "refused": [traced, exported]}


def by_mode(inputs, outputs, updates):
    return aesara.function(inputs, outputs, updates=updates, mode="JAXPR")


total = jaxprgen.compile([counts], at.arange(counts[3]).sum())
rows = jaxprgen.compile([X, counts], X[: counts[3]].sum())
chosen = jaxprgen.compile([counts], at.nonzero(at.gt(counts, 2))[0])


def sized(given):
    """Functions for which a value decides a size."""
    return [outcome(total, given), outcome(rows, FEATURES, given), outcome(chosen, given)]


def checked(features):
    f = jaxprgen.compile([X, k], X[k].sum(), checks=True)
    return [outcome(f, features, 1), outcome(f, features, ROWS)]


def drawn(features):
    stream = at.random.RandomStream()
    f = jaxprgen.compile([X], (X * stream.normal(size=(ROWS, 3))).sum(axis=0))
    return held(f(jax.random.key(0), features))


def found(data, numbers):
    """All of this, for the data, whole or split, and for numbers that decide sizes."""
    return {
        "called": called(*data),
        "function": updated(jaxprgen.function, *data),
        "mode": updated(by_mode, *data),
        "kept function": kept(jaxprgen.function, *data),
        "kept mode": kept(by_mode, *data),
        "checked": checked(data[0]),
        "drawn": drawn(data[0]),
        "sized": sized(numbers),
    }


def main(folder):
    jax.config.update("jax_enable_x64", True)
    with cluster.joined():
        mesh = cluster.all_devices()
        own = cluster.own(ROWS)
        data = [cluster.split(mesh, x[own]) for x in (FEATURES, TARGETS)]
        assert not data[0].is_fully_addressable
        n = jax.device_count()
        results = found(data, cluster.replicated(mesh, np.arange(n)))
        results["refused"] = sized(cluster.split(mesh, np.arange(n)[cluster.own(n)]))
        results["placed"] = placed(data[0])
        mesh = jax.make_mesh((n,), ("rows",), axis_types=(AxisType.Explicit,))
        data = [cluster.split(mesh, x[own]) for x in (FEATURES, TARGETS)]
        results["explicit"] = called(*data)
        results["kept explicit"] = kept(jaxprgen.function, *data)
        results["placed explicit"] = placed(data[0])
        Path(folder, f"{jax.process_index()}.json").write_text(json.dumps(results))


if __name__ == "__main__":
    main(sys.argv[1])
