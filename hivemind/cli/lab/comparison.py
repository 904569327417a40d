"""Runs side by side, as a table: recorded, replayed with the recorded settings, and with others."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean

from hivemind.journal.figures import Figures
from hivemind.lab.comparison import Measure, Spread, measures, spread
from hivemind.text.humanise import count, dollars, duration
from hivemind.text.table import Cell, Column, lines

USUAL = "USUAL SETTINGS"
"""What stands over what HiveMind makes of a recording that it had no part in."""
FOREIGN = (
    "This was recorded without HiveMind: what it would have made of the same traffic with its usual settings can't be"
    " held against anything that really happened."
)
_CLOSE = 0.005
"""A difference below this share is none to speak of."""
_TRUSTED = 0.05
"""A replay that is further off than this share doesn't reproduce what was recorded."""
_HARDLY = 0.01
"""Of the wall time; less waiting than this, of all requests together, is hardly any."""
_RECORDED = (
    Column(""),
    Column("RECORDED", right=True),
    Column("REPLAYED", right=True, spare=1),
    Column("OFF BY", right=True, spare=2),
)
_IMPORTED = (
    Column(""),
    Column("RECORDED", right=True),
    Column("WITH HIVEMIND", right=True),
    Column("DIFFERENCE", right=True),
)
_BEST = (
    Column(""),
    Column("AS RECORDED", right=True),
    Column("BEST FOUND", right=True),
    Column("DIFFERENCE", right=True),
    Column("", spare=1),
)
_CHANGED = (
    Column("CHANGED", right=True),
    Column("DIFFERENCE", right=True),
    Column("", spare=3),
)


def table(
    recorded: Figures,
    replayed: Sequence[Figures],
    changed: Sequence[Figures],
    room: int | None,
    *,
    foreign: bool = False,
) -> list[str]:
    """A row for each figure. Of several runs (the same seeds for both) the mean is shown, and how sure the difference
    is. Nothing `changed`: only what was replayed. `foreign`: it was recorded without HiveMind, so that replaying it
    isn't the same again but an answer."""
    first = _IMPORTED if foreign else _RECORDED
    columns = first + _CHANGED if changed else (*first, Column("", spare=3)) if foreign else first
    rows = []
    for measure in measures([recorded, *replayed, *changed]):
        was, before = measure.of(recorded), _mean(measure, replayed)
        known = len(replayed) == 1 and not foreign
        doubt = abs(before - was) if known and before is not None and was is not None else 0.0
        row: list[Cell | str] = [measure.name, _amount(measure, [recorded]), _amount(measure, replayed)]
        if foreign:
            made = _difference(measure, [recorded] * len(replayed), replayed)
            row += [made[0]] if changed else made
        else:
            row += [_off(was, before)]
        if changed:
            row += [_amount(measure, changed), *_difference(measure, replayed, changed, doubt)]
        rows.append(row)
    return lines(columns, rows, room)


def means(before: Sequence[Figures], after: Sequence[Figures], room: int | None, *, foreign: bool = False) -> list[str]:
    """A row for each figure of the same runs with recorded and with other settings; one that is 0 isn't there.

    `foreign`: nothing was recorded with HiveMind, so the first settings are its usual ones.
    """
    rows: list[list[Cell | str]] = []
    for measure in measures([*before, *after]):
        was, now = _mean(measure, before), _mean(measure, after)
        if was or now:
            rows.append(
                [measure.name, _amount(measure, before), _amount(measure, after), *_difference(measure, before, after)]
            )
    columns = (_BEST[0], Column(USUAL, right=True), *_BEST[2:]) if foreign else _BEST
    return lines(columns, rows, room)


