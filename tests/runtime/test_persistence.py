"""What XLA compiled is kept by JAX's persistent cache, and found by other processes."""

import json
from pathlib import Path

from subprocesses import python

HERE = Path(__file__).parent
BEFORE = "import conftest, aesara.tensor as at\n\nat.exp(at.vector()) + 1\n\n"
"""Makes what follows stand on other lines, and what has no name get another number."""


HITS, MISSES = (f"/jax/compilation_cache/cache_{what}" for what in ("hits", "misses"))


def entries(folder):
    """The compiled programs in a cache."""
    return sorted(path.name for path in folder.glob("*-cache"))


def run(script, folder, seed):
    """What the script prints, in a new process."""
    done = python(script, folder, path=(HERE, HERE.parent), env={"PYTHONHASHSEED": seed})
    return json.loads(done.stdout)


def test_another_process_compiles_nothing(tmp_path):
    text, folder = (HERE / "persisted.py").read_text(), tmp_path / "cache"
    one, other = tmp_path / "one" / "model.py", tmp_path / "other" / "script.py"
    for script, code in ((one, text), (other, BEFORE + text)):
        script.parent.mkdir()
        script.write_text(code)
    reported, ahead, called, first = run(one, folder, "1")
    # Of each graph there is one program, whatever it is made for first.
    assert [name.split("-")[0] for name in reported] == ["jit_data", "jit_plain", "jit_walk"]
    assert reported == ahead == called
    assert first[HITS] == len(called)  # A call finds in memory what was compiled ahead.
    kept = entries(folder)
    assert len(kept) == first[MISSES] >= len(called) + 5  # With what is derived of them.

    *_, second = run(other, folder, "2")
    assert MISSES not in second
    assert second[HITS] == first[MISSES] + first[HITS]
    assert entries(folder) == kept
