"""A script that `test_hosts` runs in several processes, one of which dies.

``python doomed.py FATE VICTIM`` computes in all processes until the victim meets its fate: it is
killed, is stopped, or raises. With ``idle`` before its fate, the others then compute no more.
"""

import os
import signal
import sys
import threading

import cluster
import jax
import numpy as np


def main(fate, victim):
    with cluster.joined():
        x = cluster.split(cluster.all_devices(), np.ones(1))
        total = jax.jit(lambda x: x.sum())
        for _ in range(5):
            total(x).block_until_ready()
        if jax.process_index() == int(victim):
            meet(fate.removeprefix("idle "))
        while not fate.startswith("idle"):
            total(x).block_until_ready()
        threading.Event().wait()


def meet(fate):
    if fate == "raises":
        raise KeyError("a bug")
    os.kill(os.getpid(), {"killed": signal.SIGKILL, "stopped": signal.SIGSTOP}[fate])


if __name__ == "__main__":
    main(*sys.argv[1:])
