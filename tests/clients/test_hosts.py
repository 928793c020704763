"""The examples of several processes find what one process finds, and end when one of them dies."""

import itertools
import os
import re
import subprocess
import sys
import time
from doctest import ELLIPSIS, OutputChecker
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
from profiles import amount

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
HOSTS = ROOT / "examples" / "hosts"
LIMIT = 300  # Seconds, far more than anything takes.


@pytest.fixture(autouse=True)
def hosts(monkeypatch):
    """Make the package and the modules of the examples importable, here and in processes."""
    paths = [ROOT, HOSTS, os.environ.get("PYTHONPATH", "")]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(map(str, paths)))
    monkeypatch.syspath_prepend(str(HOSTS))


@pytest.fixture
def launch():
    import launch

    return launch


def launched(count, *command):
    """What a script prints in so many processes."""
    command = [sys.executable, HOSTS / "launch.py", "--limit", LIMIT, count, *command]
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("count", [2, pytest.param(4, marks=pytest.mark.deep)])
def test_a_regression_over_several_processes_is_that_of_one(count):
    import regression

    features, labels = regression.load(slice(0, regression.ROWS))
    beta = np.zeros(regression.COLUMNS + 1)
    values = []
    for _ in range(regression.STEPS):
        beta, value = regression.newton(beta, features, labels)
        values.append(float(value))
    first, *steps, last = launched(count, HOSTS / "regression.py").splitlines()
    assert first == f"{count} processes, {count} devices. Process 0 holds {8 // count} MB of 8."
    found = [float(line.rpartition(" ")[2]) for line in steps]
    np.testing.assert_allclose(found, values, rtol=1e-12)
    found = [float(x) for x in last.split()[1:]]
    np.testing.assert_allclose(found, beta, rtol=1e-12)


# --- Processes that die --------------------------------------------------------------------


def test_output_of_all_is_shown_if_one_fails(launch, tmp_path, capsys):
    """One that fails before it joins leaves the others waiting; they are killed."""
    script = tmp_path / "script.py"
    script.write_text(
        "import os, threading\nprint('begins', flush=True)\n"
        "if os.environ['PROCESS_ID'] == '1': raise KeyError('a bug')\nthreading.Event().wait()\n"
    )
    with pytest.MonkeyPatch.context() as patch, launch.started(3, [script], tmp_path) as processes:
        patch.setattr(launch, "GRACE", 0.1)
        codes = launch.wait(processes, LIMIT)
    assert codes == [None, 1, None]
    assert all(process.returncode is not None for process in processes)
    text = launch.story(codes, tmp_path)
    assert "--- Process 0 still ran:" in text
    assert "--- Process 1 ended with exit code 1:\nbegins\nTraceback" in text
    assert "KeyError: 'a bug'\n--- Process 2 still ran:\n" in text


DEEP = [("raises", 0), *itertools.product(["killed", "idle killed", "stopped"], [0, 1])]
FATES = [("raises", 1), *(pytest.param(*fate, marks=pytest.mark.deep) for fate in DEEP)]


@pytest.mark.parametrize(("fate", "victim"), FATES)
def test_others_stop_with_an_error_if_one_dies(launch, tmp_path, fate, victim):
    command = [HERE / "doomed.py", fate, victim]
    with launch.started(amount(quick=2, deep=3), command, tmp_path) as processes:
        others = [process for i, process in enumerate(processes) if i != victim]
        codes = launch.wait(others, LIMIT)
    # Either JAX raises, or its client, which found the other dead, aborts.
    assert set(codes) <= {1, -6}, launch.story([p.returncode for p in processes], tmp_path)


# --- Training ------------------------------------------------------------------------------

needs_orbax = pytest.mark.skipif(
    find_spec("orbax") is None,
    reason="orbax-checkpoint, of the dependency group clients, is not installed",
)
RESUMES = [(2, 1), *(pytest.param(*c, marks=pytest.mark.deep) for c in [(2, 2), (4, 4), (1, 2)])]


def checkpoints(folder):
    """The steps of the checkpoints that are complete."""
    return sorted(int(path.name) for path in folder.glob("*") if path.name.isdigit())


def trained(folder):
    with np.load(folder / "parameters.npz") as parameters:
        return dict(parameters)


def continued(capsys, count, script, folder, steps):
    """What a training prints that goes on in so many processes; one is this process."""
    if count > 1:
        return launched(count, *script, folder, "--steps", steps)
    import train

    train.run(folder, steps, 10)
    return capsys.readouterr().out


@needs_orbax
@pytest.mark.filterwarnings("ignore")  # Orbax's.
@pytest.mark.parametrize(("before", "after"), RESUMES)
def test_a_training_that_is_killed_goes_on_to_the_same_numbers(
    launch, tmp_path, capsys, before, after
):
    script = HOSTS / "train.py", "--every", 10, "--folder"
    killed, whole = tmp_path / "killed", tmp_path / "whole"
    deadline = time.monotonic() + LIMIT
    with launch.started(before, [*script, killed, "--steps", 10**9], tmp_path) as processes:
        while not checkpoints(killed):
            codes = [process.poll() for process in processes]
            assert not any(codes) and time.monotonic() < deadline, launch.story(codes, tmp_path)
            time.sleep(0.02)
        processes[-1].kill()
        codes = launch.wait(processes, LIMIT)
    assert codes[-1] == -9 and set(codes[:-1]) <= {1, -6}, launch.story(codes, tmp_path)

    last = checkpoints(killed)[-1]
    steps = last + 15
    shown = continued(capsys, after, script, killed, steps)
    lines = f"goes on after step {last}", f"step {last + 10}: loss ", f"step {steps}: loss "
    for line, start in zip(shown.splitlines(), lines, strict=True):
        assert line.startswith(start)
    assert checkpoints(killed) == [last + 10, steps]
    assert continued(capsys, after, script, whole, steps).startswith("step 10: loss ")
    tolerance = 0 if before == after else 1e-12
    found, expected = trained(killed), trained(whole)
    assert list(found) == list(expected)
    for name, x in found.items():
        np.testing.assert_allclose(x, expected[name], rtol=tolerance, atol=tolerance)


@needs_orbax
@pytest.mark.deep
def test_the_page_shows_a_training(tmp_path):
    page = (ROOT / "docs" / "scale.md").read_text("utf-8")
    (block,) = re.findall(r"^```console\n(.*?train\.py.*?)^```", page, re.DOTALL | re.MULTILINE)
    pairs = re.findall(
        r"^\$ python examples/hosts/launch.py (.*)\n((?:[^$].*\n)+)", block, re.MULTILINE
    )
    for command, shown in pairs:
        count, *command = command.replace("--folder run", f"--folder {tmp_path}").split()
        command[0] = ROOT / command[0]
        assert OutputChecker().check_output(shown, launched(count, *command), ELLIPSIS)
    assert len(pairs) == 2
