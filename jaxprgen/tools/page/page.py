"""The HTML page: its views, their tabs, and the security policy they run under."""

from __future__ import annotations

import base64
import hashlib
import importlib.resources
import json
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from html import escape
from string import Template
from typing import TYPE_CHECKING, Any

from jaxprgen._jax import ClosedJaxpr, Var
from jaxprgen.errors import ArgumentTypeError
from jaxprgen.ir.describe import variable_names
from jaxprgen.lowering.names import LIBRARIES
from jaxprgen.runtime.compiled import CompiledFunction
from jaxprgen.runtime.observe import Observable, Observation, constant_bytes
from jaxprgen.tools.page.cost import known_flops
from jaxprgen.tools.page.elements import SourceLines, metric, tag, user_text
from jaxprgen.tools.page.listings import GraphListing, ProgramListing
from jaxprgen.tools.page.overview import overview
from jaxprgen.tools.text import diff, program_of

if TYPE_CHECKING:  # Pages of programs that were loaded need no Aesara.
    from jaxprgen.graphs.check import GraphCheck

_PACKAGES = ("jaxprgen", "jax", *LIBRARIES, "numpy")


def html(
    f: CompiledFunction | Observation | ClosedJaxpr | Callable[..., Any] | None,
    *args: Any,
    before: ClosedJaxpr | None = None,
    check: GraphCheck | None = None,
) -> str:
    """Return an HTML page that shows a program beside its graph, with estimated costs.

    Hovering over a name, or focusing it with the keyboard, highlights where it is bound and read,
    its equation, and the graph node that emitted the equation; a click keeps the highlight. The
    page is self-contained: it loads nothing from the network and can be saved and sent.

    Parameters
    ----------
    f, args
        As for `jaxprgen.inspect.pretty`. Only compiled functions and observations have a graph to
        show. Pass None to show ``check`` alone, for a graph that does not compile.
    before
        The program before passes changed it. Adds a view of the differences.
    check
        The result of `jaxprgen.check`. Adds a view of it.

    Returns
    -------
    str
        The page, ready to be written to a file.

    Raises
    ------
    ArgumentTypeError
        There is neither a program nor a check to show, or ``f`` is not a program.
    """
    if f is None and check is None:
        raise ArgumentTypeError("A page needs a program, a check, or both; got neither.")
    observation = f.observe(*args) if isinstance(f, Observable) else f
    sources, views, summary = SourceLines(), dict[str, str](), _versions()
    if observation is not None:
        closed, own = program_of(observation, *args)
        graph = observation if isinstance(observation, Observation) else None
        names = variable_names(closed.jaxpr, own)
        views["program"] = _program(closed, names, graph, sources)
        repeated = graph.repeated if graph else {}
        views["lines"] = "\n".join(overview(closed.jaxpr, names, sources, repeated))
        if before is not None:
            views["changes"] = _changes(before, closed, own)
        found = graph.repeats.summary if graph else ""
        summary = " · ".join(filter(None, [_costs(closed), found, summary]))
    if check is not None and (check.deciding or any(n.verdict != "jit" for n in check.nodes)):
        views["check"] = _check(check)
    elif check is not None:
        summary = f"all nodes run under jax.jit · {summary}"
        views = views or {"check": _check(check)}
    name = getattr(observation, "name", getattr(f, "__name__", "graph"))
    page = Template(_asset("page.html")).substitute(
        policy=_policy(),
        style=_asset("page.css"),
        script=_asset("page.js"),
        title=escape(name),
        summary=escape(summary),
        tabs=_tabs(views),
        sections="\n".join(tag("section", view, id=name) for name, view in views.items()),
        # Escape `<`, so that no source line can end the script element that holds the JSON.
        sources=json.dumps(sources.texts).replace("<", "\\u003c"),
    )
    # Names may contain lone surrogates, which cannot be encoded, and NUL, which parsers drop.
    return page.encode(errors="replace").decode().replace("\0", "\N{REPLACEMENT CHARACTER}")


