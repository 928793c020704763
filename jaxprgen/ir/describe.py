"""Describe programs to a reader: a name for every variable, and short text for equations."""

from __future__ import annotations

import contextlib
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from jaxprgen import _jax
from jaxprgen._jax import Frame, Jaxpr, JaxprEqn, Var
from jaxprgen.ir.evaluate import Inside
from jaxprgen.ir.inner import holder_of
from jaxprgen.texts import visible

_NUMPY_SCALAR = re.compile(r"\bnp\.\w+\(([^()]*)\)")
# JAX calls leaves of arguments `state[0]`, `params['bias']` and `tree[<flat index 0>]`. They become
# `state.0`, `params.bias` and `tree.0`.
_KEY = re.compile(r"""\[(?:'([^']*)'|<flat index (\d+)>|"?([^\]"]*)"?)\]""")
_PUNCTUATION = re.compile(r"[\s:;,=#{}\[\]]+")
"""White space, and punctuation of printed programs."""


# --- Names -------------------------------------------------------------------------------


def variable_names(jaxpr: Jaxpr, names: Mapping[Var, str]) -> dict[Var, str]:
    """Return a unique name for every variable of a program and of the programs inside it.

    A variable in ``names`` keeps its name. Any other is named after the innermost scope of its
    equation's name stack, or after its primitive, with a number: ``eta.1``, ``exp.1``. An input
    of an inner program is named after its operand. A result of a call or of a loop is named after
    the equation inside that computes it, and so is what a loop carries. Characters with a meaning
    in a program's text become ``_``.
    """
    programs = _programs(jaxpr)
    naming = _Naming()
    for v in (v for program, _ in programs for v in bound_variables(program) if v in names):
        naming.add(v, names[v], numbered=False)
    for program, caller in programs:
        operands = naming.operand_names(caller, program) if caller else ()
        naming.add_program(program, operands)
    return naming.names


def bound_variables(jaxpr: Jaxpr) -> Iterator[Any]:
    """Yield the variables that a program binds, without those of the programs inside it."""
    yield from jaxpr.constvars
    yield from jaxpr.invars
    for eqn in jaxpr.eqns:
        yield from eqn.outvars


def _programs(jaxpr: Jaxpr) -> list[tuple[Jaxpr, JaxprEqn | None]]:
    """Return a program and those inside it, outermost first, with the equations that hold them."""
    programs: list[tuple[Jaxpr, JaxprEqn | None]] = [(jaxpr, None)]
    seen = {id(jaxpr)}
    for program, _ in programs:
        for eqn in program.eqns:
            for _, inner in _jax.sub_jaxprs(eqn):
                if id(inner) not in seen:
                    seen.add(id(inner))
                    programs.append((inner, eqn))
    return programs


def _scopes(eqn: JaxprEqn) -> list[str]:
    """Return the innermost scope of each result; for a call or a loop, that of what it returns."""
    scopes = [_jax.scope_of(eqn.source_info)] * len(eqn.outvars)
    holder = holder_of(eqn)
    if holder is None or (scopes and scopes[0] and holder.kind == "call"):
        return scopes
    for inner in holder.find(eqn):
        made = _output_scopes(_jax.open_jaxpr(inner.program))
        for i, scope in zip(inner.results, made, strict=True):
            if i is not None and scope:
                scopes[i] = scope
    return scopes


def _output_scopes(jaxpr: Jaxpr) -> list[str]:
    """Return the innermost scope of the equation that computes each output."""
    scopes: dict[int, str] = {}
    for made in jaxpr.eqns:
        scopes.update((id(v), name) for v, name in zip(made.outvars, _scopes(made), strict=True))
    return [scopes.get(id(x), "") for x in jaxpr.outvars]


