"""Loops: what a ``scan`` or a ``while`` is given, what it carries, and how it is emitted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from jaxprgen import _jax
from jaxprgen._jax import ClosedJaxpr, JaxprEqn, Size, Var
from jaxprgen.ir.builder import Atom, Builder
from jaxprgen.ir.inner import has_constants, inner_programs
from jaxprgen.ir.liveness import live_equations
from jaxprgen.ir.primitives import control as lax
from jaxprgen.ir.programs import parts
from jaxprgen.ir.redundancy import Identities, merged, split_invariant


class Condition(NamedTuple):
    """The condition of a ``while``.

    Attributes
    ----------
    equations : sequence of JaxprEqn
        Equations that read constants and carries of the loop.
    goes_on : Atom
        Whether there is another step.
    """

    equations: Sequence[JaxprEqn]
    goes_on: Atom


@dataclass(frozen=True)
class Loop:
    """A ``scan`` or a ``while``.

    The inputs of a step are variables of the loop's own. They come with the atoms around the loop
    for which they stand, in the order of the loop's operands.

    Attributes
    ----------
    constants : dict of Var to Atom
        The inputs that are the same in all steps, and in the condition.
    carries : dict of Var to Atom
        The inputs that steps hand on, with their initial values.
    rows : dict of Var to Atom
        The inputs that are one row of an array, with these arrays.
    equations : sequence of JaxprEqn
        The equations of a step.
    after : dict of Var to Atom
        The value of each carry after a step.
    stacked : sequence of Atom
        The results of a step that are stacked.
    length : int or symbolic dimension
        The number of steps of a ``scan``.
    condition : Condition, optional
        The condition of a ``while``, which has neither rows nor stacked results.
    reverse : bool
        Whether the last rows come first.
    unroll : int
        The number of steps that XLA compiles as one iteration.
    name : str
        The name of the body in JAX's messages.
    """

    constants: Mapping[Var, Atom]
    carries: Mapping[Var, Atom]
    rows: Mapping[Var, Atom]
    equations: Sequence[JaxprEqn]
    after: Mapping[Var, Atom]
    stacked: Sequence[Atom] = ()
    length: Size = 0
    condition: Condition | None = None
    reverse: bool = False
    unroll: int = 1
    name: str = "body"

    @classmethod
    def of(cls, eqn: JaxprEqn) -> Loop:
        """Return the loop of a ``scan`` or ``while`` equation whose programs have no constants."""
        params: Any = eqn.params
        if eqn.primitive.name == "while":
            return _of_while(eqn)
        body: Any = _jax.open_jaxpr(params["jaxpr"])
        given = list(zip(body.invars, eqn.invars, strict=True))
        constants, carries, rows = map(dict, parts(given, *_jax.scan_counts(eqn)))
        ends, stacked = parts(body.outvars, len(carries))
        return cls(
            constants,
            carries,
            rows,
            body.eqns,
            dict(zip(carries, ends, strict=True)),
            stacked,
            params["length"],
            reverse=params["reverse"],
            unroll=params["unroll"],
            name=body.debug_info.func_src_info,
        )

    @property
    def inputs(self) -> tuple[Any, ...]:
        """The inputs of a step, in the order of the loop's operands."""
        return *self.constants, *self.carries, *self.rows

    def live(self) -> Loop:
        """Return the loop without equations, constants and rows that no carry or result needs."""
        condition, read = self.condition, set[Any]()
        if condition is not None:
            tested, read = live_equations(condition.equations, [condition.goes_on])
            condition = Condition(tested, condition.goes_on)
        equations, own = live_equations(self.equations, [*self.after.values(), *self.stacked])
        read |= own
        return replace(
            self,
            constants={v: x for v, x in self.constants.items() if v in read},
            rows={v: x for v, x in self.rows.items() if v in read},
            equations=equations,
            condition=condition,
        )

    def substituted(self, same: Mapping[Any, Any]) -> Loop:
        """Return the loop with other atoms in place of constants, rows and results.

        ``same`` has the atom for each variable that is replaced. It is replaced in the equations
        already. Inputs for which there is a literal are left out.
        """

        def renamed(given: Mapping[Var, Atom]) -> dict[Var, Atom]:
            pairs = ((_read(same, v), x) for v, x in given.items())
            return {v: x for v, x in pairs if type(v) is Var}

        return replace(
            self,
            constants=renamed(self.constants),
            rows=renamed(self.rows),
            after={v: _read(same, x) for v, x in self.after.items()},
            stacked=[_read(same, x) for x in self.stacked],
        )

    def renamed(self) -> Loop:
        """Return a ``scan`` with other variables, because two loops may run one program."""
        b, atoms = Builder(), {v: Var(v.aval) for v in self.inputs}
        for eqn in self.equations:
            atoms.update(b.copy(eqn, atoms))
        carries = {atoms[v]: x for v, x in self.carries.items()}
        after = {atoms[v]: x for v, x in self.after.items()}
        found = replace(self, equations=b.equations_from(0), carries=carries, after=after)
        return found.substituted(atoms)

    def merged(self) -> Loop:
        """Return the loop without inputs and equations that repeat earlier ones."""
        inputs = {**_repeated(self.constants), **_repeated(self.rows)}
        same, condition = {**inputs}, self.condition
        equations = merged(self.equations, same, Identities())
        if condition is not None:
            known: dict[Any, Any] = {**inputs}
            tested = merged(condition.equations, known, Identities())
            condition = Condition(tested, _read(known, condition.goes_on))
        return replace(self, equations=equations, condition=condition).substituted(same)

    def hoisted(self, b: Builder) -> Loop:
        """Return the loop without loop-invariant equations, which a builder emits around it.

        They read nothing but constants and carries that no step changes; such carries become
        constants. An input is fixed only if its type equals that of its operand, weak type
        included. Broadcasts stay, because they would cost memory outside, and so do equations with
        effects. Of a ``while``, which may take no step, loops that may not end and callbacks that
        may raise stay.
        """
        passed = {v: x for v, x in self.carries.items() if self.after[v] is v and v.aval == x.aval}
        fixed: dict[Any, Atom] = {**self.constants, **passed}
        given = [v for v, x in fixed.items() if v.aval == x.aval]
        condition, moved = self.condition, list[JaxprEqn]()
        if condition is not None:
            moved, tested = split_invariant(condition.equations, given)
            condition = Condition(tested, condition.goes_on)
        own, equations = split_invariant(self.equations, given, runs=condition is None)
        for eqn in [*moved, *own]:
            fixed.update(b.copy(eqn, fixed))
        if condition is not None and len(passed) == len(self.carries):
            passed = {}  # Without a result to read, a loop that does not end would be dead code.
        return replace(
            self,
            constants={v: x for v, x in fixed.items() if v not in self.carries or v in passed},
            carries={v: x for v, x in self.carries.items() if v not in passed},
            equations=equations,
            after={v: x for v, x in self.after.items() if v not in passed},
            condition=condition,
        ).live()

    def emit(self, b: Builder) -> list[Var]:
        """Emit the loop, and return its final carries, then its stacked results.

        What it does not need is eliminated when the program around it is built.
        """
        constants, carries, rows = (
            list(given.values()) for given in (self.constants, self.carries, self.rows)
        )
        body = self._program(self.equations, [*self.after.values(), *self.stacked])
        if self.condition is None:
            way, unroll = self.reverse, self.unroll
            operands = constants, carries, rows
            return lax.scan(b, body, *operands, self.length, reverse=way, unroll=unroll)
        condition = self._program(self.condition.equations, [self.condition.goes_on])
        return lax.while_loop(b, condition, body, carries, constants, constants)

    def ends(self, before: Loop, results: Sequence[Atom]) -> list[Atom]:
        """Return the final value of every carry of the loop before it was `hoisted`.

        ``results`` are those of `emit`.
        """
        found = dict(zip(self.carries, results))  # noqa: B905
        return [found.get(v, x) for v, x in before.carries.items()]

    def _program(self, equations: Sequence[JaxprEqn], outputs: Sequence[Any]) -> ClosedJaxpr:
        return _jax.closed_jaxpr(self.inputs, outputs, equations, name=self.name)


