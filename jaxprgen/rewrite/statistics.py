"""Statistics of how often rules fire, and how long they take."""

from __future__ import annotations

from dataclasses import dataclass, field

from jaxprgen.rewrite.rules import Rule


@dataclass
class Count:
    """How often one rule fired (hits) or did not (misses) at equations of its primitives."""

    hits: int = 0
    misses: int = 0
    seconds: float = 0.0


@dataclass
class Statistics:
    """Counts and times of rules; `str` returns a table, the slowest rule first.

    Attributes
    ----------
    counts : dict of Rule to Count
        The count of each rule.
    """

    counts: dict[Rule, Count] = field(default_factory=dict)

    def hit(self, rule: Rule, seconds: float) -> None:
        """Record that a rule fired, after this time.

        Parameters
        ----------
        rule : Rule
            The rule.
        seconds : float
            The time that it took.
        """
        count = self.counts.setdefault(rule, Count())
        count.hits += 1
        count.seconds += seconds

    def missed(self, rule: Rule, seconds: float) -> None:
        """Record that a rule did not fire, after this time.

        Parameters
        ----------
        rule : Rule
            The rule.
        seconds : float
            The time that it took.
        """
        count = self.counts.setdefault(rule, Count())
        count.misses += 1
        count.seconds += seconds

    def __str__(self) -> str:
        rows = sorted(self.counts.items(), key=lambda row: -row[1].seconds)
        lines = [f"{'hits':>8}{'misses':>8}{'ms':>9}  rule"]
        lines += [f"{c.hits:8}{c.misses:8}{c.seconds * 1e3:9.3f}  {rule}" for rule, c in rows]
        return "\n".join(lines)
