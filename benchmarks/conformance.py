"""Run tests of Aesara, or of a package that uses it, with programs of jaxprgen.

Run as ``python benchmarks/conformance.py AESARA [FILE ...] [pytest's options]``, where
``AESARA`` is the source of the release of Aesara that is installed, and files are relative to it.
Three of the tests of loops need pytest-benchmark.

Run as ``python benchmarks/conformance.py --default-mode PACKAGE ...`` for the source of a package,
such as aeppl. Its tests run with mode "JAXPR" as Aesara's default mode; the first run has Aesara's
rewrites and the Python linker as default mode. Nothing else is replaced, and every test that passes
the first run is counted.

Every file runs twice, each time in a process of its own. The first run uses Aesara's Python linker
without rewriting; it excludes tests about rewriting, and tests that newer versions of NumPy or
SciPy break. The second run uses programs. A test is *counted* if it passes the first run and calls
a compiled function. Only the linker is replaced: names of inputs, defaults, updates, givens and
shared variables remain Aesara's own.

Draws are JAX's, not NumPy's. If a test that draws fails, its file runs a third time, with the
Python linker and generators in other states. A test that fails again depends on the very numbers
that NumPy draws; it is not counted, unless jaxprgen refuses a graph of it.
"""

from __future__ import annotations  # noqa: I001

import argparse
import collections
import contextlib
import importlib
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
from collections.abc import Generator, Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import jaxprgen  # noqa: F401  # First: it makes Aesara importable.
import aesara
import jax
import numpy as np
import pytest
import scipy.linalg
from aesara.compile.function.types import Function
from aesara.compile.mode import Mode, get_mode
from aesara.link.vm import VMLinker
from aesara.tensor.random.op import RandomVariable

from jaxprgen import JaxprLinker, errors
from jaxprgen.lowering.traversal import inner_nodes
from jaxprgen.lowering.registry import is_supported
from jaxprgen.aesara.linker import JaxprFunction

_TENSOR = """elemwise subtensor shape extra_ops nlinalg slinalg sort basic math special blas xlogx
    inplace complex keepdims"""
FILES = (
    *(f"tests/tensor/test_{name}.py" for name in _TENSOR.split()),
    *(f"tests/scalar/test_{name}.py" for name in ("basic", "basic_sympy", "math", "type")),
    *("tests/scan/test_basic.py", "tests/test_ifelse.py"),
)
LINKERS = ("python", "jaxprgen", "redrawn")
# Aesara's tests set some of these themselves, but only after Aesara is imported.
FLAGS = "cxx=,blas__ldflags=,warn__ignore_bug_before=all,on_opt_error=raise,on_shape_error=raise"
# Those of packages do, too.
DEFAULT_MODE_FLAGS = f"{FLAGS},cast_policy=numpy+floatX"

REFUSALS = (
    errors.ArgumentTypeError,
    errors.EquationError,
    errors.InvalidGraphError,
    errors.LoweringError,
    errors.StaticShapeError,
    errors.UnsupportedOpError,
)
"""The errors of jaxprgen for which Aesara has no counterpart."""


class Outcome(NamedTuple):
    """The outcome of one test with one linker.

    ``result`` is "passed", "failed" or "skipped"; ``called`` whether a compiled function was
    called, ``looked`` whether the test asked for its graph; ``cause`` says why it failed, and
    ``drew`` whether Aesara drew random numbers.
    """

    result: str
    called: bool
    looked: bool
    cause: str
    drew: bool = False


# --- In a process that runs tests ---------------------------------------------------------


class TimeLimitExceeded(BaseException):
    """A test took too long. It is not an `Exception`, so no test expects it."""


