"""Processes of Python that tests start."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]


def python(*arguments: Any, path: tuple[Any, ...] = (), status: int = 0, **options: Any) -> Any:
    """Run Python with the package and ``path`` importable; it must end with this exit status.

    Options are those of `subprocess.run`; ``env`` is added to the environment, without what it
    gives as None.
    """
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, (*path, ROOT)))}
    environment |= options.pop("env", {})
    done = subprocess.run(
        [sys.executable, *map(str, arguments)],
        capture_output=True,
        text=True,
        env={name: value for name, value in environment.items() if value is not None},
        **options,
    )
    assert done.returncode == status, done.stderr[-3000:]
    return done
