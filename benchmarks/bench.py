"""Compare whole systems, from graphs to numbers: ``python benchmarks/bench.py``.

Each workload and system is measured in fresh processes, which import everything and run a small
JAX program first. Records are kept in a folder, as JSON, from which ``--page`` writes
docs/benchmarks.md and its plots. ``--only chain,radon`` and ``--systems`` measure a part. A
failure, or a process beyond the time limit, is recorded in place of figures.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib.util
import json
import math
import multiprocessing
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Generator
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from compare.process import Cell

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "build" / "benchmarks"
SLOW = 5.0
"""Seconds to the first number beyond which a process is not repeated."""


def cells(workloads: list[str], chosen: list[str]) -> list[Cell]:
    """Return the processes of one round."""
    from compare.process import Cell, systems

    return [Cell(name, s) for name in workloads for s in systems(name) if s in chosen]


def measure(cell: Cell, repeat: int, folder: Path, limit: float) -> dict[str, Any]:
    """Run a process, and return its record, which is also kept in the folder."""
    from compare.process import run

    path = folder / f"{cell.record}.{repeat}.json"
    # Not forked, because a forked process copies each page of memory before writing to it.
    spawn = multiprocessing.get_context("spawn")
    process = spawn.Process(target=run, args=(cell, repeat, folder, path))
    start = time.perf_counter()
    with _compilers(cell.system):
        process.start()
        process.join(limit)
    if process.is_alive():
        process.kill()
        process.join()
        record = {"limit": limit}
    elif path.exists():
        record = json.loads(path.read_text())
    else:
        record = {"error": f"the process ended with {process.exitcode}"}
    record["took"] = time.perf_counter() - start
    path.write_text(json.dumps(record, indent=1))
    return record


@contextlib.contextmanager
def _compilers(system: str) -> Generator[None]:
    """Give a process folders of its own for compiled code, and C for PyTensor's C mode.

    Otherwise PyTensor would load what the process before it has compiled.
    """
    before = os.environ.copy()
    # The others need no C compiler for JAX; Aesara 2.9.3 cannot use one on NumPy 2.
    cxx = (shutil.which("g++") or "") if system == "c" else ""  # Without it, the mode says so.
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as compiled:
        for library in ("AESARA", "PYTENSOR"):
            os.environ[f"{library}_FLAGS"] = f"cxx={cxx},base_compiledir={compiled}/{library}"
        os.environ["NUMBA_CACHE_DIR"] = f"{compiled}/numba"
        try:
            yield
        finally:
            os.environ.clear()
            os.environ.update(before)


def measure_sampling(folder: Path) -> None:
    """Measure `pymc.sample` as a whole, in one process with this package and in one without."""
    from compare.records import SAMPLING
    from processes import measured

    script = str(Path(__file__).with_name("pymc_models.py"))
    if importlib.util.find_spec("pymc"):
        found = {}
        for who in ("ours", "theirs"):
            with _compilers("jaxprgen"):
                found[who] = measured(script, "sample", who)
    else:
        found = {"error": "PyMC is not installed."}
    (folder / SAMPLING).write_text(json.dumps(found))


def measure_all(chosen: list[Cell], repeats: int, folder: Path, limit: float) -> None:
    """Measure all in each round, but only once what fails, is slow, or ``runs_once``."""
    from compare.records import MINUTE, describe_machine
    from tqdm import tqdm

    folder.mkdir(parents=True, exist_ok=True)
    describe_machine(folder)
    for cell in chosen:
        for path in folder.glob(f"{cell.record}.*.json"):
            path.unlink()
    once: set[Cell] = set()
    firsts: dict[Cell, float] = {}
    with tqdm(total=repeats * len(chosen), disable=None, unit="process") as bar:
        for repeat in range(repeats):
            for cell in chosen:
                bar.set_description(f"{cell.workload}, {cell.system}")
                if cell not in once and expected(cell, firsts) < MINUTE:
                    record = measure(cell, repeat, folder, limit)
                    failed = bool({"error", "limit"} & record.keys())
                    firsts[cell] = math.inf if failed else record.get("first", 0.0)
                    if runs_once(cell) or firsts[cell] > SLOW:
                        once.add(cell)
                bar.update()


def runs_once(cell: Cell) -> bool:
    """Return whether a cell needs one process only."""
    from compare.systems import WITHOUT_JAX

    return _steps(cell) > 0 or cell.system in WITHOUT_JAX


def expected(cell: Cell, firsts: dict[Cell, float]) -> float:
    """Return the seconds that a model of growing size will take, by those of two smaller ones.

    Zero stands for what is not known.
    """
    from compare.records import power_law

    size = _steps(cell)
    alike = {_steps(c): s for c, s in firsts.items() if c.system == cell.system}
    smaller = {steps: seconds for steps, seconds in alike.items() if 0 < steps < size}
    if math.inf in smaller.values():
        return math.inf
    if len(smaller) < 2:
        return 0
    factor, power = power_law(smaller)
    return factor * size**power


def _steps(cell: Cell) -> int:
    """Return the size of a model of growing size, otherwise zero."""
    kind, _, size = cell.workload.partition("-")
    return int(size) if kind == "steps" else 0


def main() -> None:
    """Measure, then write the page on request."""
    from compare import page
    from compare.process import NAMES, ON_REQUEST
    from compare.systems import SYSTEMS

    every = ",".join(name for name in NAMES if name not in ON_REQUEST)
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", default=every, help="workloads, comma-separated")
    parser.add_argument("--systems", default=",".join(SYSTEMS), help="systems, comma-separated")
    parser.add_argument("--repeats", type=int, default=3, help="processes for each figure")
    parser.add_argument("--limit", type=float, default=120, help="seconds for a process")
    parser.add_argument("--folder", type=Path, default=FOLDER, help="where records are kept")
    parser.add_argument("--sampling", action="store_true", help="measure pymc.sample as well")
    parser.add_argument("--page", action="store_true", help="write docs/benchmarks.md")
    parser.add_argument("--no-measuring", action="store_true", help="use existing records")
    options = parser.parse_args()
    if not options.no_measuring:
        named = options.only.split(","), options.systems.split(",")
        for names, known in zip(named, (NAMES, SYSTEMS), strict=True):
            for name in set(names) - set(known):
                parser.error(f"There is no {name}; there are {', '.join(known)}.")
        chosen = cells(*named)
        measure_all(chosen, options.repeats, options.folder, options.limit)
        if options.sampling:
            measure_sampling(options.folder)
    text = page.write(options.folder, ROOT / "docs" if options.page else None)
    print(text)


if __name__ == "__main__":
    sys.path.insert(0, str(ROOT))  # Processes inherit the path.
    main()
