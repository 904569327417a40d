"""What limits a lane: its rate windows, the plan's long limits, and the circuit breaker."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from itertools import zip_longest

from msgspec import Struct
from textual.strip import Strip

from hivemind.records import replace
from hivemind.scheduler.events import LaneState, WindowState
from hivemind.scheduler.types import Utilisation
from hivemind.text.humanise import NOTHING, short_count, short_duration
from hivemind.world.snapshot import Line
from hivemind_tui.render.format import clock, fit, percent
from hivemind_tui.render.glyphs import sign
from hivemind_tui.render.pen import Chunk, Pen, Row, Span, fitting
from hivemind_tui.state.view import View, join

_SOURCES = {"headers": "stated by the provider", "assumed": "assumed", "refused": "learned from a refusal"}
"""Where the limit of a rate window comes from."""
_TWO_COLUMNS = 74
_SHORT_BAR = 10
"""With a shorter one only the most wanted figures have a column."""
_WITH_SOURCE = 104
_BAR = 40
"""Longest: beyond that it says nothing more."""
SHORT = {"requests": "req", "input": "in", "output": "out", "tokens": "tok"}
SCARCE = 0.2
_ENDS = 9
"""Cells of the columns that say when a window runs out and when it resets."""
_COLUMNS = (("USED", 6), ("RESERVED", 9), ("LEFT", 6), ("OF", 6), ("RUNS OUT", _ENDS), ("RESETS", _ENDS))
_TILE_COLUMNS = (("LEFT", 5), ("OF", 5), ("RUNS OUT", _ENDS), ("RESETS", _ENDS))
_UNKNOWN = ("No rate window is known yet; the first reply's headers will tell.", "dim")
_UNRECORDED = ("The recording doesn't hold rate limits.", "dim")
_UNSTATED = ("No reply has stated a rate limit.", "dim")
_CIRCUIT_BAR = 24
_CIRCUIT_LABEL = 8


class _Item(Struct, frozen=True):
    """One allowance to draw: a rate window, or a long limit of the plan."""

    name: str
    short: str
    used: float
    """Shares of the whole, from 0 to 1; what is reserved is part of what is used."""
    reserved: float
    figures: tuple[str, str, str, str]
    """Used, reserved, left, and of how much."""
    runs_out_in_s: float | None
    """At the present rate; None: not before its reset."""
    resets_in_s: float | None
    source: str

    @property
    def scarcity(self) -> str:
        """The colour role for what is left."""
        return "bad" if self.used >= 0.97 else "wait" if self.used >= 1 - SCARCE else "strong"


def render_windows(view: View, width: int, height: int, pen: Pen) -> list[Strip]:
    """Return the panel's rows: rate windows and the plan's long limits under heads; without boxes the circuit in the
    title's row."""
    cells, rows = pen.body_size(width, height)
    lane = view.lane
    if lane is None:
        return pen.frame("Rate windows", "", [[_none(view)]], width, height)
    state = lane.state
    several = len({window.family for window in state.windows}) > 1
    ends = view.snapshot.forecast.windows.get(state.lane, ())
    out = [*ends, *[None] * len(state.windows)][: len(state.windows)]
    items = [_window(window, several, end) for window, end in zip(state.windows, out, strict=True)]
    items += [_plan(plan) for plan in state.plan]
    lines: Sequence[Strip | Row]
    if not items:
        lines = [[_none(view)]]
    elif rows == 1:
        lines = [fitting(cells, _in_a_row(items))]
    else:
        lines = _table(items, cells, rows, pen)
    glyphs, sources = pen.glyphs, sorted({window.source for window in state.windows})
    legend = f"{glyphs.full} used {glyphs.part} reserved {glyphs.empty} left" if items else ""
    circuit = "" if pen.boxed else "".join(text for text, _ in summary(state, cells // 2, pen))
    note = join(circuit, view.lane_note(), legend, ", ".join(map(_SOURCES.get, sources, sources)) if sources else "")
    return pen.frame("Rate windows", note, lines, width, height)


def _none(view: View) -> Span:
    """Say why there is nothing to show."""
    if view.lacks("limits"):
        return _UNRECORDED
    asked = view.lane is not None and view.lane.state.mean_ttft_s is not None
    return _UNSTATED if asked or view.playback is not None else _UNKNOWN


def gone(window: WindowState) -> float:
    """Return how much of the allowance is used, by the provider's figures if it states them, else by our own count."""
    return window.used if math.isinf(window.remaining) else max(0.0, window.limit - window.remaining)


def _window(window: WindowState, several: bool, runs_out_in_s: float | None) -> _Item:
    limit, used = window.limit or 1.0, gone(window)
    word = window.kind.value
    short = SHORT.get(word, word)
    spent, left = max(0.0, used - window.reserved), max(0.0, window.limit - used)
    figures = short_count(spent), short_count(window.reserved), short_count(left), short_count(window.limit)
    return _Item(
        name=f"{fit(window.family, 18)} {word}" if several else word,
        short=f"{fit(window.family, 12)} {short}" if several else short,
        used=used / limit,
        reserved=window.reserved / limit,
        figures=figures,
        runs_out_in_s=runs_out_in_s,
        resets_in_s=window.resets_in_s,
        source=window.source,
    )


def _plan(plan: Utilisation) -> _Item:
    figures = (percent(plan.used, 1), "", percent(max(0.0, 1 - plan.used), 1), "plan")
    held = f"low in {short_duration(plan.low_held_s)}" if plan.low_held_s else ""
    status = held or plan.status.replace("_", " ")
    return _Item(f"{plan.name} plan", plan.name, plan.used, 0.0, figures, plan.ends_in_s, plan.reset_in_s, status)


def is_used_up(runs_out_in_s: float | None) -> bool:
    """Return whether a window that runs out then has run out already, as far as anybody can tell the difference."""
    return runs_out_in_s is not None and runs_out_in_s < 0.05


def _end(runs_out_in_s: float | None) -> str:
    if is_used_up(runs_out_in_s):
        return "used up"
    return "" if runs_out_in_s is None else f"in {short_duration(runs_out_in_s)}"


def _reset(resets_in_s: float | None) -> str:
    return NOTHING if resets_in_s is None else f"in {short_duration(resets_in_s)}"


def _urgency(item: _Item) -> tuple[float, float]:
    """Return a key that sorts those first that run out first, and then the scarcest."""
    return math.inf if item.runs_out_in_s is None else item.runs_out_in_s, -item.used


def _in_a_row(items: Sequence[_Item]) -> list[Chunk]:
    """Return them in words, for a single row: those first that run out first."""
    chunks: list[Chunk] = []
    for rank, item in enumerate(sorted(items, key=_urgency)):
        _, _, left, of = item.figures
        ends = "used up" if is_used_up(item.runs_out_in_s) else f"runs out {_end(item.runs_out_in_s)}"
        spans: list[Span] = [(f" {item.short} ", "text"), (left, item.scarcity), (f" of {of} left", "dim")]
        if item.runs_out_in_s is not None:
            spans.append((f", {ends}", "bad"))
        elif rank == 0 and item.resets_in_s is not None:
            spans.append((f", resets {_reset(item.resets_in_s)}", "dim"))
        chunks.append((rank, spans))
    return chunks


def _table(items: Sequence[_Item], cells: int, rows: int, pen: Pen) -> Sequence[Strip]:
    """Return them under heads, in two columns where one would be too long; of too many the scarcest."""
    columns = 2 if len(items) >= rows and cells >= _TWO_COLUMNS else 1
    each = (cells - 3 * (columns - 1)) // columns
    room, total = max(1, rows - 1) * columns, len(items)
    if total > room:
        items = sorted(items, key=_urgency)[:room]
    if each >= _WITH_NAMES:
        items = [replace(item, short=item.name) for item in items]
    name = min(27 if each >= _WITH_NAMES else 16, max(3, *(len(item.short) for item in items)))
    source = 17 if each >= _WITH_SOURCE else 0
    beside = name + 1 + source
    roomy = each - beside - sum(width for _, width in _COLUMNS) >= _SHORT_BAR
    shown = [*(_COLUMNS if roomy else _TILE_COLUMNS)]
    while shown and beside + 3 + sum(width for _, width in shown) > each:
        shown.pop()
    gauge = min(_BAR, max(0, each - beside - sum(width for _, width in shown)))
    title = "WINDOW" if total <= room else _part(room, total, name + gauge)
    head = fit(title, name + 1 + gauge) + "".join(fit(head, width, ">") for head, width in shown)
    heads = pen.row(each, (head + ("  FROM" if source else ""), "dim"))
    strips = [pen.row(each, *_cells(item, name, gauge, shown, source, pen)) for item in items]
    if columns == 1:
        return [heads, *strips]
    gap, count = pen.row(cells - 2 * each), -(-len(strips) // 2)
    pairs = zip_longest(strips[:count], strips[count:], fillvalue=pen.row(each))
    return [Strip.join([left, gap, right]) for left, right in [(heads, heads), *pairs]]


def _cells(item: _Item, name: int, gauge: int, columns: Iterable[tuple[str, int]], source: int, pen: Pen) -> list[Span]:
    """Return a row: the name, a gauge, the figures of these columns in their widths, and where the limit is from."""
    used, reserved, left, of = item.figures
    figures: dict[str, Span] = {
        "USED": (used, "text"),
        "RESERVED": (reserved, "dim"),
        "LEFT": (left, item.scarcity),
        "OF": (of, "dim"),
        "RUNS OUT": (_end(item.runs_out_in_s), "bad"),
        "RESETS": (_reset(item.resets_in_s), "dim"),
    }
    shown = [(fit(figures[head][0], cells, ">"), figures[head][1]) for head, cells in columns]
    shown += [(f"  {fit(item.source, source - 2)}", "dim")] if source else []
    return [(fit(item.short, name) + " ", "text"), *pen.gauge(gauge, item.used, item.reserved), *shown]


def _part(shown: int, total: int, cells: int) -> str:
    """Return a head that tells how many of all are shown."""
    text = f"WINDOW {shown} OF {total}"
    return text if len(text) <= cells else f"{shown}/{total} SHOWN"


_WITH_NAMES = 62
"""Cells of a column from which models and kinds have their whole names."""


def render_circuit(view: View, width: int, height: int, pen: Pen) -> list[Strip]:
    """Return the panel's rows: state and mode, errors against the threshold, probe, pauses, last event, upstream."""
    cells, _ = pen.body_size(width, height)
    lane = view.lane
    if lane is None:
        return pen.message("Circuit", "No lane yet: the circuit is closed.", width, height)
    state = lane.state
    shown = sign(state.circuit)
    glyph, role = pen.sign(shown)
    forced = " forced" if state.circuit_forced else ""
    head = [(f"{glyph} {shown.word.upper()}", role), (forced, "accent"), (f"  {shown.meaning}", "dim")]
    facts = (
        ("errors", _errors(state, cells, pen)),
        ("probe", _probe(state, cells, pen)),
        ("limit", _limited(view, state, pen)),
        _paused(view, state, pen),
        ("last", _last(view, state)),
        ("to", [(f"{state.upstream} {dict(view.snapshot.upstreams).get(state.upstream, '')}", "dim")]),
    )
    body = [head, *([(fit(label, _CIRCUIT_LABEL), "dim"), *spans] for label, spans in facts if spans)]
    note = join("forced, c changes" if state.circuit_forced else "automatic", view.lane_note())
    return pen.frame("Circuit", note, body, width, height)


def summary(state: LaneState, width: int, pen: Pen) -> list[Span]:
    """Return the state and what comes next, in one line."""
    word, role = pen.worded(sign(state.circuit))
    forced = " forced" if state.circuit_forced else ""
    chunks: list[Chunk] = [(0, [("circuit ", "text"), (word + forced, role)])]
    if state.circuit == "open" and state.circuit_reopens_in_s is not None:
        chunks.append((1, [(f"probe in {short_duration(state.circuit_reopens_in_s)}", "wait")]))
    for family, left_s in state.pauses[:1]:
        what = f"{family} limited" if family else "rate-limited"
        chunks.append((1, [(f"{pen.glyphs.clock} {what} {short_duration(left_s)}", "wait")]))
    if state.circuit == "closed":
        chunks.append((2, [(f"{state.circuit_errors} of {state.circuit_results} tries failed", "dim")]))
    return fitting(width, chunks)


def _errors(state: LaneState, width: int, pen: Pen) -> list[Span]:
    errors, results = state.circuit_errors, state.circuit_results
    share = errors / results if results else 0.0
    full = results >= state.circuit_window
    role = "bad" if share >= state.circuit_threshold else "wait" if share >= state.circuit_threshold / 2 else "ok"
    figures = f" {fit(percent(errors, results), 4, '>')}, {errors} of the last {results}"
    limit = f", opens at {percent(state.circuit_threshold, 1)}{'' if full else f' of {state.circuit_window}'}"
    bar = max(4, min(_CIRCUIT_BAR, width - _CIRCUIT_LABEL - len(figures) - len(limit)))
    cells = round(min(1.0, share) * bar) or int(errors > 0)
    at = min(bar - 1, round(state.circuit_threshold * bar))
    glyphs = pen.glyphs
    drawn: list[Span] = [(glyphs.full, role) if n < cells else (glyphs.empty, "rule") for n in range(bar)]
    drawn[at] = (glyphs.frame[5], "strong")
    return [*drawn, (figures, "text"), (limit, "dim")]


def _probe(state: LaneState, width: int, pen: Pen) -> list[Span]:
    if state.circuit == "half_open":
        under_way = "in flight, its result decides" if state.active else "the next request"
        return [(f"{pen.glyphs.half} {under_way}", "recover")]
    if state.circuit != "open":
        return []
    left = state.circuit_reopens_in_s
    if left is None:
        return [("none while forced open; c changes that", "wait")]
    cooldown = state.knobs.get("circuit.cooldown_s") or left or 1.0
    gauge = pen.gauge(max(4, min(_CIRCUIT_BAR, width - _CIRCUIT_LABEL - 10)), 1 - left / cooldown, role="wait")
    return [*gauge, (f" in {short_duration(left)}", "wait")]


def _limited(view: View, state: LaneState, pen: Pen) -> list[Span]:
    if not state.pauses:
        return []
    what = ", ".join([f"{family or 'rate-limited'}, {short_duration(left_s)} left" for family, left_s in state.pauses])
    return [(f"{pen.glyphs.clock} {what}", "wait"), ("; r ends it" if view.live else "", "dim")]


def _paused(view: View, state: LaneState, pen: Pen) -> tuple[str, list[Span]]:
    if view.snapshot.mode == "draining":
        label, what, key = "drain", f"{pen.glyphs.half} new requests are refused", "; D ends it"
    elif state.paused or view.snapshot.mode == "paused":
        label, what, key = "paused", f"{pen.glyphs.pause} everything waits", "; p resumes"
    else:
        return "", []
    return label, [(what, "wait"), (key if view.live else "", "dim")]


def _last(view: View, state: LaneState) -> list[Span]:
    line = next((line for line in reversed(view.snapshot.lines) if _about(line, state.lane)), None)
    if line is None:
        return []
    by = "you: " if line.tag == "you" else ""
    return [(f"{clock(line.wall)} ", "dim"), (f"{by}{line.text}", "text")]


def _about(line: Line, lane: str) -> bool:
    if line.who not in (lane, "all"):
        return False
    return line.tag == "circuit" or (line.tag == "you" and line.text.startswith("circuit "))
