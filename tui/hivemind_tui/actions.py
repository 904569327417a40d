"""What the palette offers: every key's action, the themes, the agents, and knobs by name and number."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

from hivemind.setup import quick_lines
from hivemind.snapshot import AgentView

from . import intents
from .keymap import here
from .tuning import DIALS, NAMES
from .view import View
from .widgets.palette import Choice

if TYPE_CHECKING:
    from .app import ControlRoom

_SILENT = frozenset({"palette", "down", "up", "page_down", "page_up", "first", "last"})
"""Keys that are no commands: they only move about."""


def choices(app: ControlRoom) -> list[Choice]:
    """What can be run from where the operator is."""
    view = app.view
    found = [
        Choice(f"{key.group}: {key.help}", key.shown, partial(_press, app, key.action))
        for key in here(view.page)
        if key.id not in _SILENT
    ]
    found += [Choice(f"theme: {name.removeprefix('hivemind-')}", "", partial(_theme, app, name)) for name in app.themes]
    found += [Choice(f"open agent {agent.name}", "", partial(_open, app, agent.name)) for agent in view.snapshot.agents]
    return found


def offers(app: ControlRoom, text: str) -> list[Choice]:
    """A knob and a number make a choice: `aimd.beta 0.7`, `beta=0.7`."""
    name, _, value = text.replace("=", " ").strip().partition(" ")
    if not name or not value.strip():
        return []
    wanted = name.lower()
    return [
        Choice(f"set {knob} to {value.strip()}", "", partial(_set, app, knob, value))
        for knob in NAMES
        if wanted in (knob, knob.rpartition(".")[2], DIALS[knob].symbol.lower())
    ]


def named(agents: Sequence[AgentView]) -> str:
    """The agent's name, or how many there are."""
    return agents[0].name if len(agents) == 1 else f"{len(agents)} agents"


def worth_copying(view: View) -> str:
    """What somebody who presses copy here most likely wants: an agent's base URL, a request's number, a line."""
    if view.page == "start":
        return quick_lines(view.snapshot.address, token=view.token)[0][1]
    if view.page in ("requests", "agent", "request") and view.request is not None:
        return f"#{view.request.ticket} {view.request.agent} {view.request.model}".rstrip()
    if view.page == "log" and view.snapshot.lines:
        line = view.snapshot.lines[max(0, len(view.snapshot.lines) - 1 - view.log_back)]
        return f"{line.tag} {line.who} {line.text}"
    who = view.agent.name if view.agent is not None else "alice"
    return f"ANTHROPIC_BASE_URL={view.snapshot.address}/agent/{who}"


def _press(app: ControlRoom, action: str) -> None:
    app.call_later(app.run_action, action)


def _theme(app: ControlRoom, name: str) -> None:
    app.theme = name


def _open(app: ControlRoom, name: str) -> None:
    app.action_page("agents")
    app.action_pick_agent(name)


def _set(app: ControlRoom, knob: str, value: str) -> None:
    app.steer(lambda view: intents.set_knob(view, knob, value))
