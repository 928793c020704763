"""The command line: parse a command, and run it in the module that it needs."""

from __future__ import annotations

import argparse
import importlib
import os
import sys
from collections.abc import Sequence
from typing import Any, NoReturn

import jax

from jaxprgen.errors import (
    ArgumentCountError,
    ArgumentShapeError,
    ArgumentTypeError,
    DrawingError,
    JaxprGenError,
    SavedFileError,
    StaticShapeError,
    SymbolicSizeError,
    UnknownNameError,
    UnwritableFileError,
    UsageError,
)
from jaxprgen.texts import visible, visible_lines

_USAGE = (
    UsageError,
    ArgumentCountError,
    ArgumentTypeError,
    ArgumentShapeError,
    DrawingError,
    SavedFileError,
    UnknownNameError,
    UnwritableFileError,
)
"""The errors of a command, as opposed to those of a graph."""
_OF_GRAPHS = "jaxprgen.tools.graph_commands"  # It imports Aesara.
_OF_FILES = "jaxprgen.tools.file_commands"

_SHOW = """\
Show what an Aesara graph is compiled to.

GRAPH is a variable of MODULE (a module's name, or the path of a .py file): a
FunctionGraph, a pair (inputs, outputs), or a function that returns one of these.
"""
_SHOW_EXAMPLES = """\
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
_EXPORT = """\
Save the program of an Aesara graph to a file, which runs without Aesara.

GRAPH is as for `show`. Sizes may be names: f64[n,3] is a matrix of any number of rows.
"""
_EXPORT_EXAMPLES = """\
examples:
  python -m jaxprgen export model:graph --arg X=f64[n,30] --arg y=f64[n] -o model.jxg
  python -m jaxprgen export model.py:graph --arg X=f64[n,k] --constraint 'n >= k' \\
      --platform cpu --platform cuda --vjp-order 1 -o model.jxg
"""
_RUN = "Run a program that `export` or `jaxprgen.save` wrote, and print its results as JSON."
_RUN_EXAMPLES = """\
arguments:
  A value is a number or a list, such as n=5 or v=[1,2,3], or a file that `numpy.save` wrote,
  such as X=@data.npy. A PRNG key takes a seed: key=0.

example:
  python -m jaxprgen run model.jxg --arg X=@data.npy --arg y=@outcomes.npy

A file is a program: run only what you trust. --sha256 takes what `export` printed.
"""
_INFO = """\
Say what is in a file that `export` or `jaxprgen.save` wrote. Without a file, say which versions
and devices there are, for a report of a fault.
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return the exit status."""
    options = _parser().parse_args(arguments)
    if sys.stdout is None:
        return _fail("Standard output is closed.", 2)
    if "JAX_ENABLE_X64" not in os.environ:
        jax.config.update("jax_enable_x64", True)
    if hasattr(sys.stdout, "reconfigure"):  # A terminal may not support every character.
        sys.stdout.reconfigure(errors="replace")  # type: ignore[union-attr]
    try:
        status = getattr(importlib.import_module(options.module), options.command)(options)
        sys.stdout.flush()
        return status
    except _USAGE as error:
        return _fail(error, 2)
    except SymbolicSizeError as error:
        return _fail(error, 1)
    except StaticShapeError as error:
        return _fail(f"{error}\nGive it a value, as in --arg n=5.", 2)
    except JaxprGenError as error:
        return _fail(error, 1)
    except OSError as error:
        # Python writes what is left at exit, and would fail again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if isinstance(error, BrokenPipeError):  # The reader, such as `head`, has closed the pipe.
            return 0
        return _fail(f"The output cannot be written: {error.strerror}.", 2)


def _fail(error: Exception | str, status: int) -> int:
    if sys.stderr is not None:
        print(f"error: {visible_lines(error)}", file=sys.stderr)
    return status


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        super().error(visible(message, 300))


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(prog="python -m jaxprgen")
    commands = parser.add_subparsers(required=True, metavar="show|export|run|info", dest="command")

    def command(
        name: str, module: str, subject: str, about: str, description: str, epilog: str = ""
    ) -> argparse.ArgumentParser:
        as_written = argparse.RawDescriptionHelpFormatter
        texts: dict[str, Any] = {"help": about, "description": description, "epilog": epilog}
        added = commands.add_parser(name, formatter_class=as_written, **texts)
        added.set_defaults(module=module)
        added.add_argument(subject.strip("[]"), nargs="?" if subject.startswith("[") else None)
        return added

    show = command(
        "show", _OF_GRAPHS, "graph", "show what a graph is compiled to", _SHOW, _SHOW_EXAMPLES
    )
    _several(show, "arg", "NAME=TYPE", "type or value of an input; repeat for each input")
    show.add_argument("--source", action="store_true", help="print the source line of equations")
    show.add_argument("--check", action="store_true", help="print which nodes can be jitted")
    show.add_argument("--report", action="store_true", help="print what became of each node")
    show.add_argument("--hlo", action="store_true", help="print the HLO that XLA compiles it to")
    show.add_argument("--html", metavar="OUT", help="write a page to open in a browser")
    show.add_argument("--dot", metavar="OUT", help="write a drawing: .svg, .png, .pdf, or .dot")

    export = command(
        "export", _OF_GRAPHS, "graph", "save a graph's program", _EXPORT, _EXPORT_EXAMPLES
    )
    about = "type of an input, or the value of one that decides a shape"
    _several(export, "arg", "NAME=TYPE", about)
    export.add_argument("-o", "--output", metavar="OUT", required=True, help="the file to write")
    about = "what holds between sizes; repeat for several"
    _several(export, "constraint", "'n >= 2'", about)
    about = "cpu, cuda, rocm or tpu; by default the one JAX uses now; repeat for several"
    _several(export, "platform", "NAME", about, choices=("cpu", "cuda", "rocm", "tpu"))
    about = "an input that `vmap` is to map at once; repeat for several"
    _several(export, "batched", "NAME", about)
    about = "add XLA's executable for this machine, and for these values of symbolic sizes"
    _several(export, "executable", "n=100", about, nargs="?", const="")
    about = "how often it can be differentiated"
    orders = range(10)
    export.add_argument("--vjp-order", type=int, choices=orders, default=0, metavar="N", help=about)

    run = command("run", _OF_FILES, "file", "run a saved program", _RUN, _RUN_EXAMPLES)
    _several(run, "arg", "NAME=VALUE", "value of an input; repeat for each input")
    about = "say what is in a saved program, or which versions and devices there are"
    info = command("info", _OF_FILES, "[file]", about, _INFO)
    for reader in (run, info):
        about = "refuse a file that has another SHA-256, before any of it is interpreted"
        reader.add_argument("--sha256", metavar="DIGITS", help=about)
    info.add_argument("--text", action="store_true", help="print its StableHLO")
    return parser


def _several(
    command: argparse.ArgumentParser, name: str, metavar: str, about: str, **options: Any
) -> None:
    """Add an option that may be given several times."""
    options |= {"action": "append", "default": [], "metavar": metavar, "help": about}
    command.add_argument(f"--{name}", **options)
