"""Run PyTensor's own tests of its JAX mode with mode "JAXPR" in place of that mode.

Run as ``python benchmarks/pytensor_conformance.py PYTENSOR [FILE ...]``, where ``PYTENSOR`` is a
checkout of PyTensor's repository (its package on PyPI lacks these tests) and files are relative to
its ``tests/link/jax``; by default all but ``test_wrap_jax.py``, which is about another feature.

The tests run twice, each time in a process of its own: with PyTensor's mode, then with
`JaxprLinker` in place of its linker and of mode "JAX", with JAX arrays as results. The installed
PyTensor runs, not that of the checkout. A line for each result that differs, or fails with ours,
follows the counts.
"""

from __future__ import annotations

import argparse
import collections
import contextlib
import json
import os
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

TESTS = Path("tests", "link", "jax")


class Outcomes:
    """A pytest plugin that records the outcome of each test, and why it failed."""

    def __init__(self) -> None:
        self.found: dict[str, tuple[str, str]] = {}

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self, item: Any, call: Any) -> Generator[None, Any, Any]:
        """Record the outcome."""
        report = yield
        if report.when == "call" or report.outcome != "passed":
            expected = hasattr(report, "wasxfail")
            passed = report.outcome == "passed" or "XPASS(strict)" in str(report.longrepr)
            result = "passed" if passed else "xfailed" if expected else report.outcome
            result = "unexpectedly passed" if passed and _is_expected_to_fail(item) else result
            cause = str(call.excinfo.value) if call.excinfo else ""
            kind = f"{call.excinfo.typename}: " if call.excinfo else ""
            self.found[item.nodeid] = result, (kind + " ".join(cause.split()))[:200]
        return report


def _is_expected_to_fail(item: Any) -> bool:
    return any(mark.args in ((), (True,)) for mark in item.iter_markers("xfail"))


def _replace_mode() -> None:
    import pytensor.compile.mode as modes
    import pytensor.link.jax as package
    import pytensor.link.jax.linker as linker
    from pytensor.compile.sharedvalue import SharedVariable
    from pytensor.tensor.random.type import RandomType

    import jaxprgen.pytensor.linker as ours

    class Linker(ours.JaxprLinker):
        """Returns JAX arrays, as PyTensor's does."""

        def __init__(self, **options: Any) -> None:
            super().__init__(results="jax", **options)

        def make_thunk(self, *args: Any, **options: Any) -> Any:
            shared = [v for v in self.fgraph.inputs if isinstance(v, SharedVariable)]
            if generators := [v for v in shared if isinstance(v.type, RandomType)]:
                # Ours draws from the generators themselves; the tests require this warning.
                text = f"The RandomType SharedVariables {generators} will not be used"
                warnings.warn(text, UserWarning, stacklevel=2)
            return super().make_thunk(*args, **options)

    package.JAXLinker = linker.JAXLinker = Linker
    modes.JAX = modes.predefined_modes["JAX"] = modes.Mode(Linker(), "None")


def run_tests(who: str, results: str, files: list[str]) -> None:
    """Run files in the directory of the checkout."""
    import jax

    jax.config.update("jax_enable_x64", True)
    if who == "ours":
        _replace_mode()
    outcomes = Outcomes()
    options = ["-q", "--no-header", "--tb=short", "-p", "no:cacheprovider", "-o", "addopts="]
    pytest.main([*options, *files], plugins=[outcomes])
    Path(results).write_text(json.dumps(outcomes.found))


def outcomes_of(source: Path, who: str, folder: Path, files: list[str]) -> dict[str, Any]:
    """Return the outcomes of a process; from the folder if they are there."""
    results = folder / f"{who}.json"
    if not results.exists():
        command = [sys.executable, __file__, "--who", who, "--results", str(results), str(source)]
        path = os.pathsep.join([str(Path(__file__).resolve().parents[1]), str(source)])
        environment = {**os.environ, "PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1"}
        with results.with_suffix(".log").open("w") as log, contextlib.suppress(KeyboardInterrupt):
            subprocess.run(
                [*command, *files], cwd=source, env=environment, stdout=log, stderr=log, check=True
            )
    return json.loads(results.read_text())


def main() -> None:
    """Run the tests of the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])  # type: ignore[union-attr]
    parser.add_argument("source", type=Path, help="a checkout of PyTensor's repository")
    parser.add_argument("files", nargs="*", help="files of tests/link/jax")
    parser.add_argument("--results", help="folder of outcomes; existing ones are reused")
    parser.add_argument("--who", choices=["theirs", "ours"], help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.who:
        run_tests(given.who, given.results, given.files)
        return
    source = given.source.resolve()
    folder = Path(given.results or tempfile.mkdtemp()).resolve()
    folder.mkdir(parents=True, exist_ok=True)
    every = sorted(p.relative_to(source / TESTS) for p in (source / TESTS).rglob("test_*.py"))
    names = given.files or [str(p) for p in every if p.name != "test_wrap_jax.py"]
    files = [str(TESTS / name) for name in names]
    theirs, ours = (outcomes_of(source, who, folder, files) for who in ("theirs", "ours"))
    for who, found in (("PyTensor's mode", theirs), ("mode JAXPR", ours)):
        counts = collections.Counter(result for result, _ in found.values())
        print(f"{who:16}", ", ".join(f"{n} {result}" for result, n in counts.most_common()))
    for test in {**theirs, **ours}:
        (before, _), (after, cause) = (x.get(test, ("did not run", "")) for x in (theirs, ours))
        if before != after or after == "failed":
            print(f"{test.removeprefix(str(TESTS))[1:]}: {before} -> {after}  {cause}")
    print(f"Outcomes and logs are in {folder}")


if __name__ == "__main__":
    main()
