"""Guard branches: no derivative comes from a branch that is not taken."""

from __future__ import annotations

import functools
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from jaxprgen import _jax
from jaxprgen._jax import ClosedJaxpr, Jaxpr, JaxprEqn, Literal, ShapedArray, Var
from jaxprgen.ir import Atom, Builder, primitives as lax
from jaxprgen.ir.rewriting import each_program, with_equations
from jaxprgen.passes.conditions import (
    ALWAYS,
    NEVER,
    Choices,
    Condition,
    Conditions,
    both,
    either,
    moved,
    opposite,
    size,
)
from jaxprgen.passes.inlining import Inline
from jaxprgen.passes.meaning import Meaning
from jaxprgen.passes.places import (
    is_bounded,
    is_complex,
    is_inexact,
    is_linear,
    operand_axes,
    result_axes,
)
from jaxprgen.passes.predicates import computed_once, with_masks_computed_once

_EXTREMES = {"max": (lax.max, lax.gt), "min": (lax.min, lax.lt)}
_COMPARING = frozenset({"clamp", *_EXTREMES})
_CHOICES = frozenset({"select_n", *_COMPARING})
_DEEPEST = 16
"""So many checks may be inside of each other; their conditions stay short."""


@dataclass(frozen=True)
class GuardBranches:
    """Keep derivatives of branches that are not taken out of gradients.

    ``where(x > 0, log(x), 0)`` computes both branches and selects one. At ``x = 0`` its derivative
    multiplies the zero that the choice hands to the logarithm by an infinite slope, which is NaN.
    This pass masks what enters a branch: as a value, it is what it was, bit for bit; as a tangent
    or cotangent, it is zero where the branch is not taken. So a function that is smooth on the
    branches that it takes has finite derivatives of any order, in forward and reverse mode.

    A choice of a whole array beside an infinite number, such as ``where(all(sigma > 0), density,
    -inf)``, is a *check*. What enters the density from outside is masked, and the check itself
    hands its cotangent on as it is. So a gradient that depends on data alone stays one that a
    compiler can fold, and only its last step reads the predicate.

    ``max``, ``min`` and ``clamp`` choose as well. Derivatives of the first two select, where those
    of JAX multiply by zero. All kernels of XLA read one result of their comparisons, as they do
    with JAX's: see `jaxprgen.passes.predicates`. Programs without a choice stay as they are.

    Attributes
    ----------
    ties : {"shared", "first"}
        Where both operands of ``max`` or ``min`` are equal, each has half of the derivative, as in
        JAX, or the first one has all of it, as in Aesara and PyTensor.
    """

    ties: str = "shared"

    meaning = Meaning.SAME_BITS

    def __call__(self, closed: ClosedJaxpr) -> ClosedJaxpr:
        """Return the program with masks, or the given one if it needs none.

        Parameters
        ----------
        closed : ClosedJaxpr
            The program. It is not changed.
        """
        if not any(map(_is_choice, _jax.every_equation(closed.jaxpr))):
            return closed
        inlined = Inline()(closed)  # `jax.numpy.where` is a call.
        found = each_program(inlined, functools.partial(_guarded, ties=self.ties))
        found = each_program(found, with_masks_computed_once)
        return closed if found is inlined else found


def _is_choice(eqn: JaxprEqn) -> bool:
    return eqn.primitive.name in _CHOICES and is_inexact(eqn.outvars[0])


def _guarded(closed: ClosedJaxpr, ties: str) -> ClosedJaxpr:
    if not any(map(_is_choice, closed.jaxpr.eqns)):
        return closed
    b = Builder([v.aval for v in closed.jaxpr.invars])  # Sets `plain` by the types.
    if not b.plain:
        return closed
    # What a function closes over may be differentiated, too.
    constants = zip(closed.jaxpr.constvars, closed.consts, strict=True)
    traced = [v for v, x in constants if isinstance(x, _jax.Tracer)]
    writer = _Writer(b, closed.jaxpr, [*closed.jaxpr.invars, *traced], ties)
    equations = writer.equations()
    outputs = [writer.masked.get(x, x) if type(x) is Var else x for x in closed.jaxpr.outvars]
    if not writer.has_changed:
        return closed
    return with_equations(closed, equations, outputs, dict(b.constants))


