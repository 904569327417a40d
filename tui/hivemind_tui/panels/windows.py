"""Rate windows: how much of each allowance is used, how much of that is only reserved, and when it is whole again."""

from __future__ import annotations

import math
from itertools import zip_longest

from textual.strip import Strip

from hivemind.scheduler.events import LaneState, WindowState
from hivemind.scheduler.types import Utilisation
from hivemind_tui.format import count, fit, percent, seconds
from hivemind_tui.ink import Ink, Span, body_size
from hivemind_tui.view import View, join

_TWO_COLUMNS = 76
_WITH_RESET = 84
_WORDS = {"requests": "requests", "input": "input tok", "output": "output tok", "tokens": "tokens"}
_SHORT = {"requests": "req", "input": "in", "output": "out", "tokens": "tok"}


def render(view: View, width: int, height: int, ink: Ink) -> list[Strip]:
    """The panel's rows: the windows of the lane shown, then the plan's long limits."""
    cells, rows = body_size(ink, width, height)
    lane = view.lane
    if lane is None or not (lane.state.windows or lane.state.plan):
        body = [ink.row(cells, ("No rate window is known yet; the first reply's headers will tell.", "dim"))]
        return ink.frame("Rate windows", view.lane_note(), body, width, height)
    state = lane.state
    families = list(dict.fromkeys(window.family for window in state.windows))
    if len(families) > 1 and cells >= _TWO_COLUMNS:
        lines = [_family(family, state, cells, ink) for family in families]
        lines += [_plan(plan, cells, ink) for plan in state.plan]
    else:
        lines = _one_each(state, families, cells, rows, ink)
    if len(lines) > rows > 0:
        more = (f"{ink.glyphs.ellipsis} {len(lines) - rows + 1} more", "dim")
        lines = [*lines[: rows - 1], ink.row(cells, more)]
    return ink.frame("Rate windows", join(_note(state), view.lane_note()), lines, width, height)


def _one_each(state: LaneState, families: list[str], cells: int, rows: int, ink: Ink) -> list[Strip]:
    """Every window on its own, in two columns where one would be too long."""
    total = len(state.windows) + len(state.plan)
    columns = 2 if total > rows and cells >= _TWO_COLUMNS else 1
    each = (cells - 3 * (columns - 1)) // columns
    items = [_window(window, len(families) > 1, each, ink) for window in state.windows]
    items += [_plan(plan, each, ink) for plan in state.plan]
    return _columns(items, columns, each, cells, ink)


def _family(family: str, state: LaneState, width: int, ink: Ink) -> Strip:
    """All windows of a model family in one row."""
    windows = [window for window in state.windows if window.family == family]
    name = min(20, max(10, width // 6))
    resets = [window.resets_in_s for window in windows if window.resets_in_s is not None]
    room = 9 if width >= _WITH_RESET else 0
    reset = f" {ink.glyphs.retry} {seconds(min(resets))}" if resets and room else ""
    each = (width - name - room) // len(windows)
    spans: list[Span] = [(fit(family, name), "text")]
    for window in windows:
        limit, used = window.limit or 1.0, gone(window)
        spans.append((" " + fit(_SHORT.get(window.kind.value, window.kind.value), 4), "dim"))
        spans += ink.gauge(max(3, each - 15), used / limit, window.reserved / limit)
        spans.append((f"{fit(count(used), 5, '>')}/{fit(count(window.limit), 4)}", "strong"))
    return ink.row(width, *spans, (fit(reset, room), "dim"))


def gone(window: WindowState) -> float:
    """What can't be had of the allowance now: what the provider says is gone, be it by us or by others on the same key;
    what we counted where it says nothing."""
    return window.used if math.isinf(window.remaining) else max(0.0, window.limit - window.remaining)


def _columns(items: list[Strip], columns: int, each: int, width: int, ink: Ink) -> list[Strip]:
    if columns == 1:
        return items
    pairs = zip_longest(items[::2], items[1::2], fillvalue=ink.row(each))
    return [Strip.join([left, ink.row(width - 2 * each), right]) for left, right in pairs]


def _note(state: LaneState) -> str:
    sources = sorted({window.source for window in state.windows})
    return f"from {', '.join(sources)}" if sources else ""


def _window(window: WindowState, with_family: bool, width: int, ink: Ink) -> Strip:
    name = _WORDS.get(window.kind.value, window.kind.value)
    used = gone(window)
    figures = f" {fit(count(used), 5, '>')}/{fit(count(window.limit), 5)}"
    label = fit(name, 11)
    if with_family:
        label = fit(window.family, 10) + " " + fit(_SHORT.get(window.kind.value, window.kind.value), 4)
    reset = f" {ink.glyphs.retry} {seconds(window.resets_in_s)}" if window.resets_in_s is not None else ""
    bar = max(4, width - len(label) - len(figures) - 9)
    limit = window.limit or 1.0
    spans: list[Span] = [(label, "text"), *ink.gauge(bar, used / limit, window.reserved / limit)]
    return ink.row(width, *spans, (figures, "strong"), (fit(reset, 9), "dim"))


def _plan(plan: Utilisation, width: int, ink: Ink) -> Strip:
    label = fit(plan.name, 11)
    bar = max(4, width - len(label) - 12 - 9)
    reset = f" {ink.glyphs.retry} {seconds(plan.reset_in_s)}" if plan.reset_in_s is not None else ""
    warn = f" {ink.glyphs.warn}" if plan.used >= 0.9 else ""
    figures = fit(f" {percent(plan.used, 1)} of plan", 12)
    spans: list[Span] = [(label, "text"), *ink.gauge(bar, plan.used), (figures, "strong"), (fit(reset, 9), "dim")]
    return ink.row(width, *spans, (warn, "wait"))
