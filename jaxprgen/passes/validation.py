"""Compare what a program computes before and after a pass, as far as its class demands.

Programs are evaluated equation by equation, so that no compiler fuses or contracts operations: what
differs is what the pass changed. Each equation is evaluated for all inputs at once, by a compiled
loop over them, which gives the bits that it gives for each input alone. How much rounding may
change a result is measured, not derived: the program runs again with every result of arithmetic
changed in its last place, at random. This is Monte Carlo arithmetic (Parker, *Monte Carlo
arithmetic*, 1997; Vignes, *A stochastic arithmetic for reliable scientific computation*, 1993).
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np

from jaxprgen import _jax
from jaxprgen._jax import ClosedJaxpr, JaxprEqn
from jaxprgen.errors import PassError
from jaxprgen.ir.evaluate import Evaluation, Evaluator, Site, while_parts
from jaxprgen.ir.inner import inner_programs
from jaxprgen.passes.constant_folding import STRUCTURE
from jaxprgen.passes.inputs import Array, Inputs, inputs_of
from jaxprgen.passes.meaning import Meaning, Pass, meaning_of, name_of

MARGIN = 1000
"""How many times as far as its own rounding errors reach a result may differ from the former.

For dtypes of 16 bits, these factors are smaller: see `_times`.
"""
WORSE = 30
"""How many times as far the rounding errors of a *better* result may reach."""
ULPS = 64
"""How many units in the last place results may always differ where terms are reordered."""
RUNS = 4
"""How many times a program runs with its results changed at random."""
MOST_EQUATIONS = 20_000
"""How many equations may be evaluated for the first inputs. Longer programs are not compared."""
LONGER = 10
"""How many times as many, and a thousand, may be evaluated for other inputs of the program.

