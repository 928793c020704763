"""What two loops over the same rows both compute."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from jaxprgen import _jax
from jaxprgen._jax import ClosedJaxpr, JaxprEqn, Var
from jaxprgen.ir import Builder
from jaxprgen.ir import primitives as lax
from jaxprgen.ir.liveness import live_equations
from jaxprgen.ir.redundancy import Identities, atom_key, merged
from jaxprgen.ir.rewriting import each_program, with_equations


@dataclass(frozen=True)
class ShareScan:
    """What a ``scan`` computes again of what another one stacked, that one stacks as well.

    As with the loop that `aesara.grad` writes: it computes again what the one that it is the
    gradient of has computed, of the same rows, where `jax.grad` keeps it. Both loops have as many
    steps. Only what costs more than to read it is stacked, and only what is read; what is cheap is
    computed again. Loops inside of steps always are, as by that `aesara.scan_checkpoints` saves
    memory. Outside of such loops too nothing is computed twice.

    Attributes
    ----------
    memory
        The most bytes that one loop stacks for another one. Where they leave the processor's caches
        it is as fast to compute again.
    """

    memory: int = 2**22

    def __call__(self, closed: ClosedJaxpr) -> ClosedJaxpr:
        """The program with loops that compute less."""
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
    """The places of loops that read what others stacked, in order, with those of the others."""
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
    """Whether these are loops of equally many steps, without effects, of types that are plain."""
    return (
        len({eqn.params["length"] for eqn in loops}) == 1
        and not any(eqn.effects or _jax.close(eqn.params["jaxpr"]).consts for eqn in loops)
        and Builder([x.aval for eqn in loops for x in eqn.invars]).plain
    )


class _JointBody:
    """Two loops, as one that has the steps of both, of which the second reads rows of the first.

    ``equations`` are those of both, without what is computed twice, and ``same`` tells which of
    the variables are others.
    """

    def __init__(self, first: Any, second: Any) -> None:
        self.first, self.second = first, second
        bodies = [_jax.close(eqn.params["jaxpr"]) for eqn in (first, second)]
        b = Builder(v.aval for body in bodies for v in body.jaxpr.invars)
        self.own, self.others = b.inputs[: len(first.invars)], b.inputs[len(first.invars) :]
        self.same: dict[Any, Any] = {}
        outs = b.inline(bodies[0], self.own)
        equations = merged(b.equations_from(0), self.same, Identities(inside=False))
        self.outs = [self._substitute(x) for x in outs]
        self.made = {v for e in equations for v in e.outvars}
        count = len(b)
        results = b.inline(bodies[1], self.others)
        self.same.update(self._shared_inputs())
        known = len(self.same)
        equations += b.equations_from(count)
        self.equations = merged(equations, self.same, Identities(inside=False))
        self.again = set(list(self.same.values())[known:])
        self.results = [self._substitute(x) for x in results]

    def _substitute(self, x: Any) -> Any:
        return self.same.get(x, x) if type(x) is Var else x

    def _shared_inputs(self) -> dict[Any, Any]:
        """What stands in the first loop for what the second one is given."""
        own = zip(_operand_kinds(self.first), self.first.invars, self.own, strict=True)
        known: dict[Any, Any] = {(kind, atom_key(x)): v for kind, x, v in own}
        _, carries = _jax.scan_counts(self.first)
        stacked = zip(self.first.outvars[carries:], self.outs[carries:], strict=True)
        known |= {(SEQUENCE, v): x for v, x in stacked}
        others = zip(_operand_kinds(self.second), self.second.invars, self.others, strict=True)
        return {
            v: known[kind, atom_key(x)]
            for kind, x, v in others
            if kind != CARRY and (kind, atom_key(x)) in known
        }

    def shared(self, memory: int) -> tuple[JaxprEqn, JaxprEqn] | None:
        """Both loops, where the first stacks what the second does not compute again."""
        readable = {x for x in map(self._substitute, self.others) if type(x) is Var}
        dear: list[Any] = [
            v
            for e in self.equations
            if e.primitive.name not in CHEAP
            for v in e.outvars
            if v in self.made and v not in readable
        ]
        kept = readable.union(dear)
        if kept.isdisjoint(self.again):
            return None
        left, live = live_equations(
            [e for e in self.equations if kept.isdisjoint(e.outvars)], self.results
        )
        missing = [v for v in dear if v in live]
        if sum(_jax.nbytes(v.aval) for v in missing) * self.first.params["length"] > memory:
            return None
        return self._with(left, live, missing)

    def _with(
        self, left: Sequence[JaxprEqn], live: set[Var], missing: Sequence[Any]
    ) -> tuple[JaxprEqn, JaxprEqn]:
        """The first loop, which stacks what is missing; the second, of the steps that are left."""
        inside = [e for e in self.equations if not self.made.isdisjoint(e.outvars)]
        own = zip(_operand_kinds(self.first), self.own, self.first.invars, strict=True)
        first = _scan_like(self.first, own, inside, [*self.outs, *missing])
        given: dict[tuple[int, Any], Any] = {
            (SEQUENCE, v): x for v, x in zip(missing, first.outvars[len(self.outs) :], strict=True)
        }
        for kind, v, x in zip(
            _operand_kinds(self.second), self.others, self.second.invars, strict=True
        ):
            stands_for = self._substitute(v)
            if kind == CARRY or (type(stands_for) is Var and stands_for in live):
                given.setdefault((kind, stands_for), x)
        others = [(*key, x) for key, x in given.items()]
        return first, _scan_like(self.second, others, left, self.results)


CONSTANT, CARRY, SEQUENCE = range(3)


def _operand_kinds(eqn: JaxprEqn) -> list[int]:
    """What the operands of a loop are."""
    constants, carries = _jax.scan_counts(eqn)
    rows = len(eqn.invars) - constants - carries
    return [CONSTANT] * constants + [CARRY] * carries + [SEQUENCE] * rows


def _scan_like(
    eqn: Any,
    given: Iterable[tuple[int, Any, Any]],
    equations: Sequence[JaxprEqn],
    results: Sequence[Any],
) -> JaxprEqn:
    """A loop with other steps, given kinds of operands, their variables inside, and themselves.

    What it gives more is behind what it gave.
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
"""The primitives that are computed again rather than read: that costs no more than memory."""
