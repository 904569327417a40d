"""What limits a lane: its rate windows, the plan's long limits, and the circuit breaker."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import zip_longest

from textual.strip import Strip

from hivemind.scheduler.events import LaneState, WindowState
from hivemind.scheduler.types import Utilisation
from hivemind.text.humanise import short_count, short_duration
from hivemind.world.snapshot import Line
from hivemind_tui.render.format import clock, fit, percent
from hivemind_tui.render.glyphs import sign
from hivemind_tui.render.pen import Chunk, Pen, Row, Span, fitting
from hivemind_tui.state.view import View, join

_TWO_COLUMNS = 74
_FIGURES = 58
"""Narrowest row with every figure in a column of its own."""
_WITH_SOURCE = 104
_BAR = 40
"""Longest: beyond that it says nothing more."""
_SHORT = {"requests": "req", "input": "in", "output": "out", "tokens": "tok"}
_SCARCE = 0.2
_RESET = 7
_UNKNOWN = ("No rate window is known yet; the first reply's headers will tell.", "dim")
_CIRCUIT_BAR = 24
_CIRCUIT_LABEL = 8


@dataclass(frozen=True, slots=True)
class _Item:
    """One allowance to draw: a rate window, or a long limit of the plan."""

    name: str
    short: str
    used: float
    """Shares of the whole, from 0 to 1; what is reserved is part of what is used."""
    reserved: float
    figures: tuple[str, str, str, str]
    """Used, reserved, left, and of how much."""
    resets_in_s: float | None
    source: str

    @property
    def scarcity(self) -> str:
        """The colour role for what is left."""
        return "bad" if self.used >= 0.97 else "wait" if self.used >= 1 - _SCARCE else "strong"


def render_windows(view: View, width: int, height: int, pen: Pen) -> list[Strip]:
    """Return the panel's rows: rate windows, the plan's long limits, and without boxes a line for the circuit."""
    cells, rows = pen.body_size(width, height)
    title = "Rate windows" if pen.boxed else "Rate windows and circuit"
    lane = view.lane
    if lane is None:
        return pen.frame(title, "", [[_UNKNOWN]], width, height)
    state = lane.state
    families = list(dict.fromkeys(window.family for window in state.windows))
    items = [_window(window, len(families) > 1) for window in state.windows] + [_plan(plan) for plan in state.plan]
    circuit = [] if pen.boxed else [summary(state, cells, pen)]
    lines: Sequence[Strip | Row]
    if not items:
        lines = [[_UNKNOWN], *circuit]
    elif len(items) + len(circuit) <= rows and cells >= _FIGURES:
        lines = [*_listed(items, cells, rows - len(circuit), pen), *circuit]
    elif len(families) > 1 and cells >= _TWO_COLUMNS:
        table = _by_family(families, state, cells, rows, pen)
        lines = [*table, *circuit[: max(0, rows - len(table))]]
    else:
        lines = _tiled(items, state, cells, rows, pen)
    if len(lines) > rows > 0:
        lines = [*lines[: rows - 1], pen.more(len(lines) - rows + 1)]
    glyphs, sources = pen.glyphs, sorted({window.source for window in state.windows})
    legend = f"{glyphs.full} used {glyphs.part} reserved {glyphs.empty} left" if items else ""
    note = join(legend, f"from {', '.join(sources)}" if sources else "", view.lane_note())
    return pen.frame(title, note, lines, width, height)


def gone(window: WindowState) -> float:
    """Return how much of the allowance is used, by the provider's figures if it states them, else by our own count."""
    return window.used if math.isinf(window.remaining) else max(0.0, window.limit - window.remaining)


def _window(window: WindowState, several: bool) -> _Item:
    limit, used = window.limit or 1.0, gone(window)
    word = window.kind.value
    short = _SHORT.get(word, word)
    spent, left = max(0.0, used - window.reserved), max(0.0, window.limit - used)
    figures = short_count(spent), short_count(window.reserved), short_count(left), short_count(window.limit)
    return _Item(
        name=f"{fit(window.family, 18)} {word}" if several else word,
        short=f"{fit(window.family, 12)} {short}" if several else short,
        used=used / limit,
        reserved=window.reserved / limit,
        figures=figures,
        resets_in_s=window.resets_in_s,
        source=window.source,
    )


def _plan(plan: Utilisation) -> _Item:
    figures = (percent(plan.used, 1), "", percent(max(0.0, 1 - plan.used), 1), "plan")
    status = plan.status.replace("_", " ")
    return _Item(f"{plan.name} plan", plan.name, plan.used, 0.0, figures, plan.reset_in_s, status)


def _listed(items: Sequence[_Item], width: int, rows: int, pen: Pen) -> list[Row]:
    name = min(26, max(10, *(len(item.name) for item in items)))
    lines = [_row(item, width, pen, name) for item in items]
    if rows <= len(items):
        return lines
    figures = f"{'USED':>6} {'RESERVED':>8}{'LEFT':>6}{'OF':>6}  {fit('RESETS', _RESET, '>')}"
    source = "  FROM" if width >= _WITH_SOURCE else ""
    return [[(f"{fit('WINDOW', name)} {' ' * _bar_width(name, width)}{figures}{source}", "dim")], *lines]


def _bar_width(name: int, width: int) -> int:
    return max(4, min(_BAR, width - name - 1 - 3 * 6 - 9 - 2 - _RESET - (17 if width >= _WITH_SOURCE else 0)))