class Recorder:
    """A pytest plugin that replaces the linker and records outcomes."""

    def __init__(self, linker: str, limit: float, root: Path, default_mode: bool) -> None:
        self.outcomes: dict[str, Outcome] = {}
        self._limit = limit
        self._called = self._looked = self._drew = False
        self._refusals: list[BaseException] = []
        _restore_names()
        kind = ProgramLinker if linker == "jaxprgen" else VMLinker
        if default_mode:
            kind = JaxprLinker if linker == "jaxprgen" else VMLinker
            python = Mode(VMLinker(use_cloop=False), "fast_run")
            aesara.config.mode = get_mode("JAXPR") if linker == "jaxprgen" else python
        else:
            self._replace_linker(linker)
        self._watch_functions(kind, str(root / "tests") + os.sep)
        self._watch_draws(linker == "redrawn")

    def _replace_linker(self, name: str) -> None:
        ours = name == "jaxprgen"
        linker = ProgramLinker(self._refusals) if ours else VMLinker(use_cloop=False)
        mode = Mode(linker=linker, optimizer=None)
        # By module name, because `aesara.compile.function` is a function too.
        modules = [
            importlib.import_module(f"aesara.compile.function{name}")
            for name in (".types", ".pfunc", "")
        ]
        original = modules[0].orig_function

        def orig_function(inputs: Any, outputs: Any, *_: Any, **kwargs: Any) -> Any:
            return original(inputs, outputs, **{**kwargs, "mode": mode})

        for module in modules:
            vars(module)["orig_function"] = orig_function

    def _watch_functions(self, linker: type, tests: str) -> None:
        def watch(call: Any) -> Any:
            def watched(function: Any, *args: Any, **kwargs: Any) -> Any:
                self._called |= type(function.__dict__["maker"].linker) is linker
                return call(function, *args, **kwargs)

            return watched

        def maker(function: Any) -> Any:
            self._looked |= sys._getframe(1).f_code.co_filename.startswith(tests)
            return function.__dict__["maker"]

        Function.__call__ = watch(Function.__call__)
        JaxprFunction.__call__ = watch(JaxprFunction.__call__)
        Function.maker = property(maker, lambda f, value: f.__dict__.update(maker=value))

    def _watch_draws(self, differently: bool) -> None:
        perform = RandomVariable.perform

        def watched(op: Any, node: Any, inputs: Any, outputs: Any) -> None:
            self._drew = True
            generator, *rest = inputs
            perform(op, node, [_jumped(generator) if differently else generator, *rest], outputs)

        RandomVariable.perform = watched

    def pytest_runtest_setup(self) -> None:
        """Forget the previous test."""
        self._called = self._looked = self._drew = False
        self._refusals.clear()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self, item: Any) -> Generator[None, Any, Any]:
        """Run a test within the time limit."""

        def stop(*_: Any) -> None:
            raise TimeLimitExceeded(f"more than {self._limit:g} seconds")

        signal.signal(signal.SIGALRM, stop)
        signal.setitimer(signal.ITIMER_REAL, self._limit)
        try:
            return (yield)
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self, item: Any, call: Any) -> Generator[None, Any, Any]:
        """Record the test's outcome."""
        report = yield
        if report.when == "call" or (report.when == "setup" and report.outcome != "passed"):
            error = call.excinfo.value if call.excinfo and report.outcome == "failed" else None
            # A test may expect any error; a refused graph does not count as one.
            error = self._refusals[0] if self._refusals else error
            result = "failed" if error else report.outcome
            cause = _cause(error) if error else ""
            called = self._called or bool(self._refusals)
            found = Outcome(result, called, self._looked, cause, self._drew)
            self.outcomes[item.nodeid] = found
        return report


def _restore_names() -> None:
    """Restore removed names of NumPy and SciPy that Aesara's tests use."""
    for module, name, value in (
        (np, "find_common_type", lambda arrays, scalars: np.result_type(*arrays, *scalars)),
        (np.linalg, "linalg", np.linalg),
        (scipy.linalg, "kron", np.kron),
    ):
        if not hasattr(module, name):
            setattr(module, name, value)


def _jumped(generator: Any) -> Any:
    """Return a generator of other numbers, derived from the state of this one."""
    bits = getattr(generator, "bit_generator", None) or generator._bit_generator
    return type(generator)(bits.jumped())


def _cause(error: BaseException) -> str:
    """Write an error in one line: its class, and its first line or the Ops without a rule."""
    text = next(iter(str(error).splitlines()), "")
    if isinstance(error, errors.UnsupportedOpError):
        found = re.findall(r"^  (\S[^(\n]*)\(", str(error), re.MULTILINE)
        text = "no rule for " + ", ".join(dict.fromkeys(found))
    text = re.sub(r"'[^']*'|<[^>]*>", "…", text)  # Hide names, so that equal causes read alike.
    return f"{type(error).__name__}: {text[:160]}"