# --- Analysis ---------------------------------------------------------------------------------


class Guards:
    """Where masks are needed.

    The *reach* of a value is the condition under which it matters to a result: the union, over its
    uses, of what each use passes on. The *motion* of a value is the condition under which it
    depends on an input, given the masks. Both take one pass over the equations.

    A derivative is *hazardous* if it may be infinite or NaN where its equation does not matter. A
    mask stands where a value whose derivative is finite enters a hazardous equation: before that
    none is needed, and after it one is there already.

    Parameters
    ----------
    inputs : sequence of Var
        The inputs by which the program may be differentiated.
    outputs : sequence of Var or Literal
        Its results.
    eqns : sequence of JaxprEqn
        Its equations.
    losses : mapping of Var to tuple of Var
        For results of maxima, minima and clamps, where each operand does not matter.

    Attributes
    ----------
    masks : list of dict
        For each equation, the conditions of the masks on operands, by position, and of the mask on
        the result, by -1.
    """

    def __init__(
        self,
        inputs: Sequence[Var],
        outputs: Sequence[Any],
        eqns: Sequence[JaxprEqn],
        losses: Mapping[Any, Sequence[Atom]],
    ) -> None:
        self._eqns = eqns
        self._losses = losses
        self._choices = Choices(eqns)
        self._moving: set[Any] = {v for v in inputs if is_inexact(v)}
        for eqn in eqns:
            if any(type(x) is Var and x in self._moving for x in eqn.invars):
                self._moving.update(filter(is_inexact, eqn.outvars))
        self.checks = self._find_checks()
        self._owners = self._find_owners(inputs, outputs)
        self._reach = self._reaches(outputs)
        self._finite, self._clean = self._kinds(inputs)
        self.masks = self._masks()
        self._mask_still_results(outputs)

    def _reaches(self, outputs: Sequence[Any]) -> dict[Any, Condition]:
        reach: dict[Any, Condition] = {
            x: ALWAYS for x in outputs if type(x) is Var and is_inexact(x)
        }
        # For each equation, the reach of its results, the conditions of masks by operand, and those
        # of checks that an operand enters.
        self._flows: list[tuple[Condition, dict[int, Condition], dict[int, Condition]]] = []
        for eqn in reversed(self._eqns):
            found = NEVER
            for v in eqn.outvars:
                own = reach.get(v, NEVER)
                found = either(found, own if len(eqn.outvars) == 1 else moved(own, ()))
            masks, entries = dict[int, Condition](), dict[int, Condition]()
            self._flows.append((found, masks, entries))
            for i, x in enumerate(eqn.invars):
                if type(x) is Var and is_inexact(x):
                    is_check = self._check_of(eqn) is not None
                    chosen = passed = found if is_check else self._chosen(eqn, i, found)
                    if (entered := self._entered(eqn, x)) != ALWAYS:
                        entries[i] = entered
                        chosen = passed = _narrowed(entered, chosen)
                    if chosen != ALWAYS:
                        passed = moved(chosen, operand_axes(eqn, i))
                    reach[x] = either(reach.get(x, NEVER), passed)
                    # A smaller operand is broadcast before it is masked.
                    masks[i] = chosen if _broadcasts(eqn) else passed
        self._flows.reverse()
        return reach

    def _find_checks(self) -> dict[Any, Condition]:
        """Return the choices of whole arrays beside an infinite number, and when they hold.

        Such is the check of a parameter, ``where(all(sigma > 0), density, -inf)``.
        """
        found: dict[Any, Condition] = {}
        infinite: set[Any] = set()
        for eqn in self._eqns:
            is_copy = eqn.primitive.name in ("broadcast_in_dim", "convert_element_type")
            if is_copy and _is_infinite(eqn.invars[0], infinite):
                infinite.update(eqn.outvars)
            if eqn.primitive.name != "select_n" or len(eqn.invars) != 3:
                continue
            cases = [(i, eqn.invars[i]) for i in (1, 2)]
            moving = [i for i, x in cases if not _is_infinite(x, infinite)]
            predicate: Any = eqn.invars[0].aval
            if len(moving) != 1 or predicate.dtype != np.bool_:
                continue
            condition = self._choices.case(eqn.invars[0], moving[0] - 1)
            axes = {axis for clause in condition for case in clause for axis in case.axes}
            if condition != ALWAYS and axes <= {None}:
                found[eqn.outvars[0]] = condition
        return found

    def _find_owners(self, inputs: Sequence[Any], outputs: Sequence[Any]) -> dict[Any, Any]:
        """Return the check through which each value matters, for those that matter by one alone."""
        owners: dict[Any, Any] = dict.fromkeys(x for x in outputs if type(x) is Var)
        depths: dict[Any, int] = {}
        for eqn in reversed(self._eqns):
            if not any(v in self._moving for v in eqn.outvars):
                continue
            used = {owners[v] for v in eqn.outvars if v in owners}
            if not used:
                continue  # It matters to predicates at most.
            own = used.pop() if len(used) == 1 else None
            owners.update((v, own) for v in eqn.outvars if v in owners)
            if (v := self._check_of(eqn)) is not None:
                depths[v] = depths.get(own, 0) + 1
                if depths[v] > _DEEPEST:
                    del self.checks[v]
                else:
                    own = v
            for x in eqn.invars:
                if type(x) is Var and x in self._moving:
                    owners[x] = own if owners.get(x, own) is own else None
        owners.update(dict.fromkeys(inputs))
        return owners

    def _check_of(self, eqn: JaxprEqn) -> Any:
        """Return the result of an equation that is a check, or None."""
        return next((v for v in eqn.outvars if v in self.checks), None)

    def _entered(self, eqn: JaxprEqn, x: Any) -> Condition:
        """Return the condition of the checks that own an equation, but not its operand."""
        if type(x) is not Var or x not in self._moving:
            return ALWAYS
        owner = self._check_of(eqn)
        if owner is None:
            owners = {self._owners[v] for v in eqn.outvars if v in self._owners}
            owner = owners.pop() if len(owners) == 1 else None
        found, last = ALWAYS, self._owners.get(x)
        while owner is not None and owner is not last:
            found = both(found, self.checks[owner])
            owner = self._owners.get(owner)
        return found

    def _chosen(self, eqn: JaxprEqn, i: int, condition: Condition) -> Condition:
        """Return where a condition on the result holds, and the equation takes its i-th operand."""
        name = eqn.primitive.name
        if name == "select_n" and i > 0:
            return both(condition, self._choices.case(eqn.invars[0], i - 1))
        if name in _COMPARING and eqn.outvars[0] in self._losses:
            return both(condition, self._choices.case(self._losses[eqn.outvars[0]][i], 0))
        return condition

    def _kinds(self, inputs: Sequence[Any]) -> tuple[set[Any], set[Any]]:
        """Return the values that are finite if the results are, and those of finite derivatives."""
        finite = {v for v, reach in self._reach.items() if reach == ALWAYS}
        clean = set(inputs)
        for eqn, (reach, passed, _) in zip(self._eqns, self._flows, strict=True):
            operands = [(c, eqn.invars[i]) for i, c in passed.items()]
            operands = [(c, x) for c, x in operands if x in self._moving]
            is_hazard = self._is_hazard(eqn, finite)
            if not is_hazard and is_linear(eqn) and all(_is_finite(x, finite) for x in eqn.invars):
                finite.update(eqn.outvars)
            # If the reach is not passed on whole, masks before the equation do not suffice.
            is_lost = any(c != NEVER and size(c) < size(reach) for c, _ in operands)
            if is_lost or (not is_hazard and all(x in clean for _, x in operands)):
                clean.update(eqn.outvars)
        return finite, clean

    def _is_hazard(self, eqn: JaxprEqn, finite: set[Any]) -> bool:
        """Return whether slopes may be infinite or NaN where the equation does not matter."""
        if is_linear(eqn) or _is_choice(eqn):
            return False
        return not (is_bounded(eqn) and all(_is_finite(x, finite) for x in eqn.invars))

    def _masks(self) -> list[dict[int, Condition]]:
        found: list[dict[int, Condition]] = []
        hazards: set[Any] = set()  # Values that hazardous equations of their own reach depend on.
        equations = zip(self._eqns, self._flows, strict=True)
        for eqn, (reach, passed, entries) in reversed([*equations]):
            masks: dict[int, Condition] = dict(entries)
            found.append(masks)
            if not reach or (reach == ALWAYS and not _is_choice(eqn)):
                continue
            is_hazard = reach != ALWAYS and self._is_hazard(eqn, self._finite)
            is_before = reach != ALWAYS and not hazards.isdisjoint(eqn.outvars)
            is_clean = any(v in self._clean for v in eqn.outvars)
            for i, condition in passed.items():
                x = eqn.invars[i]
                if x not in self._moving:
                    continue
                if _is_choice(eqn) and condition == NEVER:
                    masks[i] = NEVER  # No mask stands before an equation without reach.
                if is_hazard or is_before:
                    hazards.add(x)
                if not (is_hazard or (is_before and not is_clean)):
                    continue
                # A value that is not clean has a mask before it, for its own reach alone.
                if x in self._clean or condition != self._reach.get(x, NEVER):
                    masks[i] = condition
        found.reverse()
        return [{i: c for i, c in m.items() if c != ALWAYS} for m in found]

    def _mask_still_results(self, outputs: Sequence[Any]) -> None:
        """Mask results that do not move, but of which a derivative may be NaN.

        In forward mode, ``sqrt(max(x, 0))`` multiplies a zero tangent by an infinite slope where
        ``x`` is negative. That is the *danger* of the root. A choice may leave it out; if it enters
        a result, a mask stands before the first equation that would mix it with other motion.
        """
        motion: dict[Any, Condition] = dict.fromkeys(self._moving, ALWAYS)
        for eqn, masks in zip(self._eqns, self.masks, strict=True):
            found = NEVER
            for i, x in enumerate(eqn.invars):
                if type(x) is Var and x in self._moving:
                    found = either(found, self._carried(eqn, i, motion[x], masks))
            motion.update((v, found) for v in eqn.outvars if v in self._moving)
        danger, _ = self._dangers(motion, frozenset())
        entering: set[Any] = {x for x in outputs if type(x) is Var and x in danger}
        if not entering:
            return
        for eqn, masks in zip(reversed(self._eqns), reversed(self.masks), strict=True):
            if not entering.isdisjoint(eqn.outvars):
                entering.update(eqn.invars[i] for i, _ in self._endangered(eqn, masks, danger))
        danger, wanted = self._dangers(motion, entering)
        wanted.update(x for x in outputs if type(x) is Var and x in danger)
        for masks, eqn in zip(self.masks, self._eqns, strict=True):
            if len(eqn.outvars) == 1 and eqn.outvars[0] in wanted:
                condition = motion[eqn.outvars[0]]
                if condition not in (ALWAYS, NEVER):
                    masks[-1] = condition

    def _dangers(
        self, motion: Mapping[Any, Condition], entering: Collection[Any]
    ) -> tuple[dict[Any, Condition], set[Any]]:
        """Return where derivatives of values may be NaN, and which values are masked for it.

        A value is masked if it enters a result, and an equation mixes its danger with motion.
        """
        danger, masked = dict[Any, Condition](), set[Any]()
        for eqn, masks in zip(self._eqns, self.masks, strict=True):
            moving = next((v for v in eqn.outvars if v in self._moving), None)
            if moving is None:
                continue
            found, own = motion[moving], NEVER
            for i, condition in self._endangered(eqn, masks, danger):
                if moving in entering and both(condition, found):
                    masked.add(eqn.invars[i])
                    danger.pop(eqn.invars[i], None)
                else:
                    own = either(own, condition)
            if found != ALWAYS and not is_bounded(eqn) and not _is_choice(eqn):
                own = either(own, opposite(found))
            if own:
                danger.update((v, own) for v in eqn.outvars if self._reach.get(v))
        return danger, masked

    def _endangered(
        self, eqn: JaxprEqn, masks: Any, danger: Mapping[Any, Condition]
    ) -> list[tuple[int, Condition]]:
        """Return the operands whose danger reaches the result of an equation, and where."""
        operands = [
            (i, danger[x]) for i, x in enumerate(eqn.invars) if type(x) is Var and x in danger
        ]
        carried = ((i, self._carried(eqn, i, condition, masks)) for i, condition in operands)
        return [(i, condition) for i, condition in carried if condition]

    def _carried(self, eqn: JaxprEqn, i: int, condition: Condition, masks: Any) -> Condition:
        """Return where a condition on an operand, behind its mask, holds on the result."""
        mask = masks.get(i, ALWAYS)
        if condition == mask == ALWAYS:
            return self._chosen(eqn, i, ALWAYS)
        if _broadcasts(eqn):
            return self._chosen(eqn, i, both(moved(condition, result_axes(eqn, i)), mask))
        return self._chosen(eqn, i, moved(both(condition, mask), result_axes(eqn, i)))


