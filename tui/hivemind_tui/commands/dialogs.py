"""The texts of the overlay: menus, questions before something is lost, and the help."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import zip_longest
from typing import Literal

from textual.geometry import Size

from hivemind.settings.write import Draft
from hivemind.text.humanise import NOTHING, short_count, short_duration, short_plural
from hivemind.world.snapshot import TaskView, TicketView
from hivemind_tui.commands.queue import Change
from hivemind_tui.commands.words import LABELS
from hivemind_tui.keys.keymap import BY_ID, footer, here
from hivemind_tui.plots.sample import mark
from hivemind_tui.render.format import clean, fit
from hivemind_tui.render.glyphs import GATE_SIGNS, LEASE_SIGNS, LEGEND, TASK_SIGNS, Sign, sign
from hivemind_tui.render.pen import Pen, Row, Span, call, cells_of, linked
from hivemind_tui.sources.playback import KINDS
from hivemind_tui.state.view import OF_AGENTS, OF_REQUESTS, PAGES, View

Rows = list[list[Span]]
CircuitMode = Literal["auto", "open", "closed", "probe"]

CIRCUIT_MODES: Mapping[str, CircuitMode] = {"a": "auto", "o": "open", "c": "closed", "h": "probe"}
"""Keys of the circuit menu."""
_TWO_COLUMNS = 156
"""Cells that two columns of the help take, with the box around them."""
_HELP_WIDTH, _HELP_CELLS, _HELP_SIGNS = 110, 25, 100
"""Widest help of a page, cells of a key in it, and requests whose signs it explains."""
_EVERYWHERE, _KEY = 99, 12
_FLOW = 2
"""Cells between what stands side by side."""
_EXPLAINED: Mapping[str, Sequence[str]] = {
    "overview": ("level", "AIMD", "RUNS OUT", "errors", "FAIL", "TRIES", "lane"),
    "agents": ("FAIL", "WAITS", "IN", "OUT"),
    "tuning": ("level", "AIMD", "RUNS OUT"),
    "log": ("level", "AIMD", "lane"),
    **dict.fromkeys(("requests", "agent", "request"), ("TRIES", "WAITED", "TOTAL", "OUT", "lane")),
}
"""By page its words that don't tell by themselves what they are."""
_NAMED = 6
"""Agents or tasks that a question names; the others are counted."""


def choice(key: str, what: str, meaning: str = "") -> list[Span]:
    """Return a row of a question: a key and what it does, which a click does too."""
    action = call("app.answer", key)
    return [linked(f" {key}  ", "accent", action), linked(f"{what:<16}", "strong", action), (meaning, "dim")]


def question(rows: Rows, *choices: list[Span], otherwise: str = "any other key changes nothing") -> Rows:
    """Return the rows of a question with its choices, and what any other key does."""
    return [*rows, [], *choices, [], [(otherwise, "dim")]]


def circuit_menu(view: View) -> Rows:
    """Return the rows of the circuit menu, with what forcing it open would refuse."""
    state = view.lane.state if view.lane else None
    steered = "forced" if state and state.circuit_forced else "automatic"
    refused, in_flight = _refused(state.waiting if state else 0), _in_flight(state.active if state else 0)
    rows: Rows = [
        [(f"now {sign(state.circuit).word if state else 'closed'}, {steered}", "dim")],
        [(f"forced open: {refused}; {in_flight.removesuffix(' to the end')}", "dim")],
    ]
    return question(
        rows,
        choice("a", "automatic", "errors open it, a good probe closes it"),
        choice("o", "force open", "send nothing, refuse new requests"),
        choice("c", "force closed", "send whatever the errors"),
        choice("h", "probe now", "send one request to test the upstream"),
    )


def quit_question(view: View) -> Rows:
    """Return the question before quitting with requests in flight or queued."""
    in_flight, queued = len(view.snapshot.slots), view.snapshot.queued
    limit = f" (at most {view.drain_s:g} s)" if in_flight else ""
    waiting = f", {_refused(queued)}" if queued else ""
    yes = choice("y", "drain and quit", "so does a second q; Ctrl-C while it drains quits at once")
    return question([[(_in_flight(in_flight) + limit + waiting, "text")]], yes)


