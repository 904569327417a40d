"""Who we are, how we are, and what was kept from the agents: the one part that no size of terminal hides."""

from __future__ import annotations

import math

from rich.cells import cell_len
from textual.strip import Strip

from hivemind.snapshot import Snapshot
from hivemind_tui.format import count, dollars, seconds, uptime
from hivemind_tui.glyphs import sign
from hivemind_tui.ink import Ink, Span, fitting, linked
from hivemind_tui.view import PAGES, View

Chunk = tuple[int, list[Span]]
_LONG_TABS = 120


def render(view: View, width: int, height: int, ink: Ink) -> list[Strip]:
    """One row of identity and health, and under it, where there is a second, the pages and the totals since start."""
    rows = [ink.row(width, (" ", "text"), *fitting(width - 2, _health(view, ink))), _second(view, width, ink)]
    return (rows + [ink.row(width)] * height)[:height]


def _second(view: View, width: int, ink: Ink) -> Strip:
    """The pages at the left; at the right as many totals as fit."""
    tabs = _tabs(view, ink, short=width < _LONG_TABS)
    left = sum(len(span[0]) for span in tabs)
    totals = fitting(width - left - 4, _totals(view.snapshot, ink), gap=" · ")
    gap = width - left - 2 - sum(cell_len(span[0]) for span in totals)
    return ink.row(width, (" ", "text"), *tabs, (" " * max(0, gap), "text"), *totals)


def _tabs(view: View, ink: Ink, *, short: bool) -> list[Span]:
    spans: list[Span] = []
    for number, name in enumerate(PAGES, 1):
        here = view.trail[0] == name
        text = str(number) if short and not here else f"{number} {name.capitalize()}"
        shown = f"[{text}]" if here else f" {text} "
        spans.append(linked(shown, "title" if here else "dim", f"app.page({name!r})"))
    return spans


def _health(view: View, ink: Ink) -> list[Chunk]:
    snapshot = view.snapshot
    chunks: list[Chunk] = [(1, [("HiveMind", "title")]), (0, _mode(view, ink))]
    upstreams = ", ".join(name for name, _ in snapshot.upstreams)
    chunks.append((4, [(snapshot.address, "text"), (f" {ink.glyphs.arrow} ", "dim"), (upstreams, "text")]))
    lane = view.lane
    if lane is not None:
        glyph, role = ink.mark(lane.state.circuit)
        forced = " forced" if lane.state.circuit_forced else ""
        word = sign(lane.state.circuit).word
        chunks.append((2, [("circuit ", "dim"), (f"{glyph} {word}{forced}", role)]))
        limit = "∞" if math.isinf(lane.state.level) else str(int(lane.state.level))
        chunks.append((1, [("slots ", "dim"), (f"{lane.state.active}/{limit}", "strong")]))
        if lane.state.parked_for_s > 0:
            chunks.append((2, [(f"{ink.glyphs.clock} parked", "wait")]))
    chunks.append((2, [("queue ", "dim"), (str(snapshot.queued), "wait" if snapshot.queued else "strong")]))
    chunks.append((5, [("up ", "dim"), (uptime(snapshot.uptime_s), "text")]))
    return chunks


def _mode(view: View, ink: Ink) -> list[Span]:
    mode, link = view.snapshot.mode, view.link
    if link.lost_for_s is not None:
        return [(f"{ink.glyphs.cross} NOT CONNECTED for {seconds(link.lost_for_s)}", "bad"), (f" {link.why}", "dim")]
    glyph, role = ink.mark(mode)
    if mode == "paused":
        spans: list[Span] = [(f"{glyph} ADMISSIONS PAUSED", "wait")]
    else:
        spans = [(f"{glyph} {sign(mode).word}", role)]
    if link.kind == "attached":
        spans.append((" attached", "info"))
    if view.frozen:
        spans.append((f"  {ink.glyphs.stop} VIEW FROZEN", "accent"))
    return spans


def _s(value: int) -> str:
    return "" if value == 1 else "s"


def _totals(snapshot: Snapshot, ink: Ink) -> list[Chunk]:
    totals = snapshot.totals
    failed_role = "bad" if totals.failed else "dim"
    chunks: list[Chunk] = [
        (4, [(count(totals.requests), "strong"), (" asked", "dim")]),
        (2, [(count(totals.finished), "ok"), (" answered", "dim")]),
        (0, [(count(totals.failed), failed_role), (" failed", "dim")]),
        (1, [(count(totals.rescued), "recover"), (f" error{_s(totals.rescued)} no agent saw", "dim")]),
        (3, [(count(totals.agents_saved), "recover"), (f" agent{_s(totals.agents_saved)} saved", "dim")]),
        (6, [(count(totals.tokens_saved), "recover"), (" tokens saved", "dim")]),
        (5, [("in ", "dim"), (count(totals.usage.total_input), "strong")]),
        (5, [("out ", "dim"), (count(totals.usage.output_tokens), "strong")]),
        (4, [(dollars(totals.dollars), "strong"), (" spent", "dim")]),
        (7, [("wasted ", "dim"), (count(totals.wasted.total), "wait" if totals.wasted.total else "dim")]),
    ]
    if totals.refused:
        chunks.insert(3, (3, [(count(totals.refused), "wait"), (" refused", "dim")]))
    if totals.abandoned:
        chunks.append((8, [(count(totals.abandoned), "text"), (" left by clients", "dim")]))
    return chunks
