"""Print what devices exchange and hold as data grows with them: ``python benchmarks/scaling.py``.

Log-densities with their gradients, with as many rows for each device in every line. The figures
are those of one device: bytes in collectives of the compiled program, bytes of its rows, of these
and all else (arguments, results, temporary arrays), and floating-point operations by XLA's count.

Devices are made of the CPU by XLA, in a process for each line; processes have one device each, and
exchange data by gloo. With up to eight devices the programs run. With more they are compiled only.
"""

import argparse  # noqa: I001
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import jaxprgen  # First: it makes Aesara importable.
import aesara.tensor as at
import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

ROOT = Path(__file__).parents[1]
HOSTS = ROOT / "examples" / "hosts"
DEVICES, PROCESSES, MOST_RUN = (1, 2, 4, 8, 64, 512), (1, 2, 4), 8
ROWS, COLUMNS, GROUPS = 125_000, 50, 1_000
"""The rows of each device, the columns of a table, and the groups that rows belong to."""


class Model(NamedTuple):
    """A log-density of data and parameters, with the shapes and dtypes of the rows of a device."""

    name: str
    log_density: Callable[..., Any]
    data: list[tuple[tuple[int, ...], Any]]
    parameters: list[tuple[int, ...]]


def logistic_regression() -> Model:
    """Return a model in which rows are independent."""
    X, (y, beta) = at.dmatrix("X"), at.dvectors("y", "beta")
    eta = X @ beta
    log_density = (y * eta - at.softplus(eta)).sum() - 0.5 * (beta**2).sum()
    f = jaxprgen.compile([X, y, beta], log_density)
    data = [((ROWS, COLUMNS), float), ((ROWS,), float)]
    return Model("logistic regression", f, data, [(COLUMNS,)])


def hierarchical_regression() -> Model:
    """Return a model with a parameter for each group of rows."""
    X, (y, alpha, beta) = at.dmatrix("X"), at.dvectors("y", "alpha", "beta")
    group, (mu, log_tau) = at.lvector("group"), at.dscalars("mu", "log_tau")
    eta = alpha[group] + X @ beta
    prior = (((alpha - mu) * at.exp(-log_tau)) ** 2).sum() + 2 * GROUPS * log_tau
    log_density = (y * eta - at.softplus(eta)).sum() - 0.5 * prior
    f = jaxprgen.compile([X, y, group, alpha, beta, mu, log_tau], log_density)
    data = [((ROWS, COLUMNS), float), ((ROWS,), float), ((ROWS,), int)]
    return Model("hierarchical regression", f, data, [(GROUPS,), (COLUMNS,), (), ()])


def autoregression() -> Model:
    """Return a model in which each row depends on the one before, which another device may have."""
    y, (rho, log_sigma) = at.dvector("y"), at.dscalars("rho", "log_sigma")
    errors = (y[1:] - rho * y[:-1]) * at.exp(-log_sigma)
    log_density = -0.5 * (errors**2).sum() - y.shape[0] * log_sigma
    f = jaxprgen.compile([y, rho, log_sigma], log_density)
    return Model("AR(1), split in time", f, [((ROWS,), float)], [(), ()])


MODELS = (logistic_regression, hierarchical_regression, autoregression)


def compiled(model: Model, mesh: Mesh) -> tuple[jax.stages.Compiled, list[jax.ShapeDtypeStruct]]:
    """Return the program of a model and its gradient on a mesh, and the types of its arguments."""

    def placed(shape: tuple[int, ...], dtype: Any, spec: P) -> jax.ShapeDtypeStruct:
        return jax.ShapeDtypeStruct(shape, dtype, sharding=NamedSharding(mesh, spec))

    types = [placed((n * mesh.size, *row), t, P("rows")) for (n, *row), t in model.data]
    numbers = range(len(types), len(types) + len(model.parameters))
    types += [placed(shape, float, P()) for shape in model.parameters]
    f = jax.jit(jax.value_and_grad(model.log_density, tuple(numbers)))
    return f.lower(*types).compile(), types


def figures(model: Model, program: jax.stages.Compiled) -> dict[str, Any]:
    """Return the figures of a device."""
    memory, cost = program.memory_analysis(), program.cost_analysis()
    found = jaxprgen.inspect.collectives(program) or ()
    return {
        "model": model.name,
        "exchanged": [(x.kind, x.nbytes) for x in found],
        "rows": sum(int(np.prod(shape)) * np.dtype(t).itemsize for shape, t in model.data),
        "memory": memory.argument_size_in_bytes
        + memory.output_size_in_bytes
        + memory.temp_size_in_bytes,
        "flops": cost["flops"],
    }


def run(program: jax.stages.Compiled, types: list[jax.ShapeDtypeStruct]) -> None:
    """Run a program, for which each process makes the rows of its own devices."""
    rng = np.random.default_rng(jax.process_index())

    def some(t: jax.ShapeDtypeStruct) -> Any:
        def part(index: tuple[slice, ...]) -> Any:
            shape = t.sharding.shard_shape(t.shape)
            drawn = rng.uniform(size=shape) if t.sharding.spec else np.full(shape, 0.1)
            return (drawn * GROUPS).astype(int) if t.dtype == int else drawn

        return jax.make_array_from_callback(t.shape, t.sharding, part)

    value, gradient = program(*map(some, types))
    assert all(np.isfinite(x).all() for x in jax.tree.leaves((value, gradient)))


def measure() -> None:
    """Print the figures of each model on all devices of all processes."""
    sys.path.append(str(HOSTS))
    import cluster

    jax.config.update("jax_enable_x64", True)
    with cluster.joined():
        mesh = cluster.all_devices()
        for build in MODELS:
            model = build()
            program, types = compiled(model, mesh)
            if mesh.size <= MOST_RUN:
                run(program, types)
            print(json.dumps(figures(model, program)))


def measured(command: list[Any], devices: int) -> list[dict[str, Any]]:
    """Return what a command prints that measures."""
    flags = os.environ.get("XLA_FLAGS", "")
    flags += f" --xla_force_host_platform_device_count={devices}"
    done = subprocess.run(
        [sys.executable, *map(str, command), __file__, "--measure"],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT), "XLA_FLAGS": flags},
    )
    if done.returncode:
        raise SystemExit(done.stderr)
    return [json.loads(line) for line in done.stdout.splitlines()]


def main() -> None:
    """Print a table for each model."""
    lines = {f"{n} device{'s' * (n > 1)}": measured([], n) for n in DEVICES}
    for n in PROCESSES:
        lines[f"{n} process{'es' * (n > 1)}"] = measured([HOSTS / "launch.py", n], 1)
    print(f"JAX {jax.__version__}, {ROWS:,} rows for each device")
    for i, model in enumerate(next(iter(lines.values()))):
        print(f"\n{model['model']}, {model['rows'] / 1e6:.0f} MB of rows")
        print(f"{'':14}{'MB':>8}{'÷ rows':>8}{'Mflop':>8}{'sent':>8}  bytes")
        for name, found in lines.items():
            f = found[i]
            sizes = [size for _, size in f["exchanged"]]
            kinds = ", ".join(f"{kind} {size}" for kind, size in f["exchanged"])
            print(
                f"{name:14}{f['memory'] / 1e6:8.2f}{f['memory'] / f['rows']:8.3f}"
                f"{f['flops'] / 1e6:8.2f}{sum(sizes):8}  {kinds or 'nothing'}"
            )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--measure", action="store_true", help="measure on this process's devices")
    measure() if parser.parse_args().measure else main()