def drain_question(view: View) -> Rows:
    """Return the question before draining while the proxy stays."""
    snapshot = view.snapshot
    rows: Rows = [
        [(f"{_refused(snapshot.queued)}; {_in_flight(len(snapshot.slots))}", "text")],
        [("New requests are told to retry in a few seconds, until D accepts requests again.", "dim")],
    ]
    return question(rows, choice("y", "drain"))


def stop_question(view: View, names: Collection[str], offered: Collection[str]) -> Rows:
    """Return the ways to stop spending, by these keys: what each costs and keeps. Forcing the circuit open is for all
    lanes."""
    snapshot = view.snapshot
    agents = [agent for agent in snapshot.agents if agent.name in names]
    cut = [ticket for ticket in snapshot.slots if ticket.agent in names]
    waiting = sum(agent.queued for agent in agents)
    who = "them" if len(names) > 1 else "it"
    goes_on, refused = _in_flight(len(snapshot.slots)), _refused(snapshot.queued)
    ways: Mapping[str, tuple[str, str]] = {
        "y": (f"stop {who}", f"{_cut(cut)}; {_refused(waiting)}, and later ones; x allows {who} again"),
        "h": (f"hold {who}", f"{_in_flight(len(cut))}; the others wait; h releases {who}"),
        "p": ("pause all", f"{goes_on}; the others wait; p resumes"),
        "D": ("drain", f"{goes_on}; {refused}, and new ones; D accepts again"),
        "o": ("circuit open", f"{goes_on}; {refused} until c sets it back to automatic"),
    }
    rows: Rows = [
        [(_named(sorted(names)), "strong")] if names else [("For one agent alone, choose it first: j k", "dim")]
    ]
    return question(rows, *[choice(key, *way) for key, way in ways.items() if key in offered])


def undo_question(change: Change) -> Rows:
    """Return the question before a change is undone that is old, or without which requests stop."""
    rows: Rows = [[(change.text, "strong"), (f", {short_duration(change.age_s)} ago", "dim")]]
    if change.stops_traffic:
        rows.append([("Undone, requests are held or refused.", "wait")])
    return question(rows, choice("y", "undo it"))


def cut_question(view: View, number: int) -> Rows:
    """Return the question what becomes of a request in flight."""
    ticket = next((each for each in view.snapshot.slots if each.ticket == number), None)
    if ticket is None:
        return question([[("It has ended.", "text")]])
    silent = f"nothing has come for {short_duration(ticket.silent_s)}"
    rows: Rows = [[(f"{clean(ticket.model)}, attempt {ticket.attempt}: ", "text"), (silent, "wait")]]
    if ticket.begun:
        rows.append([("Its answer has begun, so that it can't be sent again unseen.", "dim")])
        return question(rows, choice("c", "cut it", "the answer breaks off with an error"))
    again = choice("r", "retry it", "this attempt ends and another begins; the agent doesn't notice")
    return question(rows, again, choice("c", "cut it", "the agent gets an error"))


def alert_rows(view: View, pen: Pen, *, acknowledges: bool) -> Rows:
    """Return the alerts, those first that nobody has acknowledged, each with its age and its text."""
    rows: Rows = []
    for alert in sorted(view.snapshot.alerts, key=lambda each: (bool(each.acknowledged), -each.since)):
        age = f"{short_duration(max(0.0, view.snapshot.at - alert.since)):>6} ago  "
        glyph, role = (pen.glyphs.good, "dim") if alert.acknowledged else (pen.glyphs.warn, "bad")
        seen = [f"seen by {clean(alert.acknowledged)}"] if alert.acknowledged else []
        notes = ", ".join(["over", *seen] if alert.over else seen)
        text = f"{clean(alert.text)}{f' ({notes})' if notes else ''}"
        rows.append([(f"{glyph} ", role), (age, "dim"), (text, "dim" if alert.acknowledged else "text")])
    if not acknowledges:
        return rows
    return question(rows, choice("A", "acknowledge", "all of them: they leave the header"))


