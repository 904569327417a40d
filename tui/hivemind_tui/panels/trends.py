"""The vitals of the last minutes as charts, and how many waits and first tokens took how long since the start."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import groupby, pairwise

from textual.strip import Strip

from hivemind.text.humanise import short_count, short_duration, short_plural, short_span
from hivemind.world.health import BOUNDS_S
from hivemind_tui.panels.agent_page import bars
from hivemind_tui.panels.vitals import Vital, vitals_of
from hivemind_tui.render.format import fit, percent
from hivemind_tui.render.pen import Pen, Row, Span, cells_of
from hivemind_tui.state.lists import ttft_s
from hivemind_tui.state.view import View, join

_LEAST = 3
"""Rows of a chart with its head; where there are fewer for each, charts are left out."""
_TWO_COLUMNS = 120
_GAP = 3
_LABEL = 9
_COUNT, _SHARE = 7, 5
"""Cells after the bar of a histogram: how many, and the share that took no longer."""


def render(view: View, width: int, height: int, pen: Pen) -> list[Strip]:
    """Return the panel's rows: of each of the vitals a head with figures and its series, and the time below all."""
    return _render(view, [*vitals_of(view.snapshot)], width, height, pen)


def render_spend(view: View, width: int, height: int, pen: Pen) -> list[Strip]:
    """Return the same with what was spent at the top."""
    spend_first = sorted(vitals_of(view.snapshot), key=lambda vital: vital.label != "SPEND")
    return _render(view, [replace(vital, rank=at) for at, vital in enumerate(spend_first)], width, height, pen)


def _render(view: View, vitals: list[Vital], width: int, height: int, pen: Pen) -> list[Strip]:
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


def render_times(view: View, width: int, height: int, pen: Pen) -> list[Strip]:
    """Return the panel's rows, a bar for each length of time that occurred since the start: waits at the left, first
    tokens at the right."""
    return _times("How long it takes", "since start", *_bins(view), width, height, pen)


def render_own_times(view: View, width: int, height: int, pen: Pen) -> list[Strip]:
    """Return the same of the remembered requests of the page's agent."""
    own = [request for request in view.requests if request.agent == view.selected and request.attempts]
    waits, ttfts = [0] * (len(BOUNDS_S) + 1), [0] * (len(BOUNDS_S) + 1)
    for request in own:
        waits[bisect_left(BOUNDS_S, request.waited_s)] += 1
        if (first_s := ttft_s(request)) is not None:
            ttfts[bisect_left(BOUNDS_S, first_s)] += 1
    return _times("How long its requests take", "remembered", waits, ttfts, width, height, pen)


def times_rows(view: View) -> int:
    """Return for how many lengths there are bars."""
    known = _known(*_bins(view))
    return known[-1] - known[0] + 1 if known else 1


def _bins(view: View) -> tuple[Sequence[int], Sequence[int]]:
    return view.snapshot.vitals.waits.bins, view.snapshot.vitals.ttfts.bins


def _known(waits: Sequence[int], ttfts: Sequence[int]) -> list[int]:
    """Return the bins in which anything was counted."""
    return [at for at, counted in enumerate(zip(waits, ttfts, strict=True)) if any(counted)]


def _times(
    title: str, what: str, waits: Sequence[int], ttfts: Sequence[int], width: int, height: int, pen: Pen
) -> list[Strip]:
    cells, rows = pen.body_size(width, height)
    known = _known(waits, ttfts)
    if not known or rows < 2:
        return pen.message(title, "Waits and times to first token are counted here.", width, height)
    last = _last_of_each(known[0], known[-1], rows - 1)
    labels: list[Span] = [(" " * (_LABEL + 1), "dim"), *((fit(_bound(at), _LABEL + 1), "dim") for at in last)]
    room = (cells - _LABEL - 2) // 2
    left = _histogram("WAITS", "wait", waits, last, room, pen)
    right = _histogram("TTFT", "info", ttfts, last, room, pen)
    rows_left = [[label, *row] for label, row in zip(labels, left, strict=True)]
    body = _beside([rows_left, right], _LABEL + 1 + room, 1, cells, pen)
    return pen.frame(title, f"{short_plural(sum(waits), 'request')} {what}", body, width, height)


def _last_of_each(first: int, last: int, rows: int) -> Sequence[int]:
    """Return the last bin of each row: where there are too few rows, the shortest times share one by two, or all do."""
    count = last - first + 1
    pairs = max(0, count - rows)
    if pairs <= count // 2:
        return [*range(first + 1, first + 2 * pairs, 2), *range(first + 2 * pairs, last + 1)]
    return range(last, first - 1, -count // rows)[::-1]


def _bound(at: int) -> str:
    if at == len(BOUNDS_S):
        return "longer"
    bound = BOUNDS_S[at]
    return f"to {bound:g}s" if bound < 10 else f"to {short_duration(bound)}"


def _histogram(title: str, role: str, bins: Sequence[int], last: Sequence[int], cells: int, pen: Pen) -> Iterator[Row]:
    """Give a head, and for each row's last bin a bar, how many, and the share of all that took no longer."""
    so_far = [sum(bins[: at + 1]) for at in last]
    shown = [now - before for before, now in pairwise((0, *so_far))]
    most, whole, bar = max(shown) or 1, sum(bins), max(0, cells - _COUNT - _SHARE)
    yield [(fit(title, bar) + fit("COUNT", _COUNT, ">") + fit("%", _SHARE, ">"), "dim")]
    for often, up_to in zip(shown, so_far, strict=True):
        yield [
            *pen.gauge(bar, often / most, role=role),
            (fit(short_count(often), _COUNT, ">"), "text" if often else "rule"),
            (fit(percent(up_to, whole), _SHARE, ">"), "dim"),
        ]