class _Naming:
    def __init__(self) -> None:
        self.names: dict[Var, str] = {}
        self._bases: dict[Var, str] = {}
        self._taken: set[str] = set()
        self._count: Counter[str] = Counter()

    def add(self, v: object, base: str, *, numbered: bool) -> None:
        """Name a variable ``base``, with a number if ``numbered`` or if the name is taken."""
        if type(v) is not Var or v in self.names:  # Unread results are of another type.
            return
        base = _KEY.sub(lambda found: f".{found[1] or found[2] or found[3]}", base)
        base = "".join(c if c.isprintable() else " " for c in base)
        base = _PUNCTUATION.sub("_", base) or "_"
        name = base
        while numbered or name in self._taken:
            self._count[base] += 1
            name, numbered = f"{base}.{self._count[base]}", False
        self._taken.add(name)
        self._bases[v], self.names[v] = base, name

    def add_program(self, jaxpr: Jaxpr, operands: Sequence[str]) -> None:
        """Name all variables that a program binds."""
        for v in jaxpr.constvars:
            self.add(v, "const", numbered=True)
        own = jaxpr.debug_info.arg_names or ()
        for i, v in enumerate(jaxpr.invars):
            if len(own) == len(jaxpr.invars) and own[i]:
                self.add(v, own[i], numbered=False)
            else:
                self.add(v, operands[i] if operands else "argument", numbered=True)
        for eqn in jaxpr.eqns:
            for v, scope in zip(eqn.outvars, _scopes(eqn), strict=True):
                self.add(v, scope or eqn.primitive.name, numbered=True)

    def operand_names(self, eqn: JaxprEqn, program: Jaxpr) -> list[str]:
        """Return names for the inputs of a program inside an equation."""
        scope = _jax.scope_of(eqn.source_info) or eqn.primitive.name
        holder = holder_of(eqn)
        inner = holder.find(eqn) if holder else ()
        found = next((x for x in inner if _jax.open_jaxpr(x.program) is program), None)
        if holder is None or found is None:
            return [scope] * len(program.invars)
        names = [self._bases[x] if type(x) is Var else scope for x in eqn.invars]
        scopes = _scopes(eqn)
        for operand, result in holder.carries(eqn):
            names[operand] = scopes[result] or names[operand]
        return [names[i] for i in found.operands]


# --- Short text --------------------------------------------------------------------------


def place_text(place: str) -> str:
    """Return a file, which a line may follow, as a reader knows it.

    The path starts below the directory of installed packages, or below the working directory.
    """
    path = Path(place)
    for i, part in enumerate(path.parts):
        if part in ("site-packages", "dist-packages"):
            return visible(Path(*path.parts[i + 1 :]), None)
    with contextlib.suppress(FileNotFoundError, ValueError):  # A directory that was deleted.
        path = path.relative_to(Path.cwd())
    return visible(path, None)


def innermost_frame(eqn: JaxprEqn, within: Sequence[Inside]) -> Frame | None:
    """Return the user's source line of an equation, or of the nearest one around it that has one.

    Equations of JAX's own functions may have none, but the equation that calls them does.
    """
    eqns = (eqn, *(outer.eqn for outer in reversed(within)))
    return next(filter(None, (_jax.frame_of(each.source_info) for each in eqns)), None)


def iterations(within: Sequence[Inside]) -> tuple[tuple[str, int], ...]:
    """Return the name and the current iteration of each loop, the outermost first."""
    pairs = ((outer.eqn.primitive.name, outer.iteration) for outer in within)
    return tuple((name, i) for name, i in pairs if i is not None)


def type_text(aval: Any) -> str:
    """Return a type as JAX prints it: ``f64[3]``."""
    short = getattr(aval, "str_short", None)
    return visible(short(short_dtypes=True) if short else str(aval))


def atom_text(x: Any, names: Mapping[Var, str]) -> str:
    """Return a variable's name or a literal's value; ``_`` for an unread result."""
    if type(x) is Var:
        return visible(names.get(x, "_"))
    return visible(str(x.val)) if hasattr(x, "val") else "_"


def parameters_text(eqn: JaxprEqn) -> str:
    """Return the parameters that say what an equation computes, as ``name=value`` pairs.

    Programs and parameters that are None are left out. An equation with inner programs shows
    only its ``name`` and ``length``, because its other parameters are about calling conventions.
    """
    inner = bool(_jax.sub_jaxprs(eqn))
    return " ".join(
        f"{name}={visible(_value_text(value), 60)}"
        for name, value in eqn.params.items()
        if (name in ("name", "length") if inner else value is not None)
    )


def equation_text(eqn: JaxprEqn, names: Mapping[Var, str]) -> str:
    """Return an equation on one line: ``eta:f64[3] = div x.1 sigma``."""
    binders = (f"{atom_text(v, names)}:{type_text(v.aval)}" for v in eqn.outvars)
    applied = [eqn.primitive.name, *(atom_text(x, names) for x in eqn.invars)]
    if parameters := parameters_text(eqn):
        applied[0] += f"[{parameters}]"
    return f"{' '.join(binders)} = {' '.join(applied)}".strip()


def _value_text(value: Any) -> str:
    # A function's `repr` contains its address, which differs from run to run.
    if callable(value):
        return getattr(value, "__name__", type(value).__name__)
    return _NUMPY_SCALAR.sub(r"\1", str(value)).replace(" ", "")