def cancel_question(view: View, task: TaskView) -> Rows:
    """Return the question before a task is cancelled: what can't run without it."""
    lost, names = [], {task.id}
    # Tasks are in order of arrival, and a task arrives no earlier than those that it waits for.
    for each in view.snapshot.tasks:
        if each.state in ("waiting", "blocked") and names & set(each.after):
            lost.append(each.id)
            names.add(each.id)
    wait = f"{short_plural(len(lost), 'task')} can't run without it: {_named(lost)}"
    rows: Rows = [
        [(clean(task.id), "strong")],
        [(wait if lost else "no task waits for it", "wait" if lost else "text")],
    ]
    if task.state == "running":
        rows.append([("It is running: a batch ends its process; another worker may go on.", "text")])
    return question(rows, choice("y", "cancel it"))


def write_question(draft: Draft) -> Rows:
    """Return the question before the settings file is changed: the difference."""
    colours = {"+": "ok", "-": "bad", "@": "dim"}
    lines: Rows = [[(line.rstrip("\n"), colours.get(line[:1], "text"))] for line in draft.diff]
    yes = choice("y", "write it", "as settings of every upstream, from the next start")
    return question([[(str(draft.path), "strong")], [], *lines], yes)


def _in_flight(count: int) -> str:
    if count == 0:
        return "nothing is in flight"
    return f"{short_plural(count, 'request')} in flight {'goes' if count == 1 else 'go'} on to the end"


def _refused(waiting: int) -> str:
    return f"{waiting} waiting {'is' if waiting == 1 else 'are'} refused" if waiting else "nothing is waiting"


def _cut(tickets: Sequence[TicketView]) -> str:
    if not tickets:
        return "nothing is in flight"
    tokens = sum(ticket.output_tokens for ticket in tickets)
    lost = f", {short_count(tokens)} tokens already answered are lost" if tokens else ""
    return f"{short_plural(len(tickets), 'request')} in flight {'is' if len(tickets) == 1 else 'are'} cut{lost}"


def _named(names: Sequence[str]) -> str:
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return ", ".join(map(clean, names[:_NAMED])) + more


