"""What each source line costs, and which lines read the results of which."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

from jaxprgen import _jax
from jaxprgen._jax import Frame, Jaxpr, JaxprEqn, Var
from jaxprgen.ir.inner import inner_programs
from jaxprgen.passes.repeat_notes import Repeat
from jaxprgen.tools.page.cost import flops, result_bytes
from jaxprgen.tools.page.listings import repetitions


class LineCost(NamedTuple):
    """What the equations of one line cost, with those inside loops and calls, each counted once.

    Attributes
    ----------
    frame
        The line; None for equations of unknown lines.
    equations, nbytes, operations
        The number of equations, the size of their results, and the operations that are known.
    primitives
        How many equations there are of each primitive.
    times
        The largest number of repetitions that an equation computes together.
    """

    frame: Frame | None
    equations: int
    nbytes: float
    operations: int
    primitives: Counter[str]
    times: int


class Lines:
    """The lines of a program, in the order of computing.

    Attributes
    ----------
    costs
        What each line costs.
    flow
        How many operands each line reads from another, by the positions of both in `costs`. The
        program's inputs count as lines after those.
    reads
        For each output of the program, the position of the line that computes it, or None.
    """

    def __init__(self, jaxpr: Jaxpr, repeated: Mapping[Var, Repeat] = MappingProxyType({})) -> None:
        self._repeated = repeated
        self._times: Counter[Frame | None] = Counter()
        self._positions: dict[Frame | None, int] = {}
        self._equations: list[list[JaxprEqn]] = []
        self._flow: Counter[tuple[Any, int]] = Counter()
        made: dict[Any, Any] = {v: v for v in jaxpr.invars}
        self._add(jaxpr, made, None, 1)
        first = len(self._equations)
        inputs: dict[Any, int] = {v: first + i for i, v in enumerate(jaxpr.invars)}
        self.costs = [
            _cost(frame, self._equations[i], self._times[frame])
            for frame, i in self._positions.items()
        ]
        self.flow: dict[tuple[int, int], int] = {
            (a if type(a) is int else inputs[a], b): n for (a, b), n in self._flow.items()
        }
        lines = (made.get(x) if type(x) is Var else None for x in jaxpr.outvars)
        self.reads = [x if type(x) is int else None for x in lines]

    def _add(self, jaxpr: Jaxpr, made: dict[Any, Any], around: Frame | None, times: int) -> None:
        """Add equations, given what makes each variable: a line's position or an input."""
        for eqn in jaxpr.eqns:
            frame = _jax.frame_of(eqn.source_info) or around
            line = self._positions.setdefault(frame, len(self._positions))
            if line == len(self._equations):
                self._equations.append([])
            self._equations[line].append(eqn)
            own = max(times, repetitions(eqn, self._repeated))
            self._times[frame] = max(self._times[frame], own)
            made.update((v, line) for v in eqn.outvars)
            inner = inner_programs(eqn)
            for each in inner:
                program = _jax.open_jaxpr(each.program)
                operands = [eqn.invars[i] for i in each.operands]
                pairs = zip(program.invars, operands, strict=True)
                made.update((v, made[x]) for v, x in pairs if type(x) is Var and x in made)
                self._add(program, made, frame, own)
                for i, x in zip(each.results, program.outvars, strict=True):
                    if i is not None and type(x) is Var and x in made:
                        made[eqn.outvars[i]] = made[x]
            if not inner:
                origins = (made.get(x) for x in eqn.invars if type(x) is Var)
                self._flow.update((a, line) for a in origins if a is not None and a != line)


def _cost(frame: Frame | None, eqns: Sequence[JaxprEqn], times: int) -> LineCost:
    operations = sum(flops(eqn) or 0 for eqn in eqns if not inner_programs(eqn))
    names = Counter(eqn.primitive.name for eqn in eqns)
    return LineCost(frame, len(eqns), sum(map(result_bytes, eqns)), operations, names, times)
