"""Compare whole systems, from graphs to numbers: ``python benchmarks/bench.py``.

Each workload and system is measured in fresh processes that have imported everything and computed
nothing; a figure is the median of repeats. Records are kept in a folder, as JSON, from which
``--page`` writes docs/benchmarks.md and its plot. ``--only chain,radon`` and ``--systems`` measure
a part. A failure, or a process beyond the time limit, is recorded in place of figures.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib.util
import json
import multiprocessing
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Generator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "build" / "benchmarks"
FLAGS = "PYTENSOR_FLAGS"
SLOW = 15.0
"""Seconds beyond which a process is not repeated."""


class Cell(NamedTuple):
    """The workload and the system that one process measures."""

    workload: str
    system: str

    @property
    def record(self) -> str:
        """Return the prefix of the names of its records."""
        return f"{self.workload}.{self.system.replace(' ', '_')}"


def cells(workloads: list[str], systems: list[str]) -> list[Cell]:
    """Return the processes of one round. By hand comes first, as the reference for results."""
    from compare.measure import CALLS
    from compare.systems import BESIDE_PYTENSOR, PYTENSOR_WORKLOADS
    from compare.workloads import WORKLOADS

    found = []
    for name in workloads:
        workload = WORKLOADS[name]
        few = () if name in PYTENSOR_WORKLOADS else BESIDE_PYTENSOR
        few += () if workload.numpyro else ("numpyro",)
        wanted = [s for s in systems if s not in few]
        calls = [CALLS] if "jaxprgen" in systems and not workload.nodes else []
        found += [Cell(name, system) for system in [*wanted, *calls]]
    return found


def measure(cell: Cell, repeat: int, folder: Path, limit: float) -> dict[str, object]:
    """Run a process, and return its record, which is also kept in the folder."""
    from compare import measure

    path = folder / f"{cell.record}.{repeat}.json"
    # Not forked, because a forked process copies each page of memory before writing to it.
    spawn = multiprocessing.get_context("spawn")
    process = spawn.Process(target=measure.run, args=(*cell, folder, path))
    with _compiler(cell.system):
        process.start()
    process.join(limit)
    if process.is_alive():
        process.kill()
        process.join()
        path.write_text(json.dumps({"limit": limit}))
    elif not path.exists():
        path.write_text(json.dumps({"error": f"the process ended with {process.exitcode}"}))
    return json.loads(path.read_text())


@contextlib.contextmanager
def _compiler(system: str) -> Generator[None]:
    """Let a process have a C compiler if it measures PyTensor's C mode."""
    before = os.environ.get(FLAGS, "")
    if system == "c":
        compiler = shutil.which("g++") or ""  # Without it, the mode says what it lacks.
        os.environ[FLAGS] = f"{before},cxx={compiler}"
    try:
        yield
    finally:
        os.environ[FLAGS] = before


def measure_sampling(folder: Path) -> None:
    """Measure `pymc.sample` as a whole, in one process with this package and in one without."""
    from compare.records import SAMPLING
    from processes import measured

    script = str(Path(__file__).with_name("pymc_models.py"))
    if importlib.util.find_spec("pymc"):
        found = {who: measured(script, "sample", who) for who in ("ours", "theirs")}
    else:
        found = {"error": "PyMC is not installed."}
    (folder / SAMPLING).write_text(json.dumps(found))


def measure_all(chosen: list[Cell], repeats: int, folder: Path, limit: float, quiet: bool) -> None:
    """Measure round by round. A failed or slow process runs once."""
    from compare.records import describe_machine
    from tqdm import tqdm

    folder.mkdir(parents=True, exist_ok=True)
    describe_machine(folder)
    for cell in chosen:
        for path in folder.glob(f"{cell.record}.*.json"):
            path.unlink()
    done: set[Cell] = set()
    with tqdm(total=repeats * len(chosen), disable=quiet, unit="process") as bar:
        for repeat in range(repeats):
            for cell in chosen:
                bar.set_description(f"{cell.workload}, {cell.system}")
                if cell not in done:
                    start = time.perf_counter()
                    record = measure(cell, repeat, folder, limit)
                    slow = time.perf_counter() - start > SLOW
                    done |= {cell} if slow or {"error", "limit"} & record.keys() else set()
                    if "limit" in record and cell.workload.startswith("nodes-"):
                        # A longer chain takes longer still.
                        done |= {c for c in chosen if _is_longer(c, cell)}
                bar.update()


def _is_longer(cell: Cell, other: Cell) -> bool:
    kind, _, nodes = cell.workload.partition("-")
    other_kind, _, fewer = other.workload.partition("-")
    return cell.system == other.system and kind == other_kind and int(nodes) > int(fewer)


def main() -> None:
    """Measure, then write the page on request."""
    from compare import page
    from compare.systems import SYSTEMS
    from compare.workloads import WORKLOADS

    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", default=",".join(WORKLOADS), help="workloads, comma-separated")
    parser.add_argument("--systems", default=",".join(SYSTEMS), help="systems, comma-separated")
    parser.add_argument("--repeats", type=int, default=3, help="processes for each figure")
    parser.add_argument("--limit", type=float, default=120, help="seconds for a process")
    parser.add_argument("--folder", type=Path, default=FOLDER, help="where records are kept")
    parser.add_argument("--no-sampling", action="store_true", help="leave pymc.sample out")
    parser.add_argument("--page", action="store_true", help="write docs/benchmarks.md")
    parser.add_argument("--no-measuring", action="store_true", help="use existing records")
    options = parser.parse_args()
    if not options.no_measuring:
        named = options.only.split(","), options.systems.split(",")
        for names, known in zip(named, (WORKLOADS, SYSTEMS), strict=True):
            for name in set(names) - known.keys():
                parser.error(f"There is no {name}; there are {', '.join(known)}.")
        chosen = cells(*named)
        measure_all(chosen, options.repeats, options.folder, options.limit, not sys.stderr.isatty())
        if not options.no_sampling and options.only == parser.get_default("only"):
            measure_sampling(options.folder)
    text = page.write(options.folder, ROOT / "docs" if options.page else None)
    print(text)


if __name__ == "__main__":
    sys.path.insert(0, str(ROOT))  # Processes inherit the path.
    with tempfile.TemporaryDirectory() as compiled:
        # The others need no C compiler for JAX; Aesara 2.9.3 cannot use one on NumPy 2.
        for library in ("AESARA", "PYTENSOR"):
            os.environ.setdefault(f"{library}_FLAGS", f"cxx=,base_compiledir={compiled}/{library}")
        main()