class ProgramLinker(JaxprLinker):
    """The linker of mode "JAXPR", with Aesara's run-time checks.

    It collects the errors that are `REFUSALS`. Ops that tests define themselves are called back;
    Aesara's own Ops are not.
    """

    def __init__(self, refusals: list[BaseException]) -> None:
        super().__init__(checks=True)
        self._refusals = refusals

    def make_thunk(self, **storage: Any) -> Any:
        """Return the thunk, which runs the program on stored inputs and stores its outputs."""
        self.callbacks = _lacks_no_rule(self.fgraph)
        with _recorded(self._refusals):
            program, inputs, outputs = super().make_thunk(**storage)
        overwritten = _overwritten(self.fgraph)
        run = program.run

        def recorded(operands: Sequence[Any]) -> list[Any]:
            with _recorded(self._refusals):
                results = run(operands)
            for argument, result in overwritten:
                memory, value = inputs[argument].storage[0], results[result]
                if memory.shape == value.shape:
                    memory[...] = value
            return results

        program.run = recorded
        return program, inputs, outputs


def _lacks_no_rule(fgraph: Any) -> bool:
    """Return whether all of Aesara's own Ops have rules."""
    nodes = inner_nodes(list(fgraph.apply_nodes))
    lacking = [node.op for node, _ in nodes if not is_supported(node.op)]
    scalars = [getattr(op, "scalar_op", op) for op in lacking]
    parts = [[n.op for n in s.fgraph.apply_nodes] if hasattr(s, "fgraph") else [s] for s in scalars]
    return not any(type(op).__module__.startswith("aesara.") for ops in parts for op in ops)


def _overwritten(fgraph: Any) -> list[tuple[int, int]]:
    """Return which inputs the Python linker overwrites with which results.

    A program leaves that to its caller.
    """
    return [
        (fgraph.inputs.index(node.inputs[argument]), result)
        for result, (node, i) in enumerate((v.owner, v.index) for v in fgraph.outputs)
        for argument in (node.op.destroy_map.get(i, ()) if node else ())
        if node.inputs[argument] in fgraph.inputs and result not in fgraph.update_mapping
    ]


@contextlib.contextmanager
def _recorded(refusals: list[BaseException]) -> Generator[None, None, None]:
    try:
        yield
    except REFUSALS as error:
        refusals.append(error)
        raise


def run_tests(
    linker: str, limit: float, results: str, default_mode: bool, args: Sequence[str]
) -> None:
    """Run tests with a linker, in the directory of the source."""
    jax.config.update("jax_enable_x64", True)
    recorder = Recorder(linker, limit, Path.cwd(), default_mode)
    options = ["-q", "--no-header", "--tb=short", "-p", "no:cacheprovider", "-o", "addopts="]
    if default_mode:  # The packages are tested with C code, which does not warn of 1 / 0.
        options += ["-W", "ignore::RuntimeWarning"]
    pytest.main([*options, *args], plugins=[recorder])
    Path(results).write_text(json.dumps(recorder.outcomes))


# --- In the process that reports ----------------------------------------------------------


def outcomes_of(
    source: Path,
    file: str,
    linker: str,
    limit: float,
    folder: Path,
    default_mode: bool,
    options: Sequence[str],
) -> dict[str, Outcome]:
    """Return the outcome of every test of a file; from the folder if it is there."""
    results = folder / f"{Path(file).parent.name}.{Path(file).stem}.{linker}.json"
    if not results.exists():
        flags = DEFAULT_MODE_FLAGS if default_mode else FLAGS
        flags = {"AESARA_FLAGS": f"{flags},{os.environ.get('AESARA_FLAGS', '')}"}
        flags |= {"PYTHONDONTWRITEBYTECODE": "1", "NUMBA_BOUNDSCHECK": "1"}
        command = [sys.executable, __file__, "--linker", linker, "--limit", str(limit)]
        command += ["--default-mode"] * default_mode
        command += ["--results", str(results), str(source), file, *options]
        with results.with_suffix(".log").open("w") as log:
            subprocess.run(
                command, cwd=source, env=os.environ | flags, stdout=log, stderr=log, check=True
            )
    return {test: Outcome(*row) for test, row in json.loads(results.read_text()).items()}


