"""The command line: load a graph, parse its arguments, and show what it is compiled to."""

from __future__ import annotations

import argparse
import ast
import difflib
import importlib
import importlib.util
import json
import os
import re
import sys
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import jax
import numpy as np

from jaxprgen.arguments.inputs import Input
from jaxprgen.errors import (
    ArgumentShapeError,
    ArgumentTypeError,
    DrawingError,
    JaxprGenError,
    StaticShapeError,
    UsageError,
)
from jaxprgen.runtime.compiled import CompiledFunction
from jaxprgen.tools.dot import dot, draw
from jaxprgen.tools.page import html
from jaxprgen.tools.text import pretty

DESCRIPTION = """\
Show what an Aesara graph is compiled to.

GRAPH is a variable of MODULE (a module's name, or the path of a .py file): a
FunctionGraph, a pair (inputs, outputs), or a function that returns one of these.
"""
EXAMPLES = """\
arguments:
  An argument is a type, such as f64[10,3], i32[], bool[4] or float32[2], or a value,
  such as n=5 or v=[1,2,3]. Inputs that decide a shape need a value; scalars may be
  left out. NAME may also be the input's position, counted from 0.

examples:
  python -m jaxprgen show model:graph --arg X=f64[569,30] --arg y=f64[569]
  python -m jaxprgen show model.py:graph --check
  python -m jaxprgen show model:graph --arg n=10 --report --html page.html

64-bit numbers are enabled unless JAX_ENABLE_X64 is set. The exit status is 0 on success,
1 if the graph is at fault (with --check: if part of it cannot be jitted), and 2 if the
command is.
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return the exit status."""
    options = _parser().parse_args(arguments)
    if "JAX_ENABLE_X64" not in os.environ:
        jax.config.update("jax_enable_x64", True)
    if hasattr(sys.stdout, "reconfigure"):  # A terminal may not support every character.
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
    except BrokenPipeError:  # The reader, such as `head`, has closed the pipe.
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
        help="type or value of an input; repeat for each input",
    )
    show.add_argument("--source", action="store_true", help="print the source line of equations")
    show.add_argument("--check", action="store_true", help="print which nodes can be jitted")
    show.add_argument("--report", action="store_true", help="print what became of each node")
    show.add_argument("--hlo", action="store_true", help="print the HLO that XLA compiles it to")
    show.add_argument("--html", metavar="OUT", help="write a page to open in a browser")
    show.add_argument("--dot", metavar="OUT", help="write a drawing: .svg, .png, .pdf, or .dot")
    return parser


def _show(options: argparse.Namespace) -> int:
    from jaxprgen.aesara.check import check  # Here, as `main` itself needs no Aesara.
    from jaxprgen.api import compile

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
    args = _arguments(f, options.arg)
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


def _load(target: str) -> tuple[Any, ...]:
    """Import the graph that ``MODULE:GRAPH`` names, as arguments of `jaxprgen.compile`."""
    from aesara.graph.fg import FunctionGraph

    module_name, _, path = target.rpartition(":")
    if not module_name or not path:
        raise UsageError(f"{target!r} is not of the form MODULE:GRAPH.")
    graph: Any = _module(module_name)
    for name in path.split("."):
        if not hasattr(graph, name):
            raise UsageError(f"{module_name} has no {path}.{_suggestion(name, dir(graph))}")
        graph = getattr(graph, name)
    if callable(graph):
        graph = _run(graph, f"{path}()")
    if isinstance(graph, FunctionGraph):
        return (graph,)
    if isinstance(graph, (tuple, list)) and len(graph) == 2:
        return tuple(graph)
    kind = type(graph).__name__
    article = "an" if kind[0].lower() in "aeiou" else "a"
    raise UsageError(
        f"{target} is {article} {kind}, not a FunctionGraph, a pair "
        "(inputs, outputs), or a function that returns one of these."
    )


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


def _run(code: Callable[[], Any], what: str) -> Any:
    """Run a user's code, and report an exception in two lines instead of a traceback."""
    try:
        return code()
    except (Exception, SystemExit) as error:
        frames = traceback.extract_tb(error.__traceback__)
        lines = [f"  at {f.filename}:{f.lineno}" for f in frames if not f.filename.startswith("<")]
        # The first frame is the call above.
        where = lines[-1] if len(lines) > 1 else f"  looked for in {Path.cwd()}"
        raise UsageError(f"{what} failed: {type(error).__name__}: {error}\n{where}") from error


def _suggestion(name: str, candidates: Sequence[str]) -> str:
    close = difflib.get_close_matches(name, candidates)
    return f" Did you mean {' or '.join(close)}?" if close else ""


