"""Tables of runs side by side: recorded, simulated with the recorded settings, and with others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from hivemind.journal.figures import Figures
from hivemind.lab.comparison import TRUSTED, Measure, Row, Verdict, compare_runs, mean, model_error, relative_change
from hivemind.text.humanise import count, dollars, duration
from hivemind.text.table import Cell, Column, lines

USUAL = "USUAL SETTINGS"
"""Title of the column with HiveMind's usual settings, for a recording made without HiveMind."""
FOREIGN = (
    "This was recorded without HiveMind: the result of its usual settings on the same traffic can't be checked against"
    " anything that really happened."
)
APART = (
    "Each of these proxies scheduled for itself: what one scheduler does with all of their traffic can't be checked"
    " against anything that really happened."
)
_RECORDED = (
    Column(""),
    Column("RECORDED", right=True),
    Column("REPLAYED", right=True, spare=1),
    Column("OFF BY", right=True, spare=2),
)
WITH_HIVEMIND, AS_ONE = "WITH HIVEMIND", "AS ONE"
"""Titles of the column with a simulation of what was recorded without HiveMind, or by proxies apart."""
_BEST = (
    Column(""),
    Column("AS RECORDED", right=True),
    Column("BEST FOUND", right=True),
    Column("DIFFERENCE", right=True),
    Column("", spare=1),
)
_CHANGED = (Column("CHANGED", right=True), Column("DIFFERENCE", right=True), Column("", spare=3))
_STYLES: Mapping[Verdict, str] = {
    "better": "good",
    "worse": "bad",
    "unclear": "dim",
    "other work": "dim",
    "same": "dim",
}


def table(
    recorded: Figures,
    replayed: Sequence[Figures],
    changed: Sequence[Figures],
    room: int | None,
    *,
    other: str = "",
) -> list[str]:
    """Return a line for each figure: as recorded, simulated with the recorded settings, and `changed`, if any.

    Of several runs (the same seeds for both) the mean is shown, and the confidence interval of the difference.
    `other`: the simulation is of something other than was recorded, so it is compared with the recording under this
    title, not held against it.
    """
    first = (*_RECORDED[:2], Column(other, right=True), Column("DIFFERENCE", right=True)) if other else _RECORDED
    columns = first + _CHANGED if changed else (*first, Column("", spare=3)) if other else first
    simulated = compare_runs([recorded] * len(replayed), replayed, also=changed)
    rows: list[list[Cell | str]] = []
    for row in simulated:
        shown = _difference(row) if other else [_error(row)]
        rows.append([row.measure.name, _amount(row.measure, [recorded]), _amount(row.measure, replayed), *shown])
    if changed:
        reference = recorded if len(replayed) == 1 and not other else None
        compared = compare_runs(replayed, changed, recorded=reference, also=[recorded])
        for cells, row in zip(rows, compared, strict=True):
            cells[4:] = [_amount(row.measure, changed), *_difference(row)]
    return lines(columns, rows, room)


def means(before: Sequence[Figures], after: Sequence[Figures], room: int | None, *, foreign: bool = False) -> list[str]:
    """Return a line for each figure of the same runs with recorded and with other settings, without those that are 0.

    `foreign`: nothing was recorded with HiveMind, so the first settings are its usual ones.
    """
    rows = [
        [row.measure.name, _amount(row.measure, before), _amount(row.measure, after), *_difference(row)]
        for row in compare_runs(before, after)
        if mean(row.measure, before) or mean(row.measure, after)
    ]
    columns = (_BEST[0], Column(USUAL, right=True), *_BEST[2:]) if foreign else _BEST
    return lines(columns, rows, room)


def accuracy(recorded: Figures, replayed: Sequence[Figures], *, drawn: bool) -> Cell:
    """Return in a sentence how well the model reproduces what was recorded, styled `warn` where it doesn't."""
    wall, wait = model_error(recorded, replayed)
    named = (("wall time", wall), ("total wait", wait))
    errors = [f"{name} by {_percent(share)}" for name, share in named if share is not None]
    if not errors:
        return Cell("Replayed with the recorded settings, nothing can be compared.", "dim")
    text = f"Replayed with the recorded settings, it is off in {' and in '.join(errors)}."
    if drawn:
        return Cell(f"{text} Faults and latencies are drawn anew, so the runs differ.", "dim")
    if max(abs(wall or 0.0), abs(wait or 0.0)) <= TRUSTED:
        return Cell(text, "dim")
    return Cell(f"{text} That is far off: trust the difference rather than the values.", "warn")


def amount(measure: Measure[Figures], value: float, unpriced: int = 0) -> str:
    """Return a figure as text. `unpriced` counts tokens of unknown price, which dollars mark by a `+`."""
    if measure.unit == "seconds":
        return duration(value)
    if measure.unit == "dollars":
        return dollars(value, unpriced)
    if measure.unit == "share":
        return f"{value:.3f}"
    if measure.unit == "tokens":
        return count(round(value))
    return f"{value:,.0f}" if value == int(value) else f"{value:,.1f}"


def _difference(row: Row[Figures]) -> list[Cell | str]:
    found = row.difference
    if found is None:
        return ["", ""]
    if not found.mean and not found.half:
        return [Cell("=", "dim"), ""]
    if row.base:
        text = _percent(found.mean / row.base)
        text += f" ± {100 * found.half / abs(row.base):.1f}" if found.runs > 1 else ""
    else:
        text = f"{'+' if found.mean > 0 else '-'}{amount(row.measure, abs(found.mean))}"
    style = _STYLES.get(row.verdict, "")
    return [Cell(text, style), "" if row.verdict == "same" else Cell(row.verdict, style)]


def _error(row: Row[Figures]) -> Cell:
    if row.difference is None:
        return Cell("")
    if not row.difference.mean:
        return Cell("=", "dim")
    share = relative_change(row.base, row.base + row.difference.mean)
    return Cell("") if share is None else Cell(_percent(share), "warn" if abs(share) > TRUSTED else "dim")


def _percent(share: float) -> str:
    if abs(share) < 0.0005:
        return "0.0 %"
    return f"{100 * share:+.1f} %" if abs(share) < 9.995 else f"{1 + share:,.0f} times"


def _amount(measure: Measure[Figures], runs: Sequence[Figures]) -> str:
    value = mean(measure, runs)
    return "" if value is None else amount(measure, value, max(run.unpriced_tokens for run in runs))
