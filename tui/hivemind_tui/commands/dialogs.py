"""What the overlay says: menus, questions before something is lost, and the help."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Literal

from rich.cells import cell_len
from textual.geometry import Size

from hivemind.settings.write import Draft
from hivemind.text.humanise import short_count, short_plural
from hivemind.world.snapshot import AgentView, TaskView, TicketView
from hivemind_tui.keys.keymap import here
from hivemind_tui.keys.table import KEYS, Key
from hivemind_tui.render.format import clean
from hivemind_tui.render.glyphs import LEGEND, TASK_SIGNS, sign
from hivemind_tui.render.pen import Pen, Span, call, linked
from hivemind_tui.sources.playback import KINDS
from hivemind_tui.state.view import View

Rows = list[list[Span]]

CIRCUIT_MODES: Mapping[str, Literal["auto", "open", "closed", "probe"]] = {
    "a": "auto",
    "o": "open",
    "c": "closed",
    "h": "probe",
}
"""Keys of the circuit menu."""
NARROW = Size(80, 24)
_TWO_COLUMNS = 156
"""Cells that two columns of the help take, with the box around them."""
_EVERYWHERE = 99
_NAMED = 6
"""Agents that a question names; the others are counted."""


def circuit_menu(view: View) -> tuple[str, Rows]:
    """Return title and rows of the circuit menu, with what forcing it open would refuse."""
    lane = view.lane
    flying = lane.state.active if lane else 0
    waiting = lane.state.waiting if lane else 0
    refused = f"{waiting} waiting {'is' if waiting == 1 else 'are'} refused" if waiting else "no request waits"
    steered = "forced" if lane and lane.state.circuit_forced else "automatic"
    state = sign(lane.state.circuit).word if lane else "closed"
    name = clean(lane.state.lane) if lane else "every lane"
    return f"Circuit of {name}", [
        [(f"now {state}, {steered}", "dim")],
        [(f"forced open: {refused}; {_in_flight(flying).removesuffix(' to the end')}", "dim")],
        [],
        choice("a", "automatic", "errors open it, a good probe closes it"),
        choice("o", "force open", "send nothing, refuse new requests"),
        choice("c", "force closed", "send whatever the errors"),
        choice("h", "probe now", "send one request to test the upstream"),
        [],
        [("any other key changes nothing", "dim")],
    ]


def quit_question(flying: int, queued: int, drain_s: float) -> Rows:
    """Rows of the question before quitting with requests under way."""
    waiting = f", {queued} waiting {'is' if queued == 1 else 'are'} refused" if queued else ""
    return [
        [(_in_flight(flying, drain_s) + waiting, "text")],
        [],
        choice("y", "drain and quit", "a signal or Ctrl-C while it drains quits at once"),
        [],
        [("any other key changes nothing", "dim")],
    ]


def drain_question(view: View) -> Rows:
    """Rows of the question before draining while the proxy stays."""
    queued = view.snapshot.queued
    waiting = (
        f"{short_plural(queued, 'request')} waiting {'is' if queued == 1 else 'are'} refused"
        if queued
        else "no request waits"
    )
    return [
        [(f"{waiting}; {_in_flight(len(view.snapshot.slots))}", "text")],
        [("New requests are told to retry in a few seconds, until D accepts requests again.", "dim")],
        [],
        choice("y", "drain", ""),
        [],
        [("any other key changes nothing", "dim")],
    ]


def stop_question(view: View, agents: Sequence[AgentView]) -> Rows:
    """Rows of the question before agents are stopped: what is lost."""
    names = {agent.name for agent in agents}
    flying = [ticket for ticket in view.snapshot.slots if ticket.agent in names]
    waiting = sum(agent.queued for agent in agents)
    shown = ", ".join(clean(agent.name) for agent in agents[:_NAMED])
    more = f" and {len(agents) - _NAMED} more" if len(agents) > _NAMED else ""
    them = "it" if len(agents) == 1 else "them"
    refused = f"{short_plural(waiting, 'waiting request')} {'is' if waiting == 1 else 'are'} refused"
    return [
        [(shown + more, "strong")],
        [(_cut(flying), "bad" if flying else "text")],
        [(refused if waiting else "nothing is waiting", "text")],
        [(f"Their later requests are refused too, until x allows {them} again.", "dim")],
        [],
        choice("y", "stop", ""),
        [],
        [("any other key changes nothing", "dim")],
    ]


def cancel_question(view: View, task: TaskView) -> Rows:
    """Rows of the question before a task is cancelled: what can't run without it."""
    lost, names = [], {task.id}
    # Tasks are in order of arrival, and a task arrives no earlier than those that it waits for.
    for each in view.snapshot.tasks:
        if each.state in ("waiting", "blocked") and names & set(each.after):
            lost.append(clean(each.id))
            names.add(each.id)
    more = f" and {len(lost) - _NAMED} more" if len(lost) > _NAMED else ""
    wait = f"{short_plural(len(lost), 'task')} can't run without it: {', '.join(lost[:_NAMED])}{more}"
    runs = task.state == "running"
    return [
        [(clean(task.id), "strong")],
        [(wait if lost else "no task waits for it", "wait" if lost else "text")],
        *([[("It is running: a batch ends its process; another worker may go on.", "text")]] if runs else []),
        [],
        choice("y", "cancel it", ""),
        [],
        [("any other key changes nothing", "dim")],
    ]


