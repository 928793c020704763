"""Tables name primitives that the installed JAX has, so that no rule is lost when JAX renames one.

A table is any collection of strings in the source of which most are names of primitives.
"""

from __future__ import annotations

import ast
import functools
import importlib
import sys
from pathlib import Path

import pytest

from jaxprgen import _jax

ROOT = Path(__file__).parents[2] / "jaxprgen"
FILES = sorted(ROOT.rglob("*.py"))
SOMETIMES = {"one_minus_square", "stack", "unstack", "call", "closed_call", "empty2", "debug_print"}
"""Primitives that only some supported versions of JAX have."""
PARTS = {"sum", "prod"}
"""Names of primitives after ``reduce_``."""
OF_NONE = {"expand_dims", "copy_p"}
"""Names that no supported version has, in tables of passes, which they do not change."""


@functools.cache
def installed():
    importlib.import_module("jax.extend.core.primitives")
    modules = [vars(m) for name, m in [*sys.modules.items()] if name.split(".")[0] == "jax"]
    return {x.name for m in modules for x in m.values() if isinstance(x, _jax.Primitive)}


def strings(node):
    """The words of the strings in a collection; several may be written as one string."""
    parts = node.keys if isinstance(node, ast.Dict) else getattr(node, "elts", ())
    texts = (x.value for x in parts if isinstance(x, ast.Constant) and isinstance(x.value, str))
    return {word for text in texts for word in text.split()}


def tables(source):
    """The collections of at least three words of which most are names of primitives."""
    known = installed()
    found = (strings(node) for node in ast.walk(ast.parse(source)))
    return [words for words in found if len(words) > 2 and 2 * len(words & known) >= len(words)]


@pytest.mark.parametrize("source", ['{"add", "sub", "addd"}', '{"add": 1, **{"mul sub mull": 2}}'])
def test_a_wrong_name_is_seen(source):
    assert any(words - installed() for words in tables(source))


def test_tables_name_primitives_of_the_installed_jax():
    known = installed() | SOMETIMES | PARTS | OF_NONE
    found = [(path, words) for path in FILES for words in tables(path.read_text("utf-8"))]
    assert [(path.name, words - known) for path, words in found if words - known] == []
    assert len(found) > 50
