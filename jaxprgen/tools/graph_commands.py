"""The commands about graphs: show what one is compiled to, and export its program."""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import os
import sys
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import jax

from jaxprgen.api import compile
from jaxprgen.arguments.refusals import a
from jaxprgen.arguments.specs import parse_type, scope_with
from jaxprgen.errors import UsageError
from jaxprgen.export.saving import save
from jaxprgen.graphs.check import check
from jaxprgen.lowering.names import is_a
from jaxprgen.runtime.compiled import CompiledFunction
from jaxprgen.texts import visible
from jaxprgen.tools.dot import dot, draw
from jaxprgen.tools.page import html
from jaxprgen.tools.text import pretty
from jaxprgen.tools.values import argument, by_place, shown, sizes_of, suggestion


def show(options: argparse.Namespace) -> int:
    """Show what a graph is compiled to, and return the exit status."""
    graph = _load(options.graph)
    checked = check(*graph) if options.check else None
    if checked is not None:
        print(checked)
        if not checked.compiles:
            if options.html:
                _write(options.html, html(None, check=checked))
            return 1
    texts = options.report or options.hlo
    files = options.html or options.dot
    if checked is not None and not (texts or files or options.source or options.arg):
        return 0
    f = compile(*graph)
    args = _types(f, options.arg)
    if options.source or not (texts or files):
        print(pretty(f, *args, source=options.source))
    if options.report:
        print(f.report(*args))
    if options.hlo:
        print(f.lower(*args).compile().as_text())
    if options.html:
        _write(options.html, html(f, *args, check=checked))
    if options.dot and Path(options.dot).suffix in (".dot", ".gv"):
        _write(options.dot, dot(f, *args))
    elif options.dot:
        draw(f, *args, path=options.dot)
    return 0


def export(options: argparse.Namespace) -> int:
    """Save the program of a graph, and return the exit status."""
    f = compile(*_load(options.graph))
    types = _types(f, options.arg, options.constraint)
    how: dict[str, Any] = {"platforms": options.platform or None, "vjp_order": options.vjp_order}
    how |= {"batched": options.batched, "executable": [*map(_executable, options.executable)]}
    sha256 = save(options.output, f, *types, **how)
    size = Path(options.output).stat().st_size
    print(visible(f"{options.output}: {size} bytes, SHA-256 {sha256}", None))
    return 0


def _executable(text: str) -> dict[str, int]:
    """Return the sizes of symbols from a text such as ``n=100,k=3``."""
    pairs = [pair.partition("=") for pair in text.split(",") if pair.strip()]
    if not all(size.strip().isdecimal() and len(size) < 19 for _, _, size in pairs):
        raise UsageError(f"--executable {shown(text)} is not of the form n=100,k=3.")
    return {name.strip(): int(size) for name, _, size in pairs}


def _types(f: CompiledFunction, texts: Sequence[str], constraints: Sequence[str] = ()) -> list[Any]:
    """Return the types and values of inputs. Those of known shape, as scalars, need no text."""
    scope = scope_with(constraints)
    found = by_place(texts, f.inputs)
    args: list[Any] = []
    missing: list[str] = []
    for i, declared in enumerate(f.inputs):
        if i in found:
            args.append(argument(*found[i], declared, scope))
        elif None in declared.shape:
            unique = [other.name for other in f.inputs].count(declared.name) == 1
            name = declared.name if unique and declared.name.isidentifier() else str(i)
            missing.append(f"  --arg '{name}={declared.dtype}[{sizes_of(declared)}]'")
        elif declared.is_key:
            args.append(parse_type("key[]"))
        else:
            args.append(jax.ShapeDtypeStruct(declared.shape, declared.dtype))
    if missing:
        raise UsageError(
            "The shapes of these inputs are unknown; give a number for each ?:\n"
            + "\n".join(missing)
        )
    return args


def _write(path: str, text: str) -> None:
    try:
        Path(path).write_text(text, encoding="utf-8")
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise UsageError(f"{shown(path)} cannot be written: {reason}.") from error


# --- The graph ----------------------------------------------------------------------------


def _load(target: str) -> tuple[Any, ...]:
    """Import the graph that ``MODULE:GRAPH`` names, as arguments of `jaxprgen.compile`."""

    module_name, _, path = target.rpartition(":")
    if not module_name or not path:
        raise UsageError(f"{shown(target)!r} is not of the form MODULE:GRAPH.")
    graph: Any = _module(module_name)
    for name in path.split("."):
        if not hasattr(graph, name):
            close = suggestion(name, dir(graph))
            raise UsageError(f"{shown(module_name)} has no {shown(path)}.{close}")
        graph = getattr(graph, name)
    if callable(graph):
        graph = _run(graph, f"{shown(path)}()")
    if is_a(graph, "graph.FunctionGraph"):
        return (graph,)
    if isinstance(graph, (tuple, list)) and len(graph) == 2:
        return tuple(graph)
    raise UsageError(
        f"{shown(target)} is {a(type(graph).__name__)}, not a FunctionGraph, a pair "
        "(inputs, outputs), or a function that returns one of these."
    )


def _module(name: str) -> Any:
    # Last, so that a `random.py` of the user's does not replace the installed module.
    if not name.endswith(".py"):
        sys.path.append(_here())
        return _run(lambda: importlib.import_module(name), f"import {shown(name)}")
    path = Path(name)
    if not os.path.isfile(path):
        raise UsageError(f"There is no file {shown(name)}.")
    module_name = path.stem if _is_free(path) else f"{path.stem}_"
    spec = importlib.util.spec_from_file_location(module_name, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.path.append(os.path.abspath(path.parent))
    sys.modules[module_name] = module
    _run(lambda: spec.loader.exec_module(module), shown(name))  # type: ignore[union-attr]
    return module


def _is_free(path: Path) -> bool:
    """Return whether no other file is a module of this one's name."""
    try:
        found = importlib.util.find_spec(path.stem)
    except (ImportError, ValueError):
        return False
    return found is None or (found.origin or "") == os.path.abspath(path)


def _here() -> str:
    try:
        return os.getcwd()
    except FileNotFoundError:
        return "a directory that was deleted"


def _run(code: Callable[[], Any], what: str) -> Any:
    """Run a user's code, and report an exception in two lines instead of a traceback."""
    try:
        return code()
    except (Exception, SystemExit) as error:
        frames = traceback.extract_tb(error.__traceback__)
        lines = [f"  at {f.filename}:{f.lineno}" for f in frames if not f.filename.startswith("<")]
        # The first frame is the call above.
        where = visible(lines[-1] if len(lines) > 1 else f"  looked for in {_here()}", None)
        said = visible(f"{type(error).__name__}: {error}", 1000)
        raise UsageError(f"{what} failed: {said}\n{where}") from error
