"""How often rules fire, and why they do not."""

from __future__ import annotations

from dataclasses import dataclass, field

from jaxprgen.rewrite.rules import Rule


@dataclass
class Count:
    """Of one rule: how often it fired and did not at equations that it could replace."""

    hits: int = 0
    misses: int = 0
    seconds: float = 0.0


@dataclass
class Statistics:
    """What rules did, each under its name; `str` gives a table, the slowest first."""

    counts: dict[Rule, Count] = field(default_factory=dict)

    def hit(self, rule: Rule, seconds: float) -> None:
        """A rule fired."""
        count = self.counts.setdefault(rule, Count())
        count.hits += 1
        count.seconds += seconds

    def missed(self, rule: Rule, seconds: float) -> None:
        """A rule did not fire."""
        count = self.counts.setdefault(rule, Count())
        count.misses += 1
        count.seconds += seconds

    def __str__(self) -> str:
        rows = sorted(self.counts.items(), key=lambda row: -row[1].seconds)
        lines = [f"{'hits':>8}{'misses':>8}{'ms':>9}  rule"]
        lines += [f"{c.hits:8}{c.misses:8}{c.seconds * 1e3:9.3f}  {rule}" for rule, c in rows]
        return "\n".join(lines)
