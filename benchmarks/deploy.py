"""Export, save and load a model: ``python benchmarks/deploy.py [--rounds N]``.

The model is `examples/model.py`: a log-posterior and its gradient, saved for any number of rows.
Each table is of fresh processes, and rounds take turns. Importing JAX includes NumPy. Processes
that load a file raise an error if anything imports Aesara.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
ROWS = (569, 1_000, 100_000)

SAVE = """
start = time.perf_counter()
import jaxprgen
sys.path.insert(0, "examples")
from model import graph
f = jaxprgen.compile(*graph)
lap("import, build the graph, compile")
types = "f64[31]", "f64[n,30]", "f64[n]", "f64[]"
f.export(*types)
lap("export")
jaxprgen.save(path, f, *types, vjp_order=1)
lap("save, with the gradient")
jaxprgen.save(f"{path}.xla", f, *types, executable={"n": 569})
text = jaxprgen.load(path).as_text()
numbers = set(re.findall(r"tensor<(\\d+)x", text))
said["sizes in the StableHLO"] = ", ".join(sorted(numbers - {"30", "31", "1", "0"})) or "none"
"""
LOAD = """
import jaxprgen
f = jaxprgen.load(path)
lap("load")
for n in rows:
    args = data(n)
    jax.block_until_ready(f(*args))
    lap(f"first call, {n} rows")
grad = jax.jit(jax.grad(lambda *args: f(*args)[0]))
jax.block_until_ready(grad(*data(rows[0])))
lap("first gradient")
"""
JAX_ALONE = """
jax.devices()
lap("XLA starts")
import jaxprgen
lowered = jaxprgen.load(path).lower(*arguments)  # Not timed: it gives what XLA compiles.
last = time.perf_counter()
lowered.compile()
lap("XLA compiles the program for 569 rows")
"""
FIRST = """
import jaxprgen
f = jaxprgen.load(path)
jax.block_until_ready(f(*arguments))
lap("load, first call, 569 rows")
"""
EXECUTABLE = """
import jaxprgen
f = jaxprgen.load(f"{path}.xla", trust_executable=True)
jax.block_until_ready(f(*arguments))
lap("load, first call, 569 rows")
"""
SAVE_LARGE = """
import jaxprgen, aesara
import aesara.tensor as at
x, w = at.dvector("x"), aesara.shared(np.arange(125e6), name="w", borrow=True)
f = jaxprgen.compile([x], x.sum() + w.sum())
last = time.perf_counter()
jaxprgen.save(f"{path}.large", f, "f64[n]")
lap("save 1 GB of data")
"""
LOAD_LARGE = """
import jaxprgen, resource
jax.devices()
before, last = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.perf_counter()
f = jaxprgen.load(f"{path}.large")
lap("load 1 GB of data")
jax.block_until_ready(f(np.ones(3)))
lap("first call")
after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
said["memory"] = f"{(after - before) / 1e3:.0f} MB"
"""
START = """
import json, re, sys, time
path, rows, said, times = sys.argv[1], json.loads(sys.argv[2]), {}, {}
last = time.perf_counter()

def lap(name):
    global last
    now = time.perf_counter()
    times[name], last = now - last, now

def data(n):
    rng = np.random.default_rng(0)
    return np.full(31, 0.1), rng.normal(size=(n, 30)), (rng.random(n) < 0.5) * 1.0, np.array(1.0)

import jax
jax.config.update("jax_enable_x64", True)
lap("import jax")
import numpy as np  # As JAX did, so this takes no time.
arguments = data(569)
last = time.perf_counter()
"""
WITHOUT_AESARA = "sys.modules['aesara'] = None\n"
END = "\nprint(json.dumps([times, said]))\n"


def measured(code: str, path: str) -> tuple[dict[str, float], dict[str, str]]:
    """Return the times, in seconds, and other findings of a fresh process."""
    done = subprocess.run(
        [sys.executable, "-c", START + code + END, path, json.dumps(ROWS)],
        capture_output=True,
        text=True,
        cwd=ROOT,
        # Python keeps the bytecode of this package, as it does for installed ones.
        env={**os.environ, "PYTHONPATH": str(ROOT), "PYTHONWARNINGS": "ignore"}
        | {"PYTHONDONTWRITEBYTECODE": ""},
    )
    if done.returncode:
        raise SystemExit(done.stderr)
    return json.loads(done.stdout.splitlines()[-1])


def main() -> None:
    """Measure, and print a table for each kind of process."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    rounds = parser.parse_args().rounds
    kinds = {
        "export": SAVE,
        "load": WITHOUT_AESARA + LOAD,
        "XLA alone": WITHOUT_AESARA + JAX_ALONE,
        "first number": WITHOUT_AESARA + FIRST,
        "first number, executable kept": WITHOUT_AESARA + EXECUTABLE,
        "save much data": SAVE_LARGE,
        "load much data": WITHOUT_AESARA + LOAD_LARGE,
    }
    found = {kind: [] for kind in kinds}
    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder) / "model.jxg")
        for _ in range(rounds):
            for kind, code in kinds.items():
                found[kind].append(measured(code, path))
        print(f"{Path(path).stat().st_size} bytes; with an executable, ", end="")
        print(f"{Path(f'{path}.xla').stat().st_size} bytes")
    for kind, results in found.items():
        print(f"\n{kind}: median and range of {rounds} processes, ms")
        for name in results[0][0]:
            times = sorted(1e3 * times[name] for times, _ in results)
            print(f"  {name:40} {statistics.median(times):8.0f} {times[0]:8.0f} {times[-1]:8.0f}")
        for name, text in results[0][1].items():
            print(f"  {name}: {text}")
    imports = statistics.median(x["import jax"] for results in found.values() for x, _ in results)
    first = statistics.median(x["load, first call, 569 rows"] for x, _ in found["first number"])
    alone = statistics.median(
        x["XLA compiles the program for 569 rows"] for x, _ in found["XLA alone"]
    )
    ratio = (imports + first) / (imports + alone)
    print(f"\nto the first number ÷ importing JAX and XLA's compilation, medians: {ratio:.2f}")


if __name__ == "__main__":
    main()
