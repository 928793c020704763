"""The layout shows the architecture: imports run strictly downward."""

import ast
import importlib
from pathlib import Path

import pytest

from jaxprgen import _jax

ROOT = Path(__file__).parents[1]
FILES = sorted((ROOT / "jaxprgen").rglob("*.py"))

# From the bottom up. A module imports from the layers below it, and within its own folder.
LAYERS = [
    ["texts"],
    ["_aesara", "_jax", "collector", "errors"],
    ["ir", "arguments"],
    ["export"],
    ["emit", "interpreters"],
    ["special"],
    ["rewrite"],
    ["lowering", "passes"],
    ["ops"],
    ["graphs"],
    ["runtime"],
    ["aesara", "pytensor"],
    ["api"],
    ["tools"],
    ["pymc"],
    ["inspect"],
    ["__init__"],
    ["__main__"],
]
RANK = {group: rank for rank, groups in enumerate(LAYERS) for group in groups}
INTERNALS_OF_JAX = ("jax._src", "jax.extend", "jaxlib")
GRAPH_LIBRARIES = ("aesara", "pytensor", "pymc", "theano")
KNOW_GRAPH_LIBRARIES = {"_aesara", "aesara", "pytensor", "pymc"}


def is_within(name: str, packages) -> bool:
    return any(name == package or name.startswith(f"{package}.") for package in packages)


def group_of(module: str) -> str:
    """The entry of LAYERS for a module: `ir.builder` is in `ir`."""
    return module.partition(".")[0]


def imported(source: str):
    """What a file imports. `from a import b` is `a.b`, for `b` may be a module."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from (f"{'.' * node.level}{node.module}.{alias.name}" for alias in node.names)


def complaints(module: str, source: str, modules: set[str]) -> list[str]:
    """What is wrong with the imports of a module; `modules` are all there are."""
    group, found = group_of(module), []
    for name in imported(source):
        top, _, inner = name.partition(".")
        if top == "jaxprgen":
            # A name that is no module comes from the package that it is imported from.
            while inner and inner not in modules:
                inner = inner.rpartition(".")[0]
            target = group_of(inner or "__init__")
            if not (RANK[target] < RANK[group] or target == group):
                found.append(f"{module} is not above {name}")
        elif is_within(name, INTERNALS_OF_JAX) and group != "_jax":
            found.append(f"{name} is for jaxprgen._jax alone")
        elif is_within(name, GRAPH_LIBRARIES) and group not in KNOW_GRAPH_LIBRARIES:
            found.append(f"{module} should know no graph library, and imports {name}")
        elif name.startswith("."):
            found.append(f"{name} is a relative import")
    return found


def module_of(path: Path) -> str:
    parts = path.relative_to(ROOT / "jaxprgen").with_suffix("").parts
    return ".".join(parts[:-1] if len(parts) > 1 and parts[-1] == "__init__" else parts)


MODULES = {module_of(path) for path in FILES}


def test_imports_run_downward():
    found = (complaints(module_of(path), path.read_text(), MODULES) for path in FILES)
    assert [complaint for found_here in found for complaint in found_here] == []


def test_no_function_of_emit_imports():
    """So no two of its modules need each other."""
    trees = [ast.parse(path.read_text("utf-8")) for path in FILES if path.parent.name == "emit"]
    functions = [n for tree in trees for n in ast.walk(tree) if isinstance(n, ast.FunctionDef)]
    assert [name for f in functions for name in imported(ast.unparse(f))] == []


@pytest.mark.parametrize("package", ["emit", "passes"])
def test_a_package_lists_its_modules(package):
    folder = ROOT / "jaxprgen" / package
    listed = ast.get_docstring(ast.parse((folder / "__init__.py").read_text()))
    modules = {path.stem for path in folder.glob("*.py")} - {"__init__"}
    assert {name for name in modules if f"`{name}`" not in listed} == set()


@pytest.mark.parametrize(
    ("module", "source"),
    [
        ("ir.builder", "from jaxprgen.emit import add"),
        ("ir.builder", "import jaxprgen.ops.math"),
        ("emit", "from jaxprgen import compile"),
        ("emit.shape", "def f():\n    import aesara.tensor as at"),
        ("errors", "from jaxprgen import _jax"),
        ("lowering", "from jaxprgen.aesara import plan_of"),
        ("rewrite.rules", "from jaxprgen.passes import DEFAULT"),
        ("runtime.compiled", "from jaxprgen.tools import html"),
        ("runtime.compiled", "from jaxlib import xla_client"),
        ("aesara.math", "from jax import extend"),
        ("aesara.linker", "from jax._src import core"),
        ("aesara.linker", "from .compiled import compile"),
    ],
)
def test_a_wrong_import_is_seen(module, source):
    modules = MODULES | {"emit", "_jax", "aesara", "passes", "tools"}
    assert len(complaints(module, source, modules)) == 1


@pytest.mark.parametrize(
    ("module", "source"),
    [
        ("ir.builder", "from jaxprgen import _jax\nfrom jaxprgen.ir.programs import verify"),
        ("emit.shape", "from jaxprgen import emit, ir\nfrom jaxprgen.emit.values import Value"),
        ("aesara.math", "import aesara\nfrom jaxprgen.lowering.registry import lowers"),
        ("runtime.report", "from jaxprgen.runtime.specialize import Cache"),
        ("aesara.linker", "import aesara\nfrom jaxprgen.runtime.compiled import compile"),
        ("_jax", "import jax.extend\nfrom jax._src import core"),
        ("__init__", "from jaxprgen import _aesara\nfrom jaxprgen.runtime import state"),
    ],
)
def test_a_right_import_is_not(module, source):
    names = {"_jax", "_aesara", "ir", "ir.programs", "emit", "emit.values", "lowering.registry"}
    modules = names | {"runtime.specialize", "runtime.compiled", "runtime.state"}
    assert complaints(module, source, modules) == []


DOOR = sorted(path.stem for path in (ROOT / "jaxprgen" / "_jax").glob("[a-z]*.py"))


@pytest.mark.parametrize("module", DOOR)
def test_the_door_has_the_names_of_its_modules(module):
    own = vars(importlib.import_module(f"jaxprgen._jax.{module}"))
    public = {name: x for name, x in own.items() if not name.startswith("_")}
    assert {name for name, x in public.items() if getattr(_jax, name) is not x} == set()
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = _jax.nothing


def test_test_files_have_names_of_their_own():
    """Python imports one module of a name, and pytest refuses the second file."""
    names = [path.name for path in (ROOT / "tests").rglob("test_*.py")]
    assert sorted(set(names)) == sorted(names)
