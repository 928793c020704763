"""Drawings of programs, by Graphviz."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from jaxprgen import _jax
from jaxprgen._jax import ClosedJaxpr, Jaxpr, JaxprEqn, Var
from jaxprgen.errors import DrawingError
from jaxprgen.ir.describe import atom_text, place_text, type_text, variable_names
from jaxprgen.runtime.compiled import CompiledFunction
from jaxprgen.texts import visible, visible_lines
from jaxprgen.tools.text import program_of

_STYLE = """\
  compound=true; fontname="Helvetica"; rankdir=TB;
  node [fontname="Helvetica", fontsize=11, shape=box, style="filled,rounded", fillcolor="#f4f6f8"];
  edge [fontname="Helvetica", fontsize=9, color="#5b6470", arrowsize=0.6];"""
_ENDS = {
    "input": {"shape": "ellipse", "style": "filled", "fillcolor": "#cfe3ff"},
    "constant": {"shape": "note", "style": "filled", "fillcolor": "#fff0b3"},
    "output": {"shape": "ellipse", "style": "filled", "fillcolor": "#d3f0da", "peripheries": "2"},
}

_LARGE = 200
"""The number of edges above which Graphviz runs with options that limit its search."""
_QUICK = ("-Gnslimit=1", "-Gnslimit1=1", "-Gmclimit=0.1", "-Gsplines=line")
_TIMEOUT = 120
"""The number of seconds after which Graphviz is stopped."""


def dot(f: CompiledFunction | ClosedJaxpr | Callable[..., Any], *args: Any) -> str:
    """Return a program in Graphviz's DOT language, with a node per equation.

    Edges run from an equation to those that read its results. A node shows the results with their
    types, the primitive and the operands; its tooltip is the user's source line. Programs inside
    an equation are clusters. Equal programs give equal text.

    Parameters
    ----------
    f, args
        As for `jaxprgen.inspect.pretty`.

    Returns
    -------
    str
        A directed graph in the DOT language.
    """
    closed, own = program_of(f, *args)
    lines = _Drawing(variable_names(closed.jaxpr, own)).program(closed.jaxpr)
    return "\n".join(["digraph {", _STYLE, *(f"  {line}" for line in lines), "}", ""])


def draw(
    f: CompiledFunction | ClosedJaxpr | Callable[..., Any], *args: Any, path: str | Path
) -> None:
    """Draw a program to a file with Graphviz, in the format of the file's suffix.

    Parameters
    ----------
    f, args
        As for `jaxprgen.inspect.pretty`.
    path
        The file to write: ``.svg``, ``.png``, ``.pdf`` or any other format of Graphviz's.

    Raises
    ------
    DrawingError
        Graphviz is not installed, does not know the format, or takes too long; or the file cannot
        be written.
    """
    path = Path(path)
    if not path.suffix:
        raise DrawingError(f"{path} has no suffix to choose a format by: .svg, .png, .pdf, …")
    program = shutil.which("dot")
    if program is None:
        raise DrawingError(
            "Drawing needs Graphviz, whose program `dot` is not on the PATH.\nInstall Graphviz "
            "(apt install graphviz, brew install graphviz, conda install graphviz), or open the "
            "text of jaxprgen.inspect.dot in another viewer."
        )
    text = dot(f, *args)
    quick = _QUICK if text.count("->") > _LARGE else ()
    try:
        command = [program, *quick, f"-T{path.suffix[1:].lower()}"]
        data = text.encode(errors="replace")
        drawn = subprocess.run(
            command, input=data, capture_output=True, check=False, timeout=_TIMEOUT
        )
    except subprocess.TimeoutExpired:
        raise DrawingError(
            f"Graphviz did not finish {path} within {_TIMEOUT} seconds: the program is too large "
            "to draw. jaxprgen.inspect.html shows programs of any size."
        ) from None
    if drawn.returncode:
        raise DrawingError(f"Graphviz cannot draw {path}.\n{drawn.stderr.decode().strip()}")
    try:
        path.write_bytes(drawn.stdout)
    except OSError as error:
        raise DrawingError(f"{path} cannot be written: {error.strerror}.") from error


class _Drawing:
    """Writes and numbers nodes, edges and clusters."""

    def __init__(self, names: Mapping[Var, str]) -> None:
        self._names = names
        self._nodes = self._clusters = 0

    def program(self, jaxpr: Jaxpr) -> Iterator[str]:
        """The statements for a program's inputs, constants, equations and outputs."""
        made: dict[Any, tuple[str, str]] = {}  # The node of each variable, and the edge's label.
        for kind, variables in (("constant", jaxpr.constvars), ("input", jaxpr.invars)):
            for v in variables:
                node = self._node()
                made[v] = node, ""
                yield _statement(node, label=self._label([v]), **_ENDS[kind])
        for eqn in jaxpr.eqns:
            node = self._node()
            yield from self._equation(eqn, node)
            yield from self._edges(eqn.invars, node, made)
            several = len(eqn.outvars) > 1
            for v in eqn.outvars:
                if type(v) is Var:
                    made[v] = node, atom_text(v, self._names) if several else ""
        for x in jaxpr.outvars:
            node = self._node()
            yield _statement(node, label=atom_text(x, self._names), **_ENDS["output"])
            yield from self._edges([x], node, made)

    def _equation(self, eqn: JaxprEqn, node: str) -> Iterator[str]:
        """The equation's node; with inner programs, a cluster that holds the node and theirs."""
        frame = _jax.frame_of(eqn.source_info)
        source = place_text(frame.place) if frame else ""
        operands = " ".join(atom_text(x, self._names) for x in eqn.invars)
        label = f"{self._label(eqn.outvars)}\n{visible(f'{eqn.primitive.name} {operands}', 60)}"
        statement = _statement(node, label=label.strip(), tooltip=source)
        inner = _jax.sub_jaxprs(eqn)
        if not inner:
            yield statement
            return
        name = eqn.params.get("name", "")
        yield from self._cluster(f"{eqn.primitive.name} {name}".strip())
        yield f"  {statement}"
        for parameter, jaxpr in inner:
            cluster, first = f"cluster{self._clusters}", f"n{self._nodes}"
            yield from (f"  {line}" for line in self._cluster(parameter))
            yield from (f"    {line}" for line in self.program(jaxpr))
            yield "  }"
            if first != f"n{self._nodes}":  # The program has nodes.
                yield f"  {_statement(f'{node} -> {first}', lhead=cluster, style='dashed')}"
        yield "}"

    def _cluster(self, label: str) -> Iterator[str]:
        yield f"subgraph cluster{self._clusters} {{"
        yield f'  label={_quoted(visible(label))}; style="rounded"; color="#9aa5b1"; fontsize=11;'
        self._clusters += 1

    def _edges(
        self, operands: list[Any], node: str, made: Mapping[Any, tuple[str, str]]
    ) -> Iterator[str]:
        for x in operands:
            if type(x) is Var and x in made:
                source, result = made[x]
                yield _statement(f"{source} -> {node}", label=result)

    def _label(self, variables: list[Any]) -> str:
        """The names and types of variables, one per line."""
        pairs = ((atom_text(v, self._names), type_text(v.aval)) for v in variables)
        return "\n".join(f"{name}:{kind}" for name, kind in pairs)

    def _node(self) -> str:
        self._nodes += 1
        return f"n{self._nodes - 1}"


def _statement(subject: str, **attributes: str) -> str:
    pairs = ", ".join(f"{key}={_quoted(value)}" for key, value in attributes.items() if value)
    return f"{subject} [{pairs}];" if pairs else f"{subject};"


def _quoted(text: str) -> str:
    """A DOT string that shows this text, in which nothing is an escape or character reference.

    See https://graphviz.org/docs/attr-types/escString and https://graphviz.org/doc/char.html.
    """
    text = visible_lines(text).replace("&", "&amp;")
    text = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{text}"'
