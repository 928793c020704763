"""Random graphs over all families: grown node by node, each computed by Aesara as it is added.

Beside every value there are two shadows: what comes of it if each float that is computed is off by
a few units in the last place, to one side and to the other. A node whose shadow departs too far is
not kept: comparing a cancelled sum, sorting what is nearly equal, or taking the root of what is
nearly negative, would tell of rounding alone. What is left is compared within a small multiple of
the distance from the shadows, and integers and booleans exactly. Complex numbers of which a part is
not finite count as one: products of theirs are not defined part by part (C11, annex G.5.1).
"""

from __future__ import annotations

import contextlib
import io
import warnings
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import aesara.scalar.math as aem
import aesara.tensor as at
import numpy as np
from aesara.graph.basic import Constant, Variable
from aesara.tensor import slinalg
from aesara.tensor.fft import IRFFTOp, RFFTOp
from aesara.tensor.fourier import Fourier
from laws import DTYPES, difference, perform

import jaxprgen
from catalogue import FAMILIES
from catalogue.example import Example, outputs_of, variable_of
from catalogue.steps import STEPS
from catalogue.undefined import dtypes_of, is_undefined, kind_of
from jaxprgen._jax import check_jaxpr
from jaxprgen.errors import JaxprGenError
from jaxprgen.interpreters import STEPWISE, Interpreter
from jaxprgen.lowering.traversal import toposort

EXAMPLES = [
    example
    for examples in FAMILIES.values()
    for example in examples
    if not example.rtol  # Else Aesara's is the less exact, and elsewhere wrong.
    and not example.is_drawn
]
UNSTABLE = {id(each) for name in FAMILIES if "algebra" in name for each in FAMILIES[name]}
"""Examples of Ops of which even exact operands may have no unique result, as equal eigenvalues."""
ROUGH = {
    **dict.fromkeys((slinalg.Expm, slinalg.ExpmGrad), 128),
    **dict.fromkeys((RFFTOp, IRFFTOp, Fourier), 1),
    aem.BetaInc: 32,
}
"""Ops whose errors are shares of the largest element, and how many times those of others they are.

SciPy's exponential is off by up to 7e-13 of that, of matrices of two rows already, and since SciPy
1.13 its incomplete beta function in single precision by 1e-4.
"""
SIZES, WEIGHTS = [0, 1, 2, 3], [0.04, 0.2, 0.38, 0.38]
LARGEST, MOST_AXES = 100, 4
"""Elements, and axes, of what is kept."""
OFF = 32
"""By how many units in the last place the shadow of a computed float is off."""
APART = {2.0**-10: 0.05, 2.0**-23: 1e-3, 2.0**-52: 1e-3}
"""How far a shadow may depart, relative to the largest value, by the least precise dtype."""


class Grown(NamedTuple):
    """A variable, its value, the shadows of that, and the largest unit in the last place."""

    variable: Variable
    value: np.ndarray
    shadows: tuple[np.ndarray, np.ndarray]
    unit: float

    @property
    def distance(self) -> float:
        """The largest distance of a shadow from the value, where these are finite."""
        shadows = np.stack(self.shadows)
        value = np.broadcast_to(self.value, shadows.shape)
        both = np.isfinite(value) & np.isfinite(shadows)
        return float(np.max(np.abs(shadows[both] - value[both]), initial=0))

    @property
    def largest(self) -> float:
        """The largest finite absolute value; at least 1."""
        return float(np.max(np.abs(self.value[np.isfinite(self.value)]), initial=1))

    def difference(self, ours: Any) -> str:
        """How another result differs by more than rounding; nothing if it does not."""
        allowed = 0.0
        if self.value.dtype.kind in "fc":
            allowed = 8 * self.distance + 2 * OFF * self.unit * self.largest
        return difference(_whole(ours), _whole(self.value), 0, atol=allowed)