def honesty(recorded: Figures, replayed: Sequence[Figures], *, drawn: bool) -> Cell:
    """How well the model reproduces what was recorded, in a line; a `warn` where it doesn't."""
    wall, wait = (
        _share(was, fmean(found))
        for was, found in (
            (recorded.wall_s, [run.wall_s for run in replayed]),
            (recorded.waited_s, [run.waited_s for run in replayed]),
        )
    )
    if abs(fmean(run.waited_s for run in replayed) - recorded.waited_s) < _HARDLY * recorded.wall_s:
        wait = 0.0  # of next to no waiting it is no matter what share is missed
    told = [
        f"{name} by {_percent(share)}"
        for name, share in (("wall time", wall), ("total wait", wait))
        if share is not None
    ]
    if not told:
        return Cell("Replayed with the recorded settings, nothing can be compared.", "dim")
    text = f"Replayed with the recorded settings, it is off in {' and in '.join(told)}."
    if drawn:
        return Cell(f"{text} Faults and latencies are drawn anew, so it needn't be the same.", "dim")
    if max(abs(wall or 0.0), abs(wait or 0.0)) <= _TRUSTED:
        return Cell(text, "dim")
    return Cell(f"{text} That is far off: trust the difference rather than the values.", "warn")


def beyond(recorded: Figures, changed: Sequence[Figures]) -> list[str]:
    """What the model can't know of runs that went where the recording never was."""
    seen, most = recorded.busiest, max((run.busiest for run in changed), default=0)
    if most <= seen:
        return []
    flew = "1 request in flight was" if seen == 1 else f"{seen} requests in flight were"
    return [f"no more than {flew} recorded; how {most} at once fare is extrapolated"]


def amount(measure: Measure, value: float | None) -> str:
    """A figure as people read it; empty where there is none."""
    if value is None:
        return ""
    if measure.unit == "seconds":
        return duration(value)
    if measure.unit == "dollars":
        return dollars(value)
    if measure.unit == "share":
        return f"{value:.3f}"
    if measure.unit == "tokens":
        return count(round(value))
    return f"{value:,.0f}" if value == int(value) else f"{value:,.1f}"


def _difference(
    measure: Measure, before: Sequence[Figures], after: Sequence[Figures], doubt: float = 0.0
) -> tuple[Cell, Cell]:
    """And what it means, where it is more than chance, rounding, or what the model is known to be off by."""
    pairs = [(measure.of(one), measure.of(two)) for one, two in zip(before, after, strict=True)]
    known = [(one, two) for one, two in pairs if one is not None and two is not None]
    if not known:
        return Cell(""), Cell("")
    found = spread([two - one for one, two in known])
    base = fmean(one for one, _ in known)
    text = _told(measure, found, base)
    if not measure.better or abs(found.mean) <= _CLOSE * abs(base):
        return Cell(text, "" if found.mean else "dim"), Cell("")
    if found.low <= 0 <= found.high or abs(found.mean) <= doubt:
        return Cell(text, "dim"), Cell("unclear", "dim")
    good = (found.mean < 0) == (measure.better == "less")
    style = "good" if good else "bad"
    return Cell(text, style), Cell("better" if good else "worse", style)


def _told(measure: Measure, found: Spread, base: float) -> str:
    if not found.mean and not found.half:
        return "="
    if not base:
        return f"{'+' if found.mean > 0 else '-'}{amount(measure, abs(found.mean))}"
    text = _percent(found.mean / base)
    return f"{text} ± {100 * found.half / abs(base):.1f}" if found.runs > 1 else text


def _off(was: float | None, now: float | None) -> Cell:
    if was is None or now is None:
        return Cell("")
    if was == now:
        return Cell("=", "dim")
    share = _share(was, now)
    if share is None:
        return Cell("")
    return Cell(_percent(share), "warn" if abs(share) > _TRUSTED else "dim")


def _share(was: float, now: float) -> float | None:
    """By how much of what it was it differs; None: it was nothing."""
    return (now - was) / abs(was) if was else None if now else 0.0


def _percent(share: float) -> str:
    if abs(share) < 0.0005:
        return "0.0 %"
    return f"{100 * share:+.1f} %" if abs(share) < 9.995 else f"{1 + share:,.0f} times"


def _amount(measure: Measure, runs: Sequence[Figures]) -> str:
    """A `+` after dollars: of some tokens the price isn't known."""
    value = _mean(measure, runs)
    if measure.unit == "dollars" and value is not None:
        return dollars(value, max(run.unpriced_tokens for run in runs))
    return amount(measure, value)


def _mean(measure: Measure, runs: Sequence[Figures]) -> float | None:
    values = [value for value in map(measure.of, runs) if value is not None]
    return fmean(values) if values else None
