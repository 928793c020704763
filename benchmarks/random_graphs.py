"""Compare random graphs with Aesara's Python mode: ``python benchmarks/random_graphs.py``.

XLA compiles each graph as one program. Failures are printed with their seeds. With ``--seed S
--graphs 1 --all``, every node of a graph is an output, which shows the first node that differs.
"""

from __future__ import annotations

import argparse
import importlib
import sys
import time
import traceback
import warnings
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parents[1] / "tests")]
warnings.simplefilter("ignore")
importlib.import_module("conftest")  # Sets up the environment; comes first.

from catalogue.growing import Graph, differences  # noqa: E402


def main() -> int:
    """Grow graphs from consecutive seeds, and count the differences."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--graphs", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0, help="of the first graph")
    parser.add_argument("--nodes", type=int, help="of each graph; else from 10 to 60")
    parser.add_argument("--all", action="store_true", help="every node is an output")
    asked = parser.parse_args()
    failed, nodes, start = 0, 0, time.perf_counter()
    for done in range(asked.graphs):
        seed = asked.seed + done
        try:
            graph = Graph(seed, asked.nodes)
            found = differences(graph, graph.results if asked.all else graph.ends)
        except Exception:
            found = [traceback.format_exc()]
        if found:
            failed += 1
            print(f"seed {seed}: {found[0]}", flush=True)
        nodes += len(graph.results)
        if (done + 1) % 50 == 0:
            took = time.perf_counter() - start
            print(f"{done + 1} graphs, {nodes} nodes, {failed} failed, {took:.0f} s", flush=True)
    print(f"{asked.graphs} graphs, {nodes} nodes, {failed} failed")
    return min(failed, 1)


if __name__ == "__main__":
    sys.exit(main())
