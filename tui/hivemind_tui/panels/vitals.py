"""The vitals: how fast, how near the limits, with how many errors, how long it takes, what it costs, and when all is
done; each with its recent past. A strip below the header, in one row or in three; on the page of costs as charts."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import groupby, pairwise

from msgspec import Struct
from textual.strip import Strip

from hivemind.records import replace
from hivemind.text.humanise import NOTHING, rate, share, short_count, short_dollars, short_duration, short_span
from hivemind.world.health import Vitals
from hivemind.world.snapshot import Snapshot
from hivemind_tui.panels.agent_page import bars
from hivemind_tui.render.format import fit, local
from hivemind_tui.render.pen import Chunk, Pen, Row, Span, cells_of, fitting
from hivemind_tui.state.view import View, join

_SPARKS = (12, 8, 6, 4)
"""Cells of a sparkline in one row, where they fit."""
_ALWAYS = 1
"""Vitals up to this rank take precedence over longer sparklines."""
_LEAST_TILE = 15
_NEAR, _FULL = 0.8, 0.97
"""Shares of the limit of tokens that are worth a colour."""
_MANY_ERRORS, _MOST_ERRORS = 0.1, 0.5
_NEEDS = {
    **dict.fromkeys(("TOKENS", "SPEND"), ("tokens",)),
    "ERRORS": ("refusals",),
    "WAIT": ("refusals", "durations"),
    "FIRST TOKEN": ("first tokens",),
}
"""What a recording must hold for a vital."""
_OF_A_MINUTE = ("ERRORS", "WAIT", "FIRST TOKEN")
"""Those whose figure is of the last minute without a unit that says so."""
_SPAN_S = 60.0
_SOON_S = 90.0
"""An end that is nearer is told in seconds, not by the clock."""


class Vital(Struct, frozen=True):
    """One of the vitals as it is shown."""

    rank: int
    """Where there is too little room, those of the highest rank are left out."""
    label: str
    """In a tile."""
    brief: Row
    """Label and figure in one row."""
    figure: Row
    more: Row
    """In a tile, as far as there is room."""
    of: str
    """The name of its series."""
    role: str
    """Of the sparkline."""
    written: Callable[[float], str] | None
    """Writes a value of the series; None: the figure says enough."""
    top: float = 0.0
    """The value of a full cell at least."""
    series: tuple[float | None, ...] = ()
    now: float | None = None
    """The figure, where it counts what the series doesn't yet: the largest value is no less."""

    @property
    def title(self) -> str:
        """Its label with the time that its figure is of: `ERRORS 1m`."""
        return f"{self.label} {short_span(_SPAN_S)}" if self.label in _OF_A_MINUTE else self.label


def render(view: View, width: int, height: int, pen: Pen) -> list[Strip]:
    """Return one row, or from three rows on a tile for each: its name, its figure, and a sparkline."""
    if height <= 0 or width <= 2:
        return [pen.row(max(0, width))] * max(0, height)
    vitals = [each for each in vitals_of(view.snapshot) if not any(map(view.lacks, _NEEDS.get(each.label, ())))]
    now = int(view.snapshot.at / view.snapshot.vitals.step_s)
    if height >= 3:
        rows = _tiles(vitals, width, now, view.snapshot.vitals.step_s, pen)
    else:
        span = view.back.note(view.page, view.snapshot.at)
        rows = [_row(vitals, span, width, now, pen)]
    return rows + [pen.row(width)] * (height - len(rows))


def _row(vitals: Sequence[Vital], span: str, width: int, now: int, pen: Pen) -> Strip:
    """Return them in one row, behind the span that their past is of if it isn't the usual one."""
    room = width - 2 - (len(span) + 2 if span else 0)
    important = [vital for vital in vitals if vital.rank <= _ALWAYS]
    for cells in (*_SPARKS, 0):
        if sum(cells_of(_chunk(vital, cells, now, pen)) + 2 for vital in important) - 2 <= room:
            break
    chunks: list[Chunk] = [(vital.rank, _chunk(vital, cells, now, pen)) for vital in vitals]
    head: Row = [(f"{span}  ", "accent")] if span else []
    return pen.row(width, (" ", "text"), *head, *fitting(room, chunks))