def _cut(flying: Sequence[TicketView]) -> str:
    if not flying:
        return "nothing is in flight"
    tokens = sum(ticket.output_tokens for ticket in flying)
    lost = f", {short_count(tokens)} tokens already answered are lost" if tokens else ""
    return f"{short_plural(len(flying), 'request')} in flight {'is' if len(flying) == 1 else 'are'} cut{lost}"


def write_question(draft: Draft) -> Rows:
    """Rows that show what would change in the settings file."""
    colours = {"+": "ok", "-": "bad", "@": "dim"}
    lines: Rows = [[(line.rstrip("\n"), colours.get(line[:1], "text"))] for line in draft.diff]
    return [
        [(str(draft.path), "strong")],
        [],
        *lines,
        [],
        choice("y", "write it", "as settings of every upstream, from the next start"),
        [],
        [("any other key changes nothing", "dim")],
    ]


def help_rows(pen: Pen, view: View | None = None, size: Size = NARROW) -> Rows:
    """Return the keys of this page (all where no view is given) by group, those that move in time and those of few
    pages first, then what the glyphs mean; in two columns where they don't fit one below the other and
    there is room for two."""
    parts: list[Rows] = []
    keys = here(view) if view is not None else list(KEYS)
    groups = {key.group: min(_pages_of(each) for each in keys if each.group == key.group) for key in keys}
    for group in sorted(groups, key=lambda name: (name != "time", groups[name])):
        part: Rows = [[(group, "title")]]
        part += [[(f"  {key.shown:<12}", "accent"), (key.help, "text")] for key in keys if key.group == group]
        parts.append(part)
    legend: Rows = [[("glyphs", "title")]]
    signs = (TASK_SIGNS if view is not None and view.page == "tasks" else LEGEND).values()
    for each in signs:
        glyph = getattr(pen.glyphs, each.glyph)
        legend.append([(f"  {glyph} {each.word:<9} ", each.role), (each.meaning, "text")])
    parts.append(legend)
    if view is not None and view.playback is not None:
        marks: Rows = [[("marks of the timeline", "title")]]
        for of in KINDS.values():
            marks.append([(f"  {getattr(pen.glyphs, of.glyph)} {of.word:<9} ", of.role), (of.meaning, "text")])
        parts.append(marks)
    rows = [row for part in parts for row in part]
    if len(rows) + 2 <= size.height or size.width < _TWO_COLUMNS:
        return rows
    split = min(range(1, len(parts)), key=lambda index: _taller(parts, index))
    left, right = ([row for part in some for row in part] for some in (parts[:split], parts[split:]))
    return _beside(left, right)


def _pages_of(key: Key) -> int:
    return len(key.pages) or _EVERYWHERE


def _taller(parts: Sequence[Rows], split: int) -> int:
    return max(sum(map(len, parts[:split])), sum(map(len, parts[split:])))


def _beside(left: Rows, right: Rows) -> Rows:
    wide = max(sum(cell_len(text) for text, _ in row) for row in left)
    rows: Rows = []
    for index in range(max(len(left), len(right))):
        first = left[index] if index < len(left) else []
        gap = " " * (wide - sum(cell_len(text) for text, _ in first) + 4)
        rows.append([*first, (gap, "text"), *(right[index] if index < len(right) else [])])
    return rows


def kinds_menu(pen: Pen, wanted: Collection[str], counts: Mapping[str, int]) -> Rows:
    """Rows of the menu of a timeline's marks: what each is of, how many there are, and whether they are shown."""
    rows: Rows = []
    for number, (kind, of) in enumerate(KINDS.items(), 1):
        action, shown = call("app.answer", str(number)), kind in wanted
        state = ("shown ", "ok") if shown else ("hidden", "dim")
        rows.append(
            [
                linked(f" {number}  ", "accent", action),
                (f"{getattr(pen.glyphs, of.glyph)} ", of.role if shown else "dim"),
                linked(f"{of.word:<10}", "strong" if shown else "dim", action),
                (f"{counts.get(kind, 0):>6}  ", "text"),
                (f"{state[0]}  ", state[1]),
                (of.meaning, "dim"),
            ]
        )
    return [
        *rows,
        [],
        choice("a", "all of them", "or only those hidden now"),
        [],
        [("any other key closes the menu", "dim")],
    ]


def choice(key: str, what: str, meaning: str) -> list[Span]:
    """A row of a question: a key and what it does, which a click does too."""
    action = call("app.answer", key)
    return [linked(f" {key}  ", "accent", action), linked(f"{what:<16}", "strong", action), (meaning, "dim")]


def _in_flight(flying: int, drain_s: float | None = None) -> str:
    if flying == 0:
        return "nothing is in flight"
    limit = "" if drain_s is None else f" (at most {drain_s:g} s)"
    noun, verb = ("request", "goes") if flying == 1 else ("requests", "go")
    return f"{flying} {noun} in flight {verb} on to the end{limit}"
