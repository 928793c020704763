"""A readable name for every variable of a program."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from jaxprgen import _jax
from jaxprgen._jax import Jaxpr, JaxprEqn, Var

# White space, what a program's text has a meaning for, controls, and marks of direction.
_UNREADABLE = re.compile(
    r"[\s:;,=#{}\[\]\x00-\x1f\x7f-\x9f\u200b-\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]+"
)


def binder_names(jaxpr: Jaxpr, names: Mapping[Var, str]) -> dict[Var, str]:
    """A name of its own for every variable of a program, and of the programs inside it.

    A variable has the user's name for it (``eta``). One that has none is called after the
    name on its equation's name stack, or else after its primitive, with a number (``eta.1``,
    ``exp.1``); an argument of an inner program, after what it is given, and a result of a call,
    after what that returns. Characters that a program's text has a meaning for become ``_``.
    """
    programs = _programs(jaxpr)
    naming = _Naming()
    for v in (v for program, _ in programs for v in bound(program) if v in names):
        naming.add(v, names[v], numbered=False)
    for program, user in programs:
        naming.add_program(program, naming.given(user, len(program.invars)) if user else ())
    return naming.names


def _scopes(eqn: JaxprEqn) -> list[str]:
    """The name that each result of an equation comes from."""
    own = _jax.scope_of(eqn.source_info)
    inner = _jax.sub_jaxprs(eqn)
    if own or len(inner) != 1 or len(inner[0][1].outvars) != len(eqn.outvars):
        return [own] * len(eqn.outvars)
    (_, called), *_ = inner
    scopes: dict[int, str] = {}
    for made in called.eqns:
        scopes.update((id(v), name) for v, name in zip(made.outvars, _scopes(made), strict=True))
    return [scopes.get(id(x), "") for x in called.outvars]


def corresponding(jaxpr: Jaxpr, other: Jaxpr, names: Mapping[Var, str]) -> dict[Var, str]:
    """Names for variables of a program that has none of its own: those of ``other``.

    Arguments correspond by position; results, where equal equations read what corresponds.
    """
    found: dict[Any, str] = {}
    named: Mapping[Any, str] = names
    for mine, theirs in ((jaxpr.constvars, other.constvars), (jaxpr.invars, other.invars)):
        if len(mine) == len(theirs):
            found.update((v, named[w]) for v, w in zip(mine, theirs, strict=True) if w in named)
    made: dict[Any, list[Any]] = {}
    for eqn in other.eqns:
        made.setdefault(_key(eqn, named), []).append(eqn.outvars)
    for eqn in jaxpr.eqns:
        equal = made.get(_key(eqn, found))
        if equal:
            pairs = zip(eqn.outvars, equal.pop(0), strict=True)
            found.update((v, named[w]) for v, w in pairs if w in named)
    return found


def _key(eqn: JaxprEqn, names: Mapping[Any, str]) -> Any:
    """What an equation computes, in terms of names."""
    operands = (names.get(x, x) if type(x) is Var else str(x) for x in eqn.invars)
    return eqn.primitive, str(eqn.params), *operands


def bound(jaxpr: Jaxpr) -> Iterator[Any]:
    """The variables that a program binds itself."""
    yield from jaxpr.constvars
    yield from jaxpr.invars
    for eqn in jaxpr.eqns:
        yield from eqn.outvars


def _programs(jaxpr: Jaxpr) -> list[tuple[Jaxpr, JaxprEqn | None]]:
    """A program and those inside it, each once, outer ones first; and what they are inside of."""
    programs: list[tuple[Jaxpr, JaxprEqn | None]] = [(jaxpr, None)]
    seen = {id(jaxpr)}
    for program, _ in programs:
        for eqn in program.eqns:
            for _, inner in _jax.sub_jaxprs(eqn):
                if id(inner) not in seen:
                    seen.add(id(inner))
                    programs.append((inner, eqn))
    return programs


class _Naming:
    def __init__(self) -> None:
        self.names: dict[Var, str] = {}
        self._bases: dict[Var, str] = {}
        self._taken: set[str] = set()
        self._count: Counter[str] = Counter()

    def add(self, v: object, base: str, *, numbered: bool) -> None:
        """Name a variable after ``base``: by that alone if it can be, or by it and a number."""
        if type(v) is not Var or v in self.names:  # JAX has a type of its own for unread ones.
            return
        # What JAX calls a part of an argument, as in ``state[0]``, reads as ``state.0``.
        base = re.sub(r"\[(\w+)\]", r".\1", base)
        base = _UNREADABLE.sub("_", base) or "_"
        name = base
        while numbered or name in self._taken:
            self._count[base] += 1
            name, numbered = f"{base}.{self._count[base]}", False
        self._taken.add(name)
        self._bases[v], self.names[v] = base, name

    def add_program(self, jaxpr: Jaxpr, given: Sequence[str]) -> None:
        """Name all variables that a program binds."""
        for v in jaxpr.constvars:
            self.add(v, "const", numbered=True)
        own = jaxpr.debug_info.arg_names or ()
        for i, v in enumerate(jaxpr.invars):
            if len(own) == len(jaxpr.invars) and own[i]:
                self.add(v, own[i], numbered=False)
            else:
                self.add(v, given[i] if given else "argument", numbered=True)
        for eqn in jaxpr.eqns:
            for v, scope in zip(eqn.outvars, _scopes(eqn), strict=True):
                self.add(v, scope or eqn.primitive.name, numbered=True)

    def given(self, eqn: JaxprEqn, count: int) -> list[str]:
        """What to call the arguments of a program inside an equation."""
        scope = _jax.scope_of(eqn.source_info) or eqn.primitive.name
        if len(eqn.invars) != count:
            return [scope] * count
        return [self._bases[x] if type(x) is Var else scope for x in eqn.invars]