def _chunk(vital: Vital, cells: int, now: int, pen: Pen) -> list[Span]:
    spark = sparkline(vital.series, cells, now, vital.role, pen, vital.top)
    return [*vital.brief, *([(" ", "text"), *spark] if cells else [])]


def _tiles(vitals: Sequence[Vital], width: int, now: int, step_s: float, pen: Pen) -> list[Strip]:
    """Return three rows of as many tiles as fit, side by side over the whole width."""
    room, shown = width - 2, list(vitals)
    while len(shown) > 1 and room // len(shown) < _LEAST_TILE:
        shown.remove(max(shown, key=lambda vital: vital.rank))
    edges = [round(room * n / len(shown)) for n in range(len(shown) + 1)]
    widths = [end - start - 3 for start, end in pairwise(edges)]
    widths[-1] += 3
    side: Span = (f" {pen.glyphs.frame[5]} ", "rule")
    rows: tuple[list[Span], ...] = ([], [], [])
    for number, (vital, cells) in enumerate(zip(shown, widths, strict=True)):
        for row, spans in zip(rows, _tile(vital, cells, now, step_s, pen), strict=True):
            row += [side] if number else [(" ", "text")]
            row += [*spans, (" " * (cells - cells_of(spans)), "text")]
    return [pen.row(width, *row) for row in rows]


def _tile(vital: Vital, cells: int, now: int, step_s: float, pen: Pen) -> tuple[list[Span], list[Span], list[Span]]:
    """Return its name with the time that its figure is of, beside the peak and the time that this is of."""
    known = [value for value in (*vital.series, vital.now) if value is not None]
    most = max(known, default=0.0)
    label = fit(vital.title, min(cells, len(vital.title)))
    over = short_span(max(step_s * len(vital.series), _SPAN_S))
    peak = f"max {vital.written(most)} {over}" if most > 0 and vital.written is not None else ""
    gap = cells - len(label) - len(peak)
    head: list[Span] = [(label, "title"), *([(" " * gap + peak, "dim")] if peak and gap >= 1 else [])]
    figure: list[Span] = []
    for span in (*vital.figure, *vital.more):
        if cells_of([*figure, span]) > cells:
            break
        figure.append(span)
    return head, figure, sparkline(vital.series, cells, now, vital.role, pen, vital.top)


def sparkline(
    series: Sequence[float | None], cells: int, now: int, role: str, pen: Pen, top: float = 0.0
) -> list[Span]:
    """Return the newest points of a series as one row of bars of exactly so many cells, the newest at the right.

    Where there are more points than cells, a cell shows the largest of several; it keeps those points as it moves,
    since `now`, the number of the present step, tells which belong together.
    """
    if cells <= 0:
        return []
    each = max(1, math.ceil(len(series) / cells))
    first, groups = now - len(series), dict[int, float]()
    for number, value in enumerate(series):
        if value is not None:
            group = (first + number) // each
            groups[group] = max(groups.get(group, 0.0), value)
    last = (now - 1) // each
    known = [groups.get(last - cells + 1 + cell) for cell in range(cells)]
    most = max(top, max((value for value in known if value is not None), default=0.0))
    steps, spans = pen.glyphs.steps, list[Span]()
    for value in known:
        if value is None:
            spans.append((" ", "text"))
        elif value <= 0 or most <= 0:
            spans.append((steps[1], "rule"))
        else:
            spans.append((steps[min(len(steps) - 1, max(1, round(value / most * (len(steps) - 1))))], role))
    return spans


# --- What each says ---------------------------------------------------------------------------------------------------


def vitals_of(snapshot: Snapshot) -> Iterator[Vital]:
    """Give the vitals, the most important first."""
    found = snapshot.vitals
    for vital in _vitals(snapshot):
        yield replace(vital, series=tuple(found.series.get(vital.of, ())), now=getattr(found, vital.of, None))