def _broadcasts(eqn: JaxprEqn) -> bool:
    """Return whether operands of an equation may have any shape that broadcasts to the result's."""
    return eqn.primitive.name in lax.ELEMENTWISE


def _is_finite(x: Any, finite: set[Any]) -> bool:
    if isinstance(x, Literal):
        return not is_inexact(x) or bool(np.isfinite(x.val))
    return x in finite or not is_inexact(x)


def _is_infinite(x: Any, infinite: set[Any]) -> bool:
    """Return whether an atom is an infinite number, or one of these variables."""
    if type(x) is Literal:
        return is_inexact(x) and bool(np.isinf(x.val))
    return x in infinite


def _narrowed(condition: Condition, further: Condition) -> Condition:
    """Return where both conditions hold, or where the first does, but never more than that."""
    found = both(condition, further)
    return found if all(any(c <= d for c in condition) for d in found) else condition


# --- Rewriting --------------------------------------------------------------------------------


class _Writer:
    """Writes a program anew, with masks.

    A predicate of a mask may depend on what the branches compute, so it reads values without masks.
    An equation that reads masked values, and that such a predicate needs, is there twice. Their
    values are equal, and a compiler sees it.
    """

    def __init__(self, b: Builder, jaxpr: Jaxpr, inputs: Sequence[Var], ties: str) -> None:
        self._b = b
        self._ties = ties
        self._eqns, losses = self._compared(jaxpr.eqns)
        guards = Guards(inputs, jaxpr.outvars, self._eqns, losses)
        self._masks, self._checks = guards.masks, guards.checks
        self._conditions = Conditions(b, self._unmasked)
        self._makers = {v: i for i, eqn in enumerate(self._eqns) for v in eqn.outvars}
        self._made: dict[Any, Atom] = {}
        self._result: list[JaxprEqn] = []
        self._done: set[int] = set()
        self._raw: dict[Any, Any] = {}
        self._differs: set[int] = set()  # Equations that read masked values.
        self.masked: dict[Any, Any] = {}
        self._still = self._still_and_read_by_masks()
        for i, eqn in enumerate(self._eqns):
            if i in self._still:
                continue
            read = (self._makers.get(x) for x in eqn.invars if type(x) is Var)
            if self._masks[i] or not self._differs.isdisjoint(read):
                self._differs.add(i)
        made = (self._eqns[self._makers[v]].primitive.name for v in losses)
        self.has_changed = bool(self._differs) or any(name in _EXTREMES for name in made)

    def _compared(
        self, eqns: Sequence[JaxprEqn]
    ) -> tuple[list[JaxprEqn], dict[Any, Sequence[Atom]]]:
        """Return the equations, with comparisons before each maximum, minimum and clamp."""
        b, found, losses = self._b, list[JaxprEqn](), dict[Any, Sequence[Atom]]()
        for eqn in eqns:
            v = eqn.outvars[0] if eqn.primitive.name in _COMPARING else None
            if v is not None and is_inexact(v) and not is_complex(v):
                b.source_info = eqn.source_info
                losses[v] = _losses(b, eqn)
                found += b.take()
            found.append(eqn)
        return found, losses

    def _still_and_read_by_masks(self) -> set[int]:
        """Return the equations without derivatives that predicates of masks need."""
        conditions = (condition for masks in self._masks for condition in masks.values())
        predicates = [
            x.predicate for condition in conditions for clause in condition for x in clause
        ]
        needed = self._before(predicates)
        return {i for i in needed if not any(map(is_inexact, self._eqns[i].outvars))}

    def _before(self, variables: Iterable[Any]) -> list[int]:
        """Return the equations that are not there yet and that variables need, in order."""
        pending, found = [*variables], set[int]()
        while pending:
            v = pending.pop()
            i = self._makers.get(v)
            if i is not None and not (i in found or i in self._done or v in self._raw):
                found.add(i)
                pending += [x for x in self._eqns[i].invars if type(x) is Var]
        return sorted(found)

    def equations(self) -> list[JaxprEqn]:
        """Return the equations with masks."""
        for i, eqn in enumerate(self._eqns):
            if i in self._done:
                continue
            if i in self._still:
                self._unmasked(eqn.outvars[0])
            else:
                self._emit(i, eqn)
        return self._result

    def _emit(self, i: int, eqn: JaxprEqn) -> None:
        """Append an equation whose operands are masked."""
        self._b.source_info = eqn.source_info
        read = self._value if i in self._still else lambda x: self.masked.get(x, x)
        operands: list[Any] = [read(x) if type(x) is Var else x for x in eqn.invars]
        for k, condition in self._masks[i].items():
            if k >= 0:
                operands[k] = self._mask(eqn.invars[k], operands[k], condition, eqn)
        self._append(eqn, operands)
        self._done.add(i)
        if -1 in self._masks[i]:
            (v,) = eqn.outvars
            self.masked[v] = self._mask(v, self.masked.get(v, v), self._masks[i][-1], eqn)

    def _append(self, eqn: JaxprEqn, operands: list[Any]) -> None:
        name = eqn.primitive.name
        v: Any = eqn.outvars[0] if name in _EXTREMES else None
        if name in _EXTREMES and is_inexact(v) and not is_complex(v):
            shape: Any = v.aval.shape
            x, y = (
                x if isinstance(x, Literal) else lax.broadcast_to(self._b, x, shape)
                for x in operands
            )
            self.masked[v] = _selecting(self._b, name, [x, y], self._ties)
            self._flush()
            # The equation itself stays for the predicates, and is dead without them.
        if any(v in self._checks for v in eqn.outvars):
            self.masked[eqn.outvars[0]] = _selecting(self._b, "check", operands)
            self._flush()
        self._result.append(eqn.replace(invars=operands))

    def _mask(self, x: Any, operand: Any, condition: Condition, eqn: JaxprEqn) -> Any:
        shape = eqn.outvars[0].aval.shape if _broadcasts(eqn) else x.aval.shape  # type: ignore[attr-defined]
        key = operand, condition, shape
        found = self._made.get(key)
        if found is None:
            if condition == NEVER:
                found = lax.stop_gradient(self._b, operand)
            else:
                holds = self._conditions(condition, shape)
                if holds.aval.shape:
                    operand = lax.broadcast_to(self._b, operand, shape)
                found = _selecting(self._b, "mask", [holds, operand])
                found = lax.broadcast_to(self._b, found, shape)
            self._made[key] = found
            self._flush()
        return found

    def _unmasked(self, v: Any) -> Any:
        """Return a variable as it is without masks, and append what computes it."""
        for i in self._before([v]):
            eqn = self._eqns[i]
            self._flush()
            if i in self._differs:
                operands = {x: self._value(x) for x in eqn.invars if type(x) is Var}
                self._raw.update(self._b.copy(eqn, operands))
                self._flush()
            else:
                self._emit(i, eqn)
        return self._value(v)

    def _value(self, v: Any) -> Any:
        """Return what holds the value of a variable, with masks or without."""
        return self._raw.get(v) or self.masked.get(v, v)

    def _flush(self) -> None:
        self._result += self._b.take()