def pure_loop(eqn: JaxprEqn) -> Loop | None:
    """Return the loop of a ``scan`` that passes may take apart, or None for other equations.

    It has neither effects nor constant arrays inside, and values are not split over devices.
    """
    if eqn.primitive.name != "scan" or eqn.effects or has_constants(eqn):
        return None
    return Loop.of(eqn) if Builder.in_place_of(eqn).plain else None


def _of_while(eqn: JaxprEqn) -> Loop:
    """Return the loop of a ``while``, whose condition reads the variables of its body."""
    test, step = inner_programs(eqn)
    tested: Any = _jax.open_jaxpr(test.program)
    body: Any = _jax.open_jaxpr(step.program)
    given = [(v, eqn.invars[i]) for v, i in zip(body.invars, step.operands, strict=True)]
    own, carried = map(dict, parts(given, len(given) - len(step.results)))
    count = len(tested.invars) - len(carried)
    # The condition may have the same variables as the body for other operands.
    pairs = zip(tested.invars[:count], eqn.invars, strict=False)
    others: dict[Any, Any] = {Var(v.aval): x for v, x in pairs}
    atoms: dict[Any, Any] = dict(zip(tested.invars, [*others, *carried], strict=True))
    b = Builder()
    for e in tested.eqns:
        atoms.update(b.copy(e, atoms))
    (goes_on,) = tested.outvars
    condition = Condition(b.equations_from(0), atoms.get(goes_on, goes_on))
    after = dict(zip(carried, body.outvars, strict=True))
    name = body.debug_info.func_src_info
    return Loop({**others, **own}, carried, {}, body.eqns, after, condition=condition, name=name)


def _read(same: Mapping[Any, Any], x: Any) -> Any:
    return same.get(x, x) if type(x) is Var else x


def _repeated(given: Mapping[Var, Atom]) -> dict[Any, Any]:
    """Map each variable to the first one that stands for the same operand."""
    first: dict[int, Var] = {}
    pairs = {v: first.setdefault(id(x), v) for v, x in given.items()}
    return {v: other for v, other in pairs.items() if v is not other}