def _vitals(snapshot: Snapshot) -> Iterator[Vital]:
    """Give them without their past."""
    found = snapshot.vitals
    requests = rate(found.requests_per_s), "strong"
    yield Vital(0, "REQUESTS", [("req ", "dim"), requests], [requests], (), "requests_per_s", "ok", rate)
    tokens, of = _tokens(found)
    limit = [("/", "dim"), (short_count(found.tokens_limit), "dim")] if found.tokens_limit else [("/min", "dim")]
    brief: Row = [("tokens ", "dim"), tokens, *limit]
    yield Vital(
        1, "TOKENS", brief, [tokens, (of, "dim")], (), "tokens_per_min", "info", lambda each: f"{short_count(each)}/min"
    )
    if found.tasks:
        done, eta, top = f"{found.tasks_done} of {found.tasks}", _eta(snapshot), float(found.tasks)
        figure, brief = [(done, "strong"), *eta], [("tasks ", "dim"), (done, "strong"), *eta]
        yield Vital(2, "TASKS DONE", brief, figure, (), "tasks_done", "ok", None, top)
    errors, failed = _errors(found)
    rank, brief = 1 if found.error_share else 5, [(f"errors {short_span(_SPAN_S)} ", "dim"), errors]
    yield Vital(rank, "ERRORS", brief, [errors], failed, "error_share", "bad", share, _MANY_ERRORS)
    p95, p50 = _times(found.wait_p50_s, found.wait_p95_s)
    yield Vital(1, "WAIT", [("wait ", "dim"), *p95], p95, p50, "wait_p95_s", "wait", short_duration)
    if "waiting" in found.series:
        waiting = str(snapshot.queued), "wait" if snapshot.queued else "strong"
        yield Vital(2, "WAITING", [("waiting ", "dim"), waiting], [waiting], (), "waiting", "wait", short_count)
    p95, p50 = _times(found.ttft_p50_s, found.ttft_p95_s)
    yield Vital(4, "FIRST TOKEN", [("first token ", "dim"), *p95], p95, p50, "ttft_p95_s", "info", short_duration)
    spent = _per_hour(found.dollars_per_hour), "strong"
    yield Vital(3, "SPEND", [spent], [spent], _by_hour(snapshot), "dollars_per_hour", "accent", _per_hour)


def _tokens(found: Vitals) -> tuple[Span, str]:
    if not found.tokens_limit:
        return (short_count(found.tokens_per_min), "strong"), "/min"
    used = found.tokens_per_min / found.tokens_limit
    role = "bad" if used >= _FULL else "wait" if used >= _NEAR else "strong"
    return (short_count(found.tokens_per_min), role), f" of {short_count(found.tokens_limit)}/min"


def _errors(found: Vitals) -> tuple[Span, Row]:
    if found.error_share is None:
        return (NOTHING, "dim"), ()
    errors, failed = found.error_share, found.failed_share or 0.0
    role = "bad" if errors >= _MOST_ERRORS else "wait" if errors >= _MANY_ERRORS else "strong"
    more = [(f", requests {share(failed)}", "bad" if failed else "dim")] if errors else ()
    return (share(errors), role), more


def _times(p50_s: float | None, p95_s: float | None) -> tuple[Row, Row]:
    if p50_s is None or p95_s is None:
        return [(NOTHING, "dim")], ()
    shown = [("p95 ", "dim"), (short_duration(p95_s), "strong")]
    return shown, [(f"  p50 {short_duration(p50_s)}", "dim")]


def _eta(snapshot: Snapshot) -> Row:
    left_s = snapshot.forecast.tasks_done_in_s
    if left_s is None:
        return ()
    end = local(snapshot.wall + left_s)
    return [(f", ETA {short_duration(left_s) if left_s < _SOON_S else time.strftime('%H:%M', end)}", "dim")]