def page_help(pen: Pen, view: View, size: Size) -> Rows:
    """Return on one screen the pages, the keys of this one that do something now, and its signs and words."""
    width = min(size.width, _HELP_WIDTH) - 4
    pages: list[Row] = [
        [linked(f"{key.shown} ", "accent", f"app.{key.action}"), (key.label, "text" if view.has(key.id) else "rule")]
        for key in here(view)
        if key.keys and key.id in (*PAGES, "start")
    ]
    cells = [spans[:2] for _, spans in footer(view) if len(spans) > 1]
    across = max(1, width // _HELP_CELLS)
    down = -(-len(cells) // across)
    rows = [*_flowing(pages, width), []]
    for n in range(down):
        row: list[Span] = []
        for spans in cells[n::down]:
            label, _ = spans[1]
            row += [spans[0], (fit(label, _HELP_CELLS - 1 - cells_of(spans[:1])) + " ", "text")]
        rows.append(row)
    shown: list[Row] = [[pen.worded(sign), (f": {sign.meaning}", "text")] for sign in signs_on(view)]
    if (lane := view.lane) is not None and view.page in ("overview", "tuning"):
        cuts = dict.fromkeys(mark(point.mark) for point in lane.curve if point.mark)
        shown += [
            [(f"{cut.shown(pen.glyphs.braille)} {cut.word}", cut.role), (": cut the level", "text")] for cut in cuts
        ]
    if view.playback is not None:
        marks = {each.kind for each in view.playback.marks}
        shown += [[pen.worded(of), (f": {of.meaning}", "text")] for kind, of in KINDS.items() if kind in marks]
    words = [[(word, "strong"), (f": {_meaning(word, pen)}", "text")] for word in _EXPLAINED.get(view.page, ())]
    glyphs = pen.glyphs
    common = f"{glyphs.about} estimated  {NOTHING} not yet  . none  {glyphs.ellipsis} cut short"
    explained = [*_flowing(shown, width), *_flowing(words, width)]
    last = [(pen.glyphs.plain(common), "text")]
    return [*rows, [], *explained[: max(1, size.height - 4 - len(rows))], last]


def _meaning(word: str, pen: Pen) -> str:
    return pen.glyphs.plain((LABELS.get(word) or LABELS[word.lower()]).meaning)


def _flowing(parts: Iterable[Row], width: int) -> Rows:
    """Return parts side by side, in as many rows as they need."""
    rows: Rows = []
    for part in parts:
        if rows and cells_of([*rows[-1], *part]) + _FLOW <= width:
            rows[-1] += [(" " * _FLOW, "text"), *part]
        else:
            rows.append([*part])
    return rows


def signs_on(view: View) -> Sequence[Sign]:
    """Return the signs of the states that the page shows."""
    now, page = view.snapshot, view.page
    if page in ("tasks", "fleet"):
        states = {each.state for each in (now.tasks if page == "tasks" else view.fleet.members)}
        return [sign for name, sign in (TASK_SIGNS if page == "tasks" else LEASE_SIGNS).items() if name in states]
    of_agents = page in OF_AGENTS or page == "agent"
    listed = view.listed[:_HELP_SIGNS] if page in OF_REQUESTS or page == "request" else ()
    states = {each.state for each in (now.agents if of_agents else listed)}
    states |= {lane.state.circuit for lane in now.lanes} if page in ("overview", "tuning", "log") else set()
    states |= {ticket.state for ticket in (*now.slots, *now.queue)} if page == "overview" else set()
    states |= {"boosted" for agent in now.agents if of_agents and agent.boosted_for_s > 0}
    states |= {name for name in ("marked", "pinned") if of_agents and getattr(view, name)}
    gates = {ticket.gate for ticket in now.queue if of_agents}
    return [
        *(sign for name, sign in LEGEND.items() if name in states),
        *(sign for name, sign in GATE_SIGNS.items() if name in gates and name not in ("held", "backoff")),
    ]


def help_rows(pen: Pen, view: View, size: Size) -> Rows:
    """Return the keys of this page by group, those that move in time and those of few pages first, then what the glyphs
    mean; in two columns where they don't fit one below the other and there is room for two."""
    keys, palette = here(view), BY_ID["palette"].shown
    pages = {key.group: min(len(each.pages) or _EVERYWHERE for each in keys if each.group == key.group) for key in keys}
    parts: list[Rows] = []
    for group in sorted(pages, key=lambda name: (name != "time", pages[name])):
        listed = [key for key in keys if key.group == group]
        shown = {key.id: key.shown or fit(f"{palette}{key.id.replace('_', ' ')}", _KEY) for key in listed}
        rows: Rows = [[(f"  {shown[key.id]:<{_KEY}}", "accent"), (key.help, "text")] for key in listed]
        parts.append([[(group, "title")], *rows])
    signs = {"tasks": TASK_SIGNS, "fleet": LEASE_SIGNS}.get(view.page, LEGEND).values()
    parts.append(_legend("glyphs", signs, pen))
    words = dict.fromkeys(word for page in _EXPLAINED.values() for word in page)
    parts.append(
        [[("words", "title")], *([(f"  {word:<12}", "strong"), (_meaning(word, pen), "text")] for word in words)]
    )
    if view.playback is not None:
        parts.append(_legend("marks of the timeline", KINDS.values(), pen))
    every = [row for part in parts for row in part]
    if len(every) + 2 <= size.height or size.width < _TWO_COLUMNS:
        return every
    lengths = [len(part) for part in parts]
    split = min(range(1, len(parts)), key=lambda index: max(sum(lengths[:index]), sum(lengths[index:])))
    left, right = ([row for part in some for row in part] for some in (parts[:split], parts[split:]))
    return _beside(left, right)


def _legend(title: str, signs: Collection[Sign], pen: Pen) -> Rows:
    rows: Rows = [[(title, "title")]]
    for each in signs:
        rows.append([(f"  {getattr(pen.glyphs, each.glyph)} {each.word:<9} ", each.role), (each.meaning, "text")])
    return rows


def _beside(left: Rows, right: Rows) -> Rows:
    wide = max(map(cells_of, left))
    nothing: list[Span] = []
    rows: Rows = []
    for first, second in zip_longest(left, right, fillvalue=nothing):
        gap = " " * (wide - cells_of(first) + 4)
        rows.append([*first, (gap, "text"), *second])
    return rows
