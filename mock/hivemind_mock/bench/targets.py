"""What is promised, beside what was measured."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from hivemind_mock.bench.tables import laid_out


@dataclass(frozen=True, slots=True)
class Figure:
    """One promise, and what was measured."""

    what: str
    measured: float
    bound: float
    at_least: bool
    """The bound is the least that is promised; else the most."""
    unit: str = ""

    @property
    def held(self) -> bool:
        """The promise was kept."""
        return self.measured >= self.bound if self.at_least else self.measured <= self.bound


def table(name: str, results: Sequence[Figure]) -> str:
    """For people."""
    rows = [
        (
            each.what,
            _shown(each.measured, each.unit),
            ("at least " if each.at_least else "at most ") + _shown(each.bound, each.unit),
            "held" if each.held else "missed",
        )
        for each in results
    ]
    return laid_out([(name, "measured", "promised", ""), *rows], left=1)


def records(name: str, results: Sequence[Figure]) -> list[dict[str, object]]:
    """One object a figure."""
    return [
        {
            "scenario": name,
            "mode": "hivemind",
            "figure": each.what,
            "measured": round(each.measured, 4),
            "bound": round(each.bound, 4),
            "at_least": each.at_least,
            "held": each.held,
        }
        for each in results
    ]


def _shown(value: float, unit: str) -> str:
    return f"{value:.2f} {unit}" if unit else f"{value:.3f}"
