"""The first screen: what this is, where to point agents, and that it waits for the first of them."""

from __future__ import annotations

from textual.strip import Strip

from hivemind.setup import quick_lines
from hivemind_tui.format import fit
from hivemind_tui.ink import Ink, Span, body_size
from hivemind_tui.view import View

_TITLE = 15
_ROOMY = 24
"""Rows from which there is air between the parts."""


def render(view: View, width: int, height: int, ink: Ink) -> list[Strip]:
    """The panel's rows: from the top what matters most, so that a small terminal loses the least."""
    cells, rows = body_size(ink, width, height)
    parts = [_what(view), _where(view), _targets(view), _next(view, ink)]
    body: list[Strip] = []
    for part in parts:
        if body and rows >= _ROOMY:
            body.append(ink.row(cells))
        body += [ink.row(cells, *spans) for spans in part]
    top = max(0, (rows - len(body)) // 3)
    body = [ink.row(cells)] * top + body
    waiting = (
        f"{view.snapshot.totals.requests} so far" if view.snapshot.totals.requests else "waiting for the first request"
    )
    return ink.frame("Connect an agent", waiting, body[:rows], width, height)


def _what(view: View) -> list[list[Span]]:
    return [
        [("HiveMind ", "title"), ("lets many agents share one rate-limited API without stampeding:", "text")],
        [("it queues, paces and retries their requests, and this screen shows and steers all of it.", "text")],
        [("It listens on ", "text"), (view.snapshot.address, "accent"), (". Point an agent at it:", "text")],
    ]


def _where(view: View) -> list[list[Span]]:
    lines = quick_lines(view.snapshot.address, token=view.token)
    return [[("  " + fit(title, _TITLE), "dim"), (line, "info")] for title, line in lines]


def _targets(view: View) -> list[list[Span]]:
    rows: list[list[Span]] = [
        [("The name after /agent/ is yours to choose. Requests go on, with the agent's own key, to", "dim")]
    ]
    rows += [[("  " + fit(name, _TITLE), "dim"), (url, "text")] for name, url in view.snapshot.upstreams]
    return rows


def _next(view: View, ink: Ink) -> list[list[Span]]:
    rows: list[list[Span]] = [
        [("  hivemind setup", "accent"), ("  in another terminal tells all about Claude Code, Codex, Cursor …", "dim")],
        [("  y", "accent"), ("  copies the first line    ", "dim"), ("?", "accent"), ("  all keys", "dim")],
    ]
    if view.demo:
        text = "  starts the demo: eleven mock agents, a provider on a bad day, no key needed"
        rows.append([("  d", "accent"), (text, "dim")])
    rows.append([(f"{ink.glyphs.ring} ", "wait"), ("waiting for the first request", "wait")])
    return rows