def _row(item: _Item, width: int, pen: Pen, name: int) -> Row:
    used, reserved, left, of = item.figures
    spans: list[Span] = [
        (fit(item.name, name) + " ", "text"),
        *pen.gauge(_bar_width(name, width), item.used, item.reserved),
        (fit(used, 6, ">"), "text"),
        (fit(reserved, 9, ">"), "dim"),
        (fit(left, 6, ">"), item.scarcity),
        (fit(of, 6, ">"), "dim"),
        (f"  {fit(short_duration(item.resets_in_s), _RESET, '>')}", "dim"),
    ]
    return [*spans, (f"  {fit(item.source, 15)}", "dim")] if width >= _WITH_SOURCE else spans


def _tiled(items: Sequence[_Item], state: LaneState, cells: int, rows: int, pen: Pen) -> Sequence[Strip | Row]:
    """Return them, and the circuit where it has no panel, in two columns where one would be too long."""
    columns = 2 if len(items) + (not pen.boxed) > rows and cells >= _TWO_COLUMNS else 1
    each = (cells - 3 * (columns - 1)) // columns
    name = min(16, max(4, *(len(item.short) for item in items)))
    tiles = [_tile(item, name, each, pen) for item in items]
    tiles += [] if pen.boxed else [summary(state, each, pen)]
    if columns == 1:
        return tiles
    strips = [pen.row(each, *tile) for tile in tiles]
    pairs = zip_longest(strips[::2], strips[1::2], fillvalue=pen.row(each))
    return [Strip.join([left, pen.row(cells - 2 * each), right]) for left, right in pairs]


def _tile(item: _Item, name: int, width: int, pen: Pen) -> Row:
    _, _, left, of = item.figures
    figures = f" {fit(left, 5, '>')} left of {fit(of, 4)}"
    reset = f"{short_duration(item.resets_in_s):>{_RESET}}"
    if width < name + len(figures) + len(reset) + 4:
        reset = ""
    gauge = pen.gauge(max(3, width - name - 1 - len(figures) - len(reset)), item.used, item.reserved)
    return [(fit(item.short, name) + " ", "text"), *gauge, (figures, item.scarcity), (reset, "dim")]


def _by_family(families: Sequence[str], state: LaneState, width: int, rows: int, pen: Pen) -> list[Row]:
    """Return a row for each model family, then the plan; of too many families those with the least left."""
    kinds = list(dict.fromkeys(window.kind for window in state.windows))
    name = min(20, max(12, width // 6))
    each = (width - name - _RESET) // len(kinds)
    windows = {family: [window for window in state.windows if window.family == family] for family in families}
    if len(families) > max(1, rows - len(state.plan)):
        families = sorted(families, key=lambda family: -max(gone(w) / (w.limit or 1.0) for w in windows[family]))
    lines: list[Row] = []
    if rows > len(families) + len(state.plan):
        heads = "".join(f" {fit(f'{kind.value.upper()}, LEFT OF', each - 1, '>')}" for kind in kinds)
        lines.append([(fit("WINDOW", name) + heads + fit("RESETS", _RESET, ">"), "dim")])
    for family in families:
        own = {window.kind: window for window in windows[family]}
        cells = [span for kind in kinds for span in _of_family(own.get(kind), each, pen)]
        resets = [window.resets_in_s for window in windows[family] if window.resets_in_s is not None]
        reset = fit(short_duration(min(resets, default=None)), _RESET, ">")
        lines.append([(fit(family, name), "text"), *cells, (reset, "dim")])
    return lines + [_row(_plan(plan), width, pen, name) for plan in state.plan]


def _of_family(window: WindowState | None, width: int, pen: Pen) -> Row:
    if window is None:
        return [(" " * width, "text")]
    item = _window(window, several=False)
    used, reserved, left, of = item.figures
    both = f" {used:>4}+{reserved:<4}" if width >= _FIGURES // 2 else ""
    gauge = pen.gauge(max(2, width - 5 - len(both) - 11), item.used, item.reserved)
    figures = (f"{fit(left, 6, '>')}/{fit(of, 4)}", item.scarcity)
    return [(f" {fit(item.short, 3)} ", "dim"), *gauge, (both, "dim"), figures]


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
        ("limited", _limited(view, state, pen)),
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
    if state.parked_for_s > 0:
        chunks.append((1, [(f"{pen.glyphs.clock} rate-limited {short_duration(state.parked_for_s)}", "wait")]))
    if state.circuit == "closed":
        chunks.append((2, [(f"{state.circuit_errors} of {state.circuit_results} failed", "dim")]))
    return fitting(width, chunks)


def _errors(state: LaneState, width: int, pen: Pen) -> list[Span]:
    errors, results = state.circuit_errors, state.circuit_results
    share = errors / results if results else 0.0
    full = results >= state.circuit_window
    role = "bad" if share >= state.circuit_threshold else "wait" if share >= state.circuit_threshold / 2 else "ok"
    figures = f" {fit(percent(errors, results), 4, '>')}, {errors} of {results}"
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
    if state.parked_for_s <= 0:
        return []
    left = f"{pen.glyphs.clock} rate-limited, {short_duration(state.parked_for_s)} left"
    return [(left, "wait"), ("; r ends it" if view.live else "", "dim")]


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
    return line.tag == "circuit" or (line.tag in ("you", "other") and line.text.startswith("circuit "))