class Graph:
    """A random graph: the same for the same seed."""

    def __init__(self, seed: int, nodes: int | None = None) -> None:
        self.rng = np.random.default_rng(seed)
        self.inputs: list[Variable] = []
        self.args: list[np.ndarray] = []
        self.pool: list[Grown] = []
        for _ in range(self.rng.integers(2, 5)):
            self.add_leaf(self.array())
        wanted = nodes or int(self.rng.integers(10, 61))
        for _ in range(20 * wanted):
            if len(self.pool) >= wanted:
                break
            self.grow()

    @property
    def results(self) -> list[Grown]:
        """What is computed."""
        return [x for x in self.pool if x.variable.owner is not None]

    @property
    def ends(self) -> list[Grown]:
        """What is computed and not read."""
        read = {v for x in self.results for v in x.variable.owner.inputs}
        return [x for x in self.results if x.variable not in read]

    # --- Choices ---------------------------------------------------------------------------

    def choose(self, options: Sequence[Any]) -> Any:
        """One of them."""
        return options[self.rng.integers(len(options))]

    def chance(self, probability: float) -> bool:
        """Whether."""
        return bool(self.rng.random() < probability)

    def shape(self, rank: int | None = None) -> tuple[int, ...]:
        """A shape."""
        rank = int(self.rng.integers(0, 4)) if rank is None else rank
        return tuple(int(self.rng.choice(SIZES, p=WEIGHTS)) for _ in range(rank))

    def array(self, dtype: str | None = None, shape: tuple[int, ...] | None = None) -> np.ndarray:
        """Numbers of moderate size, rarely infinite or none at all."""
        dtype = dtype or self.choose([*DTYPES, "float64", "float64", "float32", "int64"])
        shape = self.shape() if shape is None else shape
        kind = np.dtype(dtype).kind
        if kind in "biu":
            low = 0 if kind in "bu" else -4
            return np.asarray(self.rng.integers(low, 2 if kind == "b" else 6, shape)).astype(dtype)
        x = np.round(self.rng.normal(size=shape) * 2, 2)
        if kind == "c":
            x = x + 1j * np.round(self.rng.normal(size=shape), 2)
        elif x.size and self.chance(0.05):
            x.flat[self.rng.integers(x.size)] = self.choose([np.nan, np.inf, -np.inf])
        return np.asarray(x).astype(dtype)

    # --- Growing -----------------------------------------------------------------------------

    def add_leaf(self, value: np.ndarray) -> Grown:
        """An input, or a constant."""
        if self.chance(0.15):
            variable = at.constant(value)
        else:
            variable = variable_of(value, f"x{len(self.inputs)}")
            self.inputs.append(variable)
            self.args.append(value)
        leaf = Grown(variable, value, (value, value), 0.0)
        self.pool.append(leaf)
        return leaf

    def grow(self) -> None:
        """Add what a step or an example makes of the pool, if it can be kept."""
        key, build, operands = self._example() if self.chance(0.5) else self._step()
        if operands and all(x is not None for x in operands):
            self.apply(key, build, operands)

    def _step(self) -> tuple[Any, Callable[..., Any], list[Grown | None]]:
        step = self.choose(STEPS)
        operands: list[Grown | None] = [self.choose(self.pool) for _ in range(step.arity)]
        return step, lambda *xs: step.build(self, *xs), operands

    def _example(self) -> tuple[Any, Callable[..., Any], list[Grown | None]]:
        example = self.choose(EXAMPLES)
        return example, example.build, [self._operand(example, x) for x in example.operands]

    def _operand(self, example: Example, own: Any) -> Grown | None:
        """What is there of that rank, and of its dtype if it has one; or its own value."""
        if not callable(own):
            return Grown(at.constant(own), own, (own, own), 0.0)
        rank = own(np.dtype(np.float64)).ndim
        taken = [x for x in self.pool if x.value.dtype.name in example.dtypes]
        fitting = [x for x in taken if x.value.ndim == rank]
        if fitting and self.chance(0.9):
            return self.choose(fitting)
        return self.add_leaf(own(np.dtype(self.choose(example.dtypes))))

    def apply(self, key: Any, build: Callable[..., Any], operands: Sequence[Grown]) -> None:
        """Add the outputs of Ops, if Aesara computes them, we do, and rounding leaves them be."""
        variables = [x.variable for x in operands]
        # Some Ops print.
        with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
            warnings.simplefilter("ignore")
            # NumPy 1.26 takes those where there is nothing to take, and says that it will not.
            warnings.filterwarnings("error", "out of bound index", DeprecationWarning)
            # Aesara then says NaN where there is a derivative.
            warnings.filterwarnings("error", "betainc_der did not converge", RuntimeWarning)
            try:
                outputs = [v for v in outputs_of(build, variables) if v not in variables]
                nodes = toposort(tuple(outputs), set(variables))
                values = self._compute(nodes, variables, [x.value for x in operands])
                shadows = self._shadows(key, nodes, operands)
            except Exception:  # What Aesara's Ops raise of operands that they do not take.
                return
        near_zero = any(kind_of(node).__module__ == "aesara.scalar.math" for node in nodes)
        # Operands that are one variable are off alike, as may not be seen in what comes of them.
        rough = max([id(key) in UNSTABLE, *(ROUGH.get(kind_of(node), 0) for node in nodes)])
        unit = max([_unit(nodes), *(x.unit for x in operands)])
        for output in outputs:
            if output.owner is None or not hasattr(output.type, "ndim"):
                continue
            value, parts = values[output], [found[output] for found in shadows]
            if {np.shape(x) for x in parts} != {np.shape(value)}:
                continue
            grown = Grown(
                output, value, self._off(parts, near_zero=near_zero, of_largest=rough), unit
            )
            if _is_kept(grown) and _is_handled(key, operands, output):
                self.pool.append(grown)

    def _shadows(
        self, key: Any, nodes: Sequence[Any], operands: Sequence[Grown]
    ) -> list[dict[Variable, Any]]:
        """What comes of either shadow of the operands."""
        parts: list[Sequence[np.ndarray]] = [x.shadows for x in operands]
        if id(key) in UNSTABLE:
            parts = [self._off(x, of_largest=1) for x in parts]
        variables = [x.variable for x in operands]
        return [self._compute(nodes, variables, xs) for xs in zip(*parts, strict=True)]

    @staticmethod
    def _compute(
        nodes: Sequence[Any], variables: Sequence[Variable], values: Sequence[np.ndarray]
    ) -> dict[Variable, Any]:
        found = dict(zip(variables, values, strict=True))
        for node in nodes:
            inputs = [found[v] if v in found else _data(v) for v in node.inputs]
            if is_undefined(node, inputs):
                raise ValueError("There is no one result.")
            for v, x in zip(node.outputs, perform(node, inputs), strict=True):
                found[v] = np.asarray(x, v.type.dtype) if hasattr(v.type, "dtype") else x
        return found

    def _off(self, shadows: Sequence[Any], *, near_zero: bool = False, of_largest: int = 0):
        """Shadows moved to either side.

        Special functions are off by as much where they are zero, and what matrices are decomposed
        for by shares of the largest element.
        """
        value = shadows[0]
        if not isinstance(value, np.ndarray) or value.dtype.kind not in "fc":
            return tuple(shadows)
        size = OFF * np.finfo(value.dtype).eps
        signs = self.rng.choice([-1, 1], value.shape)
        share = size * signs * self.rng.uniform(0.5, 1, value.shape)
        largest = of_largest * np.max(np.abs(value[np.isfinite(value)]), initial=0)
        moved = []
        with np.errstate(all="ignore"):
            for x, side in zip(shadows, (share, -share), strict=True):
                zeros = side if near_zero else x * np.sign(side)  # Signs of zeros are open.
                off = np.asarray(np.where(x == 0, zeros, x * (1 + side)) + side * largest)
                for part in (off.real, off.imag) if value.dtype.kind == "c" else ():
                    np.copysign(part, side, out=part, where=part == 0)  # To XLA these are, too.
                moved.append(off.astype(value.dtype))
        return tuple(moved)


