"""Figures measured against their target, printed as a table or written as JSON, and the program around them."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import msgspec

from hivemind.errors import HiveMindError
from hivemind_mock.bench.main import JsonOutput, format_table, show_progress


@dataclass(frozen=True, slots=True)
class Figure:
    """What was measured, and its target."""

    what: str
    measured: float
    bound: float
    at_least: bool
    """The bound is a minimum; else a maximum."""
    unit: str = ""

    @property
    def met(self) -> bool:
        """The target was met."""
        return self.measured >= self.bound if self.at_least else self.measured <= self.bound


def run(name: str, description: str | None, measure: Callable[[], Sequence[Figure]], argv: Sequence[str] | None) -> int:
    """Measure, and print or write the figures. A missed target is a result, so the exit code is 0 then too."""
    parser = argparse.ArgumentParser(prog=f"benchmarks.{name}", description=description)
    parser.add_argument("--json", metavar="FILE", help="write the figures to a file; - for standard output")
    try:
        output = JsonOutput(parser.parse_args(argv).json)
    except HiveMindError as error:
        print(f"benchmarks.{name}: {error}", file=sys.stderr)
        return error.exit_code
    figures = measure()
    show_progress("")
    output.write(msgspec.json.format(msgspec.json.encode([_record(each) for each in figures]), indent=2) + b"\n")
    if not output.replaces_tables:
        print(table(name, figures))
    return 0


def table(name: str, figures: Sequence[Figure]) -> str:
    """Return a table with a row for each figure."""
    return format_table([(name, "measured", "target", ""), *_rows(figures)], left=1)


def markdown(name: str, figures: Sequence[Figure]) -> str:
    """Return the same for the manual."""
    lines = [f"| {' | '.join(row)} |" for row in [(name, "measured", "target", ""), *_rows(figures)]]
    return "\n".join([lines[0], "| --- | --: | --: | --- |", *lines[1:], ""])


def _rows(figures: Sequence[Figure]) -> list[tuple[str, ...]]:
    return [
        (
            each.what,
            _shown(each.measured, each.unit),
            ("at least " if each.at_least else "at most ") + _shown(each.bound, each.unit),
            "met" if each.met else "missed",
        )
        for each in figures
    ]


def _record(figure: Figure) -> dict[str, object]:
    return {
        "figure": figure.what,
        "measured": round(figure.measured, 4),
        "bound": round(figure.bound, 4),
        "at_least": figure.at_least,
        "met": figure.met,
    }


def _shown(value: float, unit: str) -> str:
    return f"{value:.2f} {unit}" if unit else f"{value:.3f}"
