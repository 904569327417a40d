"""What two simulated runs came to, beside what was recorded: row by row, which is better, and by how much."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from hivemind.journal.figures import Figures
from hivemind.scheduler.types import Priority
from hivemind.text.humanise import NOTHING, short_count, short_dollars, short_duration
from hivemind_tui.whatif.protocol import Outcome

BETTER, WORSE, ALIKE, UNSURE, OTHER = "better", "worse", "alike", "unsure", "other"
"""Verdicts. `unsure`: the difference is no larger than what the model is off by, or below a percent; `other`: it comes
of other work, because less was done, or more."""
WITH_HIVEMIND = "with HiveMind"
"""What `replayed` is of a recording that HiveMind had no part in."""
_LEAST = 0.01
"""Share from which on a difference counts, however good the model."""
TRUSTED, DOUBTED = 0.05, 0.15
"""Shares that the model may be off by: up to the first it is good, beyond the second it is bad."""


@dataclass(frozen=True, slots=True)
class Row:
    """One figure of the three runs."""

    label: str
    recorded: str
    replayed: str
    tried: str
    difference: str
    """Between the two simulated ones."""
    verdict: str
    rank: int
    """Where there is little room, rows of the highest rank go first."""


@dataclass(frozen=True, slots=True)
class _Figure:
    label: str
    value: Callable[[Figures], float | None]
    shown: Callable[[float | None], str]
    rank: int
    more_is_better: bool = False
    counts_endings: bool = False
    """It tells how requests ended, and so means what it says even where less was done."""
    in_shares: bool = True
    """The difference is told in percent; else as the figure itself."""
    of: Callable[[Figures], float] | None = None
    """How many there are in all, where that is told beside it."""


def _whole(value: float | None) -> str:
    return NOTHING if value is None else f"{value:,.0f}"


def _fair(value: float | None) -> str:
    return NOTHING if value is None else f"{value:.3f}"


_FIRST = (
    _Figure(
        "agents finished",
        lambda run: run.finished,
        _whole,
        0,
        more_is_better=True,
        counts_endings=True,
        in_shares=False,
        of=lambda run: run.agents,
    ),
    _Figure("wall time", lambda run: run.wall_s, short_duration, 0),
)
_LAST = (
    _Figure("waited in all", lambda run: run.waited_s, short_duration, 3),
    _Figure("retries", lambda run: run.retries, _whole, 1, in_shares=False),
    _Figure("tokens wasted", lambda run: run.wasted_tokens, short_count, 1),
    _Figure("dollars", lambda run: run.dollars, short_dollars, 0),
    _Figure("fairness", lambda run: run.fairness, _fair, 1, more_is_better=True, in_shares=False),
    _Figure("failed", lambda run: run.failed, _whole, 2, counts_endings=True, in_shares=False),
    _Figure("refused", lambda run: run.refused, _whole, 4, counts_endings=True, in_shares=False),
)


def rows(outcome: Outcome) -> list[Row]:
    """Every figure, in the order in which they are shown."""
    found = [_row(figure, outcome) for figure in (*_FIRST, *_waits(outcome), *_LAST)]
    return [row for row in found if row is not None]


def more_was_done(outcome: Outcome) -> int:
    """So many more requests are answered, or (negative) fewer. Where that is 0, so many more agents finish.

    What isn't done takes no time and costs nothing, so other figures can't be better for it, nor worse for more.
    """
    before, after = measured_by(outcome), outcome.tried.figures
    return after.answered - before.answered or after.finished - before.finished


def measured_by(outcome: Outcome) -> Figures:
    """What the last run is compared with: the one before it."""
    return (outcome.recorded if outcome.foreign and not outcome.changes else outcome.replayed).figures


def fitting(found: Sequence[Row], room: int) -> list[Row]:
    """The rows that fit, in their order."""
    kept = list(found)
    while len(kept) > max(0, room):
        kept.remove(max(reversed(kept), key=lambda row: row.rank))
    return kept


def off_by(outcome: Outcome) -> tuple[float | None, float | None]:
    """By what share of the recorded the model is off, in wall time and in the time waited; None: nothing to compare."""
    recorded, replayed = outcome.recorded.figures, outcome.replayed.figures
    return _share(recorded.wall_s, replayed.wall_s), _share(recorded.waited_s, replayed.waited_s)


def signed(share: float | None) -> str:
    """`+0.8 %`, `-12 %`."""
    if share is None:
        return NOTHING
    if abs(share) < 0.0005:
        return "0.0%"
    return f"{share:+.1%}" if abs(share) < 0.0995 else f"{share:+.0%}"


def _waits(outcome: Outcome) -> list[_Figure]:
    runs = (outcome.recorded, outcome.replayed, outcome.tried)
    names = [each.name.lower() for each in Priority if any(each.name.lower() in run.figures.waits for run in runs)]
    found = []
    asked = {name: waits.requests for name, waits in outcome.recorded.figures.waits.items()}
    usual = max(asked, key=lambda name: asked[name], default="")
    for index, name in enumerate(names):
        of = f" {name}" if len(names) > 1 else ""
        found.append(_Figure(f"wait p50{of}", _wait_of(name, "p50_s"), short_duration, 5 + index))
        found.append(_Figure(f"wait p95{of}", _wait_of(name, "p95_s"), short_duration, 1 if name == usual else 2))
    return found


def _wait_of(name: str, part: str) -> Callable[[Figures], float | None]:
    def value(run: Figures) -> float | None:
        waits = run.waits.get(name)
        return None if waits is None else float(getattr(waits, part))

    return value


def _row(figure: _Figure, outcome: Outcome) -> Row | None:
    recorded, replayed, tried = (
        figure.value(run.figures) for run in (outcome.recorded, outcome.replayed, outcome.tried)
    )
    difference, verdict = _judged(figure, None if outcome.foreign else recorded, replayed, tried)
    if not outcome.changes:
        difference, verdict = _judged(figure, None, recorded, replayed)
        if not outcome.foreign:
            verdict = ALIKE if verdict == ALIKE else UNSURE
    more = more_was_done(outcome)
    if not figure.counts_endings and ((more < 0 and verdict == BETTER) or (more > 0 and verdict == WORSE)):
        verdict = OTHER
    first, second, third = (
        _with_all(figure, run.figures) for run in (outcome.recorded, outcome.replayed, outcome.tried)
    )
    return Row(figure.label, first, second, third, difference, verdict, figure.rank)


def _with_all(figure: _Figure, run: Figures) -> str:
    shown = figure.shown(figure.value(run))
    return shown if figure.of is None else f"{shown} of {_whole(figure.of(run))}"


def _judged(figure: _Figure, recorded: float | None, replayed: float | None, tried: float | None) -> tuple[str, str]:
    if replayed is None or tried is None:
        return "", ALIKE
    more = tried - replayed
    text = _told(figure, replayed, tried)
    if not text:
        return "", ALIKE
    doubt = 0.0 if recorded is None else abs(replayed - recorded)
    if abs(more) <= max(doubt, _LEAST * abs(replayed)):
        return text, UNSURE
    return text, BETTER if (more > 0) is figure.more_is_better else WORSE


def _told(figure: _Figure, before: float, after: float) -> str:
    """Empty where nothing differs that can be seen."""
    if figure.in_shares and before:
        share = (after - before) / before
        return "" if abs(share) < 0.0005 else signed(share)
    more = after - before
    size = figure.shown(abs(more))
    return "" if size == figure.shown(0.0) else f"{'+' if more > 0 else '-'}{size}"


def _share(before: float, after: float) -> float | None:
    if before <= 0 or math.isinf(after):
        return None
    return (after - before) / before
