"""The figures that have budgets: ratios of measured times and sizes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from compare.records import Records
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
WHOLE = [name for name, workload in WORKLOADS.items() if not workload.nodes]
"""The workloads whose programs are run."""
LOOPS = {"scan"}
"""The workloads that differentiate a loop with Aesara."""


class Figure(NamedTuple):
    """A ratio or difference with its budget.

    Attributes
    ----------
    text
        The name of the figure.
    goal
        The bound.
    at_most
        Whether the bound is an upper bound.
    values
        The measured values, by workload or system.
    """

    text: str
    goal: float
    at_most: bool
    values: dict[str, float]

    def holds(self, value: float) -> bool:
        """Return whether a value, rounded as shown, is within the bound."""
        shown = float(digits(value))
        return shown <= self.goal if self.at_most else shown >= self.goal


def digits(value: float) -> str:
    """Write a number with two or three digits."""
    return (
        f"{value:.0f}"
        if abs(value) >= 100
        else f"{value:.1f}"
        if abs(value) >= 10
        else f"{value:.2f}"
    )


def before_lowering(record: dict[str, Any]) -> float:
    """Return the seconds before JAX begins to lower a program."""
    return sum(s for stage, s in record["stages"].items() if stage not in ("lowering", "XLA"))


def without_xla(record: dict[str, Any]) -> float:
    """Return the seconds from the graph to the first number, without XLA."""
    return record["first"] - record["stages"]["XLA"]


def figures(records: Records) -> list[Figure]:
    """Return all figures that have measured values."""

    def ratios(
        names: list[str], of: str, to: str, quantity: Callable[[Any], float]
    ) -> dict[str, float]:
        """Return a quantity of one system over that of another, by workload."""
        pairs = {name: (records.get(name, of), records.get(name, to)) for name in names}
        return {name: quantity(a) / quantity(b) for name, (a, b) in pairs.items() if a and b}

    def called(names: list[str], of: str, to: str) -> dict[str, float]:
        """Return the time of a call over that of another, measured in turn."""
        found = {name: calls for name in names if (calls := calls_in_turn(records, name))}
        return {n: c[of]["cpu"] / c[to]["cpu"] for n, c in found.items() if of in c and to in c}

    def first(record: Any) -> float:
        return record["first"]

    ours = {name: record for name in WHOLE if (record := records.get(name, "jaxprgen"))}
    found = [
        Figure(
            "emission and passes ÷ all to the first number",
            0.1,
            True,
            {name: emission_and_passes(r) / r["first"] for name, r in ours.items()},
        ),
        Figure(
            "from graph to first number: Aesara ÷ ours",
            15,
            False,
            ratios(["chain"], "aesara", "jaxprgen", first),
        ),
        Figure(
            "from graph to first number: PyTensor ÷ ours",
            6,
            False,
            ratios(["unrolled-80"], "pytensor", "jaxprgen", first),
        ),
        Figure(
            "all before XLA ÷ lowering and XLA by hand", 0.15, True, waiting(records, ours, True)
        ),
        Figure(
            "all before lowering ÷ lowering and XLA by hand",
            0.15,
            True,
            waiting(records, ours, False),
        ),
        Figure("a call: ours ÷ by hand", 1.05, True, called(WHOLE, "jaxprgen", "by hand")),
        Figure("a call: µs above the bare program", 8, True, above_bare(records)),
        Figure("a call: ours ÷ NumPyro's", 1, True, called(WHOLE, "jaxprgen", "numpyro")),
        Figure(
            "equations: ours ÷ by hand",
            1,
            True,
            ratios([n for n in WHOLE if n not in LOOPS], "jaxprgen", "by hand", equations),
        ),
        Figure(
            "equations of a loop and its gradient: ours ÷ by hand",
            1.2,
            True,
            ratios(sorted(LOOPS), "jaxprgen", "by hand", equations),
        ),
        Figure("emission of a node: 100,000 nodes ÷ 1,000 nodes", 1.3, True, growth(records)),
    ]
    return [figure for figure in found if figure.values]


def equations(record: Any) -> float:
    """Return the number of equations of the program."""
    return record["equations"]


def calls_in_turn(records: Records, name: str) -> dict[str, Any]:
    """Return the cost of calls that were made in turn, in one process."""
    record = records.get(name, "calls")
    return record["calls"]["JAX"] if record else {}


def emission_and_passes(record: dict[str, Any]) -> float:
    """Return the seconds of emission and passes."""
    return record["stages"]["emission"] + record["stages"]["passes"]


def waiting(records: Records, ours: dict[str, Any], lowering: bool) -> dict[str, float]:
    """Return the time before XLA, or before lowering, over lowering and XLA by hand."""
    found = {}
    for name, record in ours.items():
        other = records.get(name, "by hand")
        if other:
            spent = before_lowering(record) + lowering * record["stages"]["lowering"]
            found[name] = spent / (other["stages"]["lowering"] + other["stages"]["XLA"])
    return found


def above_bare(records: Records) -> dict[str, float]:
    """Return the extra microseconds of the calling thread, for calls below 200 µs."""
    found = {name: record for name in WHOLE if (record := records.get(name, "calls"))}
    return {
        name: record["above bare"]
        for name, record in found.items()
        if "above bare" in record and record["calls"]["JAX"]["bare"]["thread"] < 200
    }


def growth(records: Records) -> dict[str, float]:
    """Return the cost of a node of a large graph over that of a small one, in one process."""
    large = records.get("nodes-100000", "jaxprgen")
    if not large:
        return {}
    return {"chain": large["again"]["emission"] / large["nodes-1000"]["emission"] / 100}
