"""The figures that have goals: ratios of measured times and sizes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from compare.records import Estimate, Records
from compare.workloads import WORKLOADS

NAMES = {
    "jaxprgen": "jaxprgen",
    "by hand": "by hand",
    "aesara": "Aesara",
    "pytensor": "PyTensor",
    "numpyro": "NumPyro",
    "jaxprgen pytensor": "jaxprgen, PyTensor's graph",
    "numba": "PyTensor, Numba",
    "c": "PyTensor, C",
}
"""The names of systems on the page."""
WHOLE = [name for name, workload in WORKLOADS.items() if not workload.steps]
"""The workloads of which everything is measured."""
LOOPS = ("scan",)
"""The workloads that differentiate a loop with Aesara."""
SHORT = 200
"""Microseconds of the calling thread beyond which a call hides its overhead."""

Quantity = Callable[..., float | None]
"""Takes records of one round. It returns None where there is nothing to compare."""


class Figure(NamedTuple):
    """A ratio or difference with its goal.

    Attributes
    ----------
    text
        The name of the figure.
    goal
        The bound.
    at_most
        Whether the bound is an upper bound.
    reason
        Why the goal is missed, where it is.
    values
        The estimates, by workload.
    """

    text: str
    goal: float
    at_most: bool
    reason: str
    values: dict[str, Estimate]

    def holds(self, value: float) -> bool:
        """Return whether a value, rounded as shown, is within the bound."""
        shown = float(digits(value))
        return shown <= self.goal if self.at_most else shown >= self.goal


def digits(value: float) -> str:
    """Write a number with two or three digits."""
    places = 0 if abs(value) >= 100 else 1 if abs(value) >= 10 else 2
    return f"{value:.{places}f}"


def first(record: dict[str, Any]) -> float:
    """Return the seconds from the graph to the first number."""
    return record["first"]


def before_lowering(record: dict[str, Any]) -> float:
    """Return the seconds before JAX begins to lower a program."""
    return sum(s for stage, s in record["stages"].items() if stage not in ("lowering", "XLA"))


def without_xla(record: dict[str, Any]) -> float:
    """Return the seconds from the graph to the first number, without XLA."""
    return record["first"] - record["stages"]["XLA"]


def equations(record: dict[str, Any]) -> float:
    """Return the number of equations of the program."""
    return record["equations"]


def ratio(quantity: Quantity) -> Quantity:
    """Return the quantity of one record over that of another."""
    return lambda one, other: quantity(one) / quantity(other)  # type: ignore[operator]


def emission(record: dict[str, Any]) -> float:
    """Return the share of emission and passes in the time to the first number."""
    return (record["stages"]["emission"] + record["stages"]["passes"]) / record["first"]


def waiting(ours: dict[str, Any], by_hand: dict[str, Any]) -> float:
    """Return our time before lowering, divided by the time of lowering and XLA by hand."""
    return before_lowering(ours) / (by_hand["stages"]["lowering"] + by_hand["stages"]["XLA"])


def called(of: str) -> Quantity:
    """Return the time of a call over that of one by hand, which were made in turn."""

    def quantity(record: dict[str, Any]) -> float | None:
        calls = record["in turn"]
        return calls[of]["wall"] / calls["by hand"]["wall"] if of in calls else None

    return quantity


def above_bare(record: dict[str, Any]) -> float | None:
    """Return the extra microseconds of the calling thread, if calls are short."""
    calls = record["in turn"]
    return calls["above bare"] if "bare" in calls and calls["bare"]["thread"] < SHORT else None


def figures(records: Records) -> list[Figure]:
    """Return all figures that have measured values."""

    def values(quantity: Quantity, *others: str, names: list[str] = WHOLE) -> dict[str, Estimate]:
        """Estimate a quantity of ours and of others, by workload."""
        systems = ["jaxprgen", *others]
        found = {name: records.estimate(name, systems, quantity) for name in names}
        return {name: value for name, value in found.items() if value}

    def sooner(ours: dict[str, Any], other: dict[str, Any]) -> float:
        return first(other) / first(ours)

    plain = [name for name in WHOLE if name not in LOOPS]
    found = [
        Figure(
            "emission and passes ÷ all to the first number", 0.1, True, UNROLLED, values(emission)
        ),
        Figure(
            "first number of the chain: Aesara ÷ ours",
            15,
            False,
            XLA,
            values(sooner, "aesara", names=["chain"]),
        ),
        Figure(
            "first number of AR(1), 80 steps unrolled: PyTensor ÷ ours",
            6,
            False,
            XLA,
            values(sooner, "pytensor", names=["unrolled-80"]),
        ),
        Figure(
            "all before lowering ÷ lowering and XLA by hand",
            0.15,
            True,
            SMALL,
            values(waiting, "by hand"),
        ),
        Figure(
            "a call: ours ÷ by hand",
            1.05,
            True,
            PYTHON,
            values(called("jaxprgen")),
        ),
        Figure("a call: µs above the bare program", 8, True, PYTHON, values(above_bare)),
        Figure(
            "equations: ours ÷ by hand",
            1,
            True,
            GRADIENT,
            values(ratio(equations), "by hand", names=plain),
        ),
        Figure(
            "equations of a loop and its gradient: ours ÷ by hand",
            1.2,
            True,
            GRADIENT,
            values(ratio(equations), "by hand", names=list(LOOPS)),
        ),
    ]
    return [figure for figure in found if figure.values]


UNROLLED = (
    "In unrolled-80, equal terms are emitted one by one before the passes find the repetition. "
    "The other programs are small, and XLA compiles them fast."
)
XLA = "XLA compiles the program of each system, and takes most of the time of ours."
SMALL = "XLA compiles these small programs fast, so everything else is a large part."
GRADIENT = "Aesara's gradient is a graph of its own, with nodes that JAX's gradient does not need."
PYTHON = (
    "A call from Python looks up its program in Python; `jax.jit` does this in C++. The lookup "
    "takes longer after long programs, whose work evicts its code from the processor's caches. "
    "Inside of `jax.jit`, as in samplers, there is no such cost: see *… by jax.grad* in "
    "[ratios](#ratios)."
)