def _losses(b: Builder, eqn: JaxprEqn) -> Sequence[Atom]:
    """Return for each operand of a comparing equation where the result does not depend on it."""
    if eqn.primitive.name == "clamp":  # At the bounds, its derivative is zero.
        low, x, high = eqn.invars
        outside = lax.bitwise_or(b, lax.le(b, x, low), lax.ge(b, x, high))
        losses = lax.le(b, low, x), outside, lax.ge(b, high, x)
    else:
        (x, y), (_, wins) = eqn.invars, _EXTREMES[eqn.primitive.name]
        losses = wins(b, y, x), wins(b, x, y)
    return [computed_once(b, x) for x in losses]


# --- Derivatives that choose ------------------------------------------------------------------


def _selecting(b: Builder, name: str, operands: Sequence[Atom], ties: str = "") -> Atom:
    """Return a function of `_FUNCTIONS`, whose derivatives select.

    Parameters
    ----------
    b : Builder
        The builder.
    name : str
        The name of the function.
    operands : sequence of atoms
        Its operands. A boolean, and a literal, may be a scalar beside arrays.
    ties : {"shared", "first"}, optional
        Of extremes, see `GuardBranches`.
    """
    program, params = _selecting_call(name, ties, tuple(x.aval for x in operands))
    return b.call(_jax.custom_jvp_call_p, program, operands, params)[0]


