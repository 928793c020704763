"""The command line: ``python -m jaxprgen show MODULE:GRAPH``."""

from __future__ import annotations

import argparse
import difflib
import importlib
import importlib.util
import os
import sys
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jax
from aesara.graph.fg import FunctionGraph

from jaxprgen.aesara.check import check
from jaxprgen.errors import (
    ArgumentShapeError,
    ArgumentTypeError,
    DrawingError,
    JaxprGenError,
    StaticShapeError,
    UsageError,
)
from jaxprgen.runtime.compiled import compile
from jaxprgen.tools import dot, draw, html, pretty
from jaxprgen.tools.written import arguments_of

DESCRIPTION = """\
Show what an Aesara graph is compiled to.

GRAPH is a variable of MODULE (a module's name, or the path of a .py file): a
FunctionGraph, a pair (inputs, outputs), or a function that returns one of these.
"""
EXAMPLES = """\
types of arguments:
  f64[10,3], i32[], bool[4], float32[2]; or a value, as n=5 or v=[1,2,3], which an
  argument that decides a shape must have. Scalars need not be given. NAME may be the
  input's position instead, from 0.

examples:
  python -m jaxprgen show model:graph --arg X=f64[569,30] --arg y=f64[569]
  python -m jaxprgen show model.py:graph --check
  python -m jaxprgen show model:graph --arg n=10 --report --html page.html

64-bit numbers are on unless JAX_ENABLE_X64 says otherwise. The exit status is 0; 1 where
the graph is at fault, or with --check not all of it can be jitted; 2 where the command is.
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; the exit status."""
    options = _parser().parse_args(arguments)
    if "JAX_ENABLE_X64" not in os.environ:
        jax.config.update("jax_enable_x64", True)
    if hasattr(sys.stdout, "reconfigure"):  # A terminal may not know every character.
        sys.stdout.reconfigure(errors="replace")  # type: ignore[union-attr]
    try:
        status = _show(options)
        sys.stdout.flush()
        return status
    except (UsageError, ArgumentTypeError, ArgumentShapeError, DrawingError) as error:
        return _fail(error, 2)
    except StaticShapeError as error:
        return _fail(f"{error}\nGive it a value, as in --arg n=5.", 2)
    except JaxprGenError as error:
        return _fail(error, 1)
    except BrokenPipeError:  # Who reads the output has seen enough.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except OSError as error:
        return _fail(f"The output cannot be written: {error.strerror}.", 2)


def _fail(error: Exception | str, status: int) -> int:
    print(f"error: {error}", file=sys.stderr)
    return status


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m jaxprgen")
    show = parser.add_subparsers(required=True, metavar="show").add_parser(
        "show",
        help="show what a graph is compiled to",
        description=DESCRIPTION,
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    show.add_argument("graph", metavar="MODULE:GRAPH")
    show.add_argument(
        "--arg",
        action="append",
        default=[],
        metavar="NAME=TYPE",
        help="type or value of an input; once for each",
    )
    show.add_argument("--source", action="store_true", help="print the line of each equation")
    show.add_argument("--check", action="store_true", help="print what can be jitted, and why not")
    show.add_argument("--report", action="store_true", help="print what became of each node")
    show.add_argument("--hlo", action="store_true", help="print what XLA makes of it")
    show.add_argument("--html", metavar="OUT", help="write a page to look at in a browser")
    show.add_argument("--dot", metavar="OUT", help="write a drawing: .svg, .png, .pdf, or .dot")
    return parser


def _show(options: argparse.Namespace) -> int:
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
    wanted = texts or files or options.source or options.arg
    if checked is not None and not wanted:
        return 0
    f = compile(*graph)
    args = arguments_of(f, options.arg)
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


def _write(path: str, text: str) -> None:
    try:
        Path(path).write_text(text, encoding="utf-8")
    except OSError as error:
        raise UsageError(f"{path} cannot be written: {error.strerror}.") from error


# --- The graph ----------------------------------------------------------------------------


def _load(place: str) -> tuple[Any, ...]:
    """What ``MODULE:GRAPH`` names, as `jaxprgen.compile` takes it."""
    module_name, _, path = place.rpartition(":")
    if not module_name or not path:
        raise UsageError(f"{place!r} is not of the form MODULE:GRAPH.")
    found: Any = _module(module_name)
    for name in path.split("."):
        if not hasattr(found, name):
            close = difflib.get_close_matches(name, dir(found))
            near = f" Did you mean {' or '.join(close)}?" if close else ""
            raise UsageError(f"{module_name} has no {path}.{near}")
        found = getattr(found, name)
    if callable(found):
        found = _run(found, f"{path}()")
    if isinstance(found, FunctionGraph):
        return (found,)
    if isinstance(found, (tuple, list)) and len(found) == 2:
        return tuple(found)
    raise UsageError(
        f"{place} is {_article(type(found).__name__)}, not a FunctionGraph, a pair "
        "(inputs, outputs), or a function that returns one of these."
    )


def _article(noun: str) -> str:
    return f"a{'n' if noun[0].lower() in 'aeiou' else ''} {noun}"


def _module(name: str) -> Any:
    if not name.endswith(".py"):
        sys.path.insert(0, os.getcwd())
        return _run(lambda: importlib.import_module(name), f"import {name}")
    path = Path(name)
    if not path.exists():
        raise UsageError(f"There is no file {name}.")
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.path.insert(0, str(path.parent.resolve()))
    sys.modules[path.stem] = module
    _run(lambda: spec.loader.exec_module(module), name)  # type: ignore[union-attr]
    return module


def _run(code: Any, what: str) -> Any:
    """Run a user's code; what it raises is told in two lines."""
    try:
        return code()
    except (Exception, SystemExit) as error:
        frames = traceback.extract_tb(error.__traceback__)
        own = [f"  at {f.filename}:{f.lineno}" for f in frames if not f.filename.startswith("<")]
        where = own[-1] if len(own) > 1 else f"  looked for in {Path.cwd()}"  # The first is ours.
        raise UsageError(f"{what} failed: {type(error).__name__}: {error}\n{where}") from error


if __name__ == "__main__":
    sys.exit(main())
