"""The command line: ``python -m jaxprgen show MODULE:GRAPH``."""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import json
import os
import re
import sys
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jax
import numpy as np
from aesara.graph.fg import FunctionGraph

from jaxprgen.errors import JaxprGenError
from jaxprgen.frontend.aesara.check import check
from jaxprgen.function import CompiledFunction, compile
from jaxprgen.inspect import dot, draw, html, pretty

DESCRIPTION = """\
Show what an Aesara graph is compiled to.

GRAPH is a variable of MODULE (a module's name, or the path of a .py file): a
FunctionGraph, a pair (inputs, outputs), or a function that returns one of these.
"""
EXAMPLES = """\
types of arguments:
  f64[10,3], i32[], bool[4], float32[2]; or a value, as n=5 or v=[1,2,3], which an
  argument that decides a shape must have. Scalars need not be given.

examples:
  python -m jaxprgen show model:graph --arg X=f64[569,30] --arg y=f64[569]
  python -m jaxprgen show model.py:graph --check
  python -m jaxprgen show model:graph --arg n=10 --report --html page.html

64-bit numbers are on unless JAX_ENABLE_X64 says otherwise. The exit status is 0; 1 where
the graph is at fault, or with --check not all of it can be jitted; 2 where the command is.
"""


class UsageError(Exception):
    """The command line asks for what is not there."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; the exit status."""
    options = _parser().parse_args(arguments)
    if "JAX_ENABLE_X64" not in os.environ:
        jax.config.update("jax_enable_x64", True)
    try:
        status = _show(options)
        sys.stdout.flush()
        return status
    except UsageError as error:
        return _fail(error, 2)
    except JaxprGenError as error:
        return _fail(error, 1)
    except BrokenPipeError:  # Who reads the output has seen enough.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0


def _fail(error: Exception, status: int) -> int:
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
    show.add_argument("--dot", metavar="OUT", help="write a drawing: .dot, .svg or .png")
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
    if checked is not None and not (texts or files or options.arg):
        return 0
    f = compile(*graph)
    args = _arguments(f, options.arg)
    if options.report:
        print(f.report(*args))
    if options.hlo:
        print(f.lower(*args).compile().as_text())
    if options.html:
        _write(options.html, html(f, *args, check=checked))
    if options.dot and Path(options.dot).suffix in (".svg", ".png"):
        draw(f, *args, path=options.dot)
    elif options.dot:
        _write(options.dot, dot(f, *args))
    if not texts and not files:
        print(pretty(f, *args, source=options.source))
    return 0


def _write(path: str, text: str) -> None:
    try:
        Path(path).write_text(text, encoding="utf-8")
    except OSError as error:
        raise UsageError(f"{path} cannot be written: {error.strerror}.") from error


# --- The graph ----------------------------------------------------------------------------


def _load(place: str) -> tuple[Any, ...]:
    """What ``MODULE:GRAPH`` names, as `jaxprgen.compile` takes it."""
    module_name, colon, path = place.rpartition(":")
    if not colon or not path:
        raise UsageError(f"{place!r} is not of the form MODULE:GRAPH.")
    found: Any = _module(module_name)
    for name in path.split("."):
        if not hasattr(found, name):
            raise UsageError(f"{module_name} has no {path}.")
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
    except Exception as error:
        last = traceback.extract_tb(error.__traceback__)[-1]
        raise UsageError(
            f"{what} failed: {type(error).__name__}: {error}\n  at {last.filename}:{last.lineno}"
        ) from error


# --- Arguments ----------------------------------------------------------------------------

_TYPE = re.compile(r"([a-z]+)(\d*)(?:\[([\d,\s]*)\])?")
_KINDS = {"f": "float", "i": "int", "u": "uint", "c": "complex"}


def _arguments(f: CompiledFunction, given: Sequence[str]) -> list[Any]:
    """One argument for each input: those given, and the types of scalars."""
    named: dict[str, str] = {}
    for text in given:
        name, equals, value = text.partition("=")
        if not equals:
            raise UsageError(f"--arg {text} is not of the form NAME=TYPE.")
        named[name] = value
    inputs = f.inputs
    unknown = named.keys() - {i.name for i in inputs}
    if unknown:
        raise UsageError(
            f"There is no input {', '.join(sorted(unknown))}; there are "
            f"{', '.join(i.name for i in inputs)}."
        )
    args: list[Any] = []
    for declared in inputs:
        if declared.name in named:
            args.append(_argument(declared.name, named[declared.name], declared.dtype))
        elif None in declared.shape:
            sizes = ",".join("?" if n is None else str(n) for n in declared.shape)
            raise UsageError(
                f"Input {declared.name!r} has no type yet. Say how large it is: "
                f"--arg '{declared.name}={declared.dtype}[{sizes}]', with a number for each ?."
            )
        else:
            args.append(jax.ShapeDtypeStruct(declared.shape, declared.dtype))
    return args


def _argument(name: str, text: str, dtype: np.dtype[Any]) -> Any:
    """A type as ``f64[3]``, or a value as JSON has it."""
    match = _TYPE.fullmatch(text.strip())
    if match and text not in ("true", "false", "null"):
        kind, bits, sizes = match.groups()
        try:
            wanted = np.dtype(_KINDS.get(kind, kind) + bits)
        except TypeError:
            raise UsageError(f"--arg {name}={text}: {kind}{bits} is no dtype.") from None
        shape = tuple(int(n) for n in (sizes or "").split(",") if n.strip())
        return jax.ShapeDtypeStruct(shape, wanted)
    try:
        return np.asarray(json.loads(text), dtype)
    except (ValueError, TypeError, OverflowError):
        raise UsageError(
            f"--arg {name}={text} is neither a type as f64[10,3] nor a value of {dtype}."
        ) from None


if __name__ == "__main__":
    sys.exit(main())
