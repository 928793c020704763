"""Compare what a program computes before and after a pass, as far as its class demands.

Programs are evaluated equation by equation, so that no compiler fuses or contracts operations: what
differs is what the pass changed. How much rounding may change a result is measured, not derived:
the program runs again with every result of arithmetic changed in its last place, at random. This is
Monte Carlo arithmetic (Parker, *Monte Carlo arithmetic*, 1997; Vignes, *A stochastic arithmetic for
reliable scientific computation*, 1993).
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxprgen import _jax
from jaxprgen._jax import ClosedJaxpr
from jaxprgen.errors import PassError
from jaxprgen.ir.evaluate import Evaluator, Site
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
        self._results: dict[int, list[Any] | None] = {}
        self._most = 0
        if not self._reason:
            self._reason, self._most = _tried(closed, self._inputs[0])

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
        before, results, self._program, self._results = self._program, self._results, found, {}
        if self._reason or rewrite is None:
            return self._reason
        pair = _Pair(before, found, meaning_of(rewrite), self._most)
        for i, inputs in enumerate(self._inputs):
            if i not in results:
                results[i] = _run(before, inputs.values, _Counting(self._most))
            former = results[i]
            self._results[i] = None if former is None else _compared(rewrite, pair, inputs, former)
        return ""


def _compared(rewrite: Pass, pair: _Pair, inputs: Inputs, former: list[Array]) -> list[Array]:
    """Return the results after a pass; raise an error if they differ from the former ones."""
    after = "The program after the pass"
    try:
        latter = _run(pair.after, inputs.values, _Counting(pair.most_after))
    except Exception as error:
        text = f"{after} fails ({type(error).__name__})"
        raise _error(rewrite, pair, inputs, text) from error
    if latter is None:
        text = f"{after} takes more than {pair.most_after} equations, and may not end"
        raise _error(rewrite, pair, inputs, text)
    if pair.difference(inputs, former, latter) is not None:
        raise _error(rewrite, pair, *pair.shrunk(inputs))
    return latter


def _tried(closed: ClosedJaxpr, inputs: Inputs) -> tuple[str, int]:
    """Return why a program does not run, if so, and how many equations other inputs may take."""
    evaluator = _Counting(MOST_EQUATIONS)
    try:
        found = _run(closed, inputs.values, evaluator)
    except Exception as error:
        return f"JAX does not evaluate it ({type(error).__name__})", 0
    if found is None:
        return "it takes too many equations", 0
    return "", LONGER * (MOST_EQUATIONS - evaluator.left) + 1000


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


class _TooLongError(Exception):
    """Ends a run that takes too many equations."""


class _Counting(Evaluator):
    """Evaluates a program, unless that takes too long."""

    def __init__(self, most: int) -> None:
        super().__init__()
        self.left = most

    def apply(self, site: Site, operands: list[Any]) -> list[Any]:
        self.left -= 1
        if self.left < 0:
            raise _TooLongError
        return super().apply(site, operands)

    def choices(self, x: Any) -> Sequence[int]:
        self.left -= 1  # A loop may have a body without equations.
        if self.left < 0:
            raise _TooLongError
        return super().choices(x)


class _Perturbed(_Counting):
    """Changes every result of arithmetic in its last place, or an underflow by as much."""

    def __init__(self, most: int, seed: int) -> None:
        super().__init__(most)
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
            return self._rng.choice([-1.0, 1.0], numbers.shape)

        with np.errstate(all="ignore"):
            moved = numbers + float(info.eps) * size * signs() + float(least) * signs()
            # A change must not overflow, nor make NaN of infinity.
            moved = np.where(np.isfinite(numbers) & np.isfinite(size), moved, numbers)
            limit = float(info.max)
            moved = np.where(np.isfinite(numbers), np.clip(moved, -limit, limit), numbers)
            if x.dtype.kind == "c":
                return jnp.asarray((moved[..., 0] + 1j * moved[..., 1]).astype(x.dtype))
            return np.asarray(moved).astype(x.dtype)


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


def _run(closed: ClosedJaxpr, values: Sequence[Any], evaluator: Evaluator) -> list[Array] | None:
    """Return the results of a program, or None if a loop takes too long."""
    try:
        with _jax.eval_context():
            given = [x if _jax.is_key(x) else jnp.asarray(x) for x in values]
            return [*map(_numbers, evaluator.run(closed, given))]
    except _TooLongError:
        return None


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

    def difference(
        self, inputs: Inputs, former: list[Array] | None, latter: list[Array] | None
    ) -> Difference | None:
        """Return the first difference of results that the class does not allow, if there is one."""
        if former is None or latter is None:
            return None
        same = [_same(x, y) for x, y in zip(former, latter, strict=True)]
        if all(x.all() for x in same):
            return None
        if self.meaning is Meaning.SAME_REALS and not inputs.is_benign:
            return None
        if self.meaning is not Meaning.SAME_BITS:
            same = [
                x | _close(a, b, _least(a, _eps(aval)))
                for x, a, b, aval in zip(same, former, latter, self.before.out_avals, strict=True)
            ]
            if all(x.all() for x in same):
                return None
        nothing: list[Any] = [0.0] * len(former)
        old = new = nothing
        if self.meaning is not Meaning.SAME_BITS:
            old = _reaches(self.before, inputs, former, self.most_after)
        if self.meaning in (Meaning.BETTER, Meaning.SAME_REALS):
            new = _reaches(self.after, inputs, latter, self.most_after)
        for i, aval in enumerate(self.before.out_avals):
            x, y = former[i], latter[i]
            bound, is_wrong = self._compared(x, y, old[i], new[i], _eps(aval))
            for place in map(tuple, np.argwhere(is_wrong & ~same[i])[:1].tolist()):
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

    def shrunk(self, inputs: Inputs) -> tuple[Inputs, Difference]:
        """Return simpler inputs on which the programs differ, and the difference."""
        found = self._tried(inputs)
        assert found is not None
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
            other = self._tried(inputs._replace(values=values))
            if other is not None:
                inputs, found = inputs._replace(values=values), other
            trials += 1
            if trials == MOST_TRIALS:
                break
        return inputs, found

    def _tried(self, inputs: Inputs) -> Difference | None:
        former = _run(self.before, inputs.values, _Counting(self.most))
        latter = _run(self.after, inputs.values, _Counting(self.most_after))
        return self.difference(inputs, former, latter)


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


def _reaches(closed: ClosedJaxpr, inputs: Inputs, results: list[Array], most: int) -> list[Array]:
    """Return how far rounding errors change each result; infinitely far if there is no telling."""
    found: list[Any] = [0.0] * len(results)
    for seed in range(RUNS):
        others = _run(closed, inputs.values, _Perturbed(most, seed))
        for i, x in enumerate(results):
            other = np.full(x.shape, np.nan) if others is None else others[i]
            with np.errstate(all="ignore"):
                distance = abs(other - x) if x.dtype.kind == "f" else np.inf
            moved = np.where(_same(x, other), 0.0, np.where(np.isnan(distance), np.inf, distance))
            found[i] = np.maximum(found[i], moved)
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
