"""Recurrences as running products of the functions that their steps are."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from jaxprgen import _jax
from jaxprgen._jax import ClosedJaxpr, JaxprEqn, Var
from jaxprgen.ir import Atom, Builder
from jaxprgen.ir import primitives as lax
from jaxprgen.ir.rewriting import rewritten
from jaxprgen.passes.affine import Functions, Group, group_of, kind_of, product, repeated
from jaxprgen.passes.batching import NotBatchableError, Operand, all_rows, operand_of
from jaxprgen.passes.calls import with_calls_opened
from jaxprgen.passes.steps import Steps

_Functions: TypeAlias = dict[Any, Atom]


@dataclass(frozen=True)
class AssociativeScan:
    """A ``scan`` whose carries follow linear recurrences becomes a logarithm of its steps.

    A carry, or several of one type that depend on each other, may be changed by any affine
    function, as ``h = a * h + b`` or ``h = A @ h + b``, whose slope and offset depend on the rows
    of the sequences, but not on the carry. Such functions compose to such functions, so all
    prefixes of the steps are found as Blelloch has it (*Prefix sums and their applications*, 1990),
    in twice the work of the loop for numbers, and more for matrices, but in few large equations:
    where many of the same are cheap, that is faster; one core runs the loop in less.
    Running sums, products, maxima and minima are the primitives that JAX has for them. What else
    a step computes is then done for all of them at once. Carries that follow other recurrences
    stay in a loop, which reads the rows of those that do not.

    Rounding differs as that of any sum in another order does. Products of slopes below one may
    underflow: what they would have scaled is then far less than what is added to it. Products
    that overflow, where a loop's values do not, give infinities or NaN, as do infinite slopes.

    Attributes
    ----------
    memory
        The most bytes that the values of all steps may take up, those between included. Loops
        that would need more stay.
    reassociate
        Whether floating-point numbers may be added and multiplied in another order. Without it,
        only integers, maxima and minima are.
    size
        The most rows that a matrix of a recurrence may have: a product of two is as many times
        the work of one step.
    """

    memory: int = 2**26
    reassociate: bool = False
    size: int = 8

    def __call__(self, closed: ClosedJaxpr) -> ClosedJaxpr:
        """The program without these loops."""
        return rewritten(closed, ("scan",), self._attempt)

    def _attempt(self, eqn: JaxprEqn) -> list[JaxprEqn] | None:
        if eqn.effects or eqn.params["length"] < 2:
            return None
        if _jax.close(eqn.params["jaxpr"]).consts:
            return None
        steps = Steps(_with_open_body(eqn), self.memory, self.reassociate)
        if not steps.b.plain:
            return None
        try:
            return self._equations(steps)
        except NotBatchableError:
            return None

    def _equations(self, steps: Steps) -> list[JaxprEqn] | None:
        """What stands for a loop, if a carry of it follows a recurrence that is known."""
        steps.advance()
        before = len(steps.left)
        while steps.left and (self._extremum(steps) or self._affine(steps)):
            steps.advance()
        if len(steps.left) == before:
            return None
        if steps.left or steps.waiting:
            steps.recur()
            steps.advance()
        return steps.finish()

    def _extremum(self, steps: Steps) -> bool:
        """Whether a carry was found to be a running maximum or minimum."""
        makers = {v: e for e in steps.waiting for v in e.outvars}
        for v in steps.left:
            for name in ("max", "min"):
                terms = _terms(v, steps.afters[v], makers, steps.known, name)
                if terms:
                    _solve(steps, {v: _running_extremum(steps, v, name, terms)})
                    return True
        return False

    def _affine(self, steps: Steps) -> bool:
        """Whether carries were found that follow a linear recurrence."""
        afters = {
            v: steps.afters[v]
            for v in steps.left
            if kind_of(v.aval) in ("iufc" if self.reassociate else "iu")
        }

        def is_known(x: Any) -> bool:
            return type(x) is not Var or x in steps.known

        group = group_of(steps.waiting, afters, is_known, self.size)
        if group is not None:
            _solve(steps, _running(steps, group))
        return group is not None


def _with_open_body(eqn: JaxprEqn) -> JaxprEqn:
    """The loop, where programs that its body calls are a part of it."""
    body = _jax.close(eqn.params["jaxpr"])
    found = with_calls_opened(body)
    return eqn if found is body else eqn.replace(params={**eqn.params, "jaxpr": found})


def _solve(steps: Steps, rows: dict[Any, Atom]) -> None:
    """Note what carries are after each step."""
    for v, x in rows.items():
        end = Operand(x, True)
        steps.hand_over(v, end)
        if steps.afters[v] not in steps.afters:
            steps.known[steps.afters[v]] = end
    steps.left = [v for v in steps.left if v not in rows]
    steps.waiting = [e for e in steps.waiting if not all(x in steps.known for x in e.outvars)]


def _terms(
    v: Any, after: Any, makers: dict[Any, JaxprEqn], known: dict[Any, Operand], name: str
) -> list[Any]:
    """What steps take the maximum of a carry with, if that is all they do to it; else nothing."""
    terms: list[Any] = []
    while after is not v:
        eqn = makers.get(after)
        if eqn is None or eqn.primitive.name != name or kind_of(v.aval) not in "iuf":
            return []
        own: list[Any] = [x for x in eqn.invars if type(x) is not Var or x in known]
        rest = [x for x in eqn.invars if type(x) is Var and x not in known]
        if len(own) != 1 or own[0].aval.shape != v.aval.shape:
            return []
        terms += own
        (after,) = rest
    return terms


def _running_extremum(steps: Steps, v: Any, name: str, terms: Sequence[Any]) -> Atom:
    b, combine = steps.b, {"max": lax.max, "min": lax.min}[name]
    rows = [all_rows(b, operand_of(steps.known, x), steps.n) for x in terms]
    whole = functools.reduce(functools.partial(combine, b), rows)
    start = lax.reshape(b, steps.starts[v], (1, *v.aval.shape))
    return combine(b, start, _cumulative(steps, f"cum{name}", whole))


def _cumulative(steps: Steps, name: str, x: Atom) -> Atom:
    params = {"axis": 0, "reverse": steps.eqn.params["reverse"]}
    return steps.b.bind_multiple(_jax.primitive(name), [x], params)[0]


def _running(steps: Steps, group: Group) -> dict[Any, Atom]:
    """The carries of a group after each step."""
    b, n = steps.b, steps.n
    b.source_info = steps.eqn.source_info
    functions = Functions(b, steps.known, n, group)
    if len(group.carries) == 1:
        (v,) = group.carries
        slopes, offset = functions.of(steps.afters[v])
        start = lax.reshape(b, steps.starts[v], (1, *v.aval.shape))
        if offset is not None and slopes[v] is functions.one:
            whole = repeated(b, offset, (n, *v.aval.shape))
            return {v: lax.add(b, start, _cumulative(steps, "cumsum", whole))}
        if offset is None and not group.is_matrix:
            whole = repeated(b, slopes[v], (n, *v.aval.shape))
            return {v: lax.mul(b, start, _cumulative(steps, "cumprod", whole))}
    return _linear(steps, group, functions)


class _Prefixes:
    """What the first steps of a loop do together, for each number of them.

    A function of a group of carries is a dictionary: by two carries, the slope of the first with
    respect to the second; by one, the offset. Each has the steps along the first axis.
    """

    def __init__(self, b: Builder, group: Group) -> None:
        self.b, self.carries, self.is_matrix = b, group.carries, group.is_matrix

    def of(self, functions: _Functions) -> _Functions:
        """The functions of the first step, the first two, and so on."""
        n = next(iter(functions.values())).aval.shape[0]
        if n == 1:
            return functions
        pairs = self._after(self._every(functions, 0, n - 1, 2), self._every(functions, 1, n, 2))
        odd = self.of(pairs)
        first = self._every(functions, 0, 1, 1)
        if n == 2:
            return self._joined(first, odd)
        before = self._every(odd, 0, (n - 1) // 2, 1)
        even = self._joined(first, self._after(before, self._every(functions, 2, n, 2)))
        return {k: self._interleaved(even[k], odd[k]) for k in functions}

    def _after(self, first: _Functions, second: _Functions) -> _Functions:
        """One function after another."""
        b, carries = self.b, self.carries
        by = functools.partial(product, b, is_matrix=self.is_matrix)
        add = functools.partial(lax.add, b)
        found: _Functions = {}
        for u in carries:
            for v in carries:
                products = [by(second[u, w], first[w, v]) for w in carries]
                found[u, v] = functools.reduce(add, products)
            found[u] = functools.reduce(add, [by(second[u, w], first[w]) for w in carries])
            found[u] = lax.add(b, found[u], second[u])
        return found

    def _every(self, functions: _Functions, start: int, stop: int, stride: int) -> _Functions:
        return {k: _rows(self.b, x, start, stop, stride) for k, x in functions.items()}

    def _joined(self, first: _Functions, rest: _Functions) -> _Functions:
        return {k: lax.concatenate(self.b, [first[k], rest[k]], 0) for k in first}

    def _interleaved(self, even: Atom, odd: Atom) -> Atom:
        """Rows in turn: there are as many of both, or one more of the first."""
        b, (m, *row) = self.b, odd.aval.shape
        both = [lax.reshape(b, _rows(b, x, 0, m, 1), (m, 1, *row)) for x in (even, odd)]
        found = lax.reshape(b, lax.concatenate(b, both, 1), (2 * m, *row))
        if even.aval.shape[0] == m:
            return found
        return lax.concatenate(b, [found, _rows(b, even, m, m + 1, 1)], 0)


def _rows(b: Builder, x: Atom, start: int, stop: int, stride: int) -> Atom:
    n, *row = x.aval.shape
    if (start, stop, stride) == (0, n, 1):
        return x
    low, high = [start, *[0] * len(row)], [stop, *row]
    return lax.slice(b, x, low, high, [stride, *[1] * len(row)])


def _linear(steps: Steps, group: Group, functions: Functions) -> dict[Any, Atom]:
    """The carries of a group after each step, where all that is known is that it is affine.

    The first offset takes the carries before the loop in, so the offsets of all prefixes are the
    carries.
    """
    b, n, backwards = steps.b, steps.n, steps.eqn.params["reverse"]
    found = {v: functions.of(steps.afters[v]) for v in group.carries}
    slopes = {
        (u, v): functions.slope(found[u].slopes.get(v))
        for u in group.carries
        for v in group.carries
    }
    shape = (n, *np.broadcast_shapes(*(x.aval.shape[1:] for x in slopes.values())))
    whole: _Functions = {k: repeated(b, x, shape) for k, x in slopes.items()}
    for v in group.carries:
        whole[v] = repeated(b, functions.offset(found[v].offset), (n, *functions.row))
    if backwards:
        whole = {k: lax.rev(b, x, [0]) for k, x in whole.items()}
    first = {k: _rows(b, x, 0, 1, 1) for k, x in whole.items()}
    for u in group.carries:
        for v in group.carries:
            start = lax.reshape(b, steps.starts[v], (1, *v.aval.shape))
            moved = product(b, first[u, v], start, is_matrix=group.is_matrix)
            first[u] = lax.add(b, moved, first[u])
        rest = _rows(b, whole[u], 1, n, 1)
        whole[u] = lax.concatenate(b, [first[u], rest], 0)
    prefixes = _Prefixes(b, group).of(whole)
    return {v: lax.rev(b, prefixes[v], [0]) if backwards else prefixes[v] for v in group.carries}
