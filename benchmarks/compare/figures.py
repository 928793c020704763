"""The figures that matter, each with its goal: ratios of what was measured."""

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
}
"""What systems are called on the page."""
WHOLE = [name for name, workload in WORKLOADS.items() if not workload.nodes]
"""The workloads that are run, too."""
LOOPS = {"scan"}
"""Where the gradient of a loop is Aesara's own."""


class Figure(NamedTuple):
    """A ratio, or a difference, on some workloads.

    Attributes
    ----------
    text
        What it is.
    goal
        The bound.
    at_most
        Whether it is an upper bound.
    values
        What was measured, by workload or system.
    """

    text: str
    goal: float
    at_most: bool
    values: dict[str, float]

    def holds(self, value: float) -> bool:
        """Whether a value, to the digits shown, is within the bound."""
        shown = float(digits(value))
        return shown <= self.goal if self.at_most else shown >= self.goal


def digits(value: float) -> str:
    """A number with two digits, or with three."""
    return (
        f"{value:.0f}"
        if abs(value) >= 100
        else f"{value:.1f}"
        if abs(value) >= 10
        else f"{value:.2f}"
    )


def before_lowering(record: dict[str, Any]) -> float:
    """Seconds before JAX begins to lower a program."""
    return sum(s for stage, s in record["stages"].items() if stage not in ("lowering", "XLA"))


def without_xla(record: dict[str, Any]) -> float:
    """Seconds from the graph to the first number, less XLA's."""
    return record["first"] - record["stages"]["XLA"]


def figures(records: Records) -> list[Figure]:
    """All figures of which something was measured."""

    def ratios(
        names: list[str], of: str, to: str, quantity: Callable[[Any], float]
    ) -> dict[str, float]:
        """A quantity of one system, over that of another, by workload."""
        pairs = {name: (records.get(name, of), records.get(name, to)) for name in names}
        return {name: quantity(a) / quantity(b) for name, (a, b) in pairs.items() if a and b}

    def called(names: list[str], of: str, to: str) -> dict[str, float]:
        """The time of a call, over that of another, in turn."""
        found = {name: calls for name in names if (calls := calls_in_turn(records, name))}
        return {n: c[of]["cpu"] / c[to]["cpu"] for n, c in found.items() if of in c and to in c}

    def first(record: Any) -> float:
        return record["first"]

    ours = {name: record for name in WHOLE if (record := records.get(name, "jaxprgen"))}
    found = [
        Figure("emission of an equation, again ÷ copying it", 4, True, emission(ours, "emission")),
        Figure("… the first time of a plan ÷ copying it", 4, True, emission(ours, "first")),
        Figure(
            "radon: tracing by others, cold ÷ our emission, cold",
            10,
            False,
            tracing(records, ["tracing"]),
        ),
        Figure(
            "… to Python and tracing by others ÷ our emission",
            10,
            False,
            tracing(records, ["to Python", "tracing"]),
        ),
        Figure(
            "from graph to first number, less XLA: Aesara ÷ ours",
            30,
            False,
            ratios(["chain", "logistic"], "aesara", "jaxprgen", without_xla),
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
        Figure("a call: µs more than the same program's, bare", 3, True, above_bare(records)),
        Figure("a call: ours ÷ NumPyro's", 1, True, called(WHOLE, "jaxprgen", "numpyro")),
        Figure(
            "equations: ours ÷ by hand",
            1,
            True,
            ratios([n for n in WHOLE if n not in LOOPS], "jaxprgen", "by hand", equations),
        ),
        Figure(
            "equations of a loop and Aesara's gradient of it: ours ÷ by hand",
            1.2,
            True,
            ratios(sorted(LOOPS), "jaxprgen", "by hand", equations),
        ),
        Figure("emission of a node: of 100,000 ÷ of 1,000", 1.3, True, growth(records)),
    ]
    return [figure for figure in found if figure.values]


def equations(record: Any) -> float:
    """How many equations the program has."""
    return record["equations"]


def calls_in_turn(records: Records, name: str) -> dict[str, Any]:
    """What calls cost that were made in turn, in one process."""
    record = records.get(name, "calls")
    return record["calls"]["JAX"] if record else {}


def emission(ours: dict[str, Any], which: str) -> dict[str, float]:
    """Of programs without loops, whose equations hold no others."""
    found = {n: r["per equation"] for n, r in ours.items() if "per equation" in r}
    return {n: r[which] / r["copying"] for n, r in found.items() if n not in LOOPS}


def tracing(records: Records, stages: list[str]) -> dict[str, float]:
    """What stages of others take beside our emission, by system."""
    ours = records.get("radon", "jaxprgen")
    others = {s: records.get("radon", s) for s in ("aesara", "pytensor")}
    if not ours:
        return {}
    emitting = ours["stages"]["emission"]
    return {s: sum(r["stages"][x] for x in stages) / emitting for s, r in others.items() if r}


def waiting(records: Records, ours: dict[str, Any], lowering: bool) -> dict[str, float]:
    """What comes before XLA, or before lowering, beside what cannot be had for less."""
    found = {}
    for name, record in ours.items():
        other = records.get(name, "by hand")
        if other:
            spent = before_lowering(record) + lowering * record["stages"]["lowering"]
            found[name] = spent / (other["stages"]["lowering"] + other["stages"]["XLA"])
    return found


def above_bare(records: Records) -> dict[str, float]:
    """In the thread that calls, where a call is so short that microseconds are not lost in it."""
    found = {name: record for name in WHOLE if (record := records.get(name, "calls"))}
    return {
        name: record["above bare"]
        for name, record in found.items()
        if "above bare" in record and record["calls"]["JAX"]["bare"]["thread"] < 200
    }


def growth(records: Records) -> dict[str, float]:
    """How much more a node of a large graph costs than one of a small, in one process."""
    large = records.get("nodes-100000", "jaxprgen")
    if not large:
        return {}
    return {"chain": large["again"]["emission"] / large["nodes-1000"]["emission"] / 100}
