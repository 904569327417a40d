"""The first screen: what this is, where to point agents, and that it waits for the first of them."""

from __future__ import annotations

from textwrap import wrap

from textual.strip import Strip

from hivemind.setup.clients import CLIENTS, Target, quick_lines
from hivemind.text.humanise import short_plural
from hivemind_tui.render.format import broken, clean, fit
from hivemind_tui.render.pen import Pen, Row, call, linked
from hivemind_tui.render.rows import broken as shortened
from hivemind_tui.state.view import View

_TITLE = 17
_NARROW_TITLE = 14
_BLOCK = 88
"""Cells that the whole takes where there is room; wider than that, it stands in the middle."""
_ROOMY = 24
"""Rows from which there is air between the parts."""
_PASTED = 4
"""Most lines to paste that are shown of a client."""
_BESIDE = 150, 36
"""Cells and rows from which every client is listed at the right, and the pages below the lines to paste."""
_PAGES = (
    ("1", "what runs, what waits and why, and how the provider's limits stand"),
    ("2", "agents: what each does, costs and waits for; hold, boost, stop or budget one"),
    ("3", "requests: attempts, errors and waits of each"),
    ("4", "the knobs of concurrency, retries and the circuit, and what a change does"),
    ("5", "the log: filter, search and scroll back"),
    ("6", "tasks of the agents and what they depend on"),
    ("7", "proxies that share the key"),
    (":", "every command by name, and ? the keys of a page"),
)


