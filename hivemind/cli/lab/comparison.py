"""Tables of runs side by side, with the recorded settings and with others; figures as text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from hivemind.journal.figures import Figures
from hivemind.lab.comparison import Measure, Row, Unit, Verdict, compare_runs, mean
from hivemind.text.humanise import count, dollars, duration
from hivemind.text.table import Cell, Column, lines

_CHOSEN = (
    Column(""),
    Column("AS RECORDED", right=True),
    Column("CHOSEN", right=True),
    Column("DIFFERENCE", right=True),
    Column("", spare=1),
)
_STYLES: Mapping[Verdict, str] = {
    "better": "good",
    "worse": "bad",
    "unclear": "dim",
    "other work": "dim",
    "same": "dim",
}


def means(before: Sequence[Figures], after: Sequence[Figures], room: int | None) -> list[str]:
    """Return a line for each figure of runs with recorded and with chosen settings, without those that are 0."""
    rows = [
        [row.measure.name, _amount(row.measure, before), _amount(row.measure, after), *_difference(row)]
        for row in compare_runs(before, after)
        if mean(row.measure, before) or mean(row.measure, after)
    ]
    return lines(_CHOSEN, rows, room)


def amount_of(unit: Unit, value: float, unpriced: int = 0) -> str:
    """Return a figure as text. `unpriced` counts tokens of unknown price, which dollars mark by a `+`."""
    if unit == "seconds":
        return duration(value)
    if unit == "dollars":
        return dollars(value, unpriced)
    if unit == "share":
        return f"{value:.3f}"
    if unit == "tokens":
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
        text = f"{'+' if found.mean > 0 else '-'}{amount_of(row.measure.unit, abs(found.mean))}"
    style = _STYLES.get(row.verdict, "")
    return [Cell(text, style), "" if row.verdict == "same" else Cell(row.verdict, style)]


def _percent(share: float) -> str:
    if abs(share) < 0.0005:
        return "0.0 %"
    return f"{100 * share:+.1f} %" if abs(share) < 9.995 else f"{1 + share:,.0f} times"


def _amount(measure: Measure[Figures], runs: Sequence[Figures]) -> str:
    value = mean(measure, runs)
    return "" if value is None else amount_of(measure.unit, value, max(run.unpriced_tokens for run in runs))