def _whole(x: Any) -> np.ndarray:
    """Return complex numbers of which a part is not finite as NaN, and others as they are."""
    x = np.asarray(x)
    return np.where(np.isfinite(x), x, np.nan) if x.dtype.kind == "c" else x


def _are_same(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Where numbers are equal, or none at all."""
    same = (x == y) | ((x != x) & (y != y))
    return same | ~(np.isfinite(x) | np.isfinite(y)) if x.dtype.kind == "c" else same


def _data(variable: Any) -> Any:
    return variable.data


def _unit(nodes: Sequence[Any]) -> float:
    """The unit in the last place of what nodes compute with, floats of small integers included."""
    units = [0.0]
    for node in nodes:
        if any(dtype.kind in "fc" for dtype in dtypes_of(node.outputs)):
            taking_part = map(_computed_in, dtypes_of([*node.inputs, *node.outputs]))
            units += [float(np.finfo(dtype).eps) for dtype in taking_part]
    return max(units)


def _computed_in(dtype: np.dtype[Any]) -> np.dtype[Any]:
    if dtype.kind in "fc":
        return dtype
    return np.dtype({1: "float16", 2: "float32"}.get(dtype.itemsize, "float64"))


def _is_kept(grown: Grown) -> bool:
    value = grown.value
    if value.size > LARGEST or value.ndim > MOST_AXES:
        return False
    declared = grown.variable.type.shape
    if value.ndim != len(declared):
        return False  # Aesara counts a mask without axes among those that take one.
    if any(m not in (None, n) for m, n in zip(declared, value.shape, strict=True)):
        return False  # Aesara gives the pseudo-inverse the shape of the matrix.
    if value.dtype.kind in "biu":
        return all(np.array_equal(value, shadow) for shadow in grown.shadows)
    for shadow in grown.shadows:
        both = np.isfinite(value) & np.isfinite(shadow)
        if not (both | _are_same(value, shadow)).all():
            return False
    if grown.largest > (1e3 if value.dtype == np.float16 else 1e6):
        return False
    return grown.distance <= APART.get(grown.unit, 1e-3) * grown.largest


_handled: dict[Any, bool] = {}


def _is_handled(key: Any, operands: Sequence[Grown], output: Variable) -> bool:
    """Whether there is a rule: found out once for each Op and kinds of operands."""
    constant = tuple(isinstance(x.variable, Constant) for x in operands)  # What is folded.
    dtypes = tuple(x.value.dtype.name for x in operands)
    empty = tuple(x.value.size == 0 for x in operands)
    kinds = (id(key), str(output.owner.op), constant, dtypes, empty)
    if kinds not in _handled:
        _handled[kinds] = _has_rule(operands, output)
    return _handled[kinds]


def _has_rule(operands: Sequence[Grown], output: Variable) -> bool:
    inputs = {x.variable: x for x in operands if not isinstance(x.variable, Constant)}
    try:
        f = jaxprgen.compile(list(inputs), output)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            f.jaxpr(*(x.value for x in inputs.values()))
    except JaxprGenError as error:
        # A rule that fails is not left out, for it is to be found.
        return not isinstance(error, NotImplementedError | TypeError)
    return True


BY_EQUATION = Interpreter("BY_EQUATION", programs=STEPWISE)


def differences(graph: Graph, wanted: Sequence[Grown]) -> list[str]:
    """Where results of a graph, computed by one program of XLA's, are not those of Aesara.

    XLA simplifies whole programs in ways of its own: ``0 / x`` is 0 to it where x is 0 as well,
    ``False * x`` where x is infinite or NaN, and ``log(x ** y)`` is ``y * log(abs(x))``. So what
    differs then must do so as well if each equation is computed by itself, those of calls, loops
    and branches included.
    """
    if not wanted:
        return []
    # Without passes: they make formulas more accurate than those of the reference.
    f = jaxprgen.compile(graph.inputs, [x.variable for x in wanted], passes=())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Checks that are left out.
        closed = f.jaxpr(*graph.args)
        check_jaxpr(closed.jaxpr)
        ours = f(*graph.args)
        found = _different(wanted, ours)
        return found and _different(wanted, BY_EQUATION(closed)(*graph.args))


def _different(wanted: Sequence[Grown], ours: Sequence[Any]) -> list[str]:
    found = ((x, x.difference(y)) for x, y in zip(wanted, ours, strict=True))
    return [f"{x.variable.owner} {x.variable.type}: {text}" for x, text in found if text]