@functools.lru_cache(512)
def _selecting_call(
    name: str, ties: str, types: Sequence[ShapedArray]
) -> tuple[ClosedJaxpr, dict[str, Any]]:
    value, tangent = _FUNCTIONS[name]
    values = Builder(types)
    program = values.build([value(values, *values.inputs)], name=name)

    def derivative(*zeros: bool) -> tuple[ClosedJaxpr, Sequence[bool]]:
        b = Builder([*types, *(x for x, zero in zip(types, zeros, strict=True) if not zero)])
        operands, rest = b.inputs[: len(types)], iter(b.inputs[len(types) :])
        # The value selects again, for derivatives of the derivative.
        outputs = [_selecting(b, name, operands, ties)]
        if not all(zeros):
            moves = [None if zero else next(rest) for zero in zeros]
            outputs.append(tangent(b, operands, moves, ties))
        return b.build(outputs, name=name), (all(zeros),)

    return program, _jax.custom_jvp_params(program, derivative)


def _masked(b: Builder, holds: Atom, x: Atom) -> Atom:
    """Return ``x``, which under `jax.vmap` has the batch of ``holds`` as well if it is a scalar.

    A later derivative needs that. An array that a batch shares stays shared instead: it would cost
    a copy for each element, also where nothing is differentiated.
    """
    return x if x.aval.shape else lax.select_n(b, holds, x, x)