def _program(
    closed: ClosedJaxpr, names: Mapping[Var, str], graph: Observation | None, sources: SourceLines
) -> str:
    nodes = graph.nodes if graph else ()
    node_of = {id(eqn): i for i, node in enumerate(nodes) for eqn in node.equations}
    ids = {v: i for i, v in enumerate(names)}
    repeated = graph.repeated if graph else {}
    rows = ProgramListing(names, ids, node_of, sources, repeated).rows(closed.jaxpr)
    columns = [_column("program", "Program", "", rows)]
    if graph:
        outcomes = Counter(node.how for node in nodes)
        legend = (_filter(how, n) for how, n in outcomes.items())
        rows = GraphListing(graph, names, ids, sources).rows()
        hidden = "".join(f" no-{how}" for how in _HIDDEN)
        columns.append(_column(f"graph{hidden}", "Graph", "".join(legend), rows))
    return "\n".join(columns)


_HIDDEN = ("folded", "free")
"""The kinds of nodes that are hidden at first: they became no equations."""


def _filter(how: str, count: int) -> str:
    """An entry of the legend, which shows or hides these nodes."""
    kind = how.replace(" ", "-")
    pressed = str(how not in _HIDDEN).lower()
    mark = tag("mark", escape(how))
    return tag("button", mark, f" {count}", class_=kind, data_how=kind, aria_pressed=pressed)


def _column(kind: str, title: str, legend: str, rows: Iterable[str]) -> str:
    return tag("article", tag("h2", title, legend), "\n", "\n".join(rows), class_=kind)


def _changes(before: ClosedJaxpr, closed: ClosedJaxpr, own: Mapping[Var, str]) -> str:
    """The diff, with one element for each line."""
    lines = diff(before, closed, own).splitlines()
    kinds = {"+": "ins", "-": "del", "@": "b"}
    rows = [tag(kinds.get(line[:1], "span"), escape(line)) for line in lines]
    return tag("pre", "\n".join(rows) or "The passes changed nothing.")


def _check(check: GraphCheck) -> str:
    """The static inputs, the nodes that do not simply run under ``jax.jit``, and the full text."""

    def row(verdict: str, name: str, where: str, why: str) -> str:
        mark, subject = tag("mark", escape(verdict)), tag("span", tag("b", user_text(name)))
        place, reason = tag("small", user_text(where)), tag("code", escape(why))
        return tag("p", mark, subject, place, reason, class_=verdict)

    rows: list[str] = []
    for each in check.deciding:
        where = f"{each.role}, whose value decides a shape"
        rows.append(row("static", each.name, where, " → ".join(map(str, each.chain))))
    for node in check.nodes:
        if node.verdict != "jit":
            why = "; ".join(filter(None, (node.reason, node.remedy)))
            rows.append(row(node.verdict, str(node), node.line, why))
    return tag("article", *rows, tag("pre", escape(str(check))), class_="check")


def _tabs(views: Iterable[str]) -> str:
    """A radio button for each view, if there are several; the style sheet does the switching."""
    views = list(views)
    if len(views) == 1:
        return ""
    buttons = [
        f'<label><input type="radio" name="view" value="{view}"{" checked" * (view == views[0])}>'
        f"{view.capitalize()}</label>"
        for view in views
    ]
    return tag("nav", *buttons)


def _versions() -> str:
    """Return the versions of the packages that are imported."""
    modules = ((name, sys.modules.get(name)) for name in _PACKAGES)
    versions = ((name, getattr(module, "__version__", None)) for name, module in modules)
    return ", ".join(f"{name} {version}" for name, version in versions if version)


def _costs(closed: ClosedJaxpr) -> str:
    jaxpr = closed.jaxpr
    constants = constant_bytes(closed)
    known, unknown = known_flops(jaxpr)
    costs = f"{'at least' if unknown else 'about'} {metric(known)} FLOPs"
    if unknown:
        costs += f" and {unknown} equation{'s' * (unknown > 1)} of unknown cost"
    return f"{len(jaxpr.eqns)} equations · {metric(constants, 'B')} of constants · {costs}"


def _asset(name: str) -> str:
    return importlib.resources.files("jaxprgen.tools.page").joinpath(name).read_text("utf-8")


def _policy() -> str:
    """A Content-Security-Policy that allows the page's own script and style, and no requests."""
    digests = (hashlib.sha256(_asset(f"page.{kind}").encode()).digest() for kind in ("css", "js"))
    style, script = (f"'sha256-{base64.b64encode(digest).decode()}'" for digest in digests)
    sources = f"default-src 'none'; style-src {style}; script-src {script}"
    return f"{sources}; base-uri 'none'; form-action 'none'"
