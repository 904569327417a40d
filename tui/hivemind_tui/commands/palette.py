"""What the palette offers: every key's action, the themes, the columns, the agents, and knobs by name and number."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

from hivemind.scheduler.commands import Command, PinLevel, Rejected
from hivemind_tui.commands import intents, navigation
from hivemind_tui.commands.actions import Actions
from hivemind_tui.commands.steering import named
from hivemind_tui.keys.keymap import Key, here
from hivemind_tui.render.dials import DIALS, NAMES, reach, shown_value, typed
from hivemind_tui.state.view import View
from hivemind_tui.widgets.overlay import Choice

_NAMES: Mapping[str, tuple[str, str]] = {
    "start": ("connect", "url export setup"),
    "dearest": ("most expensive", "dearest cost"),
    "raise": ("priority up", "nice urgent"),
    "lower": ("priority down", "nice"),
    "hold": ("", "pause resume agent let go"),
    "stop": ("", "kill allow agent"),
    "less": ("ceiling down", ""),
    "more": ("ceiling up", ""),
    "pin": ("pin limit", "auto aimd level unpin"),
    "release": ("end pause", "release"),
    "lane": ("next lane", ""),
    "lane_back": ("lane before", ""),
    "step_up": ("knob up", ""),
    "step_down": ("knob down", ""),
    "leap_up": ("knob far up", ""),
    "leap_down": ("knob far down", ""),
    "pause": ("pause all", "freeze all resume admissions"),
    "drain": ("", "accept take requests"),
    "quit": ("", "exit leave"),
    "freeze": ("freeze view", "still unfreeze"),
    "inside": ("diagnostics", "inside the screen"),
}
"""By id of a key, its name here where the id doesn't say it, and further words to find it by."""
_KNOBS_TOO = {"limit": "max_concurrency", "ceiling": "max_concurrency", "floor": "aimd.floor", "target": NAMES[4]}
"""What people call knobs, besides their names and the paper's."""


def choices(room: Actions) -> list[Choice]:
    """What can be run from where the operator is."""
    view = room.view
    found = [_key(room, key) for key in here(view) if key.listed]
    found += [_knob(room, knob) for knob in NAMES if view.live]
    found += [_sorting(room, column) for column in navigation.columns(view)]
    found += [
        Choice(f"theme {name.removeprefix('hivemind-')}", "use these colours", "", partial(room.use_theme, name))
        for name in room.themes
    ]
    found += [
        Choice(f"agent {agent.name}", "look closer", "", partial(_open, room, agent.name), "open")
        for agent in view.snapshot.agents
    ]
    return found


def offers(room: Actions, text: str) -> list[Choice]:
    """What a word and a value make: a knob at a number (`aimd.beta 0.7`, `beta=0.7`), a budget, a level to pin, a
    filter."""
    name, _, value = text.replace("=", " ", 1).strip().partition(" ")
    name, value = name.lower(), value.strip()
    if not value:
        return []
    found = [
        Choice(f"{knob} {value}", f"set it to {value}", reach(knob), partial(_set, room, knob, value))
        for knob in NAMES
        if name in (knob, knob.rpartition(".")[2], DIALS[knob].symbol.lower()) or _KNOBS_TOO.get(name) == knob
    ]
    worded = _WORDED.get(name)
    return [*found, worded(room, value)] if worded is not None and _makes_sense(name, room.view) else found


def _key(room: Actions, key: Key) -> Choice:
    name, words = _NAMES.get(key.id, ("", ""))
    run = partial(room.run_key_action, key.action)
    words = f"{key.label} {key.group} {words}"
    return Choice(name or key.id.replace("_", " "), key.help, key.shown, run, words)


def _knob(room: Actions, knob: str) -> Choice:
    lane, dial, simulated = room.view.lane, DIALS[knob], room.view.page == "whatif"
    now = room.view.what_if.value(knob) if simulated else lane.state.knobs.get(knob) if lane is not None else None
    value = "" if now is None else shown_value(knob, now)
    called = " ".join(word for word, name in _KNOBS_TOO.items() if name == knob)
    ask = partial(room.action_other if simulated else room.ask_knob, knob)
    return Choice(knob, f"{dial.label}: {dial.meaning}", value, ask, f"knob {called} {dial.symbol}")


def _sorting(room: Actions, column: str) -> Choice:
    return Choice(f"sort by {column}", "", "", lambda: room.go(navigation.sort_by(room.view, column)))


def _makes_sense(name: str, view: View) -> bool:
    if name == "filter":
        return view.page in navigation.FILTERED
    return True if name == "budget" else view.lane is not None


def _budget(room: Actions, value: str) -> Choice:
    meant = frozenset(agent.name for agent in room.view.targets)
    everybody = value.startswith("pool") or not room.view.targets
    who = "all agents together" if everybody else named(room.view.targets)
    value = f"pool {value}" if everybody and not value.startswith("pool") else value
    return Choice(
        f"budget {value}", f"of {who}", "B", lambda: room.steer(lambda view: intents.budget(view, value, meant))
    )


def _filter(room: Actions, value: str) -> Choice:
    return Choice(f"filter {value}", "show only what fits", "/", lambda: room.go(navigation.filtered(room.view, value)))


def _pin(room: Actions, value: str) -> Choice:
    def level(view: View) -> list[Command]:
        if view.lane is None:
            raise Rejected("no lane yet: it opens with the first request")
        return [PinLevel(typed("aimd.floor", value), view.lane.state.lane)]

    return Choice(f"pin {value}", "hold the concurrency level there", "", lambda: room.steer(level))


_WORDED: Mapping[str, Callable[[Actions, str], Choice]] = {"budget": _budget, "filter": _filter, "pin": _pin}


def _open(room: Actions, name: str) -> None:
    room.go(navigation.open_agent(room.view, name))


def _set(room: Actions, knob: str, value: str) -> None:
    if room.view.page == "whatif":
        room.set_setting(f"{knob}={value}")
        return
    room.steer(lambda view: intents.set_knob(view, knob, value))
