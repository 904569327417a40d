"""What the palette offers: every key's action, the themes, the columns, the agents, and knobs by name and number."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING

from hivemind.scheduler.commands import Command, PinLevel, Rejected
from hivemind.setup import Target, agent_line, quick_lines
from hivemind.text.shells import word
from hivemind_tui.commands import intents, navigation
from hivemind_tui.commands import prompts as asking
from hivemind_tui.commands import whatif as what_if
from hivemind_tui.commands.apply_whatif import what_if_line
from hivemind_tui.keys.bindings import absent
from hivemind_tui.keys.key import Key
from hivemind_tui.keys.keymap import here, parsed
from hivemind_tui.render.dials import DIALS, NAMES, reach, shown_value, typed
from hivemind_tui.render.format import clean
from hivemind_tui.state.filtering import line_fields, matching
from hivemind_tui.state.view import OF_AGENTS, OF_REQUESTS, View
from hivemind_tui.widgets.palette import Choice

if TYPE_CHECKING:
    from hivemind_tui.app import ControlRoom

_SILENT = frozenset({"palette", "down", "up", "page_down", "page_up", "first", "last"})
"""Keys that are no commands: they only move about."""
_CALLED = {
    "start": "connect",
    "raise": "priority up",
    "lower": "priority down",
    "less": "ceiling down",
    "more": "ceiling up",
    "pin": "pin level",
    "pause": "freeze all",
    "freeze": "still view",
    "lane": "next lane",
    "lane_back": "lane before",
    "step_up": "knob up",
    "step_down": "knob down",
    "leap_up": "knob far up",
    "leap_down": "knob far down",
    "mark_all": "mark all",
    "dearest": "most expensive",
    "inside": "inside the screen",
}
"""What the keys' commands are called where their ids don't say it."""
_ALSO = {
    "quit": "exit leave",
    "pause": "resume all admissions",
    "freeze": "view move on",
    "hold": "pause resume agent let go",
    "stop": "kill allow agent",
    "drain": "take requests",
    "raise": "nice urgent",
    "lower": "nice",
    "pin": "auto aimd",
    "start": "url export setup",
}
"""Other words that people look for."""
_KNOBS_TOO = {"limit": "max_concurrency", "ceiling": "max_concurrency", "floor": "aimd.floor", "target": NAMES[4]}
"""What people call knobs, besides their names and the paper's."""


def choices(app: ControlRoom) -> list[Choice]:
    """What can be run from where the operator is."""
    view = app.view
    found = [_key(app, key) for key in here(view.page, absent(view), view.live) if key.id not in _SILENT]
    found += [_knob(app, knob) for knob in NAMES if view.live]
    found += [_sorting(app, column) for column in navigation.columns(view)]
    found += [
        Choice(f"theme {name.removeprefix('hivemind-')}", "the screen in these colours", "", partial(_theme, app, name))
        for name in app.themes
    ]
    found += [
        Choice(f"agent {agent.name}", "look closer", "", partial(_open, app, agent.name), "open")
        for agent in view.snapshot.agents
    ]
    return found


def offers(app: ControlRoom, text: str) -> list[Choice]:
    """What a word and a value make: a knob at a number (`aimd.beta 0.7`, `beta=0.7`), a budget, a level to pin, a
    filter."""
    name, _, value = text.replace("=", " ", 1).strip().partition(" ")
    name, value = name.lower(), value.strip()
    if not value:
        return []
    found = [
        Choice(f"{knob} {value}", f"set it to {value}", reach(knob), partial(_set, app, knob, value))
        for knob in NAMES
        if name in (knob, knob.rpartition(".")[2], DIALS[knob].symbol.lower()) or _KNOBS_TOO.get(name) == knob
    ]
    worded = _WORDED.get(name)
    return [*found, worded(app, value)] if worded is not None and _makes_sense(name, app.view) else found


