"""Arrays of which each process holds a part are arguments like others, except for their values."""

import json
import os
from pathlib import Path

import numpy as np
import pytest

HERE = Path(__file__).parent
HOSTS = HERE.parents[1] / "examples" / "hosts"
LIMIT = 300  # Seconds, far more than it takes.


def modules():
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(HOSTS))
        import launch
        import spread
    return launch, spread


launch, spread = modules()


@pytest.fixture(scope="module", params=[2, pytest.param(4, marks=pytest.mark.deep)])
def results(request, tmp_path_factory):
    """What each process finds."""
    folder, count = tmp_path_factory.mktemp("spread"), request.param
    with pytest.MonkeyPatch.context() as patch:
        paths = [HERE.parents[1], HOSTS, os.environ.get("PYTHONPATH", "")]
        patch.setenv("PYTHONPATH", os.pathsep.join(map(str, paths)))
        command = [HERE / "spread.py", folder]
        with launch.started(count, command, folder, devices=4 // count) as processes:
            codes = launch.wait(processes, LIMIT)
            assert codes == [0] * count, launch.story(codes, folder)
    return [json.loads((folder / f"{i}.json").read_text()) for i in range(count)]


@pytest.fixture(scope="module")
def alone():
    """What one process finds."""
    return spread.found([spread.FEATURES, spread.TARGETS], np.arange(4))


def assert_close(found, expected):
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("mesh", ["called", "explicit"])
def test_values_are_those_of_one_process(results, alone, mesh):
    for key in ("values", "traced"):
        for x, expected in zip(results[0][mesh][key], alone["called"][key], strict=True):
            assert_close(x, expected)


def test_every_process_emits_the_same_program_and_finds_the_same(results):
    first, *others = results
    for other in others:
        for what, values in first.items():
            if what.startswith("placed"):
                assert values["refused"] == other[what]["refused"]
            elif what.partition(" ")[0] in ("function", "mode", "kept"):
                for key in ("losses", "weights"):
                    assert values[key] == other[what][key]
            else:
                assert values == other[what]


@pytest.mark.parametrize("way", ["function", "mode", "kept function", "kept mode", "kept explicit"])
def test_updates_are_those_of_one_process(results, alone, way):
    expected = alone[way.replace("explicit", "function")]
    for key in ("losses", "weights"):
        assert_close(results[0][way][key], expected[key])
    parts = [np.array(one[way]["rows"]) for one in results]
    assert all(part.shape[1] == spread.ROWS // len(results) for part in parts)
    assert_close(np.concatenate(parts, axis=1), expected["rows"])


@pytest.mark.parametrize("mesh", ["placed", "placed explicit"])
def test_each_process_puts_its_own_part_on_its_devices(results, mesh):
    own = spread.ROWS // len(results)
    for i, one in enumerate(results):
        rows = spread.FEATURES[i * own : (i + 1) * own]
        for part, expected in zip(one[mesh]["parts"], [rows, rows, 2 * rows], strict=True):
            assert_close(part, expected)
    traced, exported = results[0][mesh]["refused"]
    assert traced.startswith("ShardingError: JAX traces 'main', and would copy 'fixed'")
    assert exported.startswith("ExportError: An array of shape (24, 3) cannot be exported: other ")


def test_draws_are_those_of_one_process(results, alone):
    assert_close(results[0]["drawn"], alone["drawn"])


def test_checks_are_those_of_one_process(results, alone):
    (value, error), (wanted, message) = results[0]["checked"], alone["checked"]
    assert_close(value, wanted)
    assert error == message
    assert error.startswith("IndexOutOfBoundsError: Index 24 is out of bounds for axis 0")


def test_values_that_every_device_holds_decide_sizes(results, alone):
    for x, expected in zip(results[0]["sized"], alone["sized"], strict=True):
        assert_close(x, expected)


def test_values_that_are_spread_decide_no_sizes(results):
    for message in results[0]["refused"]:
        assert message.startswith("StaticShapeError: ")
        assert (
            "A shape depends on the value of input 'counts', which is an array that other "
            "processes hold in parts.\nPass 'counts' as a NumPy array that is the same in all "
            "processes, or give" in message
        )
        assert "built at " in message and "spread.py:" in message