# --- The arguments ------------------------------------------------------------------------

_TYPE = re.compile(r"([a-z]+)(\d*)\[(\s*|\s*\d+(?:\s*,\s*\d+)*\s*)\]")
_KINDS = {"f": "float", "i": "int", "u": "uint", "c": "complex"}


def _arguments(f: CompiledFunction, texts: Sequence[str]) -> list[Any]:
    """The argument of each input, from the texts ``NAME=TYPE`` and ``NAME=VALUE``.

    Inputs of known shape, as scalars, need no text.
    """
    args: list[Any] = [None] * len(f.inputs)
    for text in texts:
        place, value = _split(text, f.inputs)
        if args[place] is not None:
            raise UsageError(f"--arg {text}: input {f.inputs[place].name!r} is given twice.")
        args[place] = _argument(text, value, f.inputs[place])
    missing: list[str] = []
    for i, declared in enumerate(f.inputs):
        if args[i] is None and None in declared.shape:
            sizes = _sizes(declared)
            unique = [other.name for other in f.inputs].count(declared.name) == 1
            name = declared.name if unique and declared.name.isidentifier() else str(i)
            missing.append(f"  --arg '{name}={declared.dtype}[{sizes}]'")
        elif args[i] is None:
            args[i] = jax.ShapeDtypeStruct(declared.shape, declared.dtype)
    if missing:
        raise UsageError(
            "The shapes of these inputs are unknown; give a number for each ?:\n"
            + "\n".join(missing)
        )
    return args


def _split(text: str, inputs: Sequence[Input]) -> tuple[int, str]:
    """The position of the input that ``NAME=…`` is about, and the text after its ``=``."""
    if "=" not in text:
        raise UsageError(f"--arg {text} is not of the form NAME=TYPE.")
    named = [(i, declared.name) for i, declared in enumerate(inputs)]
    found = [(i, name) for i, name in named if text.startswith(f"{name}=")]
    if len(found) > 1 and len({name for _, name in found}) < len(found):
        raise UsageError(f"--arg {text}: several inputs have this name; give a position instead.")
    if found:
        place, name = max(found, key=lambda pair: len(pair[1]))
        return place, text[len(name) + 1 :]
    name, _, value = text.partition("=")
    if name.isdecimal() and int(name) < len(inputs):
        return int(name), value
    names = [name for _, name in named]
    raise UsageError(
        f"There is no input {name}; there are {', '.join(names)}.{_suggestion(name, names)}"
    )


def _argument(text: str, value: str, declared: Input) -> Any:
    """An abstract value for a type such as ``f64[3]``, or an array for a Python or JSON value."""
    value = value.strip()
    match = _TYPE.fullmatch(value)
    if match:
        kind, bits, sizes = match.groups()
        try:
            dtype = np.dtype(_KINDS.get(kind, kind) + bits)
        except TypeError:
            raise UsageError(f"--arg {text}: {kind}{bits} is not a dtype.") from None
        shape = tuple(int(n) for n in sizes.split(",") if n.strip())
        return jax.ShapeDtypeStruct(shape, dtype)
    array = _array(value)
    if array is None:
        raise UsageError(
            f"--arg {text} is neither a type such as f64[10,3] nor a value such as 5 or [1,2]."
            + _with_sizes(value, declared)
        )
    with np.errstate(all="ignore"):
        cast = array.astype(declared.dtype)
    boolean = (array.dtype.kind == "b") == (declared.dtype.kind == "b")
    if not boolean or not np.array_equal(cast.astype(array.dtype), array, equal_nan=True):
        raise UsageError(f"--arg {text}: a {declared.dtype} cannot hold this value.")
    return cast


def _sizes(declared: Input) -> str:
    """Write the sizes of an input, with ``?`` for those that are unknown."""
    return ",".join("?" if n is None else str(n) for n in declared.shape)


def _with_sizes(value: str, declared: Input) -> str:
    """Return a suggestion for a type that lacks nothing but sizes, as ``f64`` does."""
    if not _TYPE.fullmatch(f"{value}[]"):
        return ""
    numbers = " Give a number for each ?." if None in declared.shape else ""
    return f" Did you mean {value}[{_sizes(declared)}]?{numbers}"


def _array(text: str) -> np.ndarray[Any, Any] | None:
    for parse in (json.loads, ast.literal_eval):
        try:
            array = np.asarray(parse(text))
        except (ValueError, SyntaxError, TypeError):
            continue
        if array.dtype.kind in "biufc":
            return array
    return None
