"""Load the service of ``examples/serve`` on this machine: ``python benchmarks/serve.py``.

The service runs in a process of its own. Connections stay open, and each sends its next request
when it has the answer to the last one. Memory is the resident set of the service's process.
"""

import argparse
import asyncio
import json
import os
import re
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

SERVICE = Path(__file__).resolve().parents[1] / "examples" / "serve"
sys.path.insert(0, str(SERVICE))

HEAD = re.compile(rb"HTTP/1.1 (\d+) .*content-length: (\d+)", re.DOTALL | re.IGNORECASE)


def save_model(path: Path) -> None:
    """Save the model of the example, with draws that are made up."""
    import jax
    from save_model import predictive, save

    jax.config.update("jax_enable_x64", True)
    rng = np.random.default_rng(0)
    points, outcomes = rng.normal(size=(442, 10)), rng.normal(size=442)
    draws = rng.normal(size=(1000, 10)), rng.uniform(0.5, 1, size=1000)
    save(path, predictive(*draws, points, outcomes), 10)


async def ask(connection: Any, features: list[float]) -> dict[str, float]:
    """Send a request over an open connection, and return the answer."""
    reader, writer = connection
    body = json.dumps({"features": features}).encode()
    head = f"POST /predict HTTP/1.1\r\nHost: here\r\nContent-Length: {len(body)}\r\n"
    writer.write(f"{head}Content-Type: application/json\r\n\r\n".encode() + body)
    match = HEAD.match(await reader.readuntil(b"\r\n\r\n"))
    assert match is not None
    answer = await reader.readexactly(int(match[2]))
    if match[1] != b"200":
        raise RuntimeError(answer.decode())
    return json.loads(answer)


async def load(port: int, requests: int, connections: int) -> list[float]:
    """Return the seconds that each of these requests took."""
    taken: list[float] = []
    left = iter(np.random.default_rng(1).normal(size=(requests, 10)).tolist())

    async def client() -> None:
        connection = await asyncio.open_connection("127.0.0.1", port)
        for features in left:
            start = time.perf_counter()
            answer = await ask(connection, features)
            taken.append(time.perf_counter() - start)
            assert answer["low"] <= answer["mean"] <= answer["high"]
        connection[1].close()

    await asyncio.gather(*(client() for _ in range(connections)))
    return taken


def resident(pid: int) -> float:
    """Return the resident memory of a process in MB (Linux)."""
    status = Path(f"/proc/{pid}/status").read_text()
    return int(re.findall(r"VmRSS:\s*(\d+) kB", status)[0]) / 1e3


def wait_for(port: int, process: subprocess.Popen[bytes]) -> None:
    """Wait until the service answers."""
    while process.poll() is None:
        try:
            socket.create_connection(("127.0.0.1", port)).close()
            return
        except ConnectionRefusedError:
            time.sleep(0.05)
    raise SystemExit("The service ended before it answered.")


def main() -> None:
    """Print requests per second, latencies, and memory."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--connections", type=int, default=32)
    connections = parser.parse_args().connections
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.jxg"
        save_model(path)
        uvicorn = [sys.executable, "-m", "uvicorn", "--factory", "--log-level=warning"]
        start = time.perf_counter()
        process = subprocess.Popen(
            [*uvicorn, f"--port={port}", "service:create_app"],
            cwd=SERVICE,
            env={**os.environ, "MODEL": str(path)},
        )
        try:
            wait_for(port, process)
            print(f"Ready after {time.perf_counter() - start:.1f} s.")
            done = 0
            for requests in (1_000, 9_000):
                start = time.perf_counter()
                taken = asyncio.run(load(port, requests, connections))
                rate = requests / (time.perf_counter() - start)
                done += requests
                p50, p99 = (1e3 * statistics.quantiles(taken, n=100)[i] for i in (49, 98))
                print(
                    f"{done:6,} requests, {connections} connections: {rate:5.0f} per second, "
                    f"p50 {p50:.1f} ms, p99 {p99:.1f} ms; {resident(process.pid):.0f} MB"
                )
        finally:
            process.terminate()
            process.wait()


if __name__ == "__main__":
    main()
