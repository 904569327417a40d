"""The rows of the what-if page: the figures of two simulated runs beside those recorded."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from hivemind.journal.figures import Figures
from hivemind.lab import comparison
from hivemind.lab.comparison import Measure, Verdict
from hivemind.text.humanise import NOTHING, short_count, short_dollars, short_duration
from hivemind_tui.whatif.protocol import WhatIfResult

WITH_HIVEMIND = "with HiveMind"
"""What `replayed` is of a recording that HiveMind had no part in."""
DOUBTED = 0.15
"""A model that is further off than this share is shown as bad."""
_RANKS: Mapping[str, int] = {
    "agents finished": 0,
    "wall time": 0,
    "wait, p50": 5,
    "wait, p95": 1,
    "wait, total": 3,
    "retries": 1,
    "tokens wasted": 1,
    "dollars": 0,
    "fairness": 1,
    "failed": 2,
    "refused": 4,
}
"""The measures shown; where there is little room, those of the highest rank go first."""
_UNITS: Mapping[str, Callable[[float], str]] = {
    "seconds": short_duration,
    "tokens": short_count,
    "dollars": short_dollars,
    "share": "{:.3f}".format,
}


@dataclass(frozen=True, slots=True)
class Row:
    """One figure of the three runs."""

    label: str
    recorded: str
    replayed: str
    tried: str
    difference: str
    """Between the two simulated runs; empty if it is too small to be seen."""
    verdict: Verdict
    rank: int


def rows(outcome: WhatIfResult) -> list[Row]:
    """Return every figure, in the order in which they are shown."""
    recorded, replayed, tried = (run.figures for run in (outcome.recorded, outcome.replayed, outcome.tried))
    if outcome.changes:
        reference = None if outcome.foreign else recorded
        found = comparison.compare_runs([replayed], [tried], recorded=reference, also=[recorded])
    else:
        found = comparison.compare_runs([recorded], [replayed], also=[tried])
    return [
        _row(row, recorded, replayed, tried, judged=bool(outcome.changes) or outcome.foreign)
        for row in found
        if row.measure.name in _RANKS or row.measure.name.startswith(" ")
    ]


def _row(row: comparison.Row[Figures], recorded: Figures, replayed: Figures, tried: Figures, *, judged: bool) -> Row:
    measure, verdict = row.measure, row.verdict
    difference = "" if row.difference is None or verdict == "same" else _change(measure, row.base, row.difference.mean)
    if not difference:
        verdict = "same"
    elif not judged:
        verdict = "unclear"  # a simulation with the recorded settings is neither better nor worse
    first, second, third = (_figure(measure, run) for run in (recorded, replayed, tried))
    rank = _RANKS.get(measure.name, 2 if measure.name.endswith("p95") else 6)
    return Row(measure.name, first, second, third, difference, verdict, rank)


def more_was_done(outcome: WhatIfResult) -> float:
    """Return how many more requests are answered, or if equal, how many more agents finish; negative for fewer."""
    return comparison.more_work([baseline(outcome)], [outcome.tried.figures])


def baseline(outcome: WhatIfResult) -> Figures:
    """Return the figures that the last run is compared with."""
    return (outcome.recorded if outcome.foreign and not outcome.changes else outcome.replayed).figures


def fitting(found: Sequence[Row], room: int) -> list[Row]:
    """Return the rows that fit, in their order."""
    kept = list(found)
    while len(kept) > max(0, room):
        kept.remove(max(reversed(kept), key=lambda row: row.rank))
    return kept


def model_error(outcome: WhatIfResult) -> tuple[float | None, float | None]:
    """Return by what share the model is off, in wall time and in total wait; None: nothing to compare."""
    return comparison.model_error(outcome.recorded.figures, [outcome.replayed.figures])


def signed(share: float | None) -> str:
    """Return `+0.8%`, `-12%`."""
    if share is None:
        return NOTHING
    if abs(share) < 0.0005:
        return "0.0%"
    return f"{share:+.1%}" if abs(share) < 0.0995 else f"{share:+.0%}"


def _figure(measure: Measure[Figures], run: Figures) -> str:
    shown = _text(measure, measure.of(run))
    return f"{shown} of {run.agents:,}" if measure.name == "agents finished" else shown


def _text(measure: Measure[Figures], value: float | None) -> str:
    if value is None:
        return NOTHING
    return _UNITS.get(measure.unit, "{:,.0f}".format)(value)


def _change(measure: Measure[Figures], before: float, more: float) -> str:
    """Return the difference in percent, of counts and shares in their own unit; empty if it can't be seen."""
    if before and measure.unit not in ("count", "share"):
        return signed(more / before)
    size = _text(measure, abs(more))
    return "" if size == _text(measure, 0.0) else f"{'+' if more > 0 else '-'}{size}"