def worth_copying(view: View) -> str:
    """What somebody who presses copy here most likely wants: the line that sets an agent's base URL, a request's
    number, a line of the log. What a shell may be given is quoted for it; the rest is text on one line."""
    if view.page == "start":
        lines = quick_lines(view.snapshot.address, token=view.token, shell=view.shell)
        return lines[min(view.scroll, len(lines) - 1)][1]
    if view.page == "whatif":
        return what_if_line(view.sheet)
    if view.page == "tasks" and view.task is not None:
        return word(view.shell, view.task.id)
    if view.page in ("requests", "agent", "request") and view.request is not None:
        return clean(f"#{view.request.ticket} {view.request.agent} {view.request.model}".rstrip())
    if view.page == "log" and view.snapshot.lines:
        shown = matching(view.snapshot.lines, view.log_filter, line_fields) or view.snapshot.lines
        line = shown[max(0, len(shown) - 1 - view.log_back)]
        return clean(f"{line.tag} {line.who} {line.text}")
    who = view.agent.name if view.agent is not None else "alice"
    if not view.live:
        return word(view.shell, who)
    return agent_line(Target(view.snapshot.address, who, view.token, view.shell))


def _key(app: ControlRoom, key: Key) -> Choice:
    name = _CALLED.get(key.id, key.id.replace("_", " "))
    also = f"{key.short} {key.group} {_ALSO.get(key.id, '')}"
    return Choice(name, key.help, key.shown, partial(_press, app, key.action), also)


def _knob(app: ControlRoom, knob: str) -> Choice:
    lane, dial, wonder = app.view.lane, DIALS[knob], app.view.page == "whatif"
    now = app.view.sheet.value(knob) if wonder else lane.state.knobs.get(knob) if lane is not None else None
    value = "" if now is None else shown_value(knob, now)
    called = " ".join(word for word, name in _KNOBS_TOO.items() if name == knob)
    ask = partial(what_if.ask_value, app, knob) if wonder else partial(asking.a_knob, app, knob)
    return Choice(knob, f"{dial.label}: {dial.meaning}", value, ask, f"knob {called} {dial.symbol}")


def _sorting(app: ControlRoom, column: str) -> Choice:
    return Choice(f"sort by {column}", "", "", lambda: app.go(navigation.sort_by(app.view, column)))


def _makes_sense(name: str, view: View) -> bool:
    if name == "filter":
        return view.page in OF_AGENTS | OF_REQUESTS | {"log", "tasks"}
    return True if name == "budget" else view.lane is not None


def _budget(app: ControlRoom, value: str) -> Choice:
    meant = frozenset(agent.name for agent in app.view.targets)
    everybody = value.startswith("pool") or not app.view.targets
    who = "all agents together" if everybody else asking.named(app.view.targets)
    value = f"pool {value}" if everybody and not value.startswith("pool") else value
    return Choice(
        f"budget {value}", f"of {who}", "B", lambda: app.steer(lambda view: intents.budget(view, value, meant))
    )


def _filter(app: ControlRoom, value: str) -> Choice:
    return Choice(f"filter {value}", "show only what fits", "/", lambda: app.go(navigation.filtered(app.view, value)))


def _pin(app: ControlRoom, value: str) -> Choice:
    def level(view: View) -> list[Command]:
        if view.lane is None:
            raise Rejected("no lane yet: it opens with the first request")
        return [PinLevel(typed("aimd.floor", value), view.lane.state.lane)]

    return Choice(f"pin {value}", "hold the concurrency level there", "", lambda: app.steer(level))


_WORDED: Mapping[str, Callable[[ControlRoom, str], Choice]] = {"budget": _budget, "filter": _filter, "pin": _pin}


def _press(app: ControlRoom, action: str) -> None:
    # Now, not by way of a message: the next key may be on its way already.
    name, arguments = parsed(action)
    getattr(app, f"action_{name}")(*arguments)


def _theme(app: ControlRoom, name: str) -> None:
    app.theme = name


def _open(app: ControlRoom, name: str) -> None:
    app.go(navigation.open_agent(app.view, name))


def _set(app: ControlRoom, knob: str, value: str) -> None:
    if app.view.page == "whatif":
        what_if.type_in(app, f"{knob}={value}")
        return
    app.steer(lambda view: intents.set_knob(view, knob, value))