def render(view: View, width: int, height: int, pen: Pen) -> list[Strip]:
    """Return the panel's rows, the most important ones first."""
    cells, rows = pen.body_size(width, height)
    if view.link.lost_for_s is not None and not view.snapshot.upstreams:
        return pen.frame("Not connected", "", _lost(view, cells), width, height)
    if cells >= _BESIDE[0] and rows >= _BESIDE[1]:
        own = max(_BLOCK + 6, width * 11 // 20)
        sides = _steps(view, own, height, pen), _clients(view, width - own, height, pen)
        return [Strip.join(side) for side in zip(*sides, strict=True)]
    left = max(0, (cells - _BLOCK) // 2)
    room = cells - left
    body: list[Row] = []
    for part in (_what(view), _where(view, room, pen), _targets(view, room), _next(view, pen)):
        if body and rows >= _ROOMY:
            body.append([])
        body += [[(" " * left, "text"), *spans] for spans in part]
    top = max(0, (rows - len(body)) // 3)
    return pen.frame("Connect an agent", _so_far(view), [*[()] * top, *body], width, height)


def _so_far(view: View) -> str:
    requests = view.snapshot.totals.requests
    return f"{short_plural(requests, 'request')} so far" if requests else "waiting for the first request"


def _steps(view: View, width: int, height: int, pen: Pen) -> list[Strip]:
    """Return the rows of the large screen's left half: what this is, the lines to paste, and the pages."""
    cells, _ = pen.body_size(width, height)
    first: list[Row] = [
        [("First steps", "title")],
        [("1  ", "accent"), ("paste a line into the shell in which you start the agent", "text")],
        [("2  ", "accent"), ("start it: it is listed here with its first request", "text")],
        [("3  ", "accent"), ("give each terminal a name of its own, and a budget if it may cost only so much", "text")],
    ]
    pages: list[Row] = [[("Pages and keys", "title")]]
    pages += [[(f"{key}  ", "accent"), (text, "dim")] for key, text in _PAGES]
    body: list[Row] = []
    for part in (_what(view), _where(view, cells, pen), _targets(view, cells), first, _next(view, pen), pages):
        body += [*([[]] if body else []), *part]
    return pen.frame("Connect an agent", _so_far(view), body, width, height)


def _clients(view: View, width: int, height: int, pen: Pen) -> list[Strip]:
    """Return the rows of the large screen's right half: each client, what it is and the command that tells more; where
    there is room, also what to paste."""
    cells, rows = pen.body_size(width, height)
    most = max(2, rows // len(CLIENTS) - 2)
    parts: list[list[Row]] = []
    pasted: list[list[Row]] = []
    for client in CLIENTS.values():
        steps = client.steps(Target(view.address, client.agent, view.token, view.shell))
        said = shortened(f"{client.summary}. {steps.needs}", cells, most, pen.glyphs.ellipsis)
        command = f"hivemind setup {client.name}"
        parts.append(
            [
                [(fit(client.title, max(0, cells - len(command))), "title"), (command, "accent")],
                *([(line, "dim")] for line in said),
            ]
        )
        pasted.append([[("  " + line, "info")] for line in steps.snippets[0].text.splitlines()])
    spare = rows - sum(len(part) + 1 for part in parts)
    for part, lines in zip(parts, pasted, strict=True):
        if 0 < len(lines) <= _PASTED and len(lines) <= spare:
            part += lines
            spare -= len(lines)
    body: list[Row] = []
    for part in parts:
        if len(body) + len(part) > rows:
            break
        body += [*part, []] if rows >= 4 * len(CLIENTS) else part
    return pen.frame("Clients", f"{len(CLIENTS)} known", body[:rows], width, height)


def _lost(view: View, cells: int) -> list[Row]:
    why = wrap(clean(view.link.why) or "connecting", max(_TITLE, min(cells, _BLOCK)))
    return [
        [],
        [("No answer yet from ", "text"), (view.link.where or view.snapshot.address, "accent")],
        *([(line, "bad")] for line in why),
        [],
        [("It is tried again by itself, every few seconds; ", "dim"), ("q", "accent"), (" leaves.", "dim")],
    ]


def _what(view: View) -> list[Row]:
    return [
        [("HiveMind ", "title"), ("lets many agents share one rate-limited API without stampeding:", "text")],
        [("it queues, paces and retries their requests; here you watch and steer that.", "text")],
        [("It listens on ", "text"), (view.address, "accent"), (". Point an agent at it:", "text")],
    ]


def _where(view: View, room: int, pen: Pen) -> list[Row]:
    lines = quick_lines(view.address, token=view.token, shell=view.shell)
    roomy = room > _BLOCK - 2
    title_cells = _TITLE if roomy else _NARROW_TITLE
    width = max(1, room - title_cells)
    rows: list[Row] = []
    for index, (title, line) in enumerate(lines):
        here = index == view.scroll
        mark = pen.glyphs.cursor if here else " "
        first = fit(f"{mark} {title}", title_cells) if roomy else fit(title, title_cells - 1) + mark
        for number, piece in enumerate(broken(line, width)):
            head = first if number == 0 else " " * title_cells
            action = call("app.pick_line", index)
            role = "accent" if here else "dim"
            rows.append([linked(head, role, action), linked(piece, "info", action)])
    return rows


def _targets(view: View, room: int) -> list[Row]:
    title, indent = (_TITLE, "  ") if room > _BLOCK - 2 else (_NARROW_TITLE, "")
    urls = [[(fit(indent + name, title), "dim"), (url, "text")] for name, url in view.snapshot.upstreams]
    return [[("The name after /agent/ is yours. Requests go on with the agent's own key to", "dim")], *urls]


def _next(view: View, pen: Pen) -> list[Row]:
    rows: list[Row] = [
        [("j k", "accent"), ("  choose a line, ", "dim"), ("y", "accent"), (" copies it", "dim")],
        [("hivemind setup", "accent"), ("  in another terminal tells all about each client", "dim")],
    ]
    if view.demo:
        text = "  starts the demo: eleven mock agents, a provider's bad day, no key needed"
        rows.append([("d", "accent"), (text, "dim")])
    requests = view.snapshot.totals.requests
    if not requests:
        return [*rows, [(f"{pen.glyphs.ring} waiting for the first request", "wait")]]
    so_far = f"{pen.glyphs.good} {short_plural(requests, 'request')} so far; "
    return [*rows, [(so_far, "ok"), ("1", "accent"), (" shows them", "ok")]]
