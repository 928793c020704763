"""Run a script in several processes on this machine: ``python launch.py 2 regression.py``.

The processes find each other over the loopback interface, as `cluster.joined` describes. The output
of the first is shown. If one fails, the others are given time to notice, and the last lines of each
are shown. No process is left when this one ends.
"""

import argparse
import contextlib
import os
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

GRACE = 30
"""Seconds that the others have after one process failed, before they are killed."""


@contextlib.contextmanager
def started(count, command, folder, devices=1):
    """Start a command in processes that make one JAX program, and kill those left at the end.

    Parameters
    ----------
    count, command
        The number of processes, and the script of each with its arguments.
    folder
        Where to write what they print: ``0.err`` is the standard error of the first, ``1.out`` the
        standard output of the second. That of the first is left alone.
    devices
        The number of CPU devices of each process.

    Yields
    ------
    list of subprocess.Popen
    """
    processes = []
    with contextlib.ExitStack() as files, socket.socket() as reserved:
        # JAX's service shares the port with this socket, so no other program can take it.
        reserved.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        reserved.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{reserved.getsockname()[1]}"
        shared = {
            "JAX_COORDINATOR_ADDRESS": address,
            "JAX_COORDINATOR_BIND_ADDRESS": address,
            "JAX_CPU_COLLECTIVES_IMPLEMENTATION": "gloo",
            "JAX_PLATFORMS": "cpu",
            "XLA_FLAGS": os.environ.get("XLA_FLAGS", "")
            + f" --xla_force_host_platform_device_count={devices}",
            "PROCESS_COUNT": str(count),
        }
        try:
            for i in range(count):
                out, err = (
                    files.enter_context(open(Path(folder, f"{i}.{kind}"), "w"))
                    for kind in ("out", "err")
                )
                processes.append(
                    subprocess.Popen(
                        [sys.executable, *map(str, command)],
                        stdin=subprocess.DEVNULL,
                        stdout=out if i else None,
                        stderr=err,
                        env={**os.environ, **shared, "PROCESS_ID": str(i)},
                    )
                )
            yield processes
        finally:
            for process in processes:
                process.kill()
                process.wait()


def wait(processes, limit):
    """Wait until all processes have ended, for `limit` seconds, and return their exit codes.

    That of a process that still runs is None. Once one has failed, wait no longer than `GRACE`.
    """
    deadline = time.monotonic() + limit
    while True:
        codes = [process.poll() for process in processes]
        now = time.monotonic()
        if any(codes):
            deadline = min(deadline, now + GRACE)
        if None not in codes or now >= deadline:
            return codes
        time.sleep(0.02)


def story(codes, folder, lines=15):
    """Return how each process ended, and the last lines that it printed."""
    parts = []
    for i, code in enumerate(codes):
        end = "still ran" if code is None else f"ended with exit code {code}"
        texts = [Path(folder, f"{i}.{kind}").read_text(errors="replace") for kind in ("out", "err")]
        parts += [f"--- Process {i} {end}:", *"".join(texts).splitlines()[-lines:]]
    return "\n".join(parts)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("count", type=int, help="number of processes")
    parser.add_argument("--devices", type=int, default=1, help="CPU devices of each process")
    parser.add_argument("--limit", type=float, default=3600, help="seconds until all are killed")
    parser.add_argument("command", nargs=argparse.REMAINDER, help="a script and its arguments")
    asked = parser.parse_args()
    with (
        tempfile.TemporaryDirectory() as folder,
        started(asked.count, asked.command, folder, asked.devices) as processes,
    ):
        codes = wait(processes, asked.limit)
        if any(code != 0 for code in codes):
            sys.exit(story(codes, folder))


if __name__ == "__main__":
    main()