Loops may not end for awkward numbers.
"""
LONGER_AFTER = 5
"""How many times as many again may be evaluated after a pass, which must keep an end."""
MOST_BYTES = 2**26
"""How many bytes the values of a program may take for all inputs that are computed together."""
MOST_TRIALS = 80
"""How many simpler inputs are tried when one shows a difference."""

_EXACT = frozenset(
    [
        *("abs", "argmax", "argmin", "broadcast_in_dim", "ceil", "clamp"),
        *("concatenate", "copy", "copy_p", "cummax", "cummin", "device_put"),
        *("dynamic_slice", "dynamic_update_slice", "expand_dims", "floor", "gather"),
        *("imag", "iota", "max", "min", "neg", "optimization_barrier", "pad", "real"),
        *("reduce_max", "reduce_min", "reshape", "rev", "round", "scatter"),
        *("select_n", "sign", "slice", "sort", "split", "squeeze", "stop_gradient"),
        *("top_k", "transpose"),
    ]
)
"""Primitives whose results are exact."""
_SUMS = frozenset(("reduce_sum", "cumsum", "dot_general", "conv_general_dilated", "scatter-add"))
"""Primitives that add many terms, in an order which JAX leaves open."""

_DEFINITIONS = {
    Meaning.SAME_BITS: "every bit stays",
    Meaning.SAME_TERMS: "sums are added in another order; nothing overflows or cancels that did "
    "not before",
    Meaning.BETTER: "what is finite gets no larger error",
    Meaning.SAME_REALS: "equal on paper; only moderate numbers are compared",
}


class Validation:
    """Holds the programs between passes to the classes of the passes.

    Parameters
    ----------
    closed : ClosedJaxpr
        The program before the first pass.
    """

    def __init__(self, closed: ClosedJaxpr) -> None:
        self._program = closed
        self._reason = why_not(closed)
        self._inputs = [] if self._reason else [*inputs_of(closed.in_avals)]
        self._results: _Results = []
        self._most = 0
        if not self._reason:
            self._reason, self._most = _tried(closed, self._inputs)

    def step(self, rewrite: Pass | None, found: ClosedJaxpr) -> str:
        """Compare the program with what a pass made of it, and go on from there.

        Parameters
        ----------
        rewrite : Pass or None
            The pass. None compares nothing.
        found : ClosedJaxpr
            The program that it returned.

        Returns
        -------
        str
            Why the programs were not compared; empty if they were.

        Raises
        ------
        PassError
            The programs differ by more than the pass's class allows.
        """
        before, former, self._program, self._results = self._program, self._results, found, []
        if self._reason or rewrite is None:
            return self._reason
        pair = _Pair(before, found, meaning_of(rewrite), self._most)
        former = former or _run(before, self._inputs, self._most)
        self._results = _compared(rewrite, pair, self._inputs, former)
        return ""


def _compared(rewrite: Pass, pair: _Pair, inputs: Sequence[Inputs], former: _Results) -> _Results:
    """Return the results after a pass; raise an error if they differ from the former ones."""
    after = "The program after the pass"
    try:
        latter = _run(pair.after, inputs, pair.most_after)
    except Exception as error:
        text = f"{after} fails ({type(error).__name__})"
        raise _error(rewrite, pair, inputs[0], text) from error
    differences = pair.differences(inputs, former, latter)
    for each, old, new, difference in zip(inputs, former, latter, differences, strict=True):
        if old is not None and new is None:
            text = f"{after} takes more than {pair.most_after} equations, and may not end"
            raise _error(rewrite, pair, each, text)
        if difference is not None:
            raise _error(rewrite, pair, *pair.shrunk(each, difference, len(inputs)))
    return [None if old is None else new for old, new in zip(former, latter, strict=True)]


def _tried(closed: ClosedJaxpr, inputs: Sequence[Inputs]) -> tuple[str, int]:
    """Return why a program does not run, if so, and how many equations other inputs may take."""
    lanes = _Lanes(len(inputs), MOST_EQUATIONS)
    try:
        (found, *_) = lanes.results(closed, [inputs[0]] * len(inputs))
    except Exception as error:
        return f"JAX does not evaluate it ({type(error).__name__})", 0
    if found is None:
        return "it takes too many equations", 0
    return "", LONGER * (MOST_EQUATIONS - int(lanes.left[0])) + 1000


def why_not(closed: ClosedJaxpr) -> str:
    """Return why a program cannot be evaluated equation by equation on any input, or nothing."""
    primitives = {name for eqn in closed.jaxpr.eqns for name in _jax.primitives_of(eqn)}
    if closed.jaxpr.effects:
        return "it has effects"
    if "pure_callback" in primitives:
        return "it calls Python"
    avals: Any = [*closed.in_avals, *(v.aval for v in closed.jaxpr.constvars)]
    if not all(isinstance(n, int) for aval in avals for n in getattr(aval, "shape", ())):
        return "its sizes are symbolic"
    if not all(hasattr(aval, "dtype") for aval in avals):
        return "an input is no array"
    if any(not aval.sharding.mesh.empty for aval in avals) or "shard_map" in primitives:
        return "its values are split over a mesh"
    if any(isinstance(x, _jax.Tracer) for x in closed.consts):
        return "JAX is tracing its constants"
    return ""


# --- Running programs -----------------------------------------------------------------------


_Results: TypeAlias = list["list[Array] | None"]
"""For each of several inputs, the outputs of a program, or None if it takes too many equations."""


class _TooLongError(Exception):
    """Ends a run that takes too many equations for all inputs."""


class _Lanes(Evaluator):
    """Evaluates a program for several inputs at once, unless that takes too long.

    The first axis of each value is that of the inputs, the *lanes*. Where they take different
    branches, or leave a loop at different steps, the equations run for all of them, and the lanes
    that are elsewhere keep their values.

    Parameters
    ----------
    count : int
        The number of lanes.
    most : int
        How many equations each of them may take.

    Attributes
    ----------
    left : (count,) int
        How many are left to each lane; negative if it took too many.
    """

    def __init__(self, count: int, most: int) -> None:
        super().__init__()
        self.left = np.full(count, most)
        self._here = np.full(count, True)

    def results(self, closed: ClosedJaxpr, inputs: Sequence[Inputs]) -> _Results:
        """Return the results of a program for inputs, one for each lane."""
        with _jax.eval_context(), jax.debug_nans(False), jax.debug_infs(False):
            columns = zip(*(each.values for each in inputs), strict=True)
            try:
                found = self.run(closed, [*map(_stacked, columns)])
            except _TooLongError:
                return [None] * len(inputs)
        outputs = [*map(_numbers, found)]
        return [
            [x[i] for x in outputs] if left >= 0 else None
            for i, left in enumerate(self.left.tolist())
        ]

    @property
    def _active(self) -> Array:
        """Which lanes are here, and may go on."""
        return np.asarray(self._here & (self.left >= 0))

    def _count(self) -> None:
        self.left -= self._active
        if (self.left < 0).all():
            raise _TooLongError

    def lift(self, x: Any, aval: Any) -> Any:
        count = len(self.left)
        if _jax.is_key(x) or np.ndim(x):
            return jnp.broadcast_to(x, (count, *x.shape))
        return _in_lanes(np.asarray(x, aval.dtype).tobytes(), aval.dtype, count)

    def apply(self, site: Site, operands: list[Any]) -> list[Any]:
        self._count()
        eqn: Any = site.eqn
        if eqn.primitive.name in _MOVES and not _jax.is_key(operands[0]):
            move = functools.partial(STRUCTURE[eqn.primitive.name], eqn.params)
            return [np.stack([*map(move, np.asarray(operands[0]))])]
        try:
            compiled = _compiled(_Kind(eqn, len(self.left)))
        except TypeError:  # A parameter is not hashable.
            compiled = _compiled.__wrapped__(_Kind(eqn, len(self.left)))
        return compiled(operands)

    def slice(self, site: Site, x: Any, aval: Any, index: int, iteration: int) -> Any:
        return _row(x, index)

    def stack(self, site: Site, slices: Sequence[Any], aval: Any) -> Any:
        return jnp.stack(slices, 1)

    def _cond(self, site: Site, operands: list[Any]) -> Evaluation:
        which, *rest = operands
        branches = [inner.program for inner in inner_programs(site.eqn)]
        chosen = np.clip(np.asarray(which).astype(int), 0, len(branches) - 1)
        here, found = self._here, list[Any]()
        for i in sorted({*chosen[self._active].tolist()} or {0}):
            self._here = here & (chosen == i)
            results = yield from self.steps(branches[i], rest, site.inside())
            found = self._merged(found or results, results)
        self._here = here
        return found

    def _while(self, site: Site, operands: list[Any]) -> Evaluation:
        loop = while_parts(site.eqn, operands)
        carry, here = loop.carry, self._here
        for i in itertools.count():
            within, given = site.inside(i), [*loop.condition_constants, *carry]
            (goes_on,) = yield from self.steps(loop.condition, given, within)
            self._count()  # A loop may have a body without equations.
            self._here = self._here & np.asarray(goes_on, bool)
            if not self._active.any():
                break
            given = [*loop.body_constants, *carry]
            carry = self._merged(carry, (yield from self.steps(loop.body, given, within)))
        self._here = here
        return carry

    def _merged(self, old: list[Any], new: list[Any]) -> list[Any]:
        """Return the new values in the lanes that are here, and the old ones in the others."""
        if self._here.all():
            return new
        return [_chosen(self._here, x, y) for x, y in zip(old, new, strict=True)]


class _Perturbed(_Lanes):
    """Changes every result of arithmetic in its last place, or an underflow by as much.

    All lanes are changed alike.
    """

    def __init__(self, count: int, most: int, seed: int) -> None:
        super().__init__(count, most)
        self._rng = np.random.default_rng(seed)

    def apply(self, site: Site, operands: list[Any]) -> list[Any]:
        results = super().apply(site, operands)
        name = site.eqn.primitive.name
        if name in _EXACT:
            return results
        if name == "convert_element_type" and _holds(results[0].dtype, operands[0].dtype):
            return results
        sizes: list[Any] = [abs(_numbers(x)) if _is_inexact(x) else None for x in results]
        if name in _SUMS and _is_inexact(results[0]):
            terms = [abs(x) if _is_inexact(x) else x for x in map(_as_array, operands)]
            same = [x.astype(y.dtype) for x, y in zip(terms, operands, strict=True)]
            sizes = [abs(_numbers(x)) for x in super().apply(site, same)]
        return [
            x if size is None else self._changed(x, size)
            for x, size in zip(results, sizes, strict=True)
        ]

    def _changed(self, x: Any, size: Array) -> Any:
        info = jnp.finfo(x.dtype)
        # XLA flushes subnormal numbers of these to zero.
        least = info.tiny if info.bits >= 32 else info.smallest_subnormal
        numbers = _numbers(x)

        def signs() -> Array:
            return self._rng.choice([-1.0, 1.0], numbers.shape[1:])

        with np.errstate(all="ignore"):
            moved = numbers + float(info.eps) * size * signs() + float(least) * signs()
            # A change must not overflow, nor make NaN of infinity.
            moved = np.where(np.isfinite(numbers) & np.isfinite(size), moved, numbers)
            limit = float(info.max)
            moved = np.where(np.isfinite(numbers), np.clip(moved, -limit, limit), numbers)
            if x.dtype.kind == "c":
                return jnp.asarray((moved[..., 0] + 1j * moved[..., 1]).astype(x.dtype))
            return np.asarray(moved).astype(x.dtype)


_MOVES = ("slice", "reshape", "squeeze", "broadcast_in_dim")
"""Equations that move elements at known places, which need no compiler. They are of many kinds."""


class _Kind:
    """An equation for some lanes; equal if the primitive and its parameters are."""

    def __init__(self, eqn: JaxprEqn, count: int) -> None:
        self.eqn, self.count = eqn, count
        self._key = eqn.primitive, tuple(eqn.params.items()), count

    def __hash__(self) -> int:
        return hash(self._key)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Kind) and self._key == other._key


@functools.lru_cache(4096)
def _compiled(kind: _Kind) -> Callable[[list[Any]], list[Any]]:
    """Return a function that evaluates equations of a kind, one lane after the other."""

    def step(_: None, operands: list[Any]) -> tuple[None, list[Any]]:
        with _jax.equation_context(kind.eqn):
            found = _jax.bind_eqn(kind.eqn, operands)
        return None, found if kind.eqn.primitive.multiple_results else [found]

    return jax.jit(lambda operands: jax.lax.scan(step, None, operands, length=kind.count)[1])


@functools.lru_cache(4096)
def _in_lanes(number: bytes, dtype: Any, count: int) -> Any:
    return jnp.broadcast_to(np.frombuffer(number, dtype), (count,))


@jax.jit
def _row(x: Any, index: int) -> Any:
    return jax.lax.dynamic_index_in_dim(x, index, 1, keepdims=False)


@jax.jit
def _chosen(here: Any, old: Any, new: Any) -> Any:
    return jnp.where(here.reshape(-1, *[1] * (new.ndim - 1)), new, old)


def _stacked(values: Sequence[Any]) -> Any:
    """Return a value of one input in all lanes."""
    return jnp.stack(values) if _jax.is_key(values[0]) else np.stack(values)


def _as_array(x: Any) -> Any:
    return x if _jax.is_key(x) else np.asarray(x)


def _is_inexact(x: Any) -> bool:
    return not _jax.is_key(x) and bool(jnp.issubdtype(x.dtype, jnp.inexact))


def _holds(dtype: Any, other: Any) -> bool:
    """Return whether a dtype holds all numbers of another one."""
    return not jnp.issubdtype(dtype, jnp.inexact) or jnp.promote_types(dtype, other) == dtype


def _numbers(x: Any) -> Array:
    """Return numbers as integers or float64, complex ones as two parts on a last axis."""
    x = np.asarray(jax.random.key_data(x) if _jax.is_key(x) else x)
    if x.dtype.kind == "c":
        x = np.stack([x.real, x.imag], -1)
    return x.astype(np.float64) if jnp.issubdtype(x.dtype, jnp.floating) else x


def _run(
    closed: ClosedJaxpr, inputs: Sequence[Inputs], most: int, seed: int | None = None
) -> _Results:
    """Return the results of a program for inputs, as far as it takes no more equations.

    With a seed, every result of arithmetic is changed at random.
    """
    nbytes = sum(_jax.nbytes(v.aval) for eqn in closed.jaxpr.eqns for v in eqn.outvars)
    count = int(max(1, min(len(inputs), MOST_BYTES // max(nbytes, 1))))
    found: _Results = []
    for start in range(0, len(inputs), count):
        some = inputs[start : start + count]
        given = [*some, *[some[-1]] * (count - len(some))]
        lanes = _Lanes(count, most) if seed is None else _Perturbed(count, most, seed)
        found += lanes.results(closed, given)[: len(some)]
    return found


# --- Comparing results ------------------------------------------------------------------------


class Difference(NamedTuple):
    """The first result that differs by more than a class of passes allows.

    Attributes
    ----------
    output : int
        Its position among the outputs.
    place : tuple of int
        The position in the array; on the last axis, complex numbers have two parts.
    former, latter : scalar
        The numbers before and after the pass.
    bound : float
        How far they may differ.
    """

    output: int
    place: tuple[int, ...]
    former: Any
    latter: Any
    bound: float


class _Pair(NamedTuple):
    """The programs before and after a pass, and the class of the pass.

    ``most`` is how many equations the former may take.
    """

    before: ClosedJaxpr
    after: ClosedJaxpr
    meaning: Meaning
    most: int

    @property
    def most_after(self) -> int:
        """How many equations the latter may take."""
        return LONGER_AFTER * self.most

    def differences(
        self, inputs: Sequence[Inputs], former: _Results, latter: _Results
    ) -> list[Difference | None]:
        """Return for each input the first difference that the class does not allow, if any."""
        suspect = [
            old is not None and new is not None and self._may_differ(each, old, new)
            for each, old, new in zip(inputs, former, latter, strict=True)
        ]
        if not any(suspect):
            return [None] * len(inputs)
        nothing: list[list[Any]] = [[0.0] * len(self.before.out_avals)] * len(inputs)
        before = after = nothing
        if self.meaning is not Meaning.SAME_BITS:
            before = _reaches(self.before, inputs, former, self.most_after)
        if self.meaning in (Meaning.BETTER, Meaning.SAME_REALS):
            after = _reaches(self.after, inputs, latter, self.most_after)
        found = zip(suspect, former, latter, before, after, strict=True)
        return [self._difference(*rest) if suspected else None for suspected, *rest in found]

    def _may_differ(self, inputs: Inputs, former: list[Array], latter: list[Array]) -> bool:
        """Return whether results differ, by so much that it has to be weighed."""
        same = [_same(x, y) for x, y in zip(former, latter, strict=True)]
        if all(x.all() for x in same):
            return False
        if self.meaning is Meaning.SAME_BITS:
            return True
        if self.meaning is Meaning.SAME_REALS and not inputs.is_benign:
            return False
        pairs = zip(same, former, latter, self.before.out_avals, strict=True)
        return not all((x | _nearly(a, b, _eps(aval))).all() for x, a, b, aval in pairs)

    def _difference(self, former: Any, latter: Any, old: Any, new: Any) -> Difference | None:
        """Return the first difference of results that the class does not allow, if there is one.

        ``old`` and ``new`` are how far the rounding errors of the programs reach.
        """
        for i, aval in enumerate(self.before.out_avals):
            x, y, eps = former[i], latter[i], _eps(aval)
            same = _same(x, y)
            if self.meaning is not Meaning.SAME_BITS:
                same |= _nearly(x, y, eps)
            bound, is_wrong = self._compared(x, y, old[i], new[i], eps)
            for place in map(tuple, np.argwhere(is_wrong & ~same)[:1].tolist()):
                return Difference(i, place, x[place], y[place], float(bound[place]))
        return None

    def _compared(
        self, x: Array, y: Array, old: Array, new: Array, eps: float
    ) -> tuple[Array, Array]:
        """Return how far one result may differ, and where it differs by more.

        ``old`` and ``new`` are how far the rounding errors of the programs reach.
        """
        if self.meaning is Meaning.SAME_BITS:
            return np.zeros(x.shape), np.full(x.shape, True)
        if x.dtype.kind != "f":
            return np.zeros(x.shape), np.asarray(old) == 0
        with np.errstate(all="ignore"):
            reach = old + new if self.meaning is Meaning.SAME_REALS else old
            least = _least(x, eps)
            bound = _times(MARGIN, eps) * reach + least
            is_wrong = np.isfinite(x) & ~_close(x, y, bound) & np.isfinite(bound)
            if self.meaning is Meaning.SAME_TERMS:
                is_wrong |= np.isnan(x) & np.isfinite(y) & (old == 0)
            if self.meaning is Meaning.BETTER:
                is_wrong |= (
                    np.isfinite(x) & np.isfinite(new) & (new > _times(WORSE, eps) * old + least)
                )
        return bound, is_wrong

    def shrunk(self, inputs: Inputs, found: Difference, count: int) -> tuple[Inputs, Difference]:
        """Return simpler inputs on which the programs differ, and the difference.

        They are tried in as many lanes as before, for which equations are compiled.
        """
        steps = [
            (i, step)
            for i, x in enumerate(inputs.values)
            if not _jax.is_key(x)
            for step in enumerate(_simplifications(x.size))
        ]
        # The whole arrays first, then ever smaller parts of them.
        trials = 0
        for i, (_, simplify) in sorted(steps, key=lambda step: step[1][0]):
            simpler = simplify(inputs.values[i])
            if simpler.tobytes() == inputs.values[i].tobytes():
                continue
            values = [*inputs.values[:i], simpler, *inputs.values[i + 1 :]]
            other = self._tried([inputs._replace(values=values)] * count)
            if other is not None:
                inputs, found = inputs._replace(values=values), other
            trials += 1
            if trials == MOST_TRIALS:
                break
        return inputs, found

    def _tried(self, inputs: Sequence[Inputs]) -> Difference | None:
        former = _run(self.before, inputs, self.most)
        latter = _run(self.after, inputs, self.most_after)
        return self.differences(inputs, former, latter)[0]


def _same(x: Array, y: Array) -> Array:
    """Return where results are the same in every bit; all NaNs are equal."""
    if x.dtype.kind != "f":
        return np.asarray(x == y)
    equal = (x == y) & (np.signbit(x) == np.signbit(y))
    return np.asarray(equal | (np.isnan(x) & np.isnan(y)))


def _close(x: Array, y: Array, bound: Array) -> Array:
    """Return where results are finite and differ by no more than a bound."""
    if x.dtype.kind != "f":
        return np.asarray(x == y)
    with np.errstate(all="ignore"):
        return np.asarray((abs(x - y) <= bound) & np.isfinite(y))


def _eps(aval: Any) -> float:
    """Return the distance from 1 of the next number of a type, or 0 if it has no fractions."""
    dtype = aval.dtype
    return float(jnp.finfo(dtype).eps) if jnp.issubdtype(dtype, jnp.inexact) else 0.0


def _times(factor: float, eps: float) -> float:
    """Return a factor of errors, smaller if it would allow a number to change by a twentieth."""
    return min(factor, max(4, 0.05 / eps))


def _least(x: Array, eps: float) -> Array:
    """Return how far a result may always differ: some units in the last place, if it has any."""
    with np.errstate(all="ignore"):
        return np.asarray(_times(ULPS, eps) * eps * abs(x)) if eps else np.zeros(x.shape)


def _nearly(x: Array, y: Array, eps: float) -> Array:
    """Return where results differ by no more than they always may."""
    return _close(x, y, _least(x, eps))


def _reaches(
    closed: ClosedJaxpr, inputs: Sequence[Inputs], results: _Results, most: int
) -> list[list[Any]]:
    """Return how far rounding errors change each result; infinitely far if there is no telling."""
    found: list[list[Any]] = [[0.0] * len(x or ()) for x in results]
    for seed in range(RUNS):
        runs = _run(closed, inputs, most, seed)
        for reach, former, others in zip(found, results, runs, strict=True):
            for i, x in enumerate(former or ()):
                other = np.full(x.shape, np.nan) if others is None else others[i]
                with np.errstate(all="ignore"):
                    distance = abs(other - x) if x.dtype.kind == "f" else np.inf
                moved = np.where(np.isnan(distance), np.inf, distance)
                reach[i] = np.maximum(reach[i], np.where(_same(x, other), 0.0, moved))
    return found


# --- Errors -----------------------------------------------------------------------------------


def _simplifications(size: int) -> Iterator[Callable[[Array], Array]]:
    """Yield functions that make an array simpler: more zeros and ones, then fewer digits."""

    def filled(number: int, start: int, stop: int) -> Callable[[Array], Array]:
        def simplify(x: Array) -> Array:
            flat = x.flatten()
            flat[start:stop] = (flat[start:stop] != 0) * number  # Zeros stay.
            return flat.reshape(x.shape)

        return simplify

    step = size
    while step and size // step <= 32:
        for start in range(0, size, step):
            yield from (filled(number, start, start + step) for number in (0, 1))
        step //= 2
    for digits in (1, 2, 4):
        yield functools.partial(_rounded, digits=digits)


def _rounded(x: Array, digits: int) -> Array:
    """Return an array with fewer significant digits."""
    if not _is_inexact(x) or x.dtype.kind == "c":
        return x
    numbers = [float(f"{number:.{digits - 1}e}") for number in x.astype(np.float64).flat]
    with np.errstate(all="ignore"):
        return np.asarray(numbers).reshape(x.shape).astype(x.dtype)


def _error(rewrite: Pass, pair: _Pair, inputs: Inputs, found: Difference | str) -> PassError:
    """Return the error of a pass that changes more than its class allows."""
    debug = pair.before.jaxpr.debug_info
    count = len(inputs.values)
    names = debug.arg_names if debug.arg_names and len(debug.arg_names) == count else [""] * count
    given = [
        f"  {name or f'input {i}'}: {aval.str_short()} = {_text(x)}"
        for i, (name, aval, x) in enumerate(
            zip(names, pair.before.in_avals, inputs.values, strict=True)
        )
    ]
    if isinstance(found, Difference):
        place = f" at {list(found.place)}" if found.place else ""
        exact = pair.meaning is Meaning.SAME_BITS
        bound = "" if exact else f", which may differ by {found.bound:.2g}"
        found = (
            f"Output {found.output}{place} is {found.former} before the pass and "
            f"{found.latter} after it{bound}"
        )
    return PassError(
        "\n".join(
            [
                f"The pass {name_of(rewrite)} changed what the program computes. Its class is "
                f"{pair.meaning.value}: {_DEFINITIONS[pair.meaning]}.",
                f"{found}, for",
                *(given or ["  no inputs"]),
                "Correct the pass, or declare as its attribute `meaning` a class of "
                "jaxprgen.passes.Meaning that allows this.",
            ]
        )
    )


def _text(x: Any) -> str:
    """Write the elements of an array in order, equal ones together."""
    if _jax.is_key(x):
        return f"key data {np.asarray(jax.random.key_data(x)).tolist()}"
    runs = [(text, len([*same])) for text, same in itertools.groupby(map(str, x.flat))]
    parts = [text if n == 1 else f"{n} × {text}" for text, n in runs]
    return ", ".join(parts if len(parts) < 20 else [*parts[:10], "…", *parts[-9:]]) or "empty"
