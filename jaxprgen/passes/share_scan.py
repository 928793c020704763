"""Loop sharing: let one ``scan`` stack values that a later one would compute again."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from jaxprgen import _jax
from jaxprgen._jax import ClosedJaxpr, JaxprEqn, Var
from jaxprgen.ir import Builder
from jaxprgen.ir import primitives as lax
from jaxprgen.ir.liveness import live_equations
from jaxprgen.ir.programs import parts
from jaxprgen.ir.redundancy import Identities, atom_key, merged
from jaxprgen.ir.rewriting import each_program, with_equations
from jaxprgen.passes.meaning import Meaning


@dataclass(frozen=True)
class ShareScan:
    """Stack values of one ``scan`` that a second ``scan`` would compute again.

    The loop that `aesara.grad` writes for a gradient computes again, from the same sequences, what
    the forward loop has computed; `jax.grad` stores it instead. Both loops must have the same
    number of steps. A value is stacked only if it is needed and costs more to compute than to read.
    Cheap values are computed again, and so are loops inside steps, because
    `aesara.scan_checkpoints` saves memory that way. In programs with such loops, common
    subexpressions outside of the loops are eliminated as well.

    Attributes
    ----------
    memory : int
        The number of bytes that one loop may stack for another. If they do not fit into the
        processor's caches, computing again is as fast.
    """

    memory: int = 2**22

    meaning = Meaning.SAME_BITS

    def __call__(self, closed: ClosedJaxpr) -> ClosedJaxpr:
        """Return the program with smaller loops, or the given one if no loop changes.

        Parameters
        ----------
        closed : ClosedJaxpr
            The program. It is not changed.
        """
        return each_program(closed, self._share)

    def _share(self, program: ClosedJaxpr) -> ClosedJaxpr:
        if not _dependent_loops(program.jaxpr.eqns):
            return program
        same: dict[Any, Any] = {}
        found = merged(program.jaxpr.eqns, same, Identities())
        is_changed = bool(same)
        for place, others in _dependent_loops(found):
            for i in others:
                loops = found[i], found[place]
                pair = _JointBody(*loops).shared(self.memory) if _are_compatible(*loops) else None
                if pair is not None:
                    found[i], found[place] = pair
                    is_changed = True
        if not is_changed:
            return program
        outputs = [same.get(x, x) if type(x) is Var else x for x in program.jaxpr.outvars]
        return with_equations(program, found, outputs)


def _dependent_loops(equations: Sequence[JaxprEqn]) -> list[tuple[int, list[int]]]:
    """Return the positions of loops that read results of others, with the positions of those."""
    stacking: dict[Any, int] = {}
    found: list[tuple[int, list[int]]] = []
    for place, eqn in enumerate(equations):
        if eqn.primitive.name == "scan":
            constants, carries = _jax.scan_counts(eqn)
            rows = [x for x in eqn.invars[constants + carries :] if type(x) is Var]
            others = sorted({stacking[x] for x in rows if x in stacking})
            found += [(place, others)] if others else []
            stacking.update(dict.fromkeys(eqn.outvars[carries:], place))
    return found


def _are_compatible(*loops: Any) -> bool:
    """Return whether loops have equally many steps, no effects, and unsharded types."""
    return (
        len({eqn.params["length"] for eqn in loops}) == 1
        and not any(eqn.effects or _jax.close(eqn.params["jaxpr"]).consts for eqn in loops)
        and Builder([x.aval for eqn in loops for x in eqn.invars]).plain
    )


class _JointBody:
    """The bodies of two loops as one body; the second loop reads results that the first stacks.

    Attributes
    ----------
    equations : list of JaxprEqn
        The equations of both bodies, without common subexpressions.
    same : dict of Var to Atom
        Variables that were eliminated, and the atoms that replace them.
    made : set of Var
        The variables that the first body computes.
    recomputed : set of Atom
        The atoms of the first body that the second one would compute again.
    """

    def __init__(self, first: Any, second: Any) -> None:
        self.first, self.second = first, second
        bodies = [_jax.close(eqn.params["jaxpr"]) for eqn in (first, second)]
        b = Builder(v.aval for body in bodies for v in body.jaxpr.invars)
        self.first_inputs, self.second_inputs = parts([*b.inputs], len(first.invars))
        self.same: dict[Any, Any] = {}
        outs = b.inline(bodies[0], self.first_inputs)
        equations = merged(b.equations_from(0), self.same, Identities(inside=False))
        self.outs = [self._substitute(x) for x in outs]
        self.made = {v for e in equations for v in e.outvars}
        count = len(b)
        results = b.inline(bodies[1], self.second_inputs)
        self.same.update(self._shared_inputs())
        known = len(self.same)
        equations += b.equations_from(count)
        self.equations = merged(equations, self.same, Identities(inside=False))
        self.recomputed = set(list(self.same.values())[known:])
        self.results = [self._substitute(x) for x in results]

    def _substitute(self, x: Any) -> Any:
        return self.same.get(x, x) if type(x) is Var else x

    def _shared_inputs(self) -> dict[Any, Any]:
        """Return the inputs of the second body that equal inputs or results of the first one."""
        own = zip(_operand_kinds(self.first), self.first.invars, self.first_inputs, strict=True)
        known: dict[Any, Any] = {(kind, atom_key(x)): v for kind, x, v in own}
        _, carries = _jax.scan_counts(self.first)
        stacked = zip(self.first.outvars[carries:], self.outs[carries:], strict=True)
        known |= {(SEQUENCE, v): x for v, x in stacked}
        others = zip(
            _operand_kinds(self.second), self.second.invars, self.second_inputs, strict=True
        )
        return {
            v: known[kind, atom_key(x)]
            for kind, x, v in others
            if kind != CARRY and (kind, atom_key(x)) in known
        }

    def shared(self, memory: int) -> tuple[JaxprEqn, JaxprEqn] | None:
        """Return both loops with values shared, or None if that saves nothing or takes too much."""
        readable = {x for x in map(self._substitute, self.second_inputs) if type(x) is Var}
        expensive: list[Any] = [
            v
            for e in self.equations
            if e.primitive.name not in CHEAP
            for v in e.outvars
            if v in self.made and v not in readable
        ]
        kept = readable.union(expensive)
        if kept.isdisjoint(self.recomputed):
            return None
        left, live = live_equations(
            [e for e in self.equations if kept.isdisjoint(e.outvars)], self.results
        )
        missing = [v for v in expensive if v in live]
        steps = _jax.bound(self.first.params["length"])
        if sum(_jax.nbytes(v.aval) for v in missing) * steps > memory:
            return None
        return self._rebuild(left, live, missing)

    def _rebuild(
        self, left: Sequence[JaxprEqn], live: set[Var], missing: Sequence[Any]
    ) -> tuple[JaxprEqn, JaxprEqn]:
        """Return the first loop, which also stacks missing values, and the rest of the second."""
        inside = [e for e in self.equations if not self.made.isdisjoint(e.outvars)]
        own = zip(_operand_kinds(self.first), self.first_inputs, self.first.invars, strict=True)
        first = _scan_like(self.first, own, inside, [*self.outs, *missing])
        given: dict[tuple[int, Any], Any] = {
            (SEQUENCE, v): x for v, x in zip(missing, first.outvars[len(self.outs) :], strict=True)
        }
        for kind, v, x in zip(
            _operand_kinds(self.second), self.second_inputs, self.second.invars, strict=True
        ):
            stands_for = self._substitute(v)
            if kind == CARRY or (type(stands_for) is Var and stands_for in live):
                given.setdefault((kind, stands_for), x)
        others = [(*key, x) for key, x in given.items()]
        return first, _scan_like(self.second, others, left, self.results)


CONSTANT, CARRY, SEQUENCE = range(3)


def _operand_kinds(eqn: JaxprEqn) -> list[int]:
    """Return the kind of each operand of a loop."""
    constants, carries = _jax.scan_counts(eqn)
    rows = len(eqn.invars) - constants - carries
    return [CONSTANT] * constants + [CARRY] * carries + [SEQUENCE] * rows


def _scan_like(
    eqn: Any,
    given: Iterable[tuple[int, Any, Any]],
    equations: Sequence[JaxprEqn],
    results: Sequence[Any],
) -> JaxprEqn:
    """Return a loop with another body.

    Parameters
    ----------
    eqn : JaxprEqn
        The loop to replace.
    given : iterable of (kind, variable, operand)
        The operands: their kinds, their variables in the body, and their values outside of it.
    equations : sequence of JaxprEqn
        The equations of the body.
    results : sequence of Atom
        The results of the body. Additional ones come last.
    """
    given = sorted(given, key=lambda each: each[0])
    inputs, params = [v for _, v, _ in given], eqn.params
    name = _jax.open_jaxpr(params["jaxpr"]).debug_info.func_src_info
    names = [""] * len(inputs), [""] * len(results)
    body = _jax.open_jaxpr(params["jaxpr"])
    program = _jax.closed_jaxpr((), inputs, results, equations, frozenset(), (), name, *names, body)
    constants, carries, rows = ([x for k, _, x in given if k == kind] for kind in range(3))
    b = Builder([x.aval for _, _, x in given])
    unroll, reverse, n = params["unroll"], params["reverse"], params["length"]
    found = lax.scan(b, program, constants, carries, rows, n, reverse=reverse, unroll=unroll)
    (new,) = b.equations_from(0)
    outvars: list[Any] = [*eqn.outvars, *found[len(eqn.outvars) :]]
    return new.replace(outvars=outvars, source_info=eqn.source_info, ctx=eqn.ctx)


CHEAP = {
    *("abs", "add", "add_any", "div", "integer_pow", "mul", "neg", "sign", "sqrt", "square", "sub"),
    *("ceil", "clamp", "floor", "is_finite", "max", "min", "round", "select_n"),
    *("and", "eq", "ge", "gt", "le", "lt", "ne", "not", "or", "xor"),
    *("shift_left", "shift_right_arithmetic", "shift_right_logical"),
    *("bitcast_convert_type", "complex", "conj", "convert_element_type", "imag", "real"),
    *("broadcast_in_dim", "concatenate", "copy", "iota", "pad", "reshape", "rev", "slice"),
    *("squeeze", "transpose"),
}
"""Primitives that cost no more to compute again than to read from memory."""
