"""PyTensor knows mode "JAXPR", and neither it nor PyMC notices otherwise that jaxprgen is there."""

import pytest
from profiles import sample
from subprocesses import python

pytest.importorskip("pytensor.tensor")  # Not "pytensor", which is also the name of this folder.

MODE = 'x = pt.dscalar("x"); print(pytensor.function([x], x + 1, mode="JAXPR")(1.0))'
IMPORTS = "import pytensor, pytensor.tensor as pt"


def run(code: str) -> str:
    """Return what a new process prints."""
    return python("-c", code).stdout.strip()


def test_neither_importing_nor_compiling_imports_another_library():
    code = """
import sys, jaxprgen
print([x for x in ("pytensor", "jax") if x in sys.modules])
import pytensor.tensor as pt, re
x = pt.dscalar()
f = jaxprgen.compile([x], x + 1)
f(1.0)
print(*re.findall("(aesara|pytensor) [0-9]", jaxprgen.inspect.html(f, 1.0)))
print("aesara" in sys.modules)
"""
    assert run(code).splitlines() == ["[]", "pytensor", "False"]


@pytest.mark.parametrize(
    "imports",
    sample(
        [
            f"import jaxprgen; {IMPORTS}",
            f"import jaxprgen.pytensor.linker; {IMPORTS}",
            f"from jaxprgen.api import compile; {IMPORTS}",
            f"{IMPORTS}; import jaxprgen",
            f"import jaxprgen; from pytensor.xtensor import xtensor; {IMPORTS}",
            f"import jaxprgen, importlib; {IMPORTS}; importlib.reload(pytensor)",
        ],
        2,
    ),
)
def test_the_mode_is_known_whatever_is_imported_first(imports):
    assert run(f"{imports}\n{MODE}") == "2.0"


USES = """
x, s = pt.dvector("x"), pytensor.shared(np.zeros(3), name="s")
total, unit = pytensor.scan(lambda a, b: a + b, x, [s.sum()], return_updates=False)[-1], x / x
roots = pt.linalg.solve(pt.diag(x), x)
f = pytensor.function([x], [total, roots], updates={s: s + x}, mode="JAXPR")
f(np.ones(3)), jaxprgen.compile([x, s], total)(np.ones(3), np.zeros(3))
"""
"""Graphs that modes and functions of this package compile."""
STATE = """
import pytensor.sparse  # It registers rewrites, and this package imports it.
from pytensor.compile.mode import optdb, predefined_modes
def state():
    return sorted(predefined_modes), sorted(name for name in optdb.__db__ if optdb.__db__[name])
"""
"""What is registered."""
LOOK = """
import importlib, pkgutil, warnings
warnings.simplefilter("ignore")
failed, count = [], 0
for name in ("pytensor", "pymc"):
    package = importlib.import_module(name) if importlib.util.find_spec(name) else None
    for found in pkgutil.walk_packages(package and package.__path__ or [], f"{name}.", lambda _: 0):
        if ".tests" not in found.name and "__main__" not in found.name:
            try:
                importlib.import_module(found.name)
                count += 1
            except Exception as error:
                failed.append((found.name, type(error).__name__))
print(failed, count > 100, state())
"""
"""Imports every module, and prints those that fail, and what is registered."""


@pytest.mark.deep
def test_every_module_imports_as_it_does_without_this_package():
    start = f"import importlib.util, numpy as np, jaxprgen\n{IMPORTS}\n{STATE}"
    assert run(start + USES + LOOK) == run(start + LOOK)


def test_programs_of_ours_register_nothing_and_leave_variables_to_other_modes():
    code = """
print(state() == before)
for mode in ("FAST_COMPILE", "JAX"):
    print(pytensor.function([x], [total, s * x, unit], mode=mode)(np.ones(3)))
"""
    start = f"import numpy as np, jaxprgen\n{IMPORTS}\n{STATE}before = state()\n"
    ones = "array([1., 1., 1.])"
    same, python, by_jax = run(start + USES + code).splitlines()
    assert (same, python) == ("True", f"[array(6.), {ones}, {ones}]")
    assert "6." in by_jax
