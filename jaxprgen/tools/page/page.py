"""A program beside its graph as one HTML page, that needs nothing else."""

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
from typing import Any

from jaxprgen._jax import ClosedJaxpr, Var
from jaxprgen.aesara.check import GraphCheck
from jaxprgen.errors import ArgumentTypeError
from jaxprgen.runtime.compiled import CompiledFunction
from jaxprgen.runtime.observe import Observation, constant_bytes
from jaxprgen.tools.names import binder_names
from jaxprgen.tools.page.cost import program_flops
from jaxprgen.tools.page.rows import GraphRows, ProgramRows, Sources, count, tag, text
from jaxprgen.tools.text import diff, program_of

_PACKAGES = ("jaxprgen", "jax", "aesara", "numpy")


def html(
    f: CompiledFunction | Observation | ClosedJaxpr | Callable[..., Any] | None,
    *args: Any,
    before: ClosedJaxpr | None = None,
    check: GraphCheck | None = None,
) -> str:
    """A page that shows a program beside the graph it came from, with its costs.

    Pointing at a name, or moving the keyboard's focus there, lights up where it is bound and
    read, its equation and the node that equation came from; a click keeps the light. The page
    is one text, asks the network for nothing, and can be saved and sent. FLOPs are estimates.

    Parameters
    ----------
    f, args
        As for `jaxprgen.inspect.pretty`; or what `CompiledFunction.observe` returned, without
        arguments. What is no compiled function has no graph, and the page then no such side.
        None leaves the program out: of a graph that cannot be compiled, there is the check.
    before
        What the program was, before passes changed it: adds a view of the differences.
    check
        What `jaxprgen.check` found: adds a view of that.
    """
    if f is None and check is None:
        raise ArgumentTypeError("A page shows a program, a check, or both; there is neither.")
    observation = f.observe(*args) if isinstance(f, CompiledFunction) else f
    sources, views, summary = Sources(), dict[str, str](), _versions()
    if observation is not None:
        closed, own = program_of(observation, *args)
        graph = observation if isinstance(observation, Observation) else None
        views["program"] = _program(closed, own, graph, sources)
        if before is not None:
            views["changes"] = _changes(before, closed, own)
        summary = f"{_costs(closed)} · {summary}"
    if check is not None:
        views["check"] = _check(check)
    name = getattr(observation, "name", getattr(f, "__name__", "graph"))
    page = Template(_asset("page.html")).substitute(
        policy=_policy(),
        style=_asset("page.css"),
        script=_asset("page.js"),
        title=escape(name),
        summary=escape(summary),
        tabs=_tabs(views),
        sections="\n".join(tag("section", view, id=name) for name, view in views.items()),
        # JSON, but for what would end the element.
        sources=json.dumps(sources.texts).replace("<", "\\u003c"),
    )
    # A name can hold half of a surrogate pair, which no file can, and what parsers leave out.
    return page.encode(errors="replace").decode().replace("\0", "\N{REPLACEMENT CHARACTER}")


def _program(
    closed: ClosedJaxpr,
    own: Mapping[Var, str],
    observation: Observation | None,
    sources: Sources,
) -> str:
    names = binder_names(closed.jaxpr, own)
    nodes = observation.nodes if observation else ()
    node_of = {id(eqn): i for i, node in enumerate(nodes) for eqn in node.equations}
    ids = {v: i for i, v in enumerate(names)}
    rows = ProgramRows(names, ids, node_of, sources).rows(closed.jaxpr)
    sides = [_side("program", "Program", "", rows)]
    if observation:
        treated = Counter(node.how for node in nodes)
        marks = (
            tag("span", tag("mark", escape(how)), f" {n} ", class_=how.replace(" ", "-"))
            for how, n in treated.items()
        )
        rows = GraphRows(observation, names, ids, sources).rows()
        sides.append(_side("graph", "Graph", "".join(marks), rows))
    return "\n".join(sides)


def _side(kind: str, title: str, legend: str, rows: Iterable[str]) -> str:
    return tag("article", tag("h2", title, legend), "\n", "\n".join(rows), class_=kind)


def _changes(before: ClosedJaxpr, closed: ClosedJaxpr, own: Mapping[Var, str]) -> str:
    """The differences line by line."""
    lines = diff(before, closed, own).splitlines()
    kinds = {"+": "ins", "-": "del", "@": "b"}
    rows = [tag(kinds.get(line[:1], "span"), escape(line)) for line in lines]
    return tag("pre", "\n".join(rows) or "The passes changed nothing.")


def _check(check: GraphCheck) -> str:
    """What decides shapes, and the nodes that are not simply compiled; then all of it as text."""
    deciding = (
        (
            "static",
            each.name,
            f"{each.role}, whose value decides a shape",
            " → ".join(map(str, each.chain)),
        )
        for each in check.deciding
    )
    nodes = (
        (node.verdict, str(node), node.line, "; ".join(filter(None, (node.reason, node.remedy))))
        for node in check.nodes
        if node.verdict != "jit"
    )
    rows = [
        tag(
            "p",
            tag("mark", escape(verdict)),
            tag("span", tag("b", text(name))),
            tag("small", text(where)),
            tag("code", escape(why)),
            class_=verdict,
        )
        for verdict, name, where, why in (*deciding, *nodes)
    ]
    return tag("article", *rows, tag("pre", escape(str(check))), class_="check")


def _tabs(views: Iterable[str]) -> str:
    """A button for each of several views. What a button does is in the style sheet."""
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
    return ", ".join(f"{package} {sys.modules[package].__version__}" for package in _PACKAGES)


def _costs(closed: ClosedJaxpr) -> str:
    jaxpr = closed.jaxpr
    constants = constant_bytes(closed)
    operations = program_flops(jaxpr)
    costs = "FLOPs not known" if operations is None else f"about {count(operations)} FLOPs"
    return f"{len(jaxpr.eqns)} equations · {count(constants, 'B')} of constants · {costs}"


def _asset(name: str) -> str:
    return importlib.resources.files("jaxprgen.tools.page").joinpath(name).read_text("utf-8")


def _policy() -> str:
    """A Content-Security-Policy under which only what is written here runs, and nothing loads."""
    hashes = [
        base64.b64encode(hashlib.sha256(_asset(name).encode()).digest()).decode()
        for name in ("page.css", "page.js")
    ]
    style, script = (f"'sha256-{each}'" for each in hashes)
    return (
        f"default-src 'none'; style-src {style}; script-src {script}; base-uri 'none'; "
        "form-action 'none'"
    )