def _mask_tangent(b: Builder, operands: Any, moves: Any, ties: str) -> Atom:
    """Return the tangent of ``x``, but zero where a condition is false."""
    (holds, x), (_, tangent) = operands, moves
    return lax.select_n(b, holds, _zeros(b, x.aval), tangent)


def _check_tangent(b: Builder, operands: Any, moves: Any, ties: str) -> Atom:
    """Return the tangent of a choice between two cases, of which one is infinite.

    Where that is chosen, tangents are zero. Cotangents are as if it were not: masks on all that
    enters the other case drop them.
    """
    (holds, x, _), (_, first, second) = operands, moves
    if first is not None and second is not None:
        return lax.select_n(b, holds, first, second)
    kept, moved = (holds, moves[2]) if first is None else (lax.bitwise_not(b, holds), moves[1])
    kept = lax.broadcast_to(b, kept, x.aval.shape)
    return b.bind(_jax.chosen_p, [kept, _zeros(b, x.aval), moved], {})


def _extreme_tangent(wins: Any, b: Builder, operands: Any, moves: Any, ties: str) -> Atom:
    """Return the tangent of a maximum or minimum."""
    first, second = operands
    full = first.aval if first.aval.shape else second.aval
    of_first, of_second = (_zeros(b, full) if x is None else x for x in moves)
    otherwise = of_first
    if ties != "first":
        half = b.literal(np.asarray(0.5, full.dtype))
        otherwise = lax.mul(b, lax.add(b, of_first, of_second), half)
    # NaN is neither larger nor smaller: JAX, too, gives it to both.
    won = wins(b, first, second), wins(b, second, first)
    by_first, by_second = (computed_once(b, x) for x in won)
    found = lax.select_n(b, by_second, otherwise, of_second)
    return lax.select_n(b, by_first, found, of_first)


def _zeros(b: Builder, x: ShapedArray) -> Atom:
    return lax.full(b, 0, x.shape, x.dtype)


_FUNCTIONS: Mapping[str, tuple[Any, Any]] = {
    "mask": (_masked, _mask_tangent),
    "check": (lax.select_n, _check_tangent),
    **{
        name: (value, functools.partial(_extreme_tangent, wins))
        for name, (value, wins) in _EXTREMES.items()
    },
}
"""For each function, what emits its value, and what emits its tangent."""
