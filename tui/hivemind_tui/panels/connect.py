"""The first screen: what this is, where to point agents, and that it waits for the first of them."""

from __future__ import annotations

from textwrap import wrap

from rich.cells import cell_len
from textual.strip import Strip

from hivemind.setup.clients import CLIENTS, Target, quick_lines
from hivemind.text.humanise import short_plural
from hivemind.world.lines import SETTINGS
from hivemind_tui.render.format import broken, clean, fit
from hivemind_tui.render.pen import Pen, Row, call, linked
from hivemind_tui.render.rows import broken as shortened
from hivemind_tui.render.rows import hanging
from hivemind_tui.state.view import View

_TITLE = 17
_NARROW_TITLE = 14
_BLOCK = 88
"""Cells that the whole takes where there is room; wider than that, it stands in the middle."""
_ROOMY = 24
"""Rows from which there is air between the parts."""
_BESIDE = 130, 28
"""Cells and rows from which every client is listed at the right, and further sections below the lines to paste."""
_PAGES = (
    ("1", "what runs, what waits and why, and how the provider's limits stand"),
    ("2", "agents: what each does, costs and waits for; hold, boost, stop or budget one"),
    ("3", "requests: attempts, errors and waits of each"),
    ("4", "the settings of concurrency, retries and the circuit, and what a change does"),
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
        return _columns(view, width, height, pen)
    left = max(0, (cells - _BLOCK) // 2)
    room = cells - left
    body: list[Row] = []
    for part in (_what(view), _where(view, room, pen), _targets(view, room, pen), _next(view, pen)):
        if body and rows >= _ROOMY:
            body.append([])
        body += [[(" " * left, "text"), *spans] for spans in part]
    top = max(0, (rows - len(body)) // 3)
    return pen.frame("Connect an agent", _so_far(view), [*[()] * top, *body], width, height)


def _so_far(view: View) -> str:
    requests = view.snapshot.totals.requests
    return f"{short_plural(requests, 'request')} so far" if requests else "waiting for the first request"


def _columns(view: View, width: int, height: int, pen: Pen) -> list[Strip]:
    """Return the rows of the large screen: what this is, the lines to paste, and the pages; and each client."""
    own = _BLOCK + 6
    cells, rows = pen.body_size(own, height)
    taken: list[Row] = []
    for part in _steps(view, cells, pen):
        gap: list[Row] = [[]] if taken else []
        if len(taken) + len(gap) + len(part) <= rows:  # what has no room is left out, with its title
            taken += [*gap, *part]
    left = pen.frame("Connect an agent", _so_far(view), taken, own, height)
    return [Strip.join(side) for side in zip(left, _clients(view, width - own, height, pen), strict=True)]


def _steps(view: View, cells: int, pen: Pen) -> list[list[Row]]:
    """Return the parts of the large screen's left column: what this is, the lines to paste, and the pages."""
    first: list[Row] = [
        [("First steps", "title")],
        [("1  ", "accent"), ("paste a line into the shell in which you start the agent", "text")],
        [("2  ", "accent"), ("start it: it is listed here with its first request", "text")],
        [("3  ", "accent"), ("give each terminal a name of its own, and a budget if it may cost only so much", "text")],
    ]
    pages: list[Row] = [[("Pages and keys", "title")]]
    pages += [[(f"{key}  ", "accent"), (text, "dim")] for key, text in _PAGES]
    return [_what(view), _where(view, cells, pen), _targets(view, cells, pen), first, _next(view, pen), pages]


def _clients(view: View, width: int, height: int, pen: Pen) -> list[Strip]:
    """Return the rows of the large screen's right half: each client, what it is and the command that tells more."""
    cells, rows = pen.body_size(width, height)
    most = max(2, rows // len(CLIENTS) - 2)
    body: list[Row] = []
    for client in CLIENTS.values():
        steps = client.steps(Target(view.address, client.agent, view.token, view.shell))
        said = shortened(f"{client.summary}. {steps.needs}", cells, most, pen.glyphs.ellipsis)
        command = f"hivemind setup {client.name}"
        head: Row = [(fit(client.title, max(0, cells - len(command))), "title"), (command, "accent")]
        if len(body) + 1 + len(said) > rows:
            break
        body += [head, *([(line, "dim")] for line in said)]
    return pen.frame("Clients", f"{len(CLIENTS)} known", body, width, height)


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


def _targets(view: View, room: int, pen: Pen) -> list[Row]:
    """Return where requests go, and which settings of a file that isn't trusted don't count."""
    title, indent = (_TITLE, "  ") if room > _BLOCK - 2 else (_NARROW_TITLE, "")
    longest = max((cell_len(clean(name)) for name, _ in view.snapshot.upstreams), default=0)
    title = min(max(title, len(indent) + longest + 2), room // 2)
    urls = [[(fit(indent + name, title - 1) + " ", "dim"), (url, "text")] for name, url in view.snapshot.upstreams]
    told = [line.text for line in view.snapshot.lines if line.tag == SETTINGS]
    ignored = [row for text in told for row in hanging(clean(text), "bad", min(room, _BLOCK), (pen.glyphs.warn, "bad"))]
    return [[("The name after /agent/ is yours. Requests go on with the agent's own key to", "dim")], *urls, *ignored]


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
