"""Every public name has a docstring that says what it takes and returns, and a place in the API."""

import importlib
import inspect
import re
from importlib.util import find_spec
from pathlib import Path

import pytest

import jaxprgen

API = Path(__file__).parents[1] / "docs" / "api"
MODULES = ["errors", "inspect", "interpreters", "passes", "rewrite"]
MODULES += ["pymc"] if find_spec("pymc") and find_spec("pymc").origin else []
OMITTED = re.compile(r":exclude-members: (.*)")
"""Methods that other modules of this package call, and that the pages of the API leave out."""


def public(module):
    """The classes and functions of a module, by name."""
    names = getattr(module, "__all__", None) or [
        name for name, x in vars(module).items() if getattr(x, "__module__", "") == module.__name__
    ]
    found = {name: getattr(module, name) for name in names if name[0] != "_"}
    return {name: x for name, x in found.items() if inspect.isclass(x) or inspect.isfunction(x)}


def methods(cls):
    """The public methods of a class, as functions, but those that the API leaves out."""
    omitted = {
        n
        for page in API.glob("*.rst")
        for x in OMITTED.findall(page.read_text())
        for n in x.split(", ")
    }
    for name, found in vars(cls).items():
        function = found.__func__ if isinstance(found, (classmethod, staticmethod)) else found
        if inspect.isfunction(function) and name[0] != "_" and name not in omitted:
            yield name, function


def takes(x):
    """Whether a function or a class takes arguments."""
    return any(name not in ("self", "cls") for name in inspect.signature(x).parameters)


def lacks(x, of=None):
    """What the docstring of a class or a function lacks; ``of`` is the class of a method."""
    text = inspect.getdoc(getattr(of, x.__name__) if of else x)
    if not text:
        return ["a docstring"]
    if inspect.isclass(x):
        if issubclass(x, Exception) or not takes(x):
            return []
        return [] if re.search("^(Parameters|Attributes)\n---", text, re.M) else ["Parameters"]
    wanted = {"Parameters": "Parameters"} if takes(x) else {}
    returned = inspect.signature(x).return_annotation
    if wanted and returned not in ("None", "NoReturn", None):
        wanted["Returns"] = "Returns|Yields"
    return [
        what for what, either in wanted.items() if not re.search(f"^({either})\n---", text, re.M)
    ]


@pytest.mark.parametrize("name", ["", *MODULES])
def test_public_names_say_what_they_take_and_return(name):
    module = importlib.import_module(f"jaxprgen.{name}" if name else "jaxprgen")
    found = {}
    for name, x in public(module).items():
        found[name] = lacks(x)
        for method, function in methods(x) if inspect.isclass(x) else ():
            found[f"{name}.{method}"] = lacks(function, x)
    assert {name: what for name, what in found.items() if what} == {}


def test_the_api_has_every_public_name():
    pages = {page.stem: page.read_text("utf-8") for page in API.glob("*.rst")}
    listed = set(
        re.findall(r"auto(?:function|class):: (\w+)", pages["functions"] + pages["objects"])
    )
    elsewhere = {name for m in MODULES for name in public(getattr(jaxprgen, m)) if m != "pymc"}
    missing = set(public(jaxprgen)) - listed - elsewhere
    assert missing == set()
    modules = {name for name in jaxprgen.__all__ if inspect.ismodule(getattr(jaxprgen, name))}
    assert modules <= set(pages)
