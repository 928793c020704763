"""Aesara imports, and means what it says, with every NumPy and Python that jaxprgen supports."""

import ast
import copy
import functools
import importlib
import os
from pathlib import Path

import aesara
import aesara.tensor as at
import numpy as np
import pytest
from aesara.compile.mode import Mode
from aesara.gradient import zero_grad
from hypothesis import given, strategies as st
from profiles import examples, sample
from subprocesses import python

import jaxprgen
from jaxprgen import _aesara

NUMPY_2 = int(np.__version__.split(".")[0]) >= 2
PREPARE = f"import runpy; runpy.run_path({_aesara.__file__!r})['prepare'](lambda: None); "
# Where Aesara needs no help, it looks for a BLAS, and warns when there is none.
HELPED = bool(_aesara._flags_to_empty())
NO_C = "cxx=" if HELPED else "cxx=,blas__ldflags=-lblas"
PYTHON = Mode(linker="py", optimizer=None)
REAL = [
    *("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
    *("float16", "float32", "float64"),
]
DTYPES = [*REAL, "complex64", "complex128"]


def run(code: str, *, rc: Path | None = None, **env: str | None) -> str:
    """What a new process prints to stdout; warnings are errors, and nothing may be on stderr."""
    done = python("-W", "error", "-c", code, env={"AESARARC": str(rc or os.devnull), **env})
    assert done.stderr == ""
    return done.stdout.strip()


def evaluate(*outputs):
    return aesara.function([], outputs, mode=PYTHON)()


def matrix(dtype):
    return np.array([[1, 0, 2], [3, 1, 1]]).astype(dtype)


# The import


@functools.cache
def printed(flags: str) -> list[str]:
    """What a process prints that prepares the import twice: NumPy's names, flags and dtypes."""
    code = f"""
import numpy as np
np.MAXDIMS = "mine"
before = dict(vars(np))
{PREPARE}
{PREPARE}
import os, aesara, aesara.tensor as at
print(all(vars(np)[name] is value for name, value in before.items()))
print(sorted(vars(np).keys() - before.keys()))
print(os.environ["AESARA_FLAGS"], aesara.config.floatX)
print(at.constant(0.1).dtype, at.constant(0.5).dtype)
print(repr(aesara.config.blas__ldflags))
"""
    return run(code, AESARA_FLAGS=flags).splitlines()


@pytest.mark.parametrize(
    ("flags", "floatx"), sample([(NO_C, "float64"), (f"floatX=float32,{NO_C}", "float32")], 1)
)
def test_the_environment_stays_as_it_is(flags, floatx):
    assert printed(flags)[2] == f"{flags} {floatx}"


def test_a_second_time_changes_nothing():
    assert printed(NO_C)[3] == "float64 float32"


def test_existing_numpy_names_are_not_replaced():
    restored = ["AxisError", "ComplexWarning", "cast", "obj2sctype", "sctype2char"]
    unchanged, added, *_ = printed(NO_C)
    assert unchanged == "True"
    assert set(restored) <= set(eval(added)) if NUMPY_2 else not set(restored) & set(eval(added))


@pytest.mark.skipif(not HELPED, reason="Aesara looks for a BLAS")
def test_without_flags_there_is_no_blas():
    assert printed(NO_C)[4] == "''"


RC, MINE = "[blas]\nldflags = -lfrom_rc\n", "cxx=,blas__ldflags=-lmine"
FLAGS = [(RC, MINE, "-lmine"), (RC, "cxx=", "-lfrom_rc"), ("", MINE, "-lmine")]


@pytest.mark.parametrize(("rc", "flags", "found"), sample(FLAGS, 1))
def test_flags_of_the_user_win(tmp_path, rc, flags, found):
    path = tmp_path / "aesararc"
    path.write_text(rc)
    code = PREPARE + "import aesara; print(aesara.config.blas__ldflags)"
    assert run(code, AESARA_FLAGS=flags, rc=path) == found


@pytest.mark.skipif(not NUMPY_2, reason="Aesara's C code compiles against NumPy 1")
def test_functions_need_no_flags(tmp_path):
    code = """
import os, aesara, aesara.tensor as at
x = at.dvector()
total, _ = aesara.scan(lambda x, s: s + x, x, at.constant(0, dtype="float64"))
print(*aesara.function([x], [at.exp(x).sum(axis=0), total[-1]])([0.0, 0.0]))
"""
    assert run(PREPARE + code, AESARA_FLAGS=f"base_compiledir={tmp_path}") == "2.0 0.0"


def test_a_failed_import_of_aesara_is_explained():
    code = f"""
import sys, types
sys.modules["aesara.version"] = types.ModuleType("aesara.version")
{PREPARE}
try:
    import aesara
except ImportError as error:
    print(error)
"""
    assert run(code).splitlines() == [
        "An earlier `import aesara` failed in this process and left Aesara half imported.",
        "With these versions of NumPy and Python, Aesara cannot be imported by itself.",
        "Start a new process (restart a notebook's kernel) and `import jaxprgen` before aesara.",
    ]


# What is imported when


MODE = "import aesara.compile.mode as m; print(type(m.predefined_modes['JAXPR']).__name__)"


def test_importing_the_package_imports_neither_aesara_nor_jax():
    """Where Aesara is not installed, an error says what to install."""
    code = """
import importlib.util, sys, jaxprgen
importlib.util.find_spec("aesara").loader.get_code("aesara")
print([name for name in ("aesara", "jax") if name in sys.modules])
jaxprgen.passes, jaxprgen.interpreters, jaxprgen.pretty, jaxprgen.CompiledFunction
import jaxprgen.tools.command_line
print([name for name in ("aesara", "jax") if name in sys.modules])
from importlib.machinery import PathFinder
real = PathFinder.find_spec
PathFinder.find_spec = lambda name, *args: None if name == "aesara" else real(name, *args)
try:
    jaxprgen.JaxprMode
except jaxprgen.JaxprGenError as error:
    print(type(error).__name__, isinstance(error, ImportError), error)
"""
    assert run(code).splitlines() == [
        "[]",
        "['jax']",
        "MissingAesaraError True jaxprgen.JaxprMode needs Aesara, which is not installed. Install "
        "it: pip install aesara",
    ]


# Modules that functions are unpickled from may be the first that a process imports.
@pytest.mark.deep
@pytest.mark.parametrize(
    "first",
    [
        *("import jaxprgen", "import jaxprgen, aeppl", "from jaxprgen.api import compile"),
        *("import jaxprgen.runtime.state", "import jaxprgen.aesara.linker"),
        *("import jaxprgen.graphs.tables", "from jaxprgen import JaxprMode"),
    ],
)
def test_the_mode_is_known_whatever_is_imported_first(first):
    assert run(f"{first}\n{MODE}") == "JaxprMode"


@pytest.mark.skipif(HELPED, reason="Aesara does not import by itself")
def test_the_mode_is_known_if_aesara_is_imported_first():
    assert run(f"import aesara, jaxprgen\n{MODE}", AESARA_FLAGS=NO_C) == "JaxprMode"


def test_every_public_name_is_there():
    assert set(jaxprgen.__all__) <= set(dir(jaxprgen))
    for name in jaxprgen.__all__:
        value = getattr(jaxprgen, name)
        assert value.__name__.rpartition(".")[2] == name
        assert getattr(jaxprgen, name) is value
    with pytest.raises(AttributeError, match="module 'jaxprgen' has no attribute 'compyle'"):
        jaxprgen.compyle  # noqa: B018


def test_type_checkers_see_the_names_that_there_are():
    tree = ast.parse(Path(jaxprgen.__file__).read_text())
    ifs = (node for node in tree.body if isinstance(node, ast.If))
    (block,) = (node for node in ifs if ast.unparse(node.test) == "TYPE_CHECKING")
    seen = {
        alias.asname: node.module.removeprefix("jaxprgen").removeprefix(".")
        for node in block.body
        for alias in node.names
    }
    assert seen == {**jaxprgen._HOMES, **dict.fromkeys(jaxprgen._MODULES, "")}


def test_a_reload_of_aesara_leaves_it_as_it_is():
    before = aesara.scalar.basic.NumpyAutocaster.__call__
    assert importlib.reload(aesara) is aesara
    assert aesara.scalar.basic.NumpyAutocaster.__call__ is before


IMPORTS = "import numpy as np, jaxprgen, aesara, aesara.tensor as at\n"
USES = """
x, s = at.dvector("x"), aesara.shared(np.zeros(3), name="s")
total = aesara.scan(lambda a, b: a + b, x, s.sum())[0][-1]
draw = at.random.RandomStream(3).normal(size=2)
f = aesara.function([x], [total, at.slinalg.solve(at.diag(x), x)], updates={s: s + x}, mode="JAXPR")
f(np.ones(3)), jaxprgen.compile([x, s], total)(np.ones(3), np.zeros(3))
aesara.function([], draw, mode="JAXPR")()
"""
"""Graphs that modes and functions of this package compile."""
STATE = """
from aesara.compile.mode import optdb, predefined_modes
def state():
    left = {name for name in optdb.__db__ if optdb.__db__[name]}
    return sorted(predefined_modes), sorted(left), sorted(vars(aesara.config))
"""
"""What is registered."""
LOOK = """
import importlib, pkgutil, warnings
warnings.simplefilter("ignore")
failed, count = [], 0
for found in pkgutil.walk_packages(aesara.__path__, "aesara.", lambda _: 0):
    if not found.name.startswith("aesara.misc"):  # It runs benchmarks.
        try:
            importlib.import_module(found.name)
            count += 1
        except Exception as error:
            failed.append((found.name, type(error).__name__))
print(failed, count > 100, state())
"""
"""Imports every module, and prints those that fail, and what is registered."""


@pytest.mark.deep
def test_every_module_imports_as_it_does_without_programs_of_ours():
    assert run(IMPORTS + USES + STATE + LOOK, JAX_ENABLE_X64="1") == run(IMPORTS + STATE + LOOK)


def test_programs_of_ours_register_nothing_and_leave_variables_to_other_modes():
    code = """
print(state() == before)
for mode in ("FAST_RUN", "FAST_COMPILE"):
    print(*aesara.function([x], [total, s.sum(), draw.shape[0]], mode=mode)(np.ones(3)))
"""
    printed = run(IMPORTS + STATE + "before = state()\n" + USES + code, JAX_ENABLE_X64="1")
    assert printed.splitlines() == ["True", "6.0 3.0 2", "6.0 3.0 2"]


# NumPy's names: on NumPy 1 this tests NumPy itself, which shows that the tests are right.


def test_restored_names_do_what_they_did():
    assert np.obj2sctype("float32") is np.float32
    assert np.obj2sctype(np.dtype("int8")) is np.int8
    assert np.obj2sctype(np.ones(2)) is np.float64
    assert np.obj2sctype(np.floating) is np.floating
    assert np.obj2sctype("no dtype") is None
    assert np.obj2sctype("no dtype", default=int) is int
    assert [np.sctype2char(dtype) for dtype in DTYPES] == [np.dtype(dtype).char for dtype in DTYPES]
    with pytest.raises(ValueError, match="unrecognized type"):
        np.sctype2char("no dtype")
    for kind in ("float32", np.float32, np.dtype("float32")):
        cast = np.cast[kind](2)
        assert (cast.dtype, cast.shape, cast) == ("float32", (), 2)


# Aesara at work, in this process, where warnings are errors too.


@pytest.mark.parametrize("dtype", DTYPES)
def test_elementwise(dtype):
    x = at.as_tensor(matrix(dtype))
    for symbolic, numeric in ((at.exp, np.exp), (at.sqrt, np.sqrt)):
        y = symbolic(x)
        (value,) = evaluate(y)
        assert value.dtype == y.dtype
        np.testing.assert_allclose(value, numeric(matrix(dtype).astype(y.dtype)), rtol=1e-3)


@pytest.mark.parametrize("dtype", DTYPES)
def test_reduction(dtype):
    y = at.sum(at.as_tensor(matrix(dtype)), axis=-1)
    (value,) = evaluate(y)
    assert value.dtype == y.dtype
    np.testing.assert_array_equal(value, matrix(dtype).sum(axis=-1))
    with pytest.raises(np.AxisError):
        at.sum(at.as_tensor(matrix(dtype)), axis=2)


@pytest.mark.parametrize("dtype", DTYPES)
def test_cast(dtype):
    targets = DTYPES if dtype in REAL else ["complex64", "complex128"]
    for target, value in zip(
        targets, evaluate(*(at.cast(at.as_tensor(matrix(dtype)), t) for t in targets)), strict=True
    ):
        assert value.dtype == target
        np.testing.assert_array_equal(value, matrix(dtype).astype(target))


@examples(3)
@given(st.floats(allow_nan=False))
def test_a_float_becomes_the_smallest_type_that_holds_it(number):
    data = at.constant(number).data
    with np.errstate(over="ignore"):
        fits = float(np.float32(number)) == number
    assert (data.dtype, float(data)) == ("float32" if fits else "float64", number)


@pytest.mark.parametrize("rng", [np.random.default_rng(3), np.random.RandomState(3)])
def test_draws_from_one_generator_are_equal(rng):
    shared = aesara.shared(rng, borrow=True)
    draws = evaluate(*(at.random.normal(rng=shared, size=4) for _ in range(2)))
    np.testing.assert_array_equal(*draws)
    np.testing.assert_array_equal(draws[0], copy.deepcopy(rng).normal(size=4))


@pytest.mark.parametrize(
    ("function", "gradient"),
    [
        (at.deg2rad, lambda x: np.full_like(x, np.pi / 180)),
        (at.exp2, lambda x: 2**x * np.log(2)),
        (at.arcsin, lambda x: 1 / np.sqrt(1 - x**2)),
        (lambda x: zero_grad(x) * x, lambda x: x),
    ],
)
def test_gradients_that_pass_types_as_dtypes(function, gradient):
    x = at.dvector("x")
    value = np.array([0.1, 0.5])
    compiled = aesara.function([x], aesara.grad(function(x).sum(), x), mode=PYTHON)
    np.testing.assert_allclose(compiled(value), gradient(value))


def test_a_fused_reciprocal_keeps_its_digits():
    x = at.dvector("x")
    compiled = aesara.function([x], x * at.reciprocal(x + 2))
    np.testing.assert_allclose(compiled([0.1, 3]), [0.1 / 2.1, 3 / 5], rtol=1e-15)


def test_a_package_that_is_run_may_import_this_one_first(tmp_path):
    """`python -m package` imports the package while `sys.argv` is not yet its own."""
    (tmp_path / "package").mkdir()
    (tmp_path / "package" / "__init__.py").write_text("import jaxprgen, aesara")
    (tmp_path / "package" / "__main__.py").write_text(MODE)
    assert python("-m", "package", cwd=tmp_path).stdout == "JaxprMode\n"
