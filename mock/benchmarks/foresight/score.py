"""How far predictions are off, beyond what two real runs differ by."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby
from statistics import fmean, median

from benchmarks.figures import Figure
from benchmarks.foresight.cases import Case, Foretold
from hivemind_mock.bench.main import format_table

_SHORTEST_S = 1.0
"""Errors are shares of at least so much, and of total waits of at least so much of the wall time."""


@dataclass(frozen=True, slots=True)
class Off:
    """Errors in percent, of one figure in some cases."""

    median: float
    p90: float
    worst: float
    plain: float
    """The median distance to the mean of the real runs, noise included."""
    covered: float | None
    """Of the real runs the share within the interval, in percent; None: there was none."""


def off(foretold: Sequence[Foretold], real: Sequence[tuple[float, ...]], least: Sequence[float]) -> Off:
    """Return the errors of predictions, as shares of the mean of the real runs, which is at least `least`."""
    beyond, plain, inside = [], [], []
    for said, came, at_least in zip(foretold, real, least, strict=True):
        whole = max(fmean(came), at_least)
        beyond.append(100 * max(0.0, min(came) - said.value, said.value - max(came)) / whole)
        plain.append(100 * abs(said.value - fmean(came)) / whole)
        if said.low is not None and said.high is not None:
            inside += [said.low <= each <= said.high for each in came]
    covered = 100 * sum(inside) / len(inside) if inside else None
    return Off(median(beyond), quantile(beyond, 0.9), max(beyond), median(plain), covered)


def of_cases(cases: Sequence[Case]) -> tuple[Off, Off]:
    """Return the errors of wall time and of total wait."""
    return (
        off([each.wall_s for each in cases], [each.real_wall_s for each in cases], [_SHORTEST_S] * len(cases)),
        off(
            [each.waited_s for each in cases],
            [each.real_waited_s for each in cases],
            [max(_SHORTEST_S, 0.05 * fmean(each.real_wall_s)) for each in cases],
        ),
    )


def figures(cases: Sequence[Case], *, strange: bool) -> list[Figure]:
    """Return the figures with their targets."""
    wall, wait = of_cases(cases)
    where = "worlds that no model describes" if strange else "strangers' worlds"
    made = [Figure(f"wall time in {where}: p90 of the errors", wall.p90, 15.0 if strange else 10.0, False, "%")]
    if not strange:
        made += [
            Figure(f"wall time in {where}: median of the errors", wall.median, 3.0, False, "%"),
            Figure(f"total wait in {where}: median of the errors", wait.median, 8.0, False, "%"),
            Figure(f"total wait in {where}: p90 of the errors", wait.p90, 25.0, False, "%"),
        ]
    for name, each in (("wall time", wall), ("total wait", wait)):
        if each.covered is not None:
            made.append(Figure(f"{name} in {where}: 90 % intervals hold", each.covered, 80.0, True, "%"))
            if not strange:
                made.append(Figure(f"{name} in {where}: 90 % intervals hold no more", each.covered, 97.0, False, "%"))
    return made


HEAD = ("kind", "cases", "wall: median", "p90", "worst", "held", "wait: median", "p90", "worst", "held")


def table(cases: Iterable[Case]) -> str:
    """Return the errors by kind of world, as a table of text."""
    return format_table([HEAD, *rows(cases)], left=1)


def rows(cases: Iterable[Case]) -> list[tuple[str, ...]]:
    """Return the errors by kind of world and of all, in the columns of :data:`HEAD`."""
    by_kind = {
        kind: list(each) for kind, each in groupby(sorted(cases, key=lambda one: one.kind), lambda one: one.kind)
    }
    everything = [each for some in by_kind.values() for each in some]
    return [_row(kind, some) for kind, some in by_kind.items()] + [_row("all", everything)]


def _row(kind: str, cases: Sequence[Case]) -> tuple[str, ...]:
    cells = [kind, str(len(cases))]
    for each in of_cases(cases):
        held = "" if each.covered is None else f"{each.covered:.0f} %"
        cells += [f"{each.median:.1f} %", f"{each.p90:.1f} %", f"{each.worst:.1f} %", held]
    return tuple(cells)


def quantile(values: Sequence[float], share: float) -> float:
    """Return the smallest value that so large a share of all is at most."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]
