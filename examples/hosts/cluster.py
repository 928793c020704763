"""Join the processes that make one JAX program, and place arrays on all of their devices."""

import contextlib
import os
import sys
import traceback

import jax
import numpy as np
from jax.sharding import AxisType, NamedSharding, PartitionSpec

HEARTBEAT = 10
"""Seconds of silence after which a process counts as dead."""


@contextlib.contextmanager
def joined():
    """Join the processes that `launch.py` started; do nothing in a process that runs alone.

    `launch.py` describes the processes in environment variables. On a cluster that JAX knows, such
    as one of Slurm, call ``jax.distributed.initialize()`` without arguments instead.

    A process that raises an exception ends at once. By default, JAX would make it wait for the
    others, which wait for its results. If a process dies, the others stop with an error as soon as
    they need its results, and in any case once it has been silent for `HEARTBEAT` seconds.
    """
    if "PROCESS_ID" not in os.environ:
        yield
        return
    # Gloo reports its connections on standard output, which is for results.
    sys.stdout = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    jax.distributed.initialize(
        os.environ["JAX_COORDINATOR_ADDRESS"],
        num_processes=int(os.environ["PROCESS_COUNT"]),
        process_id=int(os.environ["PROCESS_ID"]),
        heartbeat_timeout_seconds=HEARTBEAT,
    )
    try:
        yield
    except BaseException:
        traceback.print_exc()
        sys.stderr.flush()
        os._exit(1)


def all_devices():
    """Return a mesh of the devices of all processes, along one axis, ``rows``."""
    return jax.make_mesh((jax.device_count(),), ("rows",), axis_types=(AxisType.Auto,))


def own(count):
    """Return which of the rows, `count` in all, this process loads: an equal share."""
    share, rest = divmod(count, jax.process_count())
    if rest:
        raise ValueError(f"{count} rows do not split among {jax.process_count()} processes.")
    return slice(jax.process_index() * share, (jax.process_index() + 1) * share)


def split(mesh, rows):
    """Return the array of the rows of all processes, each of which passes its own."""
    sharding = NamedSharding(mesh, PartitionSpec("rows"))
    return jax.make_array_from_process_local_data(sharding, rows)


def replicated(mesh, tree):
    """Return arrays that every device holds as a whole; all processes pass equal ones."""
    sharding = NamedSharding(mesh, PartitionSpec())
    return jax.tree.map(
        lambda x: jax.make_array_from_process_local_data(sharding, np.asarray(x)), tree
    )
