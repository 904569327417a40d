"""Rate windows: how much of each allowance is used, how much of that is only reserved, what is left, and when it is
whole again."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import zip_longest

from textual.strip import Strip

from hivemind.scheduler.gauges import LaneState, WindowState
from hivemind.scheduler.types import Utilisation
from hivemind.text.humanise import short_count, short_duration
from hivemind_tui.panels.circuit import summary
from hivemind_tui.render.format import fit, percent
from hivemind_tui.render.pen import Pen, Span
from hivemind_tui.state.view import View, join

_TWO_COLUMNS = 74
_FIGURES = 58
"""Narrowest row with every figure in a column of its own."""
_WITH_SOURCE = 104
_BAR = 40
"""Longest: beyond that it says nothing more."""
_WORDS = {"requests": "requests", "input": "input", "output": "output", "tokens": "tokens"}
_SHORT = {"requests": "req", "input": "in", "output": "out", "tokens": "tok"}
_SCARCE = 0.2
_RESET = 7


@dataclass(frozen=True, slots=True)
class _Item:
    """One allowance to draw: a rate window, or a long limit of the plan."""

    name: str
    short: str
    used: float
    """Shares of the whole, from 0 to 1; what is reserved is part of what is used."""
    reserved: float
    figures: tuple[str, str, str, str]
    """Used for good, reserved, left, and of how much."""
    resets_in_s: float | None
    source: str


def render(view: View, width: int, height: int, pen: Pen) -> list[Strip]:
    """Return the panel's rows: the windows of the lane shown, then the plan's long limits.

    A layout without boxes has no panel for the circuit, which has a line here.
    """
    cells, rows = pen.body_size(width, height)
    title = "Rate windows" if pen.boxed else "Rate windows and circuit"
    lane = view.lane
    if lane is None:
        return pen.frame(title, "", [pen.row(cells, _UNKNOWN)], width, height)
    state = lane.state
    known = bool(state.windows or state.plan)
    items = _items(state)
    families = list(dict.fromkeys(window.family for window in state.windows))
    extra: list[Callable[[int], Strip]] = (
        [] if pen.boxed else [lambda cells: pen.row(cells, *summary(state, cells, pen))]
    )
    if not known:
        lines = [pen.row(cells, _UNKNOWN), *(line(cells) for line in extra)]
    elif len(items) + len(extra) <= rows and cells >= _FIGURES:
        lines = _listed(items, cells, rows - len(extra), pen) + [line(cells) for line in extra]
    elif len(families) > 1 and cells >= _TWO_COLUMNS:
        lines = _by_family(families, state, cells, rows, pen)
        lines += [line(cells) for line in extra][: max(0, rows - len(lines))]
    else:
        lines = _tiled(items, extra, cells, rows, pen)
    if len(lines) > rows > 0:
        more = (f"{pen.glyphs.ellipsis} {len(lines) - rows + 1} more", "dim")
        lines = [*lines[: rows - 1], pen.row(cells, more)]
    return pen.frame(title, join(_legend(pen) if known else "", _source(state), view.lane_note()), lines, width, height)


_UNKNOWN = ("No rate window is known yet; the first reply's headers will tell.", "dim")


def gone(window: WindowState) -> float:
    """What can't be had of the allowance now: what the provider says is gone, be it by us or by others on the same key;
    what we counted where it says nothing."""
    return window.used if math.isinf(window.remaining) else max(0.0, window.limit - window.remaining)


def _legend(pen: Pen) -> str:
    return f"{pen.glyphs.full} used {pen.glyphs.part} reserved {pen.glyphs.empty} left"


def _source(state: LaneState) -> str:
    sources = sorted({window.source for window in state.windows})
    return f"from {', '.join(sources)}" if sources else ""


def _items(state: LaneState) -> list[_Item]:
    several = len({window.family for window in state.windows}) > 1
    return [_window(window, several) for window in state.windows] + [_plan(plan) for plan in state.plan]


def _window(window: WindowState, several: bool) -> _Item:
    limit, used = window.limit or 1.0, gone(window)
    left = max(0.0, window.limit - used)
    word, short = _WORDS.get(window.kind.value, window.kind.value), _SHORT.get(window.kind.value, window.kind.value)
    return _Item(
        name=f"{fit(window.family, 18)} {word}" if several else word,
        short=f"{fit(window.family, 12)} {short}" if several else short,
        used=used / limit,
        reserved=window.reserved / limit,
        figures=(
            short_count(max(0.0, used - window.reserved)),
            short_count(window.reserved),
            short_count(left),
            short_count(window.limit),
        ),
        resets_in_s=window.resets_in_s,
        source=window.source,
    )


def _plan(plan: Utilisation) -> _Item:
    left = percent(max(0.0, 1 - plan.used), 1)
    figures = (percent(plan.used, 1), "", left, "plan")
    return _Item(
        f"{plan.name} plan", plan.name, plan.used, 0.0, figures, plan.reset_in_s, plan.status.replace("_", " ")
    )


# --- A row each --------------------------------------------------------------------------------------------------


def _listed(items: Sequence[_Item], width: int, rows: int, pen: Pen) -> list[Strip]:
    """Return a row for each, below heads where there is a row to spare."""
    name = _name_width(items)
    heads = [_heads(name, width, pen)] if rows > len(items) else []
    return heads + [_row(item, width, pen, name) for item in items]


def _name_width(items: Sequence[_Item]) -> int:
    return min(26, max(10, *(len(item.name) for item in items)))


def _bar_width(name: int, width: int) -> int:
    return max(4, min(_BAR, width - name - 1 - 3 * 6 - 9 - 2 - _RESET - (17 if width >= _WITH_SOURCE else 0)))


def _heads(name: int, width: int, pen: Pen) -> Strip:
    bar = _bar_width(name, width)
    figures = f"{'USED':>6} {'RESERVED':>8}{'LEFT':>6}{'OF':>6}"
    source = "  FROM" if width >= _WITH_SOURCE else ""
    return pen.row(width, (f"{fit('WINDOW', name)} {' ' * bar}{figures}  {fit('RESETS', _RESET, '>')}{source}", "dim"))


def _row(item: _Item, width: int, pen: Pen, name: int = 10) -> Strip:
    used, reserved, left, of = item.figures
    reset = short_duration(item.resets_in_s)
    spans: list[Span] = [
        (fit(item.name, name) + " ", "text"),
        *pen.gauge(_bar_width(name, width), item.used, item.reserved),
        (fit(used, 6, ">"), "text"),
        (fit(reserved, 9, ">"), "dim"),
        (fit(left, 6, ">"), _scarcity(item)),
        (fit(of, 6, ">"), "dim"),
        (f"  {fit(reset, _RESET, '>')}", "dim"),
    ]
    if width >= _WITH_SOURCE:
        spans.append((f"  {fit(item.source, 15)}", "dim"))
    return pen.row(width, *spans)


def _scarcity(item: _Item) -> str:
    return "bad" if item.used >= 0.97 else "wait" if item.used >= 1 - _SCARCE else "strong"


# --- Where there is less room ------------------------------------------------------------------------------------


def _tiled(
    items: Sequence[_Item], extra: Sequence[Callable[[int], Strip]], cells: int, rows: int, pen: Pen
) -> list[Strip]:
    """Return them in two columns where one would be too long."""
    columns = 2 if len(items) + len(extra) > rows and cells >= _TWO_COLUMNS else 1
    each = (cells - 3 * (columns - 1)) // columns
    name = min(16, max(4, *(len(item.short) for item in items)))
    tiles = [_tile(item, name, each, pen) for item in items]
    tiles += [line(each) for line in extra]
    if columns == 1:
        return tiles
    pairs = zip_longest(tiles[::2], tiles[1::2], fillvalue=pen.row(each))
    return [Strip.join([left, pen.row(cells - 2 * each), right]) for left, right in pairs]


def _tile(item: _Item, name: int, width: int, pen: Pen) -> Strip:
    _, _, left, of = item.figures
    figures = f" {fit(left, 5, '>')} left of {fit(of, 4)}"
    reset = f"{short_duration(item.resets_in_s):>{_RESET}}"
    if width < name + len(figures) + len(reset) + 4:
        reset = ""
    bar = max(3, width - name - 1 - len(figures) - len(reset))
    gauge = pen.gauge(bar, item.used, item.reserved)
    return pen.row(width, (fit(item.short, name) + " ", "text"), *gauge, (figures, _scarcity(item)), (reset, "dim"))


# --- Several model families --------------------------------------------------------------------------------------


def _by_family(families: Sequence[str], state: LaneState, width: int, rows: int, pen: Pen) -> list[Strip]:
    """Return a row for each model family, then the plan; of too many families those with the least left."""
    kinds = list(dict.fromkeys(window.kind for window in state.windows))
    name = min(20, max(12, width // 6))
    each = (width - name - _RESET) // len(kinds)
    windows = {family: [window for window in state.windows if window.family == family] for family in families}
    room = max(1, rows - len(state.plan))
    if len(families) > room:
        families = sorted(families, key=lambda family: -max(gone(w) / (w.limit or 1.0) for w in windows[family]))
    lines = []
    if rows > len(families) + len(state.plan):
        heads = "".join(f" {fit(f'{_WORDS[kind.value].upper()}, LEFT OF', each - 1, '>')}" for kind in kinds)
        lines.append(pen.row(width, (fit("WINDOW", name) + heads + fit("RESETS", _RESET, ">"), "dim")))
    for family in families:
        own = {window.kind: window for window in windows[family]}
        spans: list[Span] = [(fit(family, name), "text")]
        for kind in kinds:
            spans += _of_family(own.get(kind), each, pen)
        resets = [window.resets_in_s for window in windows[family] if window.resets_in_s is not None]
        lines.append(pen.row(width, *spans, (fit(short_duration(min(resets, default=None)), _RESET, ">"), "dim")))
    return lines + [_row(_plan(plan), width, pen, name) for plan in state.plan]


def _of_family(window: WindowState | None, width: int, pen: Pen) -> list[Span]:
    """Return one window: its kind, a bar, used and reserved where there is room, and what is left."""
    if window is None:
        return [(" " * width, "text")]
    item = _window(window, several=False)
    used, reserved, left, of = item.figures
    spans: list[Span] = [(f" {fit(item.short, 3)} ", "dim")]
    both = f" {used:>4}+{reserved:<4}" if width >= _FIGURES // 2 else ""
    spans += pen.gauge(max(2, width - 5 - len(both) - 11), item.used, item.reserved)
    return [*spans, (both, "dim"), (f"{fit(left, 6, '>')}/{fit(of, 4)}", _scarcity(item))]