def classify(
    reference: Outcome, outcome: Outcome | None, redrawn: Outcome | None, default_mode: bool
) -> str:
    """Classify a test by its outcomes with the Python linker, programs, and other draws."""
    if reference.result == "skipped":
        return "skipped"
    if reference.result == "failed":
        return "graph" if reference.looked else "broken"
    if outcome is None:
        return "failed"
    called = reference.called and (outcome.result != "passed" or outcome.called)
    if not (called or default_mode):
        return "no call"
    if outcome.result == "passed":
        return "passed"
    differs = redrawn is not None and redrawn.result == "failed"
    refused = outcome.cause.startswith(tuple(f"{error.__name__}:" for error in REFUSALS))
    return "draws" if differs and not refused else "failed"


COLUMNS = {
    "tests": "tests",
    "skipped": "skipped",
    "graph": "fail with the Python linker: look at the rewritten graph",
    "broken": "fail with the Python linker otherwise",
    "no call": "call no compiled function",
    "draws": "look at the very numbers that NumPy draws",
    "counted": "counted",
    "passed": "pass",
    "failed": "fail",
}


Outcomes = dict[str, Outcome]


def report(rows: Iterable[tuple[str, Outcomes, Outcomes, Outcomes]], default_mode: bool) -> int:
    """Print one line per file, then causes and failed tests; return the number of failures."""
    causes: dict[str, list[str]] = collections.defaultdict(list)
    total: collections.Counter[str] = collections.Counter()
    for name, meaning in COLUMNS.items():
        print(f"{name:>9}: {meaning}")
    print(f"\n{'':32}" + "".join(f"{name:>9}" for name in COLUMNS))
    for file, reference, ours, redrawn in rows:
        counts: collections.Counter[str] = collections.Counter()
        for test, outcome in reference.items():
            kind = classify(outcome, ours.get(test), redrawn.get(test), default_mode)
            counts[kind] += 1
            if kind == "failed":
                causes[ours[test].cause if test in ours else "did not run"].append(test)
        counts["tests"] = len(reference)
        counts["counted"] = counts["passed"] + counts["failed"]
        total += counts
        print(f"{file:32}" + "".join(f"{counts[name]:>9}" for name in COLUMNS), flush=True)
    print(f"{'':32}" + "".join(f"{total[name]:>9}" for name in COLUMNS))
    for cause, tests in sorted(causes.items(), key=lambda item: -len(item[1])):
        print(f"\n{len(tests)} × {cause}")
        for test in tests:
            print(f"    {test}")
    return total["failed"]


def main() -> int:
    """Run the tests of the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])  # type: ignore[union-attr]
    parser.add_argument("source", type=Path, help="a checkout of the source of Aesara or a package")
    parser.add_argument(
        "--default-mode", action="store_true", help="replace Aesara's default mode, not its linker"
    )
    parser.add_argument("--results", help="folder of outcomes; existing ones are reused")
    parser.add_argument("--limit", type=float, default=120, help="seconds a test may take")
    parser.add_argument("--linker", choices=LINKERS, help=argparse.SUPPRESS)
    given, rest = parser.parse_known_args()
    if given.linker:
        run_tests(given.linker, given.limit, given.results, given.default_mode, rest)
        return 0
    source = given.source.resolve()
    every = sorted(str(x.relative_to(source)) for x in source.glob("tests/test_*.py"))
    files = [x for x in rest if x.startswith("tests/")] or (every if given.default_mode else FILES)
    options = [x for x in rest if not x.startswith("tests/")]
    folder = Path(given.results or tempfile.mkdtemp()).resolve()
    folder.mkdir(parents=True, exist_ok=True)

    def row(file: str) -> tuple[str, Outcomes, Outcomes, Outcomes]:
        def run(linker: str) -> Outcomes:
            return outcomes_of(
                source, file, linker, given.limit, folder, given.default_mode, options
            )

        reference, ours = run("python"), run("jaxprgen")
        drew = (ours[t] for t, o in reference.items() if o.drew and t in ours)
        redrawn = run("redrawn") if any(o.result == "failed" for o in drew) else {}
        return file.removeprefix("tests/"), reference, ours, redrawn

    failed = report(map(row, files), given.default_mode)
    print(f"\nOutcomes and logs are in {folder}")
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
