"""The layout shows the architecture: imports run strictly downward."""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
FILES = sorted((ROOT / "jaxprgen").rglob("*.py"))

# From the bottom up. A module imports from the layers below it, and within its own folder.
LAYERS = [
    ["_aesara", "_jax", "errors"],
    ["ir"],
    ["emit"],
    ["rewrite"],
    ["frontend", "passes"],
    ["frontend.aesara"],
    ["compiling"],  # the modules of the top folder that are named nowhere here
    ["export", "inspect", "linker", "stateful"],
    ["interpreters"],
    ["__main__"],
    ["__init__"],
]
RANK = {group: rank for rank, groups in enumerate(LAYERS) for group in groups}
INTERNALS_OF_JAX = ("jax._src", "jax.extend", "jaxlib")
GRAPH_LIBRARIES = ("aesara", "pytensor", "theano")
KNOW_GRAPH_LIBRARIES = {"_aesara", "frontend.aesara", "compiling", *LAYERS[-4], "__main__"}


def is_within(name: str, packages) -> bool:
    return any(name == package or name.startswith(f"{package}.") for package in packages)


def group_of(module: str) -> str:
    """The entry of LAYERS for a module, named from the package's root: `ir.builder` is in `ir`."""
    named = [group for group in RANK if is_within(module, [group])]
    return max(named, key=len, default="compiling")


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


@pytest.mark.parametrize("path", FILES, ids=module_of)
def test_imports_run_downward(path):
    assert complaints(module_of(path), path.read_text(), MODULES) == []


@pytest.mark.parametrize("path", FILES, ids=module_of)
def test_files_are_short(path):
    lines = path.read_text().count("\n")
    assert lines <= 400


@pytest.mark.parametrize(
    ("module", "source"),
    [
        ("ir.builder", "from jaxprgen.emit import add"),
        ("ir.builder", "import jaxprgen.frontend.aesara.math"),
        ("emit", "from jaxprgen import compile"),
        ("emit.shape", "def f():\n    import aesara.tensor as at"),
        ("errors", "from jaxprgen import _jax"),
        ("frontend", "from jaxprgen.frontend.aesara import plan_of"),
        ("rewrite.rules", "from jaxprgen.passes import DEFAULT"),
        ("function", "from jaxprgen.stateful import function"),
        ("function", "from jaxlib import xla_client"),
        ("frontend.aesara.math", "from jax import extend"),
        ("linker", "from jax._src import core"),
        ("linker", "from .function import compile"),
    ],
)
def test_a_wrong_import_is_seen(module, source):
    modules = MODULES | {"emit", "_jax", "frontend.aesara", "passes", "stateful"}
    assert len(complaints(module, source, modules)) == 1


@pytest.mark.parametrize(
    ("module", "source"),
    [
        ("ir.builder", "from jaxprgen import _jax\nfrom jaxprgen.ir.verify import check"),
        ("emit.shape", "from jaxprgen import emit, ir\nfrom jaxprgen.emit.values import Value"),
        ("frontend.aesara.math", "import aesara\nfrom jaxprgen.frontend.registry import lowers"),
        ("report", "from jaxprgen.specialize import Cache"),
        ("stateful", "import aesara\nfrom jaxprgen.function import compile"),
        ("_jax", "import jax.extend\nfrom jax._src import core"),
        ("__init__", "from jaxprgen import _aesara\nfrom jaxprgen.stateful import function"),
    ],
)
def test_a_right_import_is_not(module, source):
    names = {"_jax", "_aesara", "ir", "ir.verify", "emit", "emit.values", "frontend.registry"}
    assert complaints(module, source, names | {"specialize", "function", "stateful"}) == []