def _by_hour(snapshot: Snapshot) -> Row:
    forecast = snapshot.forecast
    if forecast.dollars_by_hour is None:
        return ()
    end = time.strftime("%H:%M", local(snapshot.wall + forecast.hour_ends_in_s))
    return [(f", {short_dollars(forecast.dollars_by_hour)} by {end}", "dim")]


def _per_hour(amount: float) -> str:
    return f"{short_dollars(amount)}/h" if amount else "$0/h"


_LEAST = 3
"""Rows of a chart with its head; where there are fewer for each, charts are left out."""
_TWO_COLUMNS = 120
_GAP = 3


def render_spend(view: View, width: int, height: int, pen: Pen) -> list[Strip]:
    """Return the panel's rows: of each of the vitals, what is spent first, a head with figures and its series, and the
    time below all."""
    spend_first = sorted(vitals_of(view.snapshot), key=lambda vital: vital.label != "SPEND")
    vitals = [replace(vital, rank=at) for at, vital in enumerate(spend_first)]
    cells, rows = pen.body_size(width, height)
    step_s, span = view.snapshot.vitals.step_s, view.back.note(view.page, view.snapshot.at)
    if span:  # the journal's lines don't tell of all vitals
        vitals = [vital for vital in vitals if vital.series]
    if rows <= _LEAST or not any(value for vital in vitals for value in vital.series):
        return pen.message("Vitals over time", "Charts begin with the first requests.", width, height)
    columns = 2 if cells >= _TWO_COLUMNS else 1
    while len(vitals) > 1 and _LEAST * -(-len(vitals) // columns) > rows - 1:
        vitals.remove(max(reversed(vitals), key=lambda vital: vital.rank))
    share = -(-len(vitals) // columns)
    each = (cells - _GAP * (columns - 1)) // columns
    begin = f"{short_span(step_s * max(len(vital.series) for vital in vitals))} ago"
    times: Row = [(f"{begin}{'now':>{max(0, each - len(begin))}}", "dim")]
    parts = [vitals[first : first + share] for first in range(0, len(vitals), share)]
    sides = [[*_charts(part, each, rows - 1, pen), times] for part in parts]
    body = _beside(sides, each, _GAP, cells, pen)
    return pen.frame("Vitals over time", join(span, f"a step is {short_duration(step_s)}"), body, width, height)


def _beside(sides: Sequence[Iterable[Row]], width: int, gap: int, cells: int, pen: Pen) -> Iterator[Strip]:
    """Give the rows of all sides, side by side; each but the last has `width` cells and a gap."""
    for *first, last in zip(*sides, strict=True):
        used = len(first) * (width + gap)
        yield Strip.join([*(pen.row(width + gap, *row) for row in first), pen.row(cells - used, *last)])


def _charts(vitals: Sequence[Vital], cells: int, rows: int, pen: Pen) -> Iterator[Row]:
    """Give the charts one below the other, in exactly so many rows."""
    edges = [round(rows * n / len(vitals)) for n in range(len(vitals) + 1)]
    for vital, (first, end) in zip(vitals, pairwise(edges), strict=True):
        most = max((value for value in (*vital.series, vital.now) if value is not None), default=0.0)
        peak = f"max {vital.written(most)}" if most > 0 and vital.written is not None else ""
        head: list[Span] = [(f"{vital.label}  ", "title"), *vital.figure]
        if cells_of([*head, *vital.more]) + len(peak) < cells:
            head += vital.more
        yield [*head, (f"{peak:>{max(0, cells - cells_of(head))}}", "dim")]
        values = [vital.series[cell * len(vital.series) // cells] or 0.0 for cell in range(cells) if vital.series]
        *above, lowest = bars(values, max(vital.top, most), end - first - 1, pen.glyphs.steps)
        yield from ([(line, vital.role)] for line in above)
        runs = ["".join(run) for _, run in groupby(lowest, str.isspace)]
        yield [(pen.glyphs.frame[4] * len(run), "rule") if run.isspace() else (run, vital.role) for run in runs]
